/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "format/features.h"
#include "tensor/tensor.h"

/* parse_example as a stage, and what batching makes of its sparse and ragged tensors. */

/* ---- elements as the goldens write them ---- */

static json_t *any_json(const sheaf_tensor *t);

/* The rows of a ragged tensor as lists. */
static json_t *ragged_json(const sheaf_tensor *t)
{
    json_t *list = json_array(), *values = any_json(t->parts[SHEAF__RAGGED_VALUES]);
    const sheaf_tensor *splits = t->parts[SHEAF__ROW_SPLITS];
    for (int64_t i = 0; i + 1 < sheaf_tensor_elements(splits); i++) {
        json_t *row = json_array();
        for (int64_t k = sheaf_tensor_integer(splits, i); k < sheaf_tensor_integer(splits, i + 1);
             k++)
            json_array_append(row, json_array_get(values, (size_t)k));
        json_array_append_new(list, row);
    }
    json_decref(values);
    return list;
}

static json_t *any_json(const sheaf_tensor *t)
{
    if (t->layout == SHEAF__RAGGED)
        return ragged_json(t);
    if (t->layout != SHEAF__SPARSE)
        return tensor_json(t);
    return json_pack("{s:o, s:o, s:o}", "indices", tensor_json(t->parts[SHEAF__INDICES]), "values",
                     tensor_json(t->parts[SHEAF__VALUES]), "dense_shape", shape_json(t->shape));
}

static json_t *dict_json(const sheaf_element *e)
{
    json_t *dict = json_object();
    for (size_t i = 0; i < sheaf_element_size(e); i++)
        json_object_set_new(dict, sheaf_element_name(e, i), any_json(sheaf_element_at(e, i)));
    return dict;
}

static void assert_dicts(sheaf_dataset *d, const json_t *output, const char *name)
{
    json_t *found = elements_by(d, dict_json), *value;
    size_t i;
    const char *key;
    assert_int_equal(json_array_size(found), json_array_size(output));
    json_array_foreach(found, i, value)
    {
        const json_t *right = json_array_get(output, i);
        json_t *part;
        assert_int_equal(json_object_size(value), json_object_size(right));
        json_object_foreach(value, key, part)
        {
            const json_t *want = json_object_get(right, key);
            if (!json_is_object(part)) {
                assert_json(json_incref(part), want, name);
                continue;
            }
            assert_json(json_incref(json_object_get(part, "values")),
                        json_object_get(want, "values"), name);
            assert_json(json_incref(json_object_get(part, "indices")),
                        json_object_get(want, "indices"), name);
            assert_json(json_incref(json_object_get(part, "dense_shape")),
                        json_object_get(want, "dense_shape"), name);
        }
    }
    json_decref(found);
}

/* ---- goldens ---- */

/* The records of a case, one an element, or one batch. */
static sheaf_dataset *records_of(const json_t *c, bool batched)
{
    static char bytes[16][512];
    sheaf_bytes strings[16];
    const json_t *hex = json_object_get(c, "records_hex");
    size_t count = json_array_size(hex);
    for (size_t i = 0; i < count; i++) {
        json_t *v = json_pack("{s:O}", "hex", json_array_get(hex, i));
        strings[i] = (sheaf_bytes){bytes[i], golden_bytes(v, bytes[i])};
        json_decref(v);
    }
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE((int64_t)count), strings)));
    return batched ? sheaf_dataset_batch(d, (int64_t)count, NULL) : d;
}

/* What TensorFlow takes for an empty message is none, and a default for several values is given in
 * full here. */
static bool is_ours(const json_t *c)
{
    return strcmp(text_at(c, "name"), "not an Example") != 0 &&
           strcmp(text_at(c, "name"), "missing, broadcast default") != 0;
}

/* T34: an empty list has no value, so the default is it. TensorFlow wants the key to be missing. */
static void assert_default(sheaf_dataset *d, bool batched)
{
    assert_gives(sheaf_dataset_ref(d), batched ? "[[3]]" : "[3]");
}

