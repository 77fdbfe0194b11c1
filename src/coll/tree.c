/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/tree.h"

int sheaf__tree_span(int total)
{
    int span = 1;
    while (span < total)
        span *= 2;
    return span;
}

int sheaf__tree_blocks(int first, int count, int total, struct sheaf__block *blocks)
{
    int made = 0;
    int end = first + count;
    while (first < end) {
        int size = 1;
        /* Twice as large, if it would still begin here and end within (or at the tree's edge). */
        while (first % (2 * size) == 0 && (first + 2 * size <= end || end == total) &&
               first + size < end)
            size *= 2;
        blocks[made++] = (struct sheaf__block){.first = first, .size = size};
        first += size;
    }
    return made;
}

int sheaf__tree_split(const struct sheaf__block *blocks, int count, int first, int *span)
{
    int left = 0;
    do {
        *span /= 2;
        left = 0;
        while (left < count && blocks[left].first < first + *span)
            left++;
    } while (left == count); /* the right half is beyond the last leaf */
    return left;
}

size_t sheaf__part_first(size_t count, int part, int parts)
{
    /* count * part may overflow: the whole parts and what is left over, each by itself. */
    size_t whole = count / (size_t)parts, left = count % (size_t)parts;
    return whole * (size_t)part + left * (size_t)part / (size_t)parts;
}
