/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ckpt.h"

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/name.h"
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
    "checkpoint is meant; or a file .safetensors (or .safetensors.index.json) or .npz\n"        \
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

static bool ends(const char *text, const char *tail)
{
    const size_t size = strlen(text), part = strlen(tail);
    return size >= part && strcmp(text + size - part, tail) == 0;
}

bool sheaf__ckpt_is_safetensors(const char *path)
{
    return ends(path, ".safetensors") || ends(path, ".safetensors.index.json");
}

bool sheaf__ckpt_is_npz(const char *path)
{
    return ends(path, ".npz");
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
    const bool index = ends(path, ".index");
    if (index)
        path[size - 6] = '\0';
    if (!index && is_missing(path))
        return sheaf_error_set(err, SHEAF_ERR_NOT_FOUND, "no such directory or checkpoint: %s",
                               path);
    return SHEAF_OK;
}

static bool is_checkpoint(const char *path)
{
    return !sheaf__ckpt_is_safetensors(path) && !sheaf__ckpt_is_npz(path);
}

/* ---- list ---- */

/* How wide the columns are, so that they stand below each other. */
struct widths {
    int key, dtype, shape;
};

static const struct widths narrowest = {0, 8, 12};

static int wider(int width, size_t size)
{
    const int most = 100;
    return size < (size_t)most ? (int)size > width ? (int)size : width : most;
}

static void make_room(struct widths *w, const char *key, sheaf_dtype dtype, sheaf_shape shape)
{
    char text[200];
    sheaf_shape_format(shape, text, sizeof(text));
    w->key = wider(w->key, (size_t)sheaf__name_size(key));
    w->dtype = wider(w->dtype, strlen(sheaf_dtype_name(dtype)));
    w->shape = wider(w->shape, strlen(text));
}

