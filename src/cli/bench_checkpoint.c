/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <sheaf/sheaf.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Checkpoints of 1 GiB in few tensors, and of many small ones: saved, and restored into the same variables. Every work is
 * done twice and the second time counts, when memory is touched and files are in the page cache; what is saved is new
 * each time. */

enum { TIMES = 2 };

struct work {
    const char *name;
    int count;
    sheaf_shape shape;
    enum { SAVES, RESTORES, SAVES_BEHIND } does;
    bool fsync;
};

#define LARGE .count = 64, .shape = {.rank = 2, .dims = {1024, 4096}}
#define SMALL .count = 100000, .shape = {.rank = 1, .dims = {256}}

static const struct work WORKS[] = {
    {"save 64x16MiB", LARGE, .fsync = true},
    {"save 64x16MiB, none with fsync", LARGE},
    {"save 64x16MiB, all with fsync", LARGE, .fsync = true},
    {"background save 64x16MiB, time blocked", LARGE, .does = SAVES_BEHIND},
    {"restore 64x16MiB", LARGE, .does = RESTORES},
    {"save 100000x1KiB, none with fsync", SMALL},
    {"save 100000x1KiB, all with fsync", SMALL, .fsync = true},
    {"restore 100000x1KiB", SMALL, .does = RESTORES},
};
enum { WORK_COUNT = sizeof(WORKS) / sizeof(WORKS[0]) };

struct model {
    sheaf_variable **variables;
    int count;
    sheaf_checkpoint *checkpoint;
    sheaf_checkpoint_manager *manager; /* of saves in the background */
};

static void model_make(struct model *m, const struct work *w)
{
    char name[24];
    m->variables = calloc((size_t)w->count, sizeof(sheaf_variable *));
    m->checkpoint = sheaf_checkpoint_new();
    for (m->count = 0; m->variables && m->count < w->count; m->count++) {
        snprintf(name, sizeof(name), "v%d", m->count);
        sheaf_variable *v = sheaf_variable_init(
            name, SHEAF_FLOAT32, w->shape, sheaf_init_uniform(0, 1, (uint64_t)m->count + 1), NULL);
        sheaf_checkpoint_add_variable(m->checkpoint, name, v);
        m->variables[m->count] = v;
    }
}

static void model_free(struct model *m)
{
    sheaf_checkpoint_manager_free(m->manager);
    sheaf_checkpoint_free(m->checkpoint);
    for (int i = 0; i < m->count; i++)
        sheaf_variable_free(m->variables[i]);
    free(m->variables);
}

static void remove_files(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char names[3][4200];
    snprintf(names[0], sizeof(names[0]), "%.4100s.index", path);
    snprintf(names[1], sizeof(names[1]), "%.4100s.data-00000-of-00001", path);
    snprintf(names[2], sizeof(names[2]), "%.*s.%.90s.sheaf", (int)(base - path), path, base);
    for (int i = 0; i < 3; i++)
        unlink(names[i]);
}

/* That of saves in the background. */
static void remove_folder(const char *path)
{
    static const char *const others[] = {"checkpoint", ".sheaf-bench.lock"};
    char name[4200];
    for (int i = 1; i <= TIMES; i++) {
        snprintf(name, sizeof(name), "%.4000s-d/sheaf-bench-%d", path, i);
        remove_files(name);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "%.4000s-d/%s", path, others[i]);
        unlink(name);
    }
    snprintf(name, sizeof(name), "%.4000s-d", path);
    rmdir(name);
}

static sheaf_status act(const struct work *w, const struct model *m, const char *path,
                        sheaf_error *err)
{
    if (w->does == RESTORES)
        return sheaf_checkpoint_restore(m->checkpoint, path, err);
    return w->does == SAVES ? sheaf_checkpoint_write(m->checkpoint, path, NULL, err)
                            : sheaf_manager_save(m->manager, false, NULL, err);
}

/* Seconds that the caller of one save or restore waits. */
static sheaf_status do_once(const struct work *w, const struct model *m, const char *path,
                            double *seconds, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        double begin = sheaf__bench_now();
        status = act(w, m, path, err);
        *seconds = sheaf__bench_now() - begin;
        if (status >= 0 && m->manager)
            status = sheaf_manager_wait(m->manager, err);
    }
    return status;
}

/* What is there before anything is measured. */
static sheaf_status make_ready(const struct work *w, struct model *m, const char *path,
                               sheaf_error *err)
{
    const sheaf_manager_options options = {
        .name = "sheaf-bench", .max_to_keep = 1, .background = true};
    char folder[4200];
    if (w->does == RESTORES)
        return sheaf_checkpoint_write(m->checkpoint, path, NULL, err);
    if (w->does == SAVES)
        return SHEAF_OK;
    snprintf(folder, sizeof(folder), "%.4100s-d", path);
    return sheaf_checkpoint_manager_new(m->checkpoint, folder, &options, &m->manager, err);
}

static sheaf_status measure(const struct work *w, const char *path, sheaf_error *err)
{
    struct model m = {0};
    double gib = (double)w->count * (double)sheaf_shape_elements(w->shape) * 4 / (1 << 30);
    double seconds = 0;
    sheaf_status status = SHEAF_OK;
    model_make(&m, w);
    status = make_ready(w, &m, path, err);
    for (int i = 0; i < TIMES && status >= 0; i++) {
        if (w->does == SAVES)
            remove_files(path);
        status = do_once(w, &m, path, &seconds, err);
    }
    model_free(&m);
    remove_files(path);
    if (w->does == SAVES_BEHIND)
        remove_folder(path);
    if (status >= 0)
        sheaf__bench_print(gib / seconds, "GiB/s", "%s", w->name);
    return status;
}

/* Whether files are synced is a matter of the context. */
static sheaf_status in_context(const struct work *w, const char *path, sheaf_error *err)
{
    char fsync[32], threads[32];
    const char *const environment[] = {fsync, threads, NULL};
    sheaf_context *context;
    snprintf(fsync, sizeof(fsync), "SHEAF_FSYNC=%d", w->fsync);
    snprintf(threads, sizeof(threads), "SHEAF_THREADS=%.16s", sheaf_config_value("SHEAF_THREADS"));
    sheaf_status status =
        sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, err);
    if (status < 0)
        return status;
    sheaf_context *before = sheaf_context_enter(context);
    status = measure(w, path, err);
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

int sheaf__bench_checkpoint(const struct sheaf__bench_options *options)
{
    char path[4200];
    sheaf_error err = {0};
    bool known = !options->work;
    if (mkdir(options->data, 0777) != 0 && errno != EEXIST) {
        sheaf_error_set(&err, SHEAF_ERR_IO, "cannot make the directory %s: %s", options->data,
                        strerror(errno));
        return sheaf__bench_failed(&err);
    }
    snprintf(path, sizeof(path), "%.4000s/sheaf-bench", options->data);
    for (const struct work *w = WORKS; w < WORKS + WORK_COUNT && err.status >= 0; w++) {
        if (options->work && strcmp(options->work, w->name) != 0)
            continue;
        known = true;
        in_context(w, path, &err);
    }
    if (!known)
        sheaf_error_set(&err, SHEAF_ERR_NOT_FOUND, "checkpoint has no work \"%.100s\"",
                        options->work);
    return err.status < 0 ? sheaf__bench_failed(&err) : 0;
}
