/* SPDX-License-Identifier: Apache-2.0 */

#include "tables.h"

#include <string.h>

struct run {
    const struct tables *tables;
    int number;
};

/* Rows of a few parts only, in no order, one of them twice. */
static sheaf_tensor *ids_of(int step)
{
    const int64_t a = (step * 5) % TABLE_ROWS, b = (step * 5 + 2) % TABLE_ROWS;
    const int64_t ids[] = {b, a, b, (a + 1) % TABLE_ROWS};
    return sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2, 2), ids);
}

static sheaf_status step_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    const struct run *run = user;
    const struct tables *t = run->tables;
    (void)r;
    (void)in;
    (void)out;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *rows = sheaf_embedding_lookup(t->v[0], ids_of(run->number));
    sheaf_tensor *x = sheaf_reshape(rows, SHEAF_SHAPE(4, TABLE_COLUMNS));
    sheaf_tensor *y = sheaf_add(sheaf_matmul(x, sheaf_value(t->v[1])), sheaf_value(t->v[2]));
    return sheaf_optimizer_minimize(t->optimizer, tape, sheaf_sum(sheaf_square(y)));
}

sheaf_status tables_make(struct tables *t, sheaf_strategy *s, const struct tables_rule *rule,
                         sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    memset(t, 0, sizeof(*t));
    t->optimizer = sheaf_optimizer_named(rule->name, &rule->options);
    t->checkpoint = sheaf_checkpoint_new();
    SHEAF_SCOPE(s)
    {
        t->v[0] =
            sheaf_variable_init("table", SHEAF_FLOAT32, SHEAF_SHAPE(TABLE_ROWS, TABLE_COLUMNS),
                                sheaf_init_normal(0, 1, 7), NULL);
        t->v[1] = sheaf_variable_init("w", SHEAF_FLOAT32, SHEAF_SHAPE(TABLE_COLUMNS, TABLE_OUTPUTS),
                                      sheaf_init_glorot_uniform(8), NULL);
        t->v[2] = sheaf_variable_new(
            "b", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), (const float[]){.5f, -1, 2}),
            NULL);
        status = sheaf_optimizer_build(t->optimizer, t->v, TABLE_VARIABLES, err);
    }
    sheaf_checkpoint_add_variables(t->checkpoint, t->v, TABLE_VARIABLES);
    sheaf_checkpoint_add_optimizer(t->checkpoint, "optimizer", t->optimizer);
    return status;
}

sheaf_status tables_train(struct tables *t, sheaf_strategy *s, int first, int steps,
                          sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    for (int i = first; i < first + steps && status >= 0; i++) {
        struct run run = {t, i};
        status = sheaf_run(s, step_fn, &run, NULL, NULL, err);
    }
    return status;
}

void tables_free(struct tables *t)
{
    sheaf_checkpoint_free(t->checkpoint);
    sheaf_optimizer_free(t->optimizer);
    for (int i = 0; i < TABLE_VARIABLES; i++)
        sheaf_variable_free(t->v[i]);
}
