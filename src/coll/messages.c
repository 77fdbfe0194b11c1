/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the members of teams, and which team they are for. */
#include "base/error.h"
#include "base/mem.h"
#include "coll/core.h"

#include <string.h>

/* Data that comes with a CALL, at most. */
enum { INLINE_LIMIT = 1 << 20 };

struct sheaf__coll_head sheaf__coll_head(const struct sheaf__team *team, enum sheaf__coll_type type)
{
    struct sheaf__coll_head head;
    memset(&head, 0, sizeof(head));
    head.type = (uint8_t)type;
    head.rank = (uint16_t)team->rank;
    head.generation = team->generation;
    return head;
}

/* ---- sending ---- */

static void count_unsent(struct sheaf__exchange *x, int change)
{
    struct sheaf__team *team = x->core->team;
    sheaf__mutex_lock(&team->lock);
    x->unsent += change;
    sheaf__core_event(x->core);
    sheaf__mutex_unlock(&team->lock);
}

/* After the last one the exchange may be over and gone: only the net is touched then. */
static void sent(void *user)
{
    struct sheaf__exchange *x = user;
    struct sheaf__net *net = x->core->team->net;
    count_unsent(x, -1);
    sheaf__net_wake(net);
}

sheaf_status sheaf__coll_send(struct sheaf__team *team, int rank,
                              const struct sheaf__coll_head *head, const struct sheaf__part *parts,
                              size_t count, struct sheaf__exchange *x, sheaf_error *err)
{
    const struct sheaf__post post = {
        .kind = SHEAF__CALL_TEAM,
        .meta = head,
        .meta_size = sizeof(*head),
        .parts = parts,
        .count = count,
        .sent = x ? sent : NULL,
        .user = x,
        .owner = x,
    };
    if (x)
        count_unsent(x, 1);
    sheaf_status status = sheaf__post(team->members[rank].peer, &post, err);
    if (status < 0 && x)
        count_unsent(x, -1);
    if (status == SHEAF_ERR_UNAVAILABLE) {
        status = SHEAF_ERR_TEAM_LOST;
        if (err)
            err->status = status;
    }
    return status;
}

/* ---- receiving ---- */

void sheaf__arrival_free(struct sheaf__arrival *a)
{
    sheaf__call_reply(a->call, NULL);
    sheaf__free(a);
}

/* The head of a message that makes sense; NULL: there is none. */
static const struct sheaf__coll_head *head_of(const struct sheaf__call *call)
{
    struct sheaf__bytes meta = sheaf__call_meta(call);
    const struct sheaf__coll_head *head = meta.data;
    if (meta.size != sizeof(*head) || head->channel >= SHEAF__CHANNELS)
        return NULL;
    return head;
}

/* The team that the message is for, if its sender is the member that it says. With the lock. */
static struct sheaf__team *team_of(struct sheaf__registry *r, const struct sheaf__coll_head *head,
                                   struct sheaf__peer *peer)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&r->teams); node; node = sheaf__list_next(&r->teams, node)) {
        struct sheaf__team *team = SHEAF__CONTAINER(node, struct sheaf__team, node);
        if (team->generation != head->generation)
            continue;
        return head->rank < team->size && team->members[head->rank].peer == peer ? team : NULL;
    }
    return NULL;
}

static sheaf_status place_data(struct sheaf__team *team, struct sheaf__call *call,
                               const struct sheaf__coll_head *head, sheaf_error *err)
{
    struct sheaf__core *core = team->cores[head->channel];
    struct sheaf__exchange *x = core ? core->current : NULL;
    struct sheaf__part part = {NULL, sheaf__call_payload_size(call)};
    if (x && x->place && x->epoch == head->epoch && x->seq == head->seq)
        part.data = x->place(x, head->rank, head, part.size);
    if (!part.data)
        return sheaf__error(err, SHEAF_ERR_CANCELLED, "data for a call that is over");
    return sheaf__call_place(call, &part, 1, err);
}

static sheaf_status place(struct sheaf__call *call, void *user, sheaf_error *err)
{
    struct sheaf__registry *r = user;
    const struct sheaf__coll_head *head = head_of(call);
    sheaf_status status = SHEAF_OK;
    if (!head)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a message of a team is malformed");
    if (head->type != SHEAF__COLL_DATA)
        return SHEAF_OK;
    sheaf__mutex_lock(&r->lock);
    struct sheaf__team *team = team_of(r, head, sheaf__call_peer(call));
    if (team) {
        sheaf__mutex_lock(&team->lock);
        status = place_data(team, call, head, err);
        sheaf__mutex_unlock(&team->lock);
    } else {
        status = sheaf__error(err, SHEAF_ERR_CANCELLED, "data for a team that is over");
    }
    sheaf__mutex_unlock(&r->lock);
    return status;
}

