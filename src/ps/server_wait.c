/* SPDX-License-Identifier: Apache-2.0 */

/* Calls that are answered when another task has done something: a worker attaches to a variable
 * that the chief makes, waits for what the chief restores, or waits for others to end. */

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ps/server.h"

#include <string.h>

/* What has become of a call. With the server's lock held: SHEAF_OK, SHEAF_PENDING or an error. */

/* Whether all workers but `self` have ended. */
static bool others_ended(const struct sheaf__ps_server *server, sheaf_task self)
{
    for (int i = 0; i < server->worker_count; i++) {
        const struct sheaf__ps_worker *w = &server->workers[i];
        if (sheaf__ps_same_task(w->task, self))
            continue;
        if (w->state == SHEAF__PS_WORKING)
            return false;
        if (w->state == SHEAF__PS_NEVER && sheaf__clock_left(server->patience) > 0)
            return false;
    }
    return true;
}

/* Whether a worker whose part is done may go: the one that saves when the others have ended, the others
 * when it has, as one of them has to save if it is lost. */
static bool may_leave(const struct sheaf__ps_server *server, const struct sheaf__ps_waiting *w)
{
    if (sheaf__ps_writes(server, w->task))
        return others_ended(server, w->task);
    return sheaf__ps_writer_ended(server) ||
           (server->workers[server->writer].state == SHEAF__PS_NEVER &&
            sheaf__clock_left(server->patience) == 0);
}

static sheaf_status await_chief(const struct sheaf__ps_server *server, const char *what,
                                sheaf_error *err)
{
    const struct sheaf__ps_worker *chief = &server->workers[0];
    if (chief->state != SHEAF__PS_GONE && chief->state != SHEAF__PS_FINISHED)
        return SHEAF_PENDING;
    if (chief->state == SHEAF__PS_GONE && chief->reason)
        return sheaf__error_copy(err, &chief->loss);
    sheaf__error(err, SHEAF_ERR_UNAVAILABLE, SHEAF__TASK " at %s ended before it had %s",
                 chief->task.job, chief->task.index, chief->address, what);
    sheaf__error_set_peer(err, chief->task.job, chief->task.index);
    return SHEAF_ERR_UNAVAILABLE;
}

/* Who counts with a chief that was started again since waits for nothing: what it restores now is another checkpoint. */
static bool is_restored(const struct sheaf__ps_server *server, const struct sheaf__ps_waiting *w)
{
    const bool another = w->life && w->life != server->workers[0].incarnation;
    return server->restored && (another || server->restores >= w->number);
}

static sheaf_status attach(struct sheaf__ps_server *server, const struct sheaf__call *call,
                           sheaf_error *err)
{
    struct sheaf__ps_definition d;
    SHEAF__TRY(sheaf__ps_get_definition(sheaf__call_meta(call), &d, err));
    sheaf_status status = sheaf__ps_attach(&server->table, &d, err);
    return status == SHEAF_PENDING ? await_chief(server, "made its variables", err) : status;
}

static sheaf_status fate(struct sheaf__ps_server *server, const struct sheaf__ps_waiting *w,
                         sheaf_error *err)
{
    if (server->failure.status < 0)
        return sheaf__error_copy(err, &server->failure);
    if (sheaf__call_abandoned(w->call))
        return sheaf__error(err, SHEAF_ERR_CANCELLED, "the call was given up");
    switch (w->kind) {
    case SHEAF__PS_CREATE:
        return attach(server, w->call, err);
    case SHEAF__PS_WATCH:
        return server->stopping ? SHEAF_OK : SHEAF_PENDING;
    case SHEAF__PS_AWAIT:
        return is_restored(server, w) ? SHEAF_OK
                                      : await_chief(server, "restored its checkpoint", err);
    default:
        return may_leave(server, w) ? SHEAF_OK : SHEAF_PENDING;
    }
}

/* A call that is over. */
struct outcome {
    struct sheaf__call *call;
    sheaf_status status;
    sheaf_error error;
    struct sheaf__buf reply; /* to an AWAIT */
};

/* With the server's lock held. */
static void say_restored(const struct sheaf__ps_server *server, struct outcome *o)
{
    sheaf__buf_fixed64(&o->reply, server->restorer);
    sheaf__buf_bytes(&o->reply, server->restored, strlen(server->restored));
    o->status = sheaf__buf_check(&o->reply, "the path of a checkpoint", &o->error);
}

static bool take_over(struct sheaf__ps_server *server, struct outcome *o)
{
    *o = (struct outcome){.call = NULL};
    sheaf__mutex_lock(&server->lock);
    for (size_t i = 0; i < server->waiting_count && !o->call; i++) {
        const struct sheaf__ps_waiting w = server->waiting[i];
        o->status = fate(server, &w, &o->error);
        if (o->status == SHEAF_PENDING)
            continue;
        if (o->status == SHEAF_OK && w.kind == SHEAF__PS_AWAIT)
            say_restored(server, o);
        o->call = w.call;
        server->waiting[i] = server->waiting[--server->waiting_count];
    }
    sheaf__mutex_unlock(&server->lock);
    return o->call != NULL;
}

