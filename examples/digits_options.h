/* SPDX-License-Identifier: Apache-2.0 */

/** @file
 *  The command line of digits.c, what it prints, and how it is stopped. */

#include <errno.h>
#include <getopt.h>
#include <sheaf/sheaf.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *data, *out, *strategy, *optimizer;
    double learning_rate;
    int replicas, epochs, json, account, predict;
    int64_t seed;
} o = {.data = "examples/data", .out = "run", .optimizer = "adam", .epochs = 30, .seed = 1};

static const char usage[] =
    "usage: digits [--data DIR] [--out DIR] [--strategy one|mirrored|multiworker|ps] [--replicas "
    "N]\n"
    "              [--epochs N] [--seed N] [--optimizer NAME] [--learning-rate X]\n"
    "              [--account] [--json] [--predict]\n"
    "  --data DIR         TFRecords of the digits (examples/data)\n"
    "  --out DIR          checkpoints and TensorBoard events; continues from the newest one there "
    "(run)\n"
    "  --strategy NAME    default: what the cluster says\n"
    "  --optimizer NAME   sgd, momentum, adam (the default), adagrad, rmsprop, ftrl, adadelta,\n"
    "                     adamax, nadam or lion\n"
    "  --learning-rate X  default: what suits the optimizer\n"
    "  --replicas N       split this machine into N logical devices, a replica each\n"
    "  --account          after each epoch, print what was read of each file by each worker\n"
    "  --predict          classify the test file with the newest checkpoint, without a cluster\n"
    "  --json             print the summary, or what a checkpoint is worth, as one JSON object on "
    "the\n"
    "                     last line; NaN and Infinity are strings there\n";

#define TEST_FILE "digits-test.tfrecord"

/* Learning rates that suit this task; of others the optimizer's own. */
static double suitable_rate(const char *optimizer)
{
    static const struct {
        const char *optimizer;
        double rate;
    } rates[] = {{"sgd", 0.3},     {"momentum", 0.05}, {"adam", 0.003},  {"adagrad", 0.1},
                 {"ftrl", 0.3},    {"adadelta", 1},    {"nadam", 0.003}, {"adamax", 0.005},
                 {"lion", 0.0005}, {"rmsprop", 0.001}};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        if (strcmp(optimizer, rates[i].optimizer) == 0)
            return rates[i].rate;
    return 0;
}

/* What was printed must have arrived for `code` to be 0. */
static int check_output(int code)
{
    errno = 0;
    if (code != 0 || (fflush(stdout) == 0 && !ferror(stdout)))
        return code;
    fprintf(stderr, "digits: cannot write to standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return 1;
}

static void misused(const char *option, const char *found, const char *expected)
{
    fprintf(stderr, "digits: %s is \"%s\", expected %s\n", option, found, expected);
    exit(2);
}

static int64_t whole_number(const char *option, const char *text, int64_t least)
{
    char *end;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end || number < least || number > INT32_MAX)
        misused(option, text, least > 0 ? "a whole number above 0" : "a whole number from 0 on");
    return number;
}

static double rate_of(const char *option, const char *text)
{
    char *end;
    const double number = strtod(text, &end);
    if (end == text || *end || !(number > 0 && number < 1e6))
        misused(option, text, "a number above 0 and below 1e6");
    return number;
}

static void parse_options(int argc, char **argv)
{
    static const struct option options[] = {{"data", 1, NULL, 'd'},
                                            {"out", 1, NULL, 'o'},
                                            {"strategy", 1, NULL, 's'},
                                            {"replicas", 1, NULL, 'r'},
                                            {"epochs", 1, NULL, 'e'},
                                            {"seed", 1, NULL, 'x'},
                                            {"optimizer", 1, NULL, 'p'},
                                            {"learning-rate", 1, NULL, 'l'},
                                            {"json", 0, &o.json, 1},
                                            {"predict", 0, &o.predict, 1},
                                            {"account", 0, &o.account, 1},
                                            {"help", 0, NULL, 'h'},
                                            {0}};
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (c) {
        case 0:
            break;
        case 'd':
            o.data = optarg;
            break;
        case 'o':
            o.out = optarg;
            break;
        case 's':
            o.strategy = optarg;
            break;
        case 'r':
            o.replicas = (int)whole_number("--replicas", optarg, 1);
            break;
        case 'e':
            o.epochs = (int)whole_number("--epochs", optarg, 1);
            break;
        case 'x':
            o.seed = whole_number("--seed", optarg, 0);
            break;
        case 'p':
            o.optimizer = optarg;
            break;
        case 'l':
            o.learning_rate = rate_of("--learning-rate", optarg);
            break;
        default:
            fputs(usage, c == 'h' ? stdout : stderr);
            exit(c == 'h' ? check_output(0) : 2);
        }
    }
    if (optind < argc)
        misused("an argument", argv[optind], "options only");
    if (o.learning_rate == 0)
        o.learning_rate = suitable_rate(o.optimizer);
}

static volatile sig_atomic_t stopped_by;
static bool saved_early;  /* as the job was asked to stop */
enum { CALL_AGAIN = 75 }; /* exit code then: the next run goes on (EX_TEMPFAIL of sysexits.h) */

static void stop(int number)
{
    stopped_by = number;
    sheaf_stop();
}

/* Ctrl-C and the like, to any task, end the job in order: with a checkpoint of the step that it has reached. The second one
 * ends it without. Either way no half of a checkpoint stays. */
