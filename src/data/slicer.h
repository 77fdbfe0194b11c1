/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_SLICER_H
#define SHEAF_DATA_SLICER_H

#include "data/stage.h"

/* Elements taken apart into their rows, as views. */

/* `e` with dense tensors in row-major order on the host, which rows of it can be views of; the
 * caller's count. SHEAF_ERR_INVALID_ARGUMENT: scalars, different first sizes, other layouts.
 * `*rows` is the first size. */
sheaf_status sheaf__sliceable(sheaf_element *e, sheaf_element **out, size_t *rows,
                              sheaf_error *err);

/* The rows of the elements of an input, one element after the other. Zeroed but for `feed.from` is
 * empty. */
struct sheaf__slicer {
    struct sheaf__feed feed;
    struct sheaf__rows rows; /* of the element at hand */
};
/* Makes sure that there are rows, or SHEAF_END. Elements without rows vanish. */
sheaf_status sheaf__slicer_fill(struct sheaf__slicer *slicer, sheaf_error *err);
void sheaf__slicer_free(struct sheaf__slicer *slicer);

#endif
