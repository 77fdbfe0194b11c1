/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: who belongs to them, and how their sums are made up. */
#include "coll/team.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "coll/core.h"

#include <string.h>

enum { MEMBERS_MOST = 4096, REPLICAS_MOST = 1 << 15, BLOCKS_MOST = 64 };

/* ---- layouts ---- */

static void free_layout(struct sheaf__layout *l)
{
    sheaf__free(l->blocks);
    sheaf__free(l->first);
    sheaf__free(l->replica);
}

/* Blocks of one member: those of its replicas in the tree of all, or itself in the tree of members. */
static int member_blocks(const struct sheaf__layout *l, int member, struct sheaf__block *blocks)
{
    if (l->over_replicas)
        return sheaf__tree_blocks(l->replica[member], l->replica[member + 1] - l->replica[member],
                                  l->total, blocks);
    blocks[0] = (struct sheaf__block){.first = member, .size = 1};
    return 1;
}

static sheaf_status make_layout(struct sheaf__team *team, struct sheaf__layout *l, bool by_replica,
                                sheaf_error *err)
{
    size_t members = (size_t)team->size;
    struct sheaf__block blocks[BLOCKS_MOST];
    size_t capacity = 0;
    l->over_replicas = by_replica && team->reproducible;
    l->first = sheaf__calloc(members + 1, sizeof(*l->first));
    l->replica = sheaf__calloc(members + 1, sizeof(*l->replica));
    if (!l->first || !l->replica)
        return sheaf__no_memory(err, "a team");
    for (int m = 0; m < team->size; m++)
        l->replica[m + 1] = l->replica[m] + (by_replica ? team->members[m].replicas : 1);
    l->total = l->replica[team->size];
    for (int m = 0; m < team->size; m++) {
        int count = member_blocks(l, m, blocks);
        l->first[m + 1] = l->first[m] + count;
        l->most = count > l->most ? count : l->most;
        if (!sheaf__array_reserve((void **)&l->blocks, &capacity, (size_t)l->first[m + 1],
                                  sizeof(*l->blocks)))
            return sheaf__no_memory(err, "a team");
        memcpy(l->blocks + l->first[m], blocks, (size_t)count * sizeof(*blocks));
    }
    l->count = l->first[team->size];
    l->span = sheaf__tree_span(l->over_replicas ? l->total : team->size);
    return SHEAF_OK;
}

/* ---- coming together ---- */

/* Says who of the others is not there. The cause is the first one's. */
static sheaf_status missing(struct sheaf__team *team, const struct sheaf__wait *wait,
                            int64_t allowed, const sheaf_error *cause, sheaf_error *err)
{
    struct sheaf__str who = {0};
    const struct sheaf__member *first = NULL;
    int count = 0;
    for (int i = 0; i < team->size; i++) {
        struct sheaf__member *m = &team->members[i];
        struct sheaf__peer *found = i == team->rank ? NULL : sheaf__net_find(team->net, &m->task);
        if (i != team->rank && (!found || m->replicas == 0)) {
            sheaf__str_printf(&who, "%s" SHEAF__TASK " at %s", first ? ", " : "", m->task.job,
                              m->task.index, m->address);
            first = first ? first : m;
            count++;
        }
        sheaf__peer_unref(found);
    }
    /* Why a single one could not be reached, or was lost, is more than that it is not there; and so is what ended the wait
     * before its time. */
    const bool alone = count == 1 && first - team->members < team->rank;
    const bool early = sheaf__clock_left(wait->deadline) > 0;
    if (cause->status == SHEAF_ERR_TEAM_LOST ||
        (cause->status == SHEAF_ERR_UNAVAILABLE && (alone || early)))
        sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "%s", cause->message);
    else
        sheaf__error(
            err, SHEAF_ERR_UNAVAILABLE, "%s did not %s within %.3g s", sheaf__str_text(&who),
            cause->status == SHEAF_ERR_DEADLINE ? "join" : "connect", sheaf__clock_given(allowed));
    if (first)
        sheaf__error_set_peer(err, first->task.job, first->task.index);
    sheaf__str_free(&who);
    return SHEAF_ERR_UNAVAILABLE;
}

/* Whoever comes later in the order connects, so that every pair does once. */
static sheaf_status connect_all(struct sheaf__team *team, const struct sheaf__wait *wait,
                                sheaf_error *err)
{
    const int64_t allowed = sheaf__clock_left(wait->deadline);
    sheaf_error cause = {0};
    for (int i = 0; i < team->size; i++) {
        struct sheaf__member *m = &team->members[i];
        sheaf_status status = SHEAF_OK;
        if (i < team->rank)
            status = sheaf__net_connect(team->net, &m->task, m->address, wait, &m->peer, &cause);
        else if (i > team->rank)
            status = sheaf__net_await(team->net, &m->task, wait, &m->peer, &cause);
        if (status == SHEAF_ERR_UNAVAILABLE)
            return missing(team, wait, allowed, &cause, err);
        if (status < 0)
            return sheaf__error_copy(err, &cause);
    }
    return SHEAF_OK;
}

