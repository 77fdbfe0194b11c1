/* SPDX-License-Identifier: Apache-2.0 */

/* Input of several workers: the end of their data agreed one step ahead (R3.7), weights by real examples (S183, S184), and
 * workers that stop, fail or go. */

#include "helpers.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { AT_ONCE = 20 };

/* What the workers of a test share. */
struct shared {
    int replicas;       /* of each worker */
    int rows[4], batch; /* of each worker's data */
    _Atomic int reached[2];
    _Atomic int result;
};

static sheaf_strategy *start(struct rig_task *task)
{
    const struct shared *shared = task->user;
    return strategy_of_task(task, "multiworker", shared->replicas ? shared->replicas : 1);
}

/* Waits, within reason, for another worker. */
static bool reached(_Atomic int *mark)
{
    const time_t limit = time(NULL) + AT_ONCE;
    while (!atomic_load(mark))
        if (time(NULL) > limit)
            return false;
    return true;
}

/* Numbers 100 w, 100 w + 1, … of worker w, in batches of one replica. */
static sheaf_dataset *own_rows(const sheaf_input_context *context, void *user)
{
    const struct shared *shared = user;
    const int w = context->input_pipeline_id;
    sheaf_dataset *d = sheaf_dataset_range(100 * w, 100 * w + shared->rows[w], 1);
    return sheaf_dataset_batch(d, shared->batch, NULL);
}

static sheaf_dist_dataset *own_data(sheaf_strategy *s, struct rig_task *task)
{
    return sheaf_distribute_datasets_from_function(s, own_rows, task->user, NULL);
}

static sheaf_status sum_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    (void)user;
    sheaf_tensor *x = sheaf_cast(only(in), SHEAF_FLOAT32);
    return sheaf_element_put(out, "", sheaf_all_reduce(r, SHEAF_REDUCE_SUM, sheaf_sum(x)));
}

/* ---- one step ahead ---- */

/* After a step that both made, worker 0 gets its next element though worker 1 does not ask for its own until that is done. */
static sheaf_status look_ahead(struct rig_task *task)
{
    struct shared *shared = task->user;
    sheaf_error err = {0};
    sheaf_values *v;
    sheaf_strategy *s = start(task);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = own_data(s, task);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < 3 && status >= 0; i++) {
        if (i > 0 && task->index == 1 && !reached(&shared->reached[i - 1]))
            status = SHEAF_ERR_INTERNAL;
        if (status >= 0)
            status = sheaf_next(it, &v, &err);
        if (i > 0 && task->index == 0)
            atomic_store(&shared->reached[i - 1], 1);
        if (status >= 0)
            status = sheaf_run(s, sum_step, NULL, v, NULL, &err);
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    task->err = err;
    return status;
}

static void test_one_step_ahead(void **state)
{
    (void)state;
    struct shared shared = {.rows = {8, 8}, .batch = 2};
    run_cluster((struct jobs){.worker = 2}, look_ahead, &shared, 60);
}

/* ---- uneven data ---- */

struct model {
    sheaf_variable *w;
    sheaf_optimizer *sgd;
};

/* The loss is the mean of w x over the real examples, so that w falls by the mean of x. */
static sheaf_status mean_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                              void *user)
{
    const struct model *m = user;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *x = sheaf_cast(only(in), SHEAF_FLOAT32);
    sheaf_tensor *loss = sheaf_average_loss(r, sheaf_mul(x, sheaf_value(m->w)));
    sheaf_element_put(out, "examples", sheaf_long(sheaf_tensor_shape(x).dims[0]));
    sheaf_element_put(out, "loss", loss);
    return sheaf_optimizer_minimize(m->sgd, tape, loss);
}

/* The mean of the examples of a step over all workers, and how many there are. */
static double mean_of(const struct shared *shared, int workers, int step, int *count)
{
    const int each = shared->batch * shared->replicas;
    double sum = 0;
    *count = 0;
    for (int w = 0; w < workers; w++)
        for (int i = step * each; i < (step + 1) * each && i < shared->rows[w]; i++) {
            sum += 100 * w + i;
            ++*count;
        }
    return *count ? sum / *count : 0;
}

