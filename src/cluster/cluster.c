/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster.h"

#include "base/context.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/check.h"
#include "cluster/resolver.h"
#include "net/socket.h"
#include "tensor/frame.h"

#include <string.h>

/* The order is the precedence. Without any of them the machine is alone. */
static const struct sheaf__resolver *const RESOLVERS[] = {
    &sheaf__resolver_argument,
    &sheaf__resolver_tf_config,
    &sheaf__resolver_slurm,
    &sheaf__resolver_mpi,
};

/* ---- resolving ---- */

static void destroy(void *object)
{
    sheaf_cluster *c = object;
    sheaf__tf_config_free(c->config);
    sheaf__free(c);
}

static const struct sheaf__class CLUSTER_CLASS = {"cluster", destroy};

/* What the program says of its task beats what the source says (R6.43). */
static sheaf_status override_task(struct sheaf__tf_config *config,
                                  const sheaf_cluster_options *options, sheaf_error *err)
{
    if (options->task_type) {
        char *type = sheaf__strdup(options->task_type);
        if (!type)
            return sheaf__no_memory(err, "the cluster");
        sheaf__free(config->task_type);
        config->task_type = type;
    }
    if (options->has_task_index || options->task_index != 0) {
        config->task_index = options->task_index;
        config->has_task_index = true;
    }
    return SHEAF_OK;
}

/* An address of each kind, NULL if there is none: of this machine alone, and one that others may reach. */
static void sort_addresses(const struct sheaf__tf_config *config, const char **loopback,
                           const char **other)
{
    *loopback = *other = NULL;
    for (size_t i = 0; i < config->job_count; i++)
        for (size_t k = 0; k < config->jobs[i].task_count; k++) {
            const char *text = config->jobs[i].tasks[k].address;
            *(sheaf__socket_is_loopback(text) ? loopback : other) = text;
        }
}

/* An address that means "this machine" on every machine cannot be reached from another one. */
static void warn_mixed_loopback(const struct sheaf__tf_config *config, const char *source)
{
    const char *loopback, *other;
    sort_addresses(config, &loopback, &other);
    if (loopback && other)
        sheaf__log(SHEAF_LOG_WARN,
                   "%s: \"%s\" is loopback, which \"%s\" cannot reach unless it is "
                   "the same machine",
                   source, loopback, other);
}

static void log_source(const sheaf_cluster *c)
{
    struct sheaf__str jobs = {0};
    if (!sheaf__log_wants(SHEAF_LOG_INFO))
        return;
    for (size_t i = 0; c->config && i < c->config->job_count; i++)
        sheaf__str_printf(&jobs, "%s%s %zu", i ? ", " : "", c->config->jobs[i].name,
                          c->config->jobs[i].task_count);
    if (c->config)
        sheaf__log(SHEAF_LOG_INFO, "cluster from %s: this is %s:%d of %s", c->source, c->task.job,
                   c->task.index, sheaf__str_text(&jobs));
    else
        sheaf__log(SHEAF_LOG_INFO, "no cluster: this machine alone");
    sheaf__str_free(&jobs);
}

static sheaf_status make(const char *source, struct sheaf__tf_config *config,
                         sheaf_cluster **cluster, sheaf_error *err)
{
    sheaf_cluster *c = sheaf__calloc(1, sizeof(*c));
    if (!c) {
        sheaf__tf_config_free(config);
        return sheaf__no_memory(err, "the cluster");
    }
    sheaf__object_init(&c->object, &CLUSTER_CLASS);
    c->source = source;
    c->config = config;
    c->task.index = -1;
    if (config) {
        sheaf__str_copy(c->task.job, sizeof(c->task.job), config->task_type);
        c->task.index = config->task_index;
        warn_mixed_loopback(config, source);
        /* The first cluster says which task this context is; later ones are looked at only. */
        if (sheaf__context_task(sheaf__context()).index < 0)
            sheaf__context_set_task(sheaf__context(), c->task.job, c->task.index);
    }
    log_source(c);
    *cluster = c;
    return SHEAF_OK;
}

static sheaf_status resolve_by(const struct sheaf__resolver *resolver,
                               const sheaf_cluster_options *options, sheaf_cluster **cluster,
                               sheaf_error *err)
{
    struct sheaf__tf_config *config = NULL;
    SHEAF__TRY(resolver->resolve(options, &config, err));
    sheaf_status status = override_task(config, options, err);
    if (status >= 0)
        status = sheaf__check_cluster(config, resolver->name, err);
    if (status < 0) {
        sheaf__tf_config_free(config);
        return status;
    }
    return make(resolver->name, config, cluster, err);
}

