/* SPDX-License-Identifier: Apache-2.0 */

/* Variables that some replicas use and others do not: who does not use one counts as zeros, who does not look up in a table
 * brings no rows (R4.53); on replicas and on workers, from the first step on, whatever each used before. */

#include "helpers.h"

#include <stdio.h>
#include <string.h>

/* ---- random uses against plain arithmetic ---- */

enum { VARIABLES = 6, STEPS = 7, MOST = 6, IDS = 3 };

/* Two tables among them; some are large enough to be summed by themselves. */
static const struct {
    const char *name;
    sheaf_dtype dtype;
    int64_t rows, width; /* width 0: no table */
} kinds[VARIABLES] = {
    {"small", SHEAF_FLOAT32, 3, 0},   {"large", SHEAF_FLOAT32, 70000, 0},
    {"double", SHEAF_FLOAT64, 5, 0},  {"table", SHEAF_FLOAT32, 6, 4},
    {"other", SHEAF_FLOAT32, 300, 0}, {"large table", SHEAF_FLOAT32, 20000, 4},
};

enum use { UNUSED, READ, USED }; /* READ: on the tape, but the loss does not depend on it */

struct uses {
    uint64_t seed;
    int step, replicas;
    sheaf_variable *v[VARIABLES];
    sheaf_optimizer *optimizer;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x7FB5D329728EA185);
    x ^= x >> 27;
    x *= UINT64_C(0x81DADEF4BC2DD44D);
    return x ^ x >> 33;
}

/* A number of step, variable and replica; of all replicas with -1. */
static uint64_t draw(const struct uses *u, int variable, int replica, int what)
{
    const uint64_t place =
        (((uint64_t)u->step * 64 + (uint64_t)variable) * 64 + (uint64_t)(replica + 1)) * 64;
    return mix(mix(u->seed + 1) + place + (uint64_t)what);
}

static bool by_rows(const struct uses *u, int i)
{
    return kinds[i].width > 0 && draw(u, i, -1, 0) % 2;
}

/* In the first step somebody uses each: that is what the optimizer is for. */
static enum use use_of(const struct uses *u, int i, int replica)
{
    if (u->step == 0 && draw(u, i, -1, 21) % (uint64_t)u->replicas == (uint64_t)replica)
        return USED;
    return (enum use)(draw(u, i, replica, 1) % 3);
}

static double factor(const struct uses *u, int i, int replica)
{
    return 1 + (double)(draw(u, i, replica, 2) % 3);
}

static int64_t id(const struct uses *u, int i, int replica, int k)
{
    return (int64_t)(draw(u, i, replica, 3 + k) % (uint64_t)kinds[i].rows);
}

static sheaf_tensor *part_of_loss(const struct uses *u, int i, int replica)
{
    sheaf_tensor *t;
    int64_t ids[IDS];
    for (int k = 0; k < IDS && kinds[i].width; k++)
        ids[k] = id(u, i, replica, k);
    if (by_rows(u, i))
        t = sheaf_embedding_lookup(u->v[i], sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(IDS), ids));
    else
        t = sheaf_value(u->v[i]);
    return use_of(u, i, replica) == READ
               ? NULL
               : sheaf_cast(sheaf_scale(sheaf_sum(t), factor(u, i, replica), 0), SHEAF_FLOAT32);
}

/* Uses the variables in an order of the replica's own. */
static sheaf_status use(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    const struct uses *u = user;
    const int replica = sheaf_replica_id(r);
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *loss = sheaf_float(0);
    const int first = (int)(draw(u, 0, replica, 20) % VARIABLES);
    (void)in;
    (void)out;
    for (int k = 0; k < VARIABLES; k++) {
        const int i = (first + k) % VARIABLES;
        sheaf_tensor *part = use_of(u, i, replica) == UNUSED ? NULL : part_of_loss(u, i, replica);
        loss = part ? sheaf_add(loss, part) : loss;
    }
    return sheaf_optimizer_minimize(u->optimizer, tape, loss);
}