static void on_data(struct sheaf__core *core, const struct sheaf__coll_head *head, size_t size)
{
    struct sheaf__exchange *x = core->current;
    if (x && x->came && x->epoch == head->epoch && x->seq == head->seq)
        x->came(x, head->rank, head, size);
    sheaf__core_event(core);
}

/* The entry for an epoch, made if need be; NULL: no memory, or too many, which no member needs. */
static struct sheaf__abort *abort_of(struct sheaf__core *core, uint32_t epoch)
{
    enum { ABORTS_MOST = 256 };
    for (size_t i = 0; i < core->abort_count; i++)
        if (core->aborts[i].epoch == epoch)
            return &core->aborts[i];
    if (epoch < core->epoch || core->abort_count == ABORTS_MOST ||
        !sheaf__array_reserve((void **)&core->aborts, &core->abort_capacity, core->abort_count + 1,
                              sizeof(*core->aborts)))
        return NULL;
    core->aborts[core->abort_count] = (struct sheaf__abort){.epoch = epoch, .seq = UINT64_MAX};
    return &core->aborts[core->abort_count++];
}

static void on_abort(struct sheaf__core *core, struct sheaf__call *call,
                     const struct sheaf__coll_head *head)
{
    struct sheaf__abort *a = abort_of(core, head->epoch);
    if (!a || head->seq >= a->seq)
        return;
    a->seq = head->seq;
    a->when = head->u.when;
    if (!sheaf__error_unpack(&a->cause, sheaf__call_payload(call), sheaf__call_payload_size(call)))
        sheaf__error(&a->cause, SHEAF_ERR_ABORTED, "a call was aborted without an error");
    /* All blame the member that was lost first, not who left because of that. */
    if (a->cause.status == SHEAF_ERR_TEAM_LOST)
        sheaf__error_keep_first(&core->team->blame, &a->cause);
    sheaf__core_event(core);
}

/* True if the call was taken over. With both locks. */
static bool deliver(struct sheaf__team *team, struct sheaf__call *call, struct sheaf__arrival *a,
                    const struct sheaf__coll_head *head)
{
    struct sheaf__core *core;
    switch (head->type) {
    case SHEAF__COLL_JOIN:
        team->members[head->rank].join = *head;
        team->members[head->rank].replicas = head->u.join.replicas;
        return false;
    case SHEAF__COLL_CALL:
        core = sheaf__core_get(team, head->channel);
        if (!core || !a)
            return false;
        sheaf__exchange_arrive(core, a);
        return true;
    case SHEAF__COLL_DATA:
        core = team->cores[head->channel];
        if (core)
            on_data(core, head, sheaf__call_payload_size(call));
        return false;
    case SHEAF__COLL_ABORT:
        core = sheaf__core_get(team, head->channel);
        if (core)
            on_abort(core, call, head);
        return false;
    default:
        return false;
    }
}

/* A CALL is kept until its exchange is over; a JOIN, until its team is made. */
static struct sheaf__arrival *new_arrival(struct sheaf__call *call,
                                          const struct sheaf__coll_head *head)
{
    if (head->type != SHEAF__COLL_CALL && head->type != SHEAF__COLL_JOIN)
        return NULL;
    struct sheaf__arrival *a = sheaf__calloc(1, sizeof(*a));
    if (a) {
        a->call = call;
        a->head = head;
    }
    return a;
}

static void serve(struct sheaf__call *call, void *user)
{
    struct sheaf__registry *r = user;
    const struct sheaf__coll_head *head = head_of(call);
    struct sheaf__arrival *a = head ? new_arrival(call, head) : NULL;
    sheaf_error cause;
    bool taken = false;
    sheaf__mutex_lock(&r->lock);
    struct sheaf__team *team = head ? team_of(r, head, sheaf__call_peer(call)) : NULL;
    if (team) {
        sheaf__mutex_lock(&team->lock);
        taken = deliver(team, call, a, head);
        struct sheaf__core *core = taken ? team->cores[head->channel] : NULL;
        bool refused = core && sheaf__round_has_left_out(core, head, &cause);
        sheaf__mutex_unlock(&team->lock);
        if (refused)
            sheaf__core_fail(core, &cause);
    } else if (a && head->type == SHEAF__COLL_JOIN) {
        sheaf__list_append(&r->early, &a->node);
        taken = true;
    }
    sheaf__mutex_unlock(&r->lock);
    sheaf__net_wake(r->net);
    if (taken)
        return;
    sheaf__free(a);
    sheaf__call_reply(call, NULL);
}

