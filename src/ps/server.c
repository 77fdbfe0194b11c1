/* SPDX-License-Identifier: Apache-2.0 */

/* Serving as a parameter server: until every worker has ended, the job has failed, or nobody is
 * there (S8). */

#include "ps/server.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

enum { IDLE_SECONDS = 300, GOODBYE_SECONDS = 2 };

sheaf_task sheaf__ps_caller(const struct sheaf__call *call)
{
    return sheaf__peer_task(sheaf__call_peer(call));
}

/* Workers. */

static bool same_task(sheaf_task a, sheaf_task b)
{
    return a.index == b.index && strcmp(a.job, b.job) == 0;
}

struct sheaf__ps_worker *sheaf__ps_worker_of(struct sheaf__ps_server *server, sheaf_task task)
{
    for (int i = 0; i < server->worker_count; i++)
        if (same_task(server->workers[i].task, task))
            return &server->workers[i];
    return NULL;
}

static sheaf_status list_workers(struct sheaf__ps_server *server, const sheaf_cluster *c,
                                 sheaf_error *err)
{
    static const char *const jobs[] = {"chief", "worker"};
    const int total = sheaf_cluster_workers(c);
    server->workers = sheaf__calloc((size_t)total + 1, sizeof(*server->workers));
    if (!server->workers)
        return sheaf__no_memory(err, "a parameter server");
    for (int j = 0; j < 2; j++)
        for (int32_t found = 0, i = 0; found < sheaf_cluster_tasks(c, jobs[j]); i++) {
            if (!sheaf_cluster_address(c, jobs[j], i))
                continue;
            found++;
            struct sheaf__ps_worker *w = &server->workers[server->worker_count++];
            sheaf__str_copy(w->task.job, sizeof(w->task.job), jobs[j]);
            w->task.index = i;
        }
    return SHEAF_OK;
}

static void worker_up(struct sheaf__peer *peer, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__mutex_lock(&server->lock);
    struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, sheaf__peer_task(peer));
    if (w) {
        w->connected = true;
        w->state = SHEAF__PS_WORKING;
        if (w->incarnation != sheaf__peer_incarnation(peer))
            w->sequence = 0;
        w->incarnation = sheaf__peer_incarnation(peer);
    }
    sheaf__mutex_unlock(&server->lock);
    sheaf__ps_changed(server);
}

static void worker_down(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    struct sheaf__ps_server *server = user;
    const sheaf_task task = sheaf__peer_task(peer);
    sheaf__mutex_lock(&server->lock);
    struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, task);
    const bool lost = w && w->state == SHEAF__PS_WORKING;
    if (w)
        w->connected = false;
    if (lost)
        w->state = SHEAF__PS_GONE;
    sheaf__mutex_unlock(&server->lock);
    if (lost)
        sheaf__log(SHEAF_LOG_WARN, "%s:%d ended before its work was done: %s", task.job, task.index,
                   cause->message);
    sheaf__ps_changed(server);
}

/* Calls that wait. */

sheaf_status sheaf__ps_answer_later(struct sheaf__ps_server *server,
                                    const struct sheaf__ps_waiting *w, sheaf_error *err)
{
    sheaf__mutex_lock(&server->lock);
    const bool room = sheaf__array_reserve((void **)&server->waiting, &server->waiting_capacity,
                                           server->waiting_count + 1, sizeof(*server->waiting));
    if (room)
        server->waiting[server->waiting_count++] = *w;
    sheaf__mutex_unlock(&server->lock);
    if (!room)
        return sheaf__no_memory(err, "a call");
    sheaf__ps_changed(server);
    return SHEAF_OK;
}

/* Whether all workers but `self` have ended; with the lock held. */
static bool others_ended(const struct sheaf__ps_server *server, const sheaf_task *self,
                         int64_t grace)
{
    for (int i = 0; i < server->worker_count; i++) {
        const struct sheaf__ps_worker *w = &server->workers[i];
        if (self && same_task(w->task, *self))
            continue;
        if (w->state == SHEAF__PS_WORKING)
            return false;
        if (w->state == SHEAF__PS_NEVER && sheaf__clock_left(grace) > 0)
            return false;
    }
    return true;
}

