/* SPDX-License-Identifier: Apache-2.0 */
#include "data/join.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <string.h>

static sheaf_status check(sheaf_tensor *const *parts, size_t count, sheaf_error *err)
{
    const sheaf_tensor *a = parts[0];
    for (size_t i = 1; i < count; i++) {
        const sheaf_tensor *b = parts[i];
        bool same = a->layout == b->layout && a->dtype == b->dtype;
        if (same && a->layout == SHEAF__DENSE)
            same = sheaf_shape_equal(sheaf__shape_inner(a->shape), sheaf__shape_inner(b->shape));
        else if (same && a->layout == SHEAF__SPARSE)
            same = a->shape.rank == b->shape.rank;
        if (!same)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "batches do not go together: %s of shape %s and %s of shape %s",
                                sheaf_dtype_name(a->dtype), SHEAF__SHAPE_TEXT(a->shape),
                                sheaf_dtype_name(b->dtype), SHEAF__SHAPE_TEXT(b->shape));
    }
    return SHEAF_OK;
}

static sheaf_tensor *join_dense(sheaf_tensor *const *parts, size_t count, sheaf_error *err)
{
    sheaf_shape shape = parts[0]->shape;
    for (size_t i = 1; i < count; i++)
        shape.dims[0] += parts[i]->shape.dims[0];
    sheaf_tensor *out = sheaf__tensor_new(parts[0]->dtype, shape, NULL, err);
    char *to = out ? out->data : NULL;
    for (size_t i = 0; out && i < count; i++) {
        if (sheaf__tensor_copy_out(parts[i], to, err) < 0 ||
            (out->dtype == SHEAF_STRING && sheaf__string_keep_like(out, parts[i], err) < 0)) {
            sheaf__unref(out);
            out = NULL;
        }
        to += sheaf__tensor_size(parts[i]);
    }
    return out;
}

/* Joins part `which` of every tensor. */
static sheaf_tensor *join_inner(sheaf_tensor *const *parts, size_t count, int which,
                                sheaf_error *err)
{
    sheaf_tensor **inner = sheaf__alloc_array(count, sizeof(*inner));
    if (!inner) {
        sheaf__no_memory(err, "a batch");
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        inner[i] = parts[i]->parts[which];
    sheaf_tensor *out = sheaf__join(inner, count, err);
    sheaf__free(inner);
    return out;
}

static sheaf_tensor *join_sparse(sheaf_tensor *const *parts, size_t count, sheaf_error *err)
{
    sheaf_shape shape = parts[0]->shape;
    sheaf_tensor *indices = join_inner(parts, count, SHEAF__INDICES, err);
    sheaf_tensor *values = indices ? join_inner(parts, count, SHEAF__VALUES, err) : NULL;
    sheaf_tensor *out = NULL;
    if (values) {
        int64_t *at = indices->data, rows = 0;
        for (size_t i = 0; i < count; i++) {
            int64_t entries = parts[i]->parts[SHEAF__VALUES]->shape.dims[0];
            for (int64_t k = 0; k < entries; k++, at += shape.rank)
                at[0] += rows;
            rows += parts[i]->shape.dims[0];
            for (int r = 1; r < shape.rank; r++)
                if (parts[i]->shape.dims[r] > shape.dims[r])
                    shape.dims[r] = parts[i]->shape.dims[r];
        }
        shape.dims[0] = rows;
        out = sheaf__tensor_sparse(indices, values, shape, err);
    }
    sheaf__unref(indices);
    sheaf__unref(values);
    return out;
}

static sheaf_tensor *join_ragged(sheaf_tensor *const *parts, size_t count, sheaf_error *err)
{
    int64_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += sheaf__rows_in(parts[i]);
    sheaf_tensor *values = join_inner(parts, count, SHEAF__RAGGED_VALUES, err);
    sheaf_tensor *splits =
        values ? sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE(rows + 1), NULL, err) : NULL;
    sheaf_tensor *out = NULL;
    if (splits) {
        int64_t *to = splits->data, base = 0;
        *to++ = 0;
        for (size_t i = 0; i < count; i++) {
            const int64_t *from = parts[i]->parts[SHEAF__ROW_SPLITS]->data;
            int64_t n = sheaf__rows_in(parts[i]);
            for (int64_t k = 1; k <= n; k++)
                *to++ = base + from[k];
            base += from[n];
        }
        out = sheaf__tensor_ragged(values, splits, err);
    }
    sheaf__unref(splits);
    sheaf__unref(values);
    return out;
}

sheaf_tensor *sheaf__join(sheaf_tensor *const *parts, size_t count, sheaf_error *err)
{
    if (check(parts, count, err) < 0)
        return NULL;
    if (parts[0]->layout == SHEAF__SPARSE)
        return join_sparse(parts, count, err);
    if (parts[0]->layout == SHEAF__RAGGED)
        return join_ragged(parts, count, err);
    return join_dense(parts, count, err);
}
