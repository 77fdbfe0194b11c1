/* SPDX-License-Identifier: Apache-2.0 */

/* Serving as a parameter server: until every worker has ended, the job has failed, or nobody is
 * there (S8). */

#include "ps/server.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/context.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/cluster.h"
#include "net/ended.h"

#include <string.h>

enum { IDLE_DEADLINES = 5, GOODBYE_SECONDS = 2 };

/* How long workers that have ended wait for one that never came before a line says so. */
#define SILENCE (5 * SHEAF__S)

sheaf_task sheaf__ps_caller(const struct sheaf__call *call)
{
    return sheaf__peer_task(sheaf__call_peer(call));
}

/* Workers. */

bool sheaf__ps_same_task(sheaf_task a, sheaf_task b)
{
    return a.index == b.index && strcmp(a.job, b.job) == 0;
}

struct sheaf__ps_worker *sheaf__ps_worker_of(struct sheaf__ps_server *server, sheaf_task task)
{
    for (int i = 0; i < server->worker_count; i++)
        if (sheaf__ps_same_task(server->workers[i].task, task))
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
            w->address = sheaf_cluster_address(c, jobs[j], i);
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
        sheaf__ps_elect(server);
    }
    sheaf__mutex_unlock(&server->lock);
    sheaf__ps_changed(server);
}

/* A worker that gives up has said itself why. */
static void log_loss(struct sheaf__peer *peer, const sheaf_error *cause)
{
    const sheaf_task task = sheaf__peer_task(peer);
    switch (sheaf__peer_end(peer)) {
    case SHEAF__PEER_GAVE_UP:
        sheaf__log(SHEAF_LOG_INFO, SHEAF__TASK " gave up: %s", task.job, task.index,
                   cause->message);
        break;
    case SHEAF__PEER_LEFT:
        sheaf__log(SHEAF_LOG_INFO, "%s before its work was done", cause->message);
        break;
    default:
        sheaf__log(SHEAF_LOG_WARN, "%s before its work was done", cause->message);
    }
}

static void worker_down(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    struct sheaf__ps_server *server = user;
    const sheaf_task task = sheaf__peer_task(peer);
    /* A worker that gives up does so because of a server: the job is over. Who waits here, and this task, end with that. */
    const bool over = !sheaf__ps_same_task(cause->peer, task);
    sheaf__mutex_lock(&server->lock);
    struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, task);
    const bool lost = w && w->state == SHEAF__PS_WORKING;
    if (w) {
        w->connected = false;
        w->left = sheaf__peer_end(peer) == SHEAF__PEER_LEFT;
    }
    if (lost) {
        w->state = SHEAF__PS_GONE;
        w->loss = *cause;
        w->reason = sheaf__peer_end(peer) == SHEAF__PEER_GAVE_UP;
        server->last = w;
    }
    sheaf__ps_elect(server);
    if (over)
        sheaf__error_keep_first(&server->failure, cause);
    sheaf__mutex_unlock(&server->lock);
    sheaf__ps_drop_cuts(server, &task);
    if (lost && !over)
        log_loss(peer, cause);
    sheaf__ps_changed(server);
}

/* Who is done. */

void sheaf__ps_finished(struct sheaf__ps_server *server, const struct sheaf__call *call)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    uint64_t value = 0;
    sheaf__cursor_fixed64(&c, &value);
    const int64_t patience = (int64_t)(value & INT64_MAX);
    sheaf__mutex_lock(&server->lock);
    struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, sheaf__ps_caller(call));
    if (w)
        w->state = SHEAF__PS_FINISHED;
    server->patience = sheaf__clock_after(patience);
    server->silence = sheaf__clock_after(patience / 2 < SILENCE ? patience / 2 : SILENCE);
    sheaf__mutex_unlock(&server->lock);
}

static void serve_done(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__ps_finished(server, call);
    sheaf__call_reply(call, NULL);
    sheaf__ps_changed(server);
}

/* The serving thread. */

/* What the serving thread has seen. */
struct watch {
    struct sheaf__ps_server *server;
    uint64_t changes;
};

static bool has_changed(void *user)
{
    const struct watch *w = user;
    sheaf__mutex_lock(&w->server->lock);
    const bool changed = w->server->changes != w->changes;
    sheaf__mutex_unlock(&w->server->lock);
    return changed;
}

/* What the workers are up to, in one look. */
struct survey {
    uint64_t changes;
    int connected, finished, gone, never;
    int64_t patience, silence; /* that are left for those that never came */
    sheaf_error failure;
};

