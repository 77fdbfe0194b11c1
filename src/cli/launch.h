/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_LAUNCH_H
#define SHEAF_CLI_LAUNCH_H

/* A cluster of processes on this machine, from its start to its end. */

#include "cli/guard.h"
#include "cli/launch_say.h"
#include "cli/orphans.h"
#include "cli/secret.h"
#include "cli/task.h"

#include <signal.h>

/* What a task ends with that was asked to end and has saved (EX_TEMPFAIL): it is no failure. */
enum { SHEAF__EXIT_CALL_AGAIN = 75 };

/* Exit codes of `sheaf run` besides the program's own. */
enum {
    SHEAF__EXIT_TIMEOUT = 124,
    SHEAF__EXIT_NOT_EXECUTABLE = 126,
    SHEAF__EXIT_NOT_FOUND = 127,
    SHEAF__EXIT_SIGNAL = 128, /* + the signal's number */
};

struct sheaf__launch_plan {
    int64_t counts[SHEAF__ROLES];
    const char *log_dir; /* NULL: on the launcher's output */
    double timeout;      /* seconds; 0: none */
    double grace;        /* seconds a task gets to end by itself when nothing is left to do */
    bool bare;           /* output lines are not marked, none is held back */
    int64_t threads;     /* SHEAF_THREADS of every task; 0: not set */
    char *const *program;
};

struct sheaf__launch {
    const struct sheaf__launch_plan *plan;
    struct sheaf__launched *tasks;
    int count;
    struct sheaf__guard guard;
    struct sheaf__orphans orphans;
    struct sheaf__run_secret secret;
    struct sheaf__said said;
    sigset_t mask; /* as the caller had it */
    int signals;   /* signalfd */
    int code;      /* first exit code that was not 0 */
};

/* Starts all tasks, watches them to their end and returns the exit code. */
int sheaf__launch_run(const struct sheaf__launch_plan *plan);

/* Watches the started tasks until all have ended (supervise.c). */
void sheaf__supervise(struct sheaf__launch *launch);

#endif
