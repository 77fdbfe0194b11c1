/* SPDX-License-Identifier: Apache-2.0 */
#include "data/slice.h"

#include "data/rows.h"

#include <string.h>

int64_t sheaf__slice_rows(const sheaf_tensor *t)
{
    if (t->layout == SHEAF__RAGGED)
        return t->parts[SHEAF__ROW_SPLITS]->shape.dims[0] - 1;
    return t->shape.rank > 0 ? t->shape.dims[0] : -1;
}

/* First of the `n` entries that belongs to row `row` or a later one. */
static int64_t first_entry(const int64_t *indices, int64_t n, int64_t rank, int64_t row)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (indices[mid * rank] < row)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static sheaf_tensor *slice_sparse(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err)
{
    sheaf_tensor *at = t->parts[SHEAF__INDICES], *v = t->parts[SHEAF__VALUES];
    int64_t rank = t->shape.rank, n = v->shape.dims[0];
    int64_t from = n > 0 ? first_entry(at->data, n, rank, begin) : 0;
    int64_t to = n > 0 ? first_entry(at->data, n, rank, end) : 0;
    sheaf_shape shape = t->shape;
    shape.dims[0] = end - begin;
    sheaf_tensor *indices = sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE(to - from, rank), NULL, err);
    sheaf_tensor *values = indices ? sheaf__rows_of(v, from, to, err) : NULL;
    sheaf_tensor *out = NULL;
    if (values) {
        int64_t *index = indices->data;
        if (to > from)
            memcpy(index, (const int64_t *)at->data + from * rank,
                   (size_t)((to - from) * rank) * sizeof(*index));
        for (int64_t i = 0; i < to - from; i++)
            index[i * rank] -= begin;
        out = sheaf__tensor_sparse(indices, values, shape, err);
    }
    sheaf__unref(indices);
    sheaf__unref(values);
    return out;
}

static sheaf_tensor *slice_ragged(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err)
{
    sheaf_tensor *v = t->parts[SHEAF__RAGGED_VALUES];
    const int64_t *splits = t->parts[SHEAF__ROW_SPLITS]->data;
    sheaf_tensor *values = sheaf__slice(v, splits[begin], splits[end], err);
    sheaf_tensor *own =
        values ? sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE(end - begin + 1), NULL, err) : NULL;
    sheaf_tensor *out = NULL;
    if (own) {
        int64_t *to = own->data;
        for (int64_t i = begin; i <= end; i++)
            to[i - begin] = splits[i] - splits[begin];
        out = sheaf__tensor_ragged(values, own, err);
    }
    sheaf__unref(own);
    sheaf__unref(values);
    return out;
}

sheaf_tensor *sheaf__slice(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err)
{
    if (t->layout == SHEAF__SPARSE)
        return slice_sparse(t, begin, end, err);
    if (t->layout == SHEAF__RAGGED)
        return slice_ragged(t, begin, end, err);
    return sheaf__rows_of(t, begin, end, err);
}
