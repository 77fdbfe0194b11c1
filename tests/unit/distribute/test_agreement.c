/* SPDX-License-Identifier: Apache-2.0 */

/* Replicas and workers that do not make the same calls (R4.14): who does otherwise is named at once, whatever it does instead,
 * and the strategy is usable afterwards. The deadline is far away. */

#include "helpers.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DEADLINE = 60, AT_ONCE = 20 };

struct model {
    sheaf_variable *v, *w;
    sheaf_optimizer *sgd;
};

static sheaf_strategy *strategy_over(const char *name, int replicas, sheaf_error *err)
{
    const sheaf_strategy_options options = {.deadline = DEADLINE};
    sheaf_strategy *s = NULL;
    if (sheaf_devices_configure(replicas, err) < 0)
        return NULL;
    return sheaf_strategy_new(name, NULL, &options, &s, err) < 0 ? NULL : s;
}

static void make(struct model *m, sheaf_strategy *s)
{
    const sheaf_variable_options sum = {.aggregation = SHEAF_AGGREGATION_SUM};
    SHEAF_SCOPE(s)
    {
        m->v = sheaf_variable_new("v", sheaf_float(1), &sum);
        m->w = sheaf_variable_new("w", sheaf_float(1), &sum);
    }
    m->sgd = sheaf_sgd(NULL);
}

static void drop(struct model *m)
{
    sheaf_variable_free(m->v);
    sheaf_variable_free(m->w);
    sheaf_optimizer_free(m->sgd);
}

/* ---- what a replica can do in a step ---- */

typedef sheaf_status (*act)(sheaf_replica *r, const struct model *m);

static sheaf_status nothing(sheaf_replica *r, const struct model *m)
{
    (void)r;
    (void)m;
    return SHEAF_OK;
}

static sheaf_status reduces(sheaf_replica *r, const struct model *m)
{
    (void)m;
    return sheaf_tensor_status(sheaf_all_reduce(r, SHEAF_REDUCE_SUM, sheaf_float(1)), NULL);
}

static sheaf_status gathers(sheaf_replica *r, const struct model *m)
{
    (void)m;
    return sheaf_tensor_status(sheaf_all_gather(r, sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(1)), 0),
                               NULL);
}

static sheaf_status give_sum(sheaf_strategy *s, const sheaf_values *in, sheaf_values **out,
                             void *user)
{
    sheaf_element *sum;
    sheaf_error err;
    (void)out;
    (void)user;
    const sheaf_status status = sheaf_reduce(s, SHEAF_REDUCE_SUM, in, NULL, 0, &sum, &err);
    if (status < 0)
        sheaf_failed(&err);
    return status;
}

static sheaf_status merges(sheaf_replica *r, const struct model *m)
{
    (void)m;
    sheaf_merge_call(r, give_sum, NULL, sheaf_element_of(sheaf_float(1)));
    return SHEAF_OK; /* the frame has the error */
}

static sheaf_status assigns_v(sheaf_replica *r, const struct model *m)
{
    (void)r;
    return sheaf_assign(m->v, sheaf_float(1), NULL);
}

static sheaf_status assigns_w(sheaf_replica *r, const struct model *m)
{
    (void)r;
    return sheaf_assign(m->w, sheaf_float(1), NULL);
}

static sheaf_status minimizes(sheaf_replica *r, const struct model *m)
{
    (void)r;
    sheaf_tape *tape = sheaf_tape_start();
    return sheaf_optimizer_minimize(m->sgd, tape, sheaf_square(sheaf_value(m->v)));
}

/* ---- replicas of one process ---- */

struct acts {
    const struct model *model;
    act one, others; /* of replica `who`, of all others */
    int who;
};

static sheaf_status run_acts(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    const struct acts *a = user;
    (void)in;
    (void)out;
    return (sheaf_replica_id(r) == a->who ? a->one : a->others)(r, a->model);
}

