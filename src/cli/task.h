/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_TASK_H
#define SHEAF_CLI_TASK_H

/* One task of a launched cluster: its place, its process, its output. */

#include "cli/guard.h"
#include "cli/relay.h"

#include <signal.h>
#include <sys/types.h>

enum sheaf__role {
    SHEAF__ROLE_CHIEF,
    SHEAF__ROLE_WORKER,
    SHEAF__ROLE_PS,
    SHEAF__ROLE_EVALUATOR,
    SHEAF__ROLES
};
extern const char *const sheaf__role_names[SHEAF__ROLES];

struct sheaf__launched {
    char name[32]; /* "worker:0" */
    enum sheaf__role role;
    int index;
    uint16_t port;   /* 0: an evaluator, which nobody calls */
    char *tf_config; /* "TF_CONFIG={…}" */
    char prefix[64];
    FILE *log; /* NULL: output goes to the launcher's */
    pid_t pid; /* also its process group; 0: not started */
    bool ended;
    bool noted;  /* its end has been dealt with */
    bool untold; /* it has failed, and that is not said yet */
    int halted;  /* the signal that somebody has stopped it with (SIGSTOP), 0: it runs */
    int wait_status;
    bool stopped;    /* was asked to end by the launcher: how it ends does not count */
    int64_t kill_at; /* when patience ends, monotonic ms; 0: never */
    int64_t term_at; /* when it is asked to end; 0: never */
    struct sheaf__relay out, err;
};

/* What all tasks of a launch have in common. */
struct sheaf__launch_common {
    char *const *program;     /* argv of the program, NULL-terminated */
    const char *variables[6]; /* "NAME=value" beside TF_CONFIG, NULL-terminated */
    const struct sheaf__guard *guard;
    const sigset_t *mask; /* signals as the launcher's caller had them */
};

/* Starts the process: a guarded group of its own that dies with the launcher, standard input empty,
 * output piped to the relays. Returns 0, or the errno value of what failed, exec included. */
int sheaf__task_start(struct sheaf__launched *task, const struct sheaf__launch_common *common);

/* Sends a signal to its group, if it runs. */
void sheaf__task_signal(const struct sheaf__launched *task, int signal);

/* Looks whether it is stopped, and whether it has ended; if it has, kills what it has left behind
 * in its group and reaps it. */
void sheaf__task_reap(struct sheaf__launched *task);

/* As a shell counts: the exit code, or 128 + the signal. */
int sheaf__task_code(const struct sheaf__launched *task);

#endif