/* Element (row, column) of a variable after all steps but the last few. */
static double expected(const struct uses *u, int i, int64_t row)
{
    double value = 0;
    struct uses past = *u;
    for (past.step = 0; past.step < u->step; past.step++)
        for (int r = 0; r < u->replicas; r++) {
            if (use_of(&past, i, r) != USED)
                continue;
            if (!by_rows(&past, i))
                value -= factor(&past, i, r);
            for (int k = 0; k < IDS && by_rows(&past, i); k++)
                value -= id(&past, i, r, k) == row ? factor(&past, i, r) : 0;
        }
    return value;
}

/* All copies of all variables are as they should be; or says which is not. */
static sheaf_status check(const struct uses *u, sheaf_error *err)
{
    for (int i = 0; i < VARIABLES; i++)
        for (int c = 0; c < sheaf_variable_copies(u->v[i]); c++)
            SHEAF_FRAME
            {
                sheaf_tensor *t = sheaf_value(sheaf_variable_copy(u->v[i], c));
                const int64_t width = kinds[i].width ? kinds[i].width : 1;
                const int64_t step = kinds[i].rows > 1000 ? 997 : 1;
                for (int64_t row = 0; row < kinds[i].rows; row += step) {
                    const double x = sheaf_tensor_number(t, row * width + width - 1);
                    const double y = expected(u, i, row);
                    if (x != y)
                        return sheaf_error_set(
                            err, SHEAF_ERR_INTERNAL,
                            "seed %d, %d replicas, step %d, '%s' copy %d row %lld: %g, expected %g",
                            (int)u->seed, u->replicas, u->step, kinds[i].name, c, (long long)row, x,
                            y);
                }
            }
    return SHEAF_OK;
}

static sheaf_status play(sheaf_strategy *s, uint64_t seed, sheaf_error *err)
{
    struct uses u = {.seed = seed,
                     .replicas = sheaf_strategy_num_replicas(s),
                     .optimizer = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1})};
    sheaf_status status = SHEAF_OK;
    SHEAF_SCOPE(s)
    {
        for (int i = 0; i < VARIABLES; i++)
            u.v[i] = sheaf_variable_init(kinds[i].name, kinds[i].dtype,
                                         kinds[i].width ? SHEAF_SHAPE(kinds[i].rows, kinds[i].width)
                                                        : SHEAF_SHAPE(kinds[i].rows),
                                         sheaf_init_zeros(), NULL);
    }
    if (seed % 3 == 0) /* else the first step shows what it is for */
        status = sheaf_optimizer_build(u.optimizer, u.v, VARIABLES, err);
    for (; u.step < STEPS && status >= 0; u.step++)
        status = sheaf_run(s, use, &u, NULL, NULL, err);
    if (status >= 0)
        status = check(&u, err);
    sheaf_optimizer_free(u.optimizer);
    for (int i = 0; i < VARIABLES; i++)
        sheaf_variable_free(u.v[i]);
    return status;
}

/* Some of the optimizers had variables that nobody's loss depended on; nothing else was logged. */
static void take_warnings(void)
{
    static const char begin[] = "optimizer SGD: the loss does not depend on '";
    const char *line = rig_log_take();
    assert_true(*line);
    for (; *line; line += strcspn(line, "\n") + 1)
        if (strncmp(line, begin, sizeof(begin) - 1) != 0)
            fail_msg("logged: %s", line);
}

/* R4.53, design 5: on replicas of one process */
static void test_uses_on_replicas(void **state)
{
    (void)state;
    sheaf_error err = {0};
    rig_ok(sheaf_devices_configure(4, &err), &err);
    for (int replicas = 2; replicas <= 4; replicas++) {
        const char *devices[5] = {"CPU:0", "CPU:1", "CPU:2", "CPU:3"};
        sheaf_strategy *s = NULL;
        devices[replicas] = NULL;
        const sheaf_strategy_options options = {.devices = devices};
        rig_ok(sheaf_strategy_new("mirrored", NULL, &options, &s, &err), &err);
        for (uint64_t seed = 0; seed < 12; seed++)
            rig_ok(play(s, seed, &err), &err);
        sheaf_strategy_free(s);
    }
    take_warnings();
}

