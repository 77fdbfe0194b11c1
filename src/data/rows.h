/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_ROWS_H
#define SHEAF_DATA_ROWS_H

/* Elements on their way between stages.
 *
 * Rows are a sequence of blocks. A block holds elements of one type in one of two forms: *stacked*,
 * rows first … first + count - 1 of tensors with a leading axis, or *boxed*, one element as it is.
 * So a batch becomes its rows, and rows become a batch, without a copy; a stage of numbers costs
 * one call and one pass a block; and elements of unlike shapes just start new blocks. What is
 * small is copied into the block at the end, what is large travels boxed.
 *
 * One thread at a time for a list of rows. */

#include "tensor/element.h"
#include "tensor/spec.h"
#include "tensor/strings.h"

struct sheaf__block {
    _Atomic size_t refs; /* one that is boxed may be shared by threads */
    size_t first;
    size_t count;
    size_t capacity; /* stacked: rows that the columns have room for; 0: they are another's */
    sheaf_element *columns; /* counted; boxed: the element itself */
    bool boxed;
    uint64_t number; /* stacked: no other block has or had it */
    uint64_t like;   /* number of the block whose strings' owners were kept last */
};

struct sheaf__block *sheaf__block_ref(struct sheaf__block *block);
void sheaf__block_unref(struct sheaf__block *block);

/* Zeroed is empty. */
struct sheaf__rows {
    struct sheaf__block **blocks;
    size_t head; /* first block that is left */
    size_t used;
    size_t capacity;
    size_t count;   /* rows in all */
    size_t reserve; /* rows that will come in all: room that a new block makes; 0: unknown */
    struct sheaf__block *spare; /* an empty one to use again */
    struct sheaf__buffer *text; /* bytes of strings that were copied in; counted */
    size_t text_used;
};

/* Drops all rows, keeps the memory of the list. */
void sheaf__rows_clear(struct sheaf__rows *rows);
void sheaf__rows_free(struct sheaf__rows *rows);

/* Appends one element: copied if it is small and more are to come, else counted. */
sheaf_status sheaf__rows_put(struct sheaf__rows *rows, sheaf_element *e, sheaf_error *err);
/* Appends one element as it is. */
sheaf_status sheaf__rows_put_boxed(struct sheaf__rows *rows, sheaf_element *e, sheaf_error *err);
/* Appends rows first … first + count - 1 of the tensors of `e`, as views. */
sheaf_status sheaf__rows_put_slices(struct sheaf__rows *rows, sheaf_element *e, size_t first,
                                    size_t count, sheaf_error *err);
/* Appends rows at … at + count - 1 (counted from the block's first) of another's block: shared if
 * it is all that is wanted and big, else copied. */
sheaf_status sheaf__rows_put_from(struct sheaf__rows *rows, struct sheaf__block *block, size_t at,
                                  size_t count, sheaf_error *err);
/* For sources: the block at the end with room for 1 to `want` more rows of the known type `spec`
 * (strings empty). The caller writes rows of its columns from first + count on and calls
 * sheaf__rows_grow(). */
sheaf_status sheaf__rows_room(struct sheaf__rows *rows, const sheaf_element_spec *spec, size_t want,
                              struct sheaf__block **block, size_t *room, sheaf_error *err);
void sheaf__rows_grow(struct sheaf__rows *rows, struct sheaf__block *block, size_t count);

/* Takes away blocks at the end that were made for rows which did not come. */
static inline void sheaf__rows_trim(struct sheaf__rows *rows)
{
    while (rows->used > rows->head && rows->blocks[rows->used - 1]->count == 0)
        sheaf__block_unref(rows->blocks[--rows->used]);
}

/* Moves up to `want` rows from the front of `from` to the end of `to`, without copying them. */
sheaf_status sheaf__rows_move(struct sheaf__rows *from, size_t want, struct sheaf__rows *to,
                              sheaf_error *err);
/* Takes the first block's rows as they are; NULL if there is none. The caller's count. */
struct sheaf__block *sheaf__rows_pop(struct sheaf__rows *rows);
/* Drops `count` rows at the front. */
void sheaf__rows_drop(struct sheaf__rows *rows, size_t count);
/* First block, NULL if there is none. */
static inline struct sheaf__block *sheaf__rows_front(const struct sheaf__rows *rows)
{
    return rows->head < rows->used ? rows->blocks[rows->head] : NULL;
}

/* Bytes of memory that one row holds, about. */
size_t sheaf__block_row_bytes(const struct sheaf__block *block);

/* Asks the memory for a row that will be copied soon. */
void sheaf__block_fetch(const struct sheaf__block *block, size_t at);

/* Bytes that rows at … at + count - 1 hold, those of strings and of all parts included. */
uint64_t sheaf__block_bytes(const struct sheaf__block *block, size_t at, size_t count);

/* What all blocks take of memory: the same of their rows, headers, and room that was not used. */
uint64_t sheaf__rows_bytes(const struct sheaf__rows *rows);

/* A row as an element; the caller's count. NULL with err: no memory. */
sheaf_element *sheaf__block_element(struct sheaf__block *block, size_t at, sheaf_error *err);
/* The same for stages that look at many rows one after the other: the element of the last call is
 * used again unless somebody kept it. Zeroed is empty. */
struct sheaf__row {
    struct sheaf__block *block;
    sheaf_element *element;
};
sheaf_element *sheaf__row_at(struct sheaf__row *row, struct sheaf__block *block, size_t at,
                             sheaf_error *err);
void sheaf__row_free(struct sheaf__row *row);

/* All rows as one element with a new first axis (R9.15), the caller's count; views where they are
 * stacked already, else copied by at most so many threads (0: all that there are).
 * SHEAF_ERR_INVALID_ARGUMENT: unlike shapes, dtypes or names. Empties `rows` on success. */
sheaf_status sheaf__rows_stack(struct sheaf__rows *rows, int threads, sheaf_element **batch,
                               sheaf_error *err);

/* What component `i` of a block's rows looks like. */
struct sheaf__row_kind {
    const char *name;
    sheaf_dtype dtype;
    uint8_t layout;
    sheaf_shape shape; /* of one row; of sparse ones as far as it is the same for all */
};
struct sheaf__row_kind sheaf__block_kind(const struct sheaf__block *block, size_t i);
/* Whether all rows can go into one batch: components of one name, dtype, layout and shape, or with
 * `any_size` of one rank. At least one row. */
sheaf_status sheaf__rows_check(const struct sheaf__rows *rows, bool any_size, sheaf_error *err);

/* Tensor helpers. */

/* Rows begin … end - 1 of a dense tensor as a view; the caller's count. */
sheaf_tensor *sheaf__rows_of(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err);
/* Rows first … first + count - 1 of every tensor of `e`, views; the caller's count. */
sheaf_element *sheaf__element_rows(const sheaf_element *e, size_t first, size_t count,
                                   sheaf_error *err);

#endif
