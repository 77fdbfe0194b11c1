/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/spec.h"

#include "base/error.h"
#include "tensor/frame.h"
#include "tensor/heap.h"
#include "tensor/shape.h"

#include <string.h>

static void destroy(void *object)
{
    sheaf_element_spec *spec = object;
    sheaf__heap_free(spec->heap, spec, spec->bytes);
}

static const struct sheaf__class spec_class = {"element spec", destroy};

static sheaf_element_spec *make(size_t count, char pattern, sheaf_error *err)
{
    struct sheaf__heap *heap = sheaf__heap_current(err);
    sheaf_element_spec *spec = NULL;
    size_t bytes;
    if (heap && !__builtin_mul_overflow(count, sizeof(spec->specs[0]), &bytes) &&
        !__builtin_add_overflow(bytes, sizeof(*spec), &bytes))
        spec = sheaf__heap_alloc(heap, bytes);
    if (!spec) {
        sheaf__no_memory(err, "an element spec");
        return NULL;
    }
    sheaf__object_init(&spec->object, &spec_class);
    spec->heap = heap;
    spec->bytes = bytes;
    spec->count = count;
    spec->pattern = pattern;
    return spec;
}

sheaf_element_spec *sheaf__spec_new(const sheaf_tensor_spec *specs, size_t count, char pattern,
                                    sheaf_error *err)
{
    if (!specs && count) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the specs of %zu tensors are NULL", count);
        return NULL;
    }
    sheaf_element_spec *spec = make(count, pattern, err);
    for (size_t i = 0; spec && i < count; i++) {
        const char *name = specs[i].name;
        spec->specs[i] = specs[i];
        if (name)
            spec->specs[i].name = sheaf__name(name);
        else
            spec->specs[i].name = count == 1 ? sheaf__name("") : sheaf__name_of(i);
        if (!spec->specs[i].name) {
            sheaf__no_memory(err, "a name");
            sheaf__unref(spec);
            return NULL;
        }
    }
    return spec;
}

sheaf_element_spec *sheaf__spec_of(const sheaf_element *e, sheaf_error *err)
{
    sheaf_element_spec *spec = make(e->count, e->pattern, err);
    for (size_t i = 0; spec && i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        spec->specs[i] = (sheaf_tensor_spec){
            .name = e->items[i].name,
            .dtype = sheaf_tensor_dtype(t),
            .shape = sheaf_tensor_shape(t),
        };
    }
    return spec;
}

sheaf_element_spec *sheaf__spec_of_tensor(sheaf_dtype dtype, sheaf_shape shape, sheaf_error *err)
{
    sheaf_tensor_spec only = {.name = "", .dtype = dtype, .shape = shape};
    return sheaf__spec_new(&only, 1, 0, err);
}

/* ---- comparing ---- */

static sheaf_status check_counts(size_t expected, size_t found, sheaf_error *err)
{
    if (expected == found)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%zu tensors, expected %zu", found,
                        expected);
}

static sheaf_status check_one(const sheaf_tensor_spec *expected, const sheaf_tensor_spec *found,
                              size_t i, sheaf_error *err)
{
    if (strcmp(expected->name, found->name))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "tensor %zu is named '%s', expected '%s'", i, found->name,
                            expected->name);
    if (expected->dtype != found->dtype)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "tensor '%s' is %s, expected %s",
                            found->name, sheaf_dtype_name(found->dtype),
                            sheaf_dtype_name(expected->dtype));
    return SHEAF_OK;
}

static sheaf_shape merge_shapes(sheaf_shape a, sheaf_shape b)
{
    if (a.rank != b.rank)
        return (sheaf_shape){.rank = SHEAF_UNKNOWN_RANK};
    for (int i = 0; i < a.rank; i++)
        if (a.dims[i] != b.dims[i])
            a.dims[i] = SHEAF_UNKNOWN_DIM;
    return a;
}

sheaf_element_spec *sheaf__spec_merge(const sheaf_element_spec *a, const sheaf_element_spec *b,
                                      sheaf_error *err)
{
    if (check_counts(a->count, b->count, err) < 0)
        return NULL;
    sheaf_element_spec *spec = sheaf__spec_new(a->specs, a->count, a->pattern, err);
    for (size_t i = 0; spec && i < a->count; i++) {
        if (check_one(&a->specs[i], &b->specs[i], i, err) < 0) {
            sheaf__unref(spec);
            return NULL;
        }
        spec->specs[i].shape = merge_shapes(a->specs[i].shape, b->specs[i].shape);
    }
    return spec;
}

