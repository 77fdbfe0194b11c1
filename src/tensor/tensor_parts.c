/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse, ragged and row tensors, and the slices of every layout along axis 0. */
#include "base/error.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#include <string.h>

/* ---- making ---- */

static bool is_dense(const sheaf_tensor *t, int rank)
{
    return sheaf__tensor_ok(t) && t->layout == SHEAF__DENSE && t->shape.rank == rank;
}

sheaf_tensor *sheaf__tensor_sparse(sheaf_tensor *indices, sheaf_tensor *values, sheaf_shape shape,
                                   sheaf_error *err)
{
    if (!is_dense(indices, 2) || !is_dense(values, 1) || indices->dtype != SHEAF_INT64 ||
        indices->shape.dims[0] != values->shape.dims[0] || indices->shape.dims[1] != shape.rank ||
        sheaf_shape_elements(shape) < 0) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                     "sparse tensor of shape %s from indices %s and values %s, expected int64 "
                     "indices (n, rank) and values (n,)",
                     SHEAF__SHAPE_TEXT(shape), SHEAF__SHAPE_TEXT(sheaf_tensor_shape(indices)),
                     SHEAF__SHAPE_TEXT(sheaf_tensor_shape(values)));
        return NULL;
    }
    return sheaf__tensor_compose(SHEAF__SPARSE, indices, values, values->dtype, shape, err);
}

static bool splits_fit(const sheaf_tensor *row_splits, int64_t values, sheaf_error *err)
{
    const int64_t *splits = sheaf__tensor_host(row_splits, err);
    if (!splits)
        return false;
    int64_t rows = row_splits->shape.dims[0] - 1;
    int64_t before = 0;
    for (int64_t i = 0; i <= rows; i++) {
        if (splits[i] < before || (i == 0 && splits[i] != 0)) {
            sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                         "row split %lld is %lld, expected to start at 0 and never to fall",
                         (long long)i, (long long)splits[i]);
            return false;
        }
        before = splits[i];
    }
    if (before != values)
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                     "the last row split is %lld, but there are %lld values", (long long)before,
                     (long long)values);
    return before == values;
}

sheaf_tensor *sheaf__tensor_ragged(sheaf_tensor *values, sheaf_tensor *row_splits, sheaf_error *err)
{
    if (!sheaf__tensor_ok(values) || !is_dense(row_splits, 1) || row_splits->dtype != SHEAF_INT64 ||
        row_splits->shape.dims[0] < 1 || values->shape.rank < 1 ||
        values->shape.rank >= SHEAF_MAX_RANK ||
        (values->layout != SHEAF__DENSE && values->layout != SHEAF__RAGGED)) {
        sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "ragged tensor from values %s and row splits %s, expected values with an axis and "
            "int64 row splits (rows + 1,)",
            SHEAF__SHAPE_TEXT(sheaf_tensor_shape(values)),
            SHEAF__SHAPE_TEXT(sheaf_tensor_shape(row_splits)));
        return NULL;
    }
    if (!splits_fit(row_splits, values->shape.dims[0], err))
        return NULL;
    sheaf_shape shape = sheaf__shape_prepend(values->shape, row_splits->shape.dims[0] - 1);
    shape.dims[1] = SHEAF_UNKNOWN_DIM;
    return sheaf__tensor_compose(SHEAF__RAGGED, values, row_splits, values->dtype, shape, err);
}

sheaf_tensor *sheaf__tensor_rows(sheaf_tensor *indices, sheaf_tensor *values, sheaf_shape shape,
                                 sheaf_error *err)
{
    bool fits =
        is_dense(indices, 1) && sheaf__tensor_ok(values) && values->layout == SHEAF__DENSE &&
        (indices->dtype == SHEAF_INT64 || indices->dtype == SHEAF_INT32) && shape.rank >= 1 &&
        values->shape.rank == shape.rank && values->shape.dims[0] == indices->shape.dims[0];
    for (int i = 1; fits && i < shape.rank; i++)
        fits = values->shape.dims[i] == shape.dims[i];
    if (!fits) {
        sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "rows of shape %s from indices %s and values %s, expected integer indices (n,) "
            "and values (n, …)",
            SHEAF__SHAPE_TEXT(shape), SHEAF__SHAPE_TEXT(sheaf_tensor_shape(indices)),
            SHEAF__SHAPE_TEXT(sheaf_tensor_shape(values)));
        return NULL;
    }
    return sheaf__tensor_compose(SHEAF__ROWS, indices, values, values->dtype, shape, err);
}

