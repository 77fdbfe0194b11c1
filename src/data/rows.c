/* SPDX-License-Identifier: Apache-2.0 */
#include "data/rows.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/shape.h"

#include <string.h>

/* A row up to this size is copied into the block at the end; a larger one is counted. */
#define SMALL_ROW 4096
/* Room of one block. */
#define BLOCK_BYTES (4u << 20)
/* Size of the buffers that bytes of strings are copied to: the first, and the most. */
#define TEXT_FIRST 1024
#define TEXT_MOST  (64u << 10)

/* ---- blocks ---- */

/* A block for `rows`; uses up the count of `columns`. */
static struct sheaf__block *block_new(struct sheaf__rows *rows, sheaf_element *columns, bool boxed,
                                      size_t first, size_t count, sheaf_error *err)
{
    static _Atomic uint64_t numbers = 1;
    struct sheaf__block *block = rows->spare ? rows->spare : sheaf__alloc(sizeof(*block));
    rows->spare = NULL;
    if (!block) {
        sheaf__unref(columns);
        sheaf__no_memory(err, "rows");
        return NULL;
    }
    *block = (struct sheaf__block){0};
    atomic_init(&block->refs, 1);
    block->columns = columns;
    block->boxed = boxed;
    block->first = first;
    block->count = count;
    if (!boxed)
        block->number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed);
    return block;
}

struct sheaf__block *sheaf__block_ref(struct sheaf__block *block)
{
    atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
    return block;
}

void sheaf__block_unref(struct sheaf__block *block)
{
    if (!block || atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) > 1)
        return;
    sheaf__unref(block->columns);
    sheaf__free(block);
}

static bool is_unshared(const struct sheaf__block *block)
{
    return atomic_load_explicit(&block->refs, memory_order_acquire) == 1;
}

static size_t inner_elements(const sheaf_tensor *column)
{
    size_t n = 1;
    for (int i = 1; i < column->shape.rank; i++)
        n *= (size_t)column->shape.dims[i];
    return n;
}

/* Bytes of one row of a stacked column. */
static size_t row_bytes(const sheaf_tensor *column)
{
    return inner_elements(column) * sheaf_dtype_size(column->dtype);
}

static char *row_address(const sheaf_tensor *column, size_t row)
{
    return (char *)column->data + row * row_bytes(column);
}

size_t sheaf__block_row_bytes(const struct sheaf__block *block)
{
    size_t bytes = 0;
    for (size_t i = 0; i < block->columns->count; i++) {
        const sheaf_tensor *t = block->columns->items[i].tensor;
        bytes += block->boxed ? sheaf__tensor_size(t) : row_bytes(t);
    }
    return bytes;
}

void sheaf__block_fetch(const struct sheaf__block *block, size_t at)
{
    for (size_t i = 0; i < block->columns->count && !block->boxed; i++)
        __builtin_prefetch(row_address(block->columns->items[i].tensor, block->first + at));
}

static uint64_t string_bytes(const sheaf_bytes *strings, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += strings[i].size;
    return bytes;
}

static uint64_t tensor_bytes(const sheaf_tensor *t)
{
    if (t->layout != SHEAF__DENSE)
        return tensor_bytes(t->parts[0]) + tensor_bytes(t->parts[1]);
    const sheaf_bytes *strings = t->dtype == SHEAF_STRING ? sheaf__tensor_host(t, NULL) : NULL;
    return sheaf__tensor_size(t) +
           (strings ? string_bytes(strings, (size_t)sheaf_shape_elements(t->shape)) : 0);
}

uint64_t sheaf__block_bytes(const struct sheaf__block *block, size_t at, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < block->columns->count; i++) {
        const sheaf_tensor *t = block->columns->items[i].tensor;
        bytes += block->boxed ? tensor_bytes(t) : count * row_bytes(t);
        if (!block->boxed && t->dtype == SHEAF_STRING)
            bytes += string_bytes((const sheaf_bytes *)(void *)row_address(t, block->first + at),
                                  count * inner_elements(t));
    }
    return bytes;
}

/* A block itself, and its tensors but their elements; slices have them of another. */
static uint64_t header_bytes(const struct sheaf__block *block)
{
    const uint64_t column = sizeof(sheaf_tensor) + sizeof(struct sheaf__buffer);
    const bool own = block->boxed || block->capacity > 0;
    return sizeof(*block) + (own ? sizeof(sheaf_element) + block->columns->count * column : 0);
}

