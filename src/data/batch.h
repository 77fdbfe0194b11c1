/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_BATCH_H
#define SHEAF_DATA_BATCH_H

#include "data/stage.h"

/* What batch and padded_batch have in common; their own structs begin with these. */
struct sheaf__batch {
    struct sheaf__params params;
    int64_t size;
    bool drop_remainder;
};
struct sheaf__batch_iter {
    struct sheaf__iter base;
    struct sheaf__rows rows; /* of the batch that is being collected */
};

/* Checks the size and sets the cardinality. */
sheaf_status sheaf__batch_describe(sheaf_dataset *d, sheaf_error *err);
/* Appends up to `want` batches, each made by `stack` of its rows. An error uses up the rows that
 * its batch had (R9.15). */
typedef sheaf_status (*sheaf__stack_fn)(struct sheaf__batch_iter *it, sheaf_element **batch,
                                        sheaf_error *err);
sheaf_status sheaf__batch_next(struct sheaf__batch_iter *it, size_t want, sheaf__stack_fn stack,
                               struct sheaf__rows *rows, sheaf_error *err);
sheaf_status sheaf__batch_pass(struct sheaf__iter *base, uint64_t count,
                               struct sheaf__passed *passed, sheaf_error *err);
uint64_t sheaf__batch_sure(const struct sheaf__iter *base);
void sheaf__batch_stop(struct sheaf__iter *base);
void sheaf__batch_explain(const sheaf_dataset *d, struct sheaf__str *text);

#endif
