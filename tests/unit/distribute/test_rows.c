/* SPDX-License-Identifier: Apache-2.0 */

/* Rows that cut across the other tests. */

#include "helpers.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static sheaf_status add_rows(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    sheaf_tensor *x = sheaf_cast(only(in), SHEAF_FLOAT32);
    sheaf_variable *seen = user;
    (void)r;
    sheaf_element_put(out, "", sheaf_sum(x));
    return sheaf_assign_add(seen, sheaf_long(1), NULL);
}

static sheaf_status my_number(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_int(context->replica_id_in_sync_group));
}

static sheaf_dataset *batches_of_two(const sheaf_input_context *context, void *user)
{
    (void)context;
    (void)user;
    return sheaf_dataset_batch(sheaf_dataset_range(0, 4, 1), 2, NULL);
}

/* S1: a compiled step over what a dataset function makes. */
static sheaf_status use_function_and_step(sheaf_strategy *s, sheaf_variable *seen, sheaf_error *err)
{
    sheaf_step *step = sheaf_step_new(add_rows, seen, NULL);
    sheaf_dist_dataset *data =
        sheaf_distribute_datasets_from_function(s, batches_of_two, NULL, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(data);
    sheaf_values *batch = NULL, *sums = NULL;
    sheaf_status status = sheaf_next(it, &batch, err);
    if (status >= 0)
        status = sheaf_run_step(s, step, batch, &sums, err);
    if (status >= 0) {
        assert_int_equal(sheaf_step_traces(step), 1);
        assert_floats(sheaf_values_get(sums, 0, NULL), 1);
        assert_string_equal(sheaf_local_results_tf_print(sums),
                            sheaf_strategy_local_replicas(s) == 1 ? "(1,)" : "(1, 5)");
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(data);
    sheaf_step_free(step);
    return status;
}

/* Every generic call of a strategy, on whatever class it is. */
static sheaf_status use(sheaf_strategy *s, sheaf_error *err)
{
    const sheaf_variable_options first = {.not_trainable = true,
                                          .aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA};
    sheaf_variable *seen = NULL;
    SHEAF_SCOPE(s)
    {
        assert_ptr_equal(sheaf_strategy_current(), s);
        seen = sheaf_variable_new("seen", sheaf_long(0), &first);
    }
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 8, 1), 4, NULL);
    sheaf_dist_dataset *data = sheaf_distribute_dataset(s, d, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(data);
    sheaf_values *batch, *sums, *numbers;
    sheaf_element *sum, *joined;
    int steps = 0;
    SHEAF_EACH(batch, it, err)
    {
        steps++;
        if (sheaf_run(s, add_rows, seen, batch, &sums, err) < 0 ||
            sheaf_reduce(s, SHEAF_REDUCE_SUM, sums, NULL, 0, &sum, err) < 0 ||
            sheaf_gather_values(s, batch, 0, &joined, err) < 0)
            break;
        assert_floats(only(sum), steps == 1 ? 6 : 22);
        assert_int_equal(sheaf_tensor_elements(only(joined)), 4);
    }
    if (err->status >= 0) {
        assert_int_equal(steps, 2);
        assert_true(sheaf_tensor_integer(sheaf_value(seen), 0) >= 2);
    }
    if (err->status >= 0 &&
        sheaf_distribute_values_from_function(s, my_number, NULL, &numbers, err) >= 0)
        assert_int_equal(sheaf_values_count(numbers), sheaf_strategy_local_replicas(s));
    if (err->status >= 0)
        (void)use_function_and_step(s, seen, err);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(data);
    sheaf_variable_free(seen);
    return err->status;
}

static sheaf_status use_ps(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_strategy_new("ParameterServerStrategy", NULL, NULL, &s, &task->err);
    if (status >= 0) {
        assert_string_equal(sheaf_strategy_name(s), "ParameterServerStrategy");
        status = use(s, &task->err);
    }
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* S1, S16: run and scope work under parameter servers as under any strategy, without an Estimator */
static void test_S1_S16_generic_calls(void **state)
{
    (void)state;
    sheaf_error err = {0};
    run_cluster((struct jobs){.worker = 2, .ps = 1}, use_ps, NULL, 60);
    sheaf_strategy *s = mirrored(2);
    rig_ok(use(s, &err), &err);
    sheaf_strategy_free(s);
}

/* S2: a strategy takes the cluster it is given; without one, that of TF_CONFIG, which comes to the same */
static sheaf_status take_clusters(struct rig_task *task)
{
    static const char json[] = "{\"cluster\": {\"worker\": [\"127.0.0.1:30001\"]}, "
                               "\"task\": {\"type\": \"worker\", \"index\": 0}}";
    sheaf_cluster *given = NULL, *resolved = NULL;
    sheaf_strategy *s = NULL;
    sheaf_status status =
        sheaf_cluster_resolve(&(sheaf_cluster_options){.json = json}, &given, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("multiworker", given, NULL, &s, &task->err);
    if (status >= 0) {
        RIG_CHECK(task, sheaf_strategy_cluster(s) == given);
        RIG_CHECK(task, sheaf_strategy_num_replicas(s) == 1);
        sheaf_strategy_free(s);
        status = sheaf_cluster_resolve(NULL, &resolved, &task->err);
    }
    for (int i = 0; i < 2 && status >= 0; i++) {
        status = sheaf_strategy_new("multiworker", i ? resolved : NULL, NULL, &s, &task->err);
        if (status < 0)
            break;
        const sheaf_cluster *c = sheaf_strategy_cluster(s);
        RIG_CHECK(task, sheaf_strategy_num_replicas(s) == 2);
        RIG_CHECK(task, strcmp(sheaf_cluster_address(c, "worker", 1),
                               sheaf_cluster_address(resolved, "worker", 1)) == 0);
        status = sheaf_strategy_join(s, 0, &task->err);
        sheaf_strategy_free(s);
    }
    sheaf_cluster_free(given);
    sheaf_cluster_free(resolved);
    return status;
}

static void test_S2_clusters(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 2}, take_clusters, NULL, 60);
}

/* S103: a compiled step is the same, made inside the scope or outside */
static void test_S103_step_made_anywhere(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_step *steps[2] = {NULL, NULL};
    sheaf_variable *seen = NULL;
    sheaf_values *out = NULL;
    sheaf_strategy *s = mirrored(2);
    const sheaf_variable_options first = {.aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA};
    SHEAF_SCOPE(s)
    {
        seen = sheaf_variable_new("seen", sheaf_long(0), &first);
        steps[0] = sheaf_step_new(add_rows, seen, NULL);
    }
    steps[1] = sheaf_step_new(add_rows, seen, NULL);
    const float data[] = {1, 2, 3, 4};
    const int counts[] = {3, 1};
    for (int k = 0; k < 2; k++) {
        rig_ok(sheaf_run_step(s, steps[k], floats(data, counts, 2), &out, &err), &err);
        assert_floats(sheaf_values_get(out, 0, NULL), 6);
        assert_floats(sheaf_values_get(out, 1, NULL), 4);
        assert_int_equal(sheaf_step_traces(steps[k]), 1);
        sheaf_step_free(steps[k]);
    }
    assert_int_equal(sheaf_tensor_integer(sheaf_value(seen), 0), 2);
    sheaf_variable_free(seen);
    sheaf_strategy_free(s);
}

/* S218: the documents' operations, by numbers */
static void test_S218_operations(void **state)
{
    (void)state;
    sheaf_error err = {0};
    const float numbers[] = {1, 2, 3};
    sheaf_tensor *x = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), numbers);
    assert_floats(sheaf_add(x, x), 2, 4, 6);
    assert_floats(sheaf_mul(x, sheaf_float(2)), 2, 4, 6);
    assert_floats(sheaf_sub(x, sheaf_float(1)), 0, 1, 2);
    sheaf_variable *v = sheaf_variable_new("v", sheaf_float(1), NULL);
    rig_ok(sheaf_assign(v, sheaf_float(5), &err), &err);
    rig_ok(sheaf_assign_sub(v, sheaf_float(2), &err), &err);
    assert_floats(sheaf_value(v), 3);
    sheaf_variable_free(v);
    sheaf_tensor *random = sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE(1000), 2, 4, 7);
    double least = 4, most = 2;
    for (int i = 0; i < 1000; i++) {
        least = fmin(least, sheaf_tensor_number(random, i));
        most = fmax(most, sheaf_tensor_number(random, i));
    }
    assert_true(least >= 2 && least < 2.1 && most < 4 && most > 3.9);
    assert_string_equal(sheaf_str(x), "tf.Tensor([1. 2. 3.], shape=(3,), dtype=float32)");
    sheaf_tensor *range = sheaf_range(1, 10, 4);
    assert_int_equal(sheaf_tensor_elements(range), 3);
    assert_int_equal(sheaf_tensor_integer(range, 2), 9);
    SHEAF_DEVICE("CPU:0")
    {
        assert_string_equal(sheaf_tensor_device(sheaf_neg(x)),
                            "/job:localhost/replica:0/task:0/device:CPU:0");
    }
}

