/* SPDX-License-Identifier: Apache-2.0 */
/* One call between the members of a team: everybody says what it calls, data goes to its place, and nobody leaves before
 * its memory is its own again. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "coll/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- saying what is called ---- */

static const char *const kind_names[SHEAF__COLL_KINDS] = {
    [SHEAF__COLL_ALL_REDUCE] = "all_reduce",     [SHEAF__COLL_REDUCE_SCATTER] = "reduce_scatter",
    [SHEAF__COLL_BROADCAST] = "broadcast",       [SHEAF__COLL_ALL_GATHER] = "all_gather",
    [SHEAF__COLL_GATHER_BYTES] = "gather_bytes", [SHEAF__COLL_BARRIER] = "barrier",
};

void sheaf__coll_describe(const struct sheaf__coll_what *w, char *text, size_t size)
{
    const char *name = w->kind < SHEAF__COLL_KINDS && kind_names[w->kind] ? kind_names[w->kind]
                                                                          : "an unknown call";
    int named = (int)strnlen(w->name, sizeof(w->name));
    switch (w->kind) {
    case SHEAF__COLL_ALL_REDUCE:
    case SHEAF__COLL_REDUCE_SCATTER:
        snprintf(text, size, "%s (%s) of %" PRIu64 " %s", name,
                 w->op == SHEAF_REDUCE_MEAN ? "mean" : "sum", w->count,
                 sheaf_dtype_name((sheaf_dtype)w->dtype));
        break;
    case SHEAF__COLL_BROADCAST:
        snprintf(text, size, "%s of %" PRIu64 " bytes from %d", name, w->count, w->root);
        break;
    case SHEAF__COLL_ALL_GATHER:
        snprintf(text, size, "%s of %" PRIu64 " bytes (sizes %08x)", name, w->count,
                 (unsigned)w->check);
        break;
    default:
        snprintf(text, size, "%s", name);
    }
    size_t used = strlen(text);
    if (named)
        snprintf(text + used, size - used, " \"%.*s\"", named, w->name);
}

sheaf_status sheaf__coll_mismatch(const struct sheaf__core *core, const char *who,
                                  const struct sheaf__coll_what *a, const char *other,
                                  const struct sheaf__coll_what *b, sheaf_error *err)
{
    char mine[112], theirs[112], here[48] = "", there[48] = "";
    sheaf__coll_describe(a, mine, sizeof(mine));
    sheaf__coll_describe(b, theirs, sizeof(theirs));
    if (a->when != b->when) {
        sheaf__round_text(core, a->when, here);
        sheaf__round_text(core, b->when, there);
    } else if (a->by_process != b->by_process) {
        sheaf__str_copy(here, sizeof(here), a->by_process ? " of processes" : " of replicas");
        sheaf__str_copy(there, sizeof(there), b->by_process ? " of processes" : " of replicas");
    }
    return sheaf__error(err, SHEAF_ERR_TEAM_MISMATCH, "%s calls %s%s, %s calls %s%s", who, mine,
                        here, other, theirs, there);
}

bool sheaf__coll_same(const struct sheaf__coll_what *a, const struct sheaf__coll_what *b)
{
    return a->kind == b->kind && a->op == b->op && a->dtype == b->dtype && a->root == b->root &&
           a->count == b->count && a->check == b->check && a->when == b->when &&
           a->by_process == b->by_process && memcmp(a->name, b->name, sizeof(a->name)) == 0;
}

/* ---- cores ---- */

struct sheaf__core *sheaf__core_get(struct sheaf__team *team, int number)
{
    if (team->cores[number])
        return team->cores[number];
    struct sheaf__core *core = sheaf__calloc(1, sizeof(*core));
    struct sheaf__arrival **calls =
        core ? sheaf__calloc((size_t)team->size, sizeof(*core->calls)) : NULL;
    if (!calls) {
        sheaf__free(core);
        return NULL;
    }
    core->team = team;
    core->number = number;
    core->calls = calls;
    sheaf__list_init(&core->arrivals);
    team->cores[number] = core;
    return core;
}

