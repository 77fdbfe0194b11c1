/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/values.h"

#include "base/error.h"
#include "distribute/strategy.h"
#include "tensor/frame.h"
#include "tensor/heap.h"

#include <string.h>

static size_t size_of(int count)
{
    return sizeof(sheaf_values) + (size_t)count * sizeof(sheaf_element *);
}

static void values_destroy(void *object)
{
    sheaf_values *v = object;
    for (int i = 0; i < v->count; i++)
        sheaf_element_free(v->components[i]);
    sheaf__heap_free(v->heap, v, size_of(v->count));
}

static const struct sheaf__class values_class = {"values", values_destroy};

sheaf_values *sheaf__values_new(sheaf_element *const *components, int count, bool per_replica,
                                sheaf_error *err)
{
    struct sheaf__heap *heap = sheaf__heap_current(err);
    sheaf_values *v = heap ? sheaf__heap_alloc(heap, size_of(count)) : NULL;
    if (!v) {
        sheaf__no_memory(err, "distributed values");
        return NULL;
    }
    v->heap = heap;
    v->shared = 0;
    sheaf__object_init(&v->object, &values_class);
    v->count = count;
    v->per_replica = per_replica;
    v->examples = -1;
    for (int i = 0; i < count; i++)
        v->components[i] = sheaf_element_keep(components[i]);
    return v;
}

sheaf_element *sheaf__values_component(const sheaf_values *v, int local)
{
    if (!v->per_replica)
        local = 0;
    return local < v->count ? v->components[local] : NULL;
}

/* Regrouping. */

static bool same_plain(const sheaf_tensor *a, const sheaf_tensor *b)
{
    if (!a->plain || !b->plain || a->dtype != b->dtype)
        return false;
    const void *x = sheaf_tensor_data(a), *y = sheaf_tensor_data(b);
    return x && y && memcmp(x, y, sheaf_dtype_size(a->dtype)) == 0;
}

/* Whether field `i` is one value on all replicas. */
static bool field_shared(sheaf_element *const *outs, int count, size_t i)
{
    sheaf_tensor *first = outs[0]->items[i].tensor;
    for (int r = 1; r < count; r++) {
        sheaf_tensor *other = outs[r]->items[i].tensor;
        if (other != first && !same_plain(first, other))
            return false;
    }
    return true;
}

sheaf_status sheaf__values_check(sheaf_element *const *outs, int count, sheaf_error *err)
{
    for (int r = 1; r < count; r++) {
        if (outs[r]->count != outs[0]->count)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "replica %d has %zu tensors, replica 0 has %zu", r, outs[r]->count,
                                outs[0]->count);
        for (size_t i = 0; i < outs[0]->count; i++)
            if (strcmp(outs[r]->items[i].name, outs[0]->items[i].name) != 0)
                return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                    "tensor %zu is named '%s' on replica %d and '%s' on replica 0",
                                    i, outs[r]->items[i].name, r, outs[0]->items[i].name);
    }
    return SHEAF_OK;
}

sheaf_values *sheaf__values_regroup(sheaf_element *const *outs, int count, sheaf_error *err)
{
    if (sheaf__values_check(outs, count, err) < 0)
        return NULL;
    if (outs[0]->count > 64) {
        sheaf__error(err, SHEAF_ERR_UNIMPLEMENTED,
                     "a step's result of %zu tensors, expected at most 64", outs[0]->count);
        return NULL;
    }
    uint64_t shared = 0;
    for (size_t i = 0; count > 1 && i < outs[0]->count; i++)
        if (field_shared(outs, count, i))
            shared |= UINT64_C(1) << i;
    uint64_t all = outs[0]->count == 64 ? UINT64_MAX : (UINT64_C(1) << outs[0]->count) - 1;
    if (count == 1 || shared == all)
        return sheaf__values_new(outs, 1, false, err);
    sheaf_values *v = sheaf__values_new(outs, count, true, err);
    if (v)
        v->shared = shared;
    return v;
}

/* Public. */

/* Reduction and printing take field i of every component. */
static sheaf_status check_components(sheaf_element *const *elements, int count, sheaf_error *err)
{
    if (count < 1 || count > SHEAF__MOST_REPLICAS)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%d components of a PerReplica, expected 1 to %d", count,
                            SHEAF__MOST_REPLICAS);
    for (int i = 0; i < count; i++)
        if (!elements || !elements[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "component %d of a distributed value is NULL", i);
    return sheaf__values_check(elements, count, err);
}

static sheaf_values *give(sheaf_values *v, const sheaf_error *err)
{
    if (!v)
        sheaf__frame_latch(err);
    return sheaf__frame_own(v);
}

sheaf_values *sheaf_values_of(sheaf_element *e)
{
    sheaf_error err = {0};
    if (check_components(&e, 1, &err) < 0)
        return give(NULL, &err);
    return give(sheaf__values_new(&e, 1, false, &err), &err);
}

sheaf_values *sheaf_values_tensor(sheaf_tensor *t)
{
    return sheaf_values_of(sheaf_element_of(t));
}

sheaf_values *sheaf_values_per_replica(sheaf_element *const *elements, int count)
{
    sheaf_error err = {0};
    if (check_components(elements, count, &err) < 0)
        return give(NULL, &err);
    return give(sheaf__values_new(elements, count, true, &err), &err);
}

int sheaf_values_count(const sheaf_values *v)
{
    return v ? v->count : 0;
}

int64_t sheaf_values_examples(const sheaf_values *v)
{
    return v ? v->examples : -1;
}

bool sheaf_values_is_per_replica(const sheaf_values *v)
{
    return v && v->per_replica;
}

sheaf_element *sheaf_values_at(const sheaf_values *v, int i)
{
    return v && i >= 0 && i < v->count ? v->components[i] : NULL;
}

sheaf_tensor *sheaf_values_get(const sheaf_values *v, int i, const char *name)
{
    sheaf_element *e = sheaf_values_at(v, v && !v->per_replica ? 0 : i);
    if (!e)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                  "component %d of a distributed value of %d", i, v ? v->count : 0);
    return sheaf_element_get(e, name);
}

sheaf_values *sheaf_values_keep(sheaf_values *v)
{
    return sheaf__ref(v);
}

void sheaf_values_free(sheaf_values *v)
{
    sheaf__unref(v);
}