/* A shard below 0: it is no checkpoint's, and has none. */
static void print_entry(const sheaf_bundle_entry *e, const struct widths *w)
{
    char shape[200];
    sheaf_shape_format(e->shape, shape, sizeof(shape));
    if (o.json) {
        fputs("{\"key\":", stdout);
        sheaf__json_text(e->key);
        printf(",\"dtype\":\"%s\",\"shape\":[", sheaf_dtype_name(e->dtype));
        for (int i = 0; i < e->shape.rank; i++)
            printf("%s%lld", i ? "," : "", (long long)e->shape.dims[i]);
        printf("],\"bytes\":%lld", (long long)e->bytes);
        if (e->shard >= 0)
            printf(",\"shard\":%d,\"slices\":%d", e->shard, e->slices);
        puts("}");
        return;
    }
    const int size = sheaf__name_print(e->key);
    printf("%*s  %-*s %-*s ", size < w->key ? w->key - size : 0, "", w->dtype,
           sheaf_dtype_name(e->dtype), w->shape, shape);
    if (e->slices)
        printf("%d slice%s\n", e->slices, sheaf__plural(e->slices));
    else if (e->shard >= 0)
        printf("%lld byte%s, shard %d\n", (long long)e->bytes, sheaf__plural(e->bytes), e->shard);
    else
        printf("%lld byte%s\n", (long long)e->bytes, sheaf__plural(e->bytes));
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

/* `bundle` NULL: another format, which has no shards. */
static void print_json_sum(const char *path, const struct sum *sum, const sheaf_bundle *bundle)
{
    const char *policy = sheaf_bundle_description(bundle);
    fputs("{\"checkpoint\":", stdout);
    sheaf__json_text(path);
    printf(",\"tensors\":%zu,\"bytes\":%lld", sum->count, (long long)sum->bytes);
    if (bundle)
        printf(",\"shards\":%d", sheaf_bundle_shards(bundle));
    if (policy) {
        fputs(",\"policy\":", stdout);
        sheaf__json_text(policy);
    }
    puts("}");
}

static void print_sum(const char *path, const sheaf_bundle *bundle, const struct sum *sum)
{
    const char *policy = sheaf_bundle_description(bundle);
    const int shards = sheaf_bundle_shards(bundle);
    if (o.json)
        print_json_sum(path, sum, bundle);
    else
        printf("%s: %zu tensor%s, %lld byte%s, %d shard%s%s%s\n", path, sum->count,
               sheaf__plural((int64_t)sum->count), (long long)sum->bytes, sheaf__plural(sum->bytes),
               shards, sheaf__plural(shards), policy ? ", saved by: " : "", policy ? policy : "");
}

static int print_checkpoint(const char *path, bool entries)
{
    sheaf_error err = {0};
    sheaf_bundle *bundle = NULL;
    if (sheaf_bundle_open(path, &bundle, &err) < 0)
        return sheaf__ckpt_failed(&err);
    sheaf_bundle_entry e;
    struct sum sum = {0};
    struct widths widths = narrowest;
    for (size_t i = 0; entries && sheaf_bundle_get(bundle, i, &e) == SHEAF_OK; i++)
        make_room(&widths, e.key, e.dtype, e.shape);
    while (sheaf_bundle_get(bundle, sum.count, &e) == SHEAF_OK) {
        if (entries)
            print_entry(&e, &widths);
        add_entry(&sum, &e);
    }
    if (!o.json || !entries)
        print_sum(path, bundle, &sum);
    sheaf_bundle_free(bundle);
    return SHEAF__EXIT_OK;
}

/* An entry that cannot be read, and why not. */
static void print_unreadable(sheaf_tensor_file *file, const char *name, int width)
{
    sheaf_error err = {0};
    sheaf_tensor *none;
    if (sheaf_tensor_file_read(file, name, &none, &err) >= 0)
        return;
    if (o.json) {
        fputs("{\"key\":", stdout);
        sheaf__json_text(name);
        fputs(",\"unreadable\":", stdout);
        sheaf__json_text(err.message);
        puts("}");
        return;
    }
    const int size = sheaf__name_print(name);
    printf("%*s  unreadable: %s\n", size < width ? width - size : 0, "", err.message);
}

/* A tensor of another format, told of as one that is stored whole. */
static sheaf_bundle_entry entry_of(const sheaf_tensor_file_entry *e)
{
    return (sheaf_bundle_entry){
        .key = e->name,
        .dtype = e->dtype,
        .shape = e->shape,
        .bytes = e->bytes,
        .shard = -1,
    };
}

static int print_file(const char *path, bool entries)
{
    sheaf_error err = {0};
    sheaf_tensor_file *file = NULL;
    if (sheaf_tensor_file_open(path, &file, &err) < 0)
        return sheaf__ckpt_failed(&err);
    sheaf_tensor_file_entry tensor;
    struct sum sum = {0};
    struct widths widths = narrowest;
    for (size_t i = 0; entries && sheaf_tensor_file_get(file, i, &tensor) == SHEAF_OK; i++)
        make_room(&widths, tensor.name, tensor.dtype, tensor.shape);
    while (sheaf_tensor_file_get(file, sum.count, &tensor) == SHEAF_OK) {
        const sheaf_bundle_entry e = entry_of(&tensor);
        if (entries && e.dtype == SHEAF_INVALID_DTYPE)
            print_unreadable(file, e.key, widths.key);
        else if (entries)
            print_entry(&e, &widths);
        add_entry(&sum, &e);
    }
    if (!o.json)
        printf("%s: %zu tensor%s, %lld byte%s\n", path, sum.count,
               sheaf__plural((int64_t)sum.count), (long long)sum.bytes, sheaf__plural(sum.bytes));
    else if (!entries)
        print_json_sum(path, &sum, NULL);
    sheaf_tensor_file_free(file);
    return SHEAF__EXIT_OK;
}

/* Prints the entries, or only what they come to. */
static int print_index(const char *name, bool entries)
{
    sheaf_error err = {0};
    char path[SHEAF__CKPT_PATH];
    if (sheaf__ckpt_resolve(name, path, &err) < 0)
        return sheaf__ckpt_failed(&err);
    return is_checkpoint(path) ? print_checkpoint(path, entries) : print_file(path, entries);
}

static int list(const char *name)
{
    return print_index(name, true);
}

/* ---- show ---- */

/* Also by the path of its object, "optimizer/_iterations". */
static sheaf_status read_tensor(sheaf_tensor_file *file, const char *key, sheaf_tensor **t,
                                sheaf_error *err)
{
    static const char TAIL[] = "/.ATTRIBUTES/VARIABLE_VALUE";
    char object[1024];
    const sheaf_status status = sheaf_tensor_file_read(file, key, t, err);
    if (status != SHEAF_ERR_NOT_FOUND || strlen(key) + sizeof(TAIL) > sizeof(object))
        return status;
    snprintf(object, sizeof(object), "%s%s", key, TAIL);
    return sheaf_tensor_file_read(file, object, t, NULL) < 0 ? status : SHEAF_OK;
}

static int show(const char *name, const char *const *keys)
{
    if (!*keys)
        return print_index(name, false);
    sheaf_error err = {0};
    sheaf_tensor_file *file = NULL;
    char path[SHEAF__CKPT_PATH];
    int code = SHEAF__EXIT_OK;
    if (sheaf__ckpt_resolve(name, path, &err) < 0 || sheaf_tensor_file_open(path, &file, &err) < 0)
        return sheaf__ckpt_failed(&err);
    for (; *keys && code == SHEAF__EXIT_OK; keys++) {
        sheaf_tensor *t;
        SHEAF_FRAME
        {
            if (read_tensor(file, *keys, &t, &err) < 0) {
                code = sheaf__ckpt_failed(&err);
            } else if (o.json) {
                fputs("{\"key\":", stdout);
                sheaf__json_text(*keys);
                fputs(",\"value\":", stdout);
                fputs(sheaf_json_str(t), stdout);
                puts("}");
            } else {
                sheaf__name_print(*keys);
                printf(": %s\n", sheaf_repr(t));
            }
        }
    }
    sheaf_tensor_file_free(file);
    return code;
}

/* ---- verify ---- */

static int verify_checkpoint(const char *path)
{
    sheaf_error err = {0};
    sheaf_bundle *bundle = NULL;
    if (sheaf_bundle_open(path, &bundle, &err) < 0)
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
        printf("%s: %zu tensor%s in %d shard%s, every checksum is right\n", path, count,
               sheaf__plural((int64_t)count), shards, sheaf__plural(shards));
    }
    sheaf_bundle_free(bundle);
    return code;
}

