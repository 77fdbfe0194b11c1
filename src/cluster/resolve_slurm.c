/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"
#include "base/env.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/deal.h"
#include "cluster/resolver.h"
#include "cluster/slurm_list.h"

/* Slurm (R6.46): every task of a step computes the same cluster from the step's variables. Task n
 * of the step is the n-th of its nodes in the order of the node list, as `srun` places tasks by
 * default ("block"); on each machine ports count up from SHEAF_PORT_BASE. */

#define SOURCE "Slurm"

static bool applies(const sheaf_cluster_options *options)
{
    (void)options;
    return sheaf__env_get("SLURM_STEP_NUM_TASKS") != NULL;
}

static sheaf_status need_text(const char *name, const char **text, sheaf_error *err)
{
    *text = sheaf__env_get(name);
    if (!*text || !**text)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            SOURCE ": variable %s is not set, though SLURM_STEP_NUM_TASKS is",
                            name);
    return SHEAF_OK;
}

static sheaf_status need_number(const char *name, int64_t *number, sheaf_error *err)
{
    const char *text;
    SHEAF__TRY(need_text(name, &text, err));
    if (!sheaf__str_to_int(text, number) || *number < 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            SOURCE ": %s is \"%.40s\", expected a number", name, text);
    return SHEAF_OK;
}

/* What the step says of itself. */
struct step {
    struct sheaf__strings hosts;
    int32_t *tasks; /* on each host */
    size_t task_entries;
    int64_t total;
    int64_t rank;
};

/* Another launcher inside the step, or another distribution of tasks, would give every task a wrong
 * idea of where the others are. */
static sheaf_status check_placement(const struct step *step, sheaf_error *err)
{
    const char *mpi = sheaf__env_get("OMPI_COMM_WORLD_SIZE");
    int64_t size, node, first = 0;
    if (mpi && sheaf__str_to_int(mpi, &size) && size != step->total)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            SOURCE ": the step has %lld tasks, but MPI's launcher started %lld "
                                   "inside it; start with srun, or set TF_CONFIG",
                            (long long)step->total, (long long)size);
    if (!sheaf__env_get("SLURM_NODEID"))
        return SHEAF_OK;
    SHEAF__TRY(need_number("SLURM_NODEID", &node, err));
    for (size_t i = 0; i < step->hosts.count; first += step->tasks[i++])
        if (step->rank >= first && step->rank < first + step->tasks[i] && node != (int64_t)i)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                SOURCE ": task %lld runs on node %lld, expected node %zu (%s): "
                                       "start with srun --distribution=block",
                                (long long)step->rank, (long long)node, i, step->hosts.items[i]);
    return SHEAF_OK;
}

static sheaf_status read_step(struct step *step, sheaf_error *err)
{
    const char *hosts, *tasks;
    int64_t sum = 0;
    SHEAF__TRY(need_number("SLURM_STEP_NUM_TASKS", &step->total, err));
    SHEAF__TRY(need_number("SLURM_PROCID", &step->rank, err));
    SHEAF__TRY(need_text("SLURM_STEP_NODELIST", &hosts, err));
    SHEAF__TRY(need_text("SLURM_STEP_TASKS_PER_NODE", &tasks, err));
    SHEAF__TRY(sheaf__slurm_list_hosts(hosts, &step->hosts, err));
    SHEAF__TRY(sheaf__slurm_list_counts(tasks, &step->tasks, &step->task_entries, err));
    if (step->task_entries != step->hosts.count)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            SOURCE ": SLURM_STEP_NODELIST has %zu nodes, but "
                                   "SLURM_STEP_TASKS_PER_NODE has %zu",
                            step->hosts.count, step->task_entries);
    for (size_t i = 0; i < step->task_entries; i++)
        sum += step->tasks[i];
    if (sum != step->total || sum > SHEAF__SLURM_LIST_MAX)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            SOURCE ": SLURM_STEP_TASKS_PER_NODE \"%.40s\" has %lld tasks, "
                                   "expected SLURM_STEP_NUM_TASKS, which is %lld",
                            tasks, (long long)sum, (long long)step->total);
    return check_placement(step, err);
}

static sheaf_status list_addresses(const struct step *step, struct sheaf__strings *addresses,
                                   sheaf_error *err)
{
    int64_t base = sheaf__config_int(SHEAF__CONFIG_PORT_BASE);
    for (size_t i = 0; i < step->hosts.count; i++)
        for (int32_t k = 0; k < step->tasks[i]; k++) {
            char *text = sheaf__printf("%s:%lld", step->hosts.items[i], (long long)(base + k));
            if (!text || !sheaf__strings_take(addresses, text))
                return sheaf__no_memory(err, "the cluster");
        }
    return SHEAF_OK;
}

/* TensorFlow's resolver puts "grpc://" before the master's address here, and only here. */
static sheaf_status name_rpc_layer(struct sheaf__tf_config **config, sheaf_error *err)
{
    (*config)->rpc_layer = sheaf__strdup("grpc");
    if ((*config)->rpc_layer)
        return SHEAF_OK;
    sheaf__tf_config_free(*config);
    return sheaf__no_memory(err, "the cluster");
}

static sheaf_status resolve(const sheaf_cluster_options *options, struct sheaf__tf_config **config,
                            sheaf_error *err)
{
    (void)options;
    struct step step = {0};
    struct sheaf__strings addresses = {0};
    sheaf_status status = read_step(&step, err);
    if (status >= 0)
        status = list_addresses(&step, &addresses, err);
    if (status >= 0)
        status = sheaf__deal_tasks(&addresses, step.rank, SOURCE, config, err);
    if (status >= 0)
        status = name_rpc_layer(config, err);
    sheaf__strings_clear(&addresses);
    sheaf__strings_clear(&step.hosts);
    sheaf__free(step.tasks);
    return status;
}

const struct sheaf__resolver sheaf__resolver_slurm = {SOURCE, applies, resolve};
