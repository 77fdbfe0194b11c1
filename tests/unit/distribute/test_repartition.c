/* SPDX-License-Identifier: Apache-2.0 */

/* Checkpoints of variables in parts: saved with random partitions, tasks and policies, restored with others, bitwise equal with
 * their slots; and how TensorFlow saves them (R5.42, T56). */

#include "helpers.h"
#include "tables.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { TRIALS = 24, STEPS = 4, MORE_STEPS = 2 };

/* ---- random choices ---- */

static uint64_t drawn;

/* 0 … n - 1 */
static int draw(int n)
{
    drawn = drawn * 6364136223846793005 + 1442695040888963407;
    return (int)((drawn >> 33) % (uint64_t)n);
}

static sheaf_shape by_size(sheaf_dtype dtype, sheaf_shape shape, const int64_t *args, void *user)
{
    (void)dtype;
    (void)user;
    return SHEAF_SHAPE(1 + (shape.dims[0] * args[0]) % 7);
}

static sheaf_partitioner draw_partitioner(void)
{
    switch (draw(5)) {
    case 0:
        return (sheaf_partitioner){0};
    case 1:
        return sheaf_partitioner_fixed(1 + draw(15));
    case 2:
        return sheaf_partitioner_min_size(1 + draw(60), 1 + draw(15));
    case 3:
        return sheaf_partitioner_max_size(1 + draw(60), draw(2) * (1 + draw(8)));
    default:
        return (sheaf_partitioner){.fn = by_size, .args = {draw(7)}};
    }
}

static sheaf_sharding_callback draw_policy(void)
{
    switch (draw(4)) {
    case 0:
        return sheaf_shard_max_size(8 + draw(200));
    case 1:
        return sheaf_shard_round_robin(1 + draw(5));
    case 2:
        return *sheaf_shard_all_in_one();
    default:
        return *sheaf_shard_by_task();
    }
}

static const struct tables_rule rules[] = {
    {"sgd", {.learning_rate = 0.05}},
    {"momentum", {.learning_rate = 0.05}},
    {"adagrad", {.learning_rate = 0.05}},
    {"adam", {.learning_rate = 0.05}},
    {"adam", {.learning_rate = 0.05, .family = SHEAF_OPTIMIZER_LEGACY, .amsgrad = true}},
    {"rmsprop", {.learning_rate = 0.05, .momentum = 0.5, .centered = true}},
    {"nadam", {.learning_rate = 0.05}},
};

/* ---- a part of a job ---- */

/* What a job does: restores, trains, saves. */
struct job {
    const struct tables_rule *rule;
    sheaf_partitioner partitioner;
    sheaf_sharding_callback policy;
    const char *from, *to; /* NULL: not */
    int first, steps;
};

static sheaf_status work(const struct job *job, struct tables *t, sheaf_strategy *s,
                         sheaf_error *err)
{
    const sheaf_checkpoint_options options = {.sharding = &job->policy};
    sheaf_status status = SHEAF_OK;
    if (job->from)
        status = sheaf_checkpoint_restore(t->checkpoint, job->from, err);
    if (status >= 0)
        status = tables_train(t, s, job->first, job->steps, err);
    return status >= 0 && job->to ? sheaf_checkpoint_write(t->checkpoint, job->to, &options, err)
                                  : status;
}

/* Worker 0 does the work; others have the same variables, and wait for its end. */
static sheaf_status worker(struct rig_task *task)
{
    const struct job *job = task->user;
    const sheaf_strategy_options options = {.deadline = 30,
                                            .variable_partitioner = job->partitioner};
    sheaf_strategy *s = NULL;
    struct tables t;
    sheaf_status status = sheaf_strategy_new("ps", NULL, &options, &s, &task->err);
    if (status < 0)
        return status;
    status = tables_make(&t, s, job->rule, &task->err);
    if (status >= 0 && task->index == 0)
        status = work(job, &t, s, &task->err);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    tables_free(&t);
    sheaf_strategy_free(s);
    return status;
}

