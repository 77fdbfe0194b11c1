/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_BIND_H
#define SHEAF_DISTRIBUTE_BIND_H

/* An optimizer bound to its variables: their slots, the count of its steps, and how a checkpoint
 * sees all of it (the layout of Keras 3: `_variables/0` the steps, `_variables/1` the learning
 * rate, then the slots of each variable in turn). */

#include "distribute/strategy.h"
#include "optim/optimizer.h"

/* Binds `o` to `variables`, which must be the ones it has if it is bound already. Not from two
 * threads at once. */
sheaf_status sheaf__bind(sheaf_optimizer *o, sheaf_variable *const *variables, size_t count,
                         sheaf_error *err);
bool sheaf__is_bound(const sheaf_optimizer *o);
/* The variable that counts the steps, where one does (parameter servers); else NULL: o->iterations.
 */
sheaf_variable *sheaf__bound_iterations(const sheaf_optimizer *o);

#endif
