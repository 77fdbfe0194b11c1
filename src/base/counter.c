/* SPDX-License-Identifier: Apache-2.0 */
#include "base/counter.h"

#include "base/context_state.h"
#include "base/mem.h"

struct sheaf__counter *sheaf__counter_get(sheaf_context *context, const char *name)
{
    static struct sheaf__counter nobody;
    sheaf__mutex_lock(&context->counter_lock);
    struct sheaf__counter *c = sheaf__strmap_get(&context->counters, name);
    if (!c && (c = sheaf__calloc(1, sizeof(*c))) &&
        !sheaf__strmap_set(&context->counters, name, c, NULL)) {
        sheaf__free(c);
        c = NULL;
    }
    sheaf__mutex_unlock(&context->counter_lock);
    return c ? c : &nobody;
}

void sheaf__count(const char *name, uint64_t n)
{
    sheaf__counter_add(sheaf__counter_get(sheaf__context(), name), n);
}

uint64_t sheaf_counter(const char *name)
{
    sheaf_context *context = sheaf__context();
    if (!name)
        return 0;
    sheaf__mutex_lock(&context->counter_lock);
    struct sheaf__counter *c = sheaf__strmap_get(&context->counters, name);
    sheaf__mutex_unlock(&context->counter_lock);
    return c ? atomic_load_explicit(&c->value, memory_order_relaxed) : 0;
}

sheaf_status sheaf_counter_get(size_t i, const char **name, uint64_t *value)
{
    sheaf_context *context = sheaf__context();
    size_t at = i; /* counters are never removed: the i-th entry is the i-th counter */
    sheaf__mutex_lock(&context->counter_lock);
    struct sheaf__map_entry *e = sheaf__strmap_next(&context->counters, &at);
    const char *key = e ? e->key : NULL;
    struct sheaf__counter *c = e ? e->value : NULL;
    sheaf__mutex_unlock(&context->counter_lock);
    if (!c)
        return SHEAF_END;
    if (name)
        *name = key;
    if (value)
        *value = atomic_load_explicit(&c->value, memory_order_relaxed);
    return SHEAF_OK;
}

void sheaf__counter_free(sheaf_context *context)
{
    sheaf__strmap_clear(&context->counters, sheaf__free);
}
