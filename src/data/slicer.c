/* SPDX-License-Identifier: Apache-2.0 */
#include "data/slicer.h"

#include "base/error.h"

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
        if (t->layout != SHEAF__DENSE)
            return sheaf__error(err, SHEAF_ERR_UNIMPLEMENTED,
                                "component %zu (\"%.60s\") is not dense: it has no rows to take", i,
                                e->items[i].name);
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

sheaf_status sheaf__slicer_fill(struct sheaf__slicer *slicer, sheaf_error *err)
{
    while (slicer->rows.count == 0) {
        sheaf_status status = sheaf__feed_fill(&slicer->feed, 1, err);
        if (status != SHEAF_OK)
            return status;
        sheaf_element *e = sheaf__block_element(slicer->feed.block, slicer->feed.at++, err);
        sheaf_element *slices = NULL;
        size_t count = 0;
        sheaf__rows_clear(&slicer->rows);
        status = e ? sheaf__sliceable(e, &slices, &count, err) : err->status;
        if (status >= 0 && count > 0)
            status = sheaf__rows_put_slices(&slicer->rows, slices, 0, count, err);
        sheaf__unref(slices);
        sheaf__unref(e);
        if (status < 0)
            return status;
    }
    return SHEAF_OK;
}

void sheaf__slicer_free(struct sheaf__slicer *slicer)
{
    sheaf__feed_free(&slicer->feed);
    sheaf__rows_free(&slicer->rows);
}
