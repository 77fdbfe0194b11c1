/* SPDX-License-Identifier: Apache-2.0 */

/* S96, S105: a checkpoint that is restored before its variables and slots are made, under every strategy. */

#include "helpers.h"

#include "base/error.h"

#include <string.h>

enum { SIZE = 4, STEPS = 3 };
#define RATE 0.0625 /* of the optimizer that is saved */

struct job {
    const char *name; /* of the strategy */
    int replicas;
    const char *path;
    bool
        resumes; /* restores and goes on; else it trains from the beginning and saves after STEPS */
    bool in_scope;     /* restores in the scope, too */
    bool builds;       /* the optimizer, before its first step */
    bool alone;        /* the first worker does all the steps */
    float saved[SIZE]; /* the values then, and after one more step */
    float after[SIZE];
    struct job *result; /* where the first worker puts it with what it found */
    double seen;        /* by all replicas when it was saved */
};

struct made {
    sheaf_variable *w;
    sheaf_variable *seen; /* synchronised on read; NULL: none */
    sheaf_optimizer *adam;
    sheaf_checkpoint *c;
    const struct job *job;
};

/* The same gradient in every step and on every worker, so that the order of steps is nothing. */
static sheaf_status step_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    const struct made *m = user;
    const float gradient[SIZE] = {1, -2, 0.5f, 3};
    sheaf_tensor *g = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(SIZE), gradient);
    sheaf_tape *tape = sheaf_tape_start();
    (void)in;
    (void)out;
    sheaf_tensor *loss = sheaf_sum(sheaf_mul(sheaf_value(m->w), g));
    const int number = sheaf_replica_id(r);
    if (m->seen)
        SHEAF__TRY(sheaf_assign_add(m->seen, sheaf_double(number + 1), NULL));
    return sheaf_optimizer_minimize(m->adam, tape, loss);
}

static void make(struct made *m, sheaf_strategy *s)
{
    const float first[SIZE] = {1, 2, 3, 4}, zeros[SIZE] = {0};
    const float *values = m->job->resumes ? zeros : first;
    const sheaf_optimizer_options options = {.learning_rate = m->job->resumes ? 0.5 : RATE};
    const sheaf_variable_options on_read = {.synchronization = SHEAF_SYNCHRONIZATION_ON_READ,
                                            .aggregation = SHEAF_AGGREGATION_SUM};
    SHEAF_SCOPE(s)
    {
        m->w = sheaf_variable_new("w", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(SIZE), values),
                                  NULL);
        if (!m->job->alone)
            m->seen = sheaf_variable_new("seen", sheaf_double(0), &on_read);
    }
    m->adam = sheaf_adam(&options);
}

static void add(struct made *m)
{
    sheaf_checkpoint_add_variable(m->c, "model/w", m->w);
    sheaf_checkpoint_add_optimizer(m->c, "optimizer", m->adam);
    if (m->seen)
        sheaf_checkpoint_add_variable(m->c, "seen", m->seen);
}

static void drop(struct made *m)
{
    sheaf_checkpoint_free(m->c);
    sheaf_optimizer_free(m->adam);
    sheaf_variable_free(m->seen);
    sheaf_variable_free(m->w);
}

static void copy_value(float *to, sheaf_variable *w)
{
    memcpy(to, sheaf_tensor_data(sheaf_value(w)), SIZE * sizeof(*to));
}

static sheaf_status steps(sheaf_strategy *s, struct made *m, int count, sheaf_error *err)
{
    for (int i = 0; i < count; i++)
        SHEAF__TRY(sheaf_run(s, step_fn, m, NULL, NULL, err));
    return SHEAF_OK;
}

/* From the beginning: what is there when it is saved, and one step later, which the first worker tells. */
static sheaf_status begin(struct rig_task *task, sheaf_strategy *s, struct made *m, bool works)
{
    struct job found = *m->job;
    make(m, s);
    add(m);
    SHEAF__TRY(sheaf_optimizer_build(m->adam, &m->w, 1, &task->err));
    if (!works)
        return SHEAF_OK;
    SHEAF__TRY(steps(s, m, STEPS, &task->err));
    if (m->seen)
        found.seen = sheaf_tensor_number(sheaf_value(m->seen), 0);
    copy_value(found.saved, m->w);
    SHEAF__TRY(sheaf_checkpoint_write(m->c, found.path, NULL, &task->err));
    SHEAF__TRY(steps(s, m, 1, &task->err));
    copy_value(found.after, m->w);
    if (task->index == 0)
        *found.result = found;
    return SHEAF_OK;
}

