/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/context.h"
#include "base/mem.h"
#include "base/thread.h"
#include "data/rewrite.h"

/* Building, options, iterating: what holds for every stage. */

/* The first error is kept, named once, and comes out of every pull; counts are used up. */
static void test_errors_are_latched(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 9, 1), -4, NULL);
    d = sheaf_dataset_shuffle(sheaf_dataset_repeat(d, 2), 0, NULL);
    d = sheaf_dataset_zip((sheaf_dataset *[]){sheaf_dataset_range(0, 3, 0), d}, 2);
    assert_null(sheaf_dataset_element_spec(d));
    assert_int_equal(sheaf_dataset_cardinality(d), SHEAF_UNKNOWN);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_dataset_free(d);
    for (int i = 0; i < 3; i++) {
        sheaf_error err = {0};
        sheaf_element *e;
        rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "stage 1 (range): the step is 0");
        assert_int_equal(err.reserved, 0);
    }
    sheaf_iterator_free(it);
    assert_first_fails(sheaf_dataset_batch(sheaf_dataset_range(0, 9, 1), -4, NULL),
                       SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 2 (batch): the batch size is -4, it must be greater than 0");
}

/* R9.28: iterators are independent; the end comes again and again; elements outlive both. */
static void test_iterators(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 3, 1), 2, NULL);
        sheaf_iterator *a = sheaf_dataset_iterate(d), *b = sheaf_dataset_iterate(d);
        sheaf_dataset_free(d);
        sheaf_error err = {0};
        sheaf_element *e, *first;
        rig_ok(sheaf_iterator_next(a, &first, &err), &err);
        rig_ok(sheaf_iterator_next(a, &e, &err), &err);
        rig_ok(sheaf_iterator_next(b, &e, NULL), NULL);
        assert_int_equal(sheaf_tensor_integer(sheaf_element_get(e, NULL), 1), 1);
        for (int i = 0; i < 3; i++)
            assert_int_equal(sheaf_iterator_next(a, &e, NULL), SHEAF_END);
        sheaf_iterator_free(a);
        sheaf_iterator_free(b);
        assert_int_equal(sheaf_tensor_integer(sheaf_element_get(first, NULL), 1), 1);
    }
    sheaf_iterator_free(NULL);
    sheaf_dataset_free(NULL);
}