bool sheaf__spec_covers(const sheaf_element_spec *wide, const sheaf_element_spec *narrow)
{
    bool covers = wide && narrow && wide->count == narrow->count;
    for (size_t i = 0; covers && i < wide->count; i++)
        covers = check_one(&wide->specs[i], &narrow->specs[i], i, NULL) >= 0 &&
                 sheaf__shape_fits(wide->specs[i].shape, narrow->specs[i].shape);
    return covers;
}

char sheaf__spec_pattern(const sheaf_element_spec *spec)
{
    return spec->pattern
               ? spec->pattern
               : sheaf__name_pattern(&spec->specs[0].name, sizeof(spec->specs[0]), spec->count);
}

/* ---- public ---- */

static sheaf_element_spec *hand_out(sheaf_element_spec *spec, const sheaf_error *err)
{
    if (!spec)
        sheaf__frame_latch(err);
    return sheaf__frame_own(spec);
}

sheaf_element_spec *sheaf_element_spec_new(const sheaf_tensor_spec *specs, size_t count)
{
    sheaf_error err;
    return hand_out(sheaf__spec_new(specs, count, 0, &err), &err);
}

sheaf_element_spec *sheaf_element_spec_of(const sheaf_element *e)
{
    sheaf_error err;
    sheaf_element_spec *spec = NULL;
    if (e)
        spec = sheaf__spec_of(e, &err);
    else
        sheaf__error(&err, SHEAF_ERR_INVALID_ARGUMENT, "element is NULL");
    return hand_out(spec, &err);
}

size_t sheaf_element_spec_size(const sheaf_element_spec *spec)
{
    return spec ? spec->count : 0;
}

sheaf_tensor_spec sheaf_element_spec_at(const sheaf_element_spec *spec, size_t i)
{
    if (spec && i < spec->count)
        return spec->specs[i];
    return (sheaf_tensor_spec){.shape.rank = SHEAF_UNKNOWN_RANK};
}

/* What fits and is soon seen: names are mostly the same string, as they are interned. */
static bool is_usual(const sheaf_tensor_spec *spec, const struct sheaf__element_item *item)
{
    const sheaf_tensor *t = item->tensor;
    return spec->name == item->name && spec->dtype == t->dtype &&
           sheaf__shape_fits(spec->shape, t->shape);
}

sheaf_status sheaf_element_spec_check(const sheaf_element_spec *spec, const sheaf_element *e,
                                      sheaf_error *err)
{
    if (!spec || !e)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s is NULL",
                            spec ? "element" : "element spec");
    SHEAF__TRY(sheaf__element_status(e, err));
    SHEAF__TRY(check_counts(spec->count, e->count, err));
    for (size_t i = 0; i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        if (is_usual(&spec->specs[i], &e->items[i]))
            continue;
        sheaf_tensor_spec found = {.name = e->items[i].name, .dtype = t->dtype, .shape = t->shape};
        SHEAF__TRY(check_one(&spec->specs[i], &found, i, err));
        if (!sheaf__shape_fits(spec->specs[i].shape, t->shape))
            return sheaf__error(
                err, SHEAF_ERR_INVALID_ARGUMENT, "tensor '%s' has shape %s, expected %s",
                found.name, SHEAF__SHAPE_TEXT(t->shape), SHEAF__SHAPE_TEXT(spec->specs[i].shape));
    }
    return SHEAF_OK;
}

bool sheaf_element_spec_equal(const sheaf_element_spec *a, const sheaf_element_spec *b)
{
    if (!a || !b)
        return a == b;
    if (a->count != b->count || sheaf__spec_pattern(a) != sheaf__spec_pattern(b))
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (check_one(&a->specs[i], &b->specs[i], i, NULL) < 0 ||
            !sheaf_shape_equal(a->specs[i].shape, b->specs[i].shape))
            return false;
    return true;
}

sheaf_element_spec *sheaf_element_spec_keep(const sheaf_element_spec *spec)
{
    return sheaf__ref((sheaf_element_spec *)(uintptr_t)spec);
}

void sheaf_element_spec_free(sheaf_element_spec *spec)
{
    sheaf__unref(spec);
}
