/* SPDX-License-Identifier: Apache-2.0 */

/* Pushes of workers. Their handlers run on the thread that drives the network. A large push is
 * computed while it comes in, if all its updates allow it and no other to the same variables is under
 * way; else it is taken in whole first, and applied by the server's pool if that takes long. Either
 * way all of a push is applied, or nothing: it counts when its last byte has come. */

#include "base/error.h"
#include "base/mem.h"
#include "ps/draft.h"
#include "ps/server.h"

enum {
    LARGE_BYTES = 64 << 10, /* looked at before it comes in */
    LONG_BYTES = 1 << 20    /* not applied on the driving thread */
};

/* A large push, from its begin to its end. */
struct arrival {
    struct sheaf__ps_push_view view;
    bool drafted;  /* computed while it comes in */
    uint32_t next; /* the update whose data come */
    uint64_t left; /* of its room */
    uint32_t count;
    struct sheaf__ps_draft drafts[]; /* of each update; not drafted: its variable alone */
};

static void arrival_free(struct arrival *a)
{
    for (uint32_t i = 0; a && i < a->count; i++) {
        sheaf__ps_expected(a->drafts[i].variable);
        sheaf__ps_draft_clear(&a->drafts[i]);
    }
    sheaf__free(a);
}

static struct sheaf__hyper hyper_of(const struct sheaf__ps_push_view *view,
                                    const struct sheaf__ps_update *u)
{
    return u->hyper < view->head.hypers ? sheaf__ps_push_hyper(view, u->hyper)
                                        : (struct sheaf__hyper){0};
}

/* ---- while it comes in ---- */

/* Notes the variables, and whether all of it can be drafted. */
static sheaf_status expect(struct sheaf__ps_server *server, struct arrival *a, sheaf_error *err)
{
    a->drafted = !a->view.head.again;
    for (uint32_t i = 0; i < a->view.head.updates; i++) {
        const struct sheaf__ps_update u = sheaf__ps_push_update(&a->view, i);
        const struct sheaf__hyper h = hyper_of(&a->view, &u);
        struct sheaf__ps_variable *v;
        SHEAF__TRY(sheaf__ps_find(&server->table, u.variable, &v, err));
        a->drafts[a->count++].variable = v;
        a->drafted &= sheaf__ps_expect(v) && sheaf__ps_draft_suits(v, &u, &h);
    }
    return SHEAF_OK;
}

static sheaf_status begin_drafts(struct arrival *a, sheaf_error *err)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const struct sheaf__ps_update u = sheaf__ps_push_update(&a->view, i);
        const struct sheaf__hyper h = hyper_of(&a->view, &u);
        SHEAF__TRY(sheaf__ps_draft_begin(&a->drafts[i], &u, &h, err));
    }
    a->left = sheaf__ps_room(a->drafts[0].variable->bytes);
    return SHEAF_OK;
}

static sheaf_status place_push(struct sheaf__call *call, void *user, sheaf_error *err)
{
    const size_t size = sheaf__call_payload_size(call);
    struct sheaf__ps_push_view view;
    if (size < LARGE_BYTES)
        return SHEAF_OK;
    SHEAF__TRY(sheaf__ps_get_push(sheaf__call_meta(call), size, &view, err));
    struct arrival *a = sheaf__calloc(1, sizeof(*a) + view.head.updates * sizeof(a->drafts[0]));
    if (!a)
        return sheaf__no_memory(err, "a push");
    a->view = view;
    sheaf_status status = expect(user, a, err);
    if (status >= 0 && a->drafted)
        status = begin_drafts(a, err);
    if (status < 0) {
        arrival_free(a);
        return status;
    }
    *sheaf__call_user(call) = a;
    if (a->drafted)
        sheaf__call_take(call);
    return SHEAF_OK;
}

static void take_push(struct sheaf__call *call, const void *data, size_t size, void *user)
{
    struct arrival *a = *sheaf__call_user(call);
    (void)user;
    while (size > 0) {
        struct sheaf__ps_draft *d = &a->drafts[a->next];
        const size_t n = size < a->left ? size : (size_t)a->left;
        const size_t wanted = d->variable->bytes - d->done; /* without what fills up the room */
        sheaf__ps_draft_take(d, data, n < wanted ? n : wanted);
        data = (const char *)data + n;
        size -= n;
        a->left -= n;
        if (a->left == 0 && ++a->next < a->count)
            a->left = sheaf__ps_room(a->drafts[a->next].variable->bytes);
    }
}

static void drop_push(struct sheaf__call *call, void *user)
{
    (void)user;
    arrival_free(*sheaf__call_user(call));
}

/* ---- when it is there; with server->applying ---- */

