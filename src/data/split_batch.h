/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_SPLIT_BATCH_H
#define SHEAF_DATA_SPLIT_BATCH_H

#include "data/stage.h"

/* Legacy (R1.19): each batch of the input in `parts` parts. */
sheaf_dataset *sheaf__split_batch(sheaf_dataset *d, int64_t parts);

#endif