static bool may_answer(struct sheaf__ps_server *server, const struct sheaf__ps_waiting *w)
{
    if (!w->variable)
        return others_ended(server, &w->task, w->grace);
    sheaf__mutex_lock(&w->variable->lock);
    const bool ready = w->variable->value != NULL;
    sheaf__mutex_unlock(&w->variable->lock);
    return ready;
}

/* Takes one call that can be answered now, or one that the job's failure ends. */
static struct sheaf__call *take_answerable(struct sheaf__ps_server *server, sheaf_error *failure)
{
    struct sheaf__call *call = NULL;
    sheaf__mutex_lock(&server->lock);
    *failure = server->failure;
    for (size_t i = 0; i < server->waiting_count && !call; i++)
        if (failure->status < 0 || may_answer(server, &server->waiting[i])) {
            call = server->waiting[i].call;
            server->waiting[i] = server->waiting[--server->waiting_count];
        }
    sheaf__mutex_unlock(&server->lock);
    return call;
}

void sheaf__ps_changed(struct sheaf__ps_server *server)
{
    sheaf_error failure;
    for (struct sheaf__call *call; (call = take_answerable(server, &failure));) {
        if (failure.status < 0)
            sheaf__call_fail(call, &failure);
        else
            sheaf__call_reply(call, NULL);
    }
    sheaf__mutex_lock(&server->lock);
    server->changed = true;
    sheaf__mutex_unlock(&server->lock);
    sheaf__net_wake(server->net);
}

/* Who is done. */

static void serve_done(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__mutex_lock(&server->lock);
    struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, sheaf__ps_caller(call));
    if (w)
        w->state = SHEAF__PS_FINISHED;
    sheaf__mutex_unlock(&server->lock);
    sheaf__call_reply(call, NULL);
    sheaf__ps_changed(server);
}

static void serve_join(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    uint64_t grace_ns = 0;
    sheaf_error err = {0};
    sheaf__cursor_fixed64(&c, &grace_ns);
    const struct sheaf__ps_waiting w = {.call = call,
                                        .task = sheaf__ps_caller(call),
                                        .grace =
                                            sheaf__clock_after((int64_t)(grace_ns & INT64_MAX))};
    if (sheaf__ps_answer_later(server, &w, &err) < 0)
        sheaf__call_fail(call, &err);
}

/* A worker gives the job up: everybody who waits here, and this task, end with its error. */
static void serve_abort(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    sheaf_error cause = {0};
    if (meta.size == sizeof(cause)) {
        memcpy(&cause, meta.data, sizeof(cause));
        cause.message[sizeof(cause.message) - 1] = cause.file[sizeof(cause.file) - 1] = 0;
        cause.peer.job[sizeof(cause.peer.job) - 1] =
            cause.origin.job[sizeof(cause.origin.job) - 1] = 0;
    }
    if (cause.status >= 0)
        sheaf__ps_malformed("the error of a worker", &cause);
    sheaf__mutex_lock(&server->lock);
    sheaf__error_keep_first(&server->failure, &cause);
    struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, sheaf__ps_caller(call));
    if (w)
        w->state = SHEAF__PS_GONE;
    sheaf__mutex_unlock(&server->lock);
    sheaf__call_reply(call, NULL);
    sheaf__ps_changed(server);
}

