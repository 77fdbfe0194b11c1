/* SPDX-License-Identifier: Apache-2.0 */
#include "data/spec.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/rewrite.h"
#include "tensor/kernel.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

/* A copy of `spec` whose components may be changed before it is shared. */
static sheaf_element_spec *copy(const sheaf_element_spec *spec, sheaf_error *err)
{
    return sheaf__spec_new(spec->specs, spec->count, spec->pattern, err);
}

sheaf_status sheaf__spec_batched(const sheaf_element_spec *spec, int64_t size,
                                 sheaf_element_spec **out, sheaf_error *err)
{
    *out = NULL;
    if (!spec)
        return SHEAF_OK;
    sheaf_element_spec *made = copy(spec, err);
    if (!made)
        return err->status;
    for (size_t i = 0; i < made->count; i++) {
        sheaf_shape *shape = &made->specs[i].shape;
        if (shape->rank >= 0 && shape->rank < SHEAF_MAX_RANK)
            *shape = sheaf__shape_prepend(*shape, size);
        else
            shape->rank = SHEAF_UNKNOWN_RANK;
    }
    *out = made;
    return SHEAF_OK;
}

/* First size that is known of all components' first axes; a scalar or unlike sizes are errors. */
static sheaf_status first_size(const sheaf_element_spec *spec, int64_t *size, sheaf_error *err)
{
    bool all = true;
    int64_t known = SHEAF_UNKNOWN_DIM;
    for (size_t i = 0; i < spec->count; i++) {
        const sheaf_shape *shape = &spec->specs[i].shape;
        if (shape->rank == 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "component %zu (\"%.60s\") is a scalar: the elements must be "
                                "batched first",
                                i, spec->specs[i].name);
        int64_t here = shape->rank > 0 ? shape->dims[0] : SHEAF_UNKNOWN_DIM;
        if (here >= 0 && known >= 0 && here != known)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "the components have different first sizes: %lld and %lld",
                                (long long)known, (long long)here);
        all = all && here >= 0;
        known = here >= 0 ? here : known;
    }
    *size = all && spec->count > 0 ? known : SHEAF_UNKNOWN_DIM;
    return SHEAF_OK;
}

sheaf_status sheaf__spec_rows(const sheaf_element_spec *spec, sheaf_element_spec **out,
                              int64_t *rows, sheaf_error *err)
{
    *out = NULL;
    *rows = SHEAF_UNKNOWN_DIM;
    if (!spec)
        return SHEAF_OK;
    SHEAF__TRY(first_size(spec, rows, err));
    sheaf_element_spec *made = copy(spec, err);
    if (!made)
        return err->status;
    for (size_t i = 0; i < made->count; i++)
        if (made->specs[i].shape.rank > 0)
            made->specs[i].shape = sheaf__shape_inner(made->specs[i].shape);
    *out = made;
    return SHEAF_OK;
}

sheaf_status sheaf__spec_resized(const sheaf_element_spec *spec, int64_t size,
                                 sheaf_element_spec **out, sheaf_error *err)
{
    *out = NULL;
    if (!spec)
        return SHEAF_OK;
    sheaf_element_spec *made = copy(spec, err);
    if (!made)
        return err->status;
    for (size_t i = 0; i < made->count; i++)
        if (made->specs[i].shape.rank > 0)
            made->specs[i].shape.dims[0] = size;
    *out = made;
    return SHEAF_OK;
}

const char *sheaf__spec_tuple_name(size_t i, const char *name)
{
    if (!name[0])
        return sheaf__name_of(i);
    char *text = sheaf__printf("%zu.%s", i, name);
    const char *interned = text ? sheaf__name(text) : NULL;
    sheaf__free(text);
    return interned;
}

sheaf_status sheaf__spec_tuple(const sheaf_element_spec *const *specs, size_t count,
                               sheaf_element_spec **out, sheaf_error *err)
{
    size_t width = 0;
    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!specs[i])
            return SHEAF_OK;
        width += specs[i]->count;
    }
    sheaf_tensor_spec *all = sheaf__alloc_array(width, sizeof(*all));
    if (!all)
        return sheaf__no_memory(err, "an element spec");
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < specs[i]->count; k++, n++) {
            all[n] = specs[i]->specs[k];
            all[n].name = sheaf__spec_tuple_name(i, all[n].name);
            if (!all[n].name) {
                sheaf__free(all);
                return sheaf__no_memory(err, "an element spec");
            }
        }
    }
    *out = sheaf__spec_new(all, width, 0, err);
    sheaf__free(all);
    return *out ? SHEAF_OK : err->status;
}

/* ---- for distribution ---- */

