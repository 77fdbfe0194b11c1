/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/mem.h"
#include "data/rewrite.h"
#include "data/split_batch.h"
#include "tensor/tensor.h"

/* The rebatch rules (tf-semantics 1) against TensorFlow. */

static size_t sizes_of(const json_t *list, int64_t sizes[64])
{
    for (size_t i = 0; i < json_array_size(list); i++)
        sizes[i] = json_integer_value(json_array_get(list, i));
    return json_array_size(list);
}

static sheaf_dataset *batches(int64_t n, int64_t size)
{
    return sheaf_dataset_batch(sheaf_dataset_range(0, n, 1), size, NULL);
}

/* R1.12, T1.9-T1.17. */
static void test_golden_batch_sizes(void **state)
{
    (void)state;
    json_t *root = golden_load("rebatch.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "batch_sizes_for_worker"), i, c)
    {
        struct sheaf__split s = {.workers = (int)number_at(c, "workers", 0),
                                 .replicas = (int)number_at(c, "replicas_per_worker", 0)};
        for (s.worker = 0; s.worker < s.workers; s.worker++) {
            int64_t sizes[64];
            sheaf__batch_sizes_for_worker(number_at(c, "global_batch", 0), &s, sizes);
            json_t *found = json_array();
            for (int k = 0; k < s.workers * s.replicas; k++)
                json_array_append_new(found, json_integer(sizes[k]));
            assert_json(found, json_array_get(json_object_get(c, "lists"), (size_t)s.worker),
                        "sizes");
        }
    }
    json_decref(root);
}

/* R1.14, R1.15, T1.8. */
static void test_golden_balanced(void **state)
{
    (void)state;
    json_t *root = golden_load("rebatch.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "balanced"), i, c)
    {
        int64_t sizes[64];
        size_t count = sizes_of(json_object_get(c, "sizes"), sizes);
        sheaf_dataset *d =
            sheaf_dataset_rebatch(batches(number_at(c, "n", 0), number_at(c, "batch", 0)), sizes,
                                  count, json_is_true(json_object_get(c, "drop_remainder")));
        assert_json(elements(d), json_object_get(c, "output"), "balanced");
        assert_int_equal(sheaf_dataset_cardinality(d), SHEAF_UNKNOWN);
        sheaf_dataset_free(d);
    }
    json_decref(root);
}

/* R1.19, R1.21. */
static void test_golden_legacy(void **state)
{
    (void)state;
    json_t *root = golden_load("rebatch.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "legacy"), i, c)
    {
        sheaf_dataset *d = sheaf__split_batch(
            batches(number_at(c, "n", 0), number_at(c, "batch", 0)), number_at(c, "replicas", 0));
        assert_json(elements(d), json_object_get(c, "output"), "legacy");
        sheaf_dataset_free(d);
    }
    json_decref(root);
}

static json_t *shape_of_element(const sheaf_element *e)
{
    return shape_json(sheaf_tensor_shape(sheaf_element_at(e, 0)));
}

static sheaf_status one_matrix(void *state, sheaf_element *out, sheaf_error *err)
{
    int *left = state;
    (void)err;
    if ((*left)-- <= 0)
        return SHEAF_END;
    return sheaf_element_put(out, "", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), NULL));
}

static sheaf_dataset *matrix_of_unknown_shape(int *left)
{
    const sheaf_generator g = {NULL, one_matrix, NULL, left};
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_generator(&g, spec_of(SHEAF_FLOAT32, SHEAF_SHAPE(-1, -1)));
    return d;
}

/* R1.16. */
static void test_golden_empty_parts(void **state)
{
    (void)state;
    json_t *root = golden_load("rebatch.json");
    const json_t *cases = json_object_get(root, "empty_parts");
    sheaf_dataset *images = NULL;
    SHEAF_FRAME
    images = sheaf_dataset_batch(sheaf_dataset_from_slices(sheaf_element_of(
                                     sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(4, 2, 3), NULL))),
                                 4, NULL);
    int left = 1;
    sheaf_dataset *all[] = {
        sheaf_dataset_rebatch(sheaf_dataset_ref(images), (const int64_t[]){3, 0, 1}, 3, false),
        sheaf__split_batch(images, 5),
        sheaf_dataset_rebatch(matrix_of_unknown_shape(&left), (const int64_t[]){0, 2}, 2, false),
    };
    for (size_t i = 0; i < 3; i++) {
        assert_json(elements_by(all[i], shape_of_element),
                    json_object_get(json_array_get(cases, i), "shapes"),
                    text_at(json_array_get(cases, i), "what"));
        sheaf_dataset_free(all[i]);
    }
    json_decref(root);
}

