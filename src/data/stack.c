/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "data/join.h"
#include "data/rows.h"
#include "tensor/device.h"
#include "tensor/shape.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Making a batch of rows: nothing to do where they are stacked in one piece, one copy where not. */

#define PIECE (1u << 20) /* bytes that are worth another thread */

struct sheaf__row_kind sheaf__block_kind(const struct sheaf__block *block, size_t i)
{
    const sheaf_tensor *t = block->columns->items[i].tensor;
    sheaf_shape shape = block->boxed ? t->shape : sheaf__shape_inner(t->shape);
    return (struct sheaf__row_kind){block->columns->items[i].name, t->dtype, t->layout, shape};
}

/* Why rows cannot be stacked; `row` is the first of the odd block. */
static sheaf_status unlike(const struct sheaf__row_kind *a, const struct sheaf__row_kind *b,
                           size_t row, size_t i, sheaf_error *err)
{
    char name[80];
    if (a->name[0])
        snprintf(name, sizeof(name), "\"%.60s\"", a->name);
    else
        snprintf(name, sizeof(name), "%zu", i);
    if (a->name != b->name)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "cannot batch unlike elements: component %zu of element 0 is \"%.40s\", "
            "of element %zu \"%.40s\"",
            i, a->name, row, b->name);
    if (a->dtype != b->dtype)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "cannot batch tensors with different dtypes in component %s: element 0 "
                            "has %s, element %zu has %s",
                            name, sheaf_dtype_name(a->dtype), row, sheaf_dtype_name(b->dtype));
    if (a->layout != b->layout)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "cannot batch tensors with different layouts in component %s: elements "
                            "0 and %zu",
                            name, row);
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "cannot batch tensors with different shapes in component %s: element 0 has "
                        "%s, element %zu has %s",
                        name, SHEAF__SHAPE_TEXT(a->shape), row, SHEAF__SHAPE_TEXT(b->shape));
}

static bool are_alike(const struct sheaf__row_kind *a, const struct sheaf__row_kind *b,
                      bool any_size)
{
    if (a->name != b->name || a->dtype != b->dtype || a->layout != b->layout)
        return false;
    return any_size || a->layout != SHEAF__DENSE ? a->shape.rank == b->shape.rank
                                                 : sheaf_shape_equal(a->shape, b->shape);
}

sheaf_status sheaf__rows_check(const struct sheaf__rows *rows, bool any_size, sheaf_error *err)
{
    const struct sheaf__block *first = sheaf__rows_front(rows);
    size_t width = first->columns->count;
    for (size_t i = 0; i < width; i++) {
        struct sheaf__row_kind kind = sheaf__block_kind(first, i);
        if (kind.layout == SHEAF__ROWS)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "cannot batch component %zu: it is the gradient of a look-up", i);
        if (kind.shape.rank >= SHEAF_MAX_RANK)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "cannot batch component %zu: it has %d axes, a batch would have "
                                "more than %d",
                                i, kind.shape.rank, SHEAF_MAX_RANK);
    }
    size_t row = first->count;
    for (size_t b = rows->head + 1; b < rows->used; row += rows->blocks[b++]->count) {
        if (rows->blocks[b]->columns->count != width)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "cannot batch unlike elements: element 0 has %zu components, "
                                "element %zu has %zu",
                                width, row, rows->blocks[b]->columns->count);
        for (size_t i = 0; i < width; i++) {
            struct sheaf__row_kind a = sheaf__block_kind(first, i),
                                   c = sheaf__block_kind(rows->blocks[b], i);
            if (!are_alike(&a, &c, any_size))
                return unlike(&a, &c, row, i, err);
        }
    }
    return SHEAF_OK;
}

/* Rows of one dense component, copied behind one another in pieces. */
struct copy {
    const struct sheaf__rows *rows;
    size_t component, row_bytes, pieces;
    char *to;
    atomic_flag failed;
    sheaf_error *err; /* of who failed first */
};

/* Rows from … from + count - 1 of a block, to row `at` of the batch. */
static void copy_part(struct copy *c, const struct sheaf__block *block, size_t from, size_t count,
                      size_t at)
{
    const sheaf_tensor *t = block->columns->items[c->component].tensor;
    char *to = c->to + at * c->row_bytes;
    sheaf_error err = {0};
    if (!block->boxed)
        memcpy(to, (const char *)t->data + (block->first + from) * c->row_bytes,
               count * c->row_bytes);
    else if (sheaf__tensor_copy_out(t, to, &err) < 0 && !atomic_flag_test_and_set(&c->failed))
        sheaf__error_copy(c->err, &err);
}

