/* SPDX-License-Identifier: Apache-2.0 */

/* Input of several workers of which all know that they have as much: there is nothing to agree on (S185). */

#include "helpers.h"

#include <stdatomic.h>
#include <time.h>

enum { AT_ONCE = 20 };

static sheaf_status sum_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    (void)user;
    sheaf_tensor *x = sheaf_cast(only(in), SHEAF_FLOAT32);
    return sheaf_element_put(out, "", sheaf_all_reduce(r, SHEAF_REDUCE_SUM, sheaf_sum(x)));
}

/* Data in memory with static shapes, and what workers find of them. */
struct certain {
    int workers, replicas;
    int rows[3]; /* of each worker's own data, in batches of 2; 0: all workers share one dataset */
    int batches; /* of that, with one row for each replica; SHEAF_INFINITE */
    int most;    /* steps that are taken of a pass; 0: all */
    int passes;
    int steps[3];       /* that were */
    uint64_t agreed[3]; /* times the workers did */
    int64_t examples[3];
    _Atomic int seen[256];
};

static sheaf_dataset *own_certain(const sheaf_input_context *context, void *user)
{
    const struct certain *c = user;
    const int w = context->input_pipeline_id;
    sheaf_dataset *d = sheaf_dataset_range(64 * w, 64 * w + c->rows[w], 1);
    d = sheaf_dataset_shuffle(d, 8, NULL);
    return sheaf_dataset_batch(d, 2, &(sheaf_batch_options){.drop_remainder = true});
}

static sheaf_dist_dataset *certain_data(sheaf_strategy *s, struct certain *c)
{
    const int total = c->workers * c->replicas;
    if (c->rows[0] > 0)
        return sheaf_distribute_datasets_from_function(s, own_certain, c, NULL);
    sheaf_dataset *d = sheaf_dataset_range(0, c->batches < 0 ? total : total * c->batches, 1);
    d = sheaf_dataset_repeat(d, c->batches < 0 ? -1 : 1);
    d = sheaf_dataset_batch(d, total, &(sheaf_batch_options){.drop_remainder = true});
    return sheaf_distribute_dataset(s, sheaf_dataset_prefetch(d, 2), NULL);
}

static void note(struct certain *c, int worker, const sheaf_values *v)
{
    c->steps[worker]++;
    c->examples[worker] += sheaf_values_examples(v);
    for (int r = 0; r < c->replicas; r++) {
        const sheaf_tensor *part = sheaf_values_get(v, r, NULL);
        for (int64_t i = 0; i < sheaf_tensor_elements(part); i++)
            atomic_fetch_add(&c->seen[sheaf_tensor_integer(part, i)], 1);
    }
}

static sheaf_status pass(struct rig_task *task, sheaf_strategy *s, sheaf_dist_dataset *d)
{
    struct certain *c = task->user;
    sheaf_values *v;
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; (c->most == 0 || i < c->most) && status == SHEAF_OK; i++) {
        status = sheaf_next(it, &v, &task->err);
        if (status != SHEAF_OK)
            break;
        note(c, task->index, v);
        status = sheaf_run(s, sum_step, NULL, v, NULL, &task->err);
    }
    RIG_CHECK(task, status < 0 || c->most || sheaf_next(it, &v, &task->err) == SHEAF_END);
    sheaf_dist_iterator_free(it);
    return status < 0 ? status : SHEAF_OK;
}

static sheaf_status count_agreements(struct rig_task *task)
{
    struct certain *c = task->user;
    sheaf_status status = SHEAF_OK;
    sheaf_strategy *s = strategy_of_task(task, "multiworker", c->replicas);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = certain_data(s, c);
    for (int i = 0; i < c->passes && status >= 0; i++)
        status = pass(task, s, d);
    c->agreed[task->index] = sheaf_counter("input.agreements");
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status;
}

/* Steps of each pass, and agreements in all passes, of every worker. */
static void expect_agreements(struct certain c, int steps, uint64_t agreements)
{
    int rows = 0, times = -1;
    c.passes = c.passes ? c.passes : 1;
    run_cluster((struct jobs){.worker = c.workers}, count_agreements, &c, 60);
    rig_log_take(); /* data without files are sharded by DATA */
    for (int i = 0; i < 256; i++) {
        rows += c.seen[i];
        if (c.seen[i] == 0 || c.most > 0)
            continue;
        times = times < 0 ? c.seen[i] : times;
        assert_int_equal(c.seen[i], times); /* of what comes, all comes as often */
    }
    for (int w = 0; w < c.workers; w++) {
        assert_int_equal(c.steps[w], steps * c.passes);
        assert_int_equal(c.agreed[w], agreements);
        assert_int_equal(c.examples[w], rows);
    }
    assert_true(c.most || times == c.passes);
}

/* S185: every step is an agreement, the end too, unless all are sure of the same number of full steps: that is shown by the
 * first two of the first pass. */
static void test_S185_agreements(void **state)
{
    (void)state;
    expect_agreements((struct certain){.workers = 3, .replicas = 1, .rows = {10, 6, 2}}, 5, 6);
    expect_agreements(
        (struct certain){.workers = 3, .replicas = 1, .rows = {20, 20, 18}, .passes = 2}, 10, 22);
    expect_agreements((struct certain){.workers = 3, .replicas = 1, .rows = {20, 20, 20}}, 10, 2);
    expect_agreements((struct certain){.workers = 2, .replicas = 3, .rows = {24, 24}}, 4, 2);
    expect_agreements((struct certain){.workers = 2, .replicas = 2, .rows = {6, 6}}, 2, 3);
    expect_agreements((struct certain){.workers = 3, .replicas = 2, .batches = 9, .passes = 3}, 9,
                      2);
    expect_agreements((struct certain){.workers = 2, .replicas = 1, .batches = 1}, 1, 2);
    expect_agreements((struct certain){.workers = 2, .replicas = 2, .batches = -1, .most = 12}, 12,
                      2);
}

/* Without agreements worker 0 leaves its pass after four steps and begins another: where the others are done with theirs
 * and it is not, they find out. */
static sheaf_status leave_certain(struct rig_task *task)
{
    struct certain *c = task->user;
    sheaf_values *v = NULL;
    sheaf_element *sum;
    sheaf_strategy *s = strategy_of_task(task, "multiworker", c->replicas);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = certain_data(s, c);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK;
    const time_t begin = time(NULL);
    for (int i = 0; status == SHEAF_OK; i++) {
        if (task->index == 0 && i == 4) {
            sheaf_dist_iterator_free(it);
            it = sheaf_iterate(d);
        }
        status = sheaf_next(it, &v, &task->err);
        if (status == SHEAF_OK)
            status = sheaf_run(s, sum_step, NULL, v, NULL, &task->err);
    }
    if (status == SHEAF_END)
        status = sheaf_reduce(s, SHEAF_REDUCE_SUM, v, NULL, 0, &sum, &task->err);
    /* Whoever finds out first leaves. */
    RIG_CHECK(task, status == SHEAF_ERR_TEAM_MISMATCH || status == SHEAF_ERR_TEAM_LOST);
    RIG_CHECK(task, time(NULL) - begin < AT_ONCE);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return SHEAF_OK;
}

static void test_a_worker_leaves_certain_data(void **state)
{
    (void)state;
    struct certain c = {.workers = 3, .replicas = 1, .batches = 12};
    run_cluster((struct jobs){.worker = 3}, leave_certain, &c, 60);
    rig_log_take();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S185_agreements),
        rig_test(test_a_worker_leaves_certain_data),
    };
    return rig_run(tests);
}
