/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLUSTER_CHECK_H
#define SHEAF_CLUSTER_CHECK_H

/* The rules for a whole cluster and this task's place in it, the same for every source and before
 * anything is opened (R6.36, R6.37). */

#include "format/tf_config.h"

/* Checks the names of the jobs, how many tasks they may have, every address, that none occurs
 * twice, be it under another name (which may look names up), and that the task is one of them.
 * `source` begins the messages. */
sheaf_status sheaf__check_cluster(const struct sheaf__tf_config *config, const char *source,
                                  sheaf_error *err);

/* The job of that name, NULL if there is none; `config` may be NULL (no cluster). */
const struct sheaf__tf_config_job *sheaf__check_find_job(const struct sheaf__tf_config *config,
                                                         const char *name);
/* Its task with that index, NULL if there is none; `job` may be NULL. */
const struct sheaf__tf_config_task *sheaf__check_find_task(const struct sheaf__tf_config_job *job,
                                                           int32_t index);

#endif
