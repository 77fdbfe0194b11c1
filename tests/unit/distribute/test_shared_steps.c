/* SPDX-License-Identifier: Apache-2.0 */

/* Parameter servers: the steps of an optimizer are those of all workers, also for one that has made none, and at once
 * after a restore. */

#include "helpers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/wait.h"

enum { WORKERS = 2, STEPS = 3 };
#define RATE 0.5

struct job {
    const char *path;
    bool restores;    /* what the first run has saved */
    _Atomic int done; /* by the first worker */
};

struct made {
    sheaf_variable *w;
    sheaf_optimizer *o;
    sheaf_checkpoint *c;
    struct rig_task *task;
};

/* The number is right on both sides of the update, which the server gets at the end of the step. */
static sheaf_status step_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    const struct made *m = user;
    (void)r;
    (void)in;
    (void)out;
    const int64_t before = sheaf_optimizer_iterations(m->o);
    sheaf_tape *tape = sheaf_tape_start();
    SHEAF__TRY(sheaf_optimizer_minimize(m->o, tape, sheaf_sum(sheaf_square(sheaf_value(m->w)))));
    RIG_CHECK(m->task, sheaf_optimizer_iterations(m->o) == before + 1);
    return SHEAF_OK;
}

static sheaf_status make(struct made *m, sheaf_strategy *s, sheaf_error *err)
{
    sheaf_schedule *halves = sheaf_schedule_exponential(RATE, 1, 0.5, false);
    SHEAF_SCOPE(s)
    {
        m->w = sheaf_variable_new("w", sheaf_float(1), NULL);
    }
    m->o = sheaf_sgd(&(sheaf_optimizer_options){.schedule = halves});
    sheaf_schedule_free(halves);
    m->c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(m->c, "w", m->w);
    sheaf_checkpoint_add_optimizer(m->c, "optimizer", m->o);
    return sheaf_optimizer_build(m->o, &m->w, 1, err);
}

static sheaf_status wait_for_first(const struct job *job, sheaf_error *err)
{
    const int64_t end = sheaf__clock_deadline(30);
    while (!atomic_load(&job->done) && sheaf__clock_left(end) > 0)
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, err));
    return SHEAF_OK;
}

static sheaf_status check_count(struct rig_task *task, const struct made *m, int64_t steps)
{
    const double rate = RATE / (double)(1LL << steps);
    RIG_CHECK(task, sheaf_optimizer_iterations(m->o) == steps);
    RIG_CHECK(task, sheaf_optimizer_learning_rate(m->o) == rate);
    return SHEAF_OK;
}

static sheaf_status train(sheaf_strategy *s, struct made *m, const char *path)
{
    sheaf_error *err = &m->task->err;
    for (int i = 0; i < STEPS; i++) {
        SHEAF__TRY(check_count(m->task, m, i));
        SHEAF__TRY(sheaf_run(s, step_fn, m, NULL, NULL, err));
    }
    return sheaf_checkpoint_write(m->c, path, NULL, err);
}

/* The first worker does it all. */
static sheaf_status work(struct rig_task *task, sheaf_strategy *s, struct made *m, struct job *job)
{
    SHEAF__TRY(make(m, s, &task->err));
    if (task->index > 0)
        SHEAF__TRY(wait_for_first(job, &task->err));
    else if (job->restores)
        SHEAF__TRY(sheaf_checkpoint_restore(m->c, job->path, &task->err));
    else
        SHEAF__TRY(train(s, m, job->path));
    atomic_store(&job->done, 1);
    return check_count(task, m, STEPS);
}

static sheaf_status run(struct rig_task *task)
{
    struct job *job = task->user;
    struct made m = {.task = task};
    sheaf_strategy *s = strategy_of_task(task, "ps", 1);
    sheaf_status status = s ? work(task, s, &m, job) : task->err.status;
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    if (status >= 0)
        status = check_count(task, &m, STEPS); /* nobody answers any more */
    sheaf_checkpoint_free(m.c);
    sheaf_optimizer_free(m.o);
    sheaf_variable_free(m.w);
    sheaf_strategy_free(s);
    return status;
}

static void test_the_steps_of_all_workers(void **state)
{
    (void)state;
    const struct jobs jobs = {.worker = WORKERS, .ps = 2};
    struct job first = {.path = rig_path("x")}, second = {.path = rig_path("x"), .restores = true};
    run_cluster(jobs, run, &first, 60);
    run_cluster(jobs, run, &second, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_the_steps_of_all_workers),
    };
    return rig_run(tests);
}