/* Elements belong to the round's frame; break leaves the loop, an error ends it. */
static void test_each(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_range(0, 5, 1);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e, *kept = NULL;
    int rounds = 0;
    SHEAF_EACH_ELEMENT(e, it, &err)
    {
        if (++rounds == 3) {
            kept = sheaf_element_keep(e);
            break;
        }
    }
    assert_int_equal(rounds, 3);
    assert_int_equal(sheaf_tensor_integer(sheaf_element_get(kept, NULL), 0), 2);
    sheaf_element_free(kept);
    SHEAF_EACH_ELEMENT(e, it, &err)
    rounds++;
    assert_int_equal(rounds, 5);
    assert_int_equal(err.status, SHEAF_OK);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    d = sheaf_tfrecord(rig_path("none"));
    it = sheaf_dataset_iterate(d);
    SHEAF_EACH_ELEMENT(e, it, &err)
    fail();
    assert_int_equal(err.status, SHEAF_ERR_NOT_FOUND);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static sheaf_dataset_options options_of(sheaf_dataset *d)
{
    sheaf_dataset_options o = sheaf_dataset_get_options(d);
    sheaf_dataset_free(d);
    return o;
}
static sheaf_dataset *with(sheaf_dataset *d, sheaf_autoshard policy)
{
    return sheaf_dataset_with_options(d, &(sheaf_dataset_options){.autoshard = policy});
}
static sheaf_dataset *five(void)
{
    return sheaf_dataset_range(0, 5, 1);
}
static sheaf_dataset *open_with(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return with(five(), SHEAF_AUTOSHARD_DATA);
}

/* S45, S126, R9.29-R9.32, T9.22. */
static void test_options_merge(void **state)
{
    (void)state;
    assert_int_equal(options_of(five()).autoshard, SHEAF_AUTOSHARD_AUTO);
    sheaf_dataset *d = with(five(), SHEAF_AUTOSHARD_DATA);
    d = sheaf_dataset_map(sheaf_dataset_batch(d, 2, NULL), NULL, NULL, NULL);
    assert_int_equal(options_of(d).autoshard, SHEAF_AUTOSHARD_DATA);
    d = with(with(five(), SHEAF_AUTOSHARD_FILE), SHEAF_AUTOSHARD_OFF);
    assert_non_null(strstr(rig_log_take(), "autoshard: -1 replaces 1"));
    assert_int_equal(options_of(d).autoshard, SHEAF_AUTOSHARD_OFF);
    d = with(with(five(), SHEAF_AUTOSHARD_OFF), SHEAF_AUTOSHARD_AUTO);
    assert_int_equal(options_of(d).autoshard, SHEAF_AUTOSHARD_OFF);
    /* Inputs in the order of the arguments; what a function makes stays inside. */
    sheaf_dataset *two[] = {with(five(), SHEAF_AUTOSHARD_DATA), with(five(), SHEAF_AUTOSHARD_FILE)};
    d = sheaf_dataset_zip(two, 2);
    assert_int_equal(options_of(d).autoshard, SHEAF_AUTOSHARD_FILE);
    assert_non_null(strstr(rig_log_take(), "autoshard: 1 replaces 2"));
    d = sheaf_dataset_flat_map(five(), open_with, NULL);
    assert_int_equal(options_of(d).autoshard, SHEAF_AUTOSHARD_AUTO);
    const sheaf_dataset_options legacy = {.rebatch = SHEAF_REBATCH_LEGACY, .unordered = true};
    d = with(sheaf_dataset_with_options(five(), &legacy), SHEAF_AUTOSHARD_DATA);
    assert_int_equal(sheaf_dataset_get_options(d).rebatch, SHEAF_REBATCH_LEGACY);
    assert_true(options_of(d).unordered);
}

static void test_bad_options(void **state)
{
    (void)state;
    assert_first_fails(with(five(), 7), SHEAF_ERR_INVALID_ARGUMENT, "autoshard is 7");
    const sheaf_dataset_options later = {.reserved = {1}};
    assert_first_fails(sheaf_dataset_with_options(five(), &later), SHEAF_ERR_INVALID_ARGUMENT,
                       "this version does not know");
    const sheaf_batch_options batch = {.reserved = {1}};
    assert_first_fails(sheaf_dataset_batch(five(), 2, &batch), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 2 (batch)");
    assert_first_fails(sheaf_dataset_repeat(sheaf_dataset_batch(NULL, 2, NULL), 2),
                       SHEAF_ERR_INVALID_ARGUMENT, "input 0 is NULL");
    assert_first_fails(sheaf_dataset_zip(NULL, 0), SHEAF_ERR_INVALID_ARGUMENT, "nothing to zip");
    assert_first_fails(sheaf_dataset_from_slices(NULL), SHEAF_ERR_INVALID_ARGUMENT,
                       "there is no element");
}

/* R9.24: rows of unlike numbers, scalars, failed tensors. */
static void test_from_slices(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_tensor *four = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(4, 2), NULL);
        sheaf_tensor *three = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), NULL);
        sheaf_dataset *d = sheaf_dataset_from_slices(
            sheaf_element_tuple(four, sheaf_tensor_rows(four, 0, 4), NULL));
        assert_elements(d,
                        "[[[0, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 0], [0, 0]]]");
        sheaf_dataset_free(d);
        assert_first_fails(
            sheaf_dataset_from_slices(sheaf_element_tuple(four, three, NULL)),
            SHEAF_ERR_INVALID_ARGUMENT,
            "stage 1 (from_slices): component 1 (\"1\") has 3 rows, component 0 has 4");
        assert_first_fails(sheaf_dataset_from_slices(sheaf_element_of(sheaf_long(1))),
                           SHEAF_ERR_INVALID_ARGUMENT, "is a scalar");
        assert_first_fails(
            sheaf_dataset_from_tensors(sheaf_element_of(sheaf_tensor_rows(three, 2, 9))),
            SHEAF_ERR_OUT_OF_RANGE, "stage 1 (from_tensors)");
    }
    sheaf_frame_clear();
}