uint64_t sheaf__rows_bytes(const struct sheaf__rows *rows)
{
    uint64_t bytes = 0;
    for (size_t i = rows->head; i < rows->used; i++) {
        const struct sheaf__block *block = rows->blocks[i];
        const size_t used = block->first + block->count;
        bytes += header_bytes(block) + sheaf__block_bytes(block, 0, block->count);
        if (block->capacity > used)
            bytes += (block->capacity - used) * sheaf__block_row_bytes(block);
    }
    return bytes;
}

/* ---- the list ---- */

/* Appends a block; uses up the caller's count. */
static sheaf_status add(struct sheaf__rows *rows, struct sheaf__block *block, sheaf_error *err)
{
    if (!block)
        return err->status;
    if (rows->head == rows->used)
        rows->head = rows->used = 0;
    if (!sheaf__array_reserve((void **)&rows->blocks, &rows->capacity, rows->used + 1,
                              sizeof(*rows->blocks))) {
        sheaf__block_unref(block);
        return sheaf__no_memory(err, "rows");
    }
    rows->blocks[rows->used++] = block;
    rows->count += block->count;
    return SHEAF_OK;
}

/* Gives a count back, and keeps the block itself for the next if it was the last. */
static void retire(struct sheaf__rows *rows, struct sheaf__block *block)
{
    if (rows->spare || !is_unshared(block)) {
        sheaf__block_unref(block);
        return;
    }
    sheaf__unref(block->columns);
    rows->spare = block;
}

void sheaf__rows_clear(struct sheaf__rows *rows)
{
    for (size_t i = rows->head; i < rows->used; i++)
        retire(rows, rows->blocks[i]);
    rows->head = rows->used = rows->count = rows->reserve = 0;
}

void sheaf__rows_free(struct sheaf__rows *rows)
{
    sheaf__rows_clear(rows);
    sheaf__free(rows->blocks);
    sheaf__free(rows->spare);
    sheaf__unref(rows->text);
    *rows = (struct sheaf__rows){0};
}

struct sheaf__block *sheaf__rows_pop(struct sheaf__rows *rows)
{
    struct sheaf__block *block = sheaf__rows_front(rows);
    if (block) {
        rows->head++;
        rows->count -= block->count;
    }
    return block;
}

/* Takes `count` rows, fewer than it has, off the front block. */
static sheaf_status cut_front(struct sheaf__rows *rows, size_t count, sheaf_error *err)
{
    struct sheaf__block *block = sheaf__rows_front(rows);
    if (!is_unshared(block)) {
        struct sheaf__block *own =
            block_new(rows, sheaf__ref(block->columns), false, block->first, block->count, err);
        if (!own)
            return err->status;
        sheaf__block_unref(block);
        rows->blocks[rows->head] = block = own;
    }
    block->capacity = 0;
    block->first += count;
    block->count -= count;
    rows->count -= count;
    return SHEAF_OK;
}

void sheaf__rows_drop(struct sheaf__rows *rows, size_t count)
{
    while (count > 0 && sheaf__rows_front(rows)) {
        struct sheaf__block *block = sheaf__rows_front(rows);
        if (block->count > count) {
            sheaf_error ignored;
            if (cut_front(rows, count, &ignored) == SHEAF_OK)
                return;
        }
        count -= block->count < count ? block->count : count;
        sheaf__block_unref(sheaf__rows_pop(rows));
    }
}

sheaf_status sheaf__rows_move(struct sheaf__rows *from, size_t want, struct sheaf__rows *to,
                              sheaf_error *err)
{
    while (want > 0 && from->count > 0) {
        struct sheaf__block *block = sheaf__rows_front(from);
        if (block->count <= want) {
            want -= block->count;
            SHEAF__TRY(add(to, sheaf__rows_pop(from), err));
            continue;
        }
        SHEAF__TRY(sheaf__rows_put_slices(to, block->columns, block->first, want, err));
        SHEAF__TRY(cut_front(from, want, err));
        want = 0;
    }
    return SHEAF_OK;
}

/* ---- room at the end ---- */

/* How many rows a new block is made for. */
static size_t room_for(const struct sheaf__rows *rows, size_t bytes)
{
    size_t most = BLOCK_BYTES / (bytes > 0 ? bytes : 1);
    size_t due = rows->reserve > rows->count ? rows->reserve - rows->count : 1;
    return due < most ? due : most > 0 ? most : 1;
}