static sheaf_status serve_ends(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service services[] = {
        {.kind = SHEAF__PS_DONE, .serve = serve_done, .user = server},
        {.kind = SHEAF__PS_JOIN, .serve = serve_join, .user = server},
        {.kind = SHEAF__PS_ABORT, .serve = serve_abort, .user = server},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        SHEAF__TRY(sheaf__net_serve(server->net, &services[i], err));
    return SHEAF_OK;
}

/* The serving thread. */

static bool has_changed(void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__mutex_lock(&server->lock);
    const bool changed = server->changed;
    server->changed = false;
    sheaf__mutex_unlock(&server->lock);
    return changed;
}

/* What the workers are up to, in one look. */
struct survey {
    int connected, finished, gone, never;
    sheaf_error failure;
};

static struct survey look(struct sheaf__ps_server *server)
{
    struct survey s = {0};
    sheaf__mutex_lock(&server->lock);
    s.failure = server->failure;
    for (int i = 0; i < server->worker_count; i++) {
        const struct sheaf__ps_worker *w = &server->workers[i];
        s.connected += w->connected;
        s.finished += w->state == SHEAF__PS_FINISHED;
        s.gone += w->state == SHEAF__PS_GONE;
        s.never += w->state == SHEAF__PS_NEVER;
    }
    sheaf__mutex_unlock(&server->lock);
    return s;
}

/* Serves until nobody is left. `idle` is how long without any worker is too long. */
static sheaf_status serve(struct sheaf__ps_server *server, double idle, sheaf_error *err)
{
    int64_t alone = sheaf__clock_deadline(idle);
    for (;;) {
        const struct survey s = look(server);
        if (s.failure.status < 0)
            return sheaf__error_copy(err, &s.failure);
        if (s.connected == 0 && s.never == 0 && s.gone == 0)
            return SHEAF_OK;
        if (s.connected > 0)
            alone = sheaf__clock_deadline(idle);
        if (s.connected == 0 && s.finished == 0 && s.gone > 0 && s.never == 0)
            return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "all %d workers were lost", s.gone);
        if (s.connected == 0 && s.finished > 0)
            return SHEAF_OK;
        /* wakes often enough for the grace of a join to pass */
        const struct sheaf__wait wait = {sheaf__clock_after(SHEAF__S), NULL, "the workers"};
        sheaf_status status = sheaf__net_wait(server->net, has_changed, server, &wait, err);
        if (status < 0 && status != SHEAF_ERR_DEADLINE)
            return status;
        if (status == SHEAF_ERR_DEADLINE)
            sheaf__ps_changed(server);
        if (sheaf__clock_left(alone) == 0)
            return sheaf__error(err, SHEAF_ERR_DEADLINE, "no worker was there for %g s", idle);
    }
}

static sheaf_status open_server(struct sheaf__ps_server *server, sheaf_cluster *c, sheaf_error *err)
{
    const char *job = sheaf_cluster_task_type(c);
    const int32_t index = sheaf_cluster_task_index(c);
    struct sheaf__net_options options = {.task = {.index = index},
                                         .address = sheaf_cluster_address(c, job, index)};
    const struct sheaf__pool_options pool = {.threads = 1, .name = "sheaf-ps"};
    sheaf__str_copy(options.task.job, sizeof(options.task.job), job);
    sheaf__context_set_task(sheaf__context(), job, index);
    SHEAF__TRY(list_workers(server, c, err));
    SHEAF__TRY(sheaf__pool_new(&pool, &server->pool, err));
    SHEAF__TRY(sheaf__net_new(&options, &server->net, err));
    SHEAF__TRY(sheaf__ps_serve_values(server, err));
    SHEAF__TRY(sheaf__ps_serve_saves(server, err));
    SHEAF__TRY(serve_ends(server, err));
    server->events = (struct sheaf__net_events){worker_up, worker_down, server, {0}};
    sheaf__net_listen(server->net, &server->events);
    return sheaf__net_start(server->net, err);
}

static void close_server(struct sheaf__ps_server *server)
{
    sheaf__net_free(server->net, sheaf__clock_deadline(GOODBYE_SECONDS));
    sheaf__pool_free(server->pool);
    sheaf__ps_table_free(&server->table);
    sheaf__free(server->workers);
    sheaf__free(server->waiting);
    sheaf__free(server);
}

sheaf_status sheaf_server_run(sheaf_cluster *c, const sheaf_server_options *options,
                              sheaf_error *err)
{
    SHEAF__TRY(sheaf__context_check(err));
    if (!c || !sheaf_cluster_is(c, "ps"))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "sheaf_server_run: this task is %s, expected a ps of a cluster",
                            c && *sheaf_cluster_task_type(c) ? sheaf_cluster_task_type(c)
                                                             : "no task of a cluster");
    struct sheaf__ps_server *server = sheaf__calloc(1, sizeof(*server));
    if (!server)
        return sheaf__no_memory(err, "a parameter server");
    sheaf_status status = open_server(server, c, err);
    const double idle = options && options->deadline > 0 ? options->deadline : IDLE_SECONDS;
    if (status >= 0)
        status = serve(server, idle, err);
    /* sheaf_stop is how a server is asked to end: that is no failure */
    if (status == SHEAF_ERR_CANCELLED && sheaf_stopped())
        status = SHEAF_OK;
    close_server(server);
    return status;
}