/* A view with gaps is sliced as what it shows. */
static void test_names_of_tuples(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_element *e = sheaf_element_new();
        sheaf_element_put(e, "image", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), NULL));
        sheaf_element_put(e, "label", sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2), NULL));
        sheaf_dataset *d = sheaf_dataset_enumerate(sheaf_dataset_from_slices(e), 7);
        const sheaf_element_spec *spec = sheaf_dataset_element_spec(d);
        static const char *const names[] = {"0", "1.image", "1.label"};
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_error err = {0};
        sheaf_element *out;
        rig_ok(sheaf_iterator_next(it, &out, &err), &err);
        for (size_t i = 0; i < 3; i++) {
            assert_string_equal(sheaf_element_spec_at(spec, i).name, names[i]);
            assert_string_equal(sheaf_element_name(out, i), names[i]);
        }
        rig_ok(sheaf_element_spec_check(spec, out, &err), &err);
        assert_int_equal(sheaf_tensor_integer(sheaf_element_get(out, "0"), 0), 7);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

/* R9.21. */
static void test_concatenate_types(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_dataset *a = slices_of("[[1, 2], [3, 4]]"), *b = slices_of("[[5, 6, 7]]");
        sheaf_dataset *d = sheaf_dataset_concatenate(a, b);
        assert_int_equal(sheaf_element_spec_at(sheaf_dataset_element_spec(d), 0).shape.dims[0],
                         SHEAF_UNKNOWN_DIM);
        assert_elements(d, "[[1, 2], [3, 4], [5, 6, 7]]");
        sheaf_dataset_free(d);
        d = sheaf_dataset_from_tensors(sheaf_element_of(sheaf_float(1)));
        assert_first_fails(sheaf_dataset_concatenate(five(), d), SHEAF_ERR_INVALID_ARGUMENT,
                           "stage 2 (concatenate)");
    }
}

/* An error in one input of a zip uses up an element of the others. */
static sheaf_status odd_fails(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    if (sheaf_tensor_integer(sheaf_element_get(in, NULL), 0) % 2)
        return SHEAF_ERR_IO;
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}

static void test_zip_stays_in_step(void **state)
{
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        sheaf_dataset *a = sheaf_dataset_map(five(), odd_fails, NULL, NULL);
        sheaf_dataset *b = sheaf_dataset_range(10, 20, 1);
        sheaf_dataset *two[] = {swapped ? b : a, swapped ? a : b};
        sheaf_dataset *d = sheaf_dataset_zip(two, 2);
        assert_elements(d, swapped
                               ? "[[10, 0], {\"status\": \"IO\"}, [12, 2], {\"status\": \"IO\"}, "
                                 "[14, 4]]"
                               : "[[0, 10], {\"status\": \"IO\"}, [2, 12], {\"status\": \"IO\"}, "
                                 "[4, 14]]");
        d = sheaf_dataset_batch(d, 2, NULL);
        sheaf_dataset_free(d);
        a = sheaf_dataset_enumerate(sheaf_dataset_map(five(), odd_fails, NULL, NULL), 0);
        assert_gives(a, "[[0, 0], {\"status\": \"IO\"}, [2, 2], {\"status\": \"IO\"}, [4, 4]]");
    }
}

static sheaf_status count_calls(const sheaf_element *in, void *user)
{
    (void)in;
    ++*(int *)user;
    return SHEAF_OK;
}
static sheaf_dataset *open_range(const sheaf_element *in, void *user);

/* The input that ends first does not show in what is done to the others, however many elements are
 * asked for at a time. */
static void test_zip_asks_for_no_more(void **state)
{
    (void)state;
    int calls = 0;
    sheaf_dataset *a = sheaf_dataset_filter(sheaf_dataset_range(0, 100, 1), count_calls, &calls);
    sheaf_dataset *b = sheaf_dataset_flat_map(sheaf_dataset_range(0, 2, 1), open_range, NULL);
    sheaf_dataset *d =
        sheaf_dataset_batch(sheaf_dataset_zip((sheaf_dataset *[]){a, b}, 2), 10, NULL);
    json_t *all = elements_by(d, components_json);
    sheaf_dataset_free(d);
    assert_int_equal(json_array_size(all), 1);
    assert_int_equal(calls, 5);
    json_decref(all);
}