void sheaf__ps_changed(struct sheaf__ps_server *server)
{
    struct outcome o;
    while (take_over(server, &o)) {
        const struct sheaf__reply reply = {.meta = o.reply.data, .meta_size = o.reply.size};
        if (o.status < 0)
            sheaf__call_fail(o.call, &o.error);
        else
            sheaf__call_reply(o.call, &reply);
        sheaf__buf_free(&o.reply);
    }
    sheaf__mutex_lock(&server->lock);
    server->changes++;
    sheaf__mutex_unlock(&server->lock);
    sheaf__net_wake(server->net);
}

void sheaf__ps_drop_waits(struct sheaf__ps_server *server)
{
    sheaf_error over = {0};
    sheaf__error(&over, SHEAF_ERR_CANCELLED, "the parameter server has ended");
    for (size_t i = 0; i < server->waiting_count; i++)
        sheaf__call_fail(server->waiting[i].call, &over);
    server->waiting_count = 0;
}

static void answer_later(struct sheaf__ps_server *server, const struct sheaf__ps_waiting *w)
{
    sheaf_error err = {0};
    sheaf__mutex_lock(&server->lock);
    const bool room = sheaf__array_reserve((void **)&server->waiting, &server->waiting_capacity,
                                           server->waiting_count + 1, sizeof(*server->waiting));
    if (room)
        server->waiting[server->waiting_count++] = *w;
    sheaf__mutex_unlock(&server->lock);
    if (room) {
        sheaf__ps_changed(server);
        return;
    }
    sheaf__no_memory(&err, "a call");
    sheaf__call_fail(w->call, &err);
}

/* Services. */

/* The chief's definition is the one that counts; it brings the first value. */
static sheaf_status initialise(struct sheaf__ps_server *server, struct sheaf__call *call,
                               const struct sheaf__ps_definition *d, sheaf_error *err)
{
    struct sheaf__ps_variable *v;
    SHEAF__TRY(sheaf__ps_define(&server->table, d, &v, err));
    if (sheaf__call_payload_size(call) != v->bytes)
        return sheaf__ps_malformed("the size of a first value", err);
    struct sheaf__buffer *value = sheaf__buffer_new(NULL, v->bytes, err);
    if (!value)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    memcpy(value->data, sheaf__call_payload(call), v->bytes);
    sheaf__ps_initialise(v, value);
    sheaf__unref(value);
    return SHEAF_OK;
}

static void serve_create(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    struct sheaf__ps_definition d;
    sheaf_error err = {0};
    sheaf_status status = sheaf__ps_get_definition(sheaf__call_meta(call), &d, &err);
    if (status >= 0 && d.initialises)
        status = initialise(server, call, &d, &err);
    if (status < 0)
        sheaf__call_fail(call, &err);
    else
        answer_later(server, &(struct sheaf__ps_waiting){.call = call,
                                                         .kind = SHEAF__PS_CREATE,
                                                         .task = sheaf__ps_caller(call)});
}

static void serve_restored(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    const uint8_t *path = NULL;
    uint64_t number = 0;
    sheaf_error err = {0};
    sheaf__cursor_fixed64(&c, &number);
    const size_t size = sheaf__cursor_left(&c);
    sheaf__cursor_bytes(&c, size, &path);
    char *text = sheaf__strndup(size ? (const char *)path : "", size);
    if (!text) {
        sheaf__no_memory(&err, "the path of a checkpoint");
        sheaf__call_fail(call, &err);
        return;
    }
    const uint64_t life = sheaf__peer_incarnation(sheaf__call_peer(call));
    sheaf__mutex_lock(&server->lock);
    sheaf__free(server->restored);
    server->restored = text;
    if (number > server->restores || life != server->restorer)
        server->restores = number;
    server->restorer = life;
    sheaf__mutex_unlock(&server->lock);
    sheaf__call_reply(call, NULL);
    sheaf__ps_changed(server);
}

static void serve_await(struct sheaf__call *call, void *user)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    struct sheaf__ps_waiting w = {
        .call = call, .kind = SHEAF__PS_AWAIT, .task = sheaf__ps_caller(call)};
    sheaf__cursor_fixed64(&c, &w.number);
    sheaf__cursor_fixed64(&c, &w.life);
    answer_later(user, &w);
}

/* Whoever watches ends in order when it is told to, and so this server does not end before it. */
static void serve_watch(struct sheaf__call *call, void *user)
{
    sheaf__ps_end_in_order(user);
    answer_later(user, &(struct sheaf__ps_waiting){
                           .call = call, .kind = SHEAF__PS_WATCH, .task = sheaf__ps_caller(call)});
}

static void serve_join(struct sheaf__call *call, void *user)
{
    sheaf__ps_finished(user, call);
    answer_later(user, &(struct sheaf__ps_waiting){
                           .call = call, .kind = SHEAF__PS_JOIN, .task = sheaf__ps_caller(call)});
}

sheaf_status sheaf__ps_serve_waits(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service services[] = {
        {.kind = SHEAF__PS_CREATE,
         .serve = serve_create,
         .user = server,
         .payload_limit = SIZE_MAX},
        {.kind = SHEAF__PS_RESTORED, .serve = serve_restored, .user = server},
        {.kind = SHEAF__PS_AWAIT, .serve = serve_await, .user = server},
        {.kind = SHEAF__PS_JOIN, .serve = serve_join, .user = server},
        {.kind = SHEAF__PS_WATCH, .serve = serve_watch, .user = server},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        SHEAF__TRY(sheaf__net_serve(server->net, &services[i], err));
    return SHEAF_OK;
}
