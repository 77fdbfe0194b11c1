/* SPDX-License-Identifier: Apache-2.0 */

/* Mirrored over several workers: every logical device of every chief and worker task is a replica
 * (S70, S92; R4.55–R4.58). */

#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/group.h"
#include "cluster/cluster.h"
#include "distribute/halt_workers.h"
#include "distribute/mirrored.h"
#include "distribute/sync.h"
#include "net/net.h"
#include "tensor/frame.h"

#include <string.h>

/* How long a goodbye may take. */
#define GOODBYE_NS (2 * SHEAF__S)

struct state {
    struct sheaf__save_group group;
    sheaf_strategy *strategy;
    struct sheaf__net *net; /* NULL: a worker alone */
    struct sheaf__halt_workers *halt;
};

/* The team of chief and workers, in that order (R6.39). */

static int fill_members(const sheaf_cluster *c, struct sheaf__team_member *members)
{
    static const char *const jobs[] = {"chief", "worker"};
    int count = 0;
    for (int j = 0; j < 2; j++) {
        const int32_t tasks = sheaf_cluster_tasks(c, jobs[j]);
        for (int32_t found = 0, i = 0; found < tasks && i < INT32_MAX; i++) {
            const char *address = sheaf_cluster_address(c, jobs[j], i);
            if (!address)
                continue;
            found++;
            members[count] = (struct sheaf__team_member){.task = {.index = i}, .address = address};
            sheaf__str_copy(members[count].task.job, sizeof(members[count].task.job), jobs[j]);
            count++;
        }
    }
    return count;
}

static sheaf_status start_net(sheaf_strategy *s, struct state *state,
                              const struct sheaf__team_options *team, sheaf_error *err)
{
    const struct sheaf__net_options options = sheaf__cluster_net(s->cluster);
    sheaf__context_set_task(s->context, options.task.job, options.task.index);
    SHEAF__TRY(sheaf__net_new(&options, &state->net, err));
    SHEAF__TRY(sheaf__team_serve(state->net, err));
    SHEAF__TRY(sheaf__halt_workers_new(state->net, s->context, team, &state->halt, err));
    s->halt = state->group.halt = sheaf__halt_workers_halt(state->halt);
    return sheaf__net_start(state->net, err);
}

static sheaf_status join_team(sheaf_strategy *s, struct state *state, sheaf_error *err)
{
    struct sheaf__team_member *members = sheaf__calloc((size_t)s->workers, sizeof(*members));
    if (!members)
        return sheaf__no_memory(err, "a team");
    struct sheaf__team_options options = {
        .members = members, .size = fill_members(s->cluster, members), .rank = s->worker_id};
    sheaf_status status = start_net(s, state, &options, err);
    options.net = state->net;
    if (status >= 0)
        status = sheaf__sync_open(s, &options, err);
    sheaf__free(members);
    return status;
}

/* Only the chief writes checkpoints; all agree on which one to restore and wait for each other. */

static bool group_restores(struct sheaf__save_group *g)
{
    return ((struct state *)g)->strategy->is_chief;
}

static sheaf_status group_writes(struct sheaf__save_group *g, bool *now, sheaf_error *err)
{
    (void)err;
    *now = group_restores(g);
    return SHEAF_OK;
}

static bool group_is_local(struct sheaf__save_group *g, const char *device)
{
    (void)g;
    (void)device;
    return true; /* every worker has a copy of everything, the writer too */
}

/* The writer's path on every worker. */
static sheaf_status group_agree(struct sheaf__save_group *g, const char **path, sheaf_error *err)
{
    sheaf_strategy *s = ((struct state *)g)->strategy;
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the chief's choice of a checkpoint");
    uint64_t size = *path ? strlen(*path) + 1 : 0;
    sheaf__sync_call(s);
    SHEAF__TRY(sheaf__sync_called(
        s, sheaf__channel_broadcast(s->sync->cross, 0, 0, &size, sizeof(size), &wait, err)));
    if (size == 0) {
        *path = NULL;
        return SHEAF_OK;
    }
    char *text = sheaf__frame_alloc(size);
    if (!text)
        return sheaf__no_memory(err, "a path");
    if (s->is_chief)
        memcpy(text, *path, size);
    SHEAF__TRY(sheaf__sync_called(
        s, sheaf__channel_broadcast(s->sync->cross, 0, 0, text, size, &wait, err)));
    *path = text;
    return SHEAF_OK;
}

