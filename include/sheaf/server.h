/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_SERVER_H
#define SHEAF_SERVER_H

/** @file
 *  The standard server of a task that only serves (S8). */

#include <sheaf/cluster.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_server_options {
    /** seconds without any worker after which the server gives up, up to 1e9; 0: five times SHEAF_DEADLINE_S */
    double deadline;
    uint64_t reserved[4];
} sheaf_server_options;

/** Serves as the ps this task is: listens on its address, until every worker has said goodbye, the job is lost, or
 *  sheaf_stop (which only asks the workers to end, if they save then; sheaf_manager_stopped()). Needs no model code; never opens the kernel library. */
SHEAF_CHECKED sheaf_status sheaf_server_run(sheaf_cluster *c, const sheaf_server_options *options,
                                            sheaf_error *err);

SHEAF_END_DECLS

#endif