/* The same without a cluster. */
static void run_alone(const struct job *job)
{
    sheaf_error err = {0};
    struct tables t;
    sheaf_strategy *s = strategy("one");
    rig_ok(tables_make(&t, s, job->rule, &err), &err);
    rig_ok(work(job, &t, s, &err), &err);
    tables_free(&t);
    sheaf_strategy_free(s);
}

/* On random tasks, in random parts. */
static void run_somewhere(struct job *job)
{
    job->partitioner = draw_partitioner();
    job->policy = draw_policy();
    run_cluster((struct jobs){.worker = 1 + draw(2), .ps = 1 + draw(4)}, worker, job, 60);
}

/* ---- comparing ---- */

/* All tensors but the object graph are the same, bit for bit. */
static void assert_same(const char *path, const char *expected)
{
    sheaf_error err = {0};
    sheaf_bundle *a = open_bundle(path), *b = open_bundle(expected);
    sheaf_bundle_entry e, other;
    size_t i = 0;
    for (; sheaf_bundle_get(b, i, &e) != SHEAF_END; i++) {
        sheaf_tensor *x = NULL, *y = NULL;
        assert_int_equal(sheaf_bundle_get(a, i, &other), SHEAF_OK);
        assert_string_equal(e.key, other.key);
        if (e.dtype == SHEAF_STRING)
            continue;
        rig_ok(sheaf_bundle_read(a, e.key, &x, &err), &err);
        rig_ok(sheaf_bundle_read(b, e.key, &y, &err), &err);
        assert_true(sheaf_shape_equal(sheaf_tensor_shape(x), sheaf_tensor_shape(y)));
        assert_int_equal(sheaf_tensor_dtype(x), sheaf_tensor_dtype(y));
        if (sheaf_tensor_elements(y))
            assert_memory_equal(sheaf_tensor_data(x), sheaf_tensor_data(y),
                                (size_t)sheaf_tensor_elements(y) * sheaf_dtype_size(e.dtype));
    }
    assert_int_equal(sheaf_bundle_get(a, i, &other), SHEAF_END);
    assert_true(i > 5);
    sheaf_bundle_free(a);
    sheaf_bundle_free(b);
}

/* Trained for a while somewhere, restored elsewhere and saved again, restored by one process, trained on in a third place: all
 * of it is what one process alone does. */
static void test_any_parts(void **state)
{
    (void)state;
    const sheaf_sharding_callback plain = *sheaf_shard_by_task();
    const char *alone = rig_path("alone"), *longer = rig_path("longer");
    const char *saved = rig_path("saved"), *again = rig_path("again"), *back = rig_path("back");
    drawn = 20240607;
    for (int i = 0; i < TRIALS; i++) {
        const struct tables_rule *rule = &rules[draw((int)(sizeof(rules) / sizeof(*rules)))];
        SHEAF_FRAME
        {
            run_alone(&(struct job){rule, {0}, plain, NULL, alone, 0, STEPS});
            run_alone(&(struct job){rule, {0}, plain, alone, longer, STEPS, MORE_STEPS});
            run_somewhere(&(struct job){.rule = rule, .to = saved, .steps = STEPS});
            assert_same(saved, alone);
            run_somewhere(&(struct job){.rule = rule, .from = saved, .to = again});
            assert_same(again, alone);
            run_alone(&(struct job){rule, {0}, draw_policy(), again, back, 0, 0});
            assert_same(back, alone);
            run_somewhere(&(struct job){.rule = rule,
                                        .from = draw(2) ? again : alone,
                                        .to = saved,
                                        .first = STEPS,
                                        .steps = MORE_STEPS});
            assert_same(saved, longer);
        }
    }
}

/* ---- damage ---- */

static bool is_still_initial(const struct tables *t, const struct tables *initial)
{
    for (int i = 0; i < TABLE_VARIABLES; i++) {
        sheaf_tensor *a = sheaf_value(t->v[i]), *b = sheaf_value(initial->v[i]);
        if (sheaf_tensor_status(a, NULL) < 0 ||
            memcmp(sheaf_tensor_data(a), sheaf_tensor_data(b),
                   (size_t)sheaf_tensor_elements(b) * sizeof(float)) != 0)
            return false;
    }
    return true;
}