/* An iterator runs under the context in which its dataset was made. */
static sheaf_context *seen;
static sheaf_status note(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    seen = sheaf__context();
    return SHEAF_OK;
}

static void test_context_is_the_datasets(void **state)
{
    (void)state;
    sheaf_context *own, *other;
    sheaf_error err = {0};
    own = sheaf__context();
    sheaf_dataset *d = sheaf_dataset_prefetch(sheaf_dataset_filter(five(), note, NULL), 2);
    rig_ok(sheaf_context_new(NULL, &other, &err), &err);
    sheaf_context_enter(other);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    SHEAF_FRAME
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    assert_ptr_equal(sheaf__context(), other);
    sheaf_iterator_free(it);
    assert_ptr_equal(seen, own);
    sheaf_context_enter(own);
    sheaf_context_free(other);
    sheaf_dataset_free(d);
}

/* A stopped context ends every iterator, also one that waits. */
static void test_stop(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_prefetch(sheaf_dataset_repeat(five(), -1), 2);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    sheaf__context_stop(sheaf__context());
    sheaf_status status;
    while ((status = sheaf_iterator_next(it, &e, &err)) == SHEAF_OK)
        ;
    assert_int_equal(status, SHEAF_ERR_CANCELLED);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* Every allocation of a pipeline with most stages may fail: an error comes out, nothing leaks. */
static sheaf_dataset *open_range(const sheaf_element *in, void *user)
{
    (void)user;
    int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    return sheaf_dataset_range(x, x + 2, 1);
}
static sheaf_status pass(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}

static sheaf_status run_all(void *user, sheaf_error *err)
{
    const sheaf_shuffle_options seed = {.seed = 2};
    sheaf_status status = SHEAF_OK;
    (void)user;
    sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 6, 1), 3, &seed);
    d = sheaf_dataset_map(sheaf_dataset_flat_map(d, open_range, NULL), pass, NULL, NULL);
    d = sheaf_dataset_skip(sheaf_dataset_take(d, 9), 1);
    d = sheaf_dataset_concatenate(d, sheaf_dataset_repeat(sheaf_dataset_range(0, 2, 1), 2));
    d = sheaf_dataset_shard(sheaf_dataset_enumerate(d, 1), 2, 1);
    d = sheaf_dataset_unbatch(sheaf_dataset_batch(d, 4, NULL));
    d = sheaf_dataset_batch(sheaf_dataset_zip((sheaf_dataset *[]){sheaf_dataset_ref(d), d}, 2), 2,
                            NULL);
    const struct sheaf__split split = {.replicas = 2};
    struct sheaf__split_dataset out;
    status = sheaf__split_make(d, &split, &out, err);
    sheaf_dataset_free(d);
    if (status < 0)
        return status;
    sheaf_iterator *it = sheaf_dataset_iterate(out.dataset);
    do {
        SHEAF_FRAME
        {
            sheaf_element *e;
            status = sheaf_iterator_next(it, &e, err);
        }
    } while (status == SHEAF_OK);
    sheaf_iterator_free(it);
    sheaf__split_free(&out);
    return status < 0 ? status : SHEAF_OK;
}

/* In a context of its own, whose pools go with it. */
static sheaf_status run_in_context(void *user, sheaf_error *err)
{
    sheaf_context *context, *before;
    sheaf_status status = sheaf_context_new(NULL, &context, err);
    if (status < 0)
        return status;
    before = sheaf_context_enter(context);
    status = run_all(user, err);
    sheaf__local_release();
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(run_in_context, NULL) > 100);
}