/* What a program that names no strategy gets when SHEAF_CONFIG's file says `name`. */
static void strategy_of_file(const char *name, const char *expected)
{
    char line[128], entry[4096];
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    snprintf(line, sizeof(line), "# how to train\nSHEAF_STRATEGY = %s\n", name);
    rig_ok(sheaf__file_replace(rig_path("sheaf.conf"), line, strlen(line), &err), &err);
    snprintf(entry, sizeof(entry), "SHEAF_CONFIG=%s", rig_path("sheaf.conf"));
    const char *environment[] = {entry, NULL};
    const sheaf_context_options options = {.environment = environment};
    rig_ok(sheaf_context_new(&options, &context, &err), &err);
    sheaf_context *before = sheaf_context_enter(context);
    sheaf_strategy *s = NULL;
    if (expected) {
        s = strategy(NULL);
        assert_string_equal(sheaf_strategy_name(s), expected);
        sheaf_strategy_free(s);
        s = strategy("one"); /* the program's own word wins */
        assert_string_equal(sheaf_strategy_name(s), "OneDeviceStrategy");
        sheaf_strategy_free(s);
    } else {
        rig_fails(sheaf_strategy_new(NULL, NULL, NULL, &s, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "no strategy 'Strategy'");
    }
    sheaf_frame_clear();
    sheaf_context_enter(before);
    sheaf_context_free(context);
}

/* S219: a program or its configuration file names a strategy by one text, ours or TensorFlow's */
static void test_S219_strategies_by_name(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"one", "OneDeviceStrategy"},
        {"OneDeviceStrategy", "OneDeviceStrategy"},
        {"mirrored", "MirroredStrategy"},
        {"MirroredStrategy", "MirroredStrategy"},
        {"multiworker", "MultiWorkerMirroredStrategy"},
        {"experimental.MultiWorkerMirroredStrategy", "MultiWorkerMirroredStrategy"},
        {"ps", "ParameterServerStrategy"},
        {"experimental.ParameterServerStrategy", "ParameterServerStrategy"},
        {"default", "_DefaultDistributionStrategy"},
        {NULL, "OneDeviceStrategy"},
    };
    sheaf_error err = {0};
    sheaf_strategy *s = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        s = strategy(names[i][0]);
        assert_string_equal(sheaf_strategy_name(s), names[i][1]);
        sheaf_strategy_free(s);
        if (names[i][0])
            strategy_of_file(names[i][0], names[i][1]);
    }
    strategy_of_file("Strategy", NULL);
    rig_fails(sheaf_strategy_new("Strategy", NULL, NULL, &s, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "mirrored");
}