static sheaf_status check_step(struct rig_task *task, sheaf_strategy *s, const struct model *m,
                               const sheaf_values *v, int step)
{
    const struct shared *shared = task->user;
    sheaf_values *out;
    sheaf_element *sums;
    int count;
    const double mean = mean_of(shared, task->count, step, &count);
    const double before = sheaf_tensor_number(sheaf_value(m->w), 0);
    sheaf_status status = sheaf_run(s, mean_step, (void *)(uintptr_t)m, v, &out, &task->err);
    if (status >= 0)
        status = sheaf_reduce(s, SHEAF_REDUCE_SUM, out, NULL, 0, &sums, &task->err);
    if (status < 0)
        return status;
    RIG_CHECK(task, sheaf_tensor_integer(sheaf_element_get(sums, "examples"), 0) == count);
    RIG_CHECK(task, fabs(sheaf_tensor_number(sheaf_element_get(sums, "loss"), 0) - before * mean) <=
                        1e-5 * fabs(before * mean));
    RIG_CHECK(task, fabs(before - sheaf_tensor_number(sheaf_value(m->w), 0) - mean) <= 1e-4 * mean);
    return SHEAF_OK;
}

static sheaf_status uneven(struct rig_task *task)
{
    const struct shared *shared = task->user;
    sheaf_values *v;
    sheaf_strategy *s = start(task);
    if (!s)
        return task->err.status;
    struct model m = {.sgd = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1})};
    SHEAF_SCOPE(s)
    {
        m.w = sheaf_variable_new("w", sheaf_float(1), NULL);
    }
    sheaf_dist_dataset *d = own_data(s, task);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK, end;
    int steps = 0, count = 1;
    while (status >= 0 && (end = sheaf_next(it, &v, &task->err)) == SHEAF_OK)
        status = check_step(task, s, &m, v, steps++);
    RIG_CHECK(task, status < 0 || (end == SHEAF_END && sheaf_next(it, &v, NULL) == SHEAF_END));
    mean_of(shared, task->count, steps, &count);
    RIG_CHECK(task, status < 0 || count == 0); /* all have the same number of steps: the most */
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_variable_free(m.w);
    sheaf_optimizer_free(m.sgd);
    sheaf_strategy_free(s);
    return status;
}

