/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_GUARD_H
#define SHEAF_CLI_GUARD_H

/* A small process beside the launcher that outlives it: should the launcher be killed in a way it
 * cannot answer, the guard kills the tasks' process groups and removes the file with the secret. */

#include "cli/secret.h"

#include <sys/types.h>

struct sheaf__guard {
    pid_t pid;
    int socket; /* the guard sees its end when the launcher is gone */
};

/* Before any task is started and the files of `secret` are made, which it removes in the end. Returns 0 or an errno value. */
int sheaf__guard_start(struct sheaf__guard *guard, const struct sheaf__run_secret *secret);
/* The process group is guarded from now on, or no more. */
void sheaf__guard_add(const struct sheaf__guard *guard, pid_t group);
void sheaf__guard_remove(const struct sheaf__guard *guard, pid_t group);
/* Kills what is left of all groups and ends the guard. */
void sheaf__guard_finish(struct sheaf__guard *guard);

#endif
