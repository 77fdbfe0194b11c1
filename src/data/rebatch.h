/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_REBATCH_H
#define SHEAF_DATA_REBATCH_H

#include "data/stage.h"

/* Balanced (R1.14): the rows of the input's batches in batches of the sizes, one after the other,
 * again and again. */
sheaf_dataset *sheaf__rebatch(sheaf_dataset *d, const int64_t *sizes, size_t count,
                              bool drop_remainder);
/* Legacy (R1.19): each batch of the input in `parts` parts. */
sheaf_dataset *sheaf__split_batch(sheaf_dataset *d, int64_t parts);

#endif