/* Whether this push is new: a retried one is acknowledged, not applied again. */
static bool is_new(struct sheaf__ps_server *server, struct sheaf__call *call,
                   const struct sheaf__ps_push_view *view)
{
    sheaf__mutex_lock(&server->lock);
    struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, sheaf__ps_caller(call));
    const bool fresh = !w || view->head.sequence > w->sequence;
    if (w && fresh) {
        w->sequence = view->head.sequence;
        sheaf__ps_take_mark(w, (struct sheaf__bytes){view->mark, view->head.mark});
    }
    sheaf__mutex_unlock(&server->lock);
    return fresh;
}

static void note_rules(struct sheaf__ps_server *server, const struct sheaf__call *call,
                       const struct sheaf__ps_push_view *view)
{
    const sheaf_task worker = sheaf__ps_caller(call);
    for (uint32_t i = 0; i < view->head.updates; i++) {
        const struct sheaf__ps_update u = sheaf__ps_push_update(view, i);
        const struct sheaf__hyper h = hyper_of(view, &u);
        struct sheaf__ps_variable *v;
        if ((u.kind == SHEAF__PS_GRADIENT || u.kind == SHEAF__PS_ROWS) &&
            sheaf__ps_find(&server->table, u.variable, &v, NULL) >= 0)
            sheaf__ps_note_rule(&server->table, v, &h, worker);
    }
}

/* False: a draft is of a value that is not there any more. */
static bool all_hold(const struct arrival *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (!sheaf__ps_draft_holds(&a->drafts[i]))
            return false;
    return true;
}

static sheaf_status apply_all(struct sheaf__ps_server *server,
                              const struct sheaf__ps_push_view *view, const char *data,
                              sheaf_error *err)
{
    for (uint32_t i = 0; i < view->head.updates; i++) {
        const struct sheaf__ps_update u = sheaf__ps_push_update(view, i);
        const struct sheaf__hyper h = hyper_of(view, &u);
        struct sheaf__ps_variable *v;
        SHEAF__TRY(sheaf__ps_find(&server->table, u.variable, &v, err));
        SHEAF__TRY(sheaf__ps_apply(v, &u, &h, data, err));
        data += sheaf__ps_room(u.bytes);
    }
    return SHEAF_OK;
}

/* ---- serving ---- */

static void publish_push(struct sheaf__ps_server *server, struct sheaf__call *call,
                         struct arrival *a)
{
    static const uint8_t again = SHEAF__PS_AGAIN;
    const struct sheaf__reply ask = {.meta = &again, .meta_size = sizeof(again)};
    sheaf__mutex_lock(&server->applying);
    const bool hold = all_hold(a), fresh = hold && is_new(server, call, &a->view);
    for (uint32_t i = 0; fresh && i < a->count; i++)
        sheaf__ps_draft_publish(&a->drafts[i]);
    sheaf__mutex_unlock(&server->applying);
    note_rules(server, call, &a->view);
    arrival_free(a);
    sheaf__call_reply(call, hold ? NULL : &ask);
}

static void apply_push(struct sheaf__ps_server *server, struct sheaf__call *call)
{
    struct sheaf__ps_push_view view;
    sheaf_error err = {0};
    sheaf_status status =
        sheaf__ps_get_push(sheaf__call_meta(call), sheaf__call_payload_size(call), &view, &err);
    sheaf__mutex_lock(&server->applying);
    if (status >= 0 && is_new(server, call, &view))
        status = apply_all(server, &view, sheaf__call_payload(call), &err);
    sheaf__mutex_unlock(&server->applying);
    if (status >= 0)
        note_rules(server, call, &view);
    arrival_free(*sheaf__call_user(call));
    if (status < 0)
        sheaf__call_fail(call, &err);
    else
        sheaf__call_reply(call, NULL);
}

struct push_job {
    struct sheaf__pool_job job;
    struct sheaf__ps_server *server;
    struct sheaf__call *call;
};

static void run_push_job(struct sheaf__pool_job *job)
{
    struct push_job *p = (struct push_job *)job;
    apply_push(p->server, p->call);
    sheaf__free(p);
}

static void serve_push(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    struct arrival *a = *sheaf__call_user(call);
    struct push_job *p = NULL;
    if (a && a->drafted) {
        publish_push(server, call, a);
        return;
    }
    if (sheaf__call_payload_size(call) >= LONG_BYTES)
        p = sheaf__calloc(1, sizeof(*p));
    if (p) {
        *p = (struct push_job){.job = {.fn = run_push_job}, .server = server, .call = call};
        if (sheaf__pool_submit(server->pool, &p->job, NULL) >= 0)
            return;
        sheaf__free(p);
    }
    apply_push(server, call);
}

sheaf_status sheaf__ps_serve_pushes(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service service = {.kind = SHEAF__PS_PUSH,
                                           .place = place_push,
                                           .take = take_push,
                                           .serve = serve_push,
                                           .drop = drop_push,
                                           .user = server,
                                           .payload_limit = SIZE_MAX};
    return sheaf__net_serve(server->net, &service, err);
}
