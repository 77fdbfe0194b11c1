/* SPDX-License-Identifier: Apache-2.0 */

/* Variables in parts over parameter servers: S15, S173, R5.31-R5.45. */

#include "helpers.h"
#include "tables.h"

#include "distribute/strategy.h"
#include "ps/client.h"

#include <string.h>

static sheaf_status open_ps(sheaf_partitioner partitioner, sheaf_strategy **s, sheaf_error *err)
{
    const sheaf_strategy_options options = {.deadline = 30, .variable_partitioner = partitioner};
    return sheaf_strategy_new("ps", NULL, &options, s, err);
}

static sheaf_status close_ps(sheaf_strategy *s, sheaf_status status, sheaf_error *err)
{
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, err);
    sheaf_strategy_free(s);
    return status;
}

/* Elements of what is read are 0, 1, 2, … times `factor`. */
static bool counts_up(sheaf_tensor *t, double factor)
{
    for (int64_t i = 0; i < sheaf_tensor_elements(t); i++)
        if (sheaf_tensor_number(t, i) != (double)i * factor)
            return false;
    return sheaf_tensor_status(t, NULL) >= 0;
}

static sheaf_tensor *numbers(sheaf_shape shape)
{
    float data[64];
    for (int i = 0; i < 64; i++)
        data[i] = (float)i;
    return sheaf_tensor_new(SHEAF_FLOAT32, shape, data);
}

/* Tensor `t` has the elements of `numbers()` in these places. */
static bool has(sheaf_tensor *t, const int64_t *places, int64_t count)
{
    if (sheaf_tensor_status(t, NULL) < 0 || sheaf_tensor_elements(t) != count)
        return false;
    for (int64_t i = 0; i < count; i++)
        if (sheaf_tensor_number(t, i) != (double)places[i])
            return false;
    return true;
}

/* ---- where they are, reading, writing ---- */

static bool is_on(const sheaf_variable *v, int part, const char *device)
{
    return strcmp(sheaf_variable_part_device(v, part), device) == 0;
}

static sheaf_status check_places(struct rig_task *task, sheaf_variable *const *v)
{
    static const char *const devices[] = {"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:2"};
    RIG_CHECK(task, sheaf_variable_parts(v[0]) == 1 && is_on(v[0], 0, devices[0]));
    RIG_CHECK(task, sheaf_variable_parts(v[1]) == 5);
    for (int i = 0; i < 5; i++)
        RIG_CHECK(task, is_on(v[1], i, devices[(1 + i) % 3]));
    RIG_CHECK(task, strcmp(sheaf_variable_device(v[1]), devices[1]) == 0);
    RIG_CHECK(task, sheaf_variable_part_device(v[1], 5) == NULL);
    /* with v[1]: its first part's server; it does not take a turn */
    RIG_CHECK(task, sheaf_variable_parts(v[2]) == 1 && is_on(v[2], 0, devices[1]));
    RIG_CHECK(task, sheaf_variable_parts(v[3]) == 2);
    RIG_CHECK(task, is_on(v[3], 0, devices[0]) && is_on(v[3], 1, devices[1]));
    RIG_CHECK(task, counts_up(sheaf_value(v[1]), 1) && counts_up(sheaf_value(v[2]), 1));
    return SHEAF_OK;
}

static sheaf_status check_lookups(struct rig_task *task, sheaf_variable *v)
{
    static const int64_t ids[] = {12, 0, 8, 9, 0, 3},
                         rows[] = {24, 25, 0, 1, 16, 17, 18, 19, 0, 1, 6, 7};
    static const int64_t one[] = {5}, row[] = {10, 11}, bad[] = {3, 13}, negative[] = {-1};
    sheaf_tensor *t =
        sheaf_embedding_lookup(v, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3, 2), ids));
    RIG_CHECK(task, has(t, rows, 12));
    RIG_CHECK(task, sheaf_shape_equal(sheaf_tensor_shape(t), SHEAF_SHAPE(3, 2, 2)));
    RIG_CHECK(
        task,
        has(sheaf_embedding_lookup(v, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(1), one)), row, 2));
    t = sheaf_embedding_lookup(v, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(0), NULL));
    RIG_CHECK(task, sheaf_shape_equal(sheaf_tensor_shape(t), SHEAF_SHAPE(0, 2)));
    sheaf_error err = {0};
    t = sheaf_embedding_lookup(v, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2), bad));
    RIG_CHECK(task, sheaf_tensor_status(t, &err) == SHEAF_ERR_INVALID_ARGUMENT);
    RIG_CHECK(task, strstr(err.message, "id 13 (number 1) of a look-up in 'b', expected 0..12"));
    t = sheaf_embedding_lookup(v, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(1), negative));
    RIG_CHECK(task, sheaf_tensor_status(t, &err) == SHEAF_ERR_INVALID_ARGUMENT);
    t = sheaf_embedding_lookup(v, sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(1)));
    RIG_CHECK(task, sheaf_tensor_status(t, &err) == SHEAF_ERR_INVALID_ARGUMENT);
    RIG_CHECK(task, strstr(err.message, "ids float32 of shape (1,), wanted a table of rows"));
    return SHEAF_OK;
}

