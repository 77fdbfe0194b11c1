/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct sheaf__bench_options o;

static const struct bench {
    const char *name;
    int (*run)(const struct sheaf__bench_options *options);
    bool needs_data;
    const char *summary;
} BENCHES[] = {
    {"start", sheaf__bench_start, false, "process start to the end of a first training step"},
    {"train", sheaf__bench_train, false, "training steps of an MLP on one device"},
    {"loop", sheaf__bench_loop, false, "a loop of small steps, compiled and eager"},
    {"input", sheaf__bench_input, true, "reading, parsing, batching TFRecords of --data"},
    {"allreduce", sheaf__bench_allreduce, false, "sums over two processes"},
    {"ps", sheaf__bench_ps, false, "pull and push with a parameter server"},
    {"checkpoint", sheaf__bench_checkpoint, true, "writing and reading checkpoints in --data"},
};
enum { BENCH_COUNT = sizeof(BENCHES) / sizeof(BENCHES[0]) };

void sheaf__bench_print(double figure, const char *unit, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("sheaf\t", stdout);
    vprintf(format, args);
    printf(figure >= 1e5 ? "\t%.0f\t%s\n" : "\t%.6g\t%s\n", figure, unit);
    fflush(stdout);
    va_end(args);
}

int sheaf__bench_failed(const sheaf_error *err)
{
    char text[600];
    sheaf_error_format(err, text, sizeof(text));
    fprintf(stderr, "sheaf bench: %s\n", text);
    return SHEAF__EXIT_FAILED;
}

double sheaf__bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int sheaf__bench_launch(const char *name, int workers, int servers,
                        const struct sheaf__bench_options *options)
{
    char self[] = "/proc/self/exe", bench[] = "bench", inside[] = "--inside", data[4200];
    char copy[32];
    snprintf(copy, sizeof(copy), "%s", name);
    snprintf(data, sizeof(data), "--data=%s", options->data ? options->data : "");
    char *program[] = {self, bench, inside, data, copy, NULL};
    const struct sheaf__launch_plan plan = {
        .counts = {[SHEAF__ROLE_WORKER] = workers, [SHEAF__ROLE_PS] = servers},
        .grace = 5,
        .bare = true,
        .program = program,
    };
    return sheaf__launch_run(&plan);
}

static const struct sheaf__option OPTIONS[] = {
    {"data", 0, SHEAF__OPTION_TEXT, "DIR", &o.data, "folder with input files, or to write to"},
    {"work", 0, SHEAF__OPTION_TEXT, "WORK", &o.work,
     "measure only this work of input or checkpoint"},
    {"inside", 0, SHEAF__OPTION_FLAG, NULL, &o.inside, NULL},
};
static const struct sheaf__command_line LINE = {
    .command = "sheaf bench",
    .usage = "[options] NAME...",
    .summary =
        "Measures sheaf on this machine. Prints lines of four fields with tabs between them:\n"
        "sheaf, work, figure, unit.\n\n"
        "  start       process start to the end of a first training step\n"
        "  train       training steps of an MLP on one device\n"
        "  loop        a loop of small steps, compiled and eager\n"
        "  input       reading, parsing, batching TFRecords of --data\n"
        "  allreduce   sums over two processes\n"
        "  ps          pull and push with a parameter server\n"
        "  checkpoint  writing and reading checkpoints in --data",
    .options = OPTIONS,
    .option_count = sizeof(OPTIONS) / sizeof(OPTIONS[0]),
    .notes = "exit codes: 0 measured; 1 it failed; 2 wrong usage",
};

static int run_one(const char *name)
{
    for (int i = 0; i < BENCH_COUNT; i++)
        if (strcmp(name, BENCHES[i].name) == 0) {
            if (BENCHES[i].needs_data && !o.data)
                return sheaf__options_misused(&LINE, "%s needs --data", name);
            return BENCHES[i].run(&o);
        }
    return sheaf__options_misused(&LINE, "unknown benchmark %s", name);
}

int sheaf__bench_main(int argc, char **argv)
{
    int rest, code;
    if (!sheaf__options_parse(&LINE, argc, argv, &rest, &code))
        return code;
    if (rest >= argc)
        return sheaf__options_misused(&LINE, "the name of a benchmark is missing");
    if (o.data && !*o.data)
        o.data = NULL;
    for (code = SHEAF__EXIT_OK; rest < argc && code == SHEAF__EXIT_OK; rest++)
        code = run_one(argv[rest]);
    return code;
}
