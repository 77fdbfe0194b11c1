/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_SHUFFLE_H
#define SHEAF_DATA_SHUFFLE_H

#include "data/stage.h"

/* Whether a shuffle stage was given a seed: workers then agree on its order. */
bool sheaf__shuffle_is_seeded(const sheaf_dataset *d);

#endif
