/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_COLL_TREE_H
#define SHEAF_COLL_TREE_H

/* The arithmetic of ranks: in which order sums are formed, and who owns which part. Pure functions.
 *
 * The order is a binary tree over aligned blocks of 1, 2, 4, … leaves, cut off at the number of
 * leaves: of 5 leaves ((0 + 1) + (2 + 3)) + 4. It depends on that number alone. A block is a node of
 * the tree, so whoever holds the leaves of a block can sum them alone. */

#include <stddef.h>

struct sheaf__block {
    int first;
    int size; /* a power of two; at the right edge of the tree it may stand out */
};

/* The fewest blocks that make up leaves [first, first + count) of a tree of `total` leaves, in
 * order. Returns how many; `blocks` has room for 64. */
int sheaf__tree_blocks(int first, int count, int total, struct sheaf__block *blocks);

/* How a node is made of blocks[0..count), which make it up: blocks before the returned number are
 * its left half, the others its right half. `span` (a power of two) is the size of the node and
 * becomes that of the halves. count > 1. */
int sheaf__tree_split(const struct sheaf__block *blocks, int count, int first, int *span);
/* The span of the whole tree: the least power of two that is not less than `total`. */
int sheaf__tree_span(int total);

/* First of the elements of part `part` when `count` elements are dealt to `parts` owners. */
size_t sheaf__part_first(size_t count, int part, int parts);

#endif
