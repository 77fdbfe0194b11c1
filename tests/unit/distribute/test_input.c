/* SPDX-License-Identifier: Apache-2.0 */

/* Distributed datasets and iterators in one process: S40-S45, S60, S64-S70, S102, S117-S121, S144-S153, S183, S184, T3.*. */

#include "helpers.h"

#include "base/mem.h"
#include "data/rewrite.h"
#include "distribute/dist_dataset.h"

#include <stdio.h>
#include <string.h>

/* The parts of all steps, as text: "[0, 1] [2, 3] / [4] [5]". */
static const char *steps_of(sheaf_strategy *s, sheaf_dataset *d, char *text, size_t size)
{
    sheaf_error err = {0};
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, d, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    sheaf_values *v;
    size_t n = 0;
    text[0] = 0;
    SHEAF_EACH(v, it, &err)
    {
        n += (size_t)snprintf(text + n, size - n, "%s", n ? " / " : "");
        for (int r = 0; r < sheaf_values_count(v); r++)
            n += (size_t)snprintf(text + n, size - n, "%s%s", r ? " " : "",
                                  sheaf_list_str(sheaf_values_get(v, r, NULL)));
    }
    rig_ok(err.status, &err);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    return text;
}

static sheaf_dataset *range_batch(int64_t n, int64_t size)
{
    return sheaf_dataset_batch(sheaf_dataset_range(0, n, 1), size, NULL);
}

static void expect_steps(int replicas, int64_t n, int64_t size, const char *expected)
{
    char text[1024];
    const char *devices[9] = {"CPU:0", "CPU:1", "CPU:2", "CPU:3", "CPU:4"};
    sheaf_error err = {0};
    sheaf_strategy *s = NULL;
    devices[replicas] = NULL;
    rig_ok(sheaf_strategy_new("mirrored", NULL, &(sheaf_strategy_options){.devices = devices}, &s,
                              &err),
           &err);
    assert_string_equal(steps_of(s, range_batch(n, size), text, sizeof(text)), expected);
    sheaf_strategy_free(s);
}

/* S119, S120, S121, T1.18-T1.27 (the column of in-memory data) */
static void test_S119_printed_lists(void **state)
{
    (void)state;
    sheaf_error err = {0};
    rig_ok(sheaf_devices_configure(5, &err), &err);
    expect_steps(2, 6, 4, "[0, 1] [2, 3] / [4] [5]");
    expect_steps(5, 4, 4, "[0] [1] [2] [3] []");
    expect_steps(3, 8, 4, "[0, 1] [2, 3] [] / [4, 5] [6, 7] []");
    expect_steps(4, 9, 4, "[0] [1] [2] [3] / [4] [5] [6] [7] / [8] [] [] []");
    expect_steps(2, 9, 4, "[0, 1] [2, 3] / [4, 5] [6, 7] / [8] []");
}

/* S118: as many steps as the cardinality says, each with a part for every replica; together all the elements */
static void test_S118_random_sizes(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v;
    uint32_t dice = 118;
    rig_ok(sheaf_devices_configure(5, &err), &err);
    for (int i = 0; i < 20; i++) {
        dice = dice * 1664525 + 1013904223;
        const int64_t n = dice >> 8 & 63, batch = 1 + (dice >> 14) % 9;
        const int replicas = 1 + (int)((dice >> 20) % 5);
        const char *devices[6] = {"CPU:0", "CPU:1", "CPU:2", "CPU:3", "CPU:4"};
        const sheaf_strategy_options options = {.devices = devices};
        sheaf_strategy *s = NULL;
        devices[replicas] = NULL;
        rig_ok(sheaf_strategy_new("mirrored", NULL, &options, &s, &err), &err);
        sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, range_batch(n, batch), NULL);
        sheaf_dist_iterator *it = sheaf_iterate(dd);
        int64_t steps = 0, parts = 0, next = 0;
        SHEAF_EACH(v, it, &err)
        {
            steps++;
            for (int r = 0; r < sheaf_values_count(v); r++, parts++)
                for (int64_t k = 0; k < sheaf_tensor_elements(sheaf_values_get(v, r, NULL)); k++)
                    assert_int_equal(sheaf_tensor_integer(sheaf_values_get(v, r, NULL), k), next++);
        }
        rig_ok(err.status, &err);
        assert_int_equal(sheaf_dist_dataset_cardinality(dd), (n + batch - 1) / batch);
        assert_int_equal(steps, sheaf_dist_dataset_cardinality(dd));
        assert_int_equal(parts, steps * replicas);
        assert_int_equal(next, n);
        sheaf_dist_iterator_free(it);
        sheaf_dist_dataset_free(dd);
        sheaf_strategy_free(s);
    }
}

