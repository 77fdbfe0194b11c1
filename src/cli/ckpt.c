/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ckpt.h"

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"

#include <sheaf/bundle.h>
#include <sheaf/frame.h>
#include <sheaf/print.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* sheaf ckpt: the files of a checkpoint. The argument is its prefix ("run/ckpt-3") or a directory,
 * of which the newest checkpoint is meant. */

static struct {
    bool json;
} o;

static const struct sheaf__option OPTIONS[] = {
    {"json", 0, SHEAF__OPTION_FLAG, NULL, &o.json, "print JSON, one object a line"},
};
enum { OPTION_COUNT = sizeof(OPTIONS) / sizeof(OPTIONS[0]) };
#define NOTES                                                                                   \
    "CHECKPOINT is a prefix like run/ckpt-3 (or its index file), or a directory, whose newest " \
    "checkpoint is meant\n"                                                                     \
    "exit codes: 0 all is well; 1 it cannot be read or is damaged; 2 wrong usage"

int sheaf__ckpt_failed(const sheaf_error *err)
{
    char text[600];
    sheaf_error_format(err, text, sizeof(text));
    fflush(stdout);
    fprintf(stderr, "sheaf ckpt: %s\n", text);
    return SHEAF__EXIT_FAILED;
}

/* Whether there is neither a file of this name nor the index of a checkpoint. */
static bool is_missing(const char *prefix)
{
    char index[SHEAF__CKPT_PATH + 8];
    struct stat st;
    snprintf(index, sizeof(index), "%s.index", prefix);
    return stat(index, &st) != 0 && errno == ENOENT && stat(prefix, &st) != 0 && errno == ENOENT;
}

sheaf_status sheaf__ckpt_resolve(const char *name, char path[SHEAF__CKPT_PATH], sheaf_error *err)
{
    struct stat st;
    const char *prefix = name;
    if (stat(name, &st) == 0 && S_ISDIR(st.st_mode)) {
        prefix = sheaf_checkpoint_latest(name);
        if (!prefix)
            return sheaf_error_set(err, SHEAF_ERR_NOT_FOUND, "no checkpoint in directory %s", name);
    }
    int size = snprintf(path, SHEAF__CKPT_PATH, "%s", prefix);
    if (size >= SHEAF__CKPT_PATH)
        return sheaf_error_set(err, SHEAF_ERR_INVALID_ARGUMENT, "a path of %d bytes is too long",
                               size);
    /* The name of the index file is what a shell completes to. */
    const bool index = size > 6 && strcmp(path + size - 6, ".index") == 0;
    if (index)
        path[size - 6] = '\0';
    if (!index && is_missing(path))
        return sheaf_error_set(err, SHEAF_ERR_NOT_FOUND, "no such directory or checkpoint: %s",
                               path);
    return SHEAF_OK;
}

/* Opens what `name` means and writes its prefix to `path`. */
static sheaf_status open_checkpoint(const char *name, char path[SHEAF__CKPT_PATH],
                                    sheaf_bundle **bundle, sheaf_error *err)
{
    const sheaf_status status = sheaf__ckpt_resolve(name, path, err);
    return status < 0 ? status : sheaf_bundle_open(path, bundle, err);
}

/* ---- list ---- */

static void print_entry(const sheaf_bundle_entry *e, int width)
{
    char shape[200];
    sheaf_shape_format(e->shape, shape, sizeof(shape));
    if (o.json) {
        fputs("{\"key\":", stdout);
        sheaf__json_text(e->key);
        printf(",\"dtype\":\"%s\",\"shape\":[", sheaf_dtype_name(e->dtype));
        for (int i = 0; i < e->shape.rank; i++)
            printf("%s%lld", i ? "," : "", (long long)e->shape.dims[i]);
        printf("],\"bytes\":%lld,\"shard\":%d,\"slices\":%d}\n", (long long)e->bytes, e->shard,
               e->slices);
    } else if (e->slices) {
        printf("%-*s  %-8s %-12s %d slices\n", width, e->key, sheaf_dtype_name(e->dtype), shape,
               e->slices);
    } else {
        printf("%-*s  %-8s %-12s %lld bytes, shard %d\n", width, e->key, sheaf_dtype_name(e->dtype),
               shape, (long long)e->bytes, e->shard);
    }
}