sheaf_status sheaf_cluster_resolve(const sheaf_cluster_options *options, sheaf_cluster **cluster,
                                   sheaf_error *err)
{
    static const sheaf_cluster_options defaults;
    if (!options)
        options = &defaults;
    if (!cluster)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the place for the cluster is NULL");
    for (size_t i = 0; i < sizeof(options->reserved) / sizeof(options->reserved[0]); i++)
        if (options->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "cluster options: reserved field %zu is set, expected 0", i);
    SHEAF__TRY(sheaf__context_check(err));
    for (size_t i = 0; i < sizeof(RESOLVERS) / sizeof(RESOLVERS[0]); i++)
        if (RESOLVERS[i]->applies(options))
            return resolve_by(RESOLVERS[i], options, cluster, err);
    if (options->task_type || options->has_task_index || options->task_index != 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "task %s:%d was given, but no cluster: TF_CONFIG is not set",
                            options->task_type ? options->task_type : "", options->task_index);
    return make("local", NULL, cluster, err);
}

sheaf_cluster *sheaf_cluster_ref(sheaf_cluster *c)
{
    return sheaf__ref(c);
}

void sheaf_cluster_free(sheaf_cluster *c)
{
    sheaf__unref(c);
}

/* ---- this task ---- */

/* No cluster is a machine alone, too: what the default strategy has. */
static const struct sheaf__tf_config *config_of(const sheaf_cluster *c)
{
    return c ? c->config : NULL;
}

const char *sheaf_cluster_task_type(const sheaf_cluster *c)
{
    return c ? c->task.job : "";
}

int32_t sheaf_cluster_task_index(const sheaf_cluster *c)
{
    return c ? c->task.index : -1;
}

bool sheaf_cluster_is(const sheaf_cluster *c, const char *job)
{
    return c && job && strcmp(c->task.job, job) == 0;
}

bool sheaf_cluster_is_chief(const sheaf_cluster *c)
{
    if (!config_of(c) || sheaf_cluster_is(c, "chief") || sheaf_cluster_is(c, "evaluator"))
        return true;
    return sheaf_cluster_is(c, "worker") && c->task.index == 0 &&
           sheaf_cluster_tasks(c, "chief") == 0;
}

const char *sheaf_cluster_source(const sheaf_cluster *c)
{
    return c ? c->source : "local";
}

struct sheaf__net_options sheaf__cluster_net(const sheaf_cluster *c)
{
    const char *loopback, *other;
    sort_addresses(c->config, &loopback, &other);
    return (struct sheaf__net_options){.task = c->task,
                                       .address =
                                           sheaf_cluster_address(c, c->task.job, c->task.index),
                                       .loopback = !other};
}

/* ---- the jobs ---- */

const char *sheaf_cluster_job(const sheaf_cluster *c, size_t i)
{
    const struct sheaf__tf_config *config = config_of(c);
    return config && i < config->job_count ? config->jobs[i].name : NULL;
}

int32_t sheaf_cluster_tasks(const sheaf_cluster *c, const char *job)
{
    const struct sheaf__tf_config_job *found =
        job ? sheaf__check_find_job(config_of(c), job) : NULL;
    return found ? (int32_t)found->task_count : 0;
}

const char *sheaf_cluster_address(const sheaf_cluster *c, const char *job, int32_t index)
{
    const struct sheaf__tf_config_task *task =
        job ? sheaf__check_find_task(sheaf__check_find_job(config_of(c), job), index) : NULL;
    return task ? task->address : NULL;
}

const char *sheaf_cluster_master(const sheaf_cluster *c, const char *job, int32_t index)
{
    const struct sheaf__tf_config *config = config_of(c);
    struct sheaf__str text = {0};
    if (config && config->session_master) {
        sheaf__str_add(&text, config->session_master);
    } else if (config && (config->job_count > 1 || config->jobs[0].task_count > 1)) {
        /* A cluster of one task has nobody to call: its master is "" (R6.43). */
        const char *address = job ? sheaf_cluster_address(c, job, index)
                                  : sheaf_cluster_address(c, c->task.job, c->task.index);
        if (address && config->rpc_layer && *config->rpc_layer)
            sheaf__str_printf(&text, "%s://", config->rpc_layer);
        if (address)
            sheaf__str_add(&text, address);
    }
    return sheaf__frame_str(&text);
}

int32_t sheaf_cluster_workers(const sheaf_cluster *c)
{
    return sheaf_cluster_tasks(c, "chief") + sheaf_cluster_tasks(c, "worker");
}

int32_t sheaf_cluster_worker_id(const sheaf_cluster *c)
{
    if (sheaf_cluster_is(c, "chief"))
        return c->task.index;
    if (sheaf_cluster_is(c, "worker"))
        return c->task.index + sheaf_cluster_tasks(c, "chief");
    return -1;
}
