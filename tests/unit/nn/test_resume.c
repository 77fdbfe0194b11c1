/* SPDX-License-Identifier: Apache-2.0 */

/* Everything that a run depends on in one commit: variables, slots, a metric, the input's position and the random numbers. A run
 * that goes on from it is the one that was not stopped, bit for bit. */

#include "helpers.h"

#include "base/error.h"
#include "ops/variable.h"

#include <sheaf/metric.h>

#include <stdlib.h>
#include <string.h>

enum { STEPS = 9, SAVED = 4, SIZE = 6 };

/* What a run leaves of each step. */
struct trace {
    float w[STEPS][SIZE];
    double noise[STEPS];
    double mean[STEPS];
};

struct run {
    sheaf_variable *w;
    sheaf_optimizer *adam;
    sheaf_metric *mean;
    sheaf_dataset *data;
    sheaf_iterator *it;
    sheaf_checkpoint *c;
};

/* Nothing has a seed of its own: variable, noise and shuffle take those of the context in turn. */
static void start(struct run *r, int64_t seed, bool whole)
{
    sheaf_set_seed(seed);
    r->w = sheaf_variable_init("w", SHEAF_FLOAT32, SHEAF_SHAPE(SIZE), sheaf_init_normal(0, 1, 0),
                               NULL);
    r->adam = sheaf_adam(&(sheaf_optimizer_options){.learning_rate = 0.125});
    r->mean = sheaf_metric_mean("noise");
    r->data =
        sheaf_dataset_repeat(sheaf_dataset_shuffle(sheaf_dataset_range(0, 12, 1), 5, NULL), 3);
    r->it = sheaf_dataset_iterate(r->data);
    r->c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(r->c, "w", r->w);
    sheaf_checkpoint_add_optimizer(r->c, "optimizer", r->adam);
    sheaf_checkpoint_add(r->c, "mean", sheaf_metric_trackable(r->mean));
    sheaf_checkpoint_add(r->c, "input", sheaf_iterator_trackable(r->it));
    if (whole)
        sheaf_checkpoint_add(r->c, "random", sheaf_random_trackable());
}

static void stop(struct run *r)
{
    sheaf_checkpoint_free(r->c);
    sheaf_iterator_free(r->it);
    sheaf_dataset_free(r->data);
    sheaf_metric_free(r->mean);
    sheaf_optimizer_free(r->adam);
    sheaf_variable_free(r->w);
}

struct step {
    struct run *run;
    sheaf_tensor *noise, *scale;
};

static sheaf_status step_fn(sheaf_replica *replica, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    const struct step *s = user;
    (void)replica;
    (void)in;
    (void)out;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *x = sheaf_mul(sheaf_value(s->run->w), s->noise);
    sheaf_tensor *loss = sheaf_mul(sheaf_sum(sheaf_mul(x, x)), s->scale);
    SHEAF__TRY(sheaf_metric_update(s->run->mean, s->noise, NULL, NULL));
    return sheaf_optimizer_minimize(s->run->adam, tape, loss);
}

static void take_steps(struct run *r, int from, int to, struct trace *t)
{
    sheaf_error err;
    for (int i = from; i < to; i++) {
        SHEAF_FRAME
        {
            sheaf_element *e = NULL;
            rig_ok(sheaf_iterator_next(r->it, &e, &err), &err);
            struct step s = {r, sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE(SIZE), -1, 1, 0),
                             sheaf_cast(only(e), SHEAF_FLOAT32)};
            rig_ok(sheaf_run(NULL, step_fn, &s, NULL, NULL, &err), &err);
            memcpy(t->w[i], sheaf_tensor_data(sheaf_value(r->w)), sizeof(t->w[i]));
            t->noise[i] = sheaf_tensor_number(s.noise, 0);
            t->mean[i] = sheaf_tensor_number(sheaf_metric_result(r->mean), 0);
        }
    }
}

/* In a context of its own, as another process would. */
static void go_on(int64_t seed, bool whole, bool restores, struct trace *t)
{
    sheaf_error err;
    sheaf_context *context = NULL;
    struct run r;
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = (const char *const[]){NULL}},
                             &context, &err),
           &err);
    sheaf_context *before = sheaf_context_enter(context);
    start(&r, seed, whole);
    if (restores) {
        rig_ok(sheaf_checkpoint_restore(r.c, rig_path("x"), &err), &err);
        take_steps(&r, SAVED, STEPS, t);
        sheaf_checkpoint_expect_partial(r.c);
    } else {
        take_steps(&r, 0, SAVED, t);
        rig_ok(sheaf_checkpoint_write(r.c, rig_path("x"), NULL, &err), &err);
        take_steps(&r, SAVED, STEPS, t);
    }
    stop(&r);
    sheaf_frame_clear();
    sheaf_context_enter(before);
    sheaf_context_free(context);
}

/* The second run needs not even the same seed. Without the random numbers it is another one. */
static void resumes_bit_for_bit(void **state)
{
    (void)state;
    static struct trace whole, resumed, other;
    go_on(7, true, false, &whole);
    for (int i = 0; i < 2; i++) {
        memcpy(&resumed, &whole, sizeof(resumed));
        memset(resumed.w + SAVED, 0, sizeof(resumed.w) - SAVED * sizeof(resumed.w[0]));
        go_on(i ? 8 : 7, true, true, &resumed);
        assert_memory_equal(&resumed, &whole, sizeof(whole));
    }
    go_on(7, false, true, &other);
    assert_true(other.noise[SAVED] != whole.noise[SAVED]);
}

/* Bytes that are none are refused, and nothing is changed. */
static void refuses_other_bytes(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_bytes bytes = {0};
    sheaf_set_seed(3);
    sheaf_trackable *t = sheaf_random_trackable();
    assert_ptr_equal(t, sheaf_random_trackable());
    rig_ok(t->cls->save(t, &bytes, &err), &err);
    char *copy = malloc(bytes.size + 1);
    const double first =
        sheaf_tensor_number(sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SCALAR, 0, 1, 0), 0);
    for (size_t size = 0; size <= bytes.size + 1; size++) {
        if (size == bytes.size)
            continue;
        memcpy(copy, bytes.data, size < bytes.size ? size : bytes.size);
        const sheaf_bytes part = {copy, size};
        rig_fails(t->cls->accept(t, &part, &err), &err, SHEAF_ERR_DATA_LOSS, "random numbers");
    }
    memcpy(copy, bytes.data, bytes.size);
    copy[bytes.size - 1] = 1; /* more words used than there are */
    const sheaf_bytes beyond = {copy, bytes.size};
    rig_fails(t->cls->accept(t, &beyond, &err), &err, SHEAF_ERR_DATA_LOSS, "random numbers");
    rig_ok(t->cls->accept(t, &bytes, &err), &err);
    t->cls->settle(t, false);
    const double second =
        sheaf_tensor_number(sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SCALAR, 0, 1, 0), 0);
    assert_true(first != second);
    rig_ok(t->cls->accept(t, &bytes, &err), &err);
    t->cls->settle(t, true);
    assert_true(first ==
                sheaf_tensor_number(sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SCALAR, 0, 1, 0), 0));
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(resumes_bit_for_bit),
                                       rig_test(refuses_other_bytes)};
    return rig_run(tests);
}