/* ---- looking at their parts ---- */

sheaf_layout sheaf_tensor_layout(const sheaf_tensor *t)
{
    return sheaf__tensor_ok(t) ? (sheaf_layout)t->layout : SHEAF_LAYOUT_DENSE;
}

/* Part `i` if the layout is one of two; else a failed tensor that says what is missing. */
static sheaf_tensor *part_of(sheaf_tensor *t, enum sheaf__layout one, enum sheaf__layout other,
                             int i, const char *what)
{
    static const char *const names[] = {"dense", "sparse", "ragged", "of rows"};
    sheaf_tensor *bad = sheaf__tensor_first_failed(&t, 1);
    if (bad)
        return bad;
    if (t->layout != one && t->layout != other)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                  "a tensor that is %s has no %s, expected one that is %s",
                                  names[t->layout], what, names[one]);
    return sheaf__tensor_give(sheaf__ref(t->parts[i]), NULL);
}

sheaf_tensor *sheaf_tensor_values(sheaf_tensor *t)
{
    if (sheaf_tensor_layout(t) == SHEAF_LAYOUT_RAGGED)
        return part_of(t, SHEAF__RAGGED, SHEAF__RAGGED, SHEAF__RAGGED_VALUES, "values");
    return part_of(t, SHEAF__SPARSE, SHEAF__ROWS, SHEAF__VALUES, "values of its own");
}

sheaf_tensor *sheaf_tensor_indices(sheaf_tensor *t)
{
    return part_of(t, SHEAF__SPARSE, SHEAF__ROWS, SHEAF__INDICES, "indices");
}

sheaf_tensor *sheaf_tensor_row_splits(sheaf_tensor *t)
{
    return part_of(t, SHEAF__RAGGED, SHEAF__RAGGED, SHEAF__ROW_SPLITS, "row splits");
}

/* ---- slices along axis 0 ---- */

static sheaf_tensor *slice_dense(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err)
{
    sheaf_shape shape = t->shape;
    shape.dims[0] = end - begin;
    return sheaf__tensor_view(t, shape, t->strides, begin * t->strides[0], err);
}

/* The values of the rows are a view, the splits are few and start at 0 anew. */
static sheaf_tensor *slice_ragged(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err)
{
    const int64_t *splits = sheaf__tensor_host(t->parts[SHEAF__ROW_SPLITS], err);
    if (!splits)
        return NULL;
    sheaf_tensor *row_splits =
        sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE(end - begin + 1), t->device, err);
    sheaf_tensor *values =
        sheaf__tensor_slice(t->parts[SHEAF__RAGGED_VALUES], splits[begin], splits[end], err);
    sheaf_tensor *slice = NULL;
    if (row_splits && values) {
        int64_t *out = row_splits->data;
        for (int64_t i = begin; i <= end; i++)
            out[i - begin] = splits[i] - splits[begin];
        slice = sheaf__tensor_ragged(values, row_splits, err);
    }
    sheaf__unref(row_splits);
    sheaf__unref(values);
    return slice;
}

/* First of the `n` index rows (of `rank` numbers, ascending by their first) that is in row `row` or
 * later. */
static int64_t lower_bound(const int64_t *indices, int64_t n, int rank, int64_t row)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (indices[middle * rank] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static sheaf_tensor *slice_sparse(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err)
{
    sheaf_tensor *all = t->parts[SHEAF__INDICES];
    const int64_t *indices = sheaf__tensor_host(all, err);
    if (!indices)
        return NULL;
    int rank = t->shape.rank;
    int64_t first = lower_bound(indices, all->shape.dims[0], rank, begin);
    int64_t last = lower_bound(indices, all->shape.dims[0], rank, end);
    sheaf_shape shape = t->shape;
    shape.dims[0] = end - begin;
    sheaf_tensor *own =
        sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE(last - first, rank), t->device, err);
    sheaf_tensor *values = sheaf__tensor_slice(t->parts[SHEAF__VALUES], first, last, err);
    sheaf_tensor *slice = NULL;
    if (own && values) {
        int64_t *out = own->data;
        for (int64_t i = 0; i < (last - first) * rank; i++)
            out[i] = indices[first * rank + i] - (i % rank == 0 ? begin : 0);
        slice = sheaf__tensor_sparse(own, values, shape, err);
    }
    sheaf__unref(own);
    sheaf__unref(values);
    return slice;
}

