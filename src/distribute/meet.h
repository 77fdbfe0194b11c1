/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_MEET_H
#define SHEAF_DISTRIBUTE_MEET_H

/* Where the replicas of one step meet. Every replica makes the same calls in the same order (R4.14):
 * meetings here, reductions on the channels of coll/. Each says so as it comes to a call, and when
 * it ends its step; the first that came to another call, or ended without the one that others are
 * in, is told at once, and so nobody waits for it.
 *
 * At a meeting each replica brings a contribution, one of them acts on all, and all go on with its
 * result: merge_call and aggregated writes stand on it. */

#include "base/thread.h"
#include "base/wait.h"

/* What a replica comes to. */
struct sheaf__meet_call {
    const char *what; /* a static string, "all_reduce" */
    char of[64];      /* name of the variable that is meant; empty: none */
};

/* Where one replica is. */
struct sheaf__meet_place {
    struct sheaf__meet_call call; /* the last that it came to */
    uint64_t calls;               /* that it came to in this step */
    bool ended;                   /* its step */
    void *contribution;
};

struct sheaf__meet {
    struct sheaf__mutex mutex;
    struct sheaf__cond changed;
    _Atomic uint32_t round;           /* meetings held */
    int size, arrived;                /* replicas; those at a meeting */
    int first;                        /* number of the first replica in the job */
    sheaf_error result;               /* of the meeting that was held last */
    struct sheaf__meet_place *places; /* one a replica */
    void **contributions;             /* the same in a row, for the one who acts */
};

/* Acts on all contributions, in replica order, on the thread of the replica that came last. */
typedef sheaf_status (*sheaf__meet_fn)(void *const *contributions, int count, void *user,
                                       sheaf_error *err);

bool sheaf__meet_init(struct sheaf__meet *m, int size, int first); /* false: no memory */
void sheaf__meet_destroy(struct sheaf__meet *m);
/* Ready for the next step. */
void sheaf__meet_reset(struct sheaf__meet *m);

/* Replica `who` comes to a call that it will not leave before all others came to it.
 * FAILED_PRECONDITION: another replica came to another call, or ended its step without. */
sheaf_status sheaf__meet_come(struct sheaf__meet *m, int who, const struct sheaf__meet_call *call,
                              sheaf_error *err);
/* Replica `who` has ended its step. FAILED_PRECONDITION: another came to a call that it did not. */
sheaf_status sheaf__meet_leave(struct sheaf__meet *m, int who, sheaf_error *err);

/* Replica `who`, which has come to a meeting, brings its contribution. Returns when `fn` has run,
 * with its status, on every replica. */
sheaf_status sheaf__meet_hold(struct sheaf__meet *m, int who, void *contribution, sheaf__meet_fn fn,
                              void *user, const struct sheaf__wait *wait, sheaf_error *err);

#endif
