/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_PARTITION_H
#define SHEAF_PS_PARTITION_H

/* Into which parts a variable is cut, and which of them has a row: pure arithmetic, the same in every
 * process. */

#include <sheaf/partitioner.h>

/* INVALID_ARGUMENT: one of our own partitioners with arguments that it must not have. */
sheaf_status sheaf__partitioner_check(const sheaf_partitioner *p, sheaf_error *err);

/* Parts of a variable, 1: it stays whole. INVALID_ARGUMENT: the partitioner's answer is none (R5.33). */
sheaf_status sheaf__ps_parts(const sheaf_partitioner *p, sheaf_dtype dtype, sheaf_shape shape,
                             int64_t *parts, sheaf_error *err);

/* First row of part `i` of `parts`; i == parts: the number of rows (R5.34). */
int64_t sheaf__ps_first_row(int64_t rows, int64_t parts, int64_t i);
/* The part that has `row`, which is a row of it (R5.41). */
int64_t sheaf__ps_part_of(int64_t rows, int64_t parts, int64_t row);

#endif
