/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_SYNC_H
#define SHEAF_DISTRIBUTE_SYNC_H

/* How the replicas of a strategy reduce with each other: a team of its processes, and the channels
 * on it. Replicas call from their own threads; the calls for a whole process come from one thread
 * at a time. Everything ends with the strategy's deadline, with the step's token, or when a member
 * is lost. */

#include "coll/team.h"
#include "distribute/strategy.h"
#include "tensor/tensor.h"

struct sheaf__forecast;

struct sheaf__sync {
    struct sheaf__team *team;
    struct sheaf__channel *gradients; /* large ones, in the background */
    /* What the program calls, one after the other: one stream, so that whatever two workers call
     * instead of the same, both are told. */
    struct sheaf__channel *values;    /* in steps, from every replica */
    struct sheaf__channel *cross;     /* once for the process: reduce, first values, save, join */
    struct sheaf__channel *input;     /* of processes: forecast.h */
    struct sheaf__forecast *forecast; /* that is said and not heard; NULL: none */
    uint64_t iterators;               /* that were used with the other workers */
    bool input_spoiled;               /* the input failed and the program knows */
    bool spoiled;      /* a call or step failed and said so: all starts anew at the next */
    uint32_t renewals; /* times it did; what replicas had agreed on before holds no more */
};

/* Joins the team (blocking until all members are there) and opens the channels: s->sync. `options`
 * without replicas and order, which are the strategy's. */
sheaf_status sheaf__sync_open(sheaf_strategy *s, struct sheaf__team_options *options,
                              sheaf_error *err);
void sheaf__sync_close(struct sheaf__sync *sync);

/* A wait of strategy `s`: its deadline from now, and the token of the step that runs, if any. */
struct sheaf__wait sheaf__sync_wait(const sheaf_strategy *s, const char *what);

/* ---- for a process, between workers; results belong to the frame ---- */

/* `t` of every worker summed. */
sheaf_tensor *sheaf__sync_sum(sheaf_strategy *s, sheaf_tensor *t);
/* `t` of every worker joined along `axis`. */
sheaf_tensor *sheaf__sync_gather(sheaf_strategy *s, sheaf_tensor *t, int axis);
/* Worker 0's elements on every worker: a new tensor. `what` it is must be the same on all. */
sheaf_tensor *sheaf__sync_first(sheaf_strategy *s, sheaf_tensor *t, const char *what);
/* Before a call on `cross`, and after it with its status, which is returned. */
void sheaf__sync_call(sheaf_strategy *s);
sheaf_status sheaf__sync_called(sheaf_strategy *s, sheaf_status status);

/* ---- for a step ---- */

/* A step failed: whoever waits for this replica, here or elsewhere, fails with `cause`. */
void sheaf__sync_abort(sheaf_strategy *s, const sheaf_error *cause);
/* Around a step, from the thread that runs it. All workers run the same steps (R4.11): the first fails if
 * another worker's step failed meanwhile, either if one waits for a call that this worker left out. The
 * second gets and returns the step's status. */
sheaf_status sheaf__sync_begin(sheaf_strategy *s, sheaf_error *err);
sheaf_status sheaf__sync_end(sheaf_strategy *s, sheaf_status status, sheaf_error *err);

#endif
