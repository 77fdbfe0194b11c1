/* SPDX-License-Identifier: Apache-2.0 */

/* Strategies over several tasks, N tasks in one process: S3, S5, S7-S11, S20, S70, S92. */

#include "helpers.h"
#include "training.h"

#include "base/file.h"
#include "base/wait.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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
        assert_true(shapes[k][0] == 1 ? !*log
                                      : strstr(log, "every worker makes all elements") != NULL);
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
    /* S20: a ps of the cluster, which nobody starts, is of no account; the chief says so */
    static const char said[] = "MultiWorkerMirroredStrategy uses no parameter servers: 1 ps of the "
                               "cluster will have no worker to serve\n";
    static const struct jobs jobs[] = {{.worker = 2}, {.worker = 2, .ps = 1, .ps_absent = true}};
    for (int i = 0; i < 2; i++) {
        float shared[2] = {0};
        run_cluster(jobs[i], look_around, shared, 60);
        assert_true(shared[0] == 7 && shared[1] == 7);
        assert_string_equal(rig_log_take(), jobs[i].ps ? said : "");
    }
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

/* Fits w to 1, -2, 3, -4. */
struct fit {
    sheaf_variable *w;
    sheaf_optimizer *sgd;
};

static sheaf_tensor *fit_miss(const struct fit *f)
{
    const float target[] = {1, -2, 3, -4};
    return sheaf_sub(sheaf_value(f->w), sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(4), target));
}

static sheaf_status fit_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    const struct fit *f = user;
    (void)r;
    (void)in;
    (void)out;
    sheaf_tape *tape = sheaf_tape_start();
    return sheaf_optimizer_minimize(f->sgd, tape, sheaf_sum(sheaf_square(fit_miss(f))));
}

static sheaf_status fit_worker(struct rig_task *task)
{
    struct fit f = {0};
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_strategy_new("ps", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    SHEAF_SCOPE(s)
    {
        f.w = sheaf_variable_new("w", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(4)), NULL);
    }
    f.sgd = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 0.05});
    for (int i = 0; i < 100 && status >= 0; i++)
        status = sheaf_run(s, fit_step, &f, NULL, NULL, &task->err);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    if (status >= 0 && task->index == 0) {
        const double miss = sheaf_tensor_number(sheaf_sum(sheaf_square(fit_miss(&f))), 0);
        if (!(miss < 1e-6)) /* 30 at first */
            status = sheaf_error_set(&task->err, SHEAF_ERR_INTERNAL, "misses by %g", miss);
    }
    sheaf_optimizer_free(f.sgd);
    sheaf_variable_free(f.w);
    sheaf_strategy_free(s);
    return status;
}

/* S7: workers train at once, to convergence, and the job ends by itself */
static void test_S7_three_workers(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 3, .ps = 2}, fit_worker, NULL, 60);
}

/* ---- how workers end ---- */

enum ending { FREES, COMES_LATE, FAILS };
struct endings {
    enum ending of[2];
    _Atomic int left; /* how many have */
};

static sheaf_status failing_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                 void *user)
{
    (void)r;
    (void)in;
    (void)out;
    (void)user;
    return sheaf_error_set(NULL, SHEAF_ERR_INTERNAL, "on purpose");
}

/* Three steps, and no join. */
static sheaf_status end_worker(struct rig_task *task)
{
    struct endings *e = task->user;
    struct fit f = {0};
    sheaf_strategy *s = NULL;
    while (e->of[task->index] == COMES_LATE && atomic_load(&e->left) == 0)
        if (sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, &task->err) < 0)
            return task->err.status;
    sheaf_status status = sheaf_strategy_new("ps", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    SHEAF_SCOPE(s)
    {
        f.w = sheaf_variable_new("w", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(4)), NULL);
    }
    f.sgd = sheaf_sgd(NULL);
    for (int i = 0; i < 3 && status >= 0; i++)
        status = sheaf_run(s, fit_step, &f, NULL, NULL, &task->err);
    if (status >= 0 && e->of[task->index] == FAILS)
        RIG_CHECK(task, sheaf_run(s, failing_step, NULL, NULL, NULL, NULL) < 0);
    sheaf_optimizer_free(f.sgd);
    sheaf_variable_free(f.w);
    sheaf_strategy_free(s);
    atomic_fetch_add(&e->left, 1);
    return status;
}

/* Whoever frees its strategy after its steps has ended its part; also when another one has not come
 * yet, which finds the servers there. Whoever frees it because of an error has not. */