/* P6.5: TensorFlow 2.21 prints these. */
static void test_print(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_dataset *d = sheaf_dataset_from_slices(
            sheaf_element_of(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), NULL)));
        assert_string_equal(sheaf_dataset_str(d),
                            "<_TensorSliceDataset element_spec=TensorSpec(shape=(), "
                            "dtype=tf.float32, name=None)>");
        d = sheaf_dataset_batch(d, 2, NULL);
        assert_string_equal(sheaf_dataset_str(d),
                            "<_BatchDataset element_spec=TensorSpec(shape=(None,), "
                            "dtype=tf.float32, name=None)>");
        sheaf_dataset_free(d);
        d = sheaf_dataset_enumerate(sheaf_dataset_range(0, 5, 1), 0);
        assert_string_equal(
            sheaf_dataset_str(d),
            "<_ZipDataset element_spec=(TensorSpec(shape=(), dtype=tf.int64, name=None), "
            "TensorSpec(shape=(), dtype=tf.int64, name=None))>");
        sheaf_dataset_free(d);
        d = sheaf_dataset_take(sheaf_dataset_range(0, 5, 0), 2);
        assert_non_null(strstr(sheaf_dataset_str(d), "<failed dataset: stage 1 (range): "));
        sheaf_dataset_free(d);
    }
    assert_string_equal(sheaf_dataset_str(NULL), "None");
}

/* The numbers are those of range(start, 2^63 - 1) (R9.18), whether the elements are made or passed
 * over. */
static void test_enumerate_ends_with_its_numbers(void **state)
{
    (void)state;
    for (int skipped = 0; skipped <= 2; skipped++) {
        sheaf_dataset *d = sheaf_dataset_enumerate(sheaf_dataset_range(0, 10, 1), INT64_MAX - 2);
        d = sheaf_dataset_skip(d, skipped);
        static const char *const rest[] = {"[[9223372036854775805, 0], [9223372036854775806, 1]]",
                                           "[[9223372036854775806, 1]]", "[]"};
        assert_elements(d, rest[skipped]);
        sheaf_dataset_free(d);
    }
}

static sheaf_status not_yet(const sheaf_element *in, void *user)
{
    (void)in, (void)user;
    return SHEAF_PENDING;
}
static sheaf_status generate_not_yet(void *state, sheaf_element *out, sheaf_error *err)
{
    (void)state, (void)err;
    sheaf_element_put(out, "", sheaf_long(1));
    return SHEAF_PENDING;
}

/* What a function may return is in its type's description; nothing else means anything. */
static void test_no_status_of_a_function(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        const sheaf_generator g = {.next = generate_not_yet};
        assert_first_fails(sheaf_dataset_filter(sheaf_dataset_range(0, 3, 1), not_yet, NULL),
                           SHEAF_ERR_INVALID_ARGUMENT,
                           "stage 2 (filter): the function returned 2, expected SHEAF_OK");
        assert_first_fails(sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, SHEAF_SCALAR)),
                           SHEAF_ERR_INVALID_ARGUMENT,
                           "stage 1 (from_generator): the generator returned 2, expected SHEAF_OK");
    }
}

static void test_no_dataset(void **state)
{
    sheaf_error err = {0};
    sheaf_element *e;
    (void)state;
    sheaf_iterator *it = sheaf_dataset_iterate(NULL);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the dataset is NULL");
    sheaf_iterator_free(it);
    rig_fails(sheaf_iterator_next(NULL, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "the iterator is NULL");
}

/* What is done to a whole pipeline looks for no input where there is none. */
static void test_options_without_input(void **state)
{
    (void)state;
    const sheaf_dataset_options o = {
        .measured = true, .optimizations = {.parallel_maps = true, .inject_prefetch = true}};
    assert_first_fails(sheaf_dataset_with_options(NULL, &o), SHEAF_ERR_INVALID_ARGUMENT,
                       "input 0 is NULL");
    assert_first_fails(sheaf_dataset_with_options(sheaf_dataset_repeat(NULL, 2), &o),
                       SHEAF_ERR_INVALID_ARGUMENT, "stage 1 (repeat): input 0 is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_print),
        rig_test(test_errors_are_latched),
        rig_test(test_iterators),
        rig_test(test_each),
        rig_test(test_options_merge),
        rig_test(test_bad_options),
        rig_test(test_from_slices),
        rig_test(test_names_of_tuples),
        rig_test(test_concatenate_types),
        rig_test(test_zip_stays_in_step),
        rig_test(test_zip_asks_for_no_more),
        rig_test(test_context_is_the_datasets),
        rig_test(test_enumerate_ends_with_its_numbers),
        rig_test(test_no_dataset),
        rig_test(test_options_without_input),
        rig_test(test_no_status_of_a_function),
        rig_test(test_stop),
        rig_test(test_allocation_failures),
    };
    return rig_run(tests);
}
