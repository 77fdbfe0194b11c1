/* SPDX-License-Identifier: Apache-2.0 */

/* Training: the same losses on one device and on mirrored replicas, whatever their number. */

#include "helpers.h"
#include "training.h"

#include <math.h>
#include <string.h>

static void train_on(int replicas, const char *optimizer, struct training *t)
{
    const char *devices[5] = {"CPU:0", "CPU:1", "CPU:2", "CPU:3"};
    sheaf_error err = {0};
    sheaf_strategy *s = NULL;
    devices[replicas] = NULL;
    const sheaf_strategy_options options = {.devices = devices};
    rig_ok(sheaf_strategy_new(replicas == 1 ? "one" : "mirrored", NULL, &options, &s, &err), &err);
    rig_ok(train(s, optimizer, t, &err), &err);
    sheaf_strategy_free(s);
}

static void expect_close(const struct training *a, const struct training *b)
{
    for (int i = 0; i < TRAINING_STEPS; i++) {
        if (fabs(a->losses[i] - b->losses[i]) <= 1e-6 * fabs(a->losses[i]))
            continue;
        fail_msg("step %d: loss %.9g, expected %.9g", i, b->losses[i], a->losses[i]);
    }
}

static void compare(const char *optimizer)
{
    sheaf_error err = {0};
    struct training one, again, many;
    rig_ok(sheaf_devices_configure(4, &err), &err);
    train_on(1, optimizer, &one);
    assert_true(one.losses[TRAINING_STEPS - 1] < one.losses[3]); /* the same batch, later */
    train_on(1, optimizer, &again);
    assert_memory_equal(&one, &again, sizeof(one)); /* a run repeats bit for bit */
    for (int replicas = 2; replicas <= 4; replicas += 2) {
        train_on(replicas, optimizer, &many);
        expect_close(&one, &many);
        train_on(replicas, optimizer, &again);
        assert_memory_equal(&many, &again, sizeof(many));
    }
}

/* R6.2: parameter servers without a cluster are this process */
static void test_local_parameter_server(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct training one, local;
    rig_ok(sheaf_devices_configure(2, &err), &err);
    train_on(1, "adam", &one);
    sheaf_strategy *s = strategy("ps");
    assert_int_equal(sheaf_strategy_num_replicas(s), 2);
    rig_ok(train(s, "adam", &local, &err), &err);
    sheaf_strategy_free(s);
    expect_close(&one, &local);
}

static void test_sgd_over_replicas(void **state)
{
    (void)state;
    compare("sgd");
}

static void test_momentum_over_replicas(void **state)
{
    (void)state;
    compare("momentum");
}

static void test_adam_over_replicas(void **state)
{
    (void)state;
    compare("adam");
}

static sheaf_status embedding_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                   void *user)
{
    void **parts = user;
    (void)out;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *rows = sheaf_embedding_lookup(parts[0], sheaf_element_get(in, NULL));
    (void)r;
    return sheaf_optimizer_minimize(parts[1], tape, sheaf_sum(rows));
}

/* Gradients of rows are gathered over replicas; a row that occurs twice gets both (R4.53, R12.4) */
static void test_R4_53_rows(void **state)
{
    (void)state;
    sheaf_error err = {0};
    static const int64_t ids0[] = {0, 2}, ids1[] = {2};
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *table = NULL;
    SHEAF_SCOPE(s)
    {
        table =
            sheaf_variable_init("t", SHEAF_FLOAT32, SHEAF_SHAPE(4, 2), sheaf_init_zeros(), NULL);
    }
    sheaf_optimizer *sgd = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1});
    void *parts[] = {table, sgd};
    sheaf_element *in[] = {sheaf_element_of(sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2), ids0)),
                           sheaf_element_of(sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(1), ids1))};
    rig_ok(sheaf_run(s, embedding_step, parts, sheaf_values_per_replica(in, 2), NULL, &err), &err);
    for (int i = 0; i < 2; i++)
        assert_floats(sheaf_value(sheaf_variable_copy(table, i)), -1, -1, 0, 0, -2, -2, 0, 0);
    assert_int_equal(sheaf_optimizer_iterations(sgd), 1);
    sheaf_optimizer_free(sgd);
    sheaf_variable_free(table);
    sheaf_strategy_free(s);
}

struct rows_model {
    sheaf_variable *table;
    sheaf_optimizer *optimizer;
};

