/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_COLL_TEAM_H
#define SHEAF_COLL_TEAM_H

/* Teams: the processes that reduce together, and the replicas in them.
 *
 * A team has members (processes, in rank order), each of which runs one or more replicas (threads).
 * Replicas are numbered over the whole team, member by member. A team of one member needs no net:
 * that is the mirrored strategy. A lost member fails all calls on all channels with TEAM_LOST
 * naming it; the team is then freed, and either a new one made, with the next generation, or the net
 * freed, whose goodbye tells the others of that member.
 *
 * A channel is one ordered stream of collective calls; channels of a team are independent. On a
 * channel every local replica makes the same calls in the same order, each from its own thread, and
 * passes its number among the local ones. Calls that differ between replicas or members fail on all
 * with TEAM_MISMATCH, which names both sides; the channel is of no use after that. Where members
 * also say when their rounds (steps) begin and end, nobody waits for a call that another has left
 * out, either.
 *
 * Sums are formed in one fixed order, so a run repeats bit for bit and every replica gets the same
 * bits: a binary tree over aligned blocks of 2, 4, 8, … ranks. With `reproducible` the tree is over
 * replica numbers, whatever process holds them, so the result depends on the number of replicas
 * alone; without it each member sums its replicas first (the same thing if all members have the
 * same power of two). bfloat16 is summed in float32 and rounded once. */

#include "net/net.h"
#include <sheaf/strategy.h>

struct sheaf__team;
struct sheaf__channel;

struct sheaf__team_member {
    sheaf_task task;
    const char *address;
};

struct sheaf__team_options {
    struct sheaf__net *net;                   /* NULL: a team of this process alone */
    const struct sheaf__team_member *members; /* in rank order, ourselves included; copied */
    int size;                                 /* 0: 1 */
    int rank;
    int local_replicas;  /* of this member; 0: 1 */
    uint32_t generation; /* members of different generations do not meet */
    bool reproducible;
};

/* Lets the net know of teams. Before sheaf__net_start(), once. */
sheaf_status sheaf__team_serve(struct sheaf__net *net, sheaf_error *err);

/* Joins the team: connects the members, exchanges the numbers of replicas and returns when all are
 * there. UNAVAILABLE names the members that did not come by the deadline. */
sheaf_status sheaf__team_new(const struct sheaf__team_options *options,
                             const struct sheaf__wait *wait, struct sheaf__team **team,
                             sheaf_error *err);
/* After its channels. Nobody is in a call. NULL is nothing. */
void sheaf__team_free(struct sheaf__team *team);

int sheaf__team_rank(const struct sheaf__team *team);
int sheaf__team_size(const struct sheaf__team *team);
int sheaf__team_replicas(const struct sheaf__team *team);       /* of the whole team */
int sheaf__team_local_replicas(const struct sheaf__team *team); /* of this member */
int sheaf__team_first_replica(const struct sheaf__team *team);  /* number of its first one */
/* Number of the first replica of member `rank`; `rank` = size gives the number of all. */
int sheaf__team_replica_of(const struct sheaf__team *team, int rank);
/* SHEAF_OK, or TEAM_LOST naming the member. */
sheaf_status sheaf__team_status(struct sheaf__team *team, sheaf_error *err);

/* Opens channel `number` (0..63), the same one on all members, for `local` replicas: 0 means the
 * team's local replicas, 1 that one thread speaks for the process (replica numbers are ranks then).
 * It may be open once in each way: the calls of both are one stream, of which a member makes one
 * after the other. Does not talk to anybody. */
sheaf_status sheaf__channel_open(struct sheaf__team *team, int number, int local,
                                 struct sheaf__channel **channel, sheaf_error *err);
void sheaf__channel_free(struct sheaf__channel *channel);
/* Fails the running and all further calls on this channel, here with `cause` and on the others
 * with an error of the same status that keeps its origin: a replica's step failed. The channel is
 * of no use after that until sheaf__channel_reset(). */
void sheaf__channel_abort(struct sheaf__channel *channel, const sheaf_error *cause);

/* After a failed or aborted call, when no local replica is in a call: the channel starts anew, in
 * its next epoch. Members do so each by itself; those that have not yet failed in the old epoch
 * will at their next call, and meet the others after their own reset. Nothing if the channel has
 * not failed. Does not help when a member is lost. */
void sheaf__channel_reset(struct sheaf__channel *channel);

/* Rounds: all members begin and end them in the same order, and make their calls in one or between
 * two of them. Calls from different places do not fit together, and one fails at once on all when a
 * member has gone past its place without it. No local replica is in a call. Both fail if a member has failed
 * in the same place or before it; TEAM_MISMATCH: a member is in a call that this one has left out. */
