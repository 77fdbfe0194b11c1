/* SPDX-License-Identifier: Apache-2.0 */

/* Who saves: the chief, and when it is lost the first worker that is at work. N tasks in one process. */

#include "rig.h"

#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "ckpt/lock.h"
#include "ps/client.h"
#include "ps/server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 3, TASKS = 4 }; /* worker:0 to worker:2, ps:0 */

struct world {
    struct sheaf__hub *hub;
    sheaf_status (*play)(struct rig_task *task, struct sheaf__ps_client *client);
    const char *prefix; /* of the checkpoints */
    _Atomic int at[8];  /* how many workers have come to a place */
    char config[TASKS][512];
    const char *environment[TASKS][3];
};

static const char *const *environment(int task, void *user)
{
    struct world *w = user;
    snprintf(w->config[task], sizeof(w->config[task]),
             "TF_CONFIG={\"cluster\": {\"worker\": [\"127.0.0.1:20001\", \"127.0.0.1:20002\", "
             "\"127.0.0.1:20003\"], \"ps\": [\"127.0.0.1:20004\"]}, "
             "\"task\": {\"type\": \"%s\", \"index\": %d}}",
             task < WORKERS ? "worker" : "ps", task % WORKERS);
    w->environment[task][0] = w->config[task];
    w->environment[task][1] = "SHEAF_INSECURE=1";
    return w->environment[task];
}

/* Waits until all workers that are left have come to place `number`. */
static sheaf_status meet(struct rig_task *task, int number, int workers)
{
    struct world *w = task->user;
    const int64_t end = sheaf__clock_deadline(20);
    atomic_fetch_add(&w->at[number], 1);
    while (atomic_load(&w->at[number]) < workers && sheaf__clock_left(end) > 0)
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, &task->err));
    RIG_CHECK(task, atomic_load(&w->at[number]) >= workers);
    return SHEAF_OK;
}

static sheaf_status run_task(struct rig_task *task)
{
    struct world *w = task->user;
    struct sheaf__ps_client *client = NULL;
    sheaf_cluster *cluster = NULL;
    SHEAF__TRY(sheaf__net_set_hub(task->context, w->hub, &task->err));
    SHEAF__TRY(sheaf_cluster_resolve(NULL, &cluster, &task->err));
    sheaf_status status;
    if (task->index == WORKERS) {
        status = sheaf_server_run(cluster, NULL, &task->err);
    } else {
        status = sheaf__ps_client_new(cluster, 20 * SHEAF__S, &client, &task->err);
        if (status >= 0)
            status = meet(task, 0, WORKERS);
        if (status >= 0)
            status = w->play(task, client);
        sheaf__ps_client_free(client);
    }
    sheaf_cluster_free(cluster);
    return status;
}

static void run(sheaf_status (*play)(struct rig_task *task, struct sheaf__ps_client *client))
{
    sheaf_error err = {0};
    struct world w = {.play = play, .prefix = rig_path("ckpt")};
    rig_ok(sheaf__hub_new(&w.hub, &err), &err);
    rig_tasks(TASKS, run_task, &w, environment, 60);
    sheaf__hub_free(w.hub);
}

/* The connection breaks; the server has heard nothing of an end. */
static void cut(struct sheaf__ps_client *client)
{
    sheaf_error cause;
    sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE, "it is broken");
    sheaf__peer_cut(client->servers[0].peer, &cause);
}

static bool saves(struct rig_task *task, struct sheaf__ps_client *client)
{
    bool now = false;
    RIG_CHECK(task, sheaf__ps_saves(client, &now, &task->err) >= 0);
    return now;
}

static sheaf_status wait_for_turn(struct rig_task *task, struct sheaf__ps_client *client)
{
    const int64_t end = sheaf__clock_deadline(20);
    while (!saves(task, client) && sheaf__clock_left(end) > 0)
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, &task->err));
    RIG_CHECK(task, saves(task, client));
    return SHEAF_OK;
}