static struct survey look(struct sheaf__ps_server *server)
{
    struct survey s = {0};
    sheaf__mutex_lock(&server->lock);
    s.failure = server->failure;
    s.changes = server->changes;
    s.patience = sheaf__clock_left(server->patience);
    s.silence = sheaf__clock_left(server->silence);
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

/* With the lock. */
static void note_ended(struct sheaf__ps_server *server, struct sheaf__ps_worker *w, bool well,
                       const sheaf_error *how)
{
    w->state = well ? SHEAF__PS_FINISHED : SHEAF__PS_GONE;
    sheaf__error(&w->loss, SHEAF_ERR_UNAVAILABLE, SHEAF__TASK " at %s: %s", w->task.job,
                 w->task.index, w->address, how->message);
    sheaf__error_set_peer(&w->loss, w->task.job, w->task.index);
    if (!well)
        server->last = w;
    sheaf__ps_elect(server);
}

/* Workers that ended before they came: had they had work for this server, they would have failed. */
static void look_for_ended(struct sheaf__ps_server *server)
{
    sheaf_error how;
    bool well;
    for (int i = 0; sheaf__ended_is_known() && i < server->worker_count; i++) {
        struct sheaf__ps_worker *w = &server->workers[i];
        sheaf__mutex_lock(&server->lock);
        const bool never = w->state == SHEAF__PS_NEVER;
        sheaf__mutex_unlock(&server->lock);
        if (!never || !sheaf__ended(&w->task, &well, &how))
            continue;
        sheaf__mutex_lock(&server->lock);
        if (w->state == SHEAF__PS_NEVER)
            note_ended(server, w, well, &how);
        sheaf__mutex_unlock(&server->lock);
        sheaf__ps_changed(server);
    }
}

/* Some names of those that never came, and how many they are. */
static int name_absent(struct sheaf__ps_server *server, struct sheaf__str *who)
{
    int told = 0, more = 0;
    sheaf__mutex_lock(&server->lock);
    for (int i = 0; i < server->worker_count; i++) {
        const struct sheaf__ps_worker *w = &server->workers[i];
        if (w->state == SHEAF__PS_NEVER && told < 2)
            sheaf__str_printf(who, "%s" SHEAF__TASK " at %.40s", told++ ? ", " : "", w->task.job,
                              w->task.index, w->address);
        else
            more += w->state == SHEAF__PS_NEVER;
    }
    sheaf__mutex_unlock(&server->lock);
    if (more)
        sheaf__str_printf(who, " and %d more", more);
    return told + more;
}

/* The first server says whom those wait for that have ended, and when they do no longer. */
static void tell_of_absent(struct sheaf__ps_server *server, const struct survey *s)
{
    struct sheaf__str who = {0};
    const bool over = s->patience == 0;
    if (!server->is_first || s->finished == 0 || s->never == 0 || s->silence > 0 ||
        (over ? server->told_over : server->told_late))
        return;
    name_absent(server, &who);
    if (over)
        sheaf__log(SHEAF_LOG_WARN, "going on without %s, which never connected",
                   sheaf__str_text(&who));
    else
        sheaf__log(SHEAF_LOG_WARN, "waiting for %s, which has not connected",
                   sheaf__str_text(&who));
    server->told_late = true;
    server->told_over = over;
    sheaf__str_free(&who);
}

/* Whom it has waited for in vain; and whom it refused, who may be the same. */
static sheaf_status nobody_came(struct sheaf__ps_server *server, double idle, sheaf_error *err)
{
    struct sheaf__str who = {0};
    char refusal[160];
    const int told = name_absent(server, &who);
    const bool refused = sheaf__net_refusal(server->net, refusal, sizeof(refusal));
    sheaf__error(err, SHEAF_ERR_DEADLINE, "no worker was there for %g s: waited for %s%s%s", idle,
                 told ? sheaf__str_text(&who) : "those that were lost to come back",
                 refused ? "; refused " : "", refused ? refusal : "");
    sheaf__str_free(&who);
    return SHEAF_ERR_DEADLINE;
}

/* All have gone, and there is nothing to be waited for. */
static sheaf_status nobody_is_left(struct sheaf__ps_server *server, int gone, sheaf_error *err)
{
    sheaf__mutex_lock(&server->lock);
    const sheaf_error loss = server->last->loss;
    const bool reason = server->last->reason;
    sheaf__mutex_unlock(&server->lock);
    if (reason)
        return sheaf__error_copy(err, &loss);
    if (gone > 1)
        sheaf__error(err, SHEAF_ERR_UNAVAILABLE,
                     "no worker is left: %d ended before their work was done, the last one: %s",
                     gone, loss.message);
    else
        sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "no worker is left: %s before its work was done",
                     loss.message);
    sheaf__error_set_peer(err, loss.peer.job, loss.peer.index);
    return SHEAF_ERR_UNAVAILABLE;
}

/* Serves until nobody is left. `idle` is how long without any worker is too long. */
static sheaf_status serve(struct sheaf__ps_server *server, double idle, sheaf_error *err)
{
    int64_t alone = sheaf__clock_deadline(idle);
    for (;;) {
        look_for_ended(server);
        const struct survey s = look(server);
        if (s.failure.status < 0) {
            sheaf__net_give_up(server->net, &s.failure);
            return sheaf__error_copy(err, &s.failure);
        }
        if (s.connected == 0 && s.never == 0 && s.gone == 0)
            return SHEAF_OK;
        if (s.connected > 0)
            alone = sheaf__clock_deadline(idle);
        if (s.connected == 0 && s.finished == 0 && s.gone > 0 && s.never == 0)
            return nobody_is_left(server, s.gone, err);
        tell_of_absent(server, &s);
        if (s.connected == 0 && s.finished > 0 && (s.never == 0 || s.patience == 0))
            return SHEAF_OK;
        /* wakes often enough to see that patience is at its end */
        const struct sheaf__wait wait = {sheaf__clock_after(SHEAF__S), NULL, "the workers"};
        sheaf_error cause = {0};
        struct watch watch = {server, s.changes};
        sheaf_status status = sheaf__net_wait(server->net, has_changed, &watch, &wait, &cause);
        if (status < 0 && status != SHEAF_ERR_DEADLINE)
            return sheaf__error_copy(err, &cause);
        if (status == SHEAF_ERR_DEADLINE)
            sheaf__ps_changed(server);
        if (sheaf__clock_left(alone) == 0)
            return nobody_came(server, idle, err);
    }
}