sheaf_status sheaf__channel_begin_round(struct sheaf__channel *channel, sheaf_error *err);
sheaf_status sheaf__channel_end_round(struct sheaf__channel *channel, sheaf_error *err);
/* What a round is called in errors, a static string: "step". Before the first. */
void sheaf__channel_name_rounds(struct sheaf__channel *channel, const char *noun);

/* Numbers of the channels, so that they cannot clash. */
enum {
    SHEAF__CHANNEL_GRADIENTS = 0, /* large ones, in the background */
    SHEAF__CHANNEL_PROGRAM = 1,   /* all else that programs call, in their order */
    SHEAF__CHANNEL_INPUT = 2,     /* end of data */
    SHEAF__CHANNEL_USER = 8,      /* sheaf_team */
    SHEAF__CHANNELS = 16
};

/* ---- calls; `local`: number among the channel's local replicas ---- */

/* What a call waits for names it (at most 63 bytes count), but for reductions, which have a name of their
 * own: it is compared between members, too. */

/* What is reduced: `count` elements of float32, float64, bfloat16, int32 or int64 at `in`; the
 * result goes to `out`, which may be `in` or must not overlap it. MEAN divides the sum by the
 * number of replicas (integers towards zero). `name` (may be NULL; at most 63 bytes count) is
 * compared between members and shown in errors. */
struct sheaf__reduction {
    sheaf_reduce_op op;
    sheaf_dtype dtype;
    size_t count;
    const void *in;
    void *out;
    const char *name;
};
sheaf_status sheaf__channel_all_reduce(struct sheaf__channel *channel, int local,
                                       const struct sheaf__reduction *reduction,
                                       const struct sheaf__wait *wait, sheaf_error *err);
/* Replica r gets elements [first_of(r), first_of(r + 1)) of the result, where first_of(r) =
 * count * r / replicas, at `out`. */
sheaf_status sheaf__channel_reduce_scatter(struct sheaf__channel *channel, int local,
                                           const struct sheaf__reduction *reduction,
                                           const struct sheaf__wait *wait, sheaf_error *err);
/* `bytes` bytes at `data` of replica `root` to all others' `data`. */
sheaf_status sheaf__channel_broadcast(struct sheaf__channel *channel, int local, int root,
                                      void *data, size_t bytes, const struct sheaf__wait *wait,
                                      sheaf_error *err);
/* sizes[r] bytes of every replica r, one after the other, into `all`; `sizes` is the same on all.
 */
sheaf_status sheaf__channel_all_gather(struct sheaf__channel *channel, int local, const void *data,
                                       const size_t *sizes, void *all,
                                       const struct sheaf__wait *wait, sheaf_error *err);
/* The same when only each replica knows its own size: fills sizes[replicas] and gives the bytes in
 * new memory (sheaf__free). */
sheaf_status sheaf__channel_gather_bytes(struct sheaf__channel *channel, int local,
                                         struct sheaf__bytes mine, size_t *sizes, void **all,
                                         const struct sheaf__wait *wait, sheaf_error *err);
sheaf_status sheaf__channel_barrier(struct sheaf__channel *channel, int local,
                                    const struct sheaf__wait *wait, sheaf_error *err);

/* ---- a sum of few numbers in two halves: what is agreed ahead ---- */

/* On a channel of processes each member says its numbers, goes on with something else, and hears the
 * sums when it wants them. Saying waits for the others only where they have not said yet what this
 * member dropped. Between the two no other call is made on the channel. */
enum { SHEAF__AHEAD_MOST = 8 };
struct sheaf__ahead_sum {
    const int64_t *numbers;
    int count;
    const char *name; /* of what it is, as of a reduction */
};
sheaf_status sheaf__ahead_say(struct sheaf__channel *channel, const struct sheaf__ahead_sum *sum,
                              const struct sheaf__wait *wait, sheaf_error *err);
sheaf_status sheaf__ahead_hear(struct sheaf__channel *channel, int64_t *sums,
                               const struct sheaf__wait *wait, sheaf_error *err);
/* What was said is not wanted any more; the others hear it all the same. Never waits. */
void sheaf__ahead_drop(struct sheaf__channel *channel);

/* ---- all-reduce in the background: gradient buckets ---- */

/* A call that is started now and waited for later; several may be started on a channel, they run in
 * the order of starting. Zero it, fill `reduction`; memory stays until the finish. */
struct sheaf__reduce_job {
    struct sheaf__reduction reduction;
    struct sheaf__list_node node;
    int local;
    int state;
    sheaf_error error;
};
sheaf_status sheaf__reduce_start(struct sheaf__channel *channel, int local,
                                 struct sheaf__reduce_job *job, sheaf_error *err);
/* Waits and returns its status. If it gives up waiting (deadline, token), the channel is aborted.
 */
sheaf_status sheaf__reduce_finish(struct sheaf__channel *channel, struct sheaf__reduce_job *job,
                                  const struct sheaf__wait *wait, sheaf_error *err);

#endif