/* Length of the longest key, so that the columns stand below each other. */
static int key_width(const sheaf_bundle *bundle)
{
    sheaf_bundle_entry e;
    size_t width = 0;
    for (size_t i = 0; sheaf_bundle_get(bundle, i, &e) == SHEAF_OK; i++)
        if (strlen(e.key) > width)
            width = strlen(e.key);
    return width < 100 ? (int)width : 100;
}

/* What the tensors come to. */
struct sum {
    size_t count;
    int64_t bytes;
};

static void add_entry(struct sum *sum, const sheaf_bundle_entry *e)
{
    sum->count++;
    /* Slices are told by what they make together. */
    sum->bytes += e->bytes >= 0
                      ? e->bytes
                      : sheaf_shape_elements(e->shape) * (int64_t)sheaf_dtype_size(e->dtype);
}

static void print_sum(const char *path, const sheaf_bundle *bundle, const struct sum *sum)
{
    const char *policy = sheaf_bundle_description(bundle);
    const int shards = sheaf_bundle_shards(bundle);
    if (!o.json) {
        printf("%s: %zu tensors, %lld bytes, %d shard%s%s%s\n", path, sum->count,
               (long long)sum->bytes, shards, shards == 1 ? "" : "s", policy ? ", saved by: " : "",
               policy ? policy : "");
        return;
    }
    fputs("{\"checkpoint\":", stdout);
    sheaf__json_text(path);
    printf(",\"tensors\":%zu,\"bytes\":%lld,\"shards\":%d", sum->count, (long long)sum->bytes,
           shards);
    if (policy) {
        fputs(",\"policy\":", stdout);
        sheaf__json_text(policy);
    }
    puts("}");
}

/* Prints the entries, or only what they come to. */
static int print_index(const char *name, bool entries)
{
    sheaf_error err = {0};
    sheaf_bundle *bundle = NULL;
    char path[SHEAF__CKPT_PATH];
    if (open_checkpoint(name, path, &bundle, &err) < 0)
        return sheaf__ckpt_failed(&err);
    sheaf_bundle_entry e;
    struct sum sum = {0};
    const int width = entries ? key_width(bundle) : 0;
    while (sheaf_bundle_get(bundle, sum.count, &e) == SHEAF_OK) {
        if (entries)
            print_entry(&e, width);
        add_entry(&sum, &e);
    }
    if (!o.json || !entries)
        print_sum(path, bundle, &sum);
    sheaf_bundle_free(bundle);
    return SHEAF__EXIT_OK;
}

static int list(const char *name)
{
    return print_index(name, true);
}

/* ---- show ---- */

static int show(const char *name, const char *const *keys)
{
    if (!*keys)
        return print_index(name, false);
    sheaf_error err = {0};
    sheaf_bundle *bundle = NULL;
    char path[SHEAF__CKPT_PATH];
    int code = SHEAF__EXIT_OK;
    if (open_checkpoint(name, path, &bundle, &err) < 0)
        return sheaf__ckpt_failed(&err);
    for (; *keys && code == SHEAF__EXIT_OK; keys++) {
        sheaf_tensor *t;
        SHEAF_FRAME
        {
            if (sheaf_bundle_read(bundle, *keys, &t, &err) < 0) {
                code = sheaf__ckpt_failed(&err);
            } else if (o.json) {
                fputs("{\"key\":", stdout);
                sheaf__json_text(*keys);
                fputs(",\"value\":", stdout);
                fputs(sheaf_json_str(t), stdout);
                puts("}");
            } else {
                printf("%s: %s\n", *keys, sheaf_repr(t));
            }
        }
    }
    sheaf_bundle_free(bundle);
    return code;
}

/* ---- verify ---- */