static sheaf_status damaged_worker(struct rig_task *task)
{
    const struct job *job = task->user;
    const sheaf_strategy_options options = {.variable_partitioner = sheaf_partitioner_fixed(5)};
    sheaf_strategy *s = NULL, *one = NULL;
    struct tables t, initial = {0};
    sheaf_error err = {0};
    sheaf_status status = sheaf_strategy_new("ps", NULL, &options, &s, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("one", NULL, NULL, &one, &task->err);
    if (status >= 0)
        status = tables_make(&t, s, job->rule, &task->err);
    if (status >= 0)
        status = tables_make(&initial, one, job->rule, &task->err);
    if (status < 0)
        return status;
    RIG_CHECK(task, sheaf_checkpoint_restore(t.checkpoint, job->from, &err) == SHEAF_ERR_DATA_LOSS);
    RIG_CHECK(task, strstr(err.message, "'table/.ATTRIBUTES/VARIABLE_VALUE': checksum mismatch"));
    RIG_CHECK(task, is_still_initial(&t, &initial));
    tables_free(&t);
    tables_free(&initial);
    sheaf_strategy_free(one);
    status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* Each server reads its rows alone; what the checksum of the table says is known when all have, and no server has taken anything
 * before */
static void test_a_wrong_byte(void **state)
{
    (void)state;
    struct job job = {
        .rule = &rules[2], .policy = *sheaf_shard_by_task(), .to = rig_path("x"), .steps = 1};
    SHEAF_FRAME
    {
        run_alone(&job);
    }
    FILE *f = fopen(rig_path("x.data-00000-of-00001"), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 100, SEEK_SET), 0); /* in row 6 of the table */
    const int c = fgetc(f);
    assert_int_equal(fseek(f, 100, SEEK_SET), 0);
    fputc(c ^ 1, f);
    fclose(f);
    job.from = job.to;
    run_cluster((struct jobs){.worker = 1, .ps = 2}, damaged_worker, &job, 60);
}

/* ---- TensorFlow's ---- */

/* What tests/golden/checkpoint/make/formats_ps.py saves: 2 ps, FixedShardsPartitioner(2). */
enum { GOLDEN_VARIABLES = 6 };
static const char *const golden_names[] = {"emb", "ids", "one", "scalar", "half", "step"};

static sheaf_tensor *golden_value(int i)
{
    static const float five = 5;
    switch (i) {
    case 0:
        return sheaf_cast(sheaf_reshape(sheaf_range(0, 28, 1), SHEAF_SHAPE(7, 4)), SHEAF_FLOAT32);
    case 1:
        return sheaf_range(0, 200, 1);
    case 2:
        return sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1), &five);
    case 3:
        return sheaf_float(2.5f);
    case 4:
        return sheaf_cast(sheaf_reshape(sheaf_range(0, 6, 1), SHEAF_SHAPE(3, 2)), SHEAF_FLOAT16);
    default:
        return sheaf_long(3);
    }
}

static bool same_tensor(sheaf_tensor *a, sheaf_tensor *b)
{
    const size_t size = (size_t)sheaf_tensor_elements(b) * sheaf_dtype_size(sheaf_tensor_dtype(b));
    return sheaf_tensor_status(a, NULL) >= 0 && sheaf_tensor_dtype(a) == sheaf_tensor_dtype(b) &&
           sheaf_shape_equal(sheaf_tensor_shape(a), sheaf_tensor_shape(b)) &&
           memcmp(sheaf_tensor_data(a), sheaf_tensor_data(b), size) == 0;
}

