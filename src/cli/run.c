/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/options.h"

#include <sheaf/context.h>
#include <sheaf/device.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 4096, MOST_TASKS = 1024 };

enum { NOT_SAID = -1 };
static struct sheaf__launch_plan plan = {.grace = 5, .counts = {[SHEAF__ROLE_WORKER] = NOT_SAID}};

static const struct sheaf__option OPTIONS[] = {
    {"chief", 'c', SHEAF__OPTION_COUNT, "N", &plan.counts[SHEAF__ROLE_CHIEF],
     "start a chief (0 or 1)"},
    {"worker", 'w', SHEAF__OPTION_COUNT, "N", &plan.counts[SHEAF__ROLE_WORKER],
     "start N workers (1 if nothing is said)"},
    {"ps", 'p', SHEAF__OPTION_COUNT, "N", &plan.counts[SHEAF__ROLE_PS],
     "start N parameter servers"},
    {"evaluator", 'e', SHEAF__OPTION_COUNT, "N", &plan.counts[SHEAF__ROLE_EVALUATOR],
     "start an evaluator (0 or 1)"},
    {"log-dir", 0, SHEAF__OPTION_TEXT, "DIR", &plan.log_dir,
     "add the output to DIR/worker-0.log and so on instead of showing it"},
    {"timeout", 0, SHEAF__OPTION_SECONDS, "S", &plan.timeout, "end all tasks after S seconds"},
    {"grace", 0, SHEAF__OPTION_SECONDS, "S", &plan.grace,
     "let tasks with nothing left to do run S seconds more (5)"},
    {"threads", 't', SHEAF__OPTION_COUNT, "N", &plan.threads,
     "cores for each task (an even share of this machine's)"},
};

static const struct sheaf__command_line LINE = {
    .command = "sheaf run",
    .usage = "[options] [--] PROGRAM [ARGUMENT...]",
    .leads = true,
    .summary =
        "Starts PROGRAM once for every task of a cluster on this machine and waits for all of\n"
        "them. Each finds its place in TF_CONFIG. Output lines are marked with their task; the\n"
        "last line of the chief, else of worker 0, comes last and unmarked.",
    .options = OPTIONS,
    .option_count = sizeof(OPTIONS) / sizeof(OPTIONS[0]),
    .notes = "exit codes: the first of the program's that is not 0; 128 + N if signal N killed the "
             "task;\n2 wrong usage; 124 timeout; 126 or 127 PROGRAM cannot be started; 1 anything "
             "else",
};

/* The tasks that compute share the cores; a machine's limit for containers counts. */
static void share_cores(void)
{
    sheaf_device cpu;
    int64_t trainers = plan.counts[SHEAF__ROLE_CHIEF] + plan.counts[SHEAF__ROLE_WORKER];
    if (plan.threads || getenv("SHEAF_THREADS") || trainers < 2 || sheaf_devices_get(0, &cpu) < 0)
        return;
    plan.threads = cpu.threads / trainers > 1 ? cpu.threads / trainers : 1;
}

/* How many tasks there are: a worker if no task was asked for. */
static int64_t count_tasks(void)
{
    int64_t *worker = &plan.counts[SHEAF__ROLE_WORKER], total = 0;
    const bool said = *worker != NOT_SAID;
    *worker = said ? *worker : 0;
    for (int role = 0; role < SHEAF__ROLES; role++)
        total += plan.counts[role];
    if (total == 0 && !said)
        total = *worker = 1;
    return total;
}

/* What every task would refuse to start with is said once, before any does. */
static bool check_environment(sheaf_error *err)
{
    sheaf_context *context = NULL;
    const bool good = sheaf_context_new(NULL, &context, err) >= 0;
    sheaf_context_free(context);
    return good;
}

int sheaf__run_main(int argc, char **argv)
{
    int rest, code;
    if (!sheaf__options_parse(&LINE, argc, argv, &rest, &code))
        return code;
    if (rest >= argc)
        return sheaf__options_misused(&LINE, "a program to start is missing");
    if (plan.counts[SHEAF__ROLE_CHIEF] > 1 || plan.counts[SHEAF__ROLE_EVALUATOR] > 1)
        return sheaf__options_misused(&LINE, "there can be one chief and one evaluator at most");
    for (int role = 0; role < SHEAF__ROLES; role++)
        if (plan.counts[role] > MOST_TASKS)
            return sheaf__options_misused(&LINE, "%lld tasks of one job, expected at most %d",
                                          (long long)plan.counts[role], MOST_TASKS);
    if (plan.threads > MOST_THREADS)
        return sheaf__options_misused(&LINE, "%lld threads, expected at most %d",
                                      (long long)plan.threads, MOST_THREADS);
    const bool said = plan.counts[SHEAF__ROLE_WORKER] != NOT_SAID;
    if (count_tasks() == plan.counts[SHEAF__ROLE_EVALUATOR])
        return sheaf__options_misused(&LINE, "there is no chief, worker or ps to start");
    if (!said && plan.counts[SHEAF__ROLE_CHIEF] + plan.counts[SHEAF__ROLE_WORKER] == 0)
        return sheaf__options_misused(&LINE, "there is no worker to start beside the ps, expected "
                                             "--worker N (0 if none is wanted)");
    sheaf_error err = {0};
    if (!check_environment(&err)) {
        fprintf(stderr, "sheaf run: %s\n", err.message);
        return SHEAF__EXIT_FAILED;
    }
    plan.program = argv + rest;
    share_cores();
    return sheaf__launch_run(&plan);
}
