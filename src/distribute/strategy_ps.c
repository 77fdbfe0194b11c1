/* SPDX-License-Identifier: Apache-2.0 */

/* Parameter servers with a loop in every worker (R6.1–R6.11): variables live on the ps, local
 * replicas step together, workers do not wait for each other. Without a cluster it is local: plain
 * variables. */

#include "base/context.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "distribute/aggregate.h"
#include "distribute/bind.h"
#include "distribute/replica.h"
#include "distribute/sync.h"
#include "ops/tape.h"
#include "optim/optimizer.h"
#include "ps/variable.h"
#include "tensor/frame.h"

#include <sheaf/ops.h>

static struct sheaf__ps_client *client_of(const sheaf_strategy *s)
{
    return s->state;
}

/* Starting. */

static sheaf_status check_cluster(const sheaf_cluster *c, sheaf_error *err)
{
    const char *type = sheaf_cluster_task_type(c);
    if (sheaf_cluster_tasks(c, "ps") < 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "ParameterServerStrategy: the cluster has no job 'ps', expected at "
                            "least one task of it");
    if (sheaf_cluster_worker_id(c) < 0)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "ParameterServerStrategy: this task is %s:%d, expected a chief or worker; a ps calls "
            "sheaf_server_run",
            type, sheaf_cluster_task_index(c));
    return SHEAF_OK;
}

/* Without "replica:0", as this strategy names its devices (R6.3, R4.47). */
static sheaf_status name_devices(sheaf_strategy *s, const struct sheaf__ps_client *client,
                                 sheaf_error *err)
{
    const char *job = sheaf_cluster_task_type(s->cluster);
    for (int i = 0; i < s->local; i++) {
        sheaf__free(s->devices[i]);
        s->devices[i] = sheaf__printf("/job:%s/task:%d/device:CPU:%d", job,
                                      sheaf_cluster_task_index(s->cluster), s->device_index[i]);
        if (!s->devices[i])
            return sheaf__no_memory(err, "a strategy");
    }
    s->parameter_devices = sheaf__calloc((size_t)client->server_count + 1, sizeof(char *));
    for (int i = 0; i < client->server_count && s->parameter_devices; i++)
        s->parameter_devices[i] = sheaf__strdup(client->servers[i].device);
    return s->parameter_devices ? SHEAF_OK : sheaf__no_memory(err, "a strategy");
}

/* Each worker stops where it is: after its step. */

static void watch_stops(void *user)
{
    sheaf__ps_watch_stops(client_of(user));
}

static void spread_stop(void *user)
{
    const sheaf_strategy *s = user;
    sheaf__halt_next(s->halt);
    sheaf__ps_tell_of_stop(client_of(s));
}

static sheaf_status connect(sheaf_strategy *s, const sheaf_partitioner *partitioner,
                            sheaf_error *err)
{
    const struct sheaf__halt_peers peers = {watch_stops, spread_stop, s};
    struct sheaf__ps_client *client = NULL;
    SHEAF__TRY(check_cluster(s->cluster, err));
    SHEAF__TRY(sheaf__ps_client_new(s->cluster, s->deadline_ns, &client, err));
    client->partitioner = *partitioner;
    s->state = client;
    s->group = &client->group;
    SHEAF__TRY(sheaf__halt_new(&peers, &s->halt, err));
    client->group.halt = s->halt;
    s->remote = true;
    s->is_chief = sheaf_cluster_is_chief(s->cluster);
    s->pipelines = sheaf_cluster_workers(s->cluster);
    s->pipeline = sheaf_cluster_worker_id(s->cluster);
    sheaf__log(SHEAF_LOG_INFO, "ParameterServerStrategy: worker %d of %d, %d parameter servers",
               s->pipeline, s->pipelines, client->server_count);
    return name_devices(s, client, err);
}

static sheaf_status ps_start(sheaf_strategy *s, const sheaf_strategy_options *o, sheaf_error *err)
{
    const bool local = sheaf_cluster_job(s->cluster, 0) == NULL;
    SHEAF__TRY(sheaf__strategy_place(s, o->devices, true, "localhost", 0, err));
    s->rebatches = s->local > 1;
    if (!local)
        SHEAF__TRY(connect(s, &o->variable_partitioner, err));
    struct sheaf__team_options alone = {.size = 1};
    return s->local > 1 ? sheaf__sync_open(s, &alone, err) : SHEAF_OK;
}

static sheaf_status ps_join(sheaf_strategy *s, int64_t deadline, sheaf_error *err)
{
    return s->state ? sheaf__ps_join(client_of(s), deadline, err) : SHEAF_OK;
}

/* Who cannot ask, as it has lost the server, saves nothing. */
static bool ps_saves(const sheaf_strategy *s)
{
    bool now = s->is_chief;
    return (!s->state || sheaf__ps_saves(client_of(s), &now, NULL) >= 0) && now;
}

static void ps_stop(sheaf_strategy *s)
{
    sheaf__halt_deafen(s->halt);
    if (s->state && s->well && !sheaf_stopped())
        sheaf__ps_leave(client_of(s));
    sheaf__ps_client_free(client_of(s));
}

