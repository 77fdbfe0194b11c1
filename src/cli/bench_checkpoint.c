/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <sheaf/sheaf.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Checkpoints written (durably) and read back: the best of three times, in GiB of tensors a
 * second. */

enum { TIMES = 3 };

struct model {
    sheaf_variable **variables;
    int count;
    sheaf_checkpoint *checkpoint;
};

static void model_make(struct model *m, int count, sheaf_shape shape)
{
    char name[24];
    m->variables = calloc((size_t)count, sizeof(sheaf_variable *));
    m->checkpoint = sheaf_checkpoint_new();
    for (m->count = 0; m->variables && m->count < count; m->count++) {
        snprintf(name, sizeof(name), "v%d", m->count);
        sheaf_variable *v = sheaf_variable_init(
            name, SHEAF_FLOAT32, shape, sheaf_init_uniform(0, 1, (uint64_t)m->count + 1), NULL);
        sheaf_checkpoint_add_variable(m->checkpoint, name, v);
        m->variables[m->count] = v;
    }
}

static void model_free(struct model *m)
{
    sheaf_checkpoint_free(m->checkpoint);
    for (int i = 0; i < m->count; i++)
        sheaf_variable_free(m->variables[i]);
    free(m->variables);
}

static void remove_files(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char names[3][4200];
    snprintf(names[0], sizeof(names[0]), "%s.index", path);
    snprintf(names[1], sizeof(names[1]), "%s.data-00000-of-00001", path);
    snprintf(names[2], sizeof(names[2]), "%.*s.%s.sheaf", (int)(base - path), path, base);
    for (int i = 0; i < 3; i++)
        unlink(names[i]);
}

static sheaf_status measure(const char *path, const char *name, int count, sheaf_shape shape,
                            sheaf_error *err)
{
    struct model m = {0};
    double gib = (double)count * (double)sheaf_shape_elements(shape) * 4 / (1 << 30);
    double write = 0, read = 0;
    sheaf_status status = SHEAF_OK;
    model_make(&m, count, shape);
    for (int i = 0; i < TIMES && status >= 0; i++)
        SHEAF_FRAME
        {
            double begin = sheaf__bench_now();
            status = sheaf_checkpoint_write(m.checkpoint, path, NULL, err);
            double middle = sheaf__bench_now();
            if (status >= 0)
                status = sheaf_checkpoint_restore(m.checkpoint, path, err);
            write = fmax(write, gib / (middle - begin));
            read = fmax(read, gib / (sheaf__bench_now() - middle));
        }
    model_free(&m);
    remove_files(path);
    if (status < 0)
        return status;
    sheaf__bench_print(write, "GiB/s", "checkpoint write %s", name);
    sheaf__bench_print(read, "GiB/s", "checkpoint read %s", name);
    return SHEAF_OK;
}

int sheaf__bench_checkpoint(const struct sheaf__bench_options *options)
{
    char path[4200];
    sheaf_error err = {0};
    if (mkdir(options->data, 0777) != 0 && errno != EEXIST) {
        sheaf_error_set(&err, SHEAF_ERR_IO, "cannot make the directory %s: %s", options->data,
                        strerror(errno));
        return sheaf__bench_failed(&err);
    }
    snprintf(path, sizeof(path), "%.4000s/sheaf-bench", options->data);
    if (measure(path, "64x16MiB", 64, SHEAF_SHAPE(1024, 4096), &err) < 0 ||
        measure(path, "10000x1KiB", 10000, SHEAF_SHAPE(256), &err) < 0)
        return sheaf__bench_failed(&err);
    return 0;
}