static void test_free_without_join(void **state)
{
    (void)state;
    struct endings together = {0}, apart = {.of = {FREES, COMES_LATE}},
                   fail = {.of = {FAILS, FAILS}};
    run_cluster((struct jobs){.worker = 2, .ps = 2}, end_worker, &together, 60);
    run_cluster((struct jobs){.worker = 2, .ps = 2}, end_worker, &apart, 60);
    run_cluster(
        (struct jobs){.worker = 2, .ps = 2, .ps_fails = "2 ended before their work was done"},
        end_worker, &fail, 60);
}

/* The chief joins; the other one never starts. */
static sheaf_status join_alone(struct rig_task *task)
{
    const double *deadline = task->user;
    const sheaf_strategy_options options = {.deadline = *deadline};
    sheaf_strategy *s = NULL;
    if (task->index > 0)
        return SHEAF_OK;
    sheaf_status status = sheaf_strategy_new("ps", NULL, &options, &s, &task->err);
    const int64_t since = sheaf__clock_now();
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    const double took = (double)(sheaf__clock_now() - since) / 1e9;
    sheaf_strategy_free(s);
    if (status >= 0)
        RIG_CHECK(task, took >= *deadline && took < *deadline + 3);
    return status;
}

/* A worker that never comes is waited for as long as the strategy's deadline, and named meanwhile. */
static void test_join_without_a_worker(void **state)
{
    (void)state;
    for (double deadline = 4; deadline < 100; deadline *= 10) {
        simulate_cluster(1, (struct jobs){.worker = 2, .ps = 2}, join_alone, &deadline, 3600);
        assert_string_equal(rig_log_take(),
                            "waiting for /job:worker/task:1 at 127.0.0.1:20002, which has not "
                            "connected\n"
                            "going on without /job:worker/task:1 at 127.0.0.1:20002, which never "
                            "connected\n");
    }
}

/* ---- data that is not there ---- */

static sheaf_status to_float(const sheaf_element *in, sheaf_element *out, void *user)
{
    char digits[32];
    const sheaf_bytes b = sheaf_tensor_bytes(sheaf_element_get(in, NULL), 0);
    (void)user;
    snprintf(digits, sizeof(digits), "%.*s", (int)b.size, b.data);
    return sheaf_element_put(out, "", sheaf_float((float)atof(digits)));
}

static sheaf_status average_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                 void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_average_loss(r, sheaf_element_get(in, NULL)));
}

/* Text files, one a worker. */
struct sparse {
    const char *paths[2];
    double losses[4];
    int steps;
};

/* Numbers of the worker's file in batches; the job's mean of each. */
static sheaf_status average_worker(struct rig_task *task)
{
    const struct sparse *data = task->user;
    const sheaf_tensor_spec number = {NULL, SHEAF_FLOAT32, SHEAF_SCALAR};
    sheaf_strategy *s = NULL;
    sheaf_values *v, *losses;
    sheaf_element *loss = NULL;
    sheaf_dataset *d = sheaf_text_lines_files(data->paths, 2, NULL);
    int step = 0;
    SHEAF_FRAME
    {
        const sheaf_map_options o = {.spec = sheaf_element_spec_new(&number, 1)};
        d = sheaf_dataset_batch(sheaf_dataset_map(d, to_float, NULL, &o), 4, NULL);
    }
    sheaf_status status = sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, d, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    SHEAF_EACH(v, it, &task->err)
    {
        RIG_CHECK(task, step < data->steps);
        if (sheaf_run(s, average_step, NULL, v, &losses, &task->err) < 0 ||
            sheaf_reduce(s, SHEAF_REDUCE_SUM, losses, NULL, 0, &loss, &task->err) < 0)
            break;
        RIG_CHECK(task, fabs(sheaf_tensor_number(only(loss), 0) - data->losses[step]) < 1e-6);
        step++;
    }
    if (task->err.status >= 0)
        RIG_CHECK(task, step == data->steps);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    status = task->err.status;
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* T32: a worker whose only file is empty takes part without data; when all are, that is said, and
 * no loss is NaN: there is no step */
static void test_T32_empty_files(void **state)
{
    (void)state;
    struct sparse some = {.losses = {1.5, 4.5}, .steps = 2}, none = {.steps = 0};
    sheaf_error err = {0};
    some.paths[0] = rig_path("numbers");
    some.paths[1] = none.paths[0] = none.paths[1] = rig_path("empty");
    rig_ok(sheaf__file_replace(some.paths[0], "1\n2\n4\n5\n", 8, &err), &err);
    rig_ok(sheaf__file_replace(some.paths[1], "", 0, &err), &err);
    run_cluster((struct jobs){.worker = 2}, average_worker, &some, 60);
    assert_string_equal(rig_log_take(), "");
    run_cluster((struct jobs){.worker = 2}, average_worker, &none, 60);
    assert_non_null(strstr(rig_log_take(), "the distributed dataset has no elements"));
}

struct counted {
    sheaf_variable *w, *step;
    _Atomic int calls;
};

static sheaf_status count_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    struct counted *c = user;
    (void)in;
    atomic_fetch_add(&c->calls, 1);
    sheaf_element_put(out, "", sheaf_value(c->w));
    sheaf_status status = sheaf_assign_add(c->w, sheaf_float((float)sheaf_replica_id(r) + 1), NULL);
    return status < 0 ? status : sheaf_assign_add(c->step, sheaf_long(1), NULL);
}

