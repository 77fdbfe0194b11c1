/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ckpt.h"

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/launch.h"
#include "cli/options.h"

#include <sheaf/context.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

/* sheaf ckpt convert, sheaf ckpt reshard: one file of tensors is read, another is written. */

static struct {
    bool json, deflate;
    int64_t max_size, shards; /* 0: not given */
} o;

#define FILE_NOTES                                                                       \
    "FROM is the prefix of a checkpoint (or its index file), a directory, whose newest " \
    "checkpoint is "                                                                     \
    "meant, a file .safetensors, the .safetensors.index.json of several, or a file .npz\n"
#define TO_NOTES "; one that is there is replaced, but for FROM itself\n"
#define EXIT_NOTES                                                                                \
    "exit codes: 0 it is written; 1 it cannot be read or written, and nothing is there; 2 wrong " \
    "usage; 128 + N signal N ended it, and nothing is there"

/* Says what was written. */
static void report(const sheaf_tensor_file *from, const char *to)
{
    sheaf_tensor_file_entry e;
    size_t count = 0;
    int64_t elements = 0;
    for (; sheaf_tensor_file_get(from, count, &e) == SHEAF_OK; count++)
        elements += sheaf_shape_elements(e.shape);
    if (!o.json) {
        printf("%s: %zu tensor%s, %lld element%s\n", to, count, sheaf__plural((int64_t)count),
               (long long)elements, sheaf__plural(elements));
        return;
    }
    fputs("{\"written\":", stdout);
    sheaf__json_text(to);
    printf(",\"tensors\":%zu,\"elements\":%lld}\n", count, (long long)elements);
}

/* ---- being told to end ---- */

static volatile sig_atomic_t caught; /* the number of the signal */

static void stop(int signal)
{
    caught = signal;
    sheaf_stop();
}

