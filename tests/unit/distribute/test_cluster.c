/* SPDX-License-Identifier: Apache-2.0 */

/* Strategies over several tasks, N tasks in one process: S3, S5, S7-S11, S20, S70, S92. */

#include "helpers.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Multi-worker mirrored. */

struct multiworker {
    int replicas;
    struct training results[8];
};

static sheaf_status train_worker(struct rig_task *task)
{
    struct multiworker *m = task->user;
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_devices_configure(m->replicas, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err);
    if (status >= 0)
        status = train(s, "adam", &m->results[task->index], &task->err);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* The loss curve of one device, on any number of workers and replicas; the same on all of them */
static void test_multiworker_losses(void **state)
{
    (void)state;
    static const int shapes[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 1}};
    sheaf_error err = {0};
    struct training one;
    sheaf_strategy *s = strategy("one");
    rig_ok(train(s, "adam", &one, &err), &err);
    sheaf_strategy_free(s);
    for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++) {
        struct multiworker m = {.replicas = shapes[k][1]};
        run_cluster((struct jobs){.worker = shapes[k][0]}, train_worker, &m, 60);
        const char *log = rig_log_take(); /* numbers in memory cannot be dealt out by file */
        assert_true(shapes[k][0] == 1 ? !*log : strstr(log, "sharded by DATA") != NULL);
        for (int w = 0; w < shapes[k][0]; w++) {
            assert_memory_equal(&m.results[w], &m.results[0], sizeof(one));
            for (int i = 0; i < TRAINING_STEPS; i++)
                if (fabs(m.results[w].losses[i] - one.losses[i]) > 1e-6 * fabs(one.losses[i]))
                    fail_msg("%dx%d step %d: loss %.9g, expected %.9g", shapes[k][0], shapes[k][1],
                             i, m.results[w].losses[i], one.losses[i]);
        }
    }
}

static sheaf_status replica_number(const sheaf_value_context *context, sheaf_element *out,
                                   void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_int(context->replica_id_in_sync_group));
}

/* S20, S70, S92, S117, R4.32: two workers of two replicas each */
static sheaf_status look_around(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_values *v = NULL;
    sheaf_element *sum = NULL;
    sheaf_variable *random = NULL;
    float *shared = task->user;
    sheaf_status status = sheaf_devices_configure(2, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    RIG_CHECK(task, sheaf_strategy_num_replicas(s) == 4);
    RIG_CHECK(task, sheaf_strategy_first_replica(s) == 2 * task->index);
    RIG_CHECK(task, sheaf_strategy_should_checkpoint(s) == (task->index == 0));
    status = sheaf_distribute_values_from_function(s, replica_number, NULL, &v, &task->err);
    RIG_CHECK(task, status >= 0 && sheaf_values_count(v) == 2);
    for (int r = 0; r < 2; r++)
        RIG_CHECK(task,
                  sheaf_tensor_integer(sheaf_values_get(v, r, NULL), 0) == 2 * task->index + r);
    status = sheaf_reduce(s, SHEAF_REDUCE_SUM, v, NULL, 0, &sum, &task->err);
    RIG_CHECK(task, status >= 0 && sheaf_tensor_integer(only(sum), 0) == 6);
    status = sheaf_gather_values(s, sheaf_values_tensor(sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(1))),
                                 0, &sum, &task->err);
    RIG_CHECK(task, status >= 0);
    SHEAF_SCOPE(s)
    {
        /* R4.57: different initialisers, one value */
        random = sheaf_variable_new("r", sheaf_float((float)task->index + 7), NULL);
    }
    shared[task->index] = (float)sheaf_tensor_number(sheaf_value(random), 0);
    sheaf_variable_free(random);
    sheaf_strategy_free(s);
    return SHEAF_OK;
}

static void test_S70_workers(void **state)
{
    (void)state;
    float shared[2] = {0};
    run_cluster((struct jobs){.worker = 2}, look_around, shared, 60);
    assert_true(shared[0] == 7 && shared[1] == 7);
}

/* Parameter servers. */

struct ps_job {
    struct training results[4];
    char placement[4][256];
};

