/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_CONFIG_H
#define SHEAF_BASE_CONFIG_H

/* THE table of configuration variables: documentation, `--help` text, defaults and checks come from
 * it. Adding a variable is one line here. Values are read from the context's environment when the
 * context is made and never change; a bad value fails sheaf_context_new(), or is latched for
 * sheaf__context_check() in the process default context. An unknown SHEAF_* name in the environment
 * gives one warning. */

#include <sheaf/context.h>

/* X(id, type, default, allowed, help). Types: TEXT, PATH (text; empty = none), INT ("least..most"),
 * SECONDS (a decimal number, "least..most"), BOOL (0 or 1), CHOICE (one of "a|b|c"; its value is the
 * position from 0). */
#define SHEAF__CONFIG_TABLE(X)                                                                  \
    X(CONFIG, PATH, "", NULL, "file with lines NAME = value for what is not set here")          \
    X(STRATEGY, TEXT, "", NULL, "strategy of a program that names none; empty: the cluster's")  \
    X(LOG, CHOICE, "warn", "off|error|warn|info|debug", "lines of the log that are written")    \
    X(SECRET_FILE, PATH, "", NULL, "file with the cluster's secret")                            \
    X(INSECURE, BOOL, "0", NULL, "1: run off loopback without a secret")                        \
    X(FABRIC, CHOICE, "local", "local|trusted", "trusted: UCX's TCP and RDMA between hosts")    \
    X(TRANSPORT, CHOICE, "auto", "auto|ucx|tcp|shm", "how tasks exchange tensors")              \
    X(THREADS, INT, "0", "0..4096", "cores to use; 0: affinity and CPU limit of the container") \
    X(SPIN_US, INT, "20", "0..1000000", "how long a waiting thread spins before it sleeps")     \
    X(HEARTBEAT_MS, INT, "1000", "10..600000", "time between signs of life of a task")          \
    X(DEADLINE_S, SECONDS, "60", "0.001..1000000", "longest wait for a peer")                   \
    X(GRACE_S, SECONDS, "25", "0.001..1000000",                                                 \
      "how long a job that saves when it is asked to stop has for that")                        \
    X(KERNELS, CHOICE, "auto", "auto|reference|onednn", "which kernels compute")                \
    X(RUN_ID, TEXT, "", NULL, "name of this run, the same in all its tasks")                    \
    X(ENDED_FILE, PATH, "", NULL, "file where who starts tasks notes those that have ended")    \
    X(JOBS, TEXT, "", NULL, "jobs of what Slurm or MPI started: \"ps=1,worker=4\"")             \
    X(PORT_BASE, INT, "8888", "1..65535", "port of a machine's first task under Slurm or MPI")  \
    X(FSYNC, BOOL, "1", NULL,                                                                   \
      "0: writes do not wait for the disk; a machine's crash may lose them")                    \
    X(SEED, TEXT, "", NULL, "global seed of random operations; empty: none")                    \
    X(TRACE, PATH, "", NULL,                                                                    \
      "file for a trace of spans (Chrome's JSON), a task adds its name; empty: none")           \
    X(INPUT_BYTES, INT, "0", "0..1000000000000000",                                             \
      "bytes that a pipeline may make ahead; 0: a quarter of the memory")                       \
    X(EXPLAIN, PATH, "", NULL,                                                                  \
      "file that is told what input pipelines did, a task adds its name; empty: none")

enum sheaf__config_id {
#define SHEAF__CONFIG_ID(id, type, text, allowed, help) SHEAF__CONFIG_##id,
    SHEAF__CONFIG_TABLE(SHEAF__CONFIG_ID)
#undef SHEAF__CONFIG_ID
        SHEAF__CONFIG_COUNT
};

enum { SHEAF__TRANSPORT_AUTO, SHEAF__TRANSPORT_UCX, SHEAF__TRANSPORT_TCP, SHEAF__TRANSPORT_SHM };
enum { SHEAF__FABRIC_LOCAL, SHEAF__FABRIC_TRUSTED };
enum { SHEAF__KERNELS_AUTO, SHEAF__KERNELS_REFERENCE, SHEAF__KERNELS_ONEDNN };

/* Values in the current context. The getter must fit the type of the variable. */
const char *sheaf__config_text(enum sheaf__config_id id); /* any type, as written; never NULL */
int64_t sheaf__config_int(enum sheaf__config_id id);      /* INT, BOOL, CHOICE */
double sheaf__config_seconds(enum sheaf__config_id id);   /* SECONDS */
bool sheaf__config_is_set(enum sheaf__config_id id);      /* given, not the default */

/* Number of cores this context may use: SHEAF_THREADS, or what base/cpu.h counts. At least 1. */
int sheaf__config_threads(void);

/* Reads all values from the current environment of `context` (base/context.c). The first bad one is
 * the error. */
sheaf_status sheaf__config_load(sheaf_context *context, sheaf_error *err);

#endif
