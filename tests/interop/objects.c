/* SPDX-License-Identifier: Apache-2.0 */

/* Models and their optimizers, for check.py. `objects write DIR` trains a model of two layers three steps, saves it under the
 * names that kinds of Keras models have, and once more after another step; `objects read DIR` restores what TensorFlow saved there,
 * before there is anything to restore into, and writes it again; `objects large DIR` writes T55's tensors. Uses the public
 * headers only. */

#include <sheaf/sheaf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES = 4, MOST = 64 };

static sheaf_error err;

static void must(sheaf_status status)
{
    if (status < 0)
        exit(sheaf_error_exit(&err));
}

static const char *in(const char *directory, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static sheaf_shape shape_of(int i)
{
    const sheaf_shape shapes[VARIABLES] = {SHEAF_SHAPE(4, 5), SHEAF_SHAPE(5), SHEAF_SHAPE(5, 3),
                                           SHEAF_SHAPE(3)};
    return shapes[i];
}

/* Floats first, first + by, … */
static sheaf_tensor *floats(int i, float first, float by)
{
    float data[MOST];
    for (int k = 0; k < MOST; k++)
        data[k] = first + (float)k * by;
    return sheaf_tensor_new(SHEAF_FLOAT32, shape_of(i), data);
}

struct model {
    sheaf_variable *v[VARIABLES];
    sheaf_optimizer *adam;
};

static void make(struct model *m, float first)
{
    static const char *const names[VARIABLES] = {"kernel", "bias", "kernel", "bias"};
    for (int i = 0; i < VARIABLES; i++)
        m->v[i] = sheaf_variable_new(names[i], floats(i, first, first / 4), NULL);
    m->adam = sheaf_adam(&(sheaf_optimizer_options){.learning_rate = 0.125});
}

static void drop(struct model *m)
{
    sheaf_optimizer_free(m->adam);
    for (int i = 0; i < VARIABLES; i++)
        sheaf_variable_free(m->v[i]);
}

/* The gradients of step `n` are those of check.py. */
static void step(struct model *m, int n)
{
    SHEAF_FRAME
    {
        sheaf_tensor *gradients[VARIABLES];
        for (int i = 0; i < VARIABLES; i++)
            gradients[i] = floats(i, (float)n - 1.5f, 0.25f * (float)(i + 1));
        must(sheaf_optimizer_apply(m->adam, m->v, gradients, VARIABLES, &err));
    }
}

/* Under the names of a model whose layers are `layers`. */
static void add(sheaf_checkpoint *c, struct model *m, const char *const *layers)
{
    for (int i = 0; i < VARIABLES; i++) {
        char name[128];
        snprintf(name, sizeof(name), "model/%s/%s", layers[i / 2], i % 2 ? "bias" : "_kernel");
        sheaf_checkpoint_add_variable(c, name, m->v[i]);
    }
}

/* Kinds of models, and how their layers are reached; the input is a layer, too. */
static const struct kind {
    const char *name;
    const char *layers[2];
} kinds[] = {
    {"sequential", {"_functional/_operations/1", "_functional/_operations/2"}},
    {"functional", {"_operations/1", "_operations/2"}},
    {"subclassed", {"first", "second"}},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void write_models(const char *directory)
{
    struct model m;
    make(&m, 1);
    must(sheaf_optimizer_build(m.adam, m.v, VARIABLES, &err));
    for (int n = 0; n < 4; n++) {
        for (int k = 0; k < KINDS && n == 3; k++) {
            char name[64];
            sheaf_checkpoint *c = sheaf_checkpoint_new();
            add(c, &m, kinds[k].layers);
            snprintf(name, sizeof(name), "weights-%s", kinds[k].name);
            must(sheaf_checkpoint_save(c, in(directory, name), NULL, NULL, &err));
            sheaf_checkpoint_add_optimizer(c, "optimizer", m.adam);
            snprintf(name, sizeof(name), "model-%s", kinds[k].name);
            must(sheaf_checkpoint_write(c, in(directory, name), NULL, &err));
            sheaf_checkpoint_free(c);
        }
        step(&m, n);
    }
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    add(c, &m, kinds[2].layers);
    must(sheaf_checkpoint_write(c, in(directory, "model-after"), NULL, &err));
    sheaf_checkpoint_free(c);
    drop(&m);
}

/* Restored before the variables and the slots are there, then trained one step. */
static void read_model(const char *directory, const struct kind *kind)
{
    char name[64];
    struct model m;
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    snprintf(name, sizeof(name), "tf-%s-1", kind->name);
    must(sheaf_checkpoint_restore(c, in(directory, name), &err));
    make(&m, 0);
    add(c, &m, kind->layers);
    sheaf_checkpoint_add_optimizer(c, "optimizer", m.adam);
    step(&m, 3);
    must(sheaf_checkpoint_assert_consumed(c, &err));
    snprintf(name, sizeof(name), "back-%s", kind->name);
    must(sheaf_checkpoint_write(c, in(directory, name), NULL, &err));
    sheaf_checkpoint_free(c);
    drop(&m);
}

/* Three variables a, b and c, by names of objects or of variables. */
static void read_three(const char *directory, const char *from, const char *to)
{
    static const char *const names[] = {"a", "b", "c"};
    sheaf_variable *v[3];
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    for (int i = 0; i < 3; i++) {
        v[i] = sheaf_variable_init(names[i], SHEAF_FLOAT32, SHEAF_SHAPE(4 + i, 3),
                                   sheaf_init_zeros(), NULL);
        sheaf_checkpoint_add_variable(c, names[i], v[i]);
    }
    must(sheaf_checkpoint_restore(c, in(directory, from), &err));
    must(sheaf_checkpoint_assert_consumed(c, &err));
    must(sheaf_checkpoint_write(c, in(directory, to), NULL, &err));
    sheaf_checkpoint_free(c);
    for (int i = 0; i < 3; i++)
        sheaf_variable_free(v[i]);
}

/* Words i * 2654435761 of 32 bits. */
static void fill_large(void *data, const sheaf_initial_part *part, uint64_t seed,
                       const double *args)
{
    const uint64_t size = sheaf_dtype_size(part->dtype), first = part->first * size / 4;
    uint32_t *words = data;
    (void)seed;
    (void)args;
    for (uint64_t i = 0; i < part->count * size / 4; i++)
        words[i] = (uint32_t)(first + i) * 2654435761U;
}

static void write_large(const char *directory, const char *name, sheaf_dtype dtype,
                        sheaf_shape shape)
{
    const sheaf_initializer initializer = {.fill = fill_large, .seed = 1};
    sheaf_variable *w = sheaf_variable_init("w", dtype, shape, initializer, NULL);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(c, "w", w);
    must(sheaf_checkpoint_write(c, in(directory, name), NULL, &err));
    sheaf_checkpoint_free(c);
    sheaf_variable_free(w);
    sheaf_frame_clear();
}

int main(int argc, char **argv)
{
    const char *what = argc == 3 ? argv[1] : "", *directory = argv[argc - 1];
    if (!strcmp(what, "write")) {
        write_models(directory);
    } else if (!strcmp(what, "read")) {
        for (int k = 0; k < KINDS; k++)
            read_model(directory, &kinds[k]);
        read_three(directory, "tf-tasks-1", "back-tasks");
        read_three(directory, "tf-pieces-1", "back-pieces");
        read_three(directory, "tf-saver", "back-saver");
    } else if (!strcmp(what, "large")) {
        write_large(directory, "large-float", SHEAF_FLOAT32, SHEAF_SHAPE(24500000, 22));
        write_large(directory, "large-byte", SHEAF_UINT8, SHEAF_SHAPE(65536, 65536));
    } else {
        fprintf(stderr, "usage: objects write|read|large DIR\n");
        return 2;
    }
    return 0;
}