/* Writes of the local replicas: one value, which the first of them sends (R5.24). */

struct written {
    sheaf_tensor *value;
    sheaf_tensor *all; /* of the first replica: what to send, counted */
};

static sheaf_status aggregate_at_meeting(void *const *contributions, int count, void *user,
                                         sheaf_error *err)
{
    sheaf_tensor *values[SHEAF__MOST_REPLICAS];
    for (int i = 0; i < count; i++)
        values[i] = ((struct written *)contributions[i])->value;
    SHEAF_FRAME
    {
        sheaf_tensor *all = sheaf__aggregate(user, values, count);
        SHEAF__TRY(sheaf_tensor_status(all, err));
        ((struct written *)contributions[0])->all = sheaf_tensor_keep(all);
    }
    return SHEAF_OK;
}

static sheaf_tensor *aggregate(sheaf_variable *v, sheaf_tensor *value, sheaf_status *status,
                               sheaf_error *err)
{
    sheaf_replica *r = sheaf_replica_context();
    if (v->strategy->local == 1)
        return value;
    if (v->aggregation == SHEAF_AGGREGATION_NONE) {
        *status = sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "variable '%s' is written by %d replicas and has aggregation NONE; say how their "
            "values are combined",
            v->name, v->strategy->local);
        return NULL;
    }
    struct written mine = {.value = value};
    const struct sheaf__meeting meeting = {"an assignment to variable", v->name,
                                           aggregate_at_meeting, v};
    *status = sheaf__replica_meet(r, &meeting, &mine, err);
    return *status < 0 ? NULL : sheaf__frame_own(mine.all);
}

static sheaf_variable *ps_create(sheaf_strategy *s, sheaf_variable_request *request)
{
    if (!s->state)
        return sheaf_variable_create_next(request);
    sheaf_variable *v = sheaf__ps_variable_new(client_of(s), request, aggregate);
    if (v)
        v->strategy = s;
    return v;
}

/* Steps. */

static sheaf_status ps_step_begin(sheaf_strategy *s, sheaf_error *err)
{
    return s->state ? sheaf__ps_step_begin(client_of(s), err) : SHEAF_OK;
}

static sheaf_status ps_step_end(sheaf_strategy *s, sheaf_status step, sheaf_error *err)
{
    return s->state ? sheaf__ps_step_end(client_of(s), step, err) : SHEAF_OK;
}

/* Gradients are summed over the local replicas; the first one sends them. The step number is that
 * of the count which all workers share. */
static sheaf_status ps_update(sheaf_replica *r, sheaf_optimizer *o,
                              const struct sheaf__gradient *all, size_t count, sheaf_error *err)
{
    sheaf_variable *iterations = sheaf__bound_iterations(o);
    struct sheaf__ps_client *client = client_of(r->strategy);
    if (r->local > 0)
        return SHEAF_OK;
    sheaf_tensor *steps = sheaf_value(iterations);
    SHEAF__TRY(sheaf_tensor_status(steps, err));
    const int64_t step = sheaf_tensor_integer(steps, 0) + 1;
    const struct sheaf__hyper hyper = sheaf__optimizer_hyper(o, step);
    sheaf_variable **variables = sheaf__frame_alloc((count + 1) * sizeof(*variables));
    sheaf_tensor **gradients = sheaf__frame_alloc((count + 1) * sizeof(*gradients));
    if (!variables || !gradients)
        return sheaf__no_memory(err, "the gradients");
    for (size_t i = 0; i < count; i++) {
        if (all[i].variable->strategy != r->strategy)
            return sheaf__error(
                err, SHEAF_ERR_INVALID_ARGUMENT,
                "variable '%s' was made outside the strategy's scope: it is on no parameter server",
                all[i].variable->name);
        variables[i] = all[i].variable;
        gradients[i] = all[i].value;
    }
    SHEAF__TRY(sheaf__ps_update(client, &hyper, variables, gradients, count, err));
    SHEAF__TRY(sheaf__ps_assign(client, iterations, SHEAF__PS_ADD, sheaf_long(1), err));
    atomic_store(&o->iterations, step);
    return SHEAF_OK;
}

static sheaf_status ps_mark(sheaf_strategy *s, sheaf_bytes place, sheaf_error *err)
{
    return s->state ? sheaf__ps_mark(client_of(s), place.data, place.size, err) : SHEAF_OK;
}

static sheaf_status ps_marked(sheaf_strategy *s, sheaf_bytes *place, sheaf_error *err)
{
    return s->state ? sheaf__ps_marked(client_of(s), place, err) : SHEAF_OK;
}

const struct sheaf__strategy_class sheaf__strategy_ps_class = {
    .name = "ParameterServerStrategy",
    .aliases = "ps parameterserver ParameterServerStrategyV1 ParameterServerStrategyV2",
    .start = ps_start,
    .join = ps_join,
    .stop = ps_stop,
    .saves = ps_saves,
    .create = ps_create,
    .step_begin = ps_step_begin,
    .step_end = ps_step_end,
    .mark = ps_mark,
    .marked = ps_marked,
    .update = ps_update,
};
