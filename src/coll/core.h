/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_COLL_CORE_H
#define SHEAF_COLL_CORE_H

/* Inside of coll/: what its files share.
 *
 * A call passes two stages. In the first the local replicas meet (crew.c): the last to arrive leads,
 * the others wait and help with long loops. In the second the leaders of all members exchange
 * messages (exchange.c). Every call begins with a CALL message to every other member, which says
 * what is called and carries small data itself; it also says that its sender is ready to receive,
 * so that larger data (DATA) always finds its place. So nobody can be ahead by more than one call,
 * and everybody sees everybody's call and can compare. */

#include "base/array.h"
#include "coll/sum.h"
#include "coll/team.h"
#include "net/call.h"
#include "net/patience.h"

/* ---- what travels ---- */

enum sheaf__coll_type {
    SHEAF__COLL_JOIN = 1,
    SHEAF__COLL_CALL,
    SHEAF__COLL_DATA,
    SHEAF__COLL_ABORT
};
enum sheaf__coll_kind {
    SHEAF__COLL_ALL_REDUCE = 1,
    SHEAF__COLL_REDUCE_SCATTER,
    SHEAF__COLL_BROADCAST,
    SHEAF__COLL_ALL_GATHER,
    SHEAF__COLL_GATHER_BYTES,
    SHEAF__COLL_BARRIER,
    SHEAF__COLL_KINDS
};

/* What is called: equal on all replicas and members, but for `own`. Crosses processes as it is. */
struct sheaf__coll_what {
    uint8_t kind, op, dtype;
    uint8_t by_process; /* one thread speaks for all replicas of a process */
    int32_t root;
    uint64_t count; /* elements, or bytes */
    uint64_t check; /* of the sizes of a gather */
    uint64_t own;   /* bytes of this member alone: gather_bytes */
    uint64_t when;  /* in a round or between two (round.c) */
    char name[64];
};

/* Where data goes; what the numbers mean is the call's business. */
struct sheaf__coll_place {
    uint32_t phase, block;
    uint64_t offset;
};

struct sheaf__coll_head {
    uint8_t type, channel;
    uint16_t rank;
    uint32_t generation, epoch, zero;
    uint64_t seq;
    union {
        struct sheaf__coll_what what;  /* CALL */
        struct sheaf__coll_place data; /* DATA */
        struct {
            int32_t size, replicas;
            uint32_t order, zero;
            uint64_t host; /* whose memory can be shared; 0: nobody's */
        } join;            /* JOIN */
        uint64_t when;     /* ABORT: in a round of its sender or between two */
    } u;
};

/* Most data of one member that comes with a call, and how much that is in a team: everybody gets and
 * handles all of it. */
enum { SHEAF__COLL_SMALL = 64 << 10 };
static inline size_t sheaf__coll_small(int members)
{
    return 2 * SHEAF__COLL_SMALL / (size_t)members;
}

/* ---- how sums are made up ---- */

/* The blocks of a tree and who has them: member m has blocks[first[m] … first[m + 1]). */
struct sheaf__layout {
    struct sheaf__block *blocks;
    int *first;   /* size + 1 */
    int *replica; /* first replica of each member; size + 1 */
    int count, span, total;
    int most;           /* blocks of one member */
    bool over_replicas; /* leaves of the tree are replicas, not members */
};

/* ---- teams ---- */

struct sheaf__member {
    sheaf_task task;
    char *address;
    struct sheaf__peer *peer; /* counted; NULL: ourselves */
    int replicas;             /* 0: not joined yet */
    struct sheaf__coll_head join;
    bool left; /* it said goodbye: what it called before is here */
};

struct sheaf__team {
    struct sheaf__list_node node; /* of the registry */
    struct sheaf__registry *registry;
    struct sheaf__net *net;
    struct sheaf__member *members;
    int size, rank, local;
    uint32_t generation;
    bool reproducible, wide; /* wide: some member sums before it sends */
    struct sheaf__layout by_rank, by_replica;
    struct sheaf__shm *shm; /* NULL: none */