static void test_golden_batches_without_rows(void **state)
{
    (void)state;
    json_t *root = golden_load("rebatch.json");
    const json_t *c = json_array_get(json_object_get(root, "zero_row_batches"), 0);
    json_t *input = json_object_get(c, "input");
    sheaf_dataset *d =
        sheaf_dataset_rebatch(dataset_of_lists(input), (const int64_t[]){2}, 1, false);
    assert_json(elements(d), json_object_get(c, "balanced_2"), "balanced 2");
    sheaf_dataset_free(d);
    d = sheaf__split_batch(dataset_of_lists(input), 2);
    assert_json(elements(d), json_object_get(c, "legacy_2"), "legacy 2");
    sheaf_dataset_free(d);
    json_decref(root);
}

/* ---- inferred sizes ---- */

static sheaf_status add_one(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}
static sheaf_status keep_all(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return SHEAF_OK;
}
static sheaf_dataset *open_self(const sheaf_element *in, void *user)
{
    (void)user;
    return sheaf_dataset_from_tensors(sheaf_element_of(sheaf_element_get(in, NULL)));
}

static sheaf_dataset *fours(bool drop)
{
    return sheaf_dataset_batch(sheaf_dataset_range(0, 32, 1), 4,
                               &(sheaf_batch_options){.drop_remainder = drop});
}

static sheaf_dataset *zipped(int64_t a, int64_t b, bool drop)
{
    const sheaf_batch_options o = {.drop_remainder = drop};
    sheaf_dataset *two[] = {sheaf_dataset_batch(sheaf_dataset_range(0, 8, 1), a, &o),
                            sheaf_dataset_batch(sheaf_dataset_range(0, 8, 1), b, &o)};
    return sheaf_dataset_zip(two, 2);
}

static sheaf_dataset *mapped_with_spec(void)
{
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    {
        const sheaf_map_options o = {.spec = spec_of(SHEAF_INT64, SHEAF_SHAPE(4))};
        d = sheaf_dataset_map(fours(true), add_one, NULL, &o);
    }
    return d;
}

static sheaf_dataset *rows_of_six(void)
{
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_FLOAT64, SHEAF_SHAPE(6, 4), NULL)));
    return d;
}

/* The pipelines of the golden, by their text there; those of stages that are not there are left
 * out. */
