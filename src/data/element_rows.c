/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "data/rows.h"
#include "tensor/shape.h"

#include <string.h>

/* Rows as elements: views of the columns, made new or used again. */

sheaf_tensor *sheaf__rows_of(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err)
{
    sheaf_shape shape = t->shape;
    shape.dims[0] = end - begin;
    return sheaf__tensor_view(t, shape, t->strides, begin * t->strides[0], err);
}

/* Row `at` of a stacked column. */
static sheaf_tensor *row_of(sheaf_tensor *column, size_t at, sheaf_error *err)
{
    return sheaf__tensor_view(column, sheaf__shape_inner(column->shape), column->strides + 1,
                              (int64_t)at * column->strides[0], err);
}

/* A new element with the names of `e` over one tensor of each column; uses up nothing. */
static sheaf_element *map_columns(const sheaf_element *e, size_t first, size_t count, bool whole,
                                  sheaf_error *err)
{
    sheaf_element *out = sheaf__element_new(err);
    if (!out)
        return NULL;
    out->pattern = e->pattern;
    for (size_t i = 0; i < e->count; i++) {
        sheaf_tensor *column = e->items[i].tensor;
        sheaf_tensor *t =
            whole ? sheaf__rows_of(column, (int64_t)first, (int64_t)(first + count), err)
                  : row_of(column, first, err);
        sheaf_status status = t ? sheaf__element_add(out, e->items[i].name, t, err) : err->status;
        sheaf__unref(t);
        if (status < 0) {
            sheaf__unref(out);
            return NULL;
        }
    }
    return out;
}

sheaf_element *sheaf__element_rows(const sheaf_element *e, size_t first, size_t count,
                                   sheaf_error *err)
{
    return map_columns(e, first, count, true, err);
}

/* Whether nobody but the caller knows the element and its tensors. */
static bool is_mine(const sheaf_element *e)
{
    bool mine = sheaf__object_unique(e);
    for (size_t i = 0; mine && i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        mine = sheaf__object_unique(t) && atomic_load_explicit(&t->id, memory_order_relaxed) == 0;
    }
    return mine;
}

/* The only row of a block that nobody shares becomes the block: its tensors lose their first axis. */
static bool unstack(struct sheaf__block *block)
{
    if (block->capacity == 0 || block->first > 0 || block->count != 1 ||
        atomic_load_explicit(&block->refs, memory_order_acquire) != 1 || !is_mine(block->columns))
        return false;
    for (size_t i = 0; i < block->columns->count; i++) {
        sheaf_tensor *t = block->columns->items[i].tensor;
        t->shape = sheaf__shape_inner(t->shape);
        memmove(t->strides, t->strides + 1, sizeof(t->strides) - sizeof(t->strides[0]));
    }
    block->boxed = true;
    block->capacity = 0;
    return true;
}

sheaf_element *sheaf__block_element(struct sheaf__block *block, size_t at, sheaf_error *err)
{
    if (block->boxed || unstack(block))
        return sheaf__ref(block->columns);
    return map_columns(block->columns, block->first + at, 1, false, err);
}

sheaf_element *sheaf__row_at(struct sheaf__row *row, struct sheaf__block *block, size_t at,
                             sheaf_error *err)
{
    if (row->block == block && !block->boxed && is_mine(row->element)) {
        for (size_t i = 0; i < row->element->count; i++) {
            const sheaf_tensor *column = block->columns->items[i].tensor;
            row->element->items[i].tensor->data =
                (char *)column->data +
                (block->first + at) * (size_t)column->strides[0] * sheaf_dtype_size(column->dtype);
        }
        return row->element;
    }
    sheaf__row_free(row);
    row->element = sheaf__block_element(block, at, err);
    if (!row->element)
        return NULL;
    row->block = sheaf__block_ref(block);
    return row->element;
}

void sheaf__row_free(struct sheaf__row *row)
{
    sheaf__unref(row->element);
    sheaf__block_unref(row->block);
    *row = (struct sheaf__row){0};
}