    struct sheaf__mutex lock; /* guards what follows and the cores' members of the same kind */
    sheaf_error lost;         /* status < 0: a member is lost, or has left */
    sheaf_error blame; /* status < 0: the loss that ends this member's part; its goodbye says so */
    bool crashed;      /* without a goodbye */
    struct sheaf__core *cores[SHEAF__CHANNELS];
};

/* A CALL that came: before we make that call ourselves, or while we are in it. */
struct sheaf__arrival {
    struct sheaf__list_node node;
    struct sheaf__call *call; /* its memory holds head and data */
    const struct sheaf__coll_head *head;
};

struct sheaf__exchange;
struct sheaf__channel;

/* All calls of an epoch from that one on are aborted, by a member that was at `when` among its rounds. */
struct sheaf__abort {
    uint32_t epoch;
    uint64_t seq, when;
    sheaf_error cause;
};

/* What lasts of a channel: it is made at its first use here or at the first message. */
struct sheaf__core {
    struct sheaf__team *team;
    int number;
    /* Under team->lock. */
    uint32_t epoch;
    uint64_t seq;        /* of the next call */
    uint64_t when;       /* of this member: 2 * n - 1 in round n of the epoch, 2 * n after it */
    const char *noun;    /* what a round is */
    sheaf_error failure; /* status < 0: of this epoch */
    /* What other members aborted, in this epoch and later ones. */
    struct sheaf__abort *aborts;
    size_t abort_count, abort_capacity;
    struct sheaf__list arrivals;
    _Atomic bool calling; /* call `seq - 1` is being made */
    _Atomic bool busy;    /* a thread acts for this member */
    struct sheaf__exchange *current;
    struct sheaf__arrival **calls; /* room for the current exchange */
    _Atomic uint64_t events;       /* counts what an exchange may wait for */
    /* Of the leader. */
    uint64_t shm_calls, shm_rounds; /* counts in shared memory */
    bool shm_unheard;               /* the last call was said, but not waited for */
    struct sheaf__patience patience;
    uint32_t shm_epoch; /* for which they hold */
    uint8_t *scratch;
    size_t scratch_size;
    uint32_t *piece_counts;
    size_t piece_capacity;
    const void **arrays;
    size_t array_capacity;
    struct sheaf__channel *channels[2]; /* that are open: of replicas, of the process */
};

/* Memory of the core that stays for later calls; NULL: no memory. Not kept over calls. */
void *sheaf__core_scratch(struct sheaf__core *core, size_t size);
struct sheaf__core *sheaf__core_get(struct sheaf__team *team,
                                    int number); /* team->lock; NULL: no memory */
void sheaf__core_free(struct sheaf__core *core);
/* A thread acts for this member in a call; fails if another does. */
sheaf_status sheaf__core_enter(struct sheaf__core *core, sheaf_error *err);
void sheaf__core_leave(struct sheaf__core *core);
/* Fails the epoch, here and on the other members, unless it has failed already. */
void sheaf__core_fail(struct sheaf__core *core, const sheaf_error *cause);
/* SHEAF_OK, or why call `seq` cannot be made. With team->lock. */
sheaf_status sheaf__core_check(const struct sheaf__core *core, uint64_t seq, sheaf_error *err);
/* The same, but for lost members. */
sheaf_status sheaf__core_check_failure(const struct sheaf__core *core, uint64_t seq,
                                       sheaf_error *err);
/* The same, but for what members have aborted beyond place `when` among their rounds. */
sheaf_status sheaf__core_check_until(const struct sheaf__core *core, uint64_t seq, uint64_t when,
                                     sheaf_error *err);

/* ---- exchanges between members (exchange.c) ---- */