static void copy_piece(size_t piece, void *user)
{
    struct copy *c = user;
    size_t at = piece * c->rows->count / c->pieces, end = (piece + 1) * c->rows->count / c->pieces,
           first = 0;
    for (size_t b = c->rows->head; at < end; b++) {
        const struct sheaf__block *block = c->rows->blocks[b];
        const size_t behind = first + block->count < end ? first + block->count : end;
        if (at < behind) {
            copy_part(c, block, at - first, behind - at, at);
            at = behind;
        }
        first += block->count;
    }
}

/* All dense rows of component `i`, by so many threads at most, or by all (0). */
static sheaf_tensor *join_dense(const struct sheaf__rows *rows, size_t i, int threads,
                                sheaf_error *err)
{
    struct sheaf__row_kind kind = sheaf__block_kind(sheaf__rows_front(rows), i);
    sheaf_shape shape = sheaf__shape_prepend(kind.shape, (int64_t)rows->count);
    sheaf_tensor *out = sheaf__tensor_new(kind.dtype, shape, NULL, err);
    if (!out)
        return NULL;
    const size_t bytes = sheaf__tensor_size(out);
    sheaf_status status = SHEAF_OK;
    for (size_t b = rows->head; kind.dtype == SHEAF_STRING && b < rows->used && status >= 0; b++)
        status = sheaf__string_keep_like(out, rows->blocks[b]->columns->items[i].tensor, err);
    struct copy c = {.rows = rows,
                     .component = i,
                     .row_bytes = bytes / rows->count,
                     .pieces = bytes / PIECE + 1,
                     .to = out->data,
                     .failed = ATOMIC_FLAG_INIT,
                     .err = err};
    if (threads > 0 && c.pieces > (size_t)threads)
        c.pieces = (size_t)threads;
    if (status >= 0 && bytes > 0)
        sheaf__device_run(out->device, c.pieces, copy_piece, &c);
    if (status >= 0 && !atomic_flag_test_and_set(&c.failed))
        return out;
    sheaf__unref(out);
    return NULL;
}

/* Copies the entries of sparse row `row` to the batch: its number before each index. */
static void put_sparse(const sheaf_tensor *t, int64_t row, int64_t *indices, char *values)
{
    const sheaf_tensor *at = t->parts[SHEAF__INDICES], *v = t->parts[SHEAF__VALUES];
    int64_t n = at->shape.dims[0], rank = at->shape.dims[1];
    const int64_t *from = at->data;
    for (int64_t k = 0; k < n; k++) {
        *indices++ = row;
        for (int64_t r = 0; r < rank; r++)
            *indices++ = from[k * rank + r];
    }
    if (n > 0)
        memcpy(values, v->data, (size_t)n * sheaf_dtype_size(v->dtype));
}

/* Sparse rows as one sparse tensor of one more axis; the sizes are the largest of each axis. */
static sheaf_tensor *join_sparse(const struct sheaf__rows *rows, size_t i, sheaf_error *err)
{
    struct sheaf__row_kind kind = sheaf__block_kind(sheaf__rows_front(rows), i);
    int64_t entries = 0;
    for (size_t b = rows->head; b < rows->used; b++) {
        const sheaf_tensor *t = rows->blocks[b]->columns->items[i].tensor;
        entries += t->parts[SHEAF__VALUES]->shape.dims[0];
        for (int r = 0; r < t->shape.rank; r++)
            if (t->shape.dims[r] > kind.shape.dims[r])
                kind.shape.dims[r] = t->shape.dims[r];
    }
    sheaf_shape shape = sheaf__shape_prepend(kind.shape, (int64_t)rows->count);
    sheaf_tensor *indices =
        sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE(entries, shape.rank), NULL, err);
    sheaf_tensor *values =
        indices ? sheaf__tensor_new(kind.dtype, SHEAF_SHAPE(entries), NULL, err) : NULL;
    sheaf_tensor *out = NULL;
    if (!values)
        goto out;
    int64_t done = 0, row = 0;
    for (size_t b = rows->head; b < rows->used; b++, row++) {
        const sheaf_tensor *t = rows->blocks[b]->columns->items[i].tensor;
        const sheaf_tensor *v = t->parts[SHEAF__VALUES];
        if (v->dtype == SHEAF_STRING && sheaf__string_keep_like(values, v, err) < 0)
            goto out;
        put_sparse(t, row, (int64_t *)indices->data + done * shape.rank,
                   (char *)values->data + (size_t)done * sheaf_dtype_size(v->dtype));
        done += v->shape.dims[0];
    }
    out = sheaf__tensor_sparse(indices, values, shape, err);