/* T34 and all else of tests/golden/example/parse_example.json: a batch an element, or one record; pulled
 * singly and in blocks. */
static void test_T34_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("../example/parse_example.json"), *c;
    size_t i, checked = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        struct features f;
        bool batched = json_is_true(json_object_get(c, "batched"));
        if (!is_ours(c))
            continue;
        assert_true(set_features(&f, json_object_get(c, "features")));
        sheaf_dataset *d = sheaf_dataset_parse_example(records_of(c, batched), f.list, f.count);
        for (int ahead = 0; ahead < 17; ahead += 16) {
            sheaf_dataset *pulled = sheaf_dataset_prefetch(sheaf_dataset_ref(d), ahead);
            if (strcmp(text_at(c, "name"), "empty list") == 0) {
                assert_default(pulled, batched);
            } else if (json_object_get(c, "output")) {
                assert_dicts(pulled, json_object_get(c, "output"), text_at(c, "name"));
            } else { /* of several records only some may be bad */
                json_t *found = elements_by(pulled, dict_json), *value;
                size_t k, bad = 0;
                json_array_foreach(found, k, value) bad += json_object_get(value, "status") != NULL;
                if (bad == 0)
                    fail_msg("%s: no error", text_at(c, "name"));
                json_decref(found);
            }
            sheaf_dataset_free(pulled);
        }
        sheaf_dataset_free(d);
        free_features(&f);
        checked++;
    }
    assert_int_equal(checked, 68);
    json_decref(root);
}

/* ---- batching ---- */

/* Records with 0 to 4 numbers in "n" and as many words in "w", and their number in "id". */
static sheaf_dataset *made_records(int count)
{
    sheaf_bytes strings[64], words[4] = {{"a", 1}, {"bc", 2}, {"", 0}, {"d\0", 2}};
    sheaf_example *x = sheaf_example_new();
    sheaf_error err;
    for (int64_t i = 0; i < count; i++) {
        const int64_t numbers[4] = {10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3};
        sheaf_bytes message;
        sheaf_example_clear(x);
        sheaf_example_int64(x, "id", &i, 1);
        sheaf_example_int64(x, "n", numbers, (size_t)(i * 7 % 5));
        sheaf_example_bytes(x, "w", words, (size_t)(i * 7 % 5));
        rig_ok(sheaf_example_serialize(x, &message, &err), &err);
        char *copy = malloc(message.size);
        memcpy(copy, message.data, message.size);
        strings[i] = (sheaf_bytes){copy, message.size};
    }
    sheaf_example_free(x);
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(count), strings)));
    for (int i = 0; i < count; i++)
        free((void *)(uintptr_t)strings[i].data);
    return d;
}

static sheaf_dataset *parsed(sheaf_dataset *d, sheaf_feature_kind kind)
{
    const sheaf_feature features[] = {{.key = "id", .dtype = SHEAF_INT64},
                                      {.key = "n", .dtype = SHEAF_INT64, .kind = kind},
                                      {.key = "w", .dtype = SHEAF_STRING, .kind = kind}};
    return sheaf_dataset_parse_example(d, features, 3);
}

static void assert_alike(sheaf_dataset *a, sheaf_dataset *b)
{
    json_t *right = elements_by(a, dict_json);
    assert_true(json_array_size(right) > 0);
    json_t *found = elements_by(b, dict_json);
    assert_true(json_equal(found, right));
    json_decref(found);
    json_decref(right);
    sheaf_dataset_free(a);
    sheaf_dataset_free(b);
}

/* A batch of parsed records is a parsed batch of records: sparse tensors get an axis in front. */
static void test_sparse_rows_are_batched(void **state)
{
    (void)state;
    sheaf_dataset *d = made_records(13);
    assert_alike(parsed(sheaf_dataset_batch(sheaf_dataset_ref(d), 5, NULL), SHEAF_FEATURE_VAR),
                 sheaf_dataset_batch(parsed(d, SHEAF_FEATURE_VAR), 5, NULL));
}

