/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_BIND_H
#define SHEAF_DISTRIBUTE_BIND_H

/* An optimizer bound to its variables: their slots, the count of its steps, and how a checkpoint
 * sees all of it (the layout of Keras 3: `_variables/0` the steps, `_variables/1` the learning
 * rate, then the slots of each variable in turn). */

#include "distribute/strategy.h"
#include "ops/tape.h"
#include "optim/optimizer.h"

/* Binds `o` to `variables`, which must be the ones it has if it is bound already. Not from two
 * threads at once. */
sheaf_status sheaf__bind(sheaf_optimizer *o, sheaf_variable *const *variables, size_t count,
                         sheaf_error *err);
bool sheaf__is_bound(const sheaf_optimizer *o);
/* The steps it had when it was bound: none, or a checkpoint's. */
int64_t sheaf__bound_steps(const sheaf_optimizer *o);
/* Binds `o`, unless it is bound, to the variables of all replicas' gradients, here and on other workers,
 * at its first update; and sees to it that all workers have the same optimizer. Every replica calls it. */
sheaf_status sheaf__bind_together(sheaf_replica *r, sheaf_optimizer *o,
                                  const struct sheaf__gradient *all, size_t count,
                                  sheaf_error *err);
/* Fails on all workers if one of them has another optimizer, and names what differs. Each calls it, at its first update. */
sheaf_status sheaf__bind_compare(sheaf_strategy *s, const sheaf_optimizer *o, sheaf_error *err);
/* Whether all workers are known to have the optimizer, which is bound. */
bool *sheaf__bound_agreed(const sheaf_optimizer *o);
/* The variables of a bound optimizer, and the number of `v` among them, looked for from `*number` on. */
size_t sheaf__bound_count(const sheaf_optimizer *o);
sheaf_variable *sheaf__bound_variable(const sheaf_optimizer *o, size_t i);
sheaf_status sheaf__bound_number(const sheaf_optimizer *o, const sheaf_variable *v, size_t *number,
                                 sheaf_error *err);
/* Slot `i` of all, those of each variable in turn: the same number of each; NULL past the last, and
 * where it is not bound. */
sheaf_trackable *sheaf__bound_slot(const sheaf_optimizer *o, size_t i);
/* Who saves its numbers; NULL: this process alone. */
struct sheaf__save_group *sheaf__bound_group(const sheaf_optimizer *o);
/* Where local replica `local` keeps what it knows of a bound optimizer; freed with it, by sheaf__free(). */
void **sheaf__bound_note(const sheaf_optimizer *o, int local);
/* The variable that counts the steps, where one does (parameter servers); else NULL: o->iterations.
 */
sheaf_variable *sheaf__bound_iterations(const sheaf_optimizer *o);

#endif