/* ---- the chief is lost ---- */

/* Nothing is given to a task that does not write. */
static sheaf_status is_refused(struct rig_task *task, struct sheaf__ps_client *client,
                               sheaf_status status, const char *why)
{
    const struct sheaf__save_turns *t = client->group.cls->turns;
    const struct world *w = task->user;
    int64_t number = 50;
    for (int i = 0; i < 3; i++) {
        sheaf_error err = {0};
        const sheaf_status found = i == 0   ? t->take(&client->group, w->prefix, &number, &err)
                                   : i == 1 ? t->number(&client->group, w->prefix, &number, &err)
                                            : t->leave(&client->group, &err);
        RIG_CHECK(task, found == status);
        RIG_CHECK(task, strstr(err.message, why) != NULL);
    }
    RIG_CHECK(task, number == 50);
    return SHEAF_OK;
}

/* `last`: what was given before; the next three are behind it, and behind what is there. A lock that went
 * with its directory is taken anew with the next number. */
static sheaf_status writes(struct rig_task *task, struct sheaf__ps_client *client, int64_t last)
{
    const struct sheaf__save_turns *t = client->group.cls->turns;
    const struct world *w = task->user;
    int64_t found = -1;
    SHEAF__TRY(t->take(&client->group, w->prefix, &found, &task->err));
    RIG_CHECK(task, found == last);
    RIG_CHECK(task, sheaf__file_exists(rig_path(".checkpoint.lock")));
    for (int i = 1; i <= 3; i++) {
        int64_t number = 1;
        SHEAF__TRY(t->number(&client->group, w->prefix, &number, &task->err));
        RIG_CHECK(task, number == last + i);
    }
    int64_t number = last + 10;
    SHEAF__TRY(sheaf__file_unlink(rig_path(".checkpoint.lock"), &task->err));
    SHEAF__TRY(t->number(&client->group, w->prefix, &number, &task->err));
    RIG_CHECK(task, number == last + 10);
    RIG_CHECK(task, sheaf__file_exists(rig_path(".checkpoint.lock")));
    return t->leave(&client->group, &task->err);
}

static sheaf_status play_lost(struct rig_task *task, struct sheaf__ps_client *client)
{
    static const char to_first[] = "/job:worker/task:%d does not save checkpoints, "
                                   "/job:worker/task:0 does";
    char why[128];
    snprintf(why, sizeof(why), to_first, task->index);
    RIG_CHECK(task, saves(task, client) == (task->index == 0));
    SHEAF__TRY(task->index == 0 ? writes(task, client, 0)
                                : is_refused(task, client, SHEAF_ERR_FAILED_PRECONDITION, why));
    SHEAF__TRY(meet(task, 1, WORKERS));
    if (task->index == 0) {
        cut(client);
        return is_refused(task, client, SHEAF_ERR_UNAVAILABLE, "/job:ps/task:0 at ");
    }
    if (task->index == 1)
        SHEAF__TRY(wait_for_turn(task, client));
    SHEAF__TRY(meet(task, 2, WORKERS - 1));
    SHEAF__TRY(task->index == 1 ? writes(task, client, 10)
                                : is_refused(task, client, SHEAF_ERR_FAILED_PRECONDITION,
                                             "/job:worker/task:2 does not save checkpoints, "
                                             "/job:worker/task:1 does"));
    SHEAF__TRY(meet(task, 3, WORKERS - 1));
    if (task->index == 1) {
        cut(client); /* and the next one */
        return SHEAF_OK;
    }
    SHEAF__TRY(wait_for_turn(task, client));
    SHEAF__TRY(writes(task, client, 20));
    return sheaf__ps_join(client, sheaf__clock_deadline(20), &task->err);
}

