/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"
#include "cli/bench_mlp.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* From the start of a process to the end of its first training step: the child tells the time at
 * which it got there by the clock that all processes share. The first start is not counted: it
 * warms the page cache. */

enum { STARTS = 20, BATCH = 32 };

extern char **environ;

static int child(void)
{
    struct sheaf__mlp m;
    sheaf_error err = {0};
    double loss;
    if (sheaf__mlp_make(&m, "sgd", BATCH, &err) < 0 || sheaf__mlp_step(&m, &loss, &err) < 0)
        return sheaf__bench_failed(&err);
    printf("%.9f\n", sheaf__bench_now());
    fflush(stdout);
    sheaf__mlp_free(&m);
    return 0;
}

/* Seconds until the child's first step was done; negative after saying what failed. */
static double start_once(void)
{
    char self[] = "/proc/self/exe", bench[] = "bench", inside[] = "--inside", name[] = "start";
    char *arguments[] = {self, bench, inside, name, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], status;
    pid_t pid;
    double end = -1;
    if (pipe(ends) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    double begin = sheaf__bench_now();
    int code = posix_spawn(&pid, self, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    if (code == 0) {
        if (!from || fscanf(from, "%lf", &end) != 1)
            end = -1;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    } else {
        fprintf(stderr, "sheaf bench: cannot start a process: %s\n", strerror(code));
    }
    if (from)
        fclose(from);
    return end < 0 ? -1 : end - begin;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int sheaf__bench_start(const struct sheaf__bench_options *options)
{
    double seconds[STARTS];
    if (options->inside)
        return child();
    for (int i = -1; i < STARTS; i++) {
        double s = start_once();
        if (s < 0)
            return 1;
        if (i >= 0)
            seconds[i] = s;
    }
    qsort(seconds, STARTS, sizeof(*seconds), ascending);
    sheaf__bench_print((seconds[STARTS / 2 - 1] + seconds[STARTS / 2]) / 2 * 1e3, "ms",
                       "start to first step MLP 784-512-512-10 batch %d", BATCH);
    return 0;
}