/* S199: what TPUStrategy does not support, such as generators, nobody can ask of it: there is none, and the error says
 * which there are */
static void test_S199_no_tpu(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = NULL;
    rig_fails(sheaf_strategy_new("TPUStrategy", NULL, NULL, &s, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT,
              "no strategy 'TPUStrategy'; there are default, one, mirrored, multiworker and ps");
    assert_null(s);
}

/* S42: a distributed dataset and a dataset are two types, and no stage takes the former */
static void test_S42_no_stages(void **state)
{
    (void)state;
#define IS_DATASET(x) _Generic((x), sheaf_dataset * : 1, default : 0)
    assert_true(IS_DATASET((sheaf_dataset *)NULL));
    assert_false(IS_DATASET((sheaf_dist_dataset *)NULL));
}

static sheaf_status count_rows(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    (void)r;
    (void)user;
    return sheaf_element_put(out, "", sheaf_range(0, sheaf_tensor_shape(only(in)).dims[0], 1));
}

/* S84: what goes into a step is tensors in an element, a sparse one too; nothing else is taken */
static void test_S84_arguments(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out = NULL;
    sheaf_element *parsed = NULL;
    sheaf_strategy *s = mirrored(2);
    sheaf_example *x = sheaf_example_new();
    sheaf_bytes message;
    sheaf_example_int64(x, "tags", (const int64_t[]){7, 8}, 2);
    rig_ok(sheaf_example_serialize(x, &message, &err), &err);
    const sheaf_feature tags = {.key = "tags", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_VAR};
    rig_ok(sheaf_example_parse(&message, 1, &tags, 1, &parsed, &err), &err);
    rig_ok(sheaf_run(s, count_rows, NULL, sheaf_values_of(parsed), &out, &err), &err);
    assert_int_equal(sheaf_tensor_elements(sheaf_values_get(out, 1, NULL)), 1);
    sheaf_example_free(x);
    sheaf_values_tensor(NULL);
    rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_INVALID_ARGUMENT, "NULL");
    sheaf_frame_clear();
    sheaf_strategy_free(s);
}