static void test_the_next_one_takes_over(void **state)
{
    (void)state;
    run(play_lost);
    assert_string_equal(rig_log_take(),
                        "/job:worker/task:0 at 127.0.0.1:20001 was lost: it closed the "
                        "connection before its work was done\n"
                        "/job:worker/task:1 at 127.0.0.1:20002 was lost: it closed the "
                        "connection before its work was done\n");
    assert_false(sheaf__file_exists(rig_path(".checkpoint.lock")));
}

/* ---- the end ---- */

/* Who saves waits for the others, whoever that is. The chief is lost in its join: the turn goes on to
 * a worker that is at work before one that stands by. */
static sheaf_status play_join(struct rig_task *task, struct sheaf__ps_client *client)
{
    if (task->index == 0) {
        sheaf_error err = {0};
        RIG_CHECK(task,
                  sheaf__ps_join(client, sheaf__clock_deadline(0.2), &err) == SHEAF_ERR_DEADLINE);
        RIG_CHECK(task, saves(task, client));
        SHEAF__TRY(meet(task, 1, 2));
        cut(client);
        return SHEAF_OK;
    }
    if (task->index == 1) {
        /* nobody has to stand by for longer than it wants to */
        SHEAF__TRY(sheaf__ps_join(client, sheaf__clock_deadline(0.2), &task->err));
        RIG_CHECK(task, !saves(task, client));
        SHEAF__TRY(meet(task, 1, 2));
        SHEAF__TRY(meet(task, 2, 2));
        RIG_CHECK(task, !saves(task, client));
        return SHEAF_OK;
    }
    SHEAF__TRY(wait_for_turn(task, client));
    SHEAF__TRY(meet(task, 2, 2));
    SHEAF__TRY(sheaf__ps_join(client, sheaf__clock_deadline(20), &task->err));
    RIG_CHECK(task, saves(task, client)); /* the last checkpoint is its to save */
    return SHEAF_OK;
}

static void test_who_saves_waits_for_the_others(void **state)
{
    (void)state;
    run(play_join);
}

/* All have done their part, but one is lost before it has saved: the next one may. When that has, and
 * has said goodbye, there is nothing left to be done. */
static sheaf_status play_stand_by(struct rig_task *task, struct sheaf__ps_client *client)
{
    struct world *w = task->user;
    SHEAF__TRY(sheaf__ps_join(client, sheaf__clock_deadline(20), &task->err));
    const int before = atomic_fetch_add(&w->at[1], 1);
    RIG_CHECK(task, before == task->index);
    RIG_CHECK(task, saves(task, client) == (task->index < 2));
    if (task->index == 0)
        cut(client);
    return SHEAF_OK;
}

static void test_the_others_stand_by(void **state)
{
    (void)state;
    run(play_stand_by);
}

/* ---- two jobs ---- */

static sheaf_status play_second_job(struct rig_task *task, struct sheaf__ps_client *client)
{
    const struct world *w = task->user;
    int64_t last = 0;
    if (task->index == 0) {
        sheaf_error err = {0};
        sheaf_status status =
            client->group.cls->turns->take(&client->group, w->prefix, &last, &err);
        RIG_CHECK(task, status == SHEAF_ERR_FAILED_PRECONDITION);
        RIG_CHECK(task, strstr(err.message,
                               "another process, or manager, saves checkpoints in the directory") !=
                            NULL);
    }
    return sheaf__ps_join(client, sheaf__clock_deadline(20), &task->err);
}

static void test_two_jobs_in_one_directory(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__file *lock = NULL;
    rig_ok(sheaf__ckpt_lock(rig_path("ckpt"), &lock, &err), &err);
    run(play_second_job);
    assert_true(sheaf__file_exists(rig_path(".checkpoint.lock"))); /* it is not theirs */
    sheaf__ckpt_unlock(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_the_next_one_takes_over),
        rig_test(test_who_saves_waits_for_the_others),
        rig_test(test_the_others_stand_by),
        rig_test(test_two_jobs_in_one_directory),
    };
    return rig_run(tests);
}