void sheaf__core_free(struct sheaf__core *core)
{
    struct sheaf__list_node *node;
    if (!core)
        return;
    while ((node = sheaf__list_pop(&core->arrivals)))
        sheaf__arrival_free(SHEAF__CONTAINER(node, struct sheaf__arrival, node));
    sheaf__free(core->calls);
    sheaf__free(core->aborts);
    sheaf__free(core->scratch);
    sheaf__free(core->piece_counts);
    sheaf__free(core->arrays);
    sheaf__free(core);
}

void *sheaf__core_scratch(struct sheaf__core *core, size_t size)
{
    if (size <= core->scratch_size)
        return core->scratch;
    sheaf__free(core->scratch);
    core->scratch = sheaf__alloc_aligned(size);
    core->scratch_size = core->scratch ? size : 0;
    return core->scratch;
}

sheaf_status sheaf__core_enter(struct sheaf__core *core, sheaf_error *err)
{
    if (!atomic_exchange_explicit(&core->busy, true, memory_order_acquire))
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "two threads make calls to the other members at once, expected one after "
                        "the other");
}

void sheaf__core_leave(struct sheaf__core *core)
{
    atomic_store_explicit(&core->busy, false, memory_order_release);
}

void sheaf__core_event(struct sheaf__core *core)
{
    atomic_fetch_add(&core->events, 1);
    sheaf__shm_poke(core);
}