enum { COUNTED_STEPS = 5, COUNTED_REPLICAS = 3 };

/* S13: a device scope is for operations; a variable made in it is on a ps all the same */
static sheaf_status make_on_device(struct rig_task *task, sheaf_strategy *s)
{
    char device[64];
    sheaf_variable *v = NULL;
    const char *of_operation = NULL;
    snprintf(device, sizeof(device), "/job:worker/replica:0/task:%d/device:CPU:1", task->index);
    SHEAF_SCOPE(s)
    SHEAF_DEVICE("CPU:1")
    {
        v = sheaf_variable_new("v", sheaf_float(1), NULL);
        of_operation = sheaf_tensor_device(sheaf_add(sheaf_float(1), sheaf_float(2)));
    }
    RIG_CHECK(task, of_operation && strcmp(of_operation, device) == 0);
    RIG_CHECK(task, strncmp(sheaf_variable_device(v), "/job:ps/", 8) == 0);
    sheaf_variable_free(v);
    return SHEAF_OK;
}

/* S3, S4, S5, S11, S92, S117: where variables are, one copy of each, one version for the replicas of a step, the first
 * replica's count */
static sheaf_status count_worker(struct rig_task *task)
{
    struct ps_job *job = task->user;
    const sheaf_variable_options sum = {.aggregation = SHEAF_AGGREGATION_SUM};
    const sheaf_variable_options first = {.aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA,
                                          .not_trainable = true};
    struct counted c = {0};
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_devices_configure(COUNTED_REPLICAS, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("ps", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    RIG_CHECK(task, sheaf_strategy_num_replicas(s) == COUNTED_REPLICAS);
    SHEAF_SCOPE(s)
    {
        c.w = sheaf_variable_new("w", sheaf_float(0), &sum);
        c.step = sheaf_variable_new("global_step", sheaf_long(0), &first);
    }
    snprintf(job->placement[task->index], sizeof(job->placement[0]), "%s %s",
             sheaf_variable_device(c.w), sheaf_variable_device(c.step));
    RIG_CHECK(task, sheaf_variable_copies(c.w) == 1 && sheaf_variable_copies(c.step) == 1);
    status = make_on_device(task, s);
    for (int i = 0; i < COUNTED_STEPS && status >= 0; i++)
        SHEAF_FRAME
        {
            sheaf_values *out;
            status = sheaf_run(s, count_step, &c, NULL, &out, &task->err);
            for (int r = 1; r < COUNTED_REPLICAS && status >= 0; r++)
                RIG_CHECK(task, sheaf_tensor_number(sheaf_values_get(out, 0, NULL), 0) ==
                                    sheaf_tensor_number(sheaf_values_get(out, r, NULL), 0));
        }
    RIG_CHECK(task, status < 0 || c.calls == COUNTED_STEPS * COUNTED_REPLICAS);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    if (status >= 0 && task->index == 0) {
        RIG_CHECK(task,
                  sheaf_tensor_number(sheaf_value(c.w), 0) == 3 * COUNTED_STEPS * (1 + 2 + 3));
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

/* S9: within a worker the replicas make one update together. */

enum { UPDATES = 4 };

struct together {
    sheaf_variable *w;
    sheaf_optimizer *adagrad;
};

/* Replica r's gradient is (r + 1) times that of the first; all are sums of powers of two, so that sums are exact. */
static sheaf_status update_together(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                    void *user)
{
    const struct together *t = user;
    (void)in;
    sheaf_tensor *g = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), (float[]){0.5f, -1, 0.125f});
    sheaf_tensor *mine = sheaf_scale(g, sheaf_replica_id(r) + 1, 0);
    sheaf_error err = {0};
    sheaf_element_put(out, "", sheaf_value(t->w));
    return sheaf_optimizer_apply(t->adagrad, &t->w, &mine, 1, &err);
}

/* Runs the steps on the strategy; values[k] is the variable before step k, values[UPDATES] at the end. */
static sheaf_status updates_of(sheaf_strategy *s, float values[UPDATES + 1][3], sheaf_error *err)
{
    struct together t = {0};
    SHEAF_SCOPE(s)
    {
        t.w = sheaf_variable_new("w", sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(3)), NULL);
    }
    t.adagrad = sheaf_adagrad(&(sheaf_optimizer_options){.learning_rate = 0.1});
    sheaf_status status = SHEAF_OK;
    for (int k = 0; k <= UPDATES && status >= 0; k++)
        SHEAF_FRAME
        {
            sheaf_values *out = NULL;
            if (k == UPDATES)
                memcpy(values[k], sheaf_tensor_data(sheaf_value(t.w)), sizeof(values[k]));
            else if ((status = sheaf_run(s, update_together, &t, NULL, &out, err)) >= 0)
                memcpy(values[k], sheaf_tensor_data(sheaf_values_get(out, 0, NULL)),
                       sizeof(values[k]));
        }
    sheaf_optimizer_free(t.adagrad);
    sheaf_variable_free(t.w);
    return status;
}

static sheaf_status updates_on_ps(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_devices_configure(4, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("ps", NULL, NULL, &s, &task->err);
    if (status >= 0)
        status = updates_of(s, task->user, &task->err);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* What a single device does with the gradients' sum. Adagrad's sum of squares tells one update by the sum, (10 g)^2, from
 * four updates, 30 g^2. */
static void updates_by_hand(float values[UPDATES + 1][3])
{
    const float g[] = {5, -10, 1.25f};
    for (int i = 0; i < 3; i++) {
        float w = 1, h = 0.1f;
        for (int k = 0; k <= UPDATES; k++) {
            values[k][i] = w;
            h += g[i] * g[i];
            w -= g[i] * 0.1f / sqrtf(h + 1e-7f);
        }
    }
}

static void test_S9_one_update_a_step(void **state)
{
    (void)state;
    float on_ps[UPDATES + 1][3] = {{0}}, expected[UPDATES + 1][3];
    run_cluster((struct jobs){.worker = 1, .ps = 1}, updates_on_ps, on_ps, 60);
    updates_by_hand(expected);
    for (int k = 0; k <= UPDATES; k++)
        assert_memory_equal(on_ps[k], expected[k], sizeof(on_ps[k]));
}

/* Large updates of workers that run at once get into each other's way, and still count once each,
 * whole. */

enum { WIDE = 400000, WIDE_STEPS = 30 };

static sheaf_status wide_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                              void *user)
{
    const struct counted *c = user;
    (void)r;
    (void)in;
    sheaf_element_put(out, "", sheaf_value(c->w));
    sheaf_status status =
        sheaf_assign_add(c->w, sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(WIDE)), NULL);
    return status < 0 ? status : sheaf_assign_add(c->step, sheaf_long(1), NULL);
}

/* All elements have seen the same updates. */
static bool is_one_version(const sheaf_tensor *t)
{
    const double first = sheaf_tensor_number(t, 0);
    for (int i = 0; i < WIDE; i++)
        if (sheaf_tensor_number(t, i) != first)
            return false;
    return true;
}

static sheaf_status wide_worker(struct rig_task *task)
{
    struct counted c = {0};
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_strategy_new("ps", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    SHEAF_SCOPE(s)
    {
        c.w = sheaf_variable_new("w", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(WIDE)), NULL);
        c.step = sheaf_variable_new("global_step", sheaf_long(0), NULL);
    }
    for (int i = 0; i < WIDE_STEPS && status >= 0; i++)
        SHEAF_FRAME
        {
            sheaf_values *out;
            status = sheaf_run(s, wide_step, &c, NULL, &out, &task->err);
            if (status >= 0)
                RIG_CHECK(task, is_one_version(sheaf_values_get(out, 0, NULL)));
        }
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    if (status >= 0 && task->index == 0) {
        sheaf_tensor *w = sheaf_value(c.w);
        RIG_CHECK(task, is_one_version(w) && sheaf_tensor_number(w, 0) == 3 * WIDE_STEPS);
        RIG_CHECK(task, sheaf_tensor_integer(sheaf_value(c.step), 0) == 3 * WIDE_STEPS);
    }
    sheaf_variable_free(c.w);
    sheaf_variable_free(c.step);
    sheaf_strategy_free(s);
    return status;
}

static void test_wide_updates(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 3, .ps = 1}, wide_worker, NULL, 60);
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
        RIG_CHECK(task, strstr(err.message, "'w' float32 () here, 'w' float32 (2,)"));
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
        rig_test(test_one_worker_is_serial), rig_test(test_S7_three_workers),
        rig_test(test_free_without_join),    rig_test(test_join_without_a_worker),
        rig_test(test_T32_empty_files),      rig_test(test_S11_counts),
        rig_test(test_S5_other_variables),   rig_test(test_S9_one_update_a_step),
        rig_test(test_wide_updates),
    };
    return rig_run(tests);
}