struct cluster {
    struct jobs jobs;
    int replicas;
    const char *strategy;
};

static sheaf_status play_on_worker(struct rig_task *task)
{
    const struct cluster *c = task->user;
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_devices_configure(c->replicas, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new(c->strategy, NULL, NULL, &s, &task->err);
    for (uint64_t seed = 0; seed < 12 && status >= 0; seed++)
        status = play(s, seed, &task->err);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* The same on workers, one of which may not have used a variable at all */
static void test_uses_on_workers(void **state)
{
    (void)state;
    struct cluster clusters[] = {
        {{.worker = 2}, 1, "multiworker"},
        {{.worker = 3}, 1, "multiworker"},
        {{.worker = 2}, 2, "multiworker"},
    };
    for (size_t i = 0; i < sizeof(clusters) / sizeof(*clusters); i++)
        run_cluster(clusters[i].jobs, play_on_worker, &clusters[i], 60);
    take_warnings();
}

/* And on the replicas of a worker of parameter servers, in another process or in this one */
static void test_uses_with_servers(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct cluster c = {{.worker = 1, .ps = 2}, 3, "ps"};
    run_cluster(c.jobs, play_on_worker, &c, 60);
    rig_ok(sheaf_devices_configure(2, &err), &err);
    sheaf_strategy *s = strategy("ps");
    for (uint64_t seed = 0; seed < 12; seed++)
        rig_ok(play(s, seed, &err), &err);
    sheaf_strategy_free(s);
    take_warnings();
}

/* ---- no gradients ---- */

struct unconnected {
    sheaf_variable *v[3];
    sheaf_optimizer *optimizer;
    bool reads;   /* v[0] and v[1], of no account to the loss */
    bool depends; /* on v[2] */
};

static sheaf_status minimize_unconnected(sheaf_replica *r, const sheaf_element *in,
                                         sheaf_element *out, void *user)
{
    const struct unconnected *u = user;
    sheaf_tape *tape = sheaf_tape_start();
    (void)r;
    (void)in;
    (void)out;
    for (int i = 0; i < 2 && u->reads; i++)
        sheaf_square(sheaf_value(u->v[i]));
    return sheaf_optimizer_minimize(
        u->optimizer, tape, u->depends ? sheaf_square(sheaf_value(u->v[2])) : sheaf_float(1));
}

/* As Keras's "No gradients provided for any variable", and its warning where it is some: once. */
static void check_unconnected(sheaf_strategy *s)
{
    static const char *const NAMES[] = {"a", "b", "c"};
    struct unconnected u = {.optimizer = sheaf_adam(NULL)};
    sheaf_error err = {0};
    SHEAF_SCOPE(s)
    {
        for (int i = 0; i < 3; i++)
            u.v[i] = sheaf_variable_new(NAMES[i], sheaf_float(1), NULL);
    }
    rig_fails(sheaf_run(s, minimize_unconnected, &u, NULL, NULL, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT,
              "optimizer Adam has no gradients: no trainable variable was read on the tape");
    rig_ok(sheaf_optimizer_build(u.optimizer, u.v, 3, &err), &err);
    for (int i = 0; i < 2; i++) {
        u.reads = i > 0;
        err = (sheaf_error){0};
        rig_fails(sheaf_run(s, minimize_unconnected, &u, NULL, NULL, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT,
                  "optimizer Adam has no gradients: the loss depends on none of its variables "
                  "('a', 'b', 'c')");
    }
    assert_int_equal(sheaf_optimizer_iterations(u.optimizer), 0);
    assert_string_equal(rig_log_take(), "");
    u.depends = true;
    err = (sheaf_error){0};
    for (int i = 0; i < 2; i++)
        rig_ok(sheaf_run(s, minimize_unconnected, &u, NULL, NULL, &err), &err);
    assert_string_equal(rig_log_take(),
                        "optimizer Adam: the loss does not depend on 'a', 'b': no gradients\n");
    assert_floats(sheaf_value(u.v[0]), 1);
    assert_true(sheaf_tensor_number(sheaf_value(u.v[2]), 0) < 1);
    sheaf_optimizer_free(u.optimizer);
    for (int i = 0; i < 3; i++)
        sheaf_variable_free(u.v[i]);
    sheaf_strategy_free(s);
}

static void test_no_gradients(void **state)
{
    (void)state;
    check_unconnected(mirrored(2));
    check_unconnected(strategy("ps"));
    check_unconnected(strategy("one"));
}

/* ---- given gradients ---- */

struct pair {
    sheaf_variable *v[2];
    sheaf_optimizer *optimizer;
};

static sheaf_status apply_one(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                              void *user)
{
    const struct pair *p = user;
    sheaf_tensor *gradient = sheaf_float(1);
    sheaf_error err = {0};
    (void)in;
    (void)out;
    if (sheaf_optimizer_apply(p->optimizer, &p->v[sheaf_replica_id(r) % 2], &gradient, 1, &err) < 0)
        sheaf_failed(&err);
    return SHEAF_OK;
}

static sheaf_status apply_twice(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                void *user)
{
    const struct pair *p = user;
    sheaf_tensor *gradients[] = {sheaf_float(1), sheaf_float(1)};
    sheaf_variable *same[] = {p->v[0], p->v[0]};
    sheaf_error err = {0};
    (void)r;
    (void)in;
    (void)out;
    if (sheaf_optimizer_apply(p->optimizer, same, gradients, 2, &err) < 0)
        sheaf_failed(&err);
    return SHEAF_OK;
}

static struct pair make_pair(sheaf_strategy *s)
{
    struct pair p = {.optimizer = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1})};
    SHEAF_SCOPE(s)
    {
        p.v[0] = sheaf_variable_new("v", sheaf_float(0), NULL);
        p.v[1] = sheaf_variable_new("w", sheaf_float(0), NULL);
    }
    return p;
}

static void drop_pair(struct pair *p)
{
    sheaf_optimizer_free(p->optimizer);
    sheaf_variable_free(p->v[0]);
    sheaf_variable_free(p->v[1]);
}

static void test_given_gradients(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(3);
    struct pair p = make_pair(s);
    rig_ok(sheaf_run(s, apply_one, &p, NULL, NULL, &err), &err);
    for (int c = 0; c < 3; c++) {
        assert_floats(sheaf_value(sheaf_variable_copy(p.v[0], c)), -2);
        assert_floats(sheaf_value(sheaf_variable_copy(p.v[1], c)), -1);
    }
    rig_fails(sheaf_run(s, apply_twice, &p, NULL, NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "'v' is given twice");
    drop_pair(&p);
    sheaf_strategy_free(s);
}

/* ---- two ways of use at once ---- */

struct table {
    sheaf_variable *v;
    sheaf_optimizer *optimizer;
    int lookers; /* a bit for each replica that looks up; the others read all */
};

static sheaf_status read_table(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    const struct table *t = user;
    static const int64_t ids[] = {0, 1, 0, 2};
    const int replica = sheaf_replica_id(r);
    sheaf_tape *tape = sheaf_tape_start();
    (void)in;
    (void)out;
    sheaf_tensor *mine = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2), ids + 2 * (replica % 2));
    sheaf_tensor *rows =
        t->lookers >> replica & 1 ? sheaf_embedding_lookup(t->v, mine) : sheaf_value(t->v);
    return sheaf_optimizer_minimize(t->optimizer, tape, sheaf_scale(sheaf_sum(rows), 0.5, 0));
}

static struct table make_table(sheaf_strategy *s, sheaf_optimizer *optimizer)
{
    struct table t = {.optimizer = optimizer};
    SHEAF_SCOPE(s)
    {
        t.v = sheaf_variable_init("table", SHEAF_FLOAT32, SHEAF_SHAPE(4, 1), sheaf_init_zeros(),
                                  NULL);
    }
    return t;
}

static void drop_table(struct table *t)
{
    sheaf_optimizer_free(t->optimizer);
    sheaf_variable_free(t->v);
}

/* One replica's dense gradient and another's rows do not add up: named, on every worker, and then all goes on. */
static sheaf_status disagree(sheaf_strategy *s, struct table *t, sheaf_error *err)
{
    static const int lookers[] = {2, 1, 3, 2, 0, 1, 3};
    for (size_t i = 0; i < sizeof(lookers) / sizeof(*lookers); i++) {
        sheaf_error found = {0};
        t->lookers = lookers[i];
        sheaf_status status = sheaf_run(s, read_table, t, NULL, NULL, &found);
        const char *text = t->lookers == 2
                               ? "variable 'table' has a dense gradient on replica 0 and "
                                 "one of rows, by a look-up, on replica 1"
                               : "on replica 1 and one of rows, by a look-up, on replica 0";
        const bool agree = t->lookers == 0 || t->lookers == 3;
        if (agree ? status != SHEAF_OK
                  : status != SHEAF_ERR_INVALID_ARGUMENT || !strstr(found.message, text))
            return sheaf_error_set(err, SHEAF_ERR_INTERNAL, "run %zu: %d: %s", i, status,
                                   found.message);
    }
    /* 1, 0.5, 0.5, 0 of the look-ups, twice, and 1 of each in between */
    static const double rows[] = {-3, -2, -2, -1};
    for (int k = 0; k < 4; k++)
        if (sheaf_tensor_number(sheaf_value(t->v), k) != rows[k])
            return sheaf_error_set(err, SHEAF_ERR_INTERNAL, "row %d is %g", k,
                                   sheaf_tensor_number(sheaf_value(t->v), k));
    return SHEAF_OK;
}

static void test_two_ways_of_use(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    struct table t = make_table(s, sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1}));
    rig_ok(disagree(s, &t, &err), &err);
    drop_table(&t);
    sheaf_strategy_free(s);
}

