/* SPDX-License-Identifier: Apache-2.0 */

/* A lost server ends the job: every task learns which one it was, whoever found out. N tasks in one process. */

#include "rig.h"

#include "base/context.h"
#include "base/error.h"
#include "ps/client.h"
#include "ps/server.h"

#include <stdio.h>
#include <string.h>

enum { WORKERS = 2, TASKS = 4 }; /* worker:0, worker:1, ps:0, ps:1 */

struct world {
    struct sheaf__hub *hub;
    sheaf_status (*play)(struct rig_task *task, sheaf_cluster *cluster);
    _Atomic int connected; /* workers that are */
    char config[TASKS][512];
    const char *environment[TASKS][3];
};

static const char *const *environment(int task, void *user)
{
    struct world *w = user;
    snprintf(w->config[task], sizeof(w->config[task]),
             "TF_CONFIG={\"cluster\": {\"worker\": [\"127.0.0.1:20001\", \"127.0.0.1:20002\"], "
             "\"ps\": [\"127.0.0.1:20003\", \"127.0.0.1:20004\"]}, "
             "\"task\": {\"type\": \"%s\", \"index\": %d}}",
             task < WORKERS ? "worker" : "ps", task % WORKERS);
    w->environment[task][0] = w->config[task];
    w->environment[task][1] = "SHEAF_INSECURE=1";
    return w->environment[task];
}

static sheaf_status run_task(struct rig_task *task)
{
    struct world *w = task->user;
    sheaf_cluster *cluster = NULL;
    SHEAF__TRY(sheaf__net_set_hub(task->context, w->hub, &task->err));
    SHEAF__TRY(sheaf_cluster_resolve(NULL, &cluster, &task->err));
    sheaf_status status = w->play(task, cluster);
    sheaf_cluster_free(cluster);
    return status;
}

static void run(sheaf_status (*play)(struct rig_task *task, sheaf_cluster *cluster))
{
    sheaf_error err = {0};
    struct world w = {.play = play};
    rig_ok(sheaf__hub_new(&w.hub, &err), &err);
    rig_tasks(TASKS, run_task, &w, environment, 30);
    sheaf__hub_free(w.hub);
}

/* The error is the loss of ps:1, as whoever found it says; `where` is what could not be done because of it. */
static bool names_the_server(const sheaf_error *err, const char *where)
{
    const size_t size = strlen(where);
    return strncmp(err->message, where, size) == 0 && err->status == SHEAF_ERR_UNAVAILABLE &&
           strcmp(err->peer.job, "ps") == 0 && err->peer.index == 1 &&
           strcmp(err->message + size,
                  "/job:ps/task:1 at 127.0.0.1:20004 was lost: it is broken") == 0;
}

static sheaf_status serve_until_lost(struct rig_task *task, sheaf_cluster *cluster)
{
    sheaf_error err = {0};
    RIG_CHECK(task, sheaf_server_run(cluster, NULL, &err) < 0);
    RIG_CHECK(task, names_the_server(&err, ""));
    return SHEAF_OK;
}

static bool all_connected(void *user)
{
    return atomic_load(&((struct world *)user)->connected) == WORKERS;
}

static bool has_lost_one(void *user)
{
    return sheaf__token_status(((struct sheaf__ps_client *)user)->connecting) < 0;
}

/* Connects, and waits until all workers have. */
static sheaf_status connect_all(struct rig_task *task, sheaf_cluster *cluster,
                                struct sheaf__ps_client **client)
{
    struct world *w = task->user;
    SHEAF__TRY(sheaf__ps_client_new(cluster, 20 * SHEAF__S, client, &task->err));
    atomic_fetch_add(&w->connected, 1);
    while (!all_connected(w))
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, &task->err));
    return SHEAF_OK;
}

/* Cuts the connection to ps:1, which nobody else notices, and waits until this task has. */
static sheaf_status lose_server(struct sheaf__ps_client *client, sheaf_error *err)
{
    const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(10)};
    sheaf_error cause;
    sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE, "it is broken");
    sheaf__peer_cut(client->servers[1].peer, &cause);
    return sheaf__net_wait(client->net, has_lost_one, client, &wait, err);
}

/* ---- one worker finds out ---- */

