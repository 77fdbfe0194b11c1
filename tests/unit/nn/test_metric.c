/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics: sums over steps, replicas and workers. */

#include "helpers.h"

#include "ops/variable.h"
#include "tensor/heap.h"

#include <sheaf/metric.h>

#include <string.h>

static double result(sheaf_metric *m)
{
    sheaf_error err = {0};
    sheaf_tensor *t = sheaf_metric_result(m);
    rig_ok(sheaf_tensor_status(t, &err), &err);
    assert_int_equal(sheaf_tensor_dtype(t), SHEAF_FLOAT64);
    return sheaf_tensor_number(t, 0);
}

static void test_mean(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_metric *m = sheaf_metric_mean("loss");
    assert_string_equal(sheaf_variable_name(sheaf_metric_variable(m, 0)), "loss/total");
    assert_string_equal(sheaf_variable_name(sheaf_metric_variable(m, 1)), "loss/count");
    assert_null(sheaf_metric_variable(m, 2));
    assert_true(result(m) == 0);
    sheaf_tensor *three = sheaf_tensor_new(SHEAF_INT32, SHEAF_SHAPE(3), (int32_t[]){1, 2, 6});
    rig_ok(sheaf_metric_update(m, three, NULL, &err), &err);
    assert_true(result(m) == 3);
    /* The weight of padding is 0. */
    sheaf_tensor *two = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), (float[]){7, 1e30f});
    sheaf_tensor *weights = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), (float[]){1, 0});
    rig_ok(sheaf_metric_update(m, two, weights, &err), &err);
    assert_true(result(m) == 4);
    rig_ok(sheaf_metric_update(m, sheaf_equal(three, three), NULL, &err), &err);
    assert_true(result(m) == 19. / 7);
    rig_ok(sheaf_metric_reset(m, &err), &err);
    assert_true(result(m) == 0);
    rig_fails(sheaf_metric_update(m, three, weights, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "weights of a metric have shape (2,), expected (3,)");
    rig_fails(sheaf_metric_update(m, sheaf_add(three, two), NULL, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "");
    assert_true(result(m) == 0);
    rig_fails(sheaf_metric_update(NULL, three, NULL, &err), &err, SHEAF_ERR_RESOURCE_EXHAUSTED, "");
    sheaf_metric_free(m);
    sheaf_metric_free(NULL);
}

/* Counts do not stop where float32 does, at 2^24. */
static void test_counts_are_exact(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_metric *m = sheaf_metric_mean(NULL);
    rig_ok(sheaf_assign(sheaf_metric_variable(m, 1), sheaf_double(1 << 24), &err), &err);
    rig_ok(sheaf_metric_update(m, sheaf_float(1), NULL, &err), &err);
    assert_true(sheaf_tensor_number(sheaf_value(sheaf_metric_variable(m, 1)), 0) == (1 << 24) + 1);
    sheaf_metric_free(m);
}

/* A model, its optimizer and a metric, made in a scope, and every variable that was made for them. */
struct job {
    sheaf_variable *w, *b, *made[16];
    size_t count;
    sheaf_optimizer *optimizer;
    sheaf_metric *loss;
};

static sheaf_variable *note(sheaf_variable_request *request, void *user)
{
    struct job *j = user;
    assert_true(j->count < 16);
    return j->made[j->count++] = sheaf_variable_create_next(request);
}

static void make(struct job *j, sheaf_strategy *s)
{
    sheaf_error err = {0};
    *j = (struct job){0};
    SHEAF_SCOPE(s)
    SHEAF_CREATOR(note, j)
    {
        j->w =
            sheaf_variable_init("w", SHEAF_FLOAT32, SHEAF_SHAPE(2), sheaf_init_constant(2), NULL);
        j->b = sheaf_variable_new("b", sheaf_float(0), NULL);
        j->optimizer = sheaf_adam(NULL);
        rig_ok(sheaf_optimizer_build(j->optimizer, (sheaf_variable *[]){j->w, j->b}, 2, &err),
               &err);
        j->loss = sheaf_metric_mean("loss");
    }
}

static void unmake(struct job *j)
{
    sheaf_metric_free(j->loss);
    sheaf_optimizer_free(j->optimizer);
    sheaf_variable_free(j->w);
    sheaf_variable_free(j->b);
}

/* Losses are the squares of the input; replicas may get unlike counts, or none. */
static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    struct job *j = user;
    sheaf_error err = {0};
    (void)out;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *x = sheaf_cast(only(in), SHEAF_FLOAT32);
    sheaf_tensor *losses = sheaf_square(x);
    sheaf_tensor *model = sheaf_add(sheaf_sum(sheaf_square(sheaf_value(j->w))), sheaf_value(j->b));
    sheaf_tensor *loss =
        sheaf_average_loss(r, sheaf_mul(losses, sheaf_add(model, sheaf_scale(losses, 0, 0))));
    sheaf_status status = sheaf_optimizer_minimize(j->optimizer, tape, loss);
    if (status >= 0)
        status = sheaf_metric_update(j->loss, losses, NULL, &err);
    return status;
}

/* S95: whatever a model, an optimizer and a metric make in the scope is distributed: each variable has a copy on every
 * replica, and so has each slot of the optimizer; all are used */