bool sheaf__spec_is_static(const sheaf_element_spec *spec)
{
    bool known = spec != NULL;
    for (size_t i = 0; known && i < spec->count; i++)
        known = sheaf_shape_elements(spec->specs[i].shape) >= 0;
    return known;
}

sheaf_element_spec *sheaf__spec_any_batch(const sheaf_element_spec *spec)
{
    sheaf_error ignored;
    sheaf_element_spec *out = NULL;
    sheaf__spec_resized(spec, SHEAF_UNKNOWN_DIM, &out, &ignored);
    return out;
}

/* Shape of a dummy (R3.15), as the spec says; without one, as a real tensor is. Where there is one no dummy has rows, not
 * even of a shape that is partly known. */
static sheaf_shape dummy_shape(sheaf_shape shape, const sheaf_tensor *like)
{
    if (shape.rank <= 0 && !like)
        return SHEAF_SCALAR;
    bool known = true;
    if (like && shape.rank != like->shape.rank)
        shape = like->shape;
    for (int i = 0; i < shape.rank; i++) {
        known = known && shape.dims[i] >= 0;
        shape.dims[i] = shape.dims[i] < 0 ? 0 : shape.dims[i];
    }
    if (shape.rank > 0 && (known || like))
        shape.dims[0] = 0;
    return shape;
}

static sheaf_tensor *zeros(sheaf_dtype dtype, sheaf_shape shape, sheaf_error *err)
{
    sheaf_tensor *t = sheaf__tensor_new(dtype, shape, NULL, err);
    if (t && dtype != SHEAF_STRING && sheaf__tensor_size(t) > 0)
        memset(t->data, 0, sheaf__tensor_size(t));
    return t;
}

/* No entries of a sparse tensor (R3.17). */
static sheaf_tensor *dummy_sparse(sheaf_dtype dtype, sheaf_shape shape, sheaf_error *err)
{
    sheaf_tensor *indices = zeros(SHEAF_INT64, SHEAF_SHAPE(0, shape.rank), err);
    sheaf_tensor *values = indices ? zeros(dtype, SHEAF_SHAPE(0), err) : NULL;
    sheaf_tensor *t = values ? sheaf__tensor_sparse(indices, values, shape, err) : NULL;
    sheaf__unref(indices);
    sheaf__unref(values);
    return t;
}

static sheaf_tensor *dummy(sheaf_dtype dtype, sheaf_shape shape, const sheaf_tensor *like,
                           sheaf_error *err);

/* No rows of a ragged tensor (R3.16): the splits of every level are [0]. */
static sheaf_tensor *dummy_ragged(const sheaf_tensor *like, sheaf_error *err)
{
    const sheaf_tensor *inner = like->parts[SHEAF__RAGGED_VALUES];
    sheaf_tensor *values = dummy(inner->dtype, inner->shape, inner, err);
    sheaf_tensor *splits = values ? zeros(SHEAF_INT64, SHEAF_SHAPE(1), err) : NULL;
    sheaf_tensor *t = splits ? sheaf__tensor_ragged(values, splits, err) : NULL;
    sheaf__unref(values);
    sheaf__unref(splits);
    return t;
}

static sheaf_tensor *dummy(sheaf_dtype dtype, sheaf_shape shape, const sheaf_tensor *like,
                           sheaf_error *err)
{
    shape = dummy_shape(shape, like);
    if (like && like->layout == SHEAF__RAGGED)
        return dummy_ragged(like, err);
    if (like && like->layout == SHEAF__SPARSE)
        return dummy_sparse(dtype, shape, err);
    return zeros(dtype, shape, err);
}

static sheaf_tensor_spec component(const sheaf_element_spec *spec, const sheaf_element *like,
                                   size_t i)
{
    if (spec)
        return spec->specs[i];
    const sheaf_tensor *t = like->items[i].tensor;
    return (sheaf_tensor_spec){like->items[i].name, t->dtype, t->shape};
}

sheaf_element *sheaf__spec_dummy(const sheaf_element_spec *spec, const sheaf_element *like)
{
    sheaf_error err;
    sheaf_element *e = spec || like ? sheaf__element_new(&err) : NULL;
    if (!e)
        return NULL;
    e->pattern = spec ? spec->pattern : like->pattern;
    size_t count = spec ? spec->count : like->count;
    for (size_t i = 0; i < count; i++) {
        sheaf_tensor_spec s = component(spec, like, i);
        const sheaf_tensor *real = like && i < like->count ? like->items[i].tensor : NULL;
        sheaf_tensor *t = dummy(s.dtype, s.shape, real, &err);
        sheaf_status status = t ? sheaf__element_add(e, s.name, t, &err) : err.status;
        sheaf__unref(t);
        if (status < 0) {
            sheaf__unref(e);
            return NULL;
        }
    }
    return e;
}