static sheaf_status mean_of_rows(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                 void *user)
{
    const struct rows_model *m = user;
    const int64_t examples = sheaf_replica_id(r) == 0 ? 4 : 0;
    const int middle = 1;
    (void)in;
    (void)out;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *ids = sheaf_fill(SHEAF_INT64, SHEAF_SHAPE(examples, 3), 1);
    sheaf_tensor *rows = sheaf_reduce_mean(sheaf_embedding_lookup(m->table, ids), &middle, 1);
    sheaf_tensor *loss = sheaf_average_loss(r, sheaf_reduce_sum(rows, &middle, 1));
    return sheaf_optimizer_minimize(m->optimizer, tape, loss);
}

/* S183: a replica without data has a gradient of no rows, through a mean, too */
static void test_S183_rows_of_an_empty_part(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    struct rows_model m = {.optimizer = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1})};
    SHEAF_SCOPE(s)
    {
        m.table = sheaf_variable_init("table", SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), sheaf_init_zeros(),
                                      NULL);
    }
    rig_ok(sheaf_run(s, mean_of_rows, &m, NULL, NULL, &err), &err);
    /* 4 examples, each weighing 1 / 8: its rows times the replicas (R12.1) */
    for (int r = 0; r < 2; r++)
        assert_float_equal(sheaf_tensor_number(sheaf_value(sheaf_variable_copy(m.table, r)), 2),
                           -0.5, 0);
    sheaf_optimizer_free(m.optimizer);
    sheaf_variable_free(m.table);
    sheaf_strategy_free(s);
}

struct two_updates {
    sheaf_variable *x;
    sheaf_optimizer *adam;
};

static sheaf_status update_twice(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                 void *user)
{
    const struct two_updates *m = user;
    sheaf_status status = SHEAF_OK;
    (void)in;
    (void)out;
    for (int i = 0; i < 2 && status >= 0; i++) {
        sheaf_tape *tape = sheaf_tape_start();
        sheaf_tensor *loss =
            sheaf_scale(sheaf_square(sheaf_value(m->x)), 1.0 / sheaf_replica_count(r), 0);
        status = sheaf_optimizer_minimize(m->adam, tape, loss);
    }
    return status;
}

/* Adam's step counts updates: two in one step of the program are two, on whatever replica comes first */
static void test_two_updates_in_a_step(void **state)
{
    (void)state;
    enum { STEPS = 100 };
    sheaf_error err = {0};
    float end[2];
    for (int k = 0; k < 2; k++) {
        sheaf_strategy *s = k == 0 ? mirrored(4) : strategy("one");
        struct two_updates m = {.adam = sheaf_adam(NULL)};
        SHEAF_SCOPE(s)
        {
            m.x = sheaf_variable_new("x", sheaf_float(3), NULL);
        }
        for (int i = 0; i < STEPS; i++)
            rig_ok(sheaf_run(s, update_twice, &m, NULL, NULL, &err), &err);
        assert_int_equal(sheaf_optimizer_iterations(m.adam), 2 * STEPS);
        end[k] = (float)sheaf_tensor_number(sheaf_value(m.x), 0);
        for (int c = 0; c < sheaf_variable_copies(m.x); c++)
            assert_floats(sheaf_value(sheaf_variable_copy(m.x, c)), end[k]);
        sheaf_optimizer_free(m.adam);
        sheaf_variable_free(m.x);
        sheaf_strategy_free(s);
    }
    assert_true(end[0] == end[1]); /* a quarter four times over is exact */
}

/* Without any strategy */
static void test_minimize_alone(void **state)
{
    (void)state;
    sheaf_variable *x = sheaf_variable_new("x", sheaf_float(3), NULL);
    sheaf_optimizer *sgd =
        sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 0.5, .clipvalue = 4});
    SHEAF_FRAME
    {
        sheaf_tape *tape = sheaf_tape_start();
        assert_int_equal(sheaf_optimizer_minimize(sgd, tape, sheaf_square(sheaf_value(x))),
                         SHEAF_OK);
    }
    assert_floats(sheaf_value(x), 1); /* gradient 6, clipped to 4 */
    sheaf_optimizer_free(sgd);
    sheaf_variable_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_local_parameter_server),
        rig_test(test_sgd_over_replicas),
        rig_test(test_momentum_over_replicas),
        rig_test(test_adam_over_replicas),
        rig_test(test_R4_53_rows),
        rig_test(test_S183_rows_of_an_empty_part),
        rig_test(test_two_updates_in_a_step),
        rig_test(test_minimize_alone),
    };
    return rig_run(tests);
}
