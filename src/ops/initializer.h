/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_INITIALIZER_H
#define SHEAF_OPS_INITIALIZER_H

/** @file
 *  Running initializers. */

#include "ops/op.h"

#include <sheaf/variable.h>

/** The next seed of the context, never 0 (R9.8). */
uint64_t sheaf__initializer_seed(void);

/** Fills elements [first, first + count) of `shape` on the device's threads; the initializer has a
 * seed. */
void sheaf__initializer_run(const sheaf_initializer *initializer, struct sheaf__device *device,
                            void *data, sheaf_dtype dtype, sheaf_shape shape, uint64_t first,
                            uint64_t count);

#endif
