/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_ORPHANS_H
#define SHEAF_CLI_ORPHANS_H

/* Processes that tasks left behind: the launcher's children once their parents end. Not among them are the children that
 * it has from before: a shell that became the launcher (`exec sheaf run … > >(tee log)`) leaves it its own. */

#include <stdbool.h>
#include <sys/types.h>

struct sheaf__orphans {
    pid_t *others; /* children from before the tasks, the guard among them; 0 for one that ended */
    int other_count;
    bool taken; /* whether orphans come to this process */
};

/* Before the first task and after the guard is started. Returns 0 or an errno value. */
int sheaf__orphans_take(struct sheaf__orphans *o);
/* Reaps a child that ended and is no task. */
void sheaf__orphans_reap(struct sheaf__orphans *o, pid_t pid);
/* Kills all there are, when every task has ended, and frees the list. */
void sheaf__orphans_kill(struct sheaf__orphans *o);

#endif