static void print_verified(const char *path, size_t tensors, size_t others)
{
    printf("%s: %zu tensor%s", path, tensors, sheaf__plural((int64_t)tensors));
    if (others)
        printf(" and %zu member%s that %s none", others, sheaf__plural((int64_t)others),
               others == 1 ? "is" : "are");
    puts(sheaf__ckpt_is_npz(path) ? ", every checksum is right"
                                  : ", every size is right; the format has no checksums");
}

/* What is no tensor is not damaged: it is counted apart. */
static int verify_file(const char *path)
{
    sheaf_error err = {0};
    sheaf_tensor_file *file = NULL;
    if (sheaf_tensor_file_open(path, &file, &err) < 0)
        return sheaf__ckpt_failed(&err);
    sheaf_tensor_file_entry e;
    size_t counts[2] = {0};
    for (size_t i = 0; sheaf_tensor_file_get(file, i, &e) == SHEAF_OK; i++)
        counts[e.dtype == SHEAF_INVALID_DTYPE]++;
    const int code =
        sheaf_tensor_file_verify(file, &err) < 0 ? sheaf__ckpt_failed(&err) : SHEAF__EXIT_OK;
    if (o.json) {
        fputs("{\"checkpoint\":", stdout);
        sheaf__json_text(path);
        printf(",\"tensors\":%zu,\"others\":%zu,\"intact\":%s}\n", counts[0], counts[1],
               code ? "false" : "true");
    } else if (code == SHEAF__EXIT_OK) {
        print_verified(path, counts[0], counts[1]);
    }
    sheaf_tensor_file_free(file);
    return code;
}

static int verify(const char *name)
{
    sheaf_error err = {0};
    char path[SHEAF__CKPT_PATH];
    if (sheaf__ckpt_resolve(name, path, &err) < 0)
        return sheaf__ckpt_failed(&err);
    return is_checkpoint(path) ? verify_checkpoint(path) : verify_file(path);
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
