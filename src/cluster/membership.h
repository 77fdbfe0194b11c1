/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLUSTER_MEMBERSHIP_H
#define SHEAF_CLUSTER_MEMBERSHIP_H

/* Whom a task has to do with: the tasks of some jobs as a list in the order everybody computes
 * alike (chief, workers, ps, evaluator, each by index), for teams, parameter servers and the lists
 * of peers that net/ admits. */

#include <sheaf/cluster.h>

enum sheaf__member_jobs {
    SHEAF__MEMBER_CHIEF = 1,
    SHEAF__MEMBER_WORKER = 2,
    SHEAF__MEMBER_PS = 4,
    SHEAF__MEMBER_EVALUATOR = 8,
    SHEAF__MEMBER_TEAM = 3, /* those that train: in the order of their worker ids */
};

struct sheaf__member {
    sheaf_task task;
    const char *address; /* lives as long as the cluster */
    bool self;
};

struct sheaf__membership {
    struct sheaf__member *members;
    size_t count;
    size_t self; /* position of this task; `count` if it is none of them */
};

/* The tasks of `jobs`, a set of sheaf__member_jobs. Empty on a machine alone. */
sheaf_status sheaf__membership_make(const sheaf_cluster *c, unsigned jobs,
                                    struct sheaf__membership *membership, sheaf_error *err);
void sheaf__membership_free(struct sheaf__membership *membership);

#endif
