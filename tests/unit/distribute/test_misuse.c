/* SPDX-License-Identifier: Apache-2.0 */

/* Wrong calls end with an error that says what is wrong, or with a neutral answer; never in a crash. */

#include "helpers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char missing[] = "NULL";

/* The frame's first error, taken out of it. */
static void latched(const char *part)
{
    sheaf_error err = {0};
    rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_INVALID_ARGUMENT, part);
    sheaf_frame_clear();
}

static void test_scope_of_no_strategy(void **state)
{
    (void)state;
    SHEAF_SCOPE(NULL)
    {
        fail();
    }
    latched(missing);
}

/* A scope holds its strategy: freeing it inside does no harm. */
static void test_strategy_freed_in_its_scope(void **state)
{
    (void)state;
    sheaf_strategy *s = strategy("one");
    SHEAF_SCOPE(s)
    {
        sheaf_strategy_free(s);
        assert_string_equal(sheaf_strategy_name(NULL), "OneDeviceStrategy");
    }
    assert_false(sheaf_has_strategy());
}

static sheaf_status nothing(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    (void)r;
    (void)in;
    (void)out;
    (void)user;
    return SHEAF_OK;
}

static void test_calls_without_function(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out = NULL;
    sheaf_strategy *s = mirrored(2);
    rig_fails(sheaf_run(s, NULL, NULL, NULL, NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              missing);
    rig_fails(sheaf_run(NULL, NULL, NULL, NULL, NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              missing);
    sheaf_step *step = sheaf_step_new(NULL, NULL, NULL);
    rig_fails(sheaf_run_step(s, step, NULL, NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, missing);
    sheaf_step_free(step);
    rig_fails(sheaf_distribute_values_from_function(s, NULL, NULL, &out, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, missing);
    sheaf_merge_call(sheaf_replica_context(), NULL, NULL, NULL);
    latched(missing);
    SHEAF_CREATOR(NULL, NULL)
    {
        fail();
    }
    latched("without a function");
    sheaf_strategy_free(s);
}

static sheaf_status clears(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                           void *user)
{
    (void)in;
    (void)user;
    sheaf_frame_clear();
    return sheaf_element_put(out, "id", sheaf_int(sheaf_replica_id(r)));
}

/* A step may clear its frame; input and result are not in it. */
static void test_step_that_clears_its_frame(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out = NULL;
    sheaf_strategy *s = mirrored(2);
    rig_ok(sheaf_run(s, clears, NULL, NULL, &out, &err), &err);
    assert_int_equal(sheaf_tensor_integer(sheaf_values_get(out, 1, "id"), 0), 1);
    sheaf_strategy_free(s);
}

static sheaf_status runs_another(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                 void *user)
{
    (void)r;
    (void)in;
    (void)out;
    (void)user;
    return sheaf_run(NULL, nothing, NULL, NULL, NULL, NULL);
}

/* R4.3: a step under the default strategy is a plain call, also inside another one. */
static void test_default_steps_nest(void **state)
{
    (void)state;
    sheaf_error err = {0};
    rig_ok(sheaf_run(NULL, runs_another, NULL, NULL, NULL, &err), &err);
}

static void test_values_of_nothing(void **state)
{
    (void)state;
    sheaf_element *nothings[2] = {NULL, NULL};
    sheaf_element *uneven[2] = {
        sheaf_element_keep(sheaf_element_tuple(sheaf_float(1), sheaf_float(2), NULL)),
        sheaf_element_keep(sheaf_element_of(sheaf_float(1)))};
    assert_null(sheaf_values_of(NULL));
    latched(missing);
    assert_null(sheaf_values_per_replica(NULL, 2));
    latched(missing);
    assert_null(sheaf_values_per_replica(nothings, 2));
    latched(missing);
    assert_null(sheaf_values_per_replica(uneven, 2));
    latched("replica 1 has 1 tensors, replica 0 has 2");
    assert_null(sheaf_values_per_replica(uneven, 0));
    latched("0 components");
    sheaf_element_free(uneven[0]);
    sheaf_element_free(uneven[1]);
}

static sheaf_status too_many(sheaf_strategy *s, const sheaf_values *in, sheaf_values **out,
                             void *user)
{
    (void)s;
    (void)in;
    sheaf_element *e[3] = {sheaf_element_new(), sheaf_element_new(), sheaf_element_new()};
    *out = sheaf_values_per_replica(e, *(const int *)user);
    return SHEAF_OK;
}

static sheaf_status merges(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                           void *user)
{
    (void)in;
    (void)out;
    sheaf_merge_call(r, too_many, user, NULL);
    return SHEAF_OK;
}

static void test_R4_36_merge_result_of_another_size(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    for (int count = 1; count <= 3; count += 2)
        rig_fails(sheaf_run(s, merges, &count, NULL, NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "for 2 replicas");
    sheaf_strategy_free(s);
}

/* What the first element of a distributed dataset ends with, whose text can be asked for before. */
static void next_fails(sheaf_dist_dataset *d, const char *part)
{
    sheaf_error err = {0};
    sheaf_values *out = NULL;
    assert_non_null(sheaf_dist_dataset_sharding(d));
    sheaf_dist_iterator *it = sheaf_iterate(d);
    rig_fails(sheaf_next(it, &out, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, part);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
}

static sheaf_dataset *pairs(void)
{
    return sheaf_dataset_batch(sheaf_dataset_range(0, 10, 1), 2, NULL);
}

static sheaf_dataset *without_input(const sheaf_input_context *context, void *user)
{
    (void)context;
    (void)user;
    return sheaf_dataset_repeat(NULL, 2);
}

static void test_input(void **state)
{
    (void)state;
    sheaf_error err = {0};
    int64_t size;
    sheaf_strategy *s = mirrored(2);
    next_fails(sheaf_distribute_dataset(s, NULL, NULL), missing);
    next_fails(sheaf_distribute_datasets_from_function(s, NULL, NULL, NULL), missing);
    next_fails(sheaf_distribute_datasets_from_function(s, without_input, NULL, NULL),
               "stage 1 (repeat): input 0 is NULL");
    sheaf_values *batch = NULL;
    sheaf_account account;
    rig_fails(sheaf_next(NULL, &batch, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the iterator is NULL");
    sheaf_dist_iterator *it = sheaf_iterate(NULL);
    rig_fails(sheaf_next(it, &batch, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the dataset is NULL");
    sheaf_dist_iterator_free(it);
    rig_fails(sheaf_dist_dataset_account(NULL, &account, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the dataset is NULL");
    const sheaf_input_options reserved = {.reserved = {0, 1}},
                              negative = {.per_replica_buffer_size = -1};
    next_fails(sheaf_distribute_dataset(s, pairs(), &reserved), "reserved field 1");
    next_fails(sheaf_distribute_dataset(s, pairs(), &negative), "-1");
    const sheaf_input_context none = {.num_replicas_in_sync = 0};
    rig_fails(sheaf_per_replica_batch_size(&none, 8, &size, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "0 replicas");
    const sheaf_input_context three = {.num_replicas_in_sync = 3};
    for (int64_t i = -3; i <= 0; i++)
        rig_fails(sheaf_per_replica_batch_size(&three, i, &size, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, "expected 1 or more");
    rig_fails(sheaf_per_replica_batch_size(NULL, 8, &size, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "replicas");
    assert_string_equal(sheaf_input_context_str(NULL), "None");
    sheaf_strategy_free(s);
}

/* A dataset's or iterator's call with NULL, and stages over nothing. */
static void test_datasets(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_element *e = NULL;
    assert_int_equal(sheaf_dataset_cardinality(NULL), SHEAF_UNKNOWN);
    assert_null(sheaf_dataset_element_spec(NULL));
    assert_int_equal(sheaf_dataset_get_options(NULL).autoshard, SHEAF_AUTOSHARD_AUTO);
    assert_true(sheaf_iterator_next(NULL, &e, &err) < 0);
    sheaf_iterator *it = sheaf_dataset_iterate(NULL);
    assert_true(sheaf_iterator_next(it, &e, &err) < 0);
    sheaf_iterator_free(it);
    sheaf_dataset *wrong[] = {
        sheaf_tfrecord(NULL),
        sheaf_tfrecord_files(NULL, 2),
        sheaf_list_files(NULL, NULL),
        sheaf_list_files_patterns(NULL, 1, NULL),
        sheaf_list_files_patterns(NULL, 0, NULL),
        sheaf_open_tfrecord(NULL, NULL),
        sheaf_text_lines(NULL, NULL),
        sheaf_text_lines_files(NULL, 2, NULL),
        sheaf_open_text_lines(NULL, NULL),
        sheaf_fixed_records(NULL, NULL),
        sheaf_fixed_records_files(NULL, 1, NULL),
        sheaf_open_fixed_records(NULL, NULL),
        sheaf_csv(NULL, NULL),
        sheaf_csv_files(NULL, 1, NULL),
        sheaf_open_csv(NULL, NULL),
        sheaf_dataset_from_npy(NULL),
        sheaf_dataset_from_array(SHEAF_FLOAT32, SHEAF_SHAPE(2), NULL, NULL, NULL),
        sheaf_dataset_zip(NULL, 2),
        sheaf_dataset_from_generator(NULL, NULL),
        sheaf_dataset_parse_example(sheaf_list_files("*", NULL), NULL, 1)};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        it = sheaf_dataset_iterate(wrong[i]);
        rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "stage");
        sheaf_iterator_free(it);
        sheaf_dataset_free(wrong[i]);
    }
}

static void test_team(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_team *team = NULL;
    float x = 1;
    assert_int_equal(sheaf_team_rank(NULL), -1);
    assert_int_equal(sheaf_team_size(NULL), 0);
    rig_fails(sheaf_team_barrier(NULL, 0, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, missing);
    rig_ok(sheaf_team_new(NULL, &team, &err), &err);
    rig_fails(sheaf_team_all_reduce(team, SHEAF_REDUCE_SUM, SHEAF_FLOAT32, NULL, 4, 0, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, missing);
    rig_fails(sheaf_team_broadcast(team, 0, NULL, 4, 0, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              missing);
    rig_fails(sheaf_team_all_gather(team, &x, NULL, &x, 0, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              missing);
    sheaf_team_free(team);
}

static void deadline_fails(double seconds, const char *part)
{
    sheaf_error err = {0};
    sheaf_strategy *s = strategy("one"), *other = NULL;
    sheaf_team *team = NULL;
    sheaf_values *out = NULL;
    const char *path = NULL;
    float x = 1;
    const size_t count = sizeof(x);
    const sheaf_strategy_options options = {.deadline = seconds};
    const sheaf_run_options run = {.deadline = seconds};
    const sheaf_server_options server = {.deadline = seconds};
    rig_ok(sheaf_team_new(s, &team, &err), &err);
    rig_fails(sheaf_strategy_new("one", NULL, &options, &other, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, part);
    rig_fails(sheaf_strategy_join(s, seconds, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, part);
    rig_fails(sheaf_run_with(s, nothing, NULL, NULL, &run, &out, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, part);
    rig_fails(sheaf_server_run(NULL, &server, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, part);
    rig_fails(sheaf_team_all_reduce(team, SHEAF_REDUCE_SUM, SHEAF_FLOAT32, &x, 1, seconds, &err),
              &err, SHEAF_ERR_INVALID_ARGUMENT, part);
    rig_fails(sheaf_team_broadcast(team, 0, &x, sizeof(x), seconds, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, part);
    rig_fails(sheaf_team_all_gather(team, &x, &count, &x, seconds, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, part);
    rig_fails(sheaf_team_barrier(team, seconds, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, part);
    rig_fails(sheaf_checkpoint_wait("nowhere", NULL, seconds, &path, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, part);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    rig_fails(sheaf_checkpoint_restore_next(c, "nowhere", NULL, seconds, &path, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, part);
    sheaf_checkpoint_free(c);
    sheaf_team_free(team);
    sheaf_strategy_free(s);
}

/* Whoever takes seconds takes 0 to 1e9 of them, and no NaN. */
static void test_deadlines(void **state)
{
    (void)state;
    deadline_fails(-1, "deadline is -1 s, expected 0 to 1e9");
    deadline_fails(NAN, "nan s, expected 0 to 1e9");
    deadline_fails(2e9, "deadline is 2e+09 s, expected 0 to 1e9");
    deadline_fails(INFINITY, "deadline is inf s, expected 0 to 1e9");
}

/* Every struct of options refuses what a later version might mean by its tail. */
static void test_reserved_fields(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_cluster *c = NULL;
    sheaf_strategy *s = NULL;
    sheaf_element *e = NULL;
    sheaf_bytes none = {"", 0};
    const sheaf_cluster_options cluster = {.reserved = {1}};
    rig_fails(sheaf_cluster_resolve(&cluster, &c, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "reserved");
    const sheaf_strategy_options options = {.reserved = {1}};
    rig_fails(sheaf_strategy_new("one", NULL, &options, &s, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "reserved");
    const sheaf_server_options server = {.reserved = {1}};
    rig_fails(sheaf_server_run(NULL, &server, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "reserved");
    const sheaf_feature feature = {.key = "x", .dtype = SHEAF_INT64, .reserved = {1}};
    rig_fails(sheaf_example_parse(&none, 1, &feature, 1, &e, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "reserved");
    const sheaf_optimizer_options rule = {.reserved = {1}};
    sheaf_optimizer *o = sheaf_sgd(&rule);
    rig_fails(sheaf_optimizer_build(o, NULL, 0, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "reserved");
    sheaf_optimizer_free(o);
}

/* No variable is an error of the optimizer, not a variable less. */
static void test_optimizer_of_nothing(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_variable *none[2] = {NULL, NULL};
    sheaf_tensor *gradient = sheaf_float(1);
    sheaf_optimizer *o = sheaf_sgd(NULL);
    rig_fails(sheaf_optimizer_build(o, none, 2, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, missing);
    rig_fails(sheaf_optimizer_build(o, NULL, 2, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, missing);
    rig_fails(sheaf_optimizer_apply(o, none, &gradient, 1, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              missing);
    rig_fails(sheaf_optimizer_apply(o, none, &gradient, 0, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "no gradients to apply: 0 variables");
    rig_fails(sheaf_optimizer_apply(o, NULL, &gradient, 1, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the variables are NULL");
    sheaf_optimizer_free(o);
    sheaf_schedule *s = sheaf_schedule_piecewise(NULL, NULL, 2);
    o = sheaf_sgd(&(sheaf_optimizer_options){.schedule = s});
    rig_fails(sheaf_optimizer_build(o, NULL, 0, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, missing);
    sheaf_optimizer_free(o);
    sheaf_schedule_free(s);
}

/* A save and a restore tell why an object could not be made, under its name. */
static void test_checkpoint_of_what_failed(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_tensor *a = sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3));
    sheaf_variable *v = sheaf_variable_new("v", sheaf_matmul(a, a), NULL);
    sheaf_optimizer *o = sheaf_sgd(&(sheaf_optimizer_options){.learning_rate = -1});
    sheaf_checkpoint *with_v = sheaf_checkpoint_new(), *with_o = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(with_v, "model/bad", v);
    sheaf_checkpoint_add_optimizer(with_o, "rule", o);
    rig_fails(sheaf_checkpoint_save(with_v, rig_path("x"), NULL, NULL, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "object 'model/bad': matmul");
    rig_fails(sheaf_checkpoint_restore(with_v, rig_golden("checkpoint/object/nocounter"), &err),
              &err, SHEAF_ERR_INVALID_ARGUMENT, "object 'model/bad': matmul");
    rig_fails(sheaf_checkpoint_write(with_o, rig_path("x"), NULL, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "object 'rule': sgd: learning_rate is -1");
    sheaf_checkpoint_free(with_v);
    sheaf_checkpoint_free(with_o);
    sheaf_optimizer_free(o);
    sheaf_variable_free(v);
    sheaf_frame_clear();
}

/* Outside a step only copy 0 would change, and the copies would part. */
static void test_minimize_outside_the_strategy(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *v = NULL;
    sheaf_optimizer *o = sheaf_sgd(NULL);
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("v", sheaf_float(2), NULL);
    }
    sheaf_tape *tape = sheaf_tape_start();
    assert_true(sheaf_optimizer_minimize(o, tape, sheaf_square(sheaf_value(v))) < 0);
    rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_FAILED_PRECONDITION, "'v'");
    sheaf_frame_clear();
    for (int r = 0; r < 2; r++)
        assert_floats(sheaf_value(sheaf_variable_copy(v, r)), 2);
    sheaf_optimizer_free(o);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

/* Files and checkpoints. */
static void test_files(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_record_reader *reader = NULL;
    sheaf_record_writer *writer = NULL;
    sheaf_event_writer *events = NULL;
    sheaf_bundle *bundle = NULL;
    sheaf_bytes bytes = {NULL, 4};
    sheaf_tensor *t = NULL;
    const sheaf_status wrong[] = {
        sheaf_record_reader_open(NULL, SHEAF_COMPRESSION_AUTO, &reader, &err),
        sheaf_record_reader_next(NULL, &bytes, &err),
        sheaf_record_writer_open(NULL, SHEAF_COMPRESSION_AUTO, &writer, &err),
        sheaf_record_writer_put(NULL, bytes, &err),
        sheaf_event_writer_open(NULL, &events, &err),
        sheaf_event_scalar(NULL, "loss", 0, 0, &err),
        sheaf_event_writer_flush(NULL, &err),
        sheaf_bundle_open(NULL, &bundle, &err),
        sheaf_bundle_read(NULL, "x", &t, &err),
        sheaf_bundle_verify(NULL, &err),
        sheaf_manager_restore(NULL, NULL, &err),
        sheaf_manager_save(NULL, false, NULL, &err),
        sheaf_manager_step(NULL, 1, &err),
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(wrong[i], SHEAF_ERR_INVALID_ARGUMENT);
    assert_int_equal(sheaf_record_reader_position(NULL, NULL), 0);
    assert_int_equal(sheaf_bundle_get(NULL, 0, NULL), SHEAF_END);
    assert_int_equal(sheaf_bundle_shards(NULL), 0);
    assert_null(sheaf_bundle_description(NULL));
    sheaf_example *x = sheaf_example_new();
    sheaf_example_int64(x, "x", NULL, 3);
    rig_fails(sheaf_example_serialize(x, &bytes, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, missing);
    sheaf_example_free(x);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variables(c, NULL, SIZE_MAX);
    rig_fails(sheaf_checkpoint_write(c, "nowhere", NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "there is none");
    sheaf_checkpoint_free(c);
    assert_null(sheaf_iterator_trackable(NULL));
    sheaf_event_writer *w = NULL;
    rig_fails(sheaf_event_writer_open("", &w, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "no directory of event files");
}

/* Bytes that are not there, in whatever takes bytes. */
static void test_bytes_of_nothing(void **state)
{
    (void)state;
    const sheaf_bytes bytes[2] = {{"", 0}, {NULL, 3}};
    const sheaf_feature feature = {.key = "x", .dtype = SHEAF_INT64},
                        text = {.key = "t", .dtype = SHEAF_STRING, .default_value = &bytes[1]};
    sheaf_element *e;
    sheaf_error err = {0};
    sheaf_bytes message;
    rig_fails(sheaf_example_parse(bytes, 2, &feature, 1, &e, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "example 1: NULL of 3 bytes");
    rig_fails(sheaf_example_parse(NULL, 2, &feature, 1, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the 2 examples are NULL");
    rig_fails(sheaf_example_parse(bytes, 1, NULL, 1, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the 1 features are NULL");
    rig_fails(sheaf_example_parse(bytes, 1, &text, 1, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "feature \"t\": default 0: NULL of 3 bytes");
    sheaf_example *x = sheaf_example_new();
    sheaf_example_bytes(x, "t", bytes, 2);
    rig_fails(sheaf_example_serialize(x, &message, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "feature \"t\": value 1: NULL of 3 bytes");
    sheaf_example_free(x);
    assert_int_equal(sheaf_example_format(bytes[1], 3, NULL, 0), 0);
    sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(2), bytes);
    latched("string 1: NULL of 3 bytes");
}

/* No cluster, which is what the default strategy has, is a machine alone. */
static void test_no_cluster(void **state)
{
    (void)state;
    const sheaf_cluster *none = sheaf_strategy_cluster(NULL);
    assert_string_equal(sheaf_cluster_task_type(none), "");
    assert_int_equal(sheaf_cluster_task_index(none), -1);
    assert_false(sheaf_cluster_is(none, "ps"));
    assert_true(sheaf_cluster_is_chief(none));
    assert_string_equal(sheaf_cluster_source(none), "local");
    assert_null(sheaf_cluster_job(none, 0));
    assert_int_equal(sheaf_cluster_tasks(none, "worker"), 0);
    assert_null(sheaf_cluster_address(none, "worker", 0));
    assert_string_equal(sheaf_cluster_master(none, NULL, 0), "");
    assert_int_equal(sheaf_cluster_workers(none), 0);
    assert_int_equal(sheaf_cluster_worker_id(none), -1);
}

static void test_small_things(void **state)
{
    (void)state;
    char text[8] = "x";
    assert_int_equal(sheaf_error_format(NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_int_equal(sheaf_error_exit(NULL), 0);
    sheaf_error endless; /* made by a program, without ends of its texts */
    memset(&endless, 'a', sizeof(endless));
    assert_in_range(sheaf_error_format(&endless, text, sizeof(text)), 280, 600);
    assert_int_equal(sheaf_shape_of(2, NULL).rank, SHEAF_UNKNOWN_RANK);
    assert_false(sheaf_shape_equal((sheaf_shape){.rank = 99}, (sheaf_shape){.rank = 99}));
    assert_int_equal(sheaf_devices_get(0, NULL), SHEAF_ERR_INVALID_ARGUMENT);
    sheaf_frame_open(NULL);
    sheaf_frame_close(NULL);
    assert_false(sheaf_frame_enter(NULL));
    assert_null(sheaf_element_spec_new(NULL, 2));
    latched(missing);
    sheaf_reshape(sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2)), (sheaf_shape){.rank = 99});
    latched("reshape");
    sheaf_cast(sheaf_string("x"), SHEAF_FLOAT32);
    latched("any but string");
}

/* A job of several machines starts nowhere without a secret, not even the tasks that are on loopback. */
static void test_no_secret(void **state)
{
    (void)state;
    static const char *const jobs[] = {
        "\"worker\":[\"127.0.0.1:29001\",\"10.1.2.3:29\"],\"ps\":[\"127.0.0.1:29002\"]",
        "\"worker\":[\"127.0.0.1:29001\"],\"ps\":[\"127.0.0.1:29002\",\"[fd00::1]:29\"]",
        "\"worker\":[\"127.0.0.1:29001\",\"10.1.2.3:29\"]",
    };
    for (int i = 0; i < 5; i++) {
        char config[300];
        const char *const environment[] = {config, NULL};
        const bool serves = i > 2;
        sheaf_error err = {0};
        sheaf_context *context = NULL;
        sheaf_cluster *c = NULL;
        sheaf_strategy *s = NULL;
        snprintf(config, sizeof(config),
                 "TF_CONFIG={\"cluster\":{%s},\"task\":{\"type\":\"%s\",\"index\":0}}", jobs[i % 3],
                 serves ? "ps" : "worker");
        rig_ok(
            sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, &err),
            &err);
        sheaf_context *before = sheaf_context_enter(context);
        rig_ok(sheaf_cluster_resolve(NULL, &c, &err), &err);
        rig_fails(serves ? sheaf_server_run(c, NULL, &err)
                         : sheaf_strategy_new(NULL, c, NULL, &s, &err),
                  &err, SHEAF_ERR_FAILED_PRECONDITION,
                  "no secret for a cluster with addresses that are not loopback");
        sheaf_cluster_free(c);
        sheaf_context_enter(before);
        sheaf_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_scope_of_no_strategy),
        rig_test(test_strategy_freed_in_its_scope),
        rig_test(test_calls_without_function),
        rig_test(test_step_that_clears_its_frame),
        rig_test(test_default_steps_nest),
        rig_test(test_values_of_nothing),
        rig_test(test_R4_36_merge_result_of_another_size),
        rig_test(test_input),
        rig_test(test_datasets),
        rig_test(test_team),
        rig_test(test_deadlines),
        rig_test(test_reserved_fields),
        rig_test(test_optimizer_of_nothing),
        rig_test(test_checkpoint_of_what_failed),
        rig_test(test_minimize_outside_the_strategy),
        rig_test(test_files),
        rig_test(test_bytes_of_nothing),
        rig_test(test_no_cluster),
        rig_test(test_no_secret),
        rig_test(test_small_things),
    };
    return rig_run(tests);
}