static sheaf_dataset *named(const char *name)
{
    const sheaf_batch_options parallel = {.parallel = 2};
    const sheaf_interleave_options one = {.cycle_length = 1};
    const sheaf_dataset_options none = {0};
#define CASE(text, dataset)      \
    if (strcmp(name, text) == 0) \
        return (dataset);
    CASE("range.batch(4)", fours(false))
    CASE("range.batch(4, drop_remainder)", fours(true))
    CASE("batch.take", sheaf_dataset_take(fours(false), 5))
    CASE("batch.skip", sheaf_dataset_skip(fours(false), 1))
    CASE("batch.repeat.prefetch", sheaf_dataset_prefetch(sheaf_dataset_repeat(fours(false), -1), 1))
    CASE("batch.shuffle", sheaf_dataset_shuffle(fours(false), 2, NULL))
    CASE("batch.cache", sheaf_dataset_cache(fours(false), NULL))
    CASE("batch.shard", sheaf_dataset_shard(fours(false), 2, 0))
    CASE("batch.filter", sheaf_dataset_filter(fours(false), keep_all, NULL))
    CASE("batch.options", sheaf_dataset_with_options(fours(false), &none))
    CASE("batch.map", sheaf_dataset_map(fours(false), add_one, NULL, NULL))
    CASE("batch(drop).map", mapped_with_spec())
    CASE("batch(num_parallel_calls)",
         sheaf_dataset_batch(sheaf_dataset_range(0, 32, 1), 4, &parallel))
    CASE("padded_batch(4)", sheaf_dataset_padded_batch(sheaf_dataset_range(0, 32, 1), 4, NULL))
    CASE("batch(4).batch(2)", sheaf_dataset_batch(fours(false), 2, NULL))
    CASE("batch.unbatch.batch(2)",
         sheaf_dataset_batch(sheaf_dataset_unbatch(fours(false)), 2, NULL))
    CASE("batch.rebatch(2)", sheaf_dataset_rebatch(fours(false), (const int64_t[]){2}, 1, false))
    CASE("batch.flat_map", sheaf_dataset_flat_map(fours(false), open_self, NULL))
    CASE("batch.interleave", sheaf_dataset_interleave(fours(false), open_self, NULL, &one))
    CASE("zip(4, 4)", zipped(4, 4, false))
    CASE("zip(4, 2)", zipped(4, 2, false))
    CASE("zip(4 drop, 2 drop)", zipped(4, 2, true))
    CASE("concatenate(4, 4)", sheaf_dataset_concatenate(batches(8, 4), batches(8, 4)))
    CASE("concatenate(4, 2)", sheaf_dataset_concatenate(batches(8, 4), batches(8, 2)))
    CASE("from_tensor_slices [6, 4]", rows_of_six())
#undef CASE
    return NULL;
}

/* R1.8-R1.11, T1.1-T1.7. */
static void test_golden_inferred_sizes(void **state)
{
    (void)state;
    json_t *root = golden_load("rebatch.json"), *c;
    size_t i, checked = 0;
    json_array_foreach(json_object_get(root, "compute_batch_size"), i, c)
    {
        sheaf_dataset *d = named(text_at(c, "dataset"));
        if (!d)
            continue;
        if (sheaf__batch_size_of(d) != number_at(c, "batch_size", 0))
            fail_msg("%s: found %d", text_at(c, "dataset"), (int)sheaf__batch_size_of(d));
        sheaf_dataset_free(d);
        checked++;
    }
    assert_int_equal(checked, 25);
    json_decref(root);
}