static sheaf_status restore(sheaf_strategy *s, struct made *m, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    if (!m->job->in_scope)
        return sheaf_checkpoint_restore(m->c, m->job->path, err);
    SHEAF_SCOPE(s)
    {
        status = sheaf_checkpoint_restore(m->c, m->job->path, err);
    }
    return status;
}

static bool has(sheaf_variable *v, const float *expected)
{
    float found[SIZE];
    for (int i = 0; i < sheaf_variable_copies(v); i++) {
        copy_value(found, sheaf_variable_copy(v, i));
        if (memcmp(found, expected, sizeof(found)) != 0)
            return false;
    }
    return true;
}

/* The restore first, then what it is for. */
static sheaf_status resume(struct rig_task *task, sheaf_strategy *s, struct made *m, bool works)
{
    const struct job *job = m->job;
    SHEAF__TRY(restore(s, m, &task->err));
    make(m, s);
    add(m);
    SHEAF__TRY(sheaf_checkpoint_status(m->c, &task->err));
    RIG_CHECK(task, sheaf_checkpoint_assert_consumed(m->c, NULL) ==
                        SHEAF_ERR_FAILED_PRECONDITION); /* the slots are to come */
    if (!works) {
        /* The first worker may have gone on, but none sees what was there before. */
        RIG_CHECK(task, sheaf_tensor_number(sheaf_value(m->w), 1) != 0);
        return sheaf_optimizer_build(m->adam, &m->w, 1, &task->err);
    }
    RIG_CHECK(task, has(m->w, job->saved));
    if (m->seen)
        RIG_CHECK(task, sheaf_tensor_number(sheaf_value(m->seen), 0) == job->seen);
    /* The numbers do not wait for the slots. */
    RIG_CHECK(task, sheaf_optimizer_iterations(m->adam) == STEPS);
    RIG_CHECK(task, sheaf_optimizer_learning_rate(m->adam) == RATE);
    /* A save would be one without the slots, and nothing would tell. */
    RIG_CHECK(task, sheaf_checkpoint_write(m->c, rig_path("lost"), NULL, NULL) ==
                        SHEAF_ERR_FAILED_PRECONDITION);
    if (job->builds)
        SHEAF__TRY(sheaf_optimizer_build(m->adam, &m->w, 1, &task->err));
    SHEAF__TRY(steps(s, m, 1, &task->err));
    RIG_CHECK(task, has(m->w, job->after));
    RIG_CHECK(task, sheaf_optimizer_iterations(m->adam) == STEPS + 1);
    return sheaf_checkpoint_assert_consumed(m->c, &task->err);
}

static sheaf_status run(struct rig_task *task)
{
    const struct job *job = task->user;
    struct made m = {.job = job, .c = sheaf_checkpoint_new()};
    const bool works = !job->alone || task->index == 0;
    sheaf_strategy *s = strategy_of_task(task, job->name, job->replicas);
    sheaf_status status = s ? SHEAF_OK : task->err.status;
    if (status >= 0)
        status = job->resumes ? resume(task, s, &m, works) : begin(task, s, &m, works);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_checkpoint_expect_partial(m.c);
    drop(&m);
    sheaf_strategy_free(s);
    return status;
}

static void train_and_resume(struct job job, struct jobs cluster)
{
    struct job trained = {0};
    job.result = &trained;
    run_cluster(cluster, run, &job, 60);
    job = trained;
    job.resumes = true;
    for (int i = 0; i < 4; i++) {
        job.builds = i % 2 || job.alone;
        job.in_scope = i / 2;
        run_cluster(cluster, run, &job, 60);
    }
}

static void test_S96_S105_one(void **state)
{
    (void)state;
    train_and_resume((struct job){.name = "one", .replicas = 1, .path = rig_path("x")},
                     (struct jobs){.worker = 1});
}

static void test_S96_S105_mirrored(void **state)
{
    (void)state;
    train_and_resume((struct job){.name = "mirrored", .replicas = 3, .path = rig_path("x")},
                     (struct jobs){.worker = 1});
}

static void test_S96_S105_multiworker(void **state)
{
    (void)state;
    train_and_resume((struct job){.name = "multiworker", .replicas = 2, .path = rig_path("x")},
                     (struct jobs){.worker = 2});
}

static void test_S96_S105_ps(void **state)
{
    (void)state;
    train_and_resume(
        (struct job){.name = "ps", .replicas = 1, .path = rig_path("x"), .alone = true},
        (struct jobs){.worker = 2, .ps = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S96_S105_one),
        rig_test(test_S96_S105_mirrored),
        rig_test(test_S96_S105_multiworker),
        rig_test(test_S96_S105_ps),
    };
    return rig_run(tests);
}