/* Batches of batches, of sparse and of ragged tensors, are the batches when they are taken apart. */
static void test_batches_of_batches(void **state)
{
    (void)state;
    for (int kind = SHEAF_FEATURE_VAR; kind <= SHEAF_FEATURE_RAGGED; kind++) {
        sheaf_dataset *d =
            parsed(sheaf_dataset_batch(made_records(12), 3, NULL), (sheaf_feature_kind)kind);
        sheaf_dataset *twice = sheaf_dataset_batch(sheaf_dataset_ref(d), 2, NULL);
        sheaf_iterator *it = sheaf_dataset_iterate(twice);
        sheaf_error err = {0};
        sheaf_element *e;
        SHEAF_FRAME
        {
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            const sheaf_tensor *n = sheaf_element_get(e, "n");
            assert_int_equal(n->shape.rank, 3);
            assert_int_equal(n->shape.dims[0], 2);
            if (kind == SHEAF_FEATURE_RAGGED) {
                json_t *right =
                    literal("[[[], [10, 11], [20, 21, 22, 23]], [[30], [40, 41, 42], []]]");
                assert_json(any_json(n), right, "ragged");
                json_decref(right);
            }
        }
        sheaf_iterator_free(it);
        if (kind == SHEAF_FEATURE_RAGGED)
            assert_alike(d, sheaf_dataset_unbatch(twice));
        else
            sheaf_dataset_free(twice), sheaf_dataset_free(d);
    }
}

/* The rows of a batch that was parsed are what single records give: ragged ones dense again, sparse
 * ones as wide as the widest of their batch. */
static void test_rows_of_parsed_batches(void **state)
{
    (void)state;
    sheaf_dataset *d = made_records(9);
    assert_alike(parsed(sheaf_dataset_ref(d), SHEAF_FEATURE_RAGGED),
                 sheaf_dataset_unbatch(parsed(sheaf_dataset_batch(sheaf_dataset_ref(d), 4, NULL),
                                              SHEAF_FEATURE_RAGGED)));
    sheaf_dataset *rows = sheaf_dataset_unbatch(
        parsed(sheaf_dataset_batch(sheaf_dataset_ref(d), 4, NULL), SHEAF_FEATURE_VAR));
    assert_alike(parsed(sheaf_dataset_batch(d, 9, NULL), SHEAF_FEATURE_VAR),
                 sheaf_dataset_batch(rows, 9, NULL));
}

/* Ragged tensors of single records are dense and of unlike sizes: they are batched with padding, and
 * not without. */
static void test_ragged_records_are_padded(void **state)
{
    (void)state;
    sheaf_dataset *d = parsed(made_records(3), SHEAF_FEATURE_RAGGED);
    assert_first_fails(sheaf_dataset_batch(sheaf_dataset_ref(d), 3, NULL),
                       SHEAF_ERR_INVALID_ARGUMENT,
                       "cannot batch tensors with different shapes in component \"n\"");
    assert_gives(
        sheaf_dataset_padded_batch(d, 3, NULL),
        "[[[0, 1, 2], [[0, 0, 0, 0], [10, 11, 0, 0], [20, 21, 22, 23]], [[\"\", \"\", \"\", "
        "\"\"], [\"a\", \"bc\", \"\", \"\"], [\"a\", \"bc\", \"\", \"hex:6400\"]]]]");
    assert_first_fails(
        sheaf_dataset_padded_batch(parsed(made_records(3), SHEAF_FEATURE_VAR), 3, NULL),
        SHEAF_ERR_INVALID_ARGUMENT, "cannot pad component 1 (\"n\"): it is not dense");
}

