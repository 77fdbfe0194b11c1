/* SPDX-License-Identifier: Apache-2.0 */
/* Calls between members on one machine, through memory that they share.
 *
 * Every member has, on every channel, a line of counters that it alone writes, and two slots for what it calls and for
 * small data, used in turns: who is in call n has seen everybody in call n, so everybody has left call n - 1, and the slot
 * of call n - 1 is free for call n + 1.
 *
 * Large sums go in rounds. In each, every member copies its share of the others' parts (copied), sums its own part
 * (summed) and copies the others' sums. The copy of round n + 1 comes before the last step of round n, so that nobody waits
 * for long; buffers are used in turns, for the same reason as above.
 *
 * Who waits spins for a short time and then sleeps on its own bell, which is rung by whoever counts on while it sleeps, and
 * by this process when the channel fails. */
#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"
#include "coll/core.h"
#include "net/segment.h"

#include <stdalign.h>
#include <string.h>

/* Bytes of a round; of a member's part in it, at least. Members at most: beyond it the memory would be large. */
enum { ROUND = 256 << 10, PART_LEAST = 8 << 10, MEMBERS_MOST = 32 };
/* The channel on which the memory is agreed. */
enum { CHANNEL_SETUP = SHEAF__CHANNELS - 1 };

struct line {
    /* Written by its member. */
    alignas(64) _Atomic uint64_t called;
    _Atomic uint64_t copied, summed;
    _Atomic uint64_t when; /* where it is among its rounds, with the epoch */
    /* Written by all. */
    alignas(64) _Atomic uint32_t asleep;
    _Atomic uint32_t bell;
};

struct slot {
    alignas(64) struct sheaf__coll_what what;
    alignas(64) uint8_t data[SHEAF__COLL_SMALL];
};

/* One member's memory of one channel; after it, twice in turns: parts for the others, and sums of its own part. */
struct area {
    struct line line;
    struct slot slots[2];
};

struct sheaf__shm {
    struct sheaf__segment segment;
    size_t part;      /* bytes of a member's part of a round */
    size_t area_size; /* of one member on one channel */
};

/* ---- where things are ---- */

static struct area *area_of(const struct sheaf__team *team, int channel, int rank)
{
    const struct sheaf__shm *shm = team->shm;
    size_t number = (size_t)channel * (size_t)team->size + (size_t)rank;
    return (struct area *)(void *)(shm->segment.data + number * shm->area_size);
}

static struct area *area(const struct sheaf__channel *c, int rank)
{
    return area_of(c->team, c->core->number, rank);
}

/* What member `from` has copied for member `to` in a round. The parts of the others follow each other. */
static uint8_t *copied_part(const struct sheaf__channel *c, int from, int to, uint64_t round)
{
    size_t part = c->team->shm->part, members = (size_t)c->team->size;
    size_t place = (size_t)(to > from ? to - 1 : to) + (round & 1) * (members - 1);
    return (uint8_t *)(area(c, from) + 1) + place * part;
}

static uint8_t *summed_part(const struct sheaf__channel *c, int rank, uint64_t round)
{
    size_t part = c->team->shm->part, members = (size_t)c->team->size;
    return (uint8_t *)(area(c, rank) + 1) + (2 * (members - 1) + (round & 1)) * part;
}

/* ---- waking and waiting ---- */

static void ring(struct line *line)
{
    if (!atomic_load(&line->asleep))
        return;
    atomic_fetch_add(&line->bell, 1);
    sheaf__segment_wake(&line->bell);
}

void sheaf__shm_poke(struct sheaf__core *core)
{
    if (core->team->shm)
        ring(&area_of(core->team, core->number, core->team->rank)->line);
}

/* Counts on; the sleepers are looked at after it, as they look at the count after they say that they sleep. */
static void count(const struct sheaf__channel *c, _Atomic uint64_t *counter, uint64_t value)
{
    atomic_store(counter, value);
    for (int r = 0; r < c->team->size; r++)
        if (r != c->team->rank)
            ring(&area(c, r)->line);
}

/* What is waited for: a counter of every other member, at a place in its line. */
struct until {
    const struct sheaf__channel *c;
    size_t counter;
    uint64_t value;
    uint64_t events;
};

static uint64_t counter_of(const struct until *u, int rank)
{
    char *line = (char *)&area(u->c, rank)->line;
    return atomic_load_explicit((_Atomic uint64_t *)(void *)(line + u->counter),
                                memory_order_acquire);
}

static bool reached(const struct until *u)
{
    for (int r = 0; r < u->c->team->size; r++)
        if (r != u->c->team->rank && counter_of(u, r) < u->value)
            return false;
    return true;
}

