/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_MODE_H
#define SHEAF_OPS_MODE_H

/** @file
 *  The calling thread's mode (R4.1): default, cross-replica of a strategy, replica of a strategy.
 *
 *  It stands below distribute/ because variables of every layer follow it. The stack is linked
 * through its owners' frames on the C stack; only distribute/ pushes. */

#include <stdbool.h>

struct sheaf_strategy;
struct sheaf_replica;
struct sheaf__step_plan;

enum sheaf__mode_kind { SHEAF__MODE_DEFAULT, SHEAF__MODE_CROSS, SHEAF__MODE_REPLICA };

struct sheaf__mode {
    const struct sheaf__mode *parent;
    enum sheaf__mode_kind kind;
    struct sheaf_strategy *strategy; /**< NULL in default mode */
    struct sheaf_replica *replica;   /**< in replica mode */
    int local_replica; /**< number among this process's replicas, 0 outside replica mode */
    bool updating; /**< inside an update of one component (R4.42): writes touch `local_replica`'s
                      copy only */
    struct sheaf__step_plan *plan; /**< of the compiled step that the replica runs; NULL: none */
};

/** The innermost mode; never NULL. */
const struct sheaf__mode *sheaf__mode_current(void);
/** Makes `mode` the innermost (parent is set); popped in reverse order. */
void sheaf__mode_push(struct sheaf__mode *mode);
void sheaf__mode_pop(struct sheaf__mode *mode);

#endif
