/* SPDX-License-Identifier: Apache-2.0 */

#include "training.h"

#include <string.h>

enum { INPUTS = 4, HIDDEN = 16, CLASSES = 3, EXAMPLES = 30, BATCH = 8 };

struct model {
    sheaf_variable *v[4];
    sheaf_optimizer *optimizer;
};

static sheaf_tensor *dense(sheaf_tensor *x, sheaf_variable *w, sheaf_variable *b)
{
    return sheaf_add(sheaf_matmul(x, sheaf_value(w)), sheaf_value(b));
}

static sheaf_status step_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    const struct model *m = user;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *h = sheaf_relu(dense(sheaf_element_get(in, "0"), m->v[0], m->v[1]));
    sheaf_tensor *logits = dense(h, m->v[2], m->v[3]);
    sheaf_tensor *losses = sheaf_sparse_softmax_cross_entropy(sheaf_element_get(in, "1"), logits);
    sheaf_tensor *loss = sheaf_average_loss(r, losses);
    sheaf_status status = sheaf_optimizer_minimize(m->optimizer, tape, loss);
    return status < 0 ? status : sheaf_element_put(out, "", loss);
}

static sheaf_dataset *data(void)
{
    float x[EXAMPLES * INPUTS];
    int64_t y[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) {
        y[i] = i % CLASSES;
        for (int k = 0; k < INPUTS; k++)
            x[i * INPUTS + k] = (float)((i * 7 + k * 3 + (int)y[i] * k) % 11) / 11.f;
    }
    sheaf_tensor *features = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(EXAMPLES, INPUTS), x);
    sheaf_tensor *labels = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(EXAMPLES), y);
    sheaf_dataset *d = sheaf_dataset_from_slices(sheaf_element_tuple(features, labels, NULL));
    return sheaf_dataset_repeat(sheaf_dataset_batch(d, BATCH, NULL), 3);
}

static void make(struct model *m, const char *optimizer)
{
    const sheaf_optimizer_options options = {.learning_rate = 0.05};
    m->v[0] = sheaf_variable_init("w1", SHEAF_FLOAT32, SHEAF_SHAPE(INPUTS, HIDDEN),
                                  sheaf_init_glorot_uniform(3), NULL);
    m->v[1] =
        sheaf_variable_init("b1", SHEAF_FLOAT32, SHEAF_SHAPE(HIDDEN), sheaf_init_zeros(), NULL);
    m->v[2] = sheaf_variable_init("w2", SHEAF_FLOAT32, SHEAF_SHAPE(HIDDEN, CLASSES),
                                  sheaf_init_glorot_uniform(4), NULL);
    m->v[3] =
        sheaf_variable_init("b2", SHEAF_FLOAT32, SHEAF_SHAPE(CLASSES), sheaf_init_zeros(), NULL);
    m->optimizer = sheaf_optimizer_named(optimizer, &options);
}

static sheaf_status run_all(sheaf_strategy *s, struct model *m, sheaf_dist_iterator *it,
                            struct training *t, sheaf_error *err)
{
    sheaf_values *batch, *losses;
    sheaf_element *sum;
    int step = 0;
    SHEAF_EACH(batch, it, err)
    {
        if (sheaf_run(s, step_fn, m, batch, &losses, err) < 0 ||
            sheaf_reduce(s, SHEAF_REDUCE_SUM, losses, NULL, 0, &sum, err) < 0)
            break;
        if (step < TRAINING_STEPS)
            t->losses[step++] = sheaf_tensor_number(sheaf_element_get(sum, NULL), 0);
    }
    if (err->status >= 0 && step != TRAINING_STEPS)
        return sheaf_error_set(err, SHEAF_ERR_INTERNAL, "%d steps, expected %d", step,
                               TRAINING_STEPS);
    return err->status;
}

sheaf_status train(sheaf_strategy *s, const char *optimizer, struct training *t, sheaf_error *err)
{
    struct model m = {0};
    memset(t, 0, sizeof(*t));
    SHEAF_SCOPE(s)
    {
        make(&m, optimizer);
    }
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, data(), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    sheaf_status status = run_all(s, &m, it, t, err);
    SHEAF_FRAME
    {
        const float *w = status < 0 ? NULL : sheaf_tensor_data(sheaf_value(m.v[0]));
        if (w)
            memcpy(t->weights, w, sizeof(t->weights));
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_optimizer_free(m.optimizer);
    for (int i = 0; i < 4; i++)
        sheaf_variable_free(m.v[i]);
    return status;
}
