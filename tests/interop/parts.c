/* SPDX-License-Identifier: Apache-2.0 */

/* A job with parameter servers that cut its variables, for check.py: `sheaf run --worker 1 --ps N parts write|read DIR PARTS`.
 * `write` trains three steps, saves the variables alone and with the optimizer, and once more after another step; `read` restores
 * what TensorFlow's ShardedVariables saved, and writes it again. Uses the public headers only. */

#include <sheaf/sheaf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 7, COLUMNS = 3, BIASES = 5 };

static sheaf_error err;

static void must(sheaf_status status)
{
    if (status < 0)
        exit(sheaf_error_exit(&err));
}

struct model {
    sheaf_variable *v[2];
    sheaf_optimizer *optimizer;
    sheaf_checkpoint *variables, *all;
    int step;
};

/* `count` floats first, first + by, … */
static sheaf_tensor *floats(sheaf_shape shape, float first, float by)
{
    float data[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        data[i] = first + (float)i * by;
    return sheaf_tensor_new(SHEAF_FLOAT32, shape, data);
}

static void make(struct model *m, sheaf_strategy *s)
{
    m->optimizer = sheaf_adagrad(&(sheaf_optimizer_options){.learning_rate = 0.125});
    SHEAF_SCOPE(s)
    {
        m->v[0] = sheaf_variable_new("table", floats(SHEAF_SHAPE(ROWS, COLUMNS), 1, 1), NULL);
        m->v[1] = sheaf_variable_new("b", floats(SHEAF_SHAPE(BIASES), -1, 0.5f), NULL);
        must(sheaf_optimizer_build(m->optimizer, m->v, 2, &err));
    }
    m->variables = sheaf_checkpoint_new();
    m->all = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variables(m->variables, m->v, 2);
    sheaf_checkpoint_add_variables(m->all, m->v, 2);
    sheaf_checkpoint_add_optimizer(m->all, "optimizer", m->optimizer);
}

/* The gradients of check.py. */
static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    struct model *m = user;
    const float n = (float)m->step++;
    (void)r;
    (void)in;
    (void)out;
    sheaf_tensor *gradients[] = {floats(SHEAF_SHAPE(ROWS, COLUMNS), n - 1, 0.25f),
                                 floats(SHEAF_SHAPE(BIASES), 0.5f - n, 0.5f)};
    return sheaf_optimizer_apply(m->optimizer, m->v, gradients, 2, &err);
}

static const char *in(const char *directory, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static void write_all(struct model *m, sheaf_strategy *s, const char *directory)
{
    const sheaf_sharding_callback small = sheaf_shard_max_size(20);
    const sheaf_checkpoint_options options = {.sharding = &small};
    for (int i = 0; i < 3; i++)
        must(sheaf_run(s, step, m, NULL, NULL, &err));
    must(sheaf_checkpoint_write(m->variables, in(directory, "parts-only"), NULL, &err));
    must(sheaf_checkpoint_write(m->all, in(directory, "parts-all"), NULL, &err));
    must(sheaf_checkpoint_write(m->all, in(directory, "parts-small"), &options, &err));
    must(sheaf_run(s, step, m, NULL, NULL, &err));
    must(sheaf_checkpoint_write(m->variables, in(directory, "parts-after"), NULL, &err));
}

static void read_all(struct model *m, const char *directory)
{
    must(sheaf_checkpoint_restore(m->variables, in(directory, "tf-parts"), &err));
    must(sheaf_checkpoint_write(m->variables, in(directory, "back-parts"), NULL, &err));
}

int main(int argc, char **argv)
{
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    struct model m = {0};
    if (argc != 4)
        return 2;
    must(sheaf_cluster_resolve(NULL, &cluster, &err));
    if (strcmp(sheaf_cluster_task_type(cluster), "ps") == 0) {
        must(sheaf_server_run(cluster, NULL, &err));
        sheaf_cluster_free(cluster);
        return 0;
    }
    const sheaf_strategy_options options = {.variable_partitioner =
                                                sheaf_partitioner_fixed(atoi(argv[3]))};
    must(sheaf_strategy_new("ps", cluster, &options, &s, &err));
    make(&m, s);
    if (strcmp(argv[1], "write") == 0)
        write_all(&m, s, argv[2]);
    else
        read_all(&m, argv[2]);
    must(sheaf_strategy_join(s, 0, &err));
    sheaf_checkpoint_free(m.variables);
    sheaf_checkpoint_free(m.all);
    sheaf_optimizer_free(m.optimizer);
    sheaf_variable_free(m.v[0]);
    sheaf_variable_free(m.v[1]);
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    return 0;
}