static sheaf_status work(struct rig_task *task, struct sheaf__ps_client *client)
{
    const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(10)};
    sheaf_error err = {0};
    if (task->index == 0)
        return lose_server(client, &task->err);
    SHEAF__TRY(sheaf__net_wait(client->net, has_lost_one, client, &wait, &task->err));
    /* its own connection to ps:1 is as good as ever: ps:0 has left because of the other worker */
    RIG_CHECK(task, sheaf__peer_status(client->servers[0].peer, &err) < 0);
    RIG_CHECK(task, names_the_server(&err, ""));
    RIG_CHECK(task, sheaf__peer_end(client->servers[0].peer) != SHEAF__PEER_LEFT);
    RIG_CHECK(task, sheaf__peer_status(client->servers[1].peer, NULL) == SHEAF_OK);
    sheaf__ps_prepare(client, 0);
    err.status = SHEAF_OK;
    RIG_CHECK(task, sheaf__ps_call(client, 0, SHEAF__PS_DONE, NULL, 0, &err) < 0);
    RIG_CHECK(task, names_the_server(&err, "end of the work: "));
    return SHEAF_OK;
}

static sheaf_status play_one_finds_out(struct rig_task *task, sheaf_cluster *cluster)
{
    struct sheaf__ps_client *client;
    if (task->index >= WORKERS)
        return serve_until_lost(task, cluster);
    SHEAF__TRY(connect_all(task, cluster, &client));
    sheaf_status status = work(task, client);
    sheaf__ps_client_free(client);
    return status;
}

static void test_all_name_the_first_cause(void **state)
{
    (void)state;
    run(play_one_finds_out);
    /* ps:1 did lose a worker; that is no reason to end */
    assert_string_equal(rig_log_take(),
                        "/job:worker/task:0 at 127.0.0.1:20001 was lost: it closed the "
                        "connection before its work was done\n");
}

/* ---- when the work is done, but for the chief's last save ---- */

static sheaf_status play_after_the_end(struct rig_task *task, sheaf_cluster *cluster)
{
    struct sheaf__ps_client *client;
    sheaf_error err = {0};
    if (task->index == 2)
        return serve_until_lost(task, cluster);
    if (task->index > 2) {
        /* the other worker may have left by then, or tell it what is said of it */
        RIG_CHECK(task, sheaf_server_run(cluster, NULL, &err) >= 0 || names_the_server(&err, ""));
        return SHEAF_OK;
    }
    SHEAF__TRY(connect_all(task, cluster, &client));
    sheaf_status status = sheaf__ps_join(client, sheaf__clock_deadline(10), &err);
    if (task->index == 0) {
        RIG_CHECK(task, status >= 0);
        status = lose_server(client, &task->err);
    } else { /* it stands by, and cannot save without that server either */
        RIG_CHECK(task, status < 0 && names_the_server(&err, "join: "));
        status = SHEAF_OK;
    }
    sheaf__ps_client_free(client);
    return status;
}

static void test_lost_after_the_work(void **state)
{
    (void)state;
    run(play_after_the_end);
}

/* ---- while connecting ---- */

/* In place of ps:0: when both workers are there it gives up, as one does that has lost ps:1. */
static sheaf_status give_up(struct rig_task *task)
{
    const struct sheaf__net_options options = {.task = {"ps", 0}, .address = "127.0.0.1:20003"};
    const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(10)};
    struct sheaf__net *net;
    sheaf_error cause;
    SHEAF__TRY(sheaf__net_new(&options, &net, &task->err));
    sheaf_status status = sheaf__net_start(net, &task->err);
    for (int i = 0; i < WORKERS && status >= 0; i++) {
        const sheaf_task worker = {"worker", i};
        struct sheaf__peer *peer = NULL;
        status = sheaf__net_await(net, &worker, &wait, &peer, &task->err);
        sheaf__peer_unref(peer);
    }
    sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE,
                 "/job:ps/task:1 at 127.0.0.1:20004 was lost: it is broken");
    sheaf__error_set_peer(&cause, "ps", 1);
    sheaf__net_give_up(net, &cause);
    sheaf__net_free(net, sheaf__clock_deadline(5));
    return status;
}

static sheaf_status play_connecting(struct rig_task *task, sheaf_cluster *cluster)
{
    struct sheaf__ps_client *client;
    sheaf_error err = {0};
    if (task->index == 2)
        return give_up(task);
    if (task->index > 2)
        return SHEAF_OK; /* nobody is there */
    const int64_t end = sheaf__clock_deadline(5);
    RIG_CHECK(task, sheaf__ps_client_new(cluster, 20 * SHEAF__S, &client, &err) < 0);
    RIG_CHECK(task, names_the_server(&err, ""));
    RIG_CHECK(task, sheaf__clock_left(end) > 0);
    return SHEAF_OK;
}

static void test_lost_while_others_connect(void **state)
{
    (void)state;
    run(play_connecting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_all_name_the_first_cause),
        rig_test(test_lost_after_the_work),
        rig_test(test_lost_while_others_connect),
    };
    return rig_run(tests);
}
