/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context_state.h"
#include "base/error.h"
#include "base/mem.h"

void *sheaf__context_peek(sheaf_context *context, const struct sheaf__slot *slot)
{
    void *value = NULL;
    sheaf__mutex_lock(&context->slot_lock);
    for (size_t i = 0; i < context->slot_count && !value; i++)
        if (context->slots[i].slot == slot)
            value = context->slots[i].value;
    sheaf__mutex_unlock(&context->slot_lock);
    return value;
}

static bool keep(sheaf_context *context, const struct sheaf__slot *slot, void *value)
{
    sheaf__mutex_lock(&context->slot_lock);
    bool room = sheaf__array_reserve(&context->slots, &context->slot_capacity,
                                     context->slot_count + 1, sizeof(*context->slots));
    if (room)
        context->slots[context->slot_count++] = (struct sheaf__slot_value){slot, value};
    sheaf__mutex_unlock(&context->slot_lock);
    return room;
}

static sheaf_status make(sheaf_context *context, const struct sheaf__slot *slot, void **value,
                         sheaf_error *err)
{
    void *made = NULL;
    SHEAF__TRY(slot->create(context, &made, err));
    if (!keep(context, slot, made)) {
        slot->destroy(made);
        return sheaf__no_memory(err, slot->name);
    }
    *value = made;
    return SHEAF_OK;
}

sheaf_status sheaf__context_slot(sheaf_context *context, const struct sheaf__slot *slot,
                                 void **value, sheaf_error *err)
{
    void *found = sheaf__context_peek(context, slot);
    if (found) {
        *value = found;
        return SHEAF_OK;
    }
    /* One maker at a time; what it makes may ask for other slots, on the same thread. */
    bool inside = atomic_load(&context->slot_maker) == sheaf__thread_id();
    if (!inside) {
        sheaf__mutex_lock(&context->slot_making);
        atomic_store(&context->slot_maker, sheaf__thread_id());
    }
    sheaf_status status = SHEAF_OK;
    found = sheaf__context_peek(context, slot);
    if (found)
        *value = found;
    else
        status = make(context, slot, value, err);
    if (!inside) {
        atomic_store(&context->slot_maker, 0);
        sheaf__mutex_unlock(&context->slot_making);
    }
    return status;
}

void sheaf__slot_destroy_all(sheaf_context *context)
{
    for (;;) {
        struct sheaf__slot_value last = {0};
        sheaf__mutex_lock(&context->slot_lock);
        if (context->slot_count)
            last = context->slots[--context->slot_count];
        sheaf__mutex_unlock(&context->slot_lock);
        if (!last.slot)
            break;
        last.slot->destroy(last.value);
    }
    sheaf__free(context->slots);
    context->slots = NULL;
    context->slot_capacity = 0;
}
