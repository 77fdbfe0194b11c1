/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_BENCH_H
#define SHEAF_CLI_BENCH_H

/* Benchmarks: one file each, one row each in the table of bench.c. They use the public functions
 * as any program does. Each prints lines "sheaf<TAB>work<TAB>figure<TAB>unit", whose `work` is the
 * same text as that of the programs it is compared with (bench/peers). */

#include <sheaf/status.h>

struct sheaf__bench_options {
    const char *data; /* folder with input files, or to write to; NULL: not given */
    const char *work; /* the only one of `input` to measure; NULL: all */
    bool inside;      /* this process is a part that the benchmark itself has started */
};

int sheaf__bench_start(const struct sheaf__bench_options *options);
int sheaf__bench_train(const struct sheaf__bench_options *options);
int sheaf__bench_loop(const struct sheaf__bench_options *options);
int sheaf__bench_input(const struct sheaf__bench_options *options);
int sheaf__bench_allreduce(const struct sheaf__bench_options *options);
int sheaf__bench_ps(const struct sheaf__bench_options *options);
int sheaf__bench_checkpoint(const struct sheaf__bench_options *options);

/* ---- what they share ---- */

/* One line. `format` and the rest name the work. */
void sheaf__bench_print(double figure, const char *unit, const char *format, ...)
    SHEAF_PRINTF(3, 4);
/* Says what failed; returns the exit code. */
int sheaf__bench_failed(const sheaf_error *err);
/* Monotonic seconds. */
double sheaf__bench_now(void);
/* Starts this command again as `workers` workers and `servers` parameter servers of a benchmark,
 * each with `inside` set. */
int sheaf__bench_launch(const char *name, int workers, int servers,
                        const struct sheaf__bench_options *options);

#endif