static int verify(const char *name)
{
    sheaf_error err = {0};
    sheaf_bundle *bundle = NULL;
    char path[SHEAF__CKPT_PATH];
    if (open_checkpoint(name, path, &bundle, &err) < 0)
        return sheaf__ckpt_failed(&err);
    sheaf_bundle_entry e;
    size_t count = 0;
    while (sheaf_bundle_get(bundle, count, &e) == SHEAF_OK)
        count++;
    int shards = sheaf_bundle_shards(bundle);
    int code = sheaf_bundle_verify(bundle, &err) < 0 ? sheaf__ckpt_failed(&err) : SHEAF__EXIT_OK;
    if (o.json) {
        fputs("{\"checkpoint\":", stdout);
        sheaf__json_text(path);
        printf(",\"tensors\":%zu,\"shards\":%d,\"intact\":%s}\n", count, shards,
               code ? "false" : "true");
    } else if (code == SHEAF__EXIT_OK) {
        printf("%s: %zu tensors in %d shard%s, every checksum is right\n", path, count, shards,
               shards == 1 ? "" : "s");
    }
    sheaf_bundle_free(bundle);
    return code;
}

/* ---- the commands ---- */

/* Runs `each` on every argument. */
static int on_all(const struct sheaf__command_line *line, int (*each)(const char *name), int argc,
                  char **argv)
{
    int rest, code;
    if (!sheaf__options_parse(line, argc, argv, &rest, &code))
        return code;
    if (rest >= argc)
        return sheaf__options_misused(line, "a checkpoint is missing");
    code = SHEAF__EXIT_OK;
    for (; rest < argc; rest++)
        if (each(argv[rest]))
            code = SHEAF__EXIT_FAILED;
    return code;
}

static int list_main(int argc, char **argv)
{
    static const struct sheaf__command_line LINE = {
        .command = "sheaf ckpt list",
        .usage = "[options] CHECKPOINT...",
        .summary = "Lists the tensors of checkpoints.",
        .options = OPTIONS,
        .option_count = OPTION_COUNT,
        .notes = NOTES,
    };
    return on_all(&LINE, list, argc, argv);
}

static int verify_main(int argc, char **argv)
{
    static const struct sheaf__command_line LINE = {
        .command = "sheaf ckpt verify",
        .usage = "[options] CHECKPOINT...",
        .summary = "Reads every byte of checkpoints and checks it.",
        .options = OPTIONS,
        .option_count = OPTION_COUNT,
        .notes = NOTES,
    };
    return on_all(&LINE, verify, argc, argv);
}

static int show_main(int argc, char **argv)
{
    static const struct sheaf__command_line LINE = {
        .command = "sheaf ckpt show",
        .usage = "[options] CHECKPOINT [KEY...]",
        .summary = "Prints tensors of a checkpoint; without a key what is in it, which takes its "
                   "index alone.",
        .options = OPTIONS,
        .option_count = OPTION_COUNT,
        .notes = NOTES,
    };
    int rest, code;
    if (!sheaf__options_parse(&LINE, argc, argv, &rest, &code))
        return code;
    if (rest >= argc)
        return sheaf__options_misused(&LINE, "a checkpoint is missing");
    return show(argv[rest], (const char *const *)(argv + rest + 1));
}

int sheaf__ckpt_main(int argc, char **argv)
{
    static const struct sheaf__command COMMANDS[] = {
        {"list", list_main, "list the tensors"},
        {"show", show_main, "print tensors"},
        {"verify", verify_main, "check every byte"},
        {"diff", sheaf__ckpt_diff_main, "compare two"},
        {"convert", sheaf__ckpt_convert_main, "write one in another format: safetensors, .npz"},
        {"reshard", sheaf__ckpt_reshard_main, "write one with other shards"},
    };
    static const struct sheaf__command_set SET = {
        "sheaf ckpt", "Looks into checkpoints, TensorFlow's and sheaf's, and makes others of them.",
        COMMANDS, sizeof(COMMANDS) / sizeof(COMMANDS[0]), NULL};
    return sheaf__commands_dispatch(&SET, argc, argv);
}
