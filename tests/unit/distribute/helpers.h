/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_DISTRIBUTE_HELPERS_H
#define SHEAF_TEST_DISTRIBUTE_HELPERS_H

/* What the tests of strategies share: a mirrored strategy over some replicas, values from arrays, clusters of tasks in one
 * process. */

#include "rig.h"

#include <sheaf/sheaf.h>

struct sheaf__fs;

/* A MirroredStrategy over `replicas` logical devices. */
sheaf_strategy *mirrored(int replicas);
/* A strategy by name. */
sheaf_strategy *strategy(const char *name);

/* In a task: a strategy by name over `replicas` logical devices. NULL with task->err. */
sheaf_strategy *strategy_of_task(struct rig_task *task, const char *name, int replicas);

/* A PerReplica of float32 vectors: counts[r] elements for replica r, one after the other from `data`. */
sheaf_values *floats(const float *data, const int *counts, int replicas);
/* The only tensor of a result. */
sheaf_tensor *only(const sheaf_element *e);

/* A checkpoint that is whole. */
sheaf_bundle *open_bundle(const char *path);

#define assert_floats(t, ...)                           \
    assert_floats_at((t), (const float[]){__VA_ARGS__}, \
                     sizeof((const float[]){__VA_ARGS__}) / sizeof(float), __FILE__, __LINE__)
void assert_floats_at(const sheaf_tensor *t, const float *expected, size_t count, const char *file,
                      int line);

/* Runs `fn` in every task of a cluster of jobs, in one process: TF_CONFIG is set in each task's environment, and a hub
 * stands for the network. Tasks of job "ps" serve, unless the cluster only names them. `user` is task->user. */
struct jobs {
    int chief, worker, ps;
    bool ps_absent;
    const struct sheaf__fs *disk; /* of the last ps; NULL: the system's */
    const char *ps_fails;         /* with such an error; NULL: every ps ends well */
};
void run_cluster(struct jobs jobs, sheaf_status (*fn)(struct rig_task *task), void *user,
                 double seconds);
/* The same in a simulation of that seed (base/sim.h): time is virtual. */
void simulate_cluster(uint64_t seed, struct jobs jobs, sheaf_status (*fn)(struct rig_task *task),
                      void *user, double seconds);

#endif