/* Whether all have joined, or cannot any more. Who has joined and left in order had found the team complete, so that the
 * others' joins are on their way to us, too. With the lock. */
static bool is_decided(const struct sheaf__team *team, bool *complete)
{
    bool gone = team->crashed;
    *complete = true;
    for (int i = 0; i < team->size; i++) {
        const bool joined = team->members[i].replicas > 0;
        *complete = *complete && joined;
        gone = gone || (team->members[i].left && !joined);
    }
    return *complete || gone;
}

static bool all_joined(void *user)
{
    struct sheaf__team *team = user;
    bool complete;
    sheaf__mutex_lock(&team->lock);
    bool ready = is_decided(team, &complete);
    sheaf__mutex_unlock(&team->lock);
    return ready;
}

/* A member that has come and gone again is a matter of the calls that need it. */
static sheaf_status check_complete(struct sheaf__team *team, sheaf_error *err)
{
    bool complete;
    sheaf__mutex_lock(&team->lock);
    is_decided(team, &complete);
    sheaf_status status = complete ? SHEAF_OK : sheaf__error_copy(err, &team->lost);
    sheaf__mutex_unlock(&team->lock);
    return status;
}

static sheaf_status check_joins(struct sheaf__team *team, sheaf_error *err)
{
    int total = 0;
    for (int i = 0; i < team->size; i++) {
        const struct sheaf__member *m = &team->members[i];
        total += m->replicas;
        if (m->replicas > REPLICAS_MOST || total > REPLICAS_MOST)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a team of more than %d replicas",
                                REPLICAS_MOST);
        team->wide = team->wide || m->replicas > 1;
        if (i == team->rank)
            continue;
        if (m->join.u.join.size == team->size && m->join.u.join.order == team->reproducible)
            continue;
        sheaf__error(err, SHEAF_ERR_TEAM_MISMATCH,
                     SHEAF__TASK " joins a team of %d members%s, this member one of %d%s",
                     m->task.job, m->task.index, m->join.u.join.size,
                     m->join.u.join.order ? " in reproducible order" : "", team->size,
                     team->reproducible ? " in reproducible order" : "");
        sheaf__error_set_peer(err, m->task.job, m->task.index);
        return SHEAF_ERR_TEAM_MISMATCH;
    }
    return SHEAF_OK;
}

static sheaf_status join(struct sheaf__team *team, const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__coll_head head = sheaf__coll_head(team, SHEAF__COLL_JOIN);
    const int64_t allowed = sheaf__clock_left(wait->deadline);
    sheaf_error cause;
    head.u.join.size = team->size;
    head.u.join.replicas = team->local;
    head.u.join.order = team->reproducible;
    head.u.join.host = sheaf__net_shared_host(team->net);
    team->members[team->rank].join = head;
    team->registry = sheaf__net_service(team->net, SHEAF__CALL_TEAM);
    if (!team->registry)
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "the net does not serve teams");
    SHEAF__TRY(connect_all(team, wait, err));
    sheaf__registry_enter(team->registry, team);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < team->size && status == SHEAF_OK; i++)
        if (i != team->rank)
            status = sheaf__coll_send(team, i, &head, NULL, 0, NULL, &cause);
    if (status == SHEAF_OK)
        status = sheaf__net_wait(team->net, all_joined, team, wait, &cause);
    if (status == SHEAF_OK)
        status = check_complete(team, &cause);
    if (status == SHEAF_ERR_DEADLINE || status == SHEAF_ERR_TEAM_LOST)
        return missing(team, wait, allowed, &cause, err);
    if (status < 0)
        return sheaf__error_copy(err, &cause);
    return check_joins(team, err);
}

/* ---- life ---- */

static sheaf_status copy_members(struct sheaf__team *team, const struct sheaf__team_options *o,
                                 sheaf_error *err)
{
    team->members = sheaf__calloc((size_t)team->size, sizeof(*team->members));
    if (!team->members)
        return sheaf__no_memory(err, "a team");
    team->members[team->rank].replicas = team->local;
    for (int i = 0; o->members && i < team->size; i++) {
        struct sheaf__member *m = &team->members[i];
        m->task = o->members[i].task;
        m->address = sheaf__strdup(o->members[i].address ? o->members[i].address : "?");
        if (!m->address)
            return sheaf__no_memory(err, "a team");
    }
    return SHEAF_OK;
}