static void test_S95_model_optimizer_metric(void **state)
{
    (void)state;
    enum { REPLICAS = 3 };
    static const char *const names[] = {"w", "b", "loss/total", "loss/count"};
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(REPLICAS);
    struct job j;
    make(&j, s);
    assert_int_equal(j.count, 4);
    for (size_t i = 0; i < j.count; i++) {
        assert_string_equal(sheaf_variable_name(j.made[i]), names[i]);
        assert_int_equal(sheaf_variable_copies(j.made[i]), REPLICAS);
    }
    assert_ptr_equal(sheaf_metric_variable(j.loss, 0), j.made[2]);
    assert_ptr_equal(sheaf_metric_variable(j.loss, 1), j.made[3]);
    const int counts[REPLICAS] = {1, 2, 0};
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf_run(s, step, &j, floats((float[]){1, 2, 3}, counts, REPLICAS), NULL, &err),
               &err);
    for (int v = 0; v < 2; v++) { /* the optimizer's m and v of w and b */
        float *first[2] = {0};
        for (int r = 0; r < REPLICAS; r++) {
            sheaf_variable *copy = sheaf_variable_copy(j.made[v], r);
            assert_int_equal(sheaf__variable_slots(copy), 2);
            for (size_t k = 0; k < 2; k++) {
                float *slot = sheaf__variable_slot(copy, k ? "velocity" : "momentum", 0);
                assert_true(slot[0] != 0 && (r == 0 || slot != first[k]));
                first[k] = r == 0 ? slot : first[k];
                assert_memory_equal(slot, first[k], v ? sizeof(float) : 2 * sizeof(float));
            }
        }
    }
    /* Each replica counted its own. */
    for (int r = 0; r < REPLICAS; r++)
        assert_true(sheaf_tensor_number(sheaf_value(sheaf_variable_copy(j.made[3], r)), 0) ==
                    3 * counts[r]);
    assert_true(result(j.loss) == 14. / 3);
    unmake(&j);
    sheaf_strategy_free(s);
}

/* The metric of a cluster is that of one process, and lives where the strategy says: demands 10, S95. */
static sheaf_status measure(struct rig_task *task)
{
    char *name = task->user;
    const bool ps = strcmp(name, "ps") == 0;
    sheaf_strategy *s = NULL;
    struct job j;
    sheaf_error *err = &task->err;
    sheaf_status status = sheaf_devices_configure(2, err);
    if (status >= 0)
        status = sheaf_strategy_new(name, NULL, NULL, &s, err);
    if (status < 0)
        return status;
    make(&j, s);
    for (size_t i = 0; i < j.count; i++)
        if (ps)
            RIG_CHECK(task, strstr(sheaf_variable_device(j.made[i]), "/job:ps"));
        else
            RIG_CHECK(task, sheaf_variable_copies(j.made[i]) == 2);
    /* Worker 0 has 1, 2 | 3, worker 1 has 4 | nothing. */
    float data[] = {1, 2, 3, 4};
    const int counts[2][2] = {{2, 1}, {1, 0}};
    status = sheaf_run(s, step, &j, floats(task->index ? data + 3 : data, counts[task->index], 2),
                       NULL, err);
    if (ps) /* worker 0 waits for the other, then asks the servers */
        status = status < 0 ? status : sheaf_strategy_join(s, 0, err);
    if (status >= 0 && (!ps || task->index == 0))
        RIG_CHECK(task, sheaf_tensor_number(sheaf_metric_result(j.loss), 0) == 30. / 4);
    if (!ps && status >= 0)
        status = sheaf_strategy_join(s, 0, err);
    unmake(&j);
    sheaf_strategy_free(s);
    return status;
}

static void test_workers_are_one_process(void **state)
{
    (void)state;
    char multiworker[] = "multiworker", ps[] = "ps";
    run_cluster((struct jobs){.worker = 2}, measure, multiworker, 60);
    run_cluster((struct jobs){.worker = 2, .ps = 2}, measure, ps, 60);
}

/* The sums are saved and come back. */
static void test_checkpoint(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    sheaf_metric *m = NULL;
    SHEAF_SCOPE(s)
    {
        m = sheaf_metric_mean("accuracy");
    }
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add(c, "accuracy", sheaf_metric_trackable(m));
    rig_ok(sheaf_assign(sheaf_metric_variable(m, 0), sheaf_double(3), &err), &err);
    rig_ok(sheaf_assign(sheaf_metric_variable(m, 1), sheaf_double(4), &err), &err);
    rig_ok(sheaf_checkpoint_write(c, rig_path("metric"), NULL, &err), &err);
    rig_ok(sheaf_metric_reset(m, &err), &err);
    assert_true(result(m) == 0);
    rig_ok(sheaf_checkpoint_restore(c, rig_path("metric"), &err), &err);
    assert_true(result(m) == 0.75);
    sheaf_checkpoint_free(c);
    sheaf_metric_free(m);
    sheaf_strategy_free(s);
}

static sheaf_status attempt(void *user, sheaf_error *err)
{
    (void)user;
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_metric *m = sheaf_metric_mean("loss");
    sheaf_status status = sheaf_metric_update(m, sheaf_float(1), NULL, err);
    sheaf_metric_free(m);
    sheaf_frame_close(&frame);
    sheaf__heap_trim(sheaf__heap_current(NULL), 0); /* pooled memory is no leak */
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    sheaf_error err = {0};
    rig_ok(attempt(NULL, &err), &err); /* what the context makes once */
    assert_true(rig_fail_allocations(attempt, NULL) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_mean),
        rig_test(test_counts_are_exact),
        rig_test(test_S95_model_optimizer_metric),
        rig_test(test_workers_are_one_process),
        rig_test(test_checkpoint),
        rig_test(test_every_allocation_may_fail),
    };
    return rig_run(tests);
}