/* a whole, b in 5 parts, one with b, c in 2 parts as it has no more rows */
static sheaf_status place(struct rig_task *task, sheaf_strategy *s)
{
    sheaf_variable *v[4] = {NULL};
    sheaf_status status;
    SHEAF_SCOPE(s)
    {
        v[0] = sheaf_variable_new("a", sheaf_float(3), NULL);
        v[1] = sheaf_variable_new("b", numbers(SHEAF_SHAPE(13, 2)), NULL);
        const sheaf_variable_options with = {.colocate_with = v[1]};
        v[2] = sheaf_variable_new("with b", numbers(SHEAF_SHAPE(6)), &with);
        v[3] = sheaf_variable_new("c", numbers(SHEAF_SHAPE(2, 1, 3)), NULL);
    }
    status = check_places(task, v);
    if (status >= 0)
        status = check_lookups(task, v[1]);
    if (status >= 0)
        status = sheaf_assign_add(v[1], numbers(SHEAF_SHAPE(13, 2)), &task->err);
    if (status >= 0 && !counts_up(sheaf_value(v[1]), 2))
        status = sheaf_error_set(&task->err, SHEAF_ERR_INTERNAL, "not doubled");
    if (status >= 0)
        status = sheaf_assign(v[1], numbers(SHEAF_SHAPE(13, 2)), &task->err);
    if (status >= 0 && !counts_up(sheaf_value(v[1]), 1))
        status = sheaf_error_set(&task->err, SHEAF_ERR_INTERNAL, "not assigned");
    for (int i = 0; i < 4; i++)
        sheaf_variable_free(v[i]);
    return status;
}

static sheaf_status place_worker(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_status status = open_ps(sheaf_partitioner_fixed(5), &s, &task->err);
    if (status >= 0)
        status = place(task, s);
    return close_ps(s, status, &task->err);
}

static void test_S15_S173_places(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 1, .ps = 3}, place_worker, NULL, 60);
}

/* ---- initial values ---- */

static sheaf_variable *make_normal(sheaf_strategy *s)
{
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_init("n", SHEAF_FLOAT32, SHEAF_SHAPE(13, 5), sheaf_init_normal(1, 2, 3),
                                NULL);
    }
    return v;
}

static sheaf_status initial_worker(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_status status = open_ps(sheaf_partitioner_max_size(40, 0), &s, &task->err);
    if (status < 0)
        return status;
    sheaf_variable *v = make_normal(s);
    if (sheaf_variable_parts(v) != 7)
        status = sheaf_error_set(&task->err, SHEAF_ERR_INTERNAL, "%d parts, expected 7",
                                 sheaf_variable_parts(v));
    const float *data = sheaf_tensor_data(sheaf_value(v));
    if (data && task->index == 1)
        memcpy(task->user, data, 65 * sizeof(float));
    sheaf_variable_free(v);
    return close_ps(s, status, &task->err);
}

/* Random initial values do not depend on how a variable is cut; a worker that did not make them sees them */
static void test_initial_values(void **state)
{
    (void)state;
    float found[65] = {0};
    sheaf_strategy *one = strategy("one");
    sheaf_variable *v = make_normal(one);
    run_cluster((struct jobs){.worker = 2, .ps = 2}, initial_worker, found, 60);
    assert_memory_equal(found, sheaf_tensor_data(sheaf_value(v)), sizeof(found));
    sheaf_variable_free(v);
    sheaf_strategy_free(one);
}