/* ---- members that are lost ---- */

static void drop_early(struct sheaf__registry *r, const struct sheaf__peer *peer)
{
    struct sheaf__list_node *node, *next;
    for (node = sheaf__list_first(&r->early); node; node = next) {
        struct sheaf__arrival *a = SHEAF__CONTAINER(node, struct sheaf__arrival, node);
        next = sheaf__list_next(&r->early, node);
        if (peer && sheaf__call_peer(a->call) != peer)
            continue;
        sheaf__list_remove(node);
        sheaf__arrival_free(a);
    }
}

static void lose(struct sheaf__team *team, struct sheaf__member *member, const sheaf_error *cause)
{
    sheaf__mutex_lock(&team->lock);
    const enum sheaf__peer_end end = sheaf__peer_end(member->peer);
    sheaf_error loss = *cause;
    loss.status = SHEAF_ERR_TEAM_LOST;
    member->left = end != SHEAF__PEER_LOST;
    team->crashed = team->crashed || !member->left;
    if (end != SHEAF__PEER_LEFT)
        sheaf__error_keep_first(&team->blame, &loss);
    sheaf__error_keep_first(&team->lost, team->blame.status < 0 ? &team->blame : &loss);
    for (int i = 0; i < SHEAF__CHANNELS; i++)
        if (team->cores[i])
            sheaf__core_event(team->cores[i]);
    sheaf__mutex_unlock(&team->lock);
}

static void on_down(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    struct sheaf__registry *r = user;
    struct sheaf__list_node *node;
    sheaf__mutex_lock(&r->lock);
    drop_early(r, peer);
    for (node = sheaf__list_first(&r->teams); node; node = sheaf__list_next(&r->teams, node)) {
        struct sheaf__team *team = SHEAF__CONTAINER(node, struct sheaf__team, node);
        for (int i = 0; i < team->size; i++)
            if (team->members[i].peer == peer)
                lose(team, &team->members[i], cause);
    }
    sheaf__mutex_unlock(&r->lock);
    sheaf__net_wake(r->net);
}

/* ---- the registry ---- */

void sheaf__registry_enter(struct sheaf__registry *r, struct sheaf__team *team)
{
    struct sheaf__list_node *node, *next;
    sheaf_error cause;
    sheaf__mutex_lock(&r->lock);
    sheaf__list_append(&r->teams, &team->node);
    for (node = sheaf__list_first(&r->early); node; node = next) {
        struct sheaf__arrival *a = SHEAF__CONTAINER(node, struct sheaf__arrival, node);
        next = sheaf__list_next(&r->early, node);
        if (team_of(r, a->head, sheaf__call_peer(a->call)) != team)
            continue;
        sheaf__list_remove(node);
        sheaf__mutex_lock(&team->lock);
        deliver(team, a->call, NULL, a->head);
        sheaf__mutex_unlock(&team->lock);
        sheaf__arrival_free(a);
    }
    /* One may have gone between its connection and now. */
    for (int i = 0; i < team->size; i++)
        if (team->members[i].peer && sheaf__peer_status(team->members[i].peer, &cause) < 0)
            lose(team, &team->members[i], &cause);
    sheaf__mutex_unlock(&r->lock);
}

void sheaf__registry_leave(struct sheaf__team *team)
{
    struct sheaf__registry *r = team->registry;
    if (!r)
        return;
    sheaf__mutex_lock(&r->lock);
    sheaf__list_remove(&team->node);
    sheaf__mutex_unlock(&r->lock);
}

static void close_registry(void *user)
{
    struct sheaf__registry *r = user;
    drop_early(r, NULL);
    sheaf__net_unlisten(r->net, &r->events);
    sheaf__free(r);
}

sheaf_status sheaf__team_serve(struct sheaf__net *net, sheaf_error *err)
{
    struct sheaf__registry *r = sheaf__calloc(1, sizeof(*r));
    if (!r)
        return sheaf__no_memory(err, "a team");
    r->net = net;
    sheaf__list_init(&r->teams);
    sheaf__list_init(&r->early);
    const struct sheaf__service service = {
        .kind = SHEAF__CALL_TEAM,
        .place = place,
        .serve = serve,
        .user = r,
        .payload_limit = INLINE_LIMIT,
        .close = close_registry,
    };
    sheaf_status status = sheaf__net_serve(net, &service, err);
    if (status < 0) {
        sheaf__free(r);
        return status;
    }
    r->events = (struct sheaf__net_events){.down = on_down, .user = r};
    sheaf__net_listen(net, &r->events);
    return SHEAF_OK;
}