/* What a member says of its call number `calls`, from 1. */
static const struct sheaf__coll_what *said(const struct sheaf__channel *c, int rank, uint64_t calls)
{
    return &area(c, rank)->slots[(calls - 1) & 1].what;
}

/* Epochs are told apart as in the counters of calls. */
static uint64_t when_in(uint32_t epoch, uint64_t when)
{
    return ((uint64_t)epoch << 40) + when;
}

/* While this member waits for the others' calls: whether one has made another call, or gone on without
 * this one. Where it is, is looked at before what it calls, as it says so after. */
static sheaf_status agree_so_far(const struct until *u, sheaf_error *err)
{
    const struct sheaf__core *core = u->c->core;
    int rank = core->team->rank;
    const struct sheaf__coll_what *mine = said(u->c, rank, core->shm_calls);
    for (int r = 0; r < core->team->size; r++) {
        uint64_t when = atomic_load(&area(u->c, r)->line.when);
        if (r == rank)
            continue;
        if (counter_of(u, r) < u->value) {
            if (when >> 40 == core->epoch && when > when_in(core->epoch, mine->when))
                return sheaf__round_left_out(core, rank, mine, r, when - when_in(core->epoch, 0),
                                             err);
        } else if (!sheaf__coll_same(mine, said(u->c, r, u->value))) {
            return sheaf__coll_member_mismatch(core, mine, r, said(u->c, r, u->value), err);
        }
    }
    return SHEAF_OK;
}

/* Whether it can still come. A member that has left has done all of its part, or never will. */
static sheaf_status check(struct until *u, sheaf_error *err)
{
    struct sheaf__team *team = u->c->team;
    struct sheaf__core *core = u->c->core;
    sheaf__mutex_lock(&team->lock);
    u->events = atomic_load(&core->events);
    sheaf_status status = sheaf__core_check_failure(core, core->seq - 1, err);
    if (status == SHEAF_OK && u->counter == offsetof(struct line, called))
        status = agree_so_far(u, err);
    if (status == SHEAF_OK && team->lost.status < 0 && !reached(u)) {
        bool needed = team->crashed;
        for (int r = 0; r < team->size; r++)
            needed = needed || (team->members[r].left && counter_of(u, r) < u->value);
        status = needed ? sheaf__error_copy(err, &team->lost) : SHEAF_OK;
    }
    sheaf__mutex_unlock(&team->lock);
    return status;
}

static void on_cancel(void *user)
{
    struct line *line = user;
    atomic_fetch_add(&line->bell, 1);
    sheaf__segment_wake(&line->bell);
}

/* Says who has not called, as an exchange does. */
static void name_missing(const struct until *u, sheaf_error *err)
{
    const struct sheaf__team *team = u->c->team;
    for (int r = 0; err && r < team->size; r++) {
        const sheaf_task *task = &team->members[r].task;
        if (r == team->rank || counter_of(u, r) >= u->value)
            continue;
        sheaf_error cause = *err;
        sheaf__error(err, cause.status, "%s; not called by " SHEAF__TASK, cause.message, task->job,
                     task->index);
        sheaf__error_set_peer(err, task->job, task->index);
        return;
    }
}

static sheaf_status sleep_until(struct until *u, const struct sheaf__wait *wait, sheaf_error *err)
{
    struct line *line = &area(u->c, u->c->team->rank)->line;
    struct sheaf__token_callback callback = {.fn = on_cancel, .user = line};
    bool token = wait->token != SHEAF__NO_TOKEN;
    sheaf_status status = SHEAF_OK;
    if (token)
        sheaf__token_on(wait->token, &callback);
    while (status == SHEAF_OK) {
        uint32_t bell = atomic_load(&line->bell);
        atomic_store(&line->asleep, 1);
        status = check(u, err);
        if (status == SHEAF_OK && token)
            status = sheaf__token_check(wait->token, err);
        if (status < 0 || reached(u))
            break;
        if (sheaf__clock_left(wait->deadline) == 0) {
            status = sheaf__wait_over(wait, "a collective call", err);
            name_missing(u, err);
            break;
        }
        sheaf__segment_park(&line->bell, bell, wait->deadline);
    }
    atomic_store(&line->asleep, 0);
    if (token)
        sheaf__token_off(wait->token, &callback);
    return status;
}

