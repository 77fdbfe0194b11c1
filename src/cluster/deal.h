/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLUSTER_DEAL_H
#define SHEAF_CLUSTER_DEAL_H

/* A launcher numbers its processes and knows no jobs: here the numbers become tasks. */

#include "base/array.h"
#include "format/tf_config.h"

/* Deals processes 0, 1, … to the jobs of SHEAF_JOBS ("ps=1,worker=4"; empty: all are workers) in
 * alphabetical order of the jobs (R6.46), so that a chief comes first. `addresses` holds one a
 * process; `rank` is this one. `source` begins the messages. */
sheaf_status sheaf__deal_tasks(const struct sheaf__strings *addresses, int64_t rank,
                               const char *source, struct sheaf__tf_config **config,
                               sheaf_error *err);

#endif
