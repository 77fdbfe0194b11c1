/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_GRADIENT_PLAN_H
#define SHEAF_DISTRIBUTE_GRADIENT_PLAN_H

/* How the gradients of an optimizer's variables are summed: what all replicas of the job know alike, so
 * that one that did not use a variable brings zeros or no rows where the others bring theirs. Learned
 * from what replicas use, and agreed anew when one uses a variable in another way than planned. */

#include "distribute/strategy.h"
#include "optim/optimizer.h"

enum sheaf__gradient_kind {
    SHEAF__GRADIENT_NONE, /* no replica has had one yet */
    SHEAF__GRADIENT_DENSE,
    SHEAF__GRADIENT_ROWS
};

/* One replica's, kept with the optimizer. Variables are meant by their numbers in it. */
struct sheaf__gradient_plan {
    size_t count;
    uint8_t *kinds; /* enum sheaf__gradient_kind */
    /* Large ones: each is summed by itself, as soon as it is final. In this order. */
    uint32_t *early;
    size_t early_count;
    uint32_t renewals; /* of sync.h, at which it was made */
    char name[40];     /* of sums by this plan: other plans have others */
};

/* What one replica has of a variable in this update. */
struct sheaf__gradient_use {
    uint32_t kind;
    uint32_t turn; /* when it was final, from 1; 0: it has none */
};

/* The replica's plan for a bound optimizer; empty at first, and after a failed step, since others may not
 * have learned what this one has. Lives as long as the optimizer. NULL: no memory. */
struct sheaf__gradient_plan *sheaf__gradient_plan_of(sheaf_optimizer *o, const sheaf_replica *r);
/* All replicas bring what they have and get the same new plan. INVALID_ARGUMENT: a variable whose
 * gradient is dense on one replica and of rows on another. */
sheaf_status sheaf__gradient_plan_agree(struct sheaf__gradient_plan *plan, sheaf_replica *r,
                                        const sheaf_optimizer *o,
                                        const struct sheaf__gradient_use *mine, sheaf_error *err);

#endif
