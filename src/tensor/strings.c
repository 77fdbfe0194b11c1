/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/strings.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"

#include <string.h>

sheaf_status sheaf__string_keep_like(sheaf_tensor *t, const sheaf_tensor *from, sheaf_error *err)
{
    if (!from->buffer)
        return SHEAF_OK;
    /* With owners, the views rest on those; else, as in wrapped memory, on the buffer itself. */
    if (from->buffer->owners)
        return sheaf__buffer_keep_like(t->buffer, from->buffer, err);
    return sheaf__buffer_keep(t->buffer, from->buffer, err);
}

sheaf_status sheaf__strings_check(const sheaf_bytes *strings, size_t count, const char *what,
                                  sheaf_error *err)
{
    if (!strings && count > 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the %zu %ss are NULL", count, what);
    for (size_t i = 0; i < count; i++)
        if (!strings[i].data && strings[i].size > 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s %zu: NULL of %zu bytes", what,
                                i, strings[i].size);
    return SHEAF_OK;
}

static sheaf_status copy_bytes(sheaf_tensor *t, const sheaf_bytes *strings, int64_t count,
                               sheaf_error *err)
{
    size_t total = 0;
    SHEAF__TRY(sheaf__strings_check(strings, (size_t)count, "string", err));
    for (int64_t i = 0; i < count; i++)
        if (__builtin_add_overflow(total, strings[i].size, &total))
            return sheaf__no_memory(err, "strings");
    struct sheaf__buffer *bytes = sheaf__buffer_new(t->device, total, err);
    if (!bytes)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    char *to = bytes->data;
    sheaf_bytes *out = t->data;
    for (int64_t i = 0; i < count; i++) {
        out[i] = (sheaf_bytes){to, strings[i].size};
        if (strings[i].size)
            memcpy(to, strings[i].data, strings[i].size);
        to += strings[i].size;
    }
    sheaf_status status = sheaf__string_keep(t, bytes, err);
    sheaf__unref(bytes);
    return status;
}

sheaf_tensor *sheaf__string_copy(sheaf_shape shape, const sheaf_bytes *strings, sheaf_error *err)
{
    sheaf_tensor *t = sheaf__tensor_new(SHEAF_STRING, shape, NULL, err);
    int64_t count = t ? sheaf_shape_elements(shape) : 0;
    if (count > 0 && strings && copy_bytes(t, strings, count, err) < 0) {
        sheaf__unref(t);
        return NULL;
    }
    return t;
}

/* ---- room ---- */

#define CHUNK ((size_t)64 << 10)

static struct sheaf__buffer *add_chunk(struct sheaf__string_room *room, size_t size,
                                       sheaf_error *err)
{
    if (!sheaf__array_reserve(&room->chunks, &room->capacity, room->count + 1,
                              sizeof(*room->chunks))) {
        sheaf__no_memory(err, "strings");
        return NULL;
    }
    struct sheaf__buffer *chunk = sheaf__buffer_new(NULL, size > CHUNK ? size : CHUNK, err);
    if (chunk) {
        room->chunks[room->count++] = chunk;
        room->used = 0;
    }
    return chunk;
}

char *sheaf__string_room_alloc(struct sheaf__string_room *room, size_t size, sheaf_error *err)
{
    struct sheaf__buffer *chunk = room->count ? room->chunks[room->count - 1] : NULL;
    if (!chunk || size > chunk->size - room->used)
        chunk = add_chunk(room, size, err);
    if (!chunk)
        return NULL;
    char *at = (char *)chunk->data + room->used;
    room->used += size;
    return at;
}

sheaf_status sheaf__string_room_keep(const struct sheaf__string_room *room, sheaf_tensor *t,
                                     sheaf_error *err)
{
    for (size_t i = 0; i < room->count; i++)
        SHEAF__TRY(sheaf__string_keep(t, room->chunks[i], err));
    return SHEAF_OK;
}

void sheaf__string_room_free(struct sheaf__string_room *room)
{
    for (size_t i = 0; i < room->count; i++)
        sheaf__unref(room->chunks[i]);
    sheaf__free(room->chunks);
    *room = (struct sheaf__string_room){0};
}