struct sheaf__exchange {
    struct sheaf__core *core;
    const struct sheaf__layout *layout;
    struct sheaf__coll_what what;
    const struct sheaf__wait *wait;
    uint64_t seq;
    uint32_t epoch;
    struct sheaf__arrival **calls; /* of each member; NULL: not yet */
    int arrived;
    int64_t unsent; /* DATA messages whose memory is still in use; under team->lock */
    /* Where `size` bytes of a DATA message of member `rank` go, and what is done when they are there. With
     * team->lock, on the driver. NULL: nowhere, it is wrong. */
    void *(*place)(struct sheaf__exchange *x, int rank, const struct sheaf__coll_head *head,
                   size_t size);
    void (*came)(struct sheaf__exchange *x, int rank, const struct sheaf__coll_head *head,
                 size_t size);
    void *user;
    uint64_t received;  /* bytes, counted by came() */
    size_t waiting_for; /* what a ready() looks at */
};

/* Starts a call: sends CALL with the data of `parts` to all others. */
sheaf_status sheaf__exchange_begin(struct sheaf__exchange *x, const struct sheaf__part *parts,
                                   size_t count, sheaf_error *err);
/* Waits until `ready` (with team->lock) holds; fails if the channel or a member does. */
sheaf_status sheaf__exchange_wait(struct sheaf__exchange *x,
                                  bool (*ready)(struct sheaf__exchange *x), sheaf_error *err);
/* ready: all members have called the same. */
bool sheaf__exchange_all_called(struct sheaf__exchange *x);
/* Sends bytes to a member that has called. */
sheaf_status sheaf__exchange_send(struct sheaf__exchange *x, int rank,
                                  struct sheaf__coll_place place, const void *data, size_t size,
                                  sheaf_error *err);
/* Ends the call with its status so far: after it nobody touches its memory. Returns the status. */
sheaf_status sheaf__exchange_end(struct sheaf__exchange *x, sheaf_status status, sheaf_error *err);

/* Data that came with the CALL of a member. */
static inline const uint8_t *sheaf__exchange_inline(const struct sheaf__exchange *x, int rank)
{
    return sheaf__call_payload(x->calls[rank]->call);
}
static inline size_t sheaf__exchange_inline_size(const struct sheaf__exchange *x, int rank)
{
    return sheaf__call_payload_size(x->calls[rank]->call);
}
/* "all_reduce of 12 float32 \"w\"". */
void sheaf__coll_describe(const struct sheaf__coll_what *what, char *text, size_t size);
/* Whether two calls fit together. */
bool sheaf__coll_same(const struct sheaf__coll_what *a, const struct sheaf__coll_what *b);
/* TEAM_MISMATCH, naming both. */
sheaf_status sheaf__coll_mismatch(const struct sheaf__core *core, const char *who,
                                  const struct sheaf__coll_what *a, const char *other,
                                  const struct sheaf__coll_what *b, sheaf_error *err);

/* Something happened that a call may wait for: wakes it in shared memory, too. With team->lock. */
void sheaf__core_event(struct sheaf__core *core);

/* The same between this member and member `rank`, which the error names. */
sheaf_status sheaf__coll_member_mismatch(const struct sheaf__core *core,
                                         const struct sheaf__coll_what *mine, int rank,
                                         const struct sheaf__coll_what *theirs, sheaf_error *err);

/* ---- rounds (round.c) ---- */

/* Where a call is made, if errors should say so: " in step 3", " after step 3". */
const char *sheaf__round_text(const struct sheaf__core *core, uint64_t when, char text[48]);
/* TEAM_MISMATCH: member `rank` is in a call from an earlier place than `when`, to which member `beyond`
 * has gone on without it. */
sheaf_status sheaf__round_left_out(const struct sheaf__core *core, int rank,
                                   const struct sheaf__coll_what *what, int beyond, uint64_t when,
                                   sheaf_error *err);
