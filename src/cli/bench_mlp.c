/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_mlp.h"

static const int64_t SIZES[SHEAF__MLP_LAYERS + 1] = {784, 512, 512, 10};

static sheaf_status train_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    struct sheaf__mlp *m = user;
    (void)r;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *x = sheaf_element_get(in, "image");
    for (int i = 0; i < SHEAF__MLP_LAYERS; i++) {
        x = sheaf_add(sheaf_matmul(x, sheaf_value(m->w[i])), sheaf_value(m->b[i]));
        if (i + 1 < SHEAF__MLP_LAYERS)
            x = sheaf_relu(x);
    }
    sheaf_tensor *labels = sheaf_element_get(in, "label");
    sheaf_tensor *loss = sheaf_mean(sheaf_sparse_softmax_cross_entropy(labels, x));
    sheaf_element_put(out, "loss", loss);
    return sheaf_optimizer_minimize(m->optimizer, tape, loss);
}

static sheaf_values *make_batch(int batch)
{
    sheaf_values *kept = NULL;
    SHEAF_FRAME
    {
        sheaf_element *e = sheaf_element_new();
        sheaf_shape images = SHEAF_SHAPE(batch, SIZES[0]);
        sheaf_tensor *labels =
            sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE(batch), 0, (double)SIZES[3], 2);
        sheaf_element_put(e, "image", sheaf_random_uniform(SHEAF_FLOAT32, images, 0, 1, 1));
        sheaf_element_put(e, "label", sheaf_cast(labels, SHEAF_INT64));
        kept = sheaf_values_keep(sheaf_values_of(e));
    }
    return kept;
}

sheaf_status sheaf__mlp_make(struct sheaf__mlp *m, const char *rule, int batch, sheaf_error *err)
{
    static const char *const NAMES[] = {"w0", "w1", "w2", "b0", "b1", "b2"};
    *m = (struct sheaf__mlp){0};
    sheaf_status status = sheaf_strategy_new("one", NULL, NULL, &m->strategy, err);
    if (status < 0)
        return status;
    SHEAF_SCOPE(m->strategy)
    {
        for (int i = 0; i < SHEAF__MLP_LAYERS; i++) {
            m->w[i] =
                sheaf_variable_init(NAMES[i], SHEAF_FLOAT32, SHEAF_SHAPE(SIZES[i], SIZES[i + 1]),
                                    sheaf_init_glorot_uniform(3 + (uint64_t)i), NULL);
            m->b[i] = sheaf_variable_init(NAMES[3 + i], SHEAF_FLOAT32, SHEAF_SHAPE(SIZES[i + 1]),
                                          sheaf_init_zeros(), NULL);
        }
        m->optimizer = sheaf_optimizer_named(rule, NULL);
        m->step = sheaf_step_new(train_step, m, NULL);
        m->batch = make_batch(batch);
    }
    return sheaf_frame_status(err);
}

sheaf_status sheaf__mlp_step(struct sheaf__mlp *m, double *loss, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        sheaf_values *result;
        status = sheaf_run_step(m->strategy, m->step, m->batch, &result, err);
        if (status >= 0 && loss)
            *loss = sheaf_tensor_number(sheaf_values_get(result, 0, "loss"), 0);
    }
    return status;
}

void sheaf__mlp_free(struct sheaf__mlp *m)
{
    sheaf_values_free(m->batch);
    sheaf_step_free(m->step);
    sheaf_optimizer_free(m->optimizer);
    for (int i = 0; i < SHEAF__MLP_LAYERS; i++) {
        sheaf_variable_free(m->w[i]);
        sheaf_variable_free(m->b[i]);
    }
    sheaf_strategy_free(m->strategy);
}
