/* SPDX-License-Identifier: Apache-2.0 */
#include "distribute/halt_workers.h"

#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "net/call.h"

#include <string.h>

enum {
    ASK = SHEAF__CALL_DISTRIBUTE, /* to worker 0: the job is to stop */
    PROMISE,                      /* from it: how many places are passed? */
    STOP_AT,                      /* from it: the place */
};

/* A worker's promise that is waited for. */
struct promise {
    struct sheaf__halt_workers *workers;
    struct sheaf__request request;
};

struct sheaf__halt_workers {
    struct sheaf__net *net;
    sheaf_context *context;
    struct sheaf__halt *halt;
    sheaf_task *tasks; /* by rank */
    int size, rank;
    struct sheaf__net_events events;

    /* Of worker 0. */
    struct promise *promises;
    struct sheaf__mutex lock; /* of what follows */
    bool begun;
    int missing; /* promises */
    uint64_t most;
};

/* ---- worker 0 ---- */

static void tell_all(struct sheaf__halt_workers *w, uint64_t place)
{
    for (int i = 1; i < w->size; i++) {
        struct sheaf__peer *peer = sheaf__net_find(w->net, &w->tasks[i]);
        const struct sheaf__post post = {
            .kind = STOP_AT, .meta = &place, .meta_size = sizeof(place)};
        if (peer)
            (void)!sheaf__post(peer, &post, NULL); /* who is lost is missed by all */
        sheaf__peer_unref(peer);
    }
    sheaf__halt_decide(w->halt, place);
}

/* One of those that were waited for has passed so many. */
static void take_promise(struct sheaf__halt_workers *w, uint64_t passed)
{
    sheaf__mutex_lock(&w->lock);
    w->most = passed > w->most ? passed : w->most;
    const bool all = --w->missing == 0;
    const uint64_t place = w->most + 1;
    sheaf__mutex_unlock(&w->lock);
    if (all)
        tell_all(w, place);
}

static void promised(struct sheaf__request *request, void *user)
{
    struct promise *p = user;
    uint64_t passed = 0;
    if (request->status >= 0 && request->reply_meta.size == sizeof(passed))
        memcpy(&passed, request->reply_meta.data, sizeof(passed));
    take_promise(p->workers, passed);
}

static void ask_for_promise(struct sheaf__halt_workers *w, int rank)
{
    struct promise *p = &w->promises[rank];
    struct sheaf__peer *peer = sheaf__net_find(w->net, &w->tasks[rank]);
    *p = (struct promise){.workers = w, .request = {.kind = PROMISE, .done = promised, .user = p}};
    if (!peer || sheaf__request_start(peer, &p->request, NULL) < 0)
        take_promise(w, 0);
    sheaf__peer_unref(peer);
}

static void begin(struct sheaf__halt_workers *w)
{
    sheaf__mutex_lock(&w->lock);
    const bool first = !w->begun;
    w->begun = true;
    w->missing = first ? w->size : w->missing;
    sheaf__mutex_unlock(&w->lock);
    if (!first)
        return;
    for (int i = 1; i < w->size; i++)
        ask_for_promise(w, i);
    take_promise(w, sheaf__halt_promise(w->halt));
}

/* ---- messages ---- */

static void serve_ask(struct sheaf__call *call, void *user)
{
    struct sheaf__halt_workers *w = user;
    sheaf__call_reply(call, NULL);
    begin(w);
    sheaf__context_told_to_stop(w->context);
}

static void serve_promise(struct sheaf__call *call, void *user)
{
    struct sheaf__halt_workers *w = user;
    const uint64_t passed = sheaf__halt_promise(w->halt);
    sheaf__call_reply(call, &(struct sheaf__reply){.meta = &passed, .meta_size = sizeof(passed)});
    sheaf__context_told_to_stop(w->context);
}

static void serve_stop_at(struct sheaf__call *call, void *user)
{
    struct sheaf__halt_workers *w = user;
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    uint64_t place;
    if (meta.size == sizeof(place)) {
        memcpy(&place, meta.data, sizeof(place));
        sheaf__halt_decide(w->halt, place);
    }
    sheaf__call_reply(call, NULL);
}

/* Whoever is lost makes no promise, or gives no answer. */
static void worker_down(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    struct sheaf__halt_workers *w = user;
    (void)peer;
    (void)cause;
    sheaf__halt_give_up(w->halt);
}

static void ask(void *user)
{
    struct sheaf__halt_workers *w = user;
    if (w->rank == 0) {
        begin(w);
        return;
    }
    struct sheaf__peer *peer = sheaf__net_find(w->net, &w->tasks[0]);
    if (peer)
        (void)!sheaf__post(peer, &(struct sheaf__post){.kind = ASK}, NULL);
    sheaf__peer_unref(peer);
}

/* ---- beginning and end ---- */

static sheaf_status serve(struct sheaf__halt_workers *w, sheaf_error *err)
{
    const struct sheaf__service services[] = {
        {.kind = ASK, .serve = serve_ask, .user = w},
        {.kind = PROMISE, .serve = serve_promise, .user = w},
        {.kind = STOP_AT, .serve = serve_stop_at, .user = w},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        SHEAF__TRY(sheaf__net_serve(w->net, &services[i], err));
    w->events = (struct sheaf__net_events){.down = worker_down, .user = w};
    sheaf__net_listen(w->net, &w->events);
    return SHEAF_OK;
}

sheaf_status sheaf__halt_workers_new(struct sheaf__net *net, sheaf_context *context,
                                     const struct sheaf__team_options *team,
                                     struct sheaf__halt_workers **workers, sheaf_error *err)
{
    const size_t size = (size_t)team->size;
    struct sheaf__halt_workers *w = sheaf__calloc(1, sizeof(*w));
    if (!w)
        return sheaf__no_memory(err, "a team");
    *workers = w;
    w->net = net;
    w->context = context;
    w->size = team->size;
    w->rank = team->rank;
    w->tasks = sheaf__calloc(size, sizeof(*w->tasks));
    w->promises = sheaf__calloc(size, sizeof(*w->promises));
    if (!w->tasks || !w->promises)
        return sheaf__no_memory(err, "a team");
    for (size_t i = 0; i < size; i++)
        w->tasks[i] = team->members[i].task;
    const struct sheaf__halt_peers peers = {.ask = ask, .user = w};
    SHEAF__TRY(sheaf__halt_new(&peers, &w->halt, err));
    return serve(w, err);
}

struct sheaf__halt *sheaf__halt_workers_halt(const struct sheaf__halt_workers *w)
{
    return w->halt;
}

void sheaf__halt_workers_leave(struct sheaf__halt_workers *w)
{
    if (!w)
        return;
    sheaf__halt_deafen(w->halt);
    if (w->events.user)
        sheaf__net_unlisten(w->net, &w->events);
}

void sheaf__halt_workers_free(struct sheaf__halt_workers *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->size && w->promises; i++)
        sheaf__request_clear(&w->promises[i].request);
    sheaf__halt_free(w->halt);
    sheaf__free(w->promises);
    sheaf__free(w->tasks);
    sheaf__free(w);
}