/* R1.41, R1.42, T1.42. */
static void test_golden_static_sizes(void **state)
{
    (void)state;
    json_t *root = golden_load("rebatch.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "static_dim0"), i, c)
    {
        sheaf_dataset *d = NULL;
        if (json_is_integer(json_object_get(c, "dim0")))
            SHEAF_FRAME
        d = sheaf_dataset_from_tensors(sheaf_element_of(
            sheaf_tensor_new(SHEAF_FLOAT64, SHEAF_SHAPE(number_at(c, "dim0", 0), 3), NULL)));
        else d = batches(8, 4);
        int64_t sizes[64];
        if (strcmp(text_at(c, "op"), "legacy") == 0)
            d = sheaf__split_batch(d, number_at(c, "replicas", 0));
        else
            d = sheaf_dataset_rebatch(d, sizes, sizes_of(json_object_get(c, "sizes"), sizes),
                                      json_is_true(json_object_get(c, "drop_remainder")));
        const sheaf_element_spec *spec = sheaf_dataset_element_spec(d);
        assert_int_equal(sheaf_element_spec_at(spec, 0).shape.dims[0],
                         number_at(c, "result", SHEAF_UNKNOWN_DIM));
        sheaf_dataset_free(d);
    }
    json_decref(root);
}

/* R1.7, R1.18. */
static void test_refused(void **state)
{
    (void)state;
    assert_first_fails(sheaf_dataset_rebatch(batches(4, 2), NULL, 0, false),
                       SHEAF_ERR_INVALID_ARGUMENT, "the list of batch sizes is empty");
    assert_first_fails(sheaf_dataset_rebatch(batches(4, 2), NULL, 3, false),
                       SHEAF_ERR_INVALID_ARGUMENT, "the list of 3 batch sizes is NULL");
    assert_first_fails(sheaf_dataset_rebatch(batches(4, 2), (const int64_t[]){2, -1}, 2, false),
                       SHEAF_ERR_INVALID_ARGUMENT, "batch size 1 is -1");
    assert_first_fails(
        sheaf_dataset_rebatch(sheaf_dataset_range(0, 4, 1), (const int64_t[]){2}, 1, false),
        SHEAF_ERR_INVALID_ARGUMENT, "is a scalar");
    assert_first_fails(sheaf__split_batch(sheaf_dataset_range(0, 4, 1), 2),
                       SHEAF_ERR_INVALID_ARGUMENT, "must be batched");
    assert_first_fails(sheaf__split_batch(batches(4, 2), 0), SHEAF_ERR_INVALID_ARGUMENT,
                       "the number of parts is 0");
}

/* The parts of a batch are views of it, by either rule; only a part over the end of a batch is new.
 */
static void test_parts_are_views(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        int64_t numbers[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        sheaf_tensor *t = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(10), numbers);
        const int64_t *base = sheaf_tensor_data(t);
        sheaf_dataset *batch =
            sheaf_dataset_repeat(sheaf_dataset_from_tensors(sheaf_element_of(t)), 2);
        sheaf_dataset *d =
            sheaf_dataset_prefetch(sheaf__split_batch(sheaf_dataset_ref(batch), 4), 4);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        const int64_t starts[] = {0, 3, 6, 9, 0, 3, 6, 9};
        sheaf_element *e;
        for (int i = 0; i < 8; i++) {
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            assert_ptr_equal(sheaf_tensor_data(sheaf_element_at(e, 0)), base + starts[i]);
        }
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
        d = sheaf_dataset_prefetch(sheaf_dataset_rebatch(batch, (const int64_t[]){4, 3}, 2, false),
                                   4);
        it = sheaf_dataset_iterate(d);
        const int64_t balanced[] = {0, 4, -1, 1, 4, 8};
        for (int i = 0; i < 6; i++) {
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            if (balanced[i] >= 0)
                assert_ptr_equal(sheaf_tensor_data(sheaf_element_at(e, 0)), base + balanced[i]);
        }
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

/* Batches of features of any length: rows of sparse and ragged components, over the ends of batches.
 */
static json_t *values_json(const sheaf_element *e)
{
    const sheaf_tensor *sparse = sheaf_element_get(e, "s"), *ragged = sheaf_element_get(e, "r");
    return json_pack("[o, o, o, o, o]", tensor_json(sparse->parts[SHEAF__INDICES]),
                     tensor_json(sparse->parts[SHEAF__VALUES]), shape_json(sparse->shape),
                     tensor_json(ragged->parts[SHEAF__RAGGED_VALUES]),
                     tensor_json(ragged->parts[SHEAF__ROW_SPLITS]));
}

static sheaf_dataset *var_features(void)
{
    static const sheaf_feature features[] = {
        {.key = "a", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_VAR, .name = "s"},
        {.key = "b", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_RAGGED, .name = "r"},
    };
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    {
        sheaf_bytes messages[5];
        sheaf_example *x[5];
        sheaf_error err = {0};
        for (int i = 0; i < 5; i++) {
            const int64_t values[] = {10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3};
            x[i] = sheaf_example_new();
            sheaf_example_int64(x[i], "a", values, (size_t)i % 3);
            sheaf_example_int64(x[i], "b", values, (size_t)(4 - i));
            rig_ok(sheaf_example_serialize(x[i], &messages[i], &err), &err);
        }
        d = sheaf_dataset_from_slices(
            sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(5), messages)));
        for (int i = 0; i < 5; i++)
            sheaf_example_free(x[i]);
    }
    return sheaf_dataset_parse_example(sheaf_dataset_batch(d, 3, NULL), features, 2);
}