static void expect_told(sheaf_strategy *s, struct acts *a, const char *one, const char *other)
{
    sheaf_error err = {0};
    const time_t begin = time(NULL);
    rig_fails(sheaf_run(s, run_acts, a, NULL, NULL, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              one);
    assert_non_null(strstr(err.message, other));
    assert_true(time(NULL) - begin < AT_ONCE);
    const struct acts same = {a->model, reduces, reduces, 0};
    rig_ok(sheaf_run(s, run_acts, (void *)(uintptr_t)&same, NULL, NULL, &err), &err);
}

/* R4.14: a replica that ends its step while others are in a call, whichever it is */
static void test_R4_14_replica_leaves(void **state)
{
    (void)state;
    static const struct {
        act others;
        const char *name;
    } calls[] = {
        {reduces, "all_reduce"},
        {gathers, "all_gather"},
        {merges, "merge_call"},
        {assigns_v, "an assignment to variable 'v'"},
        {minimizes, "the first update by 'SGD'"},
        {minimizes, "the sum of the gradients of 'SGD'"},
    };
    sheaf_error err = {0};
    sheaf_strategy *s = strategy_over("mirrored", 3, &err);
    struct model m;
    char one[64];
    make(&m, s);
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        if (i == 5)
            rig_ok(sheaf_optimizer_build(m.sgd, &m.v, 1, &err), &err);
        for (int who = 0; who < 3; who++) {
            struct acts a = {&m, nothing, calls[i].others, who};
            snprintf(one, sizeof(one), "replica %d has ended its step without ", who);
            expect_told(s, &a, one, calls[i].name);
        }
    }
    drop(&m);
    sheaf_strategy_free(s);
}

/* R4.14: replicas in two calls at once */
static void test_R4_14_other_calls(void **state)
{
    (void)state;
    static const struct {
        act one, others;
        const char *name, *other;
    } calls[] = {
        {reduces, gathers, "all_reduce", "all_gather"},
        {merges, reduces, "merge_call", "all_reduce"},
        {assigns_v, merges, "variable 'v'", "merge_call"},
        {assigns_v, assigns_w, "variable 'v'", "variable 'w'"},
        {minimizes, reduces, "the first update by 'SGD'", "all_reduce"},
    };
    sheaf_error err = {0};
    sheaf_strategy *s = strategy_over("mirrored", 2, &err);
    struct model m;
    make(&m, s);
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
        for (int who = 0; who < 2; who++) {
            struct acts a = {&m, calls[i].one, calls[i].others, who};
            expect_told(s, &a, calls[i].name, calls[i].other);
        }
    drop(&m);
    sheaf_strategy_free(s);
}

/* ---- workers ---- */

struct party {
    sheaf_strategy *s;
    struct model model;
    const char *path;
    sheaf_error err;
};
typedef sheaf_status (*deed)(struct party *p);

static sheaf_status run_step(struct party *p, act step)
{
    struct acts a = {&p->model, step, step, 0};
    return sheaf_run(p->s, run_acts, &a, NULL, NULL, &p->err);
}

static sheaf_status idle_step(struct party *p)
{
    return run_step(p, nothing);
}

static sheaf_status two_steps(struct party *p)
{
    const sheaf_status status = run_step(p, nothing);
    return status < 0 ? status : run_step(p, reduces);
}

static sheaf_status reduce_step(struct party *p)
{
    return run_step(p, reduces);
}

static sheaf_status gather_step(struct party *p)
{
    return run_step(p, gathers);
}

static sheaf_status merge_step(struct party *p)
{
    return run_step(p, merges);
}

static sheaf_status minimize_step(struct party *p)
{
    return run_step(p, minimizes);
}

static sheaf_status sum(struct party *p)
{
    sheaf_element *sum;
    sheaf_values *v = sheaf_values_per_replica(
        (sheaf_element *[]){sheaf_element_of(sheaf_float(1)), sheaf_element_of(sheaf_float(1))},
        sheaf_strategy_local_replicas(p->s));
    return sheaf_reduce(p->s, SHEAF_REDUCE_SUM, v, NULL, 0, &sum, &p->err);
}

static sheaf_status new_variable(struct party *p)
{
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(p->s)
    {
        v = sheaf_variable_new("late", sheaf_float(1), NULL);
    }
    const sheaf_status status = sheaf_variable_status(v, &p->err);
    sheaf_variable_free(v);
    sheaf_frame_clear();
    return status;
}

