/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_GRADIENT_SUM_H
#define SHEAF_DISTRIBUTE_GRADIENT_SUM_H

/* The gradients of one replica on their way to their sums over all replicas: large ones while the walk
 * goes on, small ones together at its end, rows gathered (R4.53). A variable that a replica did not use
 * counts as zeros, a table it did not look up in as no rows. */

#include "coll/team.h"
#include "distribute/gradient_plan.h"
#include "ops/tape.h"

/* Zero it, set the replica and the optimizer. All its memory is the frame's. */
struct sheaf__gradient_sum {
    sheaf_replica *replica;
    sheaf_optimizer *optimizer;

    const struct sheaf__gradient *list; /* what the replica has */
    size_t listed;
    uint32_t *turns; /* of each in the list; 0: it is not final yet */
    uint32_t turn;

    /* By the variables' numbers in the optimizer. */
    struct sheaf__gradient_plan *plan; /* NULL: the optimizer is not bound yet */
    uint32_t *places;                  /* in the list, from 1; 0: not there */
    struct sheaf__gradient_use *uses;
    struct sheaf__reduce_job *jobs; /* those that were started have a count */
    sheaf_tensor **sums;
    bool *used; /* by some replica */
    size_t started;
};

/* For struct sheaf__gradient_calls, the user being the struct. */
sheaf_status sheaf__gradient_sum_begin(const struct sheaf__gradients *g, void *user,
                                       sheaf_error *err);
sheaf_status sheaf__gradient_sum_ready(const struct sheaf__gradients *g, size_t i, void *user,
                                       sheaf_error *err);
/* All are final and the optimizer is bound. Gives the sums of all variables that some replica used. */
sheaf_status sheaf__gradient_sum_finish(struct sheaf__gradient_sum *u,
                                        struct sheaf__gradients *sums, sheaf_error *err);
/* Memory of started sums must outlive them: a failed step waits for what it started. */
void sheaf__gradient_sum_abandon(struct sheaf__gradient_sum *u);

#endif
