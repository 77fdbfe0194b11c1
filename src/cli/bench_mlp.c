/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_mlp.h"

#include <math.h>
#include <stdlib.h>

static const int64_t SIZES[SHEAF__MLP_LAYERS + 1] = {784, 512, 512, 10};

static sheaf_status train_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    struct sheaf__mlp *m = user;
    (void)r;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *x = sheaf_element_get(in, "image");
    for (int i = 0; i < SHEAF__MLP_LAYERS; i++) {
        bool last = i + 1 == SHEAF__MLP_LAYERS;
        x = sheaf_dense(x, sheaf_value(m->w[i]), sheaf_value(m->b[i]),
                        last ? SHEAF_ACTIVATION_NONE : SHEAF_ACTIVATION_RELU);
    }
    sheaf_tensor *labels = sheaf_element_get(in, "label");
    sheaf_tensor *loss = sheaf_mean(sheaf_sparse_softmax_cross_entropy(labels, x));
    sheaf_element_put(out, "loss", loss);
    return sheaf_optimizer_minimize(m->optimizer, tape, loss);
}

/* ---- the same numbers as in bench/peers/mlp.py ---- */

enum { INPUT_STREAM, WEIGHT_STREAM }; /* weights of layer i: WEIGHT_STREAM + i */

/* Numbers in [0, 1) that any language makes alike: a hash of the position. */
static float uniform(uint32_t stream, uint32_t i)
{
    uint32_t h = (i + stream * 1000003U) * 2654435761U;
    h = (h ^ h >> 15) * 2246822519U;
    return (float)((h ^ h >> 13) >> 8) * (1.f / (1 << 24));
}

/* A tensor of them, mapped to [low, high). */
static sheaf_tensor *uniform_tensor(uint32_t stream, int64_t rows, int64_t columns, float low,
                                    float high)
{
    sheaf_shape shape = SHEAF_SHAPE(rows, columns);
    size_t count = (size_t)(rows * columns);
    float *values = malloc(count * sizeof(*values));
    sheaf_error err = {.status = SHEAF_ERR_RESOURCE_EXHAUSTED, .message = "not enough memory"};
    if (!values)
        return sheaf_failed(&err);
    for (size_t i = 0; i < count; i++)
        values[i] = low + (high - low) * uniform(stream, (uint32_t)i);
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, shape, values);
    free(values);
    return t;
}

static sheaf_values *make_batch(int batch)
{
    sheaf_element *e = sheaf_element_new();
    int64_t labels[512];
    for (int i = 0; i < batch; i++)
        labels[i] = i * 7 % SIZES[3];
    sheaf_element_put(e, "image", uniform_tensor(INPUT_STREAM, batch, SIZES[0], 0, 1));
    sheaf_element_put(e, "label", sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(batch), labels));
    return sheaf_values_keep(sheaf_values_of(e));
}

static void make_variables(struct sheaf__mlp *m)
{
    static const char *const NAMES[] = {"w0", "w1", "w2", "b0", "b1", "b2"};
    for (int i = 0; i < SHEAF__MLP_LAYERS; i++) {
        float limit = sqrtf(6.f / (float)(SIZES[i] + SIZES[i + 1])); /* Glorot's */
        sheaf_tensor *w =
            uniform_tensor(WEIGHT_STREAM + (uint32_t)i, SIZES[i], SIZES[i + 1], -limit, limit);
        m->w[i] = sheaf_variable_new(NAMES[i], w, NULL);
        m->b[i] = sheaf_variable_init(NAMES[SHEAF__MLP_LAYERS + i], SHEAF_FLOAT32,
                                      SHEAF_SHAPE(SIZES[i + 1]), sheaf_init_zeros(), NULL);
    }
}

sheaf_status sheaf__mlp_make(struct sheaf__mlp *m, const char *rule, int batch, sheaf_error *err)
{
    *m = (struct sheaf__mlp){0};
    sheaf_status status = sheaf_strategy_new("one", NULL, NULL, &m->strategy, err);
    if (status < 0)
        return status;
    SHEAF_FRAME
    {
        SHEAF_SCOPE(m->strategy)
        {
            make_variables(m);
            m->optimizer = sheaf_optimizer_named(rule, NULL);
        }
        m->step = sheaf_step_new(train_step, m, NULL);
        m->batch = make_batch(batch);
        status = sheaf_frame_status(err);
    }
    return status;
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