/* Restores `from` into zeros, or begins with the values; they are right; saves. */
static sheaf_status golden_work(struct rig_task *task, sheaf_strategy *s, sheaf_checkpoint *c,
                                sheaf_variable **v)
{
    const struct job *job = task->user;
    sheaf_status status = SHEAF_OK;
    const char *path;
    SHEAF_SCOPE(s)
    {
        for (int i = 0; i < GOLDEN_VARIABLES; i++) {
            sheaf_tensor *value = golden_value(i);
            if (job->from)
                value = sheaf_zeros(sheaf_tensor_dtype(value), sheaf_tensor_shape(value));
            v[i] = sheaf_variable_new(golden_names[i], value, NULL);
        }
    }
    for (int i = 0; i < GOLDEN_VARIABLES;
         i++) { /* Python's keywords come in the order of their names */
        static const int order[] = {0, 4, 1, 2, 3, 5};
        sheaf_checkpoint_add_variable(c, golden_names[order[i]], v[order[i]]);
    }
    if (job->from)
        status = sheaf_checkpoint_restore(c, job->from, &task->err);
    for (int i = 0; i < GOLDEN_VARIABLES && status >= 0; i++)
        if (!same_tensor(sheaf_value(v[i]), golden_value(i)))
            status =
                sheaf_error_set(&task->err, SHEAF_ERR_INTERNAL, "'%s' is another", golden_names[i]);
    if (status >= 0 && job->to)
        status = sheaf_checkpoint_save(c, job->to, NULL, &path, &task->err);
    return status;
}

static sheaf_status golden_worker(struct rig_task *task)
{
    const struct job *job = task->user;
    const sheaf_strategy_options options = {.variable_partitioner = job->partitioner};
    sheaf_strategy *s = NULL;
    sheaf_variable *v[GOLDEN_VARIABLES] = {NULL};
    sheaf_status status = sheaf_strategy_new("ps", NULL, &options, &s, &task->err);
    if (status < 0)
        return status;
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    status = golden_work(task, s, c, v);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_checkpoint_free(c);
    for (int i = 0; i < GOLDEN_VARIABLES; i++)
        sheaf_variable_free(v[i]);
    sheaf_strategy_free(s);
    return status;
}

static void assert_same_file(const char *suffix)
{
    sheaf_error err = {0};
    char name[80], *ours = NULL, *theirs = NULL;
    size_t our_size = 0, their_size = 0;
    snprintf(name, sizeof(name), "sharded-1%s", suffix);
    rig_ok(sheaf__file_read_all(rig_path(name), 1 << 20, &ours, &our_size, &err), &err);
    snprintf(name, sizeof(name), "checkpoint/ps/sharded-1%s", suffix);
    rig_ok(sheaf__file_read_all(rig_golden(name), 1 << 20, &theirs, &their_size, &err), &err);
    assert_int_equal(our_size, their_size);
    assert_memory_equal(ours, theirs, their_size);
    sheaf__free(ours);
    sheaf__free(theirs);
}

/* R5.42: each server writes the bytes that TensorFlow's writes. (The third file has the object graph, in which TensorFlow has
 * lost the names of partitioned variables.) */
static void test_R5_42_as_tensorflow(void **state)
{
    (void)state;
    struct job job = {.partitioner = sheaf_partitioner_fixed(2), .to = rig_path("sharded")};
    run_cluster((struct jobs){.worker = 1, .ps = 2}, golden_worker, &job, 60);
    assert_same_file(".data-00000-of-00003");
    assert_same_file(".data-00001-of-00003");
    assert_same(rig_path("sharded-1"), rig_golden("checkpoint/ps/sharded-1"));
}

/* TensorFlow's partitioned variables come back in any parts, or whole */
static void test_from_tensorflow(void **state)
{
    (void)state;
    static const char *const names[] = {"checkpoint/ps/sharded-1", "checkpoint/ps/max-64"};
    for (int i = 0; i < 2; i++)
        for (int parts = 1; parts < 9; parts += 3) {
            struct job job = {.partitioner = sheaf_partitioner_fixed(parts),
                              .from = rig_golden(names[i])};
            run_cluster((struct jobs){.worker = 1, .ps = 3}, golden_worker, &job, 60);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_any_parts),
        rig_test(test_a_wrong_byte),
        rig_test(test_R5_42_as_tensorflow),
        rig_test(test_from_tensorflow),
    };
    return rig_run(tests);
}