/* R3.7, R3.9, S183, S184, R12.1: workers with more and less data, and with none; a mean over real examples, never NaN */
static void test_S183_uneven_workers(void **state)
{
    (void)state;
    static const struct shared cases[] = {
        {.replicas = 1, .rows = {5, 1, 0}, .batch = 2},
        {.replicas = 2, .rows = {1, 9, 4}, .batch = 2},
        {.replicas = 1, .rows = {0, 0, 3}, .batch = 1},
        {.replicas = 1, .rows = {0, 0, 0}, .batch = 1},
        {.replicas = 3, .rows = {7, 0, 2}, .batch = 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct shared shared = cases[i];
        run_cluster((struct jobs){.worker = 3}, uneven, &shared, 60);
        const bool empty = shared.rows[0] + shared.rows[1] + shared.rows[2] == 0;
        assert_true(empty == (strstr(rig_log_take(), "has no elements") != NULL)); /* T32 */
    }
}

/* ---- many iterators ---- */

/* Epochs left early and run to the end, two iterators in turns: every worker the same, so all is well. */
static sheaf_status in_turns(struct rig_task *task)
{
    sheaf_values *v;
    sheaf_strategy *s = start(task);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = own_data(s, task);
    sheaf_status status = SHEAF_OK;
    for (int epoch = 0; epoch < 8 && status >= 0; epoch++) {
        sheaf_dist_iterator *a = sheaf_iterate(d), *b = sheaf_iterate(d),
                            *unused = sheaf_iterate(d);
        int steps = 0;
        status = SHEAF_OK;
        while (status == SHEAF_OK && steps < 1 + epoch) { /* there are 4 */
            status = sheaf_next(a, &v, &task->err);
            if (status == SHEAF_OK && ++steps % 2) {
                RIG_CHECK(task, sheaf_tensor_integer(sheaf_values_get(v, 0, NULL), 0) ==
                                    100 * task->index + 2 * (steps - 1));
                status = sheaf_next(b, &v, &task->err);
                RIG_CHECK(task,
                          status < 0 || sheaf_tensor_integer(sheaf_values_get(v, 0, NULL), 0) ==
                                            100 * task->index + steps - 1);
            }
        }
        RIG_CHECK(task, status < 0 || steps == (epoch < 4 ? epoch + 1 : 4));
        sheaf_dist_iterator_free(epoch % 2 ? a : b);
        sheaf_dist_iterator_free(unused);
        sheaf_dist_iterator_free(epoch % 2 ? b : a);
    }
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status < 0 ? status : SHEAF_OK;
}

static void test_iterators_in_turns(void **state)
{
    (void)state;
    struct shared shared = {.rows = {8, 8, 8}, .batch = 2};
    run_cluster((struct jobs){.worker = 3}, in_turns, &shared, 60);
}

/* R3.12, S152: optionals of workers */
static sheaf_status optionals(struct rig_task *task)
{
    sheaf_optional *o;
    sheaf_strategy *s = start(task);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = own_data(s, task);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < 4 && status >= 0; i++) {
        status = sheaf_get_next_as_optional(it, &o, &task->err);
        RIG_CHECK(task, status < 0 || sheaf_optional_has_value(o) == (i < 2));
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status;
}

static void test_S152_optionals_of_workers(void **state)
{
    (void)state;
    struct shared shared = {.rows = {3, 1}, .batch = 2};
    run_cluster((struct jobs){.worker = 2}, optionals, &shared, 60);
}

/* ---- a worker that stops ---- */

static sheaf_status expect(struct rig_task *task, sheaf_status found, sheaf_status status,
                           const char *part)
{
    if (found == status && strstr(task->err.message, part))
        return SHEAF_OK;
    sheaf_error was = task->err;
    return sheaf_error_set(&task->err, SHEAF_ERR_INTERNAL, "%d \"%s\", expected %d \"%s\"", found,
                           was.message, status, part);
}

/* Worker 0 frees its iterator after one element; worker 1 gets what was said ahead, and is told at the one after it. */
static sheaf_status stops(struct rig_task *task, sheaf_strategy *s, sheaf_dist_dataset *d)
{
    struct shared *shared = task->user;
    sheaf_values *v;
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK;
    const time_t begin = time(NULL);
    for (int i = 0; i < (task->index == 0 ? 1 : 3) && status == SHEAF_OK; i++)
        status = sheaf_next(it, &v, &task->err);
    if (task->index == 1)
        status = expect(task, status, SHEAF_ERR_TEAM_MISMATCH, "\"element 2 of iterator ");
    atomic_fetch_add(&shared->reached[task->index], 1);
    sheaf_dist_iterator_free(it);
    RIG_CHECK(task, time(NULL) - begin < AT_ONCE);
    it = sheaf_iterate(d);
    if (status >= 0 && task->index == 0) {
        RIG_CHECK(task, reached(&shared->reached[1]));
        status = expect(task, sheaf_next(it, &v, &task->err), SHEAF_ERR_TEAM_MISMATCH,
                        "\"element 2 of iterator ");
    }
    while (status == SHEAF_OK)
        status = sheaf_next(it, &v, &task->err);
    sheaf_dist_iterator_free(it);
    (void)s;
    return status < 0 ? status : SHEAF_OK;
}

static sheaf_status stop_early(struct rig_task *task)
{
    sheaf_strategy *s = start(task);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = own_data(s, task);
    const sheaf_status status = stops(task, s, d);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status;
}

static void test_a_worker_stops_early(void **state)
{
    (void)state;
    struct shared shared = {.rows = {8, 8}, .batch = 2};
    run_cluster((struct jobs){.worker = 2}, stop_early, &shared, 60);
}

/* Worker 0 goes after one element: worker 1 hears what it said, and then of its loss, at once. */
static sheaf_status goes(struct rig_task *task)
{
    sheaf_values *v;
    sheaf_strategy *s = start(task);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = own_data(s, task);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    const time_t begin = time(NULL);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < (task->index == 0 ? 1 : 3) && status == SHEAF_OK; i++)
        status = sheaf_next(it, &v, &task->err);
    if (task->index == 1 &&
        status != SHEAF_ERR_TEAM_MISMATCH) /* it may see the iterator freed before */
        status = expect(task, status, SHEAF_ERR_TEAM_LOST, "worker/task:0");
    RIG_CHECK(task, time(NULL) - begin < AT_ONCE);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return task->index == 1 && status == SHEAF_ERR_TEAM_MISMATCH ? SHEAF_OK : status;
}

static void test_a_worker_goes(void **state)
{
    (void)state;
    struct shared shared = {.rows = {8, 8}, .batch = 2};
    run_cluster((struct jobs){.worker = 2}, goes, &shared, 60);
}

/* ---- input that fails ---- */

struct counter {
    int next, bad; /* the number that fails, once */
};