static sheaf_status open_server(struct sheaf__ps_server *server, sheaf_cluster *c, sheaf_error *err)
{
    const struct sheaf__net_options options = sheaf__cluster_net(c);
    const struct sheaf__pool_options pool = {.threads = 1, .name = "sheaf-ps"};
    const struct sheaf__pool_options files = {.threads = 1, .name = "sheaf-ps-files"};
    sheaf__context_set_task(sheaf__context(), options.task.job, options.task.index);
    server->is_first = true;
    for (int32_t i = 0; i < options.task.index; i++)
        server->is_first &= !sheaf_cluster_address(c, "ps", i);
    SHEAF__TRY(list_workers(server, c, err));
    SHEAF__TRY(sheaf__pool_new(&pool, &server->pool, err));
    SHEAF__TRY(sheaf__pool_new(&files, &server->files, err));
    SHEAF__TRY(sheaf__net_new(&options, &server->net, err));
    SHEAF__TRY(sheaf__ps_serve_values(server, err));
    SHEAF__TRY(sheaf__ps_serve_pushes(server, err));
    SHEAF__TRY(sheaf__ps_serve_saves(server, err));
    SHEAF__TRY(sheaf__ps_serve_restores(server, err));
    SHEAF__TRY(sheaf__ps_serve_waits(server, err));
    SHEAF__TRY(sheaf__ps_serve_marks(server, err));
    SHEAF__TRY(sheaf__ps_serve_writer(server, err));
    SHEAF__TRY(sheaf__ps_serve_stops(server, err));
    const struct sheaf__service done = {
        .kind = SHEAF__PS_DONE, .serve = serve_done, .user = server};
    SHEAF__TRY(sheaf__net_serve(server->net, &done, err));
    server->events = (struct sheaf__net_events){worker_up, worker_down, server, {0}};
    sheaf__net_listen(server->net, &server->events);
    return sheaf__net_start(server->net, err);
}

static void close_server(struct sheaf__ps_server *server)
{
    /* That the workers close their connections when we say goodbye is no news. */
    if (server->net)
        sheaf__net_unlisten(server->net, &server->events);
    sheaf__ps_drop_stops(server);
    sheaf__net_free(server->net, sheaf__clock_deadline(GOODBYE_SECONDS));
    sheaf__ps_drop_waits(server);
    sheaf__pool_free(server->pool);
    sheaf__pool_free(server->files);
    sheaf__ps_drop_cuts(server, NULL);
    sheaf__ps_drop_claims(server);
    sheaf__ps_table_free(&server->table);
    for (int i = 0; i < server->worker_count; i++)
        sheaf__free(server->workers[i].mark);
    sheaf__free(server->workers);
    sheaf__free(server->note);
    sheaf__free(server->waiting);
    sheaf__free(server->restored);
    sheaf__free(server);
}

sheaf_status sheaf_server_run(sheaf_cluster *c, const sheaf_server_options *options,
                              sheaf_error *err)
{
    SHEAF__TRY(sheaf__context_check(err));
    for (size_t i = 0; options && i < sizeof(options->reserved) / sizeof(*options->reserved); i++)
        if (options->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "server options: reserved field %zu is set, expected 0", i);
    if (options)
        SHEAF__TRY(sheaf__clock_check(options->deadline, "server options", err));
    if (!c || !sheaf_cluster_is(c, "ps"))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "sheaf_server_run: this task is %s, expected a ps of a cluster",
                            c && *sheaf_cluster_task_type(c) ? sheaf_cluster_task_type(c)
                                                             : "no task of a cluster");
    struct sheaf__ps_server *server = sheaf__calloc(1, sizeof(*server));
    if (!server)
        return sheaf__no_memory(err, "a parameter server");
    sheaf_error cause = {0};
    sheaf_status status = open_server(server, c, &cause);
    const double idle = options && options->deadline > 0
                            ? options->deadline
                            : IDLE_DEADLINES * sheaf__config_seconds(SHEAF__CONFIG_DEADLINE_S);
    if (status >= 0)
        status = serve(server, idle, &cause);
    /* sheaf_stop is how a server is asked to end: that is no failure */
    if (status == SHEAF_ERR_CANCELLED && sheaf_stopped())
        status = SHEAF_OK;
    close_server(server);
    return status < 0 ? sheaf__error_copy(err, &cause) : SHEAF_OK;
}