sheaf_tensor *sheaf__tensor_slice(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err)
{
    if (t->error) {
        sheaf__error_copy(err, t->error);
        return NULL;
    }
    if (t->shape.rank < 1 || begin < 0 || end < begin || end > t->shape.dims[0]) {
        sheaf__error(err, SHEAF_ERR_OUT_OF_RANGE, "rows %lld to %lld of a tensor of shape %s",
                     (long long)begin, (long long)end, SHEAF__SHAPE_TEXT(t->shape));
        return NULL;
    }
    switch ((enum sheaf__layout)t->layout) {
    case SHEAF__DENSE:
        return slice_dense(t, begin, end, err);
    case SHEAF__RAGGED:
        return slice_ragged(t, begin, end, err);
    case SHEAF__SPARSE:
        return slice_sparse(t, begin, end, err);
    case SHEAF__ROWS:
        break;
    }
    sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the gradient of a look-up has no rows to take");
    return NULL;
}

sheaf_tensor *sheaf_tensor_rows(sheaf_tensor *t, int64_t begin, int64_t end)
{
    sheaf_tensor *bad = sheaf__tensor_first_failed(&t, 1);
    if (bad)
        return bad;
    sheaf_error err;
    sheaf_tensor *rows = sheaf__tensor_give(sheaf__tensor_slice(t, begin, end, &err), &err);
    return sheaf__tensor_derived(t, rows, begin);
}

/* ---- moving ---- */

static sheaf_tensor *copy_dense(sheaf_tensor *t, struct sheaf__device *device, sheaf_error *err)
{
    const void *from = sheaf__tensor_host(t, err);
    sheaf_tensor *copy = from ? sheaf__tensor_new(t->dtype, t->shape, device, err) : NULL;
    if (!copy)
        return NULL;
    struct sheaf__device *host = device->cls->host_memory ? device : sheaf__device_host(err);
    sheaf_status status = host ? SHEAF_OK : SHEAF_ERR_RESOURCE_EXHAUSTED;
    if (status == SHEAF_OK)
        status = device->cls->copy(device, copy->data, host, from, sheaf__tensor_size(t), err);
    /* Strings move as views: their bytes stay where they are. */
    if (status == SHEAF_OK && t->dtype == SHEAF_STRING)
        status = sheaf__buffer_keep(copy->buffer, t->buffer, err);
    copy->plain = t->plain;
    if (status < 0) {
        sheaf__unref(copy);
        return NULL;
    }
    return copy;
}

sheaf_tensor *sheaf__tensor_to(sheaf_tensor *t, struct sheaf__device *device, sheaf_error *err)
{
    if (t->error || t->device == device)
        return sheaf__tensor_alias(t, err);
    if (t->layout == SHEAF__DENSE)
        return copy_dense(t, device, err);
    sheaf_tensor *first = sheaf__tensor_to(t->parts[0], device, err);
    sheaf_tensor *second = first ? sheaf__tensor_to(t->parts[1], device, err) : NULL;
    sheaf_tensor *copy = NULL;
    if (second)
        copy = sheaf__tensor_compose(t->layout, first, second, t->dtype, t->shape, err);
    sheaf__unref(first);
    sheaf__unref(second);
    return copy;
}

sheaf_tensor *sheaf_tensor_to_device(sheaf_tensor *t, const char *device)
{
    sheaf_tensor *bad = sheaf__tensor_first_failed(&t, 1);
    if (bad)
        return bad;
    sheaf_error err;
    struct sheaf__device *to = sheaf__device_find(device, &err);
    sheaf_tensor *copy = sheaf__tensor_give(to ? sheaf__tensor_to(t, to, &err) : NULL, &err);
    return sheaf__tensor_derived(t, copy, -1);
}