static void test_sparse_and_ragged(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_rebatch(var_features(), (const int64_t[]){2}, 1, false);
    json_t *expected = literal("[[[[1, 0]], [10], [2, 2], [0, 1, 2, 3, 10, 11, 12], [0, 4, 7]],"
                               " [[[0, 0], [0, 1]], [20, 21], [2, 2], [20, 21, 30], [0, 2, 3]],"
                               " [[[0, 0]], [40], [1, 1], [], [0, 0]]]");
    assert_json(elements_by(d, values_json), expected, "balanced");
    json_decref(expected);
    sheaf_dataset_free(d);
    d = sheaf__split_batch(var_features(), 2);
    expected = literal("[[[[1, 0]], [10], [2, 2], [0, 1, 2, 3, 10, 11, 12], [0, 4, 7]],"
                       " [[[0, 0], [0, 1]], [20, 21], [1, 2], [20, 21], [0, 2]],"
                       " [[], [], [1, 1], [30], [0, 1]],"
                       " [[[0, 0]], [40], [1, 1], [], [0, 0]]]");
    assert_json(elements_by(d, values_json), expected, "legacy");
    json_decref(expected);
    sheaf_dataset_free(d);
}

/* Worker `worker`'s part of `d`, which is used up; sheaf__split_free(). */
static struct sheaf__split_dataset split_of(sheaf_dataset *d, int workers, int worker, int replicas)
{
    const struct sheaf__split split = {.workers = workers, .worker = worker, .replicas = replicas};
    struct sheaf__split_dataset out;
    sheaf_error err = {0};
    rig_ok(sheaf__split_make(d, &split, &out, &err), &err);
    sheaf_dataset_free(d);
    rig_log_take();
    return out;
}

/* T27: every element once, the replicas' sizes add up to the batch. */
static void test_T27_parts_add_up(void **state)
{
    (void)state;
    struct sheaf__split_dataset out = split_of(batches(10, 3), 1, 0, 2);
    json_t *parts = elements(out.dataset), *part, *number;
    size_t i, k;
    int64_t next = 0;
    assert_int_equal(json_array_size(parts), 2 * 4);
    json_array_foreach(parts, i, part)
    {
        size_t step = json_array_size(json_array_get(parts, i & ~1u)) +
                      json_array_size(json_array_get(parts, i | 1u));
        assert_int_equal(step, i < 6 ? 3 : 1);
        json_array_foreach(part, k, number) assert_int_equal(json_integer_value(number), next++);
    }
    assert_int_equal(next, 10);
    json_decref(parts);
    sheaf__split_free(&out);
}

static sheaf_status expect_twelve(const sheaf_element *in, sheaf_element *out, void *user)
{
    const sheaf_shape shape = sheaf_tensor_shape(sheaf_element_get(in, NULL));
    int *calls = user;
    ++*calls;
    if (shape.rank != 1 || shape.dims[0] != 12)
        return SHEAF_ERR_INTERNAL;
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}

/* T27: a map behind a batch that drops its remainder sees whole global batches, in its type, too; the
 * replicas get a quarter each. */
static void test_T27_shape_seen_by_a_map(void **state)
{
    (void)state;
    int calls = 0;
    const sheaf_batch_options drop = {.drop_remainder = true};
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 30, 1), 12, &drop);
    const sheaf_map_options o = {.spec = sheaf_dataset_element_spec(d)};
    assert_int_equal(sheaf_element_spec_at(o.spec, 0).shape.dims[0], 12);
    struct sheaf__split_dataset out =
        split_of(sheaf_dataset_map(d, expect_twelve, &calls, &o), 1, 0, 4);
    assert_int_equal(out.batch_size, 12);
    assert_elements(out.dataset, "[[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14], "
                                 "[15, 16, 17], [18, 19, 20], [21, 22, 23]]");
    assert_int_equal(calls, 2);
    sheaf__split_free(&out);
}

