/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_INITIALIZER_H
#define SHEAF_OPS_INITIALIZER_H

/** @file
 *  Running initializers. */

#include "ops/op.h"

#include <sheaf/variable.h>

/** The next seed of the context, never 0 (R9.8). */
uint64_t sheaf__initializer_seed(void);

/** Refuses a dtype, a range or a deviation that makes no numbers of the dtype; what functions of the
 * program make of their arguments is not known. */
sheaf_status sheaf__initializer_check(const sheaf_initializer *initializer, sheaf_dtype dtype,
                                      sheaf_error *err);
/** Writes the part to `data` on the device's threads; the initializer has a seed. A function of the program
 * may say that it cannot. */
sheaf_status sheaf__initializer_run(const sheaf_initializer *initializer,
                                    struct sheaf__device *device, void *data,
                                    const sheaf_initial_part *part, sheaf_error *err);

#endif