/* ---- training ---- */

enum { STEPS = 6, NUMBERS = TABLE_ROWS * TABLE_COLUMNS + TABLE_COLUMNS * TABLE_OUTPUTS + 3 };

struct outcome {
    const struct tables_rule *rule;
    sheaf_partitioner partitioner;
    float values[NUMBERS];
};

static sheaf_status train_tables(sheaf_strategy *s, struct outcome *o, sheaf_error *err)
{
    struct tables t;
    sheaf_status status = tables_make(&t, s, o->rule, err);
    if (status >= 0)
        status = tables_train(&t, s, 0, STEPS, err);
    float *out = o->values;
    for (int i = 0; i < TABLE_VARIABLES && status >= 0; i++) {
        sheaf_tensor *value = sheaf_value(t.v[i]);
        status = sheaf_tensor_status(value, err);
        for (int64_t k = 0; k < sheaf_tensor_elements(value) && status >= 0; k++)
            *out++ = (float)sheaf_tensor_number(value, k);
    }
    tables_free(&t);
    return status;
}

static sheaf_status train_worker(struct rig_task *task)
{
    struct outcome *o = task->user;
    sheaf_strategy *s = NULL;
    sheaf_status status = open_ps(o->partitioner, &s, &task->err);
    if (status >= 0)
        status = train_tables(s, o, &task->err);
    return close_ps(s, status, &task->err);
}

static sheaf_shape every_row(sheaf_dtype dtype, sheaf_shape shape, const int64_t *args, void *user)
{
    (void)dtype;
    (void)args;
    (void)user;
    return SHEAF_SHAPE(shape.dims[0]);
}

/* One worker is serial training, bit for bit, by every rule: also by those that move the rows without a gradient */
static void test_one_worker_is_serial(void **state)
{
    (void)state;
    static const struct tables_rule rules[] = {
        {"sgd", {.learning_rate = 0.05}},
        {"momentum", {.learning_rate = 0.05, .clipnorm = 0.5}},
        {"adam", {.learning_rate = 0.05}},
        {"adam", {.learning_rate = 0.05, .family = SHEAF_OPTIMIZER_LEGACY, .amsgrad = true}},
        {"adam", {.learning_rate = 0.05, .family = SHEAF_OPTIMIZER_V1}},
        {"adam", {.learning_rate = 0.05, .keras3_sparse = true}},
        {"adagrad", {.learning_rate = 0.05}},
        {"rmsprop", {.learning_rate = 0.05, .family = SHEAF_OPTIMIZER_LEGACY}},
        {"ftrl", {.learning_rate = 0.05, .global_clipnorm = 1}},
        {"adadelta", {.learning_rate = 0.05}},
        {"adamax", {.learning_rate = 0.05}},
        {"nadam", {.learning_rate = 0.05}},
        {"lion", {.learning_rate = 0.05}},
    };
    const sheaf_partitioner partitioners[] = {
        sheaf_partitioner_fixed(5), sheaf_partitioner_min_size(16, 3), {.fn = every_row}};
    sheaf_error err = {0};
    sheaf_strategy *one = strategy("one");
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        struct outcome serial = {.rule = &rules[i]};
        struct outcome parts = {.rule = &rules[i], .partitioner = partitioners[i % 3]};
        rig_ok(train_tables(one, &serial, &err), &err);
        run_cluster((struct jobs){.worker = 1, .ps = 1 + (int)i % 3}, train_worker, &parts, 60);
        assert_memory_equal(parts.values, serial.values, sizeof(serial.values));
    }
    sheaf_strategy_free(one);
}

/* ---- workers and replicas at once ---- */

enum { WORKERS = 3, REPLICAS = 2, WIDE = 300000, WIDE_STEPS = 12 };

struct shared {
    sheaf_variable *wide, *table;
    sheaf_optimizer *sgd;
};

