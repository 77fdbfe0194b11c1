/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_MEET_H
#define SHEAF_DISTRIBUTE_MEET_H

/* Where the replicas of one step meet: each brings a contribution, one of them acts on all, and all
 * go on with its result. merge_call, all_reduce, aggregated writes and minimize stand on it.
 *
 * Every replica must come to the same meetings in the same order (R4.14): one that finished while
 * others wait, or that came to another meeting, fails them all. A cancelled step wakes who waits.
 */

#include "base/thread.h"
#include "base/wait.h"

struct sheaf__meet_ticket {
    const char *what; /* name of the meeting, a static string: "all_reduce" */
    void *contribution;
};

struct sheaf__meet {
    struct sheaf__mutex mutex;
    struct sheaf__cond changed;
    _Atomic uint32_t round; /* meetings held */
    int size, arrived, finished;
    sheaf_error result;                 /* of the meeting that was held last */
    struct sheaf__meet_ticket *tickets; /* one a replica */
    void **contributions;               /* the same in a row, for the one who acts */
};

/* Acts on all contributions, in replica order, on the thread of the replica that came last. */
typedef sheaf_status (*sheaf__meet_fn)(void *const *contributions, int count, void *user,
                                       sheaf_error *err);

bool sheaf__meet_init(struct sheaf__meet *m, int size); /* false: no memory */
void sheaf__meet_destroy(struct sheaf__meet *m);
/* Ready for the next step. */
void sheaf__meet_reset(struct sheaf__meet *m);

/* Replica `who` comes to meeting `ticket->what` with its contribution. Returns when `fn` has run,
 * with its status, on every replica. */
sheaf_status sheaf__meet_at(struct sheaf__meet *m, int who, const struct sheaf__meet_ticket *ticket,
                            sheaf__meet_fn fn, void *user, const struct sheaf__wait *wait,
                            sheaf_error *err);
/* Replica `who` has finished its step: whoever waits for it fails. */
void sheaf__meet_leave(struct sheaf__meet *m, int who);

#endif
