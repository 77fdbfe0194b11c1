/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_TUPLE_H
#define SHEAF_DATA_TUPLE_H

#include "data/rows.h"

/* Rows at … of a block. */
struct sheaf__part {
    struct sheaf__block *block;
    size_t at;
};

/* Appends `count` tuples of a row of each part. Every block has so many rows. */
sheaf_status sheaf__rows_put_tuples(struct sheaf__rows *rows, const struct sheaf__part *parts,
                                    size_t part_count, size_t count, sheaf_error *err);

#endif