static sheaf_status count_start(void *user, void **state, sheaf_error *err)
{
    (void)err;
    *state = user;
    return SHEAF_OK;
}

static sheaf_status count_next(void *state, sheaf_element *out, sheaf_error *err)
{
    struct counter *c = state;
    if (c->next == 4)
        return SHEAF_END;
    if (c->next == c->bad) {
        c->bad = -1;
        return sheaf_error_set(err, SHEAF_ERR_DATA_LOSS, "bad on purpose");
    }
    return sheaf_element_put(out, "", sheaf_reshape(sheaf_long(c->next++), SHEAF_SHAPE(1)));
}

static sheaf_dataset *counted(const sheaf_input_context *context, void *user)
{
    const sheaf_generator g = {.start = count_start, .next = count_next, .user = user};
    const sheaf_tensor_spec one = {.dtype = SHEAF_INT64, .shape = SHEAF_SHAPE(1)};
    (void)context;
    return sheaf_dataset_from_generator(&g, sheaf_element_spec_new(&one, 1));
}

/* The error of one worker's element 2 is everybody's, after elements 0 and 1, and with them the rest is lost to nobody. */
static sheaf_status fails(struct rig_task *task)
{
    struct counter c = {.bad = task->index == 1 ? 2 : -1};
    sheaf_values *v;
    sheaf_strategy *s = start(task);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, counted, &c, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < 4 && status >= 0; i++) {
        status = sheaf_next(it, &v, &task->err);
        if (i == 2) {
            status = expect(task, status, SHEAF_ERR_DATA_LOSS, "bad on purpose");
            RIG_CHECK(task, status < 0 || task->err.origin.index == 1);
            if (status >= 0)
                status = sheaf_next(it, &v, &task->err);
        }
        RIG_CHECK(task, status < 0 || sheaf_tensor_integer(sheaf_values_get(v, 0, NULL), 0) == i);
    }
    RIG_CHECK(task, status < 0 || sheaf_next(it, &v, &task->err) == SHEAF_END);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status;
}

static void test_input_of_a_worker_fails(void **state)
{
    (void)state;
    struct shared shared = {0};
    run_cluster((struct jobs){.worker = 3}, fails, &shared, 60);
}

/* Worker 0's data never end. */
static sheaf_dataset *endless_first(const sheaf_input_context *context, void *user)
{
    const int w = context->input_pipeline_id;
    (void)user;
    sheaf_dataset *d = sheaf_dataset_range(100 * w, 100 * w + 3, 1);
    return sheaf_dataset_batch(w == 0 ? sheaf_dataset_repeat(d, -1) : d, 2, NULL);
}

static sheaf_status goes_on(struct rig_task *task)
{
    static const int rows[2][6] = {{2, 2, 2, 2, 2, 2}, {2, 1, 0, 0, 0, 0}};
    sheaf_values *v;
    sheaf_strategy *s = start(task);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, endless_first, NULL, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < 6 && status == SHEAF_OK; i++) {
        sheaf_optional *o = NULL;
        if (i % 2 == 0) {
            status = sheaf_next(it, &v, &task->err);
        } else {
            status = sheaf_get_next_as_optional(it, &o, &task->err);
            if (status == SHEAF_OK)
                status = sheaf_optional_value(o, &v, &task->err);
        }
        RIG_CHECK(task, status != SHEAF_END);
        if (status < 0)
            break;
        RIG_CHECK(task,
                  sheaf_tensor_elements(sheaf_values_get(v, 0, NULL)) == rows[task->index][i]);
        RIG_CHECK(task, sheaf_values_examples(v) == rows[0][i] + rows[1][i]);
        status = sheaf_run(s, sum_step, NULL, v, NULL, &task->err);
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status;
}

/* R3.7: the end is agreed on though by themselves workers would see it differently (R3.1): one whose data end gets empty parts
 * as long as the other, whose data never do, goes on. */
static void test_R3_7_one_is_endless(void **state)
{
    (void)state;
    struct shared shared = {0};
    run_cluster((struct jobs){.worker = 2}, goes_on, &shared, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_one_step_ahead),          rig_test(test_S183_uneven_workers),
        rig_test(test_iterators_in_turns),      rig_test(test_S152_optionals_of_workers),
        rig_test(test_a_worker_stops_early),    rig_test(test_a_worker_goes),
        rig_test(test_input_of_a_worker_fails), rig_test(test_R3_7_one_is_endless),
    };
    return rig_run(tests);
}
