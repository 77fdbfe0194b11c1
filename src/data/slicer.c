/* SPDX-License-Identifier: Apache-2.0 */
#include "data/slicer.h"

#include "base/error.h"
#include "tensor/shape.h"

/* The tensor itself, or a row-major copy on the host; the caller's count. */
static sheaf_tensor *row_major(sheaf_tensor *t, sheaf_error *err)
{
    if (t->contiguous && t->device->cls->host_memory)
        return sheaf__ref(t);
    sheaf_tensor *copy = sheaf__tensor_new(t->dtype, t->shape, NULL, err);
    if (copy && (sheaf__tensor_copy_out(t, copy->data, err) < 0 ||
                 (t->dtype == SHEAF_STRING && sheaf__string_keep_like(copy, t, err) < 0))) {
        sheaf__unref(copy);
        copy = NULL;
    }
    return copy;
}

/* First size of all components. */
static sheaf_status common_rows(const sheaf_element *e, size_t *rows, sheaf_error *err)
{
    for (size_t i = 0; i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        if (t->shape.rank == 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "component %zu (\"%.60s\") is a scalar: it has no rows", i,
                                e->items[i].name);
        if (t->shape.dims[0] != e->items[0].tensor->shape.dims[0])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "component %zu (\"%.60s\") has %lld rows, component 0 has %lld", i,
                                e->items[i].name, (long long)t->shape.dims[0],
                                (long long)e->items[0].tensor->shape.dims[0]);
    }
    *rows = e->count > 0 ? (size_t)e->items[0].tensor->shape.dims[0] : 0;
    return SHEAF_OK;
}

sheaf_status sheaf__sliceable(sheaf_element *e, sheaf_element **out, size_t *rows, sheaf_error *err)
{
    bool as_is = true;
    for (size_t i = 0; i < e->count; i++)
        if (e->items[i].tensor->layout != SHEAF__DENSE)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "component %zu (\"%.60s\") is not dense", i, e->items[i].name);
    SHEAF__TRY(common_rows(e, rows, err));
    for (size_t i = 0; i < e->count; i++)
        as_is = as_is && e->items[i].tensor->contiguous && !e->items[i].tensor->plain &&
                e->items[i].tensor->device->cls->host_memory;
    if (as_is) {
        *out = sheaf__ref(e);
        return SHEAF_OK;
    }
    sheaf_element *made = sheaf__element_new(err);
    if (!made)
        return err->status;
    made->pattern = e->pattern;
    for (size_t i = 0; i < e->count; i++) {
        sheaf_tensor *t = row_major(e->items[i].tensor, err);
        sheaf_status status = t ? sheaf__element_add(made, e->items[i].name, t, err) : err->status;
        sheaf__unref(t);
        if (status < 0) {
            sheaf__unref(made);
            return status;
        }
    }
    *out = made;
    return SHEAF_OK;
}

/* ---- rows of sparse and ragged components ---- */

/* The only row of a sparse tensor, without the first axis. */
static sheaf_tensor *unstack_sparse(sheaf_tensor *slice, sheaf_error *err)
{
    const sheaf_tensor *all = slice->parts[SHEAF__INDICES];
    int64_t n = all->shape.dims[0], rank = all->shape.dims[1];
    sheaf_tensor *indices = sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE(n, rank - 1), NULL, err);
    if (!indices)
        return NULL;
    const int64_t *from = all->data;
    int64_t *to = indices->data;
    for (int64_t k = 0; k < n * rank; k++)
        if (k % rank > 0)
            *to++ = from[k];
    sheaf_tensor *out = sheaf__tensor_sparse(indices, slice->parts[SHEAF__VALUES],
                                             sheaf__shape_inner(slice->shape), err);
    sheaf__unref(indices);
    return out;
}

/* Row `row` of a tensor of any layout. */
static sheaf_tensor *row_of(sheaf_tensor *t, int64_t row, sheaf_error *err)
{
    if (t->layout == SHEAF__RAGGED) {
        const int64_t *splits = t->parts[SHEAF__ROW_SPLITS]->data;
        return sheaf__tensor_slice(t->parts[SHEAF__RAGGED_VALUES], splits[row], splits[row + 1],
                                   err);
    }
    if (t->layout == SHEAF__DENSE)
        return sheaf__tensor_view(t, sheaf__shape_inner(t->shape), t->strides + 1,
                                  row * t->strides[0], err);
    sheaf_tensor *slice = sheaf__tensor_slice(t, row, row + 1, err);
    sheaf_tensor *out = slice ? unstack_sparse(slice, err) : NULL;
    sheaf__unref(slice);
    return out;
}

static sheaf_element *element_of_row(const sheaf_element *e, int64_t row, sheaf_error *err)
{
    sheaf_element *out = sheaf__element_new(err);
    sheaf_status status = out ? SHEAF_OK : err->status;
    for (size_t i = 0; status >= 0 && i < e->count; i++) {
        sheaf_tensor *t = row_of(e->items[i].tensor, row, err);
        status = t ? sheaf__element_add(out, e->items[i].name, t, err) : err->status;
        sheaf__unref(t);
    }
    if (status < 0) {
        sheaf__unref(out);
        return NULL;
    }
    out->pattern = e->pattern;
    return out;
}

static sheaf_status put_singly(struct sheaf__rows *rows, const sheaf_element *e, sheaf_error *err)
{
    size_t count;
    SHEAF__TRY(common_rows(e, &count, err));
    for (size_t row = 0; row < count; row++) {
        sheaf_element *one = element_of_row(e, (int64_t)row, err);
        sheaf_status status = one ? sheaf__rows_put_boxed(rows, one, err) : err->status;
        sheaf__unref(one);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

/* ---- the rows of elements ---- */

static bool is_dense(const sheaf_element *e)
{
    bool dense = true;
    for (size_t i = 0; dense && i < e->count; i++)
        dense = e->items[i].tensor->layout == SHEAF__DENSE;
    return dense;
}

static sheaf_status put_rows(struct sheaf__rows *rows, sheaf_element *e, sheaf_error *err)
{
    sheaf_element *slices;
    size_t count;
    if (!is_dense(e))
        return put_singly(rows, e, err);
    SHEAF__TRY(sheaf__sliceable(e, &slices, &count, err));
    sheaf_status status =
        count > 0 ? sheaf__rows_put_slices(rows, slices, 0, count, err) : SHEAF_OK;
    sheaf__unref(slices);
    return status;
}

sheaf_status sheaf__slicer_fill(struct sheaf__slicer *slicer, sheaf_error *err)
{
    while (slicer->rows.count == 0) {
        sheaf_status status = sheaf__feed_fill(&slicer->feed, 1, err);
        if (status != SHEAF_OK)
            return status;
        sheaf_element *e = sheaf__block_element(slicer->feed.block, slicer->feed.at++, err);
        sheaf__rows_clear(&slicer->rows);
        status = e ? put_rows(&slicer->rows, e, err) : err->status;
        sheaf__unref(e);
        if (status < 0) {
            sheaf__rows_clear(&slicer->rows);
            return status;
        }
    }
    return SHEAF_OK;
}

void sheaf__slicer_free(struct sheaf__slicer *slicer)
{
    sheaf__feed_free(&slicer->feed);
    sheaf__rows_free(&slicer->rows);
}