static sheaf_dataset *open_one(const sheaf_element *in, void *user)
{
    const int64_t x = sheaf_tensor_integer(sheaf_element_at(in, 0), 0);
    (void)user;
    return sheaf_dataset_range(x, x + 1, 1);
}

/* R1.15, R1.16: of elements whose type nobody declared empty batches are like the last one that came. */
static void test_empty_batches_of_an_unknown_type(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 1, 0, 0};
    sheaf_dataset *d = sheaf_dataset_flat_map(sheaf_dataset_range(0, 4, 1), open_one, NULL);
    assert_null(sheaf_dataset_element_spec(d));
    d = sheaf_dataset_rebatch(sheaf_dataset_batch(d, 2, NULL), sizes, 4, false);
    assert_gives(d, "[[0], [1], [], [], [2], [3], [], []]");
}

/* T28: nothing is dropped, and the shards add up to the input. */
static void test_T28_shards_add_up(void **state)
{
    (void)state;
    static const struct {
        int64_t elements, shards, sizes[8];
    } cases[] = {{50000, 8, {6250, 6250, 6250, 6250, 6250, 6250, 6250, 6250}},
                 {10, 3, {4, 3, 3}},
                 {2, 3, {1, 1, 0}}};
    for (size_t c = 0; c < 3; c++) {
        int64_t sum = 0;
        for (int64_t w = 0; w < cases[c].shards; w++) {
            sheaf_dataset *d = sheaf_dataset_range(0, cases[c].elements, 1);
            d = sheaf_dataset_shard(d, cases[c].shards, w);
            assert_int_equal(sheaf_dataset_cardinality(d), cases[c].sizes[w]);
            d = sheaf_dataset_batch(d, 1000, NULL);
            json_t *list = elements(d), *batch;
            size_t i, k;
            int64_t count = 0;
            json_t *number;
            json_array_foreach(list, i, batch) json_array_foreach(batch, k, number)
            {
                assert_int_equal(json_integer_value(number) % cases[c].shards, w);
                count++;
            }
            assert_int_equal(count, cases[c].sizes[w]);
            sum += count;
            json_decref(list);
            sheaf_dataset_free(d);
        }
        assert_int_equal(sum, cases[c].elements);
    }
}

/* R1.17. */
static void test_unlike_rows(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_tensor *three = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3), NULL);
        sheaf_tensor *two = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2), NULL);
        sheaf_dataset *d = sheaf_dataset_from_tensors(sheaf_element_tuple(three, two, NULL));
        assert_first_fails(sheaf_dataset_rebatch(d, (const int64_t[]){1}, 1, false),
                           SHEAF_ERR_INVALID_ARGUMENT, "different first sizes: 3 and 2");
        /* Each by its own rows (R1.20). */
        d = sheaf_dataset_from_tensors(sheaf_element_tuple(three, two, NULL));
        assert_gives(sheaf__split_batch(d, 2), "[[[0, 0], [0]], [[0], [0]]]");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_golden_batch_sizes),
        rig_test(test_golden_balanced),
        rig_test(test_golden_legacy),
        rig_test(test_golden_empty_parts),
        rig_test(test_golden_batches_without_rows),
        rig_test(test_golden_inferred_sizes),
        rig_test(test_golden_static_sizes),
        rig_test(test_refused),
        rig_test(test_parts_are_views),
        rig_test(test_sparse_and_ragged),
        rig_test(test_T27_parts_add_up),
        rig_test(test_T27_shape_seen_by_a_map),
        rig_test(test_empty_batches_of_an_unknown_type),
        rig_test(test_T28_shards_add_up),
        rig_test(test_unlike_rows),
    };
    return rig_run(tests);
}
