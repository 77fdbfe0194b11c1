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

#include <stdatomic.h>

/* ---- recording ---- */

/** Whether a recording tape of the thread follows one of the tensors. */
bool sheaf__tape_follows(sheaf_tensor *const *in, size_t count);
/** Records a call on every tape that follows one of its inputs; takes the count of call->aux. */
void sheaf__tape_record(const struct sheaf__op_call *call);
/** `value` was read from `v`: followed if it is trainable. */
void sheaf__tape_read(sheaf_variable *v, sheaf_tensor *value);
/** `rows` are the rows `ids` of `v`, read without the rest. */
void sheaf__tape_lookup(sheaf_variable *v, sheaf_tensor *ids, sheaf_tensor *rows);

/** What a run of a compiled step teaches the next ones: how many bytes its tape's arrays take. Zeroed: nothing yet.
 * Any number of replicas learn and use it at once. */
enum { SHEAF__TAPE_ARRAYS = 5 };
struct sheaf__step_plan {
    _Atomic uint32_t bytes[SHEAF__TAPE_ARRAYS];
};

/* ---- gradients of variables ---- */

/** Gradient of one variable. */
struct sheaf__gradient {
    sheaf_variable *variable; /**< alive as long as the tape */
    /** Dense, or rows in the order of the look-ups, repeated ones included; of the frame. NULL: not final yet, unused or
     * taken. */
    sheaf_tensor *value;
    bool unused; /**< the target does not depend on it: counts as zeros */
    bool direct; /**< it could be taken: one dense product is all of it */
    bool take;   /**< set by `begin` for a direct one: its elements go to `take` */
};

struct sheaf__gradients {
    struct sheaf__gradient
        *all; /**< in the order of the variables' creation; memory of the frame */
    size_t count;
};

/** What happens on the way; all may be NULL. */
struct sheaf__gradient_calls {
    /** Before the walk, with all variables known. */
    sheaf_status (*begin)(const struct sheaf__gradients *g, void *user, sheaf_error *err);
    /** As soon as gradient `i` is final, while others are still to come; each once, on the tape's thread. */
    sheaf_status (*ready)(const struct sheaf__gradients *g, size_t i, void *user, sheaf_error *err);
    /** Elements [first, first + count) of gradient `i`, once each, on any of the device's threads, while they are in the
     * cache. A failed walk may have given some only. */
    void (*take)(size_t i, const void *elements, size_t first, size_t count, void *user);
    void *user;
};

/** Gradient of sum(target) for every trainable variable that the tape saw read. Uses the tape up
 * unless it is persistent. `calls` may be NULL. */
sheaf_status sheaf__tape_gradients(sheaf_tape *tape, sheaf_tensor *target,
                                   const struct sheaf__gradient_calls *calls,
                                   struct sheaf__gradients *gradients, sheaf_error *err);

/** A dense gradient of the frame: `t` itself, or the sum of its rows. */
sheaf_tensor *sheaf__tape_dense(sheaf_tensor *t);

#endif