static sheaf_status check_options(const struct sheaf__team_options *o, sheaf_error *err)
{
    bool alone = o->size <= 1;
    if (o->size > MEMBERS_MOST || o->rank < 0 || (o->rank > 0 && o->rank >= o->size) ||
        o->local_replicas < 0 || o->local_replicas > REPLICAS_MOST ||
        (!alone && (!o->net || !o->members)))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a team of %d members, rank %d, with %d replicas", o->size, o->rank,
                            o->local_replicas);
    return SHEAF_OK;
}

sheaf_status sheaf__team_new(const struct sheaf__team_options *options,
                             const struct sheaf__wait *wait, struct sheaf__team **team,
                             sheaf_error *err)
{
    SHEAF__TRY(check_options(options, err));
    struct sheaf__team *t = sheaf__calloc(1, sizeof(*t));
    if (!t)
        return sheaf__no_memory(err, "a team");
    t->size = options->size ? options->size : 1;
    t->net = t->size > 1 ? options->net : NULL;
    t->rank = options->rank;
    t->local = options->local_replicas ? options->local_replicas : 1;
    t->generation = options->generation;
    t->reproducible = options->reproducible;
    sheaf_error cause;
    sheaf_status status = copy_members(t, options, err);
    if (status == SHEAF_OK && t->net && (status = join(t, wait, &cause)) < 0) {
        sheaf__net_give_up(t->net, &cause); /* the others' teams will not be complete either */
        sheaf__error_copy(err, &cause);
    }
    if (status == SHEAF_OK)
        status = make_layout(t, &t->by_rank, false, err);
    if (status == SHEAF_OK)
        status = make_layout(t, &t->by_replica, true, err);
    if (status == SHEAF_OK && t->net)
        status = sheaf__shm_open(t, wait, err);
    if (status < 0) {
        sheaf__team_free(t);
        return status;
    }
    if (t->net)
        sheaf__net_give_up(t->net, NULL);
    *team = t;
    return SHEAF_OK;
}

/* Why this member ends: the loss of another, else what a call of its failed with that was not begun anew. Others whom that
 * has not reached yet find it in its goodbye, in place of its leaving. */
static sheaf_error reason_to_end(struct sheaf__team *team)
{
    sheaf_error reason = {0};
    sheaf__mutex_lock(&team->lock);
    sheaf__error_keep_first(&reason, &team->blame);
    for (int i = 0; i < SHEAF__CHANNELS && reason.status >= 0; i++)
        if (team->cores[i])
            sheaf__core_check_failure(team->cores[i], team->cores[i]->seq, &reason);
    sheaf__mutex_unlock(&team->lock);
    if (reason.status < 0 && !reason.peer.job[0]) {
        const sheaf_task own = sheaf__net_task(team->net);
        sheaf__error_set_peer(&reason, own.job, own.index);
    }
    return reason;
}

void sheaf__team_free(struct sheaf__team *team)
{
    if (!team)
        return;
    sheaf__registry_leave(team);
    const sheaf_error reason = team->net ? reason_to_end(team) : (sheaf_error){0};
    if (reason.status < 0)
        sheaf__net_give_up(team->net, &reason);
    sheaf__shm_close(team);
    for (int i = 0; i < SHEAF__CHANNELS; i++)
        sheaf__core_free(team->cores[i]);
    for (int i = 0; team->members && i < team->size; i++) {
        sheaf__peer_unref(team->members[i].peer);
        sheaf__free(team->members[i].address);
    }
    free_layout(&team->by_rank);
    free_layout(&team->by_replica);
    sheaf__free(team->members);
    sheaf__free(team);
}

int sheaf__team_rank(const struct sheaf__team *team)
{
    return team->rank;
}

int sheaf__team_size(const struct sheaf__team *team)
{
    return team->size;
}

int sheaf__team_replicas(const struct sheaf__team *team)
{
    return team->by_replica.total;
}

int sheaf__team_local_replicas(const struct sheaf__team *team)
{
    return team->local;
}

int sheaf__team_first_replica(const struct sheaf__team *team)
{
    return team->by_replica.replica[team->rank];
}

int sheaf__team_replica_of(const struct sheaf__team *team, int rank)
{
    return team->by_replica.replica[rank];
}

sheaf_status sheaf__team_status(struct sheaf__team *team, sheaf_error *err)
{
    sheaf__mutex_lock(&team->lock);
    sheaf_status status = team->lost.status < 0 ? sheaf__error_copy(err, &team->lost) : SHEAF_OK;
    sheaf__mutex_unlock(&team->lock);
    return status;
}
