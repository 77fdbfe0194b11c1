/* SPDX-License-Identifier: Apache-2.0 */

/* R5.16, R5.22: a variable with copies on many replicas is one tensor of a checkpoint. Which value that is, and what each copy
 * gets of it. */

#include "helpers.h"

#include "base/error.h"

#include <stdio.h>

/* What a replica of number r adds to a variable that begins with 0: r + 1. */
enum kind { MIRRORED, FIRST, SUM, MEAN, WHOLE, KINDS };

static const struct {
    const char *name;
    sheaf_dtype dtype;
    sheaf_variable_options options;
} kinds[KINDS] = {
    [MIRRORED] = {"mirrored", SHEAF_FLOAT32, {0}}, /* each replica writes its own */
    [FIRST] = {"first",
               SHEAF_FLOAT32,
               {.synchronization = SHEAF_SYNCHRONIZATION_ON_READ,
                .aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA}},
    [SUM] = {"sum",
             SHEAF_FLOAT64,
             {.synchronization = SHEAF_SYNCHRONIZATION_ON_READ,
              .aggregation = SHEAF_AGGREGATION_SUM}},
    [MEAN] = {"mean",
              SHEAF_FLOAT64,
              {.synchronization = SHEAF_SYNCHRONIZATION_ON_READ,
               .aggregation = SHEAF_AGGREGATION_MEAN}},
    [WHOLE] = {"whole",
               SHEAF_INT32,
               {.synchronization = SHEAF_SYNCHRONIZATION_ON_READ,
                .aggregation = SHEAF_AGGREGATION_SUM}},
};

struct job {
    const char *name; /* of the strategy */
    int replicas;     /* of each worker */
    const char *folder;
    bool background;
};

static sheaf_status step_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    sheaf_variable *const *v = user;
    (void)in;
    (void)out;
    for (int k = 0; k < KINDS; k++) {
        sheaf_tensor *number = sheaf_cast(sheaf_int(sheaf_replica_id(r) + 1), kinds[k].dtype);
        SHEAF__TRY(sheaf_assign_add(v[k], number, NULL));
    }
    return SHEAF_OK;
}

static double copy_of(sheaf_variable *v, int i)
{
    return sheaf_tensor_number(sheaf_value(sheaf_variable_copy(v, i)), 0);
}

/* After a restore of what replicas 1..n added. */
static sheaf_status check_copies(struct rig_task *task, sheaf_variable *const *v, int replicas,
                                 int n)
{
    const int total = n * (n + 1) / 2;
    for (int i = 0; i < replicas; i++) {
        RIG_CHECK(task, copy_of(v[MIRRORED], i) == 1);
        RIG_CHECK(task, copy_of(v[FIRST], i) == 1);
        RIG_CHECK(task, copy_of(v[SUM], i) == (double)total / n);
        RIG_CHECK(task, copy_of(v[MEAN], i) == (double)total / n);
        RIG_CHECK(task, copy_of(v[WHOLE], i) == (int)((double)total / n)); /* toward zero, R5.19 */
    }
    return SHEAF_OK;
}

static sheaf_status save_and_restore(struct rig_task *task, const struct job *job,
                                     sheaf_strategy *s, sheaf_variable *const *v,
                                     sheaf_checkpoint *c)
{
    const sheaf_manager_options options = {.background = job->background};
    sheaf_checkpoint_manager *m = NULL;
    SHEAF__TRY(sheaf_run(s, step_fn, (void *)(uintptr_t)v, NULL, NULL, &task->err));
    SHEAF__TRY(sheaf_checkpoint_manager_new(c, job->folder, &options, &m, &task->err));
    sheaf_status status = sheaf_manager_save(m, false, NULL, &task->err);
    if (status >= 0)
        status = sheaf_run(s, step_fn, (void *)(uintptr_t)v, NULL, NULL, &task->err);
    if (status >= 0)
        status = sheaf_manager_restore(m, NULL, &task->err);
    sheaf_checkpoint_manager_free(m);
    SHEAF__TRY(status);
    return check_copies(task, v, job->replicas, sheaf_strategy_num_replicas(s));
}

static sheaf_status run(struct rig_task *task)
{
    const struct job *job = task->user;
    sheaf_variable *v[KINDS];
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_strategy *s = strategy_of_task(task, job->name, job->replicas);
    if (!s)
        return task->err.status;
    SHEAF_SCOPE(s)
    {
        for (int k = 0; k < KINDS; k++) {
            v[k] = sheaf_variable_new(kinds[k].name, sheaf_zeros(kinds[k].dtype, SHEAF_SCALAR),
                                      &kinds[k].options);
            sheaf_checkpoint_add_variable(c, kinds[k].name, v[k]);
        }
    }
    sheaf_status status = save_and_restore(task, job, s, v, c);
    sheaf_checkpoint_free(c);
    for (int k = 0; k < KINDS; k++)
        sheaf_variable_free(v[k]);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* The file has one tensor of each, for `n` replicas. */
static void check_file(const char *folder, int n)
{
    const double total = n * (n + 1) / 2.0;
    const double expected[KINDS] = {
        [MIRRORED] = 1, [FIRST] = 1, [SUM] = total, [MEAN] = total / n, [WHOLE] = total};
    sheaf_error err;
    sheaf_bundle *b = NULL;
    sheaf_bundle_entry e;
    size_t count = 0;
    rig_ok(sheaf_bundle_open(sheaf_checkpoint_latest(folder), &b, &err), &err);
    while (sheaf_bundle_get(b, count, &e) == SHEAF_OK)
        count++;
    assert_int_equal(count, KINDS + 2); /* and save_counter and the object graph */
    for (int k = 0; k < KINDS; k++) {
        char key[64];
        sheaf_tensor *t = NULL;
        snprintf(key, sizeof(key), "%s/.ATTRIBUTES/VARIABLE_VALUE", kinds[k].name);
        rig_ok(sheaf_bundle_read(b, key, &t, &err), &err);
        assert_int_equal(sheaf_tensor_dtype(t), kinds[k].dtype);
        assert_int_equal(sheaf_tensor_shape(t).rank, 0);
        assert_true(sheaf_tensor_number(t, 0) == expected[k]);
    }
    sheaf_bundle_free(b);
}

static void check_all(const char *name, int workers, int replicas)
{
    for (int background = 0; background < 2; background++) {
        char folder[64];
        snprintf(folder, sizeof(folder), "%s-%d-%d", name, workers, background);
        struct job job = {name, replicas, rig_path(folder), background};
        run_cluster((struct jobs){.worker = workers}, run, &job, 60);
        check_file(job.folder, workers * replicas);
    }
}

static void test_mirrored(void **state)
{
    (void)state;
    check_all("mirrored", 1, 4);
}

/* Every worker has shares of what is brought together, though the chief alone writes. */
static void test_multiworker(void **state)
{
    (void)state;
    check_all("multiworker", 1, 3);
    check_all("multiworker", 2, 2);
    check_all("multiworker", 3, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_mirrored), rig_test(test_multiworker)};
    return rig_run(tests);
}
