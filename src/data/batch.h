/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_BATCH_H
#define SHEAF_DATA_BATCH_H

#include "data/stage.h"

/* The size of a batch stage, -1 for a parallel one (R1.9). */
int64_t sheaf__batch_size(const sheaf_dataset *d);

#endif