/* The block at the end if rows may be appended to it. */
static struct sheaf__block *open_tail(const struct sheaf__rows *rows)
{
    if (rows->head == rows->used)
        return NULL;
    struct sheaf__block *tail = rows->blocks[rows->used - 1];
    return is_unshared(tail) && tail->first + tail->count < tail->capacity ? tail : NULL;
}

static bool same_inner(const sheaf_tensor *column, sheaf_dtype dtype, const sheaf_shape *row)
{
    return column->dtype == dtype && column->shape.rank == row->rank + 1 &&
           memcmp(column->shape.dims + 1, row->dims, (size_t)row->rank * sizeof(row->dims[0])) == 0;
}

static bool fits_spec(const struct sheaf__block *block, const sheaf_element_spec *spec)
{
    const sheaf_element *c = block->columns;
    bool same = c->count == spec->count && c->pattern == spec->pattern;
    for (size_t i = 0; same && i < c->count; i++)
        same = c->items[i].name == spec->specs[i].name &&
               same_inner(c->items[i].tensor, spec->specs[i].dtype, &spec->specs[i].shape);
    return same;
}

/* Adds an empty column for `capacity` rows to the element. */
static sheaf_status add_column(sheaf_element *e, const char *name, sheaf_dtype dtype,
                               sheaf_shape row, size_t capacity, sheaf_error *err)
{
    sheaf_tensor *t =
        sheaf__tensor_new(dtype, sheaf__shape_prepend(row, (int64_t)capacity), NULL, err);
    if (!t)
        return err->status;
    sheaf_status status = sheaf__element_add(e, name, t, err);
    sheaf__unref(t);
    return status;
}

/* An empty stacked block of ours; takes a count of nothing. */
static struct sheaf__block *open_block(struct sheaf__rows *rows, sheaf_element *columns,
                                       size_t capacity, sheaf_error *err)
{
    struct sheaf__block *block = block_new(rows, columns, false, 0, 0, err);
    if (!block || add(rows, block, err) < 0)
        return NULL;
    block->capacity = capacity;
    return block;
}

static struct sheaf__block *block_of_spec(struct sheaf__rows *rows, const sheaf_element_spec *spec,
                                          sheaf_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < spec->count; i++)
        bytes += (size_t)sheaf_shape_elements(spec->specs[i].shape) *
                 sheaf_dtype_size(spec->specs[i].dtype);
    size_t capacity = room_for(rows, bytes);
    sheaf_element *columns = sheaf__element_new(err);
    if (!columns)
        return NULL;
    columns->pattern = spec->pattern;
    for (size_t i = 0; i < spec->count; i++) {
        const sheaf_tensor_spec *s = &spec->specs[i];
        if (add_column(columns, s->name, s->dtype, s->shape, capacity, err) < 0) {
            sheaf__unref(columns);
            return NULL;
        }
    }
    return open_block(rows, columns, capacity, err);
}

sheaf_status sheaf__rows_room(struct sheaf__rows *rows, const sheaf_element_spec *spec, size_t want,
                              struct sheaf__block **block, size_t *room, sheaf_error *err)
{
    struct sheaf__block *tail = open_tail(rows);
    if (!tail || !fits_spec(tail, spec)) {
        if (rows->reserve < rows->count + want)
            rows->reserve = rows->count + want;
        tail = block_of_spec(rows, spec, err);
        if (!tail)
            return err->status;
    }
    size_t left = tail->capacity - tail->first - tail->count;
    *block = tail;
    *room = left < want ? left : want;
    return SHEAF_OK;
}

void sheaf__rows_grow(struct sheaf__rows *rows, struct sheaf__block *block, size_t count)
{
    block->count += count;
    rows->count += count;
}

/* ---- appending ---- */

/* True for an element of dense host tensors of less than SMALL_ROW bytes, strings included. */
static bool is_small(const sheaf_element *e)
{
    size_t bytes = 0;
    for (size_t i = 0; i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        if (t->error || t->layout != SHEAF__DENSE || !t->contiguous || t->plain ||
            t->shape.rank >= SHEAF_MAX_RANK || !t->device->cls->host_memory)
            return false;
        bytes += sheaf__tensor_size(t);
        if (bytes > SMALL_ROW)
            return false;
        if (t->dtype != SHEAF_STRING)
            continue;
        const sheaf_bytes *strings = t->data;
        for (int64_t k = 0; k < sheaf_shape_elements(t->shape); k++)
            bytes += strings[k].size < SMALL_ROW ? strings[k].size : SMALL_ROW;
    }
    return bytes <= SMALL_ROW;
}

