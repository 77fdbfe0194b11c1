/* SPDX-License-Identifier: Apache-2.0 */

/* Saves in the background under workers that train in step: the chief writes while all go on, and all hear at the same call
 * what became of it. */

#include "helpers.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

struct job {
    const char *folder;
    sheaf_variable *v;
    bool refuses; /* the policy, in the one process that asks it */
};

static sheaf_status refuse(sheaf_shardable *const *tensors, size_t count, sheaf_shard_plan *plan,
                           void *user)
{
    const struct job *job = user;
    return job->refuses ? SHEAF_ERR_ABORTED
                        : sheaf_shard_all_in_one()->assign(tensors, count, plan, NULL);
}

static sheaf_status add_one(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    const struct job *job = user;
    (void)r;
    (void)in;
    (void)out;
    return sheaf_assign_add(job->v, sheaf_float(1), NULL);
}

static sheaf_status step(struct rig_task *task, sheaf_strategy *s, struct job *job)
{
    return sheaf_run(s, add_one, job, NULL, NULL, &task->err);
}

static sheaf_status use(struct rig_task *task, sheaf_strategy *s, struct job *job,
                        sheaf_checkpoint_manager *m)
{
    const char *path = NULL;
    sheaf_error err = {0};
    SHEAF__TRY(step(task, s, job));
    SHEAF__TRY(sheaf_manager_save(m, false, &path, &task->err));
    RIG_CHECK(task, strstr(path, "ckpt-1"));
    for (int i = 0; i < 3; i++)
        SHEAF__TRY(step(task, s, job));
    job->refuses = true;
    SHEAF__TRY(sheaf_manager_save(m, false, &path, &task->err));
    SHEAF__TRY(step(task, s, job));
    job->refuses = false;
    RIG_CHECK(task, sheaf_manager_wait(m, &err) == SHEAF_ERR_ABORTED);
    RIG_CHECK(task, strstr(err.message, "moody"));
    SHEAF__TRY(sheaf_manager_restore(m, &path, &task->err));
    RIG_CHECK(task, strstr(path, "ckpt-1"));
    RIG_CHECK(task, sheaf_tensor_number(sheaf_value(job->v), 0) == 1);
    SHEAF__TRY(step(task, s, job));
    SHEAF__TRY(sheaf_manager_save(m, false, NULL, &task->err));
    SHEAF__TRY(step(task, s, job));
    SHEAF__TRY(sheaf_manager_end(m, true, &path, &task->err));
    RIG_CHECK(task, strstr(path, "ckpt-3"));
    return SHEAF_OK;
}

static sheaf_status save_while_training(struct rig_task *task)
{
    struct job job = {.folder = task->user};
    const sheaf_variable_options options = {.aggregation = SHEAF_AGGREGATION_MEAN};
    const sheaf_sharding_callback moody = {refuse, "moody", &job};
    sheaf_strategy *s = NULL;
    sheaf_checkpoint_manager *m = NULL;
    SHEAF__TRY(sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err));
    SHEAF_SCOPE(s)
    {
        job.v = sheaf_variable_new("v", sheaf_float(0), &options);
    }
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(c, "v", job.v);
    sheaf_status status = sheaf_checkpoint_manager_new(
        c, job.folder, &(sheaf_manager_options){.background = true, .save.sharding = &moody}, &m,
        &task->err);
    if (status >= 0)
        status = use(task, s, &job, m);
    sheaf_checkpoint_manager_free(m);
    sheaf_checkpoint_free(c);
    sheaf_variable_free(job.v);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

static void test_workers(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_bundle *b = NULL;
    sheaf_tensor *t = NULL;
    for (int workers = 1; workers <= 3; workers++) {
        char name[32];
        snprintf(name, sizeof(name), "run-%d", workers);
        char *folder = (char *)(uintptr_t)rig_path(name);
        run_cluster((struct jobs){.worker = workers}, save_while_training, folder, 60);
        rig_ok(sheaf_bundle_open(sheaf_checkpoint_latest(folder), &b, &err), &err);
        rig_ok(sheaf_bundle_read(b, "v/.ATTRIBUTES/VARIABLE_VALUE", &t, &err), &err);
        assert_true(sheaf_tensor_number(t, 0) == 3);
        sheaf_bundle_free(b);
        rig_log_take();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_workers)};
    return rig_run(tests);
}
