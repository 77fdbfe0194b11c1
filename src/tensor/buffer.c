/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/buffer.h"

#include "base/error.h"
#include "tensor/device.h"
#include "tensor/heap.h"

#include <string.h>

/* What a buffer keeps alive, in pooled blocks. */
#define PER_BLOCK 6
struct sheaf__owners {
    struct sheaf__owners *next;
    size_t count;
    void *items[PER_BLOCK];
};

_Static_assert(sizeof(struct sheaf__buffer) <= SHEAF__BUFFER_HEAD, "storage follows the head");

static void destroy(void *object)
{
    struct sheaf__buffer *buffer = object;
    struct sheaf__heap *heap = buffer->device->heap;
    struct sheaf__owners *owners = buffer->owners;
    while (owners) {
        struct sheaf__owners *next = owners->next;
        for (size_t i = 0; i < owners->count; i++)
            sheaf__unref(owners->items[i]);
        sheaf__heap_free(heap, owners, sizeof(*owners));
        owners = next;
    }
    if (buffer->release)
        buffer->release(buffer->data, buffer->user);
    size_t storage = sheaf__buffer_pooled(buffer) ? buffer->size : 0;
    sheaf__heap_free(heap, buffer, SHEAF__BUFFER_HEAD + storage);
}

static const struct sheaf__class buffer_class = {"buffer", destroy};

static struct sheaf__buffer *make(struct sheaf__device *device, size_t storage, sheaf_error *err)
{
    struct sheaf__buffer *buffer = NULL;
    if (storage <= SIZE_MAX - SHEAF__BUFFER_HEAD)
        buffer = sheaf__heap_alloc(device->heap, SHEAF__BUFFER_HEAD + storage);
    if (!buffer) {
        sheaf__error(err, SHEAF_ERR_RESOURCE_EXHAUSTED, "not enough memory for %zu bytes", storage);
        return NULL;
    }
    memset(buffer, 0, sizeof(*buffer));
    sheaf__object_init(&buffer->object, &buffer_class);
    buffer->device = device;
    return buffer;
}

struct sheaf__buffer *sheaf__buffer_host(struct sheaf__device *device, size_t size,
                                         sheaf_error *err)
{
    struct sheaf__buffer *buffer = make(device, size, err);
    if (buffer) {
        buffer->data = (char *)buffer + SHEAF__BUFFER_HEAD;
        buffer->size = size;
    }
    return buffer;
}

struct sheaf__buffer *sheaf__buffer_new(struct sheaf__device *device, size_t size, sheaf_error *err)
{
    if (!device)
        device = sheaf__device_host(err);
    return device ? device->cls->allocate(device, size, err) : NULL;
}

struct sheaf__buffer *sheaf__buffer_wrap(void *data, size_t size,
                                         void (*release)(void *data, void *user), void *user,
                                         sheaf_error *err)
{
    struct sheaf__device *device = sheaf__device_host(err);
    struct sheaf__buffer *buffer = device ? make(device, 0, err) : NULL;
    if (!buffer) {
        if (release)
            release(data, user);
        return NULL;
    }
    buffer->data = data;
    buffer->size = size;
    buffer->release = release;
    buffer->user = user;
    return buffer;
}

/* Looks among the latest only: views of a few files take turns, and of many objects each comes
 * once, where a search through all would cost more than a count. */
static bool is_kept(const struct sheaf__buffer *buffer, const void *object)
{
    int blocks = 3;
    for (const struct sheaf__owners *o = buffer->owners; o && blocks-- > 0; o = o->next)
        for (size_t i = o->count; i-- > 0;)
            if (o->items[i] == object)
                return true;
    return false;
}

sheaf_status sheaf__buffer_keep(struct sheaf__buffer *buffer, void *object, sheaf_error *err)
{
    if (!object || is_kept(buffer, object))
        return SHEAF_OK;
    if (!buffer->owners || buffer->owners->count == PER_BLOCK) {
        struct sheaf__owners *owners = sheaf__heap_alloc(buffer->device->heap, sizeof(*owners));
        if (!owners)
            return sheaf__no_memory(err, "the owners of a buffer");
        owners->next = buffer->owners;
        owners->count = 0;
        buffer->owners = owners;
    }
    buffer->owners->items[buffer->owners->count++] = sheaf__ref(object);
    return SHEAF_OK;
}

sheaf_status sheaf__buffer_keep_like(struct sheaf__buffer *buffer, const struct sheaf__buffer *from,
                                     sheaf_error *err)
{
    for (const struct sheaf__owners *o = from->owners; o; o = o->next)
        for (size_t i = 0; i < o->count; i++)
            SHEAF__TRY(sheaf__buffer_keep(buffer, o->items[i], err));
    return SHEAF_OK;
}

void *sheaf__buffer_find(const struct sheaf__buffer *buffer,
                         bool (*match)(void *object, const void *user), const void *user)
{
    for (const struct sheaf__owners *o = buffer->owners; o; o = o->next)
        for (size_t i = 0; i < o->count; i++) {
            const struct sheaf__object *kept = o->items[i];
            void *found = match(o->items[i], user) ? o->items[i] : NULL;
            if (!found && kept->cls == buffer->object.cls)
                found = sheaf__buffer_find(o->items[i], match, user);
            if (found)
                return found;
        }
    return NULL;
}
