/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_PLAN_H
#define SHEAF_OPS_PLAN_H

/** @file
 *  Plans: what the runs of one step on one replica taught, operation by operation.
 *
 *  The first run records its operations and the variables it reads. Later runs are matched against
 * that as they go; one that strays keeps the part that agreed and records the rest anew. A plan is
 * used by one thread at a time. */

#include "ops/op.h"
#include "ops/variable.h"

struct sheaf__plan;

/** What is known of one operation of the step. */
struct sheaf__plan_op {
    const struct sheaf__op *op;
    sheaf_dtype dtype;
    sheaf_shape shape; /**< of the result; SHEAF_UNKNOWN_DIM where runs differed */
    struct sheaf__device *device;
};

/** A variable that the step reads. Not counted: a plan does not outlive the step's variables' use
 * of it. */
struct sheaf__plan_variable {
    sheaf_variable *variable;
    bool whole; /**< read as a whole */
    bool rows;  /**< looked up in */
};

/** An empty plan; NULL with `err` without memory. */
struct sheaf__plan *sheaf__plan_new(sheaf_error *err);
void sheaf__plan_free(struct sheaf__plan *plan);

/** Makes `plan` (NULL: none) the calling thread's for the run that begins. */
void sheaf__plan_begin(struct sheaf__plan *plan);
/** Ends the run. A failed one teaches nothing that it did not reach. */
void sheaf__plan_end(struct sheaf__plan *plan, sheaf_status status);

/** Runs that ended well so far, and those of them that strayed from what was known (the first does
 * not). */
uint64_t sheaf__plan_runs(const struct sheaf__plan *plan);
uint64_t sheaf__plan_strays(const struct sheaf__plan *plan);
/** Between runs: operations in order, and variables in the order of their first read. Borrowed. */
const struct sheaf__plan_op *sheaf__plan_ops(const struct sheaf__plan *plan, size_t *count);
const struct sheaf__plan_variable *sheaf__plan_variables(const struct sheaf__plan *plan,
                                                         size_t *count);
/** The calling thread's plan: of the step it runs now, or NULL. */
struct sheaf__plan *sheaf__plan_current(void);

/** While on, operations of the calling thread only infer dtypes and shapes: results are zeros,
 * variables are not written. So a step can be planned without running it. Returns what it was. */
bool sheaf__plan_set_tracing(bool on);
bool sheaf__plan_tracing(void);

/* ---- for the dispatcher and variables ---- */

void sheaf__plan_note(const struct sheaf__op_call *call);
void sheaf__plan_read(sheaf_variable *v, bool rows);
/** Zeros for a result that is not computed. */
sheaf_status sheaf__plan_blank(sheaf_tensor *out, sheaf_error *err);

#endif
