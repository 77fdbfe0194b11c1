/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/world.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdatomic.h>

/* Counts the worlds that ended, so that a thread does not trust what it remembers of a context that
 * is gone, whose address another may have now. */
static _Atomic uint64_t ended;

static _Thread_local struct {
    sheaf_context *context;
    struct sheaf__world *world;
    uint64_t ended;
} remembered;

static void destroy(void *value)
{
    struct sheaf__world *world = value;
    atomic_fetch_add(&ended, 1);
    sheaf__names_delete(world->names);
    sheaf__devices_delete(world->devices);
    sheaf__heap_delete(world->heap);
    sheaf__free(world);
}

static sheaf_status create(sheaf_context *context, void **value, sheaf_error *err)
{
    struct sheaf__world *world = sheaf__calloc(1, sizeof(*world));
    if (!world)
        return sheaf__no_memory(err, "tensors of a context");
    world->context = context;
    world->heap = sheaf__heap_new(err);
    if (world->heap)
        world->devices = sheaf__devices_new(world, err);
    if (world->devices)
        world->names = sheaf__names_new(err);
    if (!world->names) {
        destroy(world);
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    }
    *value = world;
    return SHEAF_OK;
}

static const struct sheaf__slot slot = {"tensors", create, destroy};

struct sheaf__world *sheaf__world(sheaf_error *err)
{
    sheaf_context *context = sheaf__context();
    uint64_t now = atomic_load_explicit(&ended, memory_order_acquire);
    if (remembered.context == context && remembered.ended == now)
        return remembered.world;
    void *value = NULL;
    if (sheaf__context_slot(context, &slot, &value, err) < 0)
        return NULL;
    remembered.context = context;
    remembered.world = value;
    remembered.ended = now;
    return value;
}

struct sheaf__heap *sheaf__heap_current(sheaf_error *err)
{
    struct sheaf__world *world = sheaf__world(err);
    return world ? world->heap : NULL;
}