static sheaf_status disagree_on_worker(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    struct table t = make_table(s, sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1}));
    status = disagree(s, &t, &task->err);
    drop_table(&t);
    sheaf_strategy_free(s);
    return status;
}

static void test_two_ways_of_use_on_workers(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 2}, disagree_on_worker, NULL, 60);
}

/* T43: rows 0, 1 on one replica, 0, 2 on the other: the mean of the dense forms, and Adam sees row 0 once, as if one replica
 * had looked up all of them */
static void test_T43_rows_of_two_replicas(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2), *one = strategy("one");
    struct table t = make_table(s, sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1}));
    t.lookers = 3;
    rig_ok(sheaf_run(s, read_table, &t, NULL, NULL, &err), &err);
    assert_floats(sheaf_value(t.v), -1, -0.5f, -0.5f, 0);
    drop_table(&t);
    const sheaf_optimizer_options adam = {.learning_rate = 0.125};
    t = make_table(s, sheaf_adam(&adam));
    t.lookers = 3;
    struct table dense = make_table(one, sheaf_adam(&adam));
    for (int i = 0; i < 2; i++) {
        static const float gradient[] = {1, 0.5f, 0.5f, 0};
        sheaf_tensor *g = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(4, 1), gradient);
        rig_ok(sheaf_run(s, read_table, &t, NULL, NULL, &err), &err);
        rig_ok(sheaf_optimizer_apply(dense.optimizer, &dense.v, &g, 1, &err), &err);
    }
    for (int c = 0; c < 2; c++)
        assert_memory_equal(sheaf_tensor_data(sheaf_value(sheaf_variable_copy(t.v, c))),
                            sheaf_tensor_data(sheaf_value(dense.v)), 4 * sizeof(float));
    drop_table(&t);
    drop_table(&dense);
    sheaf_strategy_free(one);
    sheaf_strategy_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_uses_on_replicas),
        rig_test(test_uses_on_workers),
        rig_test(test_uses_with_servers),
        rig_test(test_no_gradients),
        rig_test(test_given_gradients),
        rig_test(test_two_ways_of_use),
        rig_test(test_two_ways_of_use_on_workers),
        rig_test(test_T43_rows_of_two_replicas),
    };
    return rig_run(tests);
}