static bool fits_element(const struct sheaf__block *block, const sheaf_element *e)
{
    const sheaf_element *c = block->columns;
    bool same = c->count == e->count && c->pattern == e->pattern;
    for (size_t i = 0; same && i < c->count; i++)
        same =
            c->items[i].name == e->items[i].name &&
            same_inner(c->items[i].tensor, e->items[i].tensor->dtype, &e->items[i].tensor->shape);
    return same;
}

static struct sheaf__block *block_of_element(struct sheaf__rows *rows, const sheaf_element *e,
                                             sheaf_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < e->count; i++)
        bytes += sheaf__tensor_size(e->items[i].tensor);
    size_t capacity = room_for(rows, bytes);
    sheaf_element *columns = sheaf__element_new(err);
    if (!columns)
        return NULL;
    columns->pattern = e->pattern;
    for (size_t i = 0; i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        if (add_column(columns, e->items[i].name, t->dtype, t->shape, capacity, err) < 0) {
            sheaf__unref(columns);
            return NULL;
        }
    }
    return open_block(rows, columns, capacity, err);
}

/* Room for the bytes of a string; several blocks share a buffer, whoever has them now. */
static char *text_alloc(struct sheaf__rows *rows, size_t size, sheaf_error *err)
{
    if (!rows->text || rows->text->size - rows->text_used < size) {
        size_t next = rows->text ? 2 * rows->text->size : TEXT_FIRST;
        next = next < TEXT_MOST ? next : TEXT_MOST;
        sheaf__unref(rows->text);
        rows->text = sheaf__buffer_new(NULL, size > next ? size : next, err);
        rows->text_used = 0;
        if (!rows->text)
            return NULL;
    }
    char *at = (char *)rows->text->data + rows->text_used;
    rows->text_used += size;
    return at;
}

/* Copies strings with their bytes into row `at`. */
static sheaf_status copy_strings(struct sheaf__rows *rows, sheaf_tensor *column, size_t at,
                                 const sheaf_tensor *from, sheaf_error *err)
{
    sheaf_bytes *to = (sheaf_bytes *)(void *)row_address(column, at);
    const sheaf_bytes *strings = from->data;
    for (size_t i = 0; i < inner_elements(column); i++) {
        if (strings[i].size == 0)
            continue;
        char *bytes = text_alloc(rows, strings[i].size, err);
        if (!bytes)
            return err->status;
        memcpy(bytes, strings[i].data, strings[i].size);
        to[i] = (sheaf_bytes){bytes, strings[i].size};
        SHEAF__TRY(sheaf__string_keep(column, rows->text, err));
    }
    return SHEAF_OK;
}

static sheaf_status copy_element(struct sheaf__rows *rows, struct sheaf__block *block,
                                 const sheaf_element *e, sheaf_error *err)
{
    size_t at = block->first + block->count;
    for (size_t i = 0; i < e->count; i++) {
        sheaf_tensor *column = block->columns->items[i].tensor;
        const sheaf_tensor *t = e->items[i].tensor;
        if (t->dtype == SHEAF_STRING) {
            SHEAF__TRY(copy_strings(rows, column, at, t, err));
            continue;
        }
        size_t bytes = row_bytes(column);
        if (bytes == sizeof(int64_t))
            memcpy((int64_t *)column->data + at, t->data, sizeof(int64_t));
        else if (bytes > 0)
            memcpy(row_address(column, at), t->data, bytes);
    }
    sheaf__rows_grow(rows, block, 1);
    return SHEAF_OK;
}

sheaf_status sheaf__rows_put_boxed(struct sheaf__rows *rows, sheaf_element *e, sheaf_error *err)
{
    return add(rows, block_new(rows, sheaf__ref(e), true, 0, 1, err), err);
}