static sheaf_status train_ps(struct rig_task *task)
{
    struct ps_job *job = task->user;
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_strategy_new("ps", NULL, NULL, &s, &task->err);
    if (status >= 0)
        status = train(s, "adam", &job->results[task->index], &task->err);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* One worker is serial training, bit for bit */
static void test_one_worker_is_serial(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct training one;
    struct ps_job job = {0};
    sheaf_strategy *s = strategy("one");
    rig_ok(train(s, "adam", &one, &err), &err);
    sheaf_strategy_free(s);
    run_cluster((struct jobs){.worker = 1, .ps = 2}, train_ps, &job, 60);
    assert_memory_equal(&job.results[0], &one, sizeof(one));
}

/* S7: workers train at once and the job ends by itself */
static void test_S7_two_workers(void **state)
{
    (void)state;
    struct ps_job job = {0};
    run_cluster((struct jobs){.worker = 2, .ps = 2}, train_ps, &job, 60);
    for (int w = 0; w < 2; w++)
        assert_true(isfinite(job.results[w].losses[TRAINING_STEPS - 1]));
}

struct counted {
    sheaf_variable *w, *step;
};

static sheaf_status count_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    const struct counted *c = user;
    (void)in;
    sheaf_element_put(out, "", sheaf_value(c->w));
    sheaf_status status = sheaf_assign_add(c->w, sheaf_float((float)sheaf_replica_id(r) + 1), NULL);
    return status < 0 ? status : sheaf_assign_add(c->step, sheaf_long(1), NULL);
}

enum { COUNTED_STEPS = 5 };

/* S3, S4, S5, S9, S11: where variables are, one update a step, the first replica's count */
static sheaf_status count_worker(struct rig_task *task)
{
    struct ps_job *job = task->user;
    const sheaf_variable_options sum = {.aggregation = SHEAF_AGGREGATION_SUM};
    const sheaf_variable_options first = {.aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA,
                                          .not_trainable = true};
    struct counted c = {0};
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_devices_configure(2, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("ps", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    SHEAF_SCOPE(s)
    {
        c.w = sheaf_variable_new("w", sheaf_float(0), &sum);
        c.step = sheaf_variable_new("global_step", sheaf_long(0), &first);
    }
    snprintf(job->placement[task->index], sizeof(job->placement[0]), "%s %s",
             sheaf_variable_device(c.w), sheaf_variable_device(c.step));
    for (int i = 0; i < COUNTED_STEPS && status >= 0; i++)
        SHEAF_FRAME
        {
            sheaf_values *out;
            status = sheaf_run(s, count_step, &c, NULL, &out, &task->err);
            /* both replicas saw one version */
            if (status >= 0)
                RIG_CHECK(task, sheaf_tensor_number(sheaf_values_get(out, 0, NULL), 0) ==
                                    sheaf_tensor_number(sheaf_values_get(out, 1, NULL), 0));
        }
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    if (status >= 0 && task->index == 0) {
        RIG_CHECK(task, sheaf_tensor_number(sheaf_value(c.w), 0) == 3 * COUNTED_STEPS * 3);
        RIG_CHECK(task, sheaf_tensor_integer(sheaf_value(c.step), 0) == 3 * COUNTED_STEPS);
    }
    sheaf_variable_free(c.w);
    sheaf_variable_free(c.step);
    sheaf_strategy_free(s);
    return status;
}

static void test_S11_counts(void **state)
{
    (void)state;
    struct ps_job job = {0};
    run_cluster((struct jobs){.worker = 3, .ps = 2}, count_worker, &job, 60);
    for (int w = 0; w < 3; w++)
        assert_string_equal(job.placement[w], "/job:ps/task:0 /job:ps/task:1");
}

/* Workers that build other variables are told the first difference */
static sheaf_status other_variables(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_variable *v = NULL;
    sheaf_error err = {0};
    sheaf_status status = sheaf_strategy_new("ps", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    SHEAF_SCOPE(s)
    {
        v = task->index == 0
                ? sheaf_variable_new("w", sheaf_float(0), NULL)
                : sheaf_variable_new("w", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2)), NULL);
    }
    status = sheaf_variable_status(v, &err);
    if (task->index == 1) {
        RIG_CHECK(task, status == SHEAF_ERR_INCOMPATIBLE);
        RIG_CHECK(task, strstr(err.message, "shape") && strstr(err.message, "(2,)") &&
                            strstr(err.message, "'w'"));
    } else {
        RIG_CHECK(task, status == SHEAF_OK);
    }
    sheaf_variable_free(v);
    status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

static void test_S5_other_variables(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 2, .ps = 1}, other_variables, NULL, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_multiworker_losses),   rig_test(test_S70_workers),
        rig_test(test_one_worker_is_serial), rig_test(test_S7_two_workers),
        rig_test(test_S11_counts),           rig_test(test_S5_other_variables),
    };
    return rig_run(tests);
}