/* Adds 1 to all of `wide`; takes 1 from each row of the table that it looks up, 2 from row 4. */
static sheaf_status shared_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                void *user)
{
    static const int64_t ids[] = {4, 11, 0, 4};
    const struct shared *m = user;
    (void)r;
    (void)in;
    (void)out;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *rows =
        sheaf_embedding_lookup(m->table, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(4), ids));
    sheaf_status status = sheaf_optimizer_minimize(m->sgd, tape, sheaf_sum(rows));
    return status < 0
               ? status
               : sheaf_assign_add(m->wide, sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(WIDE)), NULL);
}

static bool is_all(sheaf_tensor *t, double expected)
{
    bool all = sheaf_tensor_status(t, NULL) >= 0;
    for (int64_t i = 0; i < sheaf_tensor_elements(t) && all; i++)
        all = sheaf_tensor_number(t, i) == expected;
    return all;
}

/* One push to each server and step, whatever it has of the variables. */
static bool pushes_are(const sheaf_strategy *s, uint64_t steps)
{
    const struct sheaf__ps_client *client = s->state;
    for (int i = 0; i < client->server_count; i++)
        if (client->servers[i].sequence != steps)
            return false;
    return true;
}

static sheaf_status run_shared(struct rig_task *task, sheaf_strategy *s, struct shared *m)
{
    const double steps = WORKERS * REPLICAS * WIDE_STEPS;
    SHEAF_SCOPE(s)
    {
        const sheaf_variable_options sum = {.aggregation = SHEAF_AGGREGATION_SUM,
                                            .not_trainable = true};
        m->wide = sheaf_variable_new("wide", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(WIDE)), &sum);
        m->table =
            sheaf_variable_new("table", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(13, 2)), NULL);
    }
    for (int i = 0; i < WIDE_STEPS; i++)
        SHEAF_FRAME
        {
            if (sheaf_run(s, shared_step, m, NULL, NULL, &task->err) < 0)
                return task->err.status;
        }
    RIG_CHECK(task, pushes_are(s, WIDE_STEPS));
    if (sheaf_strategy_join(s, 0, &task->err) < 0 || task->index > 0)
        return task->err.status;
    RIG_CHECK(task, is_all(sheaf_value(m->wide), steps));
    for (int64_t row = 0; row < 13; row++) {
        const double times = row == 4 ? 2 : row == 0 || row == 11;
        RIG_CHECK(task,
                  is_all(sheaf_tensor_rows(sheaf_value(m->table), row, row + 1), -times * steps));
    }
    return SHEAF_OK;
}

static sheaf_status shared_worker(struct rig_task *task)
{
    const sheaf_strategy_options options = {.deadline = 30,
                                            .variable_partitioner = sheaf_partitioner_fixed(5)};
    struct shared m = {.sgd = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = 1})};
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_devices_configure(REPLICAS, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("ps", NULL, &options, &s, &task->err);
    if (status >= 0)
        status = run_shared(task, s, &m);
    sheaf_variable_free(m.wide);
    sheaf_variable_free(m.table);
    sheaf_optimizer_free(m.sgd);
    sheaf_strategy_free(s);
    return status;
}

/* Updates of workers that run at once, with several replicas each, all count, in every part; one message to each server and step
 * takes them */
static void test_shared_by_workers(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = WORKERS, .ps = 2}, shared_worker, NULL, 60);
}

/* ---- what is refused ---- */

/* Along two axes, or into every row of vectors. */
static sheaf_shape two_axes(sheaf_dtype dtype, sheaf_shape shape, const int64_t *args, void *user)
{
    (void)dtype;
    (void)args;
    (void)user;
    return shape.rank == 1 ? shape : SHEAF_SHAPE(2, 2);
}