sheaf_status sheaf__rows_put(struct sheaf__rows *rows, sheaf_element *e, sheaf_error *err)
{
    struct sheaf__block *tail = open_tail(rows);
    bool more = tail || rows->reserve > rows->count + 1;
    if (!more || !is_small(e))
        return sheaf__rows_put_boxed(rows, e, err);
    if (!tail || !fits_element(tail, e))
        tail = block_of_element(rows, e, err);
    return tail ? copy_element(rows, tail, e, err) : err->status;
}

sheaf_status sheaf__rows_put_slices(struct sheaf__rows *rows, sheaf_element *e, size_t first,
                                    size_t count, sheaf_error *err)
{
    struct sheaf__block *tail = rows->head < rows->used ? rows->blocks[rows->used - 1] : NULL;
    if (tail && !tail->boxed && is_unshared(tail) && tail->capacity == 0 && tail->columns == e &&
        tail->first + tail->count == first) {
        sheaf__rows_grow(rows, tail, count);
        return SHEAF_OK;
    }
    return add(rows, block_new(rows, sheaf__ref(e), false, first, count, err), err);
}

static bool same_columns(const sheaf_element *a, const sheaf_element *b)
{
    bool same = a->count == b->count && a->pattern == b->pattern;
    for (size_t i = 0; same && i < a->count; i++) {
        const sheaf_tensor *x = a->items[i].tensor, *y = b->items[i].tensor;
        same = a->items[i].name == b->items[i].name && x->dtype == y->dtype &&
               x->shape.rank == y->shape.rank &&
               memcmp(x->shape.dims + 1, y->shape.dims + 1,
                      (size_t)(x->shape.rank - 1) * sizeof(x->shape.dims[0])) == 0;
    }
    return same;
}

/* A block of the same columns with room. */
static struct sheaf__block *block_like(struct sheaf__rows *rows, const struct sheaf__block *like,
                                       sheaf_error *err)
{
    size_t capacity = room_for(rows, sheaf__block_row_bytes(like));
    sheaf_element *columns = sheaf__element_new(err);
    if (!columns)
        return NULL;
    columns->pattern = like->columns->pattern;
    for (size_t i = 0; i < like->columns->count; i++) {
        const sheaf_tensor *t = like->columns->items[i].tensor;
        if (add_column(columns, like->columns->items[i].name, t->dtype,
                       sheaf__shape_inner(t->shape), capacity, err) < 0) {
            sheaf__unref(columns);
            return NULL;
        }
    }
    return open_block(rows, columns, capacity, err);
}

/* Copies rows between blocks of the same columns; strings stay views. Whose owners are kept already
 * is told by a number: the next block may lie where one lay that is gone. */
static sheaf_status copy_rows(struct sheaf__block *to, const struct sheaf__block *from, size_t at,
                              size_t count, sheaf_error *err)
{
    for (size_t i = 0; i < from->columns->count; i++) {
        sheaf_tensor *column = to->columns->items[i].tensor;
        const sheaf_tensor *source = from->columns->items[i].tensor;
        if (source->dtype == SHEAF_STRING && to->like != from->number)
            SHEAF__TRY(sheaf__string_keep_like(column, source, err));
        size_t bytes = count * row_bytes(column);
        if (bytes > 0)
            memcpy(row_address(column, to->first + to->count),
                   row_address(source, from->first + at), bytes);
    }
    to->like = from->number;
    return SHEAF_OK;
}

sheaf_status sheaf__rows_put_from(struct sheaf__rows *rows, struct sheaf__block *block, size_t at,
                                  size_t count, sheaf_error *err)
{
    if (block->boxed)
        return add(rows, sheaf__block_ref(block), err);
    struct sheaf__block *tail = open_tail(rows);
    if (tail && !same_columns(tail->columns, block->columns))
        tail = NULL;
    const bool more = tail || rows->reserve > rows->count + count;
    if (!more || sheaf__block_row_bytes(block) * count > SMALL_ROW)
        return sheaf__rows_put_slices(rows, block->columns, block->first + at, count, err);
    while (count > 0) {
        if (!tail)
            tail = block_like(rows, block, err);
        if (!tail)
            return err->status;
        size_t left = tail->capacity - tail->first - tail->count;
        size_t n = left < count ? left : count;
        SHEAF__TRY(copy_rows(tail, block, at, n, err));
        sheaf__rows_grow(rows, tail, n);
        at += n;
        count -= n;
        tail = NULL; /* full, if rows are left */
    }
    return SHEAF_OK;
}