sheaf_status sheaf__core_check_until(const struct sheaf__core *core, uint64_t seq, uint64_t when,
                                     sheaf_error *err)
{
    if (core->failure.status < 0)
        return sheaf__error_copy(err, &core->failure);
    for (size_t i = 0; i < core->abort_count; i++) {
        const struct sheaf__abort *a = &core->aborts[i];
        if (a->epoch == core->epoch && a->seq <= seq && a->when <= when)
            return sheaf__error_copy(err, &a->cause);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__core_check_failure(const struct sheaf__core *core, uint64_t seq,
                                       sheaf_error *err)
{
    return sheaf__core_check_until(core, seq, UINT64_MAX, err);
}

sheaf_status sheaf__core_check(const struct sheaf__core *core, uint64_t seq, sheaf_error *err)
{
    SHEAF__TRY(sheaf__core_check_failure(core, seq, err));
    if (core->team->lost.status < 0)
        return sheaf__error_copy(err, &core->team->lost);
    return SHEAF_OK;
}

void sheaf__core_fail(struct sheaf__core *core, const sheaf_error *cause)
{
    struct sheaf__team *team = core->team;
    struct sheaf__coll_head head = sheaf__coll_head(team, SHEAF__COLL_ABORT);
    const struct sheaf__part error = {(void *)(uintptr_t)cause, sizeof(*cause)};
    head.channel = (uint8_t)core->number;
    sheaf__mutex_lock(&team->lock);
    head.epoch = core->epoch;
    head.seq = core->seq - core->calling;
    head.u.when = core->when;
    bool first = sheaf__core_check_failure(core, head.seq, NULL) == SHEAF_OK;
    if (first)
        core->failure = *cause;
    if (cause->status == SHEAF_ERR_TEAM_LOST)
        sheaf__error_keep_first(&team->blame, cause);
    sheaf__core_event(core);
    sheaf__mutex_unlock(&team->lock);
    if (!first || !team->net)
        return;
    for (int i = 0; i < team->size; i++)
        if (i != team->rank)
            sheaf__coll_send(team, i, &head, &error, 1, NULL, NULL);
    sheaf__net_wake(team->net);
}

/* ---- beginning ---- */

sheaf_status sheaf__coll_member_mismatch(const struct sheaf__core *core,
                                         const struct sheaf__coll_what *mine, int rank,
                                         const struct sheaf__coll_what *theirs, sheaf_error *err)
{
    const struct sheaf__team *team = core->team;
    const sheaf_task *a = &team->members[team->rank].task, *b = &team->members[rank].task;
    char us[40], them[40];
    snprintf(us, sizeof(us), SHEAF__TASK, a->job, a->index);
    snprintf(them, sizeof(them), SHEAF__TASK, b->job, b->index);
    sheaf__coll_mismatch(core, us, mine, them, theirs, err);
    sheaf__error_set_peer(err, b->job, b->index);
    return SHEAF_ERR_TEAM_MISMATCH;
}

/* The call of a member meets ours. With the lock. */
static void meet(struct sheaf__exchange *x, struct sheaf__arrival *a)
{
    struct sheaf__core *core = x->core;
    int rank = a->head->rank;
    x->calls[rank] = a;
    x->arrived++;
    if (!sheaf__coll_same(&x->what, &a->head->u.what) && core->failure.status == SHEAF_OK)
        sheaf__coll_member_mismatch(core, &x->what, rank, &a->head->u.what, &core->failure);
}

static bool is_for(const struct sheaf__exchange *x, const struct sheaf__arrival *a)
{
    return a->head->epoch == x->epoch && a->head->seq == x->seq && !x->calls[a->head->rank];
}

void sheaf__exchange_arrive(struct sheaf__core *core, struct sheaf__arrival *a)
{
    if (core->current && is_for(core->current, a))
        meet(core->current, a);
    else
        sheaf__list_append(&core->arrivals, &a->node);
    sheaf__core_event(core);
}

/* Calls that came before; those of epochs that are over go, and those that this member did not wait for. With the
 * lock. */
static void take_arrivals(struct sheaf__exchange *x, struct sheaf__list *old)
{
    struct sheaf__core *core = x->core;
    struct sheaf__list_node *node, *next;
    for (node = sheaf__list_first(&core->arrivals); node; node = next) {
        struct sheaf__arrival *a = SHEAF__CONTAINER(node, struct sheaf__arrival, node);
        next = sheaf__list_next(&core->arrivals, node);
        if (a->head->epoch < x->epoch || (a->head->epoch == x->epoch && a->head->seq < x->seq)) {
            sheaf__list_remove(node);
            sheaf__list_append(old, node);
        } else if (is_for(x, a)) {
            sheaf__list_remove(node);
            meet(x, a);
        }
    }
}

static void free_arrivals(struct sheaf__list *list)
{
    struct sheaf__list_node *node;
    while ((node = sheaf__list_pop(list)))
        sheaf__arrival_free(SHEAF__CONTAINER(node, struct sheaf__arrival, node));
}

sheaf_status sheaf__exchange_begin(struct sheaf__exchange *x, const struct sheaf__part *parts,
                                   size_t count, sheaf_error *err)
{
    struct sheaf__core *core = x->core;
    struct sheaf__team *team = core->team;
    struct sheaf__list old;
    struct sheaf__coll_head head = sheaf__coll_head(team, SHEAF__COLL_CALL);
    sheaf__list_init(&old);
    x->calls = core->calls;
    memset(x->calls, 0, (size_t)team->size * sizeof(*x->calls));
    sheaf__mutex_lock(&team->lock);
    sheaf_status status = sheaf__core_check(core, core->seq, err);
    if (status == SHEAF_OK) {
        x->epoch = core->epoch;
        x->seq = core->seq++;
        core->calling = true;
        core->current = x;
        take_arrivals(x, &old);
    }
    sheaf__mutex_unlock(&team->lock);
    free_arrivals(&old);
    head.channel = (uint8_t)core->number;
    head.epoch = x->epoch;
    head.seq = x->seq;
    head.u.what = x->what;
    for (int i = 0; i < team->size && status == SHEAF_OK; i++)
        if (i != team->rank)
            status = sheaf__coll_send(team, i, &head, parts, count, NULL, err);
    return status;
}

/* ---- waiting ---- */

bool sheaf__exchange_all_called(struct sheaf__exchange *x)
{
    return x->arrived == x->core->team->size - 1;
}

struct look {
    struct sheaf__core *core;
    uint64_t seen;
};

static bool changed(void *user)
{
    struct look *look = user;
    return atomic_load_explicit(&look->core->events, memory_order_acquire) != look->seen;
}

/* Adds to an error of waiting for whom we waited. */
static void name_missing(struct sheaf__exchange *x, sheaf_error *err)
{
    struct sheaf__team *team = x->core->team;
    struct sheaf__str who = {0};
    int missing = 0;
    char call[112];
    if (!err)
        return;
    sheaf__coll_describe(&x->what, call, sizeof(call));
    sheaf__mutex_lock(&team->lock);
    for (int i = 0; i < team->size; i++) {
        if (i == team->rank || x->calls[i])
            continue;
        sheaf__str_printf(&who, "%s" SHEAF__TASK, missing ? ", " : "", team->members[i].task.job,
                          team->members[i].task.index);
        if (missing++ == 0)
            sheaf__error_set_peer(err, team->members[i].task.job, team->members[i].task.index);
    }
    sheaf__mutex_unlock(&team->lock);
    sheaf_error cause = *err;
    if (missing)
        sheaf__error(err, cause.status, "%s: %s; not called by %s", call, cause.message,
                     sheaf__str_text(&who));
    else
        sheaf__error(err, cause.status, "%s: %s; all have called it", call, cause.message);
    err->peer = cause.peer;
    sheaf__str_free(&who);
}

/* Whether the call can still succeed. Who has made it and left with a goodbye has done all of its part; what a member sent
 * before it was lost may be enough, too. With the lock. */
static sheaf_status check(struct sheaf__exchange *x, bool ready, sheaf_error *err)
{
    struct sheaf__team *team = x->core->team;
    bool needed = team->crashed;
    SHEAF__TRY(sheaf__core_check_failure(x->core, x->seq, err));
    if (ready || team->lost.status == SHEAF_OK)
        return SHEAF_OK;
    for (int i = 0; i < team->size; i++)
        needed = needed || (team->members[i].left && !x->calls[i]);
    return needed ? sheaf__error_copy(err, &team->lost) : SHEAF_OK;
}

sheaf_status sheaf__exchange_wait(struct sheaf__exchange *x,
                                  bool (*ready)(struct sheaf__exchange *x), sheaf_error *err)
{
    struct sheaf__core *core = x->core;
    struct sheaf__team *team = core->team;
    for (;;) {
        struct look look = {.core = core};
        sheaf__mutex_lock(&team->lock);
        look.seen = atomic_load(&core->events);
        bool there = ready(x);
        sheaf_status status = check(x, there, err);
        sheaf__mutex_unlock(&team->lock);
        if (there || status < 0)
            return status;
        status = sheaf__net_wait(team->net, changed, &look, x->wait, err);
        if (status < 0) {
            name_missing(x, err);
            return status;
        }
    }
}

sheaf_status sheaf__exchange_send(struct sheaf__exchange *x, int rank,
                                  struct sheaf__coll_place place, const void *data, size_t size,
                                  sheaf_error *err)
{
    struct sheaf__team *team = x->core->team;
    struct sheaf__coll_head head = sheaf__coll_head(team, SHEAF__COLL_DATA);
    const struct sheaf__part part = {(void *)(uintptr_t)data, size};
    head.channel = (uint8_t)x->core->number;
    head.epoch = x->epoch;
    head.seq = x->seq;
    head.u.data = place;
    return sheaf__coll_send(team, rank, &head, &part, 1, x, err);
}

/* ---- ending ---- */

static bool all_sent(struct sheaf__exchange *x)
{
    return x->unsent == 0;
}

static bool is_of(struct sheaf__call *call, void *arg)
{
    const struct sheaf__exchange *x = arg;
    struct sheaf__bytes meta = sheaf__call_meta(call);
    const struct sheaf__coll_head *head = meta.data;
    return meta.size == sizeof(*head) && head->type == SHEAF__COLL_DATA &&
           head->generation == x->core->team->generation && head->channel == x->core->number &&
           head->epoch == x->epoch && head->seq == x->seq;
}

sheaf_status sheaf__exchange_end(struct sheaf__exchange *x, sheaf_status status, sheaf_error *err)
{
    struct sheaf__core *core = x->core;
    struct sheaf__team *team = core->team;
    sheaf_error local = {0};
    sheaf_error *e = err ? err : &local;
    if (status == SHEAF_OK)
        status = sheaf__exchange_wait(x, all_sent, e);
    if (status < 0) {
        if (!err)
            local.status = status;
        sheaf__core_fail(core, e);
    }
    sheaf__mutex_lock(&team->lock);
    core->calling = false;
    core->current = NULL;
    sheaf__mutex_unlock(&team->lock);
    if (status < 0) {
        sheaf__net_discard(team->net, SHEAF__CALL_TEAM, is_of, x);
        for (int i = 0; i < team->size; i++)
            if (i != team->rank)
                sheaf__post_disown(team->members[i].peer, x);
    }
    for (int i = 0; i < team->size; i++)
        if (x->calls[i])
            sheaf__arrival_free(x->calls[i]);
    return status;
}