/* T34: the key, the record in its file, what was found and what was expected. */
static void test_T34_errors_name_key_and_record(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_record_writer *w;
    sheaf_example *x = sheaf_example_new();
    rig_ok(sheaf_record_writer_open(rig_path("r"), SHEAF_COMPRESSION_NONE, &w, &err), &err);
    for (int i = 0; i < 3; i++) {
        sheaf_bytes message;
        sheaf_example_clear(x);
        if (i == 1)
            sheaf_example_float(x, "n", &(const float){1}, 1);
        else
            sheaf_example_int64(x, "n", &(const int64_t){i}, 1);
        rig_ok(sheaf_example_serialize(x, &message, &err), &err);
        rig_ok(sheaf_record_writer_put(w, message, &err), &err);
    }
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    sheaf_example_free(x);
    const sheaf_feature n = {.key = "n", .dtype = SHEAF_INT64};
    sheaf_dataset *d = sheaf_dataset_parse_example(sheaf_tfrecord(rig_path("r")), &n, 1);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "key \"n\" of example 0 has float values, expected int64");
    assert_string_equal(err.file, rig_path("r"));
    assert_int_equal(err.record, 1);
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    assert_int_equal(sheaf_tensor_integer(sheaf_element_get(e, "n"), 0), 2);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    sheaf_frame_clear();
}

/* Records {"n": [i]}, from `first` on without a byte; the offset of that one. */
static int64_t write_with_empty(const char *path, int count, int first)
{
    sheaf_error err = {0};
    sheaf_record_writer *w;
    sheaf_example *x = sheaf_example_new();
    int64_t offset = 0;
    rig_ok(sheaf_record_writer_open(path, SHEAF_COMPRESSION_NONE, &w, &err), &err);
    for (int i = 0; i < count; i++) {
        sheaf_bytes message = {0};
        sheaf_example_clear(x);
        sheaf_example_int64(x, "n", &(const int64_t){i}, 1);
        if (i < first)
            rig_ok(sheaf_example_serialize(x, &message, &err), &err);
        rig_ok(sheaf_record_writer_put(w, message, &err), &err);
        offset += i < first ? 16 + (int64_t)message.size : 0;
    }
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    sheaf_example_free(x);
    return offset;
}

/* T34: a record of no bytes is a malformed Example where the key has no default; it is named as any
 * other, by itself and in a batch, whoever read it, at the beginning of a file or behind others. */
static void test_T34_empty_record_is_named(void **state)
{
    (void)state;
    const sheaf_feature n = {.key = "n", .dtype = SHEAF_INT64};
    const sheaf_interleave_options tuned = {.parallel = SHEAF_AUTOTUNE};
    for (int first = 0; first < 4; first++)
        for (int way = 0; way < 3; way++) {
            sheaf_error err = {0};
            sheaf_element *e;
            const int64_t offset = write_with_empty(rig_path("r"), 4, first);
            sheaf_dataset *d = sheaf_list_files(rig_path("r"), NULL);
            if (way == 2)
                d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &tuned);
            else
                d = sheaf_dataset_flat_map(d, sheaf_open_tfrecord, NULL);
            d = way ? sheaf_dataset_batch(d, 4, NULL) : sheaf_dataset_skip(d, first);
            d = sheaf_dataset_parse_example(d, &n, 1);
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                      "key \"n\"");
            assert_string_equal(err.file, rig_path("r"));
            assert_int_equal(err.record, first);
            assert_int_equal(err.offset, offset);
            sheaf_iterator_free(it);
            sheaf_dataset_free(d);
            sheaf_frame_clear();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_T34_golden),
        rig_test(test_sparse_rows_are_batched),
        rig_test(test_batches_of_batches),
        rig_test(test_rows_of_parsed_batches),
        rig_test(test_ragged_records_are_padded),
        rig_test(test_T34_errors_name_key_and_record),
        rig_test(test_T34_empty_record_is_named),
    };
    return rig_run(tests);
}