/* Waits until that counter of all others is at least `value`. */
static sheaf_status wait_for(const struct sheaf__channel *c, size_t counter, uint64_t value,
                             const struct sheaf__wait *wait, sheaf_error *err)
{
    struct until u = {.c = c, .counter = counter, .value = value};
    if (reached(&u))
        return SHEAF_OK;
    int64_t patience = sheaf__patience_spin(&c->core->patience, c->spin);
    struct sheaf__spin spin = sheaf__spin_for(patience);
    struct sheaf__runs runs = sheaf__runs_from_now();
    bool there = false;
    while (!there && sheaf__spin_again(&spin)) {
        there = reached(&u);
        sheaf__runs_look(&runs, false);
    }
    if (patience > 0)
        sheaf__patience_learn(&c->core->patience, there && !runs.broken);
    return there ? SHEAF_OK : sleep_until(&u, wait, err);
}

/* ---- calls ---- */

/* After a failure the counters of the members disagree. In a new epoch they go on from one number, larger than all before;
 * that all have left the old epoch, and look at no counter of it any more, is agreed by an exchange of messages. */
static sheaf_status start_epoch(struct sheaf__channel *c, const struct sheaf__coll_what *what,
                                const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__core *core = c->core;
    struct sheaf__exchange x = {.core = core, .what = *what, .wait = wait};
    sheaf_status status = sheaf__exchange_begin(&x, NULL, 0, err);
    if (status == SHEAF_OK)
        status = sheaf__exchange_wait(&x, sheaf__exchange_all_called, err);
    uint32_t epoch = x.epoch;
    SHEAF__TRY(sheaf__exchange_end(&x, status, err));
    core->shm_epoch = epoch;
    core->shm_unheard = false;
    core->shm_calls = core->shm_rounds = (uint64_t)epoch << 40;
    return SHEAF_OK;
}

static sheaf_status compare(const struct sheaf__channel *c, uint64_t calls, sheaf_error *err)
{
    const struct sheaf__team *team = c->team;
    const struct sheaf__coll_what *what = said(c, team->rank, calls);
    for (int r = 0; r < team->size; r++) {
        const struct sheaf__coll_what *theirs = said(c, r, calls);
        if (r == team->rank || sheaf__coll_same(what, theirs))
            continue;
        return sheaf__coll_member_mismatch(c->core, what, r, theirs, err);
    }
    return SHEAF_OK;
}

static sheaf_status begin(struct sheaf__core *core, sheaf_error *err)
{
    sheaf__mutex_lock(&core->team->lock);
    sheaf_status status = sheaf__core_check(core, core->seq, err);
    if (status == SHEAF_OK) {
        core->seq++;
        core->calling = true;
    }
    sheaf__mutex_unlock(&core->team->lock);
    return status;
}

/* Begins a call: where it says what is called. The slot is free when all are in the call before. */
static sheaf_status begin_call(struct sheaf__channel *c, const struct sheaf__coll_what *what,
                               const struct sheaf__wait *wait, struct slot **slot, sheaf_error *err)
{
    struct sheaf__core *core = c->core;
    if (core->shm_epoch != core->epoch)
        SHEAF__TRY(start_epoch(c, what, wait, err));
    else if (core->shm_unheard)
        SHEAF__TRY(sheaf__shm_hear(c, wait, err));
    SHEAF__TRY(begin(core, err));
    *slot = &area(c, c->team->rank)->slots[core->shm_calls & 1];
    (*slot)->what = *what;
    return SHEAF_OK;
}

static void say(struct sheaf__channel *c)
{
    struct sheaf__core *core = c->core;
    core->shm_calls++;
    core->shm_unheard = true;
    count(c, &area(c, c->team->rank)->line.called, core->shm_calls);
}

sheaf_status sheaf__shm_hear(struct sheaf__channel *c, const struct sheaf__wait *wait,
                             sheaf_error *err)
{
    struct sheaf__core *core = c->core;
    SHEAF__TRY(wait_for(c, offsetof(struct line, called), core->shm_calls, wait, err));
    core->shm_unheard = false;
    return compare(c, core->shm_calls, err);
}

sheaf_status sheaf__shm_say(struct sheaf__channel *c, const struct sheaf__coll_what *what,
                            const struct sheaf__part *parts, size_t count_parts,
                            const struct sheaf__wait *wait, sheaf_error *err)
{
    struct slot *slot;
    size_t size = 0;
    SHEAF__TRY(begin_call(c, what, wait, &slot, err));
    for (size_t i = 0; i < count_parts; i++) {
        memcpy(slot->data + size, parts[i].data, parts[i].size);
        size += parts[i].size;
    }
    say(c);
    return SHEAF_OK;
}

