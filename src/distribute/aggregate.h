/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_AGGREGATE_H
#define SHEAF_DISTRIBUTE_AGGREGATE_H

/* What replicas write together, as the variable's aggregation says (R5.9, R5.10). */

#include "distribute/strategy.h"
#include "ops/variable.h"

/* The one value of all replicas' `values`: their sum, their mean, or the first. In the frame of the
 * calling thread. */
sheaf_tensor *sheaf__aggregate(const sheaf_variable *v, sheaf_tensor *const *values, int count);

#endif