static void stop_on_signals(void)
{
    const struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static bool goes_on(const sheaf_checkpoint_manager *manager, sheaf_dist_dataset *data)
{
    return !sheaf_manager_stopped(manager) && sheaf_dist_dataset_passes(data) < o.epochs;
}

/* Tells the user and the other tasks of an error, and gives the exit code. What a signal has stopped has none to tell of; who
 * only follows, as an evaluator does, is through then. */
static int tell(const sheaf_error *err, bool works)
{
    if (stopped_by && err->status < 0)
        return works;
    return err->status >= 0 && saved_early ? CALL_AGAIN : sheaf_error_exit(err);
}

/* The exit code of main. What a signal has kept from its end dies of that. */
static int finish(int code)
{
    if (stopped_by && code != 0 && code != CALL_AGAIN) {
        signal(stopped_by, SIG_DFL);
        raise(stopped_by);
    }
    return check_output(code);
}

/* Path of a file of the data directory; valid until the next call. */
static const char *in_data(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", o.data, name);
    return path;
}

/* Who evaluates at the end would rather know now that it cannot. That there is no data at all is for the training to say. */
static sheaf_status look_for_test_file(const sheaf_strategy *s, sheaf_error *err)
{
    const char *path = in_data(TEST_FILE);
    if (!sheaf_strategy_should_checkpoint(s) || access(o.data, F_OK) < 0 || access(path, R_OK) == 0)
        return SHEAF_OK;
    return sheaf_error_set(err, SHEAF_ERR_NOT_FOUND, "cannot read '%s': %s", path, strerror(errno));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A line that is seen at once, also in a pipe. */
__attribute__((format(printf, 1, 2))) static void show(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* The job was asked to stop: every worker's exit code says so, and a line of the one that saved. */
static bool tell_if_stopped(const sheaf_checkpoint_manager *manager, const sheaf_strategy *s,
                            int64_t step, const char *checkpoint)
{
    saved_early = sheaf_manager_stopped(manager);
    if (saved_early && sheaf_strategy_should_checkpoint(s))
        show("stopped at step %lld, saved as %s", (long long)step, checkpoint);
    return saved_early;
}

/* A point of a curve in TensorBoard; the first one opens a file for them. */
static sheaf_status point(sheaf_event_writer **events, const char *tag, int64_t step, double value,
                          sheaf_error *err)
{
    if (!*events && sheaf_event_writer_open(o.out, events, err) < 0)
        return err->status;
    return sheaf_event_scalar(*events, tag, step, value, err);
}

/* After an epoch: every worker asks what became of the data; the task that saves makes a line of it, and a point. */
static sheaf_status report(sheaf_strategy *s, sheaf_dist_dataset *data, sheaf_event_writer **events,
                           int64_t step, double loss, sheaf_error *err)
{
    SHEAF_FRAME
    {
        sheaf_account account;
        if (sheaf_dist_dataset_account(data, &account, err) < 0 ||
            !sheaf_strategy_should_checkpoint(s))
            return err->status;
        show("epoch %lld step %lld loss %.4f, %s", (long long)sheaf_dist_dataset_passes(data),
             (long long)step, loss, sheaf_account_str(&account));
        if (o.account)
            printf("%s", sheaf_account_files_str(&account));
    }
    return point(events, "loss", step, loss, err);
}

/* A number as JSON, also one that is not finite. */
static const char *json_number(double number)
{
    return sheaf_json_str(sheaf_float((float)number));
}

/* What came of it; the rate is 0 if no step was left to be made. */
static void summary(int64_t steps, double rate, double loss, const char *checkpoint,
                    double accuracy)
{
    const bool made = rate > 0;
    if (!made)
        show("nothing to do: %s has reached step %lld", o.out, (long long)steps);
    if (o.json) {
        printf("{\"steps\": %lld, \"examples_per_second\": %s, \"loss\": %s, \"checkpoint\": %s, "
               "\"accuracy\": %.4f}\n",
               (long long)steps, made ? json_number(rate) : "null",
               made ? json_number(loss) : "null", sheaf_json_str(sheaf_string(checkpoint)),
               accuracy);
        return;
    }
    printf("steps %lld\n", (long long)steps);
    if (made)
        printf("examples/s %.0f\nloss %.4f\n", rate, loss);
    printf("checkpoint %s\naccuracy %.4f\n", checkpoint, accuracy);
}

/* Shows what a checkpoint is worth. Whether that was all. */
static bool evaluated(const char *checkpoint, double accuracy)
{
    SHEAF_FRAME
    {
        if (o.json)
            show("{\"checkpoint\": %s, \"accuracy\": %.4f}",
                 sheaf_json_str(sheaf_string(checkpoint)), accuracy);
        else
            show("%s accuracy %.4f", checkpoint, accuracy);
    }
    return o.predict;
}

static sheaf_status nothing_to_train_on(sheaf_error *err)
{
    return sheaf_error_set(err, SHEAF_ERR_INVALID_ARGUMENT, "no example to train on in %s", o.data);
}

/* There was something to train on, or no time for it. */
static sheaf_status check_steps(const sheaf_checkpoint_manager *manager, int64_t step,
                                sheaf_error *err)
{
    return step > 0 || sheaf_manager_stopped(manager) ? SHEAF_OK : nothing_to_train_on(err);
}

static sheaf_status nothing_to_evaluate(sheaf_error *err)
{
    return sheaf_error_set(err, SHEAF_ERR_INVALID_ARGUMENT, "no example to evaluate in %s",
                           in_data(TEST_FILE));
}
