/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLUSTER_H
#define SHEAF_CLUSTER_H

/** @file
 *  Who is in the job: jobs, tasks, addresses, and this task's place among them.
 *
 *  Found in this order: the argument, TF_CONFIG, Slurm's variables, MPI's, this machine alone; a log line says which. A
 *  cluster is checked as a whole before anything is opened (R6.35–R6.41). Immutable; any thread. NULL as a cluster is a
 *  machine alone: what the default strategy has. */

#include <sheaf/status.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_cluster sheaf_cluster;

/** A cluster given by the program instead of the environment. */
typedef struct sheaf_cluster_options {
    const char *json;      /**< text in the form of TF_CONFIG; NULL: look at the environment */
    const char *task_type; /**< override "task" (R6.43) */
    int32_t task_index;
    bool has_task_index; /**< needed for index 0 alone */
    uint64_t reserved[4];
} sheaf_cluster_options;

/** Resolves the cluster. SHEAF_ERR_INVALID_ARGUMENT names the key, what was found and what was expected: not JSON, no
 *  "cluster", an unknown job or task type, an index out of range, an address that occurs twice, … (S6, T5–T10).
 *  Where tasks have the same port, their names are looked up; one that is unknown here is no error. */
SHEAF_CHECKED sheaf_status sheaf_cluster_resolve(const sheaf_cluster_options *options,
                                                 sheaf_cluster **cluster, sheaf_error *err);
SHEAF_API sheaf_cluster *sheaf_cluster_ref(sheaf_cluster *c);
SHEAF_API void sheaf_cluster_free(sheaf_cluster *c);

/** This task: "worker" and 0; empty and -1 on a machine alone. */
SHEAF_API const char *sheaf_cluster_task_type(const sheaf_cluster *c);
SHEAF_API int32_t sheaf_cluster_task_index(const sheaf_cluster *c);
/** Whether this task is of job `job`. */
SHEAF_API bool sheaf_cluster_is(const sheaf_cluster *c, const char *job);
/** chief, evaluator, or worker 0 where no chief is (R6.38); true on a machine alone. */
SHEAF_API bool sheaf_cluster_is_chief(const sheaf_cluster *c);
/** Where it came from: "argument", "TF_CONFIG", "Slurm", "MPI", "local". */
SHEAF_API const char *sheaf_cluster_source(const sheaf_cluster *c);

/** Jobs in order; NULL past the end. */
SHEAF_API const char *sheaf_cluster_job(const sheaf_cluster *c, size_t i);
/** Tasks of a job, 0 if there is no such job. */
SHEAF_API int32_t sheaf_cluster_tasks(const sheaf_cluster *c, const char *job);
/** Address "host:port" of a task as written; NULL if there is none. */
SHEAF_API const char *sheaf_cluster_address(const sheaf_cluster *c, const char *job, int32_t index);
/** Address of the master with the rpc layer before it (R6.42, R6.43): the task's unless `job` is given. Text of the frame. */
SHEAF_API const char *sheaf_cluster_master(const sheaf_cluster *c, const char *job, int32_t index);
/** chiefs + workers; this task's number among them, chief first (R6.39); -1 if it is none. */
SHEAF_API int32_t sheaf_cluster_workers(const sheaf_cluster *c);
SHEAF_API int32_t sheaf_cluster_worker_id(const sheaf_cluster *c);

SHEAF_END_DECLS

#endif
