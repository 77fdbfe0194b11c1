/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_REPLICA_H
#define SHEAF_DISTRIBUTE_REPLICA_H

/* Replicas of this process: their threads, and the step they run. Replica 0 runs on the caller's
 * thread, each other on a persistent one of its own; they meet at `meet`. */

#include "distribute/meet.h"
#include "distribute/strategy.h"

struct sheaf_replica {
    sheaf_strategy *strategy;
    struct sheaf__replicas *all; /* NULL: the default replica */
    int local, id;
};

/* A step to run. */
struct sheaf__job {
    sheaf_step_fn fn;
    void *user;
    const sheaf_values *in;
    struct sheaf__step_plan *plan; /* of a compiled one, whose outputs are tensors (S86) */
    int64_t examples;              /* real ones of the global batch; -1: not known */
    int64_t deadline_ns;           /* of each wait; 0: the strategy's */
    sheaf_element **outs;          /* one a replica, each with a count of the caller's */
};

struct sheaf__replicas {
    int count;
    struct sheaf__meet meet;
    struct sheaf__token *token;   /* of the step that runs, else of the next */
    const struct sheaf__job *job; /* the step that runs */
    struct replica_slot *slots;
    struct sheaf__mutex mutex;
    struct sheaf__cond changed;
    _Atomic uint32_t generation; /* steps started */
    _Atomic uint32_t working;    /* replicas besides 0 that have not finished */
    _Atomic bool failed;         /* a replica failed: the step is cancelled */
    bool closing;
};

/* Replicas of `s` with their threads started, made at the first call. */
sheaf_status sheaf__replicas_of(sheaf_strategy *s, struct sheaf__replicas **replicas,
                                sheaf_error *err);
void sheaf__replicas_free(struct sheaf__replicas *replicas);

/* Runs `job` on every replica of `s`, which is in cross-replica mode. The error is the lowest
 * replica's that is no cancellation by another. Nothing is left in job->outs on failure. */
sheaf_status sheaf__replicas_run(sheaf_strategy *s, const struct sheaf__job *job, sheaf_error *err);

/* The replica context outside strategies (R4.2). */
sheaf_replica *sheaf__replica_default(void);

/* SHEAF_OK if `r` is the replica the calling thread runs. `what` names the call. */
sheaf_status sheaf__replica_check(sheaf_replica *r, const char *what, sheaf_error *err);
/* The replica comes to a call of all replicas (meet.h), a static string; `of`: the variable's name, or
 * NULL. A failure fails the step of all. Before any call on the channels of replicas. */
sheaf_status sheaf__replica_come(sheaf_replica *r, const char *what, const char *of,
                                 sheaf_error *err);
/* It comes to a meeting, where `fn` acts for all. Fails outside the replica's own step (R4.36). */
struct sheaf__meeting {
    const char *what, *of;
    sheaf__meet_fn fn;
    void *user;
};
sheaf_status sheaf__replica_meet(sheaf_replica *r, const struct sheaf__meeting *meeting,
                                 void *contribution, sheaf_error *err);

#endif
