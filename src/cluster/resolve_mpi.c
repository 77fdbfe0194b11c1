/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"
#include "base/env.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/deal.h"
#include "cluster/resolver.h"

/* MPI's launchers tell a process its number and how many there are, but no addresses. On one
 * machine none are needed: ports count up from SHEAF_PORT_BASE on loopback. Over several machines
 * nothing is guessed. */

#define SOURCE "MPI"

/* Names of the variables by launcher: Open MPI; MPICH and Intel MPI (Hydra). */
static const struct launcher {
    const char *rank, *size, *local_size;
} LAUNCHERS[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof(LAUNCHERS) / sizeof(LAUNCHERS[0]); i++)
        if (sheaf__env_get(LAUNCHERS[i].rank) && sheaf__env_get(LAUNCHERS[i].size))
            return &LAUNCHERS[i];
    return NULL;
}

static bool applies(const sheaf_cluster_options *options)
{
    (void)options;
    return find_launcher() != NULL;
}

static sheaf_status read_number(const char *name, int64_t *number, sheaf_error *err)
{
    const char *text = sheaf__env_get(name);
    if (!text)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, SOURCE ": variable %s is not set",
                            name);
    if (!sheaf__str_to_int(text, number) || *number < 0 || *number > 65536)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            SOURCE ": %s is \"%.40s\", expected a number", name, text);
    return SHEAF_OK;
}

static sheaf_status list_addresses(int64_t size, struct sheaf__strings *addresses, sheaf_error *err)
{
    int64_t base = sheaf__config_int(SHEAF__CONFIG_PORT_BASE);
    for (int64_t i = 0; i < size; i++) {
        char *text = sheaf__printf("127.0.0.1:%lld", (long long)(base + i));
        if (!text || !sheaf__strings_take(addresses, text))
            return sheaf__no_memory(err, "the cluster");
    }
    return SHEAF_OK;
}

static sheaf_status resolve(const sheaf_cluster_options *options, struct sheaf__tf_config **config,
                            sheaf_error *err)
{
    (void)options;
    const struct launcher *launcher = find_launcher();
    int64_t rank, size, local;
    SHEAF__TRY(read_number(launcher->rank, &rank, err));
    SHEAF__TRY(read_number(launcher->size, &size, err));
    SHEAF__TRY(read_number(launcher->local_size, &local, err));
    if (local != size)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            SOURCE ": %lld tasks, %lld of them on this machine: the launcher does "
                                   "not tell the others' addresses, set TF_CONFIG",
                            (long long)size, (long long)local);
    struct sheaf__strings addresses = {0};
    sheaf_status status = list_addresses(size, &addresses, err);
    if (status >= 0)
        status = sheaf__deal_tasks(&addresses, rank, SOURCE, config, err);
    sheaf__strings_clear(&addresses);
    return status;
}

const struct sheaf__resolver sheaf__resolver_mpi = {SOURCE, applies, resolve};