/* The first such signal ends the work, which takes away what is not complete; a second one kills. */
static void catch_signals(void)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESETHAND | SA_RESTART};
    for (size_t i = 0; i < sizeof(SIGNALS) / sizeof(SIGNALS[0]); i++) {
        struct sigaction old;
        if (sigaction(SIGNALS[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(SIGNALS[i], &action, NULL);
    }
}

/* ---- the work ---- */

/* What has to be there for a name to be a file of tensors. */
static bool look_at(const char *path, struct stat *st)
{
    char file[SHEAF__CKPT_PATH + 8];
    const bool checkpoint = !sheaf__ckpt_is_safetensors(path) && !sheaf__ckpt_is_npz(path);
    const int size = snprintf(file, sizeof(file), "%s%s", path, checkpoint ? ".index" : "");
    return size < (int)sizeof(file) && stat(file, st) == 0;
}

static bool are_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether a file that writing to `to` would replace is `from`: what is written may also be the index file of a
 * checkpoint, as `from` may, or with `several` the index of several files. */
static bool would_replace(const char *to, bool several, const struct stat *from)
{
    char index[SHEAF__CKPT_PATH + 16];
    struct stat st;
    const int size = snprintf(index, sizeof(index), "%s.index.json", to);
    return (look_at(to, &st) && are_same(from, &st)) ||
           (stat(to, &st) == 0 && are_same(from, &st)) ||
           (several && size < (int)sizeof(index) && stat(index, &st) == 0 && are_same(from, &st));
}

static sheaf_status check_apart(const char *from, const char *to, bool several, sheaf_error *err)
{
    struct stat st;
    if (look_at(from, &st) && would_replace(to, several, &st))
        return sheaf_error_set(err, SHEAF_ERR_INVALID_ARGUMENT,
                               "'%s' is what is read, expected another name to write to", to);
    return SHEAF_OK;
}

static int convert(const char *name, const char *to, const sheaf_convert_options *options)
{
    sheaf_error err = {0};
    sheaf_tensor_file *from = NULL;
    char path[SHEAF__CKPT_PATH];
    catch_signals();
    sheaf_status status = sheaf__ckpt_resolve(name, path, &err);
    if (status >= 0)
        status = check_apart(path, to, options->max_file_bytes > 0, &err);
    if (status >= 0)
        status = sheaf_tensor_file_open(path, &from, &err);
    if (status >= 0)
        status = sheaf_tensor_file_convert(from, to, options, &err);
    if (status >= 0)
        report(from, to);
    sheaf_tensor_file_free(from);
    if (status >= 0)
        return SHEAF__EXIT_OK;
    const int code = sheaf__ckpt_failed(&err);
    return status == SHEAF_ERR_CANCELLED && caught ? SHEAF__EXIT_SIGNAL + caught : code;
}

/* What the options of sharding mean. */
static sheaf_sharding_callback policy(void)
{
    if (o.max_size > 0)
        return sheaf_shard_max_size(o.max_size);
    if (o.shards > 0)
        return sheaf_shard_round_robin((int)o.shards);
    return *sheaf_shard_all_in_one();
}

/* The two arguments, if the options make sense. */
static bool parse(const struct sheaf__command_line *line, int argc, char **argv, int *rest,
                  int *code)
{
    if (!sheaf__options_parse(line, argc, argv, rest, code))
        return false;
    *code = SHEAF__EXIT_OK;
    if (argc - *rest != 2)
        *code = sheaf__options_misused(line, "%d arguments, expected FROM and TO", argc - *rest);
    else if (o.max_size > 0 && o.shards > 0)
        *code = sheaf__options_misused(line, "--max-size and --shards exclude each other");
    return *code == SHEAF__EXIT_OK;
}

int sheaf__ckpt_convert_main(int argc, char **argv)
{
    static const struct sheaf__option OPTIONS[] = {
        {"max-size", 0, SHEAF__OPTION_BYTES, "BYTES", &o.max_size,
         "safetensors: several files of at most so many bytes, and an index"},
        {"deflate", 0, SHEAF__OPTION_FLAG, NULL, &o.deflate, ".npz: compress the arrays"},
        {"json", 0, SHEAF__OPTION_FLAG, NULL, &o.json, "print JSON"},
    };
    static const struct sheaf__command_line LINE = {
        .command = "sheaf ckpt convert",
        .usage = "[options] FROM TO",
        .summary = "Writes the tensors of FROM to TO in the format that its name says.",
        .options = OPTIONS,
        .option_count = sizeof(OPTIONS) / sizeof(OPTIONS[0]),
        .notes = FILE_NOTES
        "TO is a file .safetensors or .npz, or else the prefix of a checkpoint" TO_NOTES EXIT_NOTES,
    };
    int rest, code;
    if (!parse(&LINE, argc, argv, &rest, &code))
        return code;
    const char *to = argv[rest + 1];
    const bool safetensors = sheaf__ckpt_is_safetensors(to), npz = sheaf__ckpt_is_npz(to);
    if (o.max_size > 0 && !safetensors)
        return sheaf__options_misused(&LINE,
                                      "--max-size is for safetensors; see sheaf ckpt reshard");
    if (o.deflate && !npz)
        return sheaf__options_misused(&LINE, "--deflate is for .npz");
    return convert(argv[rest], to,
                   &(sheaf_convert_options){.max_file_bytes = o.max_size, .deflate = o.deflate});
}

int sheaf__ckpt_reshard_main(int argc, char **argv)
{
    static const struct sheaf__option OPTIONS[] = {
        {"max-size", 0, SHEAF__OPTION_BYTES, "BYTES", &o.max_size,
         "shards of at most so many bytes, cut as TensorFlow's MaxShardSizePolicy cuts"},
        {"shards", 0, SHEAF__OPTION_PARTS, "N", &o.shards,
         "at most N shards, each tensor where the fewest bytes are"},
        {"json", 0, SHEAF__OPTION_FLAG, NULL, &o.json, "print JSON"},
    };
    static const struct sheaf__command_line LINE = {
        .command = "sheaf ckpt reshard",
        .usage = "[options] FROM TO",
        .summary = "Writes the tensors of FROM as checkpoint TO with other shards; without an "
                   "option with one.",
        .options = OPTIONS,
        .option_count = sizeof(OPTIONS) / sizeof(OPTIONS[0]),
        .notes = FILE_NOTES "TO is the prefix of a checkpoint" TO_NOTES EXIT_NOTES,
    };
    int rest, code;
    if (!parse(&LINE, argc, argv, &rest, &code))
        return code;
    const char *to = argv[rest + 1];
    if (sheaf__ckpt_is_safetensors(to) || sheaf__ckpt_is_npz(to))
        return sheaf__options_misused(
            &LINE, "%s is no prefix of a checkpoint; see sheaf ckpt convert", to);
    const sheaf_sharding_callback sharding = policy();
    return convert(argv[rest], to, &(sheaf_convert_options){.sharding = &sharding});
}
