/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_POOL_H
#define SHEAF_BASE_POOL_H

/* A pool of worker threads for short loops and detached jobs. Waiters spin for a short time, then
 * sleep. */

#include "base/thread.h"

struct sheaf__pool;

struct sheaf__pool_options {
    int threads;     /* parallelism of sheaf__pool_run, the caller included; 0: 1 */
    const int *cpus; /* cores of the workers; NULL: anywhere */
    size_t cpu_count;
    int64_t spin_ns;  /* 0: SHEAF_SPIN_US; -1: never spin */
    const char *name; /* of the threads; NULL: "sheaf-pool" */
};

/* threads - 1 workers are started now. One that only runs jobs starts its worker at the first
 * submit. */
sheaf_status sheaf__pool_new(const struct sheaf__pool_options *options, struct sheaf__pool **pool,
                             sheaf_error *err);
/* Waits until every submitted job has run, ends and joins the workers. NULL is nothing. */
void sheaf__pool_free(struct sheaf__pool *pool);
int sheaf__pool_threads(const struct sheaf__pool *pool);

/* Calls fn(i, user) for every i in 0..n-1, each once, on the caller and the workers, and returns
 * when all are done. Memory written before is seen by fn, and what fn writes is seen after. Which
 * thread runs which i is not defined, so results must not depend on it; the caller begins with the first, workers with the
 * last, so that where a loop comes back to the same memory its core is mostly the same, too. Inside fn, or while another
 * thread runs a loop on the pool, the caller does all of it alone: never a deadlock. A NULL pool
 * runs everything on the caller. */
void sheaf__pool_run(struct sheaf__pool *pool, size_t n, void (*fn)(size_t i, void *user),
                     void *user);

/* Lets all loops of the calling thread run on it alone (or no more) and says whether they did before:
 * for threads of which there are as many as cores already. */
bool sheaf__pool_set_alone(bool alone);

/* Runs job->fn(job) once on a worker. The struct is the caller's until fn is entered; fn may free
 * it. Jobs start in order. Does not fail and does not allocate after the first call, which starts a
 * worker if there is none. */
struct sheaf__pool_job {
    void (*fn)(struct sheaf__pool_job *job);
    struct sheaf__pool_job *next;
};
sheaf_status sheaf__pool_submit(struct sheaf__pool *pool, struct sheaf__pool_job *job,
                                sheaf_error *err);

#endif