static sheaf_status save(struct party *p)
{
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(c, "v", p->model.v);
    const sheaf_status status = sheaf_checkpoint_write(c, p->path, NULL, &p->err);
    sheaf_checkpoint_free(c);
    return status;
}

static sheaf_status join(struct party *p)
{
    return sheaf_strategy_join(p->s, DEADLINE, &p->err);
}

static const struct {
    deed deeds[2]; /* of each worker */
    const char *says[2];
} quarrels[] = {
    {{reduce_step, idle_step}, {"all_reduce (sum) of 1 float32 \"()\" in step 3", "step"}},
    {{idle_step, reduce_step}, {"all_reduce (sum) of 1 float32 \"()\" in step 3", "step"}},
    {{reduce_step, two_steps}, {"all_reduce (sum) of 1 float32 \"()\" in step 3", "step"}},
    {{reduce_step, gather_step}, {"all_reduce (sum) of 1 float32 \"()\"", "calls all_gather"}},
    {{reduce_step, merge_step}, {"\"()\" of replicas", "\"()\" of processes"}},
    {{minimize_step, reduce_step},
     {"\"an optimizer\"", "calls all_reduce (sum) of 1 float32 \"()\""}},
    {{reduce_step, sum}, {"in step 3", "after step 2"}},
    {{sum, idle_step}, {"after step 2", "in step"}},
    {{save, reduce_step}, {"barrier \"the other workers' save\"", "in step 3"}},
    {{reduce_step, save}, {"barrier \"the other workers' save\"", "in step 3"}},
    {{join, reduce_step}, {"barrier \"the end of the other workers\"", "in step 3"}},
    {{new_variable, reduce_step}, {"\"variable 'late' float32 ()\"", "in step 3"}},
};
enum { QUARRELS = sizeof(quarrels) / sizeof(*quarrels) };

static sheaf_status expect(struct party *p, struct rig_task *task, size_t i)
{
    const time_t begin = time(NULL);
    sheaf_status status = quarrels[i].deeds[task->index](p);
    if (status >= 0) /* it goes on, until it is told */
        status = reduce_step(p);
    RIG_CHECK(task, time(NULL) - begin < AT_ONCE);
    if (status == SHEAF_ERR_TEAM_MISMATCH && strstr(p->err.message, quarrels[i].says[0]) &&
        strstr(p->err.message, quarrels[i].says[1]) &&
        strstr(p->err.message, "/job:worker/task:0") &&
        strstr(p->err.message, "/job:worker/task:1"))
        return SHEAF_OK;
    return sheaf_error_set(&task->err, SHEAF_ERR_INTERNAL, "quarrel %zu: %d: %s", i, status,
                           p->err.message);
}

struct cluster {
    int replicas;
    const char *paths[2];
};

/* Two good steps, then the quarrel, then all is well again. */
static sheaf_status quarrel(struct rig_task *task)
{
    const struct cluster *c = task->user;
    struct party p = {.path = c->paths[task->index]};
    p.s = strategy_over("multiworker", c->replicas, &task->err);
    if (!p.s)
        return task->err.status;
    make(&p.model, p.s);
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < QUARRELS && status >= 0; i++) {
        for (int k = 0; k < 2 && status >= 0; k++)
            status = reduce_step(&p);
        if (status < 0)
            task->err = p.err;
        else
            status = expect(&p, task, i);
    }
    drop(&p.model);
    sheaf_strategy_free(p.s);
    return status;
}

/* Every call is checked for agreement: all that a worker may do instead of what another does */
static void test_workers_that_do_otherwise(void **state)
{
    (void)state;
    struct cluster c = {.paths = {rig_path("chief"), rig_path("other")}};
    for (c.replicas = 1; c.replicas <= 2; c.replicas++)
        run_cluster((struct jobs){.worker = 2}, quarrel, &c, 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_R4_14_replica_leaves),
        rig_test(test_R4_14_other_calls),
        rig_test(test_workers_that_do_otherwise),
    };
    return rig_run(tests);
}
