/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_TAPE_H
#define SHEAF_OPS_TAPE_H

/** @file
 *  Gradient tapes: what the dispatcher and variables tell them, and what optimizers and strategies
 * take from them.
 *
 *  A tape belongs to the thread that started it. It keeps every tensor that it follows. */

#include "ops/op.h"
#include "ops/variable.h"

#include <sheaf/ops.h>

/* ---- recording ---- */

/** Whether a recording tape of the thread follows one of the tensors. */
bool sheaf__tape_follows(sheaf_tensor *const *in, size_t count);
/** Records a call on every tape that follows one of its inputs; takes the count of call->aux. */
void sheaf__tape_record(const struct sheaf__call *call);
/** `value` was read from `v`: followed if it is trainable. */
void sheaf__tape_read(sheaf_variable *v, sheaf_tensor *value);
/** `rows` are the rows `ids` of `v`, read without the rest. */
void sheaf__tape_lookup(sheaf_variable *v, sheaf_tensor *ids, sheaf_tensor *rows);

/* ---- gradients of variables ---- */

/** Gradient of one variable. */
struct sheaf__gradient {
    sheaf_variable *variable; /**< alive as long as the tape */
    sheaf_tensor *value; /**< dense, or rows in the order of the look-ups, repeated ones included;
                            of the frame; NULL: not final yet, or unused */
    bool unused;         /**< the target does not depend on it: counts as zeros */
};

/** Called on the tape's thread as soon as gradient `i` of `count` is final, while others are still
 * to come; each once. An error stops the walk. */
typedef sheaf_status (*sheaf__gradient_ready_fn)(const struct sheaf__gradient *all, size_t count,
                                                 size_t i, void *user, sheaf_error *err);

/** Gradient of sum(target) for every trainable variable that the tape saw read, in the order of
 * their creation, in memory of the frame. `ready` may be NULL. Uses the tape up unless it is
 * persistent. */
sheaf_status sheaf__tape_gradients(sheaf_tape *tape, sheaf_tensor *target,
                                   sheaf__gradient_ready_fn ready, void *user,
                                   struct sheaf__gradient **gradients, size_t *count,
                                   sheaf_error *err);

/** A dense gradient of the frame: `t` itself, or the sum of its rows. */
sheaf_tensor *sheaf__gradient_dense(sheaf_tensor *t);

#endif
