/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_DIRECT_H
#define SHEAF_DISTRIBUTE_DIRECT_H

/* Updates made while gradients are computed: where nothing has to be summed or clipped, the elements of a weight's
 * gradient are used while they are in the cache, and never written to memory. The new values are other memory, which
 * becomes the variables' only when every gradient is there. */

#include "distribute/update.h"
#include "optim/rule_run.h"

/* One variable's. */
struct sheaf__direct_update {
    sheaf_variable *copy; /* NULL: not updated in this way */
    struct sheaf__update update;
    struct sheaf__rule_run run;
};

struct sheaf__direct {
    sheaf_replica *replica;
    sheaf_optimizer *optimizer;
    struct sheaf__hyper hyper;
    struct sheaf__direct_update *updates; /* by gradient; NULL: none began */
    size_t count;
};

/* Whether the replica's gradients can be used as they come. */
bool sheaf__direct_possible(const sheaf_replica *r, const sheaf_optimizer *o);
/* Starts the updates of the direct gradients and marks them as taken. The optimizer is bound. */
sheaf_status sheaf__direct_begin(struct sheaf__direct *d, const struct sheaf__gradients *g,
                                 sheaf_error *err);
/* For struct sheaf__gradient_calls, the user being the struct. */
void sheaf__direct_take(size_t i, const void *elements, size_t first, size_t count, void *user);
/* Makes the new values the variables'; an unused gradient is not taken any more. */
void sheaf__direct_commit(struct sheaf__direct *d, struct sheaf__gradient *all);
/* Gives the new values up. */
void sheaf__direct_abort(struct sheaf__direct *d);

#endif