sheaf_status sheaf__shm_meet(struct sheaf__channel *c, const struct sheaf__coll_what *what,
                             const struct sheaf__part *parts, size_t count_parts,
                             const struct sheaf__wait *wait, sheaf_error *err)
{
    SHEAF__TRY(sheaf__shm_say(c, what, parts, count_parts, wait, err));
    return sheaf__shm_hear(c, wait, err);
}

const uint8_t *sheaf__shm_data(const struct sheaf__channel *c, int rank)
{
    return area(c, rank)->slots[(c->core->shm_calls - 1) & 1].data;
}

/* Whether a member is in a call that this one has left out: it has called more, from a place that is
 * behind. What a call says is there before it is counted. */
static sheaf_status find_left_out(const struct sheaf__channel *c, sheaf_error *err)
{
    const struct sheaf__core *core = c->core;
    for (int r = 0; r < core->team->size && core->shm_epoch == core->epoch; r++) {
        uint64_t calls = atomic_load(&area(c, r)->line.called);
        if (r == core->team->rank || calls <= core->shm_calls)
            continue;
        if (said(c, r, calls)->when < core->when)
            return sheaf__round_left_out(core, r, said(c, r, calls), core->team->rank, core->when,
                                         err);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__shm_go_on(const struct sheaf__channel *c, sheaf_error *err)
{
    const struct sheaf__core *core = c->core;
    count(c, &area(c, core->team->rank)->line.when, when_in(core->epoch, core->when));
    return find_left_out(c, err);
}

/* ---- large sums ---- */

/* A round of a sum: elements [first, first + n), dealt to the members. */
struct round {
    uint64_t number;
    size_t first, n;
};

struct sums {
    struct sheaf__channel *c;
    struct sheaf__shm_sum *s;
    size_t in_size, out_size; /* of an element */
    size_t at_once;           /* elements of a round */
    uint64_t start;           /* number of the first round */
};

static struct round round_at(const struct sums *w, size_t i)
{
    size_t first = i * w->at_once, left = w->s->count - first;
    return (struct round){w->start + i, first, left < w->at_once ? left : w->at_once};
}

static size_t part_of_round(const struct sums *w, const struct round *r, int rank)
{
    return r->first + sheaf__part_first(r->n, rank, w->c->team->size);
}

static void copy_to_others(const struct sums *w, const struct round *r)
{
    int rank = w->c->team->rank;
    for (int m = 0; m < w->c->team->size; m++) {
        size_t begin = part_of_round(w, r, m), end = part_of_round(w, r, m + 1);
        if (m != rank)
            memcpy(copied_part(w->c, rank, m, r->number),
                   (const uint8_t *)w->s->mine + begin * w->in_size, (end - begin) * w->in_size);
    }
    count(w->c, &area(w->c, rank)->line.copied, r->number + 1);
}

static void sum_own_part(const struct sums *w, const struct round *r)
{
    int rank = w->c->team->rank;
    size_t begin = part_of_round(w, r, rank), end = part_of_round(w, r, rank + 1);
    uint8_t *sum = summed_part(w->c, rank, r->number);
    for (int m = 0; m < w->c->team->size; m++)
        w->s->arrays[m] = m == rank ? (const uint8_t *)w->s->mine + begin * w->in_size
                                    : copied_part(w->c, m, rank, r->number);
    sheaf__sum_range(&w->s->sum, sum, 0, end - begin);
    count(w->c, &area(w->c, rank)->line.summed, r->number + 1);
    memcpy((uint8_t *)w->s->out + begin * w->out_size, sum, (end - begin) * w->out_size);
}

static void copy_from_others(const struct sums *w, const struct round *r)
{
    for (int m = 0; m < w->c->team->size; m++) {
        size_t begin = part_of_round(w, r, m), end = part_of_round(w, r, m + 1);
        if (m != w->c->team->rank)
            memcpy((uint8_t *)w->s->out + begin * w->out_size, summed_part(w->c, m, r->number),
                   (end - begin) * w->out_size);
    }
}

/* What is copied in the first round is there when all have called. */
static sheaf_status run_rounds(struct sums *w, size_t rounds, const struct sheaf__wait *wait,
                               sheaf_error *err)
{
    for (size_t i = 0; i <= rounds; i++) {
        struct round r;
        if (i > 0 && i < rounds) {
            r = round_at(w, i);
            copy_to_others(w, &r);
        }
        if (i > 0) {
            r = round_at(w, i - 1);
            SHEAF__TRY(wait_for(w->c, offsetof(struct line, summed), r.number + 1, wait, err));
            copy_from_others(w, &r);
        }
        if (i < rounds) {
            r = round_at(w, i);
            SHEAF__TRY(wait_for(w->c, offsetof(struct line, copied), r.number + 1, wait, err));
            sum_own_part(w, &r);
        }
    }
    return SHEAF_OK;
}

sheaf_status sheaf__shm_reduce(struct sheaf__channel *c, const struct sheaf__coll_what *what,
                               struct sheaf__shm_sum *s, const struct sheaf__wait *wait,
                               sheaf_error *err)
{
    struct sums w = {
        .c = c,
        .s = s,
        .in_size = sheaf_dtype_size(s->sum.in),
        .out_size = sheaf_dtype_size(s->sum.out),
    };
    struct slot *slot;
    SHEAF__TRY(begin_call(c, what, wait, &slot, err));
    /* In whole elements: a member's part must fit, however the rest is dealt. */
    w.at_once = c->team->shm->part / w.in_size * (size_t)c->team->size;
    w.start = c->core->shm_rounds;
    size_t rounds = (s->count + w.at_once - 1) / w.at_once;
    c->core->shm_rounds += rounds;
    s->sum.arrays = s->arrays;
    struct round first = round_at(&w, 0);
    copy_to_others(&w, &first);
    say(c);
    SHEAF__TRY(sheaf__shm_hear(c, wait, err));
    return run_rounds(&w, rounds, wait, err);
}

/* ---- making ---- */

static bool can_share(const struct sheaf__team *team)
{
    uint64_t host = team->members[team->rank].join.u.join.host;
    for (int i = 0; i < team->size; i++)
        if (team->members[i].join.u.join.host != host)
            return false;
    return host != 0 && team->size > 1 && team->size <= MEMBERS_MOST;
}

static size_t segment_size(struct sheaf__shm *shm, const struct sheaf__team *team)
{
    size_t members = (size_t)team->size;
    shm->part = ROUND / members < PART_LEAST ? PART_LEAST : ROUND / members / 64 * 64;
    shm->area_size = sizeof(struct area) + 2 * members * shm->part;
    return shm->area_size * members * SHEAF__CHANNELS;
}

/* Rank 0 makes the memory, the others open it; all must succeed. */
static sheaf_status agree(struct sheaf__team *team, struct sheaf__shm *shm,
                          struct sheaf__channel *channel, const struct sheaf__wait *wait,
                          sheaf_error *err)
{
    struct sheaf__segment_ticket ticket = {0};
    size_t ones[MEMBERS_MOST];
    uint8_t each[MEMBERS_MOST] = {0}, mine = 0;
    size_t size = segment_size(shm, team);
    if (team->rank == 0)
        mine = sheaf__segment_make(size, &shm->segment, &ticket, NULL) == SHEAF_OK;
    SHEAF__TRY(sheaf__channel_broadcast(channel, 0, 0, &ticket, sizeof(ticket), wait, err));
    if (team->rank > 0 && ticket.size > 0)
        mine = sheaf__segment_open(&ticket, &shm->segment, NULL) == SHEAF_OK &&
               shm->segment.size >= size;
    for (int i = 0; i < team->size; i++)
        ones[i] = 1;
    SHEAF__TRY(sheaf__channel_all_gather(channel, 0, &mine, ones, each, wait, err));
    sheaf__segment_seal(&shm->segment);
    for (int i = 0; i < team->size; i++)
        if (!each[i])
            sheaf__segment_close(&shm->segment);
    return SHEAF_OK;
}

sheaf_status sheaf__shm_open(struct sheaf__team *team, const struct sheaf__wait *wait,
                             sheaf_error *err)
{
    struct sheaf__channel *channel = NULL;
    if (!can_share(team))
        return SHEAF_OK;
    struct sheaf__shm *shm = sheaf__calloc(1, sizeof(*shm));
    if (!shm)
        return sheaf__no_memory(err, "a team");
    shm->segment.fd = -1;
    sheaf_status status = sheaf__channel_open(team, CHANNEL_SETUP, 1, &channel, err);
    if (status == SHEAF_OK)
        status = agree(team, shm, channel, wait, err);
    sheaf__channel_free(channel);
    if (status < 0 || !shm->segment.data) {
        sheaf__segment_close(&shm->segment);
        sheaf__free(shm);
        return status;
    }
    sheaf__mutex_lock(&team->lock);
    team->shm = shm;
    sheaf__mutex_unlock(&team->lock);
    return SHEAF_OK;
}

void sheaf__shm_close(struct sheaf__team *team)
{
    if (!team->shm)
        return;
    sheaf__segment_close(&team->shm->segment);
    sheaf__free(team->shm);
}
