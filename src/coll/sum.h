/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_COLL_SUM_H
#define SHEAF_COLL_SUM_H

/* Summing arrays in the order of coll/tree.h. */

#include "coll/tree.h"
#include <sheaf/tensor.h>

/* What is summed: array i at arrays[i] is the sum of block i. bfloat16 is added as float32. */
struct sheaf__sum {
    sheaf_dtype in;  /* of the arrays: float32, float64, bfloat16, int32, int64 */
    sheaf_dtype out; /* of the result: the same, or bfloat16 of float32 */
    const struct sheaf__block *blocks;
    const void *const *arrays;
    int count;   /* of blocks, in order, that make up one node of the tree */
    int span;    /* leaves of that node: sheaf__tree_span(all leaves), or the size of a block */
    int divisor; /* the sum is divided by it; 1: not */
};

bool sheaf__sum_can(sheaf_dtype dtype);
/* The dtype in which sums of `dtype` are formed. */
sheaf_dtype sheaf__sum_wide(sheaf_dtype dtype);
/* Elements [first, first + n) of all arrays to elements [first, …) of `out`, which may be one of the
 * arrays. Any split gives the same bits. */
void sheaf__sum_range(const struct sheaf__sum *sum, void *out, size_t first, size_t n);

#endif