static sheaf_status group_finish(struct sheaf__save_group *g, sheaf_status mine, sheaf_error *err)
{
    sheaf_strategy *s = ((struct state *)g)->strategy;
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the other workers' save");
    sheaf__sync_call(s);
    if (mine < 0) {
        sheaf_error cause = {.status = mine};
        sheaf__error_copy(&cause, err ? err : &cause);
        sheaf__channel_abort(s->sync->cross, &cause);
        return sheaf__sync_called(s, mine);
    }
    return sheaf__sync_called(s, sheaf__channel_barrier(s->sync->cross, 0, &wait, err));
}

static const struct sheaf__save_group_class group_class = {
    .restores = group_restores,
    .writes = group_writes,
    .is_local = group_is_local,
    .agree = group_agree,
    .finish = group_finish,
};

/* The strategy. */

static sheaf_status multiworker_start(sheaf_strategy *s, const sheaf_strategy_options *o,
                                      sheaf_error *err)
{
    const sheaf_cluster *c = s->cluster;
    const bool alone = sheaf_cluster_workers(c) <= 1 || sheaf_cluster_worker_id(c) < 0;
    const char *job = sheaf_cluster_worker_id(c) < 0 ? "localhost" : sheaf_cluster_task_type(c);
    const int index = sheaf_cluster_worker_id(c) < 0 ? 0 : sheaf_cluster_task_index(c);
    SHEAF__TRY(sheaf__strategy_place(s, o->devices, true, job, index, err));
    struct state *state = sheaf__calloc(1, sizeof(*state));
    if (!state)
        return sheaf__no_memory(err, "a strategy");
    state->group.cls = &group_class;
    state->strategy = s;
    s->state = state;
    s->partial_batches = true;
    s->rebatches = true;
    s->workers = s->pipelines = alone ? 1 : sheaf_cluster_workers(c);
    s->worker_id = s->pipeline = alone ? 0 : sheaf_cluster_worker_id(c);
    s->is_chief = alone || sheaf_cluster_is_chief(c);
    if (s->is_chief && sheaf_cluster_tasks(c, "ps") > 0)
        sheaf__log(
            SHEAF_LOG_WARN,
            "MultiWorkerMirroredStrategy uses no parameter servers: %d ps of the cluster will "
            "have no worker to serve",
            sheaf_cluster_tasks(c, "ps"));
    if (alone) {
        struct sheaf__team_options one = {.size = 1};
        return s->local > 1 ? sheaf__sync_open(s, &one, err) : SHEAF_OK;
    }
    SHEAF__TRY(join_team(s, state, err));
    s->first = sheaf__team_first_replica(s->sync->team);
    s->total = sheaf__team_replicas(s->sync->team);
    s->group = &state->group;
    if (s->total != s->workers * s->local)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "worker %d has %d replicas, all workers together %d; every worker must have the "
            "same number of logical devices",
            s->worker_id, s->local, s->total);
    sheaf__log(SHEAF_LOG_INFO, "MultiWorkerMirroredStrategy: worker %d of %d, %d replicas in sync",
               s->worker_id, s->workers, s->total);
    return SHEAF_OK;
}

static sheaf_status multiworker_join(sheaf_strategy *s, int64_t deadline, sheaf_error *err)
{
    if (s->workers == 1)
        return SHEAF_OK;
    const struct sheaf__wait wait = {.deadline = deadline, .what = "the end of the other workers"};
    sheaf__sync_call(s);
    return sheaf__sync_called(s, sheaf__channel_barrier(s->sync->cross, 0, &wait, err));
}

static void multiworker_stop(sheaf_strategy *s)
{
    struct state *state = s->state;
    if (!state)
        return;
    if (state->halt)
        s->halt = NULL;
    sheaf__halt_workers_leave(state->halt);
    sheaf__net_free(state->net, sheaf__clock_after(GOODBYE_NS));
    sheaf__halt_workers_free(state->halt);
    sheaf__free(state);
}

const struct sheaf__strategy_class sheaf__strategy_multiworker_class = {
    .name = "MultiWorkerMirroredStrategy",
    .aliases = "multiworker multi-worker CollectiveAllReduceStrategy",
    .start = multiworker_start,
    .join = multiworker_join,
    .stop = multiworker_stop,
    .create = sheaf__mirrored_create,
};
