/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_WORLD_H
#define SHEAF_TEST_WORLD_H

/* A team whose members are threads of this process, each with its own context and net, and in each
 * of them as many replicas as the test wants, each on its own thread. */

#include "rig.h"

#include "base/error.h"
#include "base/mem.h"
#include "coll/team.h"

#include <stdio.h>
#include <string.h>

enum { MEMBERS_MOST = 8, LOCALS_MOST = 4 };

struct world;

/* One replica. */
struct player {
    struct world *world;
    struct sheaf__team *team;
    struct sheaf__channel *channel; /* number 1, of replicas */
    int member, local, replica, replicas;
    sheaf_status status;
    sheaf_error err;
};

struct world {
    int size;
    int locals[MEMBERS_MOST]; /* 0: 1 */
    bool reproducible;
    const char *environment[4]; /* of every member; none: in-process */
    sheaf_status (*play)(struct player *p);
    void *user;
    double deadline; /* for joining */
    int absent;      /* number + 1 of a member that does not come */

    struct sheaf__hub *hub;
    struct sheaf__secret secret;
    struct sheaf__mutex lock;
    struct sheaf__cond changed;
    int listening;
    char addresses[MEMBERS_MOST][64];
};

/* For a play: fails it if the condition does not hold. */
#define CHECK(p, condition)                                                                \
    do {                                                                                   \
        if (!(condition))                                                                  \
            return sheaf_error_set(&(p)->err, SHEAF_ERR_INTERNAL, "%s:%d: replica %d: %s", \
                                   __FILE__, __LINE__, (p)->replica, #condition);          \
    } while (0)
/* For a play: a call that must fail in this way. */
#define CHECK_FAILS(p, call, expected, part)                                                   \
    do {                                                                                       \
        sheaf_status check_status = (call);                                                    \
        if (check_status != (expected) || !strstr((p)->err.message, (part))) {                 \
            sheaf_error check_error = (p)->err;                                                \
            return sheaf_error_set(                                                            \
                &(p)->err, SHEAF_ERR_INTERNAL, "%s:%d: replica %d: %d \"%.150s\", not \"%s\"", \
                __FILE__, __LINE__, (p)->replica, check_status, check_error.message, (part));  \
        }                                                                                      \
    } while (0)

static inline struct sheaf__wait world_wait(double seconds)
{
    return (struct sheaf__wait){.deadline = sheaf__clock_deadline(seconds), .what = "test"};
}

static inline void world_replica(void *user)
{
    struct player *p = user;
    p->status = p->world->play(p);
}

/* Plays all replicas of a member. */
static inline sheaf_status world_play(struct rig_task *task, struct world *w,
                                      struct sheaf__team *team, struct sheaf__channel *channel)
{
    struct player players[LOCALS_MOST];
    struct sheaf__thread *threads[LOCALS_MOST] = {NULL};
    int locals = sheaf__team_local_replicas(team);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < locals; i++) {
        players[i] = (struct player){.world = w,
                                     .team = team,
                                     .channel = channel,
                                     .member = task->index,
                                     .local = i,
                                     .replica = sheaf__team_first_replica(team) + i,
                                     .replicas = sheaf__team_replicas(team)};
        if (i > 0)
            SHEAF__TRY(sheaf__thread_start("replica", world_replica, &players[i],
                                           &(struct sheaf__thread_options){.stack_bytes = 4 << 20},
                                           &threads[i], &task->err));
    }
    world_replica(&players[0]);
    for (int i = 1; i < locals; i++)
        sheaf__thread_join(threads[i], SHEAF__NO_DEADLINE, NULL);
    for (int i = 0; i < locals && status == SHEAF_OK; i++)
        if (players[i].status < 0) {
            status = players[i].status;
            task->err = players[i].err;
        }
    return status;
}

/* Tells the others where this member listens and waits until all do. */
static inline void world_announce(struct world *w, int index, const char *address)
{
    sheaf__mutex_lock(&w->lock);
    snprintf(w->addresses[index], sizeof(w->addresses[index]), "%s", address);
    w->listening++;
    sheaf__cond_broadcast(&w->changed);
    while (w->listening < w->size)
        sheaf__cond_wait_until(&w->changed, &w->lock, sheaf__clock_deadline(20), NULL, NULL);
    sheaf__mutex_unlock(&w->lock);
}

static inline sheaf_status world_join(struct rig_task *task, struct world *w,
                                      struct sheaf__net *net)
{
    struct sheaf__team_member members[MEMBERS_MOST];
    struct sheaf__team *team = NULL;
    struct sheaf__channel *channel = NULL;
    for (int i = 0; i < w->size; i++)
        members[i] = (struct sheaf__team_member){{.job = "worker", .index = i}, w->addresses[i]};
    struct sheaf__team_options options = {
        .net = net,
        .members = members,
        .size = w->size,
        .rank = task->index,
        .local_replicas = w->locals[task->index],
        .reproducible = w->reproducible,
    };
    struct sheaf__wait wait = world_wait(w->deadline > 0 ? w->deadline : 20);
    SHEAF__TRY(sheaf__team_new(&options, &wait, &team, &task->err));
    sheaf_status status = sheaf__channel_open(team, 1, 0, &channel, &task->err);
    if (status == SHEAF_OK)
        status = world_play(task, w, team, channel);
    sheaf__channel_free(channel);
    sheaf__team_free(team);
    return status;
}

static inline sheaf_status world_member(struct rig_task *task)
{
    struct world *w = task->user;
    struct sheaf__net *net = NULL;
    const struct sheaf__net_options options = {.task = {.job = "worker", .index = task->index},
                                               .address = "127.0.0.1:0",
                                               .secret = &w->secret};
    if (!w->environment[0])
        SHEAF__TRY(sheaf__net_set_hub(task->context, w->hub, &task->err));
    SHEAF__TRY(sheaf__net_new(&options, &net, &task->err));
    sheaf_status status = sheaf__team_serve(net, &task->err);
    if (status == SHEAF_OK)
        status = sheaf__net_start(net, &task->err);
    if (status == SHEAF_OK)
        world_announce(w, task->index, sheaf__net_address(net));
    if (status == SHEAF_OK && w->absent != task->index + 1)
        status = world_join(task, w, net);
    sheaf__net_free(net, sheaf__clock_deadline(5));
    return status;
}

static inline const char *const *world_environment(int task, void *user)
{
    struct world *w = user;
    (void)task;
    return w->environment[0] ? w->environment : NULL;
}

static inline void world_run(struct world *w)
{
    sheaf_error err = {0};
    w->listening = 0;
    w->secret.size = 32;
    rig_ok(sheaf__hub_new(&w->hub, &err), &err);
    rig_tasks(w->size, world_member, w, world_environment, 50);
    sheaf__hub_free(w->hub);
}

#endif
