/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_UPDATE_H
#define SHEAF_DISTRIBUTE_UPDATE_H

/* Updating this process's copies of variables by an optimizer's rule. */

#include "distribute/strategy.h"
#include "ops/tape.h"

/* Applies summed gradients, except those that were taken, to the replica's own copies, as update
 * number `step`, and counts it. */
sheaf_status sheaf__update_local(sheaf_replica *r, sheaf_optimizer *o, int64_t step,
                                 const struct sheaf__gradient *all, size_t count, sheaf_error *err);
/* The copy of a variable that this replica updates; NULL where another replica updates the only one. */
sheaf_variable *sheaf__update_copy(const sheaf_replica *r, sheaf_variable *v);
/* Whether a gradient fits a variable: shape, dtype, a float that the rules take. */
sheaf_status sheaf__update_check(const sheaf_variable *v, const sheaf_tensor *gradient,
                                 sheaf_error *err);

#endif