/* S117 */
static void test_S117_replicas(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(3), *one = strategy("one");
    assert_int_equal(sheaf_strategy_num_replicas(s), 3);
    assert_int_equal(sheaf_strategy_num_replicas(one), 1);
    assert_int_equal(sheaf_strategy_num_replicas(NULL), 1);
    sheaf_strategy_free(one);
    sheaf_strategy_free(s);
}

/* S43: the parts of a step are the global batch, and views of it */
static void test_S43_parts_are_views(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v;
    sheaf_strategy *s = mirrored(2);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, range_batch(8, 8), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    rig_ok(sheaf_next(it, &v, &err), &err);
    const int64_t *a = sheaf_tensor_data(sheaf_values_get(v, 0, NULL));
    const int64_t *b = sheaf_tensor_data(sheaf_values_get(v, 1, NULL));
    assert_ptr_equal(b, a + 4);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

static sheaf_dataset *numbers_alone(const sheaf_input_context *context, void *user)
{
    ++*(int *)user;
    assert_int_equal(context->num_replicas_in_sync, 2);
    return sheaf_dataset_range(0, 4, 1);
}

/* S60: from a function each replica takes an element as it is, batched or not */
static void test_S60_from_function(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v;
    int calls = 0, next = 0;
    sheaf_strategy *s = mirrored(2);
    sheaf_dist_dataset *dd =
        sheaf_distribute_datasets_from_function(s, numbers_alone, &calls, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    SHEAF_EACH(v, it, &err)
    {
        for (int r = 0; r < 2; r++) {
            assert_int_equal(sheaf_tensor_shape(sheaf_values_get(v, r, NULL)).rank, 0);
            assert_int_equal(sheaf_tensor_integer(sheaf_values_get(v, r, NULL), 0), next++);
        }
    }
    rig_ok(err.status, &err);
    assert_int_equal(next, 4);
    assert_int_equal(calls, 1);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

/* S60, R1.7: what has no batch cannot be split; with one replica it passes */
static void test_S60_unbatched(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v;
    sheaf_strategy *s = mirrored(2), *one = strategy("one");
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, sheaf_dataset_range(0, 3, 1), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    rig_fails(
        sheaf_next(it, &v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
        "split_batch of the distribution: component 0 (\"\") is a scalar: the elements must be "
        "batched");
    assert_int_equal(strncmp(err.message, "split_batch", 11),
                     0); /* it is no stage of the program */
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    dd = sheaf_distribute_dataset(one, sheaf_dataset_range(0, 3, 1), NULL);
    it = sheaf_iterate(dd);
    rig_ok(sheaf_next(it, &v, &err), &err);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(one);
    sheaf_strategy_free(s);
}

/* T3.1, T3.2, R3.4, R3.10: with static shapes the last, uneven step is lost */
static void test_T3_1_static_shapes(void **state)
{
    (void)state;
    char text[256];
    sheaf_strategy *s = mirrored(2);
    const sheaf_batch_options drop = {.drop_remainder = true};
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 3, 1), 1, &drop);
    /* batches of 1 in two parts: [0] [] / [1] [] / [2] []: legacy cut; every part is there */
    steps_of(s, d, text, sizeof(text));
    assert_string_equal(steps_of(s, range_batch(3, 2), text, sizeof(text)), "[0] [1] / [2] []");
    sheaf_strategy_free(s);
}

/* S149: next, get_next and get_next_as_optional of one iterator go on from each other */
static void test_S149_mixed_calls(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v = NULL;
    sheaf_optional *o = NULL;
    sheaf_strategy *s = mirrored(2);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, range_batch(18, 2), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    for (int i = 0; i < 9; i++) {
        if (i % 3 == 0)
            rig_ok(sheaf_next(it, &v, &err), &err);
        if (i % 3 == 1)
            rig_ok(sheaf_get_next(it, &v, &err), &err);
        if (i % 3 == 2) {
            rig_ok(sheaf_get_next_as_optional(it, &o, &err), &err);
            rig_ok(sheaf_optional_value(o, &v, &err), &err);
        }
        for (int r = 0; r < 2; r++)
            assert_int_equal(sheaf_tensor_integer(sheaf_values_get(v, r, NULL), 0), 2 * i + r);
    }
    assert_int_equal(sheaf_get_next(it, &v, &err), SHEAF_ERR_OUT_OF_RANGE);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

static sheaf_status sum_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    (void)r;
    (void)user;
    return sheaf_element_put(out, "", sheaf_sum(only(in)));
}

/* S146: a loop over compiled steps may be left; the iterator goes on behind it */
static void test_S146_break(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v, *out;
    sheaf_strategy *s = mirrored(2);
    sheaf_step *step = sheaf_step_new(sum_step, NULL, NULL);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, range_batch(16, 4), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    for (int round = 0, first = 0; round < 2; round++) {
        SHEAF_EACH(v, it, &err)
        {
            rig_ok(sheaf_run_step(s, step, v, &out, &err), &err);
            assert_int_equal(sheaf_tensor_integer(sheaf_values_get(out, 0, NULL), 0),
                             2 * first + 1);
            first += 4;
            if (first % 8 == 0)
                break;
        }
        assert_int_equal(first, 8 * (round + 1));
    }
    assert_int_equal(sheaf_next(it, &v, &err), SHEAF_END);
    assert_int_equal(sheaf_step_traces(step), 1);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_step_free(step);
    sheaf_strategy_free(s);
}

/* S149, S150: next, get_next, the end again and again */
static void test_S150_the_end(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v;
    sheaf_strategy *s = mirrored(2);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, range_batch(4, 2), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    rig_ok(sheaf_next(it, &v, &err), &err);
    rig_ok(sheaf_get_next(it, &v, &err), &err);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sheaf_next(it, &v, &err), SHEAF_END);
        assert_int_equal(sheaf_get_next(it, &v, &err), SHEAF_ERR_OUT_OF_RANGE);
        assert_string_equal(sheaf_status_name(err.status), "OutOfRangeError");
    }
    sheaf_dist_iterator_free(it);
    it = sheaf_iterate(dd); /* S148: starts again */
    rig_ok(sheaf_next(it, &v, &err), &err);
    assert_int_equal(sheaf_tensor_integer(sheaf_values_get(v, 0, NULL), 0), 0);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

/* S152, S153, R3.13 */
static void test_S152_optionals(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v;
    sheaf_optional *o;
    sheaf_strategy *s = mirrored(2);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, range_batch(1, 2), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    rig_ok(sheaf_get_next_as_optional(it, &o, &err), &err);
    assert_true(sheaf_optional_has_value(o));
    rig_ok(sheaf_optional_value(o, &v, &err), &err);
    assert_string_equal(sheaf_local_results_tf_print(v), "([0], [])");
    rig_ok(sheaf_get_next_as_optional(it, &o, &err), &err);
    assert_false(sheaf_optional_has_value(o));
    rig_fails(sheaf_optional_value(o, &v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "no value");
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

static sheaf_status loss_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                              void *user)
{
    (void)user;
    sheaf_tensor *x = sheaf_cast(sheaf_element_get(in, NULL), SHEAF_FLOAT32);
    return sheaf_element_put(out, "", sheaf_average_loss(r, x));
}

/* S183, S184: empty replicas contribute nothing, and the mean is over the real examples */
static void test_S183_empty_replicas(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(4);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, range_batch(9, 4), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    sheaf_values *v, *losses;
    sheaf_element *sum;
    const float expected[] = {1.5, 5.5, 8};
    int step = 0;
    SHEAF_EACH(v, it, &err)
    {
        for (int r = 0; r < 4; r++) { /* a part without data has the type of the others */
            const sheaf_tensor *part = sheaf_values_get(v, r, NULL);
            assert_int_equal(sheaf_tensor_dtype(part), SHEAF_INT64);
            assert_int_equal(sheaf_tensor_shape(part).rank, 1);
            assert_int_equal(sheaf_tensor_elements(part), step < 2 || r == 0);
        }
        rig_ok(sheaf_run(s, loss_step, NULL, v, &losses, &err), &err);
        rig_ok(sheaf_reduce(s, SHEAF_REDUCE_SUM, losses, NULL, 0, &sum, &err), &err);
        assert_floats(only(sum), expected[step++]);
    }
    rig_ok(err.status, &err);
    assert_int_equal(step, 3);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

static sheaf_status replica_id(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    ++*(int *)user;
    assert_int_equal(context->num_replicas_in_sync, 4);
    return sheaf_element_put(out, "", sheaf_int(context->replica_id_in_sync_group));
}

/* S64, S69, T4.7: one call for each replica; run, reduce and local results take what comes of it */
static void test_T4_7_values_from_function(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v, *out;
    sheaf_element *sum;
    int calls = 0;
    sheaf_strategy *s = mirrored(4);
    rig_ok(sheaf_distribute_values_from_function(s, replica_id, &calls, &v, &err), &err);
    assert_int_equal(calls, 4);
    assert_int_equal(sheaf_values_count(v), 4);
    for (int r = 0; r < 4; r++)
        assert_int_equal(sheaf_tensor_integer(sheaf_values_get(v, r, NULL), 0), r);
    rig_ok(sheaf_reduce(s, SHEAF_REDUCE_SUM, v, NULL, 0, &sum, &err), &err);
    assert_int_equal(sheaf_tensor_integer(only(sum), 0), 6);
    rig_ok(sheaf_run(s, sum_step, NULL, v, &out, &err), &err);
    assert_int_equal(sheaf_tensor_integer(sheaf_values_get(out, 3, NULL), 0), 3);
    assert_string_equal(sheaf_local_results_tf_print(v), "(0, 1, 2, 3)");
    assert_string_equal(sheaf_local_results_str(sheaf_values_tensor(sheaf_float(1))),
                        "(<tf.Tensor: shape=(), dtype=float32, numpy=1.0>,)");
    sheaf_strategy_free(s);
}

/* Files in turn, as records. */
static sheaf_dataset *records(const char *const *files, size_t count)
{
    return sheaf_dataset_batch(sheaf_tfrecord_files(files, count), 3, NULL);
}

/* S41: files that TensorFlow wrote, over two replicas: each record comes to one of them, in order; damage is told */
static void test_S41_tensorflows_files(void **state)
{
    (void)state;
    static const char *const lines[] = {"abc", "defg", "", "abc", "defg"};
    char paths[4][512];
    const char *files[4];
    sheaf_error err = {0};
    sheaf_values *v;
    size_t seen = 0;
    static const char *const names[] = {"two", "empty", "empty-record", "two"};
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof(name), "tfrecord/%s.tfrecord", names[i]);
        snprintf(paths[i], sizeof(paths[i]), "%s", rig_golden(name));
        files[i] = paths[i];
    }
    sheaf_strategy *s = mirrored(2);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, records(files, 4), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    SHEAF_EACH(v, it, &err)
    {
        for (int r = 0; r < 2; r++) {
            const sheaf_tensor *part = sheaf_values_get(v, r, NULL);
            for (int64_t k = 0; k < sheaf_tensor_elements(part); k++, seen++) {
                const sheaf_bytes b = sheaf_tensor_bytes(part, k);
                assert_int_equal(b.size, strlen(lines[seen]));
                assert_memory_equal(b.data, lines[seen], b.size);
            }
        }
    }
    rig_ok(err.status, &err);
    assert_int_equal(seen, 5);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    files[1] = rig_golden("tfrecord/bad/flip-12.tfrecord");
    dd = sheaf_distribute_dataset(s, records(files, 2), NULL);
    it = sheaf_iterate(dd);
    rig_fails(sheaf_next(it, &v, &err), &err, SHEAF_ERR_DATA_LOSS, "CRC");
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

/* S45, S144: AUTO is the default; one replica's elements are bare */
static void test_S45_auto(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v;
    sheaf_dataset *d = range_batch(4, 2);
    assert_int_equal(sheaf_dataset_get_options(d).autoshard, SHEAF_AUTOSHARD_AUTO);
    sheaf_strategy *s = mirrored(1);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, d, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    rig_ok(sheaf_next(it, &v, &err), &err);
    assert_false(sheaf_values_is_per_replica(v));
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

/* S106: the part of every replica is made ahead of its step. */
static void test_S106_prefetch_to_devices(void **state)
{
    (void)state;
    char text[1024];
    sheaf_strategy *s = mirrored(2);
    assert_int_equal(sheaf_counter("input.device_prefetches"), 0);
    steps_of(s, range_batch(12, 4), text, sizeof(text));
    assert_int_equal(sheaf_counter("input.device_prefetches"), 3 * 2);
    sheaf_strategy_free(s);
}

static sheaf_dataset *twelve_in_fours(const sheaf_input_context *context, void *user)
{
    (void)context;
    (void)user;
    return range_batch(12, 4);
}

/* Each pipeline ends as given, and no element is lost; the distributed dataset is freed. */
static void assert_ends_with(sheaf_dist_dataset *d, const char *end)
{
    sheaf_error err = {0};
    sheaf_values *v;
    int64_t rows = 0;
    for (int i = 0; i < d->dataset_count; i++) {
        char *text = sheaf__dataset_explain(d->datasets[i]);
        const size_t size = strlen(text), last = strlen(end);
        assert_true(size >= last);
        assert_string_equal(text + size - last, end);
        sheaf__free(text);
    }
    sheaf_dist_iterator *it = sheaf_iterate(d);
    SHEAF_EACH(v, it, &err) rows += sheaf_values_examples(v);
    rig_ok(err.status, &err);
    assert_int_equal(rows, 12 * d->dataset_count);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
}

/* R3.20, R3.37, S135, S143: so many steps are made ahead as the program says; if it says nothing, one of what is rebatched. */
static void test_S135_steps_ahead(void **state)
{
    (void)state;
    const sheaf_input_options one = {.per_replica_buffer_size = 1},
                              three = {.per_replica_buffer_size = 3},
                              each = {.per_replica_buffer_size = 3, .per_replica = true};
    const char *const first[] = {"CPU:0", NULL};
    sheaf_error err = {0};
    sheaf_strategy *two = mirrored(2), *alone = NULL;
    rig_ok(sheaf_strategy_new("mirrored", NULL, &(sheaf_strategy_options){.devices = first}, &alone,
                              &err),
           &err);
    assert_ends_with(sheaf_distribute_dataset(two, range_batch(12, 4), NULL), "\nprefetch(2)\n");
    assert_ends_with(sheaf_distribute_dataset(two, range_batch(12, 4), &one), "\nprefetch(2)\n");
    assert_ends_with(sheaf_distribute_dataset(two, range_batch(12, 4), &three), "\nprefetch(6)\n");
    assert_ends_with(sheaf_distribute_dataset(alone, range_batch(12, 4), NULL), "\nbatch(4)\n");
    assert_ends_with(sheaf_distribute_dataset(alone, range_batch(12, 4), &three),
                     "\nbatch(4)\nprefetch(3)\n");
    assert_ends_with(sheaf_distribute_dataset(NULL, range_batch(12, 4), &three),
                     "\nbatch(4)\nprefetch(3)\n");
    assert_ends_with(sheaf_distribute_datasets_from_function(two, twelve_in_fours, NULL, NULL),
                     "\nbatch(4)\n");
    assert_ends_with(sheaf_distribute_datasets_from_function(two, twelve_in_fours, NULL, &three),
                     "\nbatch(4)\nprefetch(6)\n");
    assert_ends_with(sheaf_distribute_datasets_from_function(two, twelve_in_fours, NULL, &each),
                     "\nbatch(4)\nprefetch(3)\n");
    sheaf_strategy_free(two);
    sheaf_strategy_free(alone);
}

static sheaf_status next_inside(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                void *user)
{
    sheaf_values *v;
    (void)r;
    (void)in;
    (void)out;
    return sheaf_next(user, &v, NULL) == SHEAF_ERR_INVALID_ARGUMENT ? SHEAF_OK : SHEAF_ERR_INTERNAL;
}

/* R3.5 */
static void test_R3_5_in_a_replica(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, range_batch(4, 2), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    rig_ok(sheaf_run(s, next_inside, it, NULL, NULL, &err), &err);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S119_printed_lists),
        rig_test(test_S118_random_sizes),
        rig_test(test_S117_replicas),
        rig_test(test_S106_prefetch_to_devices),
        rig_test(test_S135_steps_ahead),
        rig_test(test_S43_parts_are_views),
        rig_test(test_S60_from_function),
        rig_test(test_S60_unbatched),
        rig_test(test_T3_1_static_shapes),
        rig_test(test_S149_mixed_calls),
        rig_test(test_S146_break),
        rig_test(test_S150_the_end),
        rig_test(test_S152_optionals),
        rig_test(test_S183_empty_replicas),
        rig_test(test_T4_7_values_from_function),
        rig_test(test_S41_tensorflows_files),
        rig_test(test_S45_auto),
        rig_test(test_R3_5_in_a_replica),
    };
    return rig_run(tests);
}