static sheaf_status refused_worker(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_variable *v[5] = {NULL};
    sheaf_error err = {0};
    RIG_CHECK(task, open_ps(sheaf_partitioner_fixed(-4), &s, &err) == SHEAF_ERR_INVALID_ARGUMENT);
    RIG_CHECK(task, strstr(err.message, "a partitioner of -4 parts"));
    sheaf_status status = open_ps((sheaf_partitioner){.fn = two_axes}, &s, &task->err);
    if (status < 0)
        return status;
    sheaf_variable *elsewhere = sheaf_variable_new("plain", sheaf_float(0), NULL);
    SHEAF_SCOPE(s)
    {
        v[0] = sheaf_variable_new("w", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(4, 4)), NULL);
        v[1] = sheaf_variable_new("scalar", sheaf_float(1), NULL); /* R5.32 */
        const sheaf_variable_options with = {.colocate_with = elsewhere};
        v[2] = sheaf_variable_new("with", sheaf_float(1), &with);
        v[3] =
            sheaf_variable_init("many", SHEAF_INT8, SHEAF_SHAPE(1 << 23), sheaf_init_zeros(), NULL);
        v[4] = sheaf_variable_new("text", sheaf_string("x"), NULL);
    }
    RIG_CHECK(task, sheaf_variable_status(v[0], &err) == SHEAF_ERR_INVALID_ARGUMENT);
    RIG_CHECK(task,
              strstr(err.message, "variable 'w': the partitioner's answer for shape (4, 4) is "
                                  "(2, 2)"));
    RIG_CHECK(task, sheaf_variable_status(v[1], &err) == SHEAF_OK);
    RIG_CHECK(task, sheaf_variable_status(v[2], &err) == SHEAF_ERR_INVALID_ARGUMENT);
    RIG_CHECK(task, strstr(err.message, "with 'plain', which is none of the same strategy"));
    RIG_CHECK(task, sheaf_variable_status(v[3], &err) == SHEAF_ERR_INVALID_ARGUMENT);
    RIG_CHECK(task, strstr(err.message, "variable 'many' in 8388608 parts, and 3 before them, "
                                        "expected at most 4194304"));
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(c, "model/text", v[4]);
    RIG_CHECK(task, sheaf_checkpoint_save(c, rig_path("x"), NULL, NULL, &err) ==
                        SHEAF_ERR_INVALID_ARGUMENT);
    RIG_CHECK(task, strstr(err.message, "object 'model/text': variable 'text' of dtype string on a "
                                        "parameter server, expected numbers"));
    sheaf_checkpoint_free(c);
    sheaf_variable_free(elsewhere);
    for (int i = 0; i < 5; i++)
        sheaf_variable_free(v[i]);
    return close_ps(s, status, &task->err);
}

static void test_R5_33_refused(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 1, .ps = 1}, refused_worker, NULL, 60);
}

/* Workers that cut otherwise are told so */
static sheaf_status other_parts(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_variable *v = NULL;
    sheaf_error err = {0};
    sheaf_status status = open_ps(sheaf_partitioner_fixed(2 + task->index), &s, &task->err);
    if (status < 0)
        return status;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("w", numbers(SHEAF_SHAPE(13)), NULL);
    }
    const sheaf_status made = sheaf_variable_status(v, &err);
    if (task->index == 0) {
        RIG_CHECK(task, made == SHEAF_OK);
    } else {
        RIG_CHECK(task, made == SHEAF_ERR_INCOMPATIBLE);
        RIG_CHECK(task, strstr(err.message, "is another part of 'w/part_0' float32 (7,) here, "
                                            "'w/part_0' float32 (5,) in the worker"));
    }
    sheaf_variable_free(v);
    return close_ps(s, status, &task->err);
}

static void test_S5_other_parts(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 2, .ps = 2}, other_parts, NULL, 60);
}

/* A strategy that has no servers keeps them whole */
static void test_other_strategies(void **state)
{
    (void)state;
    sheaf_error err = {0};
    const sheaf_strategy_options options = {.variable_partitioner = sheaf_partitioner_fixed(2)};
    static const char *const names[] = {"one", "mirrored", "ps"};
    for (int i = 0; i < 3; i++) {
        sheaf_strategy *s = NULL;
        sheaf_variable *v = NULL;
        rig_ok(sheaf_strategy_new(names[i], NULL, &options, &s, &err), &err);
        SHEAF_SCOPE(s)
        {
            v = sheaf_variable_new("w", numbers(SHEAF_SHAPE(13)), NULL);
        }
        rig_ok(sheaf_variable_status(v, &err), &err);
        assert_int_equal(sheaf_variable_parts(v), 1);
        sheaf_variable_free(v);
        sheaf_strategy_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S15_S173_places),      rig_test(test_initial_values),
        rig_test(test_one_worker_is_serial), rig_test(test_shared_by_workers),
        rig_test(test_R5_33_refused),        rig_test(test_S5_other_parts),
        rig_test(test_other_strategies),
    };
    return rig_run(tests);
}