/* Whether this member has left the call out; then the error says so. With team->lock. */
bool sheaf__round_has_left_out(const struct sheaf__core *core, const struct sheaf__coll_head *head,
                               sheaf_error *err);

/* ---- messages (messages.c) ---- */

/* The teams of a net, and what came before they were made. */
struct sheaf__registry {
    struct sheaf__net *net;
    struct sheaf__mutex lock; /* before a team's */
    struct sheaf__list teams;
    struct sheaf__list early; /* arrivals: JOINs of teams that are not there yet */
    struct sheaf__net_events events;
};
/* Puts the head of a message together, but for its content. */
struct sheaf__coll_head sheaf__coll_head(const struct sheaf__team *team,
                                         enum sheaf__coll_type type);
/* `x` NULL: the parts are copied; else they stay until x->unsent is 0. */
sheaf_status sheaf__coll_send(struct sheaf__team *team, int rank,
                              const struct sheaf__coll_head *head, const struct sheaf__part *parts,
                              size_t count, struct sheaf__exchange *x, sheaf_error *err);
void sheaf__arrival_free(struct sheaf__arrival *a);
/* Gives the CALL to the exchange that it is for, or keeps it. With team->lock. */
void sheaf__exchange_arrive(struct sheaf__core *core, struct sheaf__arrival *a);
/* Enters the team, and takes the JOINs that came before; then it is told of what comes. */
void sheaf__registry_enter(struct sheaf__registry *registry, struct sheaf__team *team);
void sheaf__registry_leave(struct sheaf__team *team);

/* ---- members on one machine (shm.c) ---- */

struct sheaf__shm;
/* After the layouts: shared memory for the team, if all its members can share; else none, which is no
 * failure. */
sheaf_status sheaf__shm_open(struct sheaf__team *team, const struct sheaf__wait *wait,
                             sheaf_error *err);
void sheaf__shm_close(struct sheaf__team *team);
/* Begins a call through shared memory: says what is called, with the data of `parts`, and returns
 * when all members have called the same. */
sheaf_status sheaf__shm_meet(struct sheaf__channel *c, const struct sheaf__coll_what *what,
                             const struct sheaf__part *parts, size_t count,
                             const struct sheaf__wait *wait, sheaf_error *err);
/* The two halves of it. */
sheaf_status sheaf__shm_say(struct sheaf__channel *c, const struct sheaf__coll_what *what,
                            const struct sheaf__part *parts, size_t count,
                            const struct sheaf__wait *wait, sheaf_error *err);
sheaf_status sheaf__shm_hear(struct sheaf__channel *c, const struct sheaf__wait *wait,
                             sheaf_error *err);
/* Data of member `rank` that came with the call; until the next call begins. */
const uint8_t *sheaf__shm_data(const struct sheaf__channel *c, int rank);
/* A sum of one large array of every member: `mine` is ours, `out` gets all of it. sum->arrays is
 * filled in here; it has room for one of each member. A call of its own, without sheaf__shm_meet(). */
struct sheaf__shm_sum {
    struct sheaf__sum sum;
    const void **arrays;
    const void *mine;
    void *out;
    size_t count;
};
sheaf_status sheaf__shm_reduce(struct sheaf__channel *c, const struct sheaf__coll_what *what,
                               struct sheaf__shm_sum *s, const struct sheaf__wait *wait,
                               sheaf_error *err);
/* Wakes the thread that waits in shared memory for a call of the core, if any. With team->lock. */
void sheaf__shm_poke(struct sheaf__core *core);
/* Tells the others where this member is now; fails if one of them is in a call that it has left out. */
sheaf_status sheaf__shm_go_on(const struct sheaf__channel *c, sheaf_error *err);

/* ---- calls of the leader, over the members; arrays of the local replicas (reduce.c, spread.c) ---- */

