/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <sheaf/sheaf.h>

#include <math.h>

/* A training loop over a distributed dataset, whose steps are so small that what calling them takes is most of it: with
 * a compiled step, and eagerly. They take turns, and the best turn of each counts. */

enum { ELEMENTS = 4000, BATCH = 16, TURNS = 1000 };

struct model {
    sheaf_variable *w, *b;
    sheaf_optimizer *optimizer;
};

static sheaf_status train_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    const struct model *m = user;
    (void)out;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *y = sheaf_dense(sheaf_element_get(in, "0"), sheaf_value(m->w), sheaf_value(m->b),
                                  SHEAF_ACTIVATION_NONE);
    sheaf_tensor *miss = sheaf_sub(y, sheaf_element_get(in, "1"));
    sheaf_tensor *loss = sheaf_average_loss(r, sheaf_square(miss));
    return sheaf_optimizer_minimize(m->optimizer, tape, loss);
}

static sheaf_dist_dataset *examples(sheaf_strategy *s)
{
    static const float features[4] = {1, 2, 3, 4}, label[1] = {10};
    sheaf_tensor *x = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(4), features);
    sheaf_tensor *y = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1), label);
    sheaf_dataset *d = sheaf_dataset_from_tensors(sheaf_element_tuple(x, y, NULL));
    d = sheaf_dataset_batch(sheaf_dataset_repeat(d, ELEMENTS), BATCH, NULL);
    return sheaf_distribute_dataset(s, d, NULL);
}

/* Steps a second of one pass; `step` NULL: eagerly. */
static double loop(sheaf_strategy *s, sheaf_dist_dataset *d, struct model *m, sheaf_step *step,
                   sheaf_error *err)
{
    const double begin = sheaf__bench_now();
    int steps = 0;
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_values *batch;
    SHEAF_EACH(batch, it, err)
    {
        const sheaf_status status = step ? sheaf_run_step(s, step, batch, NULL, err)
                                         : sheaf_run(s, train_step, m, batch, NULL, err);
        if (status < 0)
            break;
        steps++;
    }
    sheaf_dist_iterator_free(it);
    return steps / (sheaf__bench_now() - begin);
}

static void measure(sheaf_strategy *s, struct model *m, sheaf_error *err)
{
    double compiled = 0, eager = 0;
    sheaf_dist_dataset *d = examples(s);
    sheaf_step *step = sheaf_step_new(train_step, m, NULL);
    for (int i = 0; i < TURNS && err->status >= 0; i++) {
        compiled = fmax(compiled, loop(s, d, m, step, err));
        if (err->status >= 0)
            eager = fmax(eager, loop(s, d, m, NULL, err));
    }
    if (err->status >= 0) {
        sheaf__bench_print(compiled, "steps/s", "loop, compiled step");
        sheaf__bench_print(eager, "steps/s", "loop, eager");
    }
    sheaf_step_free(step);
    sheaf_dist_dataset_free(d);
}

int sheaf__bench_loop(const struct sheaf__bench_options *options)
{
    struct model m = {0};
    sheaf_strategy *s;
    sheaf_error err = {0};
    (void)options;
    if (sheaf_strategy_new("one", NULL, NULL, &s, &err) < 0)
        return sheaf__bench_failed(&err);
    SHEAF_FRAME
    {
        SHEAF_SCOPE(s)
        {
            m.w = sheaf_variable_init("w", SHEAF_FLOAT32, SHEAF_SHAPE(4, 1), sheaf_init_zeros(),
                                      NULL);
            m.b = sheaf_variable_init("b", SHEAF_FLOAT32, SHEAF_SHAPE(1), sheaf_init_zeros(), NULL);
            m.optimizer = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 0.01});
        }
        measure(s, &m, &err);
    }
    sheaf_optimizer_free(m.optimizer);
    sheaf_variable_free(m.b);
    sheaf_variable_free(m.w);
    sheaf_strategy_free(s);
    return err.status < 0 ? sheaf__bench_failed(&err) : 0;
}