out:
    sheaf__unref(indices);
    sheaf__unref(values);
    return out;
}

/* Row splits of ragged rows, which go into one ragged tensor of one more axis. */
static sheaf_tensor *splits_of(sheaf_tensor *const *tensors, size_t count, sheaf_error *err)
{
    sheaf_tensor *splits =
        sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE((int64_t)count + 1), NULL, err);
    int64_t *to = splits ? splits->data : NULL;
    if (to)
        to[0] = 0;
    for (size_t k = 0; to && k < count; k++)
        to[k + 1] = to[k] + sheaf__rows_in(tensors[k]);
    return splits;
}

static sheaf_tensor *join_ragged(const struct sheaf__rows *rows, size_t i, sheaf_error *err)
{
    const size_t count = rows->used - rows->head; /* each is a block of its own */
    sheaf_tensor **tensors = sheaf__alloc_array(count, sizeof(*tensors));
    if (!tensors) {
        sheaf__no_memory(err, "a batch");
        return NULL;
    }
    for (size_t b = 0; b < count; b++)
        tensors[b] = rows->blocks[rows->head + b]->columns->items[i].tensor;
    sheaf_tensor *values = sheaf__join(tensors, count, err);
    sheaf_tensor *splits = values ? splits_of(tensors, count, err) : NULL;
    sheaf_tensor *out = splits ? sheaf__tensor_ragged(values, splits, err) : NULL;
    sheaf__unref(values);
    sheaf__unref(splits);
    sheaf__free(tensors);
    return out;
}

static sheaf_tensor *join_component(const struct sheaf__rows *rows, size_t i, int threads,
                                    sheaf_error *err)
{
    uint8_t layout = sheaf__rows_front(rows)->columns->items[i].tensor->layout;
    return layout == SHEAF__SPARSE   ? join_sparse(rows, i, err)
           : layout == SHEAF__RAGGED ? join_ragged(rows, i, err)
                                     : join_dense(rows, i, threads, err);
}

static sheaf_element *join(const struct sheaf__rows *rows, int threads, sheaf_error *err)
{
    const struct sheaf__block *first = sheaf__rows_front(rows);
    sheaf_element *out = sheaf__element_new(err);
    if (!out)
        return NULL;
    out->pattern = first->columns->pattern;
    for (size_t i = 0; i < first->columns->count; i++) {
        sheaf_tensor *t = join_component(rows, i, threads, err);
        sheaf_status status =
            t ? sheaf__element_add(out, first->columns->items[i].name, t, err) : err->status;
        sheaf__unref(t);
        if (status < 0) {
            sheaf__unref(out);
            return NULL;
        }
    }
    return out;
}

/* True if the block is our own and nobody else can see its columns: they may be cut to size. */
static bool can_cut(const struct sheaf__block *block)
{
    const sheaf_element *e = block->columns;
    bool mine =
        block->refs == 1 && block->capacity > 0 && block->first == 0 && sheaf__object_unique(e);
    for (size_t i = 0; mine && i < e->count; i++)
        mine = sheaf__object_unique(e->items[i].tensor);
    return mine;
}

static bool is_whole(const struct sheaf__block *block)
{
    bool whole = block->first == 0;
    for (size_t i = 0; whole && i < block->columns->count; i++)
        whole = block->columns->items[i].tensor->shape.dims[0] == (int64_t)block->count;
    return whole;
}

/* The rows of one stacked block, without a copy. */
static sheaf_element *whole_block(struct sheaf__block *block, sheaf_error *err)
{
    if (!is_whole(block)) {
        if (!can_cut(block))
            return sheaf__element_rows(block->columns, block->first, block->count, err);
        for (size_t i = 0; i < block->columns->count; i++)
            block->columns->items[i].tensor->shape.dims[0] = (int64_t)block->count;
    }
    block->capacity = 0;
    return sheaf__ref(block->columns);
}

sheaf_status sheaf__rows_stack(struct sheaf__rows *rows, int threads, sheaf_element **batch,
                               sheaf_error *err)
{
    SHEAF__TRY(sheaf__rows_check(rows, false, err));
    struct sheaf__block *block = sheaf__rows_front(rows);
    bool one = rows->head + 1 == rows->used && !block->boxed;
    sheaf_element *e = one ? whole_block(block, err) : join(rows, threads, err);
    if (!e)
        return err->status;
    sheaf__rows_clear(rows);
    *batch = e;
    return SHEAF_OK;
}
