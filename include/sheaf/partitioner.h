/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PARTITIONER_H
#define SHEAF_PARTITIONER_H

/** @file
 *  Partitioners: into how many parts parameter servers cut a variable (tf-semantics 5.6, 5.7).
 *
 *  A variable is cut along axis 0, into parts whose rows differ by one at most: 13 rows in 5 parts are 3, 3, 3, 2, 2. Its
 *  parts go to the servers in turn, as variables do. They are one variable for the program: read, written, looked up and saved
 *  under one name, whatever the number of parts, which may be another one when a checkpoint is restored. */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

/** How many parts along each axis of a variable: SHEAF_SHAPE(parts, 1, …), with 1 for all axes but the first (R5.33). More
 *  parts than rows are as many as rows. Called once for each variable but scalars, on the thread that makes it; every worker
 *  must answer the same. */
typedef sheaf_shape (*sheaf_partitioner_fn)(sheaf_dtype dtype, sheaf_shape shape,
                                            const int64_t *args, void *user);
/** Zeroed: variables are not cut. */
typedef struct sheaf_partitioner {
    sheaf_partitioner_fn fn;
    void *user;
    int64_t args[2]; /**< meaning is the function's */
} sheaf_partitioner;

/* TensorFlow's three. What their arguments must not be is an error of the strategy that is given them. A variable without
 * elements stays whole. */

/** That many parts, at least 1 (R5.27). */
SHEAF_API sheaf_partitioner sheaf_partitioner_fixed(int64_t parts);
/** At most `max_parts` (at least 1), and not so many that they would be smaller than `bytes` (0: 256 KiB), but for rounding
 *  (R5.28). */
SHEAF_API sheaf_partitioner sheaf_partitioner_min_size(int64_t bytes, int64_t max_parts);
/** Parts of at most `bytes` (at least 1), but of one row at least, and at most `max_parts` (0: any number) whatever their size
 *  (R5.29). */
SHEAF_API sheaf_partitioner sheaf_partitioner_max_size(int64_t bytes, int64_t max_parts);

SHEAF_END_DECLS

#endif
