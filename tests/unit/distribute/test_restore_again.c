/* SPDX-License-Identifier: Apache-2.0 */

/* Parameter servers: a chief that is started again restores anew, and another checkpoint than the others did. */

#include "helpers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/wait.h"

#include <stdio.h>
#include <string.h>

enum { WORKERS = 2 };

struct job {
    const char *folder;
    bool restores; /* what the first run has saved */
    _Atomic int at[4];
};

/* One life of a worker. */
struct life {
    sheaf_strategy *s;
    sheaf_variable *a, *b;
    sheaf_checkpoint *c;
    sheaf_checkpoint_manager *m;
};

static sheaf_status meet(struct job *job, int place, sheaf_error *err)
{
    const int64_t end = sheaf__clock_deadline(30);
    atomic_fetch_add(&job->at[place], 1);
    while (atomic_load(&job->at[place]) < WORKERS && sheaf__clock_left(end) > 0)
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, err));
    return SHEAF_OK;
}

static sheaf_variable *make(struct life *l, const char *name, float value)
{
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(l->s)
    {
        v = sheaf_variable_new(name, sheaf_float(value), NULL);
    }
    return v;
}

/* With variable `a`, which is restored if there is something. */
static sheaf_status begin(struct life *l, const struct job *job, const char **path,
                          sheaf_error *err)
{
    const sheaf_strategy_options options = {.deadline = 5};
    SHEAF__TRY(sheaf_strategy_new("ps", NULL, &options, &l->s, err));
    l->a = make(l, "a", 0);
    l->c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(l->c, "a", l->a);
    sheaf_checkpoint_expect_partial(l->c);
    SHEAF__TRY(sheaf_checkpoint_manager_new(l->c, job->folder, NULL, &l->m, err));
    return sheaf_manager_restore(l->m, path, err);
}

static sheaf_status add_b(struct life *l, float value, sheaf_error *err)
{
    l->b = make(l, "b", value);
    SHEAF__TRY(sheaf_variable_status(l->b, err));
    sheaf_checkpoint_add_variable(l->c, "b", l->b);
    return sheaf_checkpoint_status(l->c, err);
}

static void end(struct life *l)
{
    sheaf_checkpoint_manager_free(l->m);
    sheaf_checkpoint_free(l->c);
    sheaf_variable_free(l->b);
    sheaf_variable_free(l->a);
    sheaf_strategy_free(l->s);
    *l = (struct life){0};
}

/* ---- a chief that is started again ---- */

static sheaf_status save_both(struct rig_task *task, struct life *l, const struct job *job)
{
    SHEAF__TRY(begin(l, job, NULL, &task->err));
    SHEAF__TRY(add_b(l, 7, &task->err));
    SHEAF__TRY(sheaf_assign(l->a, sheaf_float(3), &task->err));
    if (task->index == 0)
        SHEAF__TRY(sheaf_manager_save(l->m, false, NULL, &task->err));
    return sheaf_strategy_join(l->s, 0, &task->err);
}

/* Its first life saves without `b`; the second one goes on from that, so it has nothing to restore `b` from. */
static sheaf_status chief(struct rig_task *task, struct life *l, struct job *job)
{
    const char *path = NULL;
    SHEAF__TRY(begin(l, job, &path, &task->err));
    RIG_CHECK(task, strstr(path, "ckpt-1"));
    SHEAF__TRY(meet(job, 0, &task->err));
    SHEAF__TRY(sheaf_assign(l->a, sheaf_float(4), &task->err));
    SHEAF__TRY(sheaf_manager_save(l->m, false, NULL, &task->err));
    end(l);
    SHEAF__TRY(begin(l, job, &path, &task->err));
    RIG_CHECK(task, strstr(path, "ckpt-2"));
    SHEAF__TRY(meet(job, 1, &task->err));
    SHEAF__TRY(add_b(l, 9, &task->err));
    return SHEAF_OK;
}

/* It has gone on meanwhile, with the old checkpoint, in which there is a `b`. */
static sheaf_status other(struct rig_task *task, struct life *l, struct job *job)
{
    const char *path = NULL;
    SHEAF__TRY(begin(l, job, &path, &task->err));
    RIG_CHECK(task, strstr(path, "ckpt-1"));
    SHEAF__TRY(meet(job, 0, &task->err));
    SHEAF__TRY(meet(job, 1, &task->err));
    const int64_t began = sheaf__clock_now();
    SHEAF__TRY(add_b(l, 0, &task->err));
    RIG_CHECK(task, sheaf__clock_now() - began < 4 * SHEAF__S);
    RIG_CHECK(task, sheaf_tensor_number(sheaf_value(l->b), 0) == 9);
    RIG_CHECK(task, sheaf_tensor_number(sheaf_value(l->a), 0) == 4);
    return SHEAF_OK;
}

static sheaf_status come_back(struct rig_task *task)
{
    struct job *job = task->user;
    struct life l = {0};
    sheaf_status status = !job->restores     ? save_both(task, &l, job)
                          : task->index == 0 ? chief(task, &l, job)
                                             : other(task, &l, job);
    if (status >= 0 && job->restores)
        status = sheaf_strategy_join(l.s, 0, &task->err);
    end(&l);
    return status;
}

/* Another worker waits for what the chief restores. What one restores that was started again is its own affair. */
static void test_a_chief_that_comes_back(void **state)
{
    (void)state;
    struct job job = {.folder = rig_path("run")};
    const struct jobs jobs = {.worker = WORKERS, .ps = 2};
    run_cluster(jobs, come_back, &job, 60);
    job.restores = true;
    run_cluster(jobs, come_back, &job, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_a_chief_that_comes_back),
    };
    return rig_run(tests);
}