static sheaf_status look_at_devices(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    char expected[96];
    sheaf_status status = sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err);
    snprintf(expected, sizeof(expected), "/job:worker/replica:0/task:%d/device:CPU:0", task->index);
    SHEAF_SCOPE(s)
    {
        assert_string_equal(sheaf_tensor_device(sheaf_neg(sheaf_float(1))), expected);
        assert_string_equal(sheaf_strategy_worker_device(s, 0), expected);
    }
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* S93: an operation in the scope of a worker runs on that worker's CPU */
static void test_S93_devices_of_workers(void **state)
{
    (void)state;
    run_cluster((struct jobs){.worker = 2}, look_at_devices, NULL, 60);
}

static sheaf_status count_call(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    (void)r;
    (void)in;
    (void)out;
    return sheaf_assign_add(user, sheaf_long(1), NULL);
}

/* S94: a scope alone distributes no computation: what is called in it happens once, in a run on every replica */
static void test_S94_scope_runs_once(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    const sheaf_variable_options sum = {.aggregation = SHEAF_AGGREGATION_SUM};
    sheaf_variable *calls = NULL;
    SHEAF_SCOPE(s)
    {
        calls = sheaf_variable_new("calls", sheaf_long(0), &sum);
        rig_ok(sheaf_assign_add(calls, sheaf_long(1), &err), &err);
    }
    assert_int_equal(sheaf_tensor_integer(sheaf_value(calls), 0), 1);
    rig_ok(sheaf_run(s, count_call, calls, NULL, NULL, &err), &err);
    assert_int_equal(sheaf_tensor_integer(sheaf_value(calls), 0), 3);
    sheaf_variable_free(calls);
    sheaf_strategy_free(s);
}

/* Text of the first part of a distributed dataset of 4 numbers. */
static const char *first_part(sheaf_strategy *s, sheaf_dataset *d)
{
    sheaf_error err = {0};
    sheaf_values *v = NULL;
    sheaf_dist_dataset *data = sheaf_distribute_dataset(s, d, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(data);
    rig_ok(sheaf_next(it, &v, &err), &err);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(data);
    return sheaf_values_str(v);
}

/* S102: input made inside the scope or outside is the same */
static void test_S102_input_made_anywhere(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(2);
    const char *inside = NULL;
    SHEAF_SCOPE(s)
    {
        inside = first_part(s, sheaf_dataset_batch(sheaf_dataset_range(0, 4, 1), 4, NULL));
    }
    assert_non_null(strstr(inside, "[2 3]"));
    assert_string_equal(inside,
                        first_part(s, sheaf_dataset_batch(sheaf_dataset_range(0, 4, 1), 4, NULL)));
    sheaf_strategy_free(s);
}

/* S105: a checkpoint may be saved, and restored, in the scope or out of it. */

static sheaf_status save_or_restore(sheaf_checkpoint *c, bool saves, const char *path,
                                    sheaf_error *err)
{
    return saves ? sheaf_checkpoint_write(c, path, NULL, err)
                 : sheaf_checkpoint_restore(c, path, err);
}

static void in_or_out(sheaf_strategy *s, bool in, sheaf_checkpoint *c, bool saves, const char *path)
{
    sheaf_error err;
    sheaf_status status = SHEAF_OK;
    if (in)
        SHEAF_SCOPE(s)
        {
            status = save_or_restore(c, saves, path, &err);
        }
    else
        status = save_or_restore(c, saves, path, &err);
    rig_ok(status, &err);
}

static void test_S105_checkpoints_anywhere(void **state)
{
    (void)state;
    sheaf_error err;
    rig_ok(sheaf_devices_configure(2, &err), &err);
    sheaf_strategy *s = strategy("mirrored");
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("v", sheaf_float(0), NULL);
    }
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(c, "v", v);
    for (int way = 0; way < 4; way++) {
        const char *path = rig_path("saved");
        rig_ok(sheaf_assign(v, sheaf_float((float)way + 1), &err), &err);
        in_or_out(s, way & 1, c, true, path);
        rig_ok(sheaf_assign(v, sheaf_float(-1), &err), &err);
        in_or_out(s, way & 2, c, false, path);
        for (int i = 0; i < 2; i++)
            assert_true(sheaf_tensor_number(sheaf_value(sheaf_variable_copy(v, i)), 0) == way + 1);
    }
    sheaf_checkpoint_free(c);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S1_S16_generic_calls),    rig_test(test_S2_clusters),
        rig_test(test_S103_step_made_anywhere), rig_test(test_S218_operations),
        rig_test(test_S219_strategies_by_name), rig_test(test_S199_no_tpu),
        rig_test(test_S42_no_stages),           rig_test(test_S84_arguments),
        rig_test(test_S93_devices_of_workers),  rig_test(test_S105_checkpoints_anywhere),
        rig_test(test_S94_scope_runs_once),     rig_test(test_S102_input_made_anywhere),
    };
    return rig_run(tests);
}