/* One replica's call. */
struct sheaf__coll_args {
    struct sheaf__coll_what what;
    const void *in;
    void *out;
    const size_t *sizes; /* of a gather */
    size_t *sizes_out;
    void **all_out;
    bool background; /* the other local replicas do something else */
};
typedef sheaf_status (*sheaf__coll_act)(struct sheaf__channel *c,
                                        struct sheaf__coll_args *const *args,
                                        const struct sheaf__wait *wait, sheaf_error *err);
sheaf_status sheaf__coll_check_reduction(const struct sheaf__reduction *r, sheaf_error *err);
void sheaf__coll_reduction_args(enum sheaf__coll_kind kind, const struct sheaf__reduction *r,
                                struct sheaf__coll_args *args);
extern const sheaf__coll_act sheaf__coll_acts[SHEAF__COLL_KINDS];
sheaf_status sheaf__coll_reduce(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                const struct sheaf__wait *wait, sheaf_error *err);
sheaf_status sheaf__coll_broadcast(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                   const struct sheaf__wait *wait, sheaf_error *err);
sheaf_status sheaf__coll_all_gather(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                    const struct sheaf__wait *wait, sheaf_error *err);
sheaf_status sheaf__coll_gather_bytes(struct sheaf__channel *c,
                                      struct sheaf__coll_args *const *args,
                                      const struct sheaf__wait *wait, sheaf_error *err);
sheaf_status sheaf__coll_barrier(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                                 const struct sheaf__wait *wait, sheaf_error *err);

/* ---- channels (channel.c, crew.c) ---- */

struct sheaf__channel {
    struct sheaf__team *team;
    struct sheaf__core *core;
    const struct sheaf__layout *layout;
    int local;                /* threads that call */
    bool by_process;          /* one, for all replicas */
    int64_t spin;             /* ns before a follower sleeps */
    struct sheaf__mutex lock; /* guards what follows */
    struct sheaf__cond cond;
    struct sheaf__coll_args **args; /* of each local replica; NULL: not there yet */
    int arrived;
    bool led;               /* the leader acts */
    bool stopped;           /* aborted here: who waits for the others gives up */
    _Atomic uint64_t round; /* calls that are over */
    sheaf_error result;     /* of the last call; status 0: fine */
    /* A loop that all who wait take part in. */
    void (*loop)(size_t i, void *user);
    void *loop_user;
    size_t loop_end;
    _Atomic size_t loop_next;
    _Atomic bool loop_open;
    _Atomic int loop_helpers;
    struct sheaf__cond loop_left; /* the last helper has */
    /* Calls in the background (job.c). */
    struct sheaf__jobs *_Atomic jobs;
    struct sheaf__ahead *ahead; /* what was said (ahead.c); NULL: nothing ever */
};

/* One replica's call, from its thread: returns when it is done on all. */
sheaf_status sheaf__crew_call(struct sheaf__channel *c, int local, struct sheaf__coll_args *args,
                              const struct sheaf__wait *wait, sheaf_error *err);
/* The leader's: fn(i) for i in 0..n-1, the other local replicas help. */
void sheaf__crew_loop(struct sheaf__channel *c, size_t n, void (*fn)(size_t i, void *user),
                      void *user);
/* Compares the local replicas' calls and acts; the leader, or the thread of background calls. */
sheaf_status sheaf__crew_act(struct sheaf__channel *c, struct sheaf__coll_args **args,
                             const struct sheaf__wait *wait, sheaf_error *err);
/* Waits until the calls that were started in the background are over. */
sheaf_status sheaf__jobs_drain(struct sheaf__channel *c, const struct sheaf__wait *wait,
                               sheaf_error *err);
void sheaf__jobs_free(struct sheaf__channel *c);
void sheaf__ahead_free(struct sheaf__channel *c);
void sheaf__jobs_wake(struct sheaf__channel *c);
/* SHEAF_OK, or why the channel was aborted here. */
sheaf_status sheaf__channel_stopped(struct sheaf__channel *c, sheaf_error *err);

#endif
