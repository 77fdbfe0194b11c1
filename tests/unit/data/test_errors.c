/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

/* Bad files and records in a pipeline: what is said, and where it goes on. */

/* Writes records "0", "1", … as Examples {x: i, y: [i, i + 0.5]}; record `odd` has x as text. */
static const char *write_examples(const char *name, int from, int count, int odd)
{
    const char *path = rig_path(name);
    sheaf_record_writer *w;
    sheaf_error err = {0};
    rig_ok(sheaf_record_writer_open(path, SHEAF_COMPRESSION_NONE, &w, &err), &err);
    sheaf_example *x = sheaf_example_new();
    for (int i = from; i < from + count; i++) {
        const int64_t value = i;
        const float pair[] = {(float)i, (float)i + 0.5f};
        const sheaf_bytes text = {"seven", 5};
        sheaf_bytes message;
        sheaf_example_clear(x);
        if (i == odd)
            sheaf_example_bytes(x, "x", &text, 1);
        else
            sheaf_example_int64(x, "x", &value, 1);
        sheaf_example_float(x, "y", pair, 2);
        rig_ok(sheaf_example_serialize(x, &message, &err), &err);
        rig_ok(sheaf_record_writer_put(w, message, &err), &err);
    }
    sheaf_example_free(x);
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    return path;
}

static void flip(const char *path, long offset)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, offset, offset < 0 ? SEEK_END : SEEK_SET);
    int c = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 1, f);
    fclose(f);
}

static const sheaf_feature features[] = {
    {.key = "x", .dtype = SHEAF_INT64},
    {.key = "y", .dtype = SHEAF_FLOAT32, .rank = 1, .dims = {2}}};

static json_t *x_json(const sheaf_element *e)
{
    return tensor_json(sheaf_element_get(e, "x"));
}

static void assert_xs(sheaf_dataset *d, const char *text)
{
    json_t *expected = literal(text);
    assert_json(elements_by(d, x_json), expected, "x");
    json_decref(expected);
    sheaf_dataset_free(d);
}

static int64_t file_size(const char *path)
{
    struct sheaf__file_stat info;
    sheaf_error err = {0};
    rig_ok(sheaf__file_stat(path, &info, &err), &err);
    return (int64_t)info.size;
}

/* Bytes of the first `n` records. */
static int64_t file_size_before(const char *path, int n)
{
    sheaf_record_reader *r;
    sheaf_error err = {0};
    sheaf_bytes record;
    uint64_t offset = 0;
    rig_ok(sheaf_record_reader_open(path, SHEAF_COMPRESSION_AUTO, &r, &err), &err);
    for (int i = 0; i < n; i++)
        rig_ok(sheaf_record_reader_next(r, &record, &err), &err);
    sheaf_record_reader_position(r, &offset);
    sheaf_record_reader_free(r);
    return (int64_t)offset;
}

/* T29: a flipped byte in the data of record 2 of the second file. The message says which file,
 * record, offset and checksum; all other records arrive. */
static void test_corrupt_record(void **state)
{
    (void)state;
    const char *paths[] = {write_examples("a", 0, 4, -1), write_examples("b", 4, 4, -1)};
    int64_t each = file_size(paths[1]) / 4;
    flip(paths[1], (long)(2 * each + 14));
    sheaf_dataset *d = sheaf_dataset_parse_example(sheaf_tfrecord_files(paths, 2), features, 2);
    assert_xs(sheaf_dataset_ref(d), "[0, 1, 2, 3, 4, 5, {\"status\": \"DataLoss\"}, 7]");
    /* A batch loses what it had read of itself (R9.15). */
    assert_xs(sheaf_dataset_batch(sheaf_dataset_ref(d), 4, NULL),
              "[[0, 1, 2, 3], {\"status\": \"DataLoss\"}, [7]]");
    assert_xs(sheaf_dataset_prefetch(sheaf_dataset_batch(sheaf_dataset_ref(d), 3, NULL), 2),
              "[[0, 1, 2], [3, 4, 5], {\"status\": \"DataLoss\"}, [7]]");
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    for (int i = 0; i < 6; i++)
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_DATA_LOSS, "stage 1 (tfrecord): ");
    assert_string_equal(sheaf__path_name(err.file), "b");
    assert_int_equal(err.record, 2);
    assert_int_equal(err.offset, 2 * each);
    assert_non_null(strstr(err.message, "CRC"));
    assert_non_null(strstr(err.message, "data"));
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* T30: what cannot be read on ends its file; the next file follows. */
static void test_bad_length_and_truncation(void **state)
{
    (void)state;
    const char *paths[] = {write_examples("a", 0, 4, -1), write_examples("b", 4, 4, -1)};
    int64_t each = file_size(paths[0]) / 4;
    flip(paths[0], (long)(2 * each));
    sheaf_dataset *d = sheaf_dataset_parse_example(sheaf_tfrecord_files(paths, 2), features, 2);
    assert_xs(sheaf_dataset_ref(d), "[0, 1, {\"status\": \"DataLoss\"}, 4, 5, 6, 7]");
    flip(paths[0], (long)(2 * each));
    sheaf_error err = {0};
    struct sheaf__file *f;
    rig_ok(sheaf__file_open(paths[0], SHEAF__FILE_UPDATE, &f, &err), &err);
    rig_ok(sheaf__file_truncate(f, (uint64_t)(4 * each - 5), &err), &err);
    rig_ok(sheaf__file_close(f, &err), &err);
    assert_xs(sheaf_dataset_ref(d), "[0, 1, 2, {\"status\": \"DataLoss\"}, 4, 5, 6, 7]");
    sheaf_dataset_free(d);
}

/* A missing file is named at its turn; the next file follows. */
static void test_missing_file(void **state)
{
    (void)state;
    const char *paths[] = {write_examples("a", 0, 2, -1), rig_path("none"),
                           write_examples("b", 2, 2, -1)};
    sheaf_dataset *d = sheaf_dataset_parse_example(sheaf_tfrecord_files(paths, 3), features, 2);
    assert_xs(d, "[0, 1, {\"status\": \"NotFound\"}, 2, 3]");
    sheaf_iterator *it;
    sheaf_error err = {0};
    sheaf_element *e;
    d = sheaf_tfrecord(rig_path("none"));
    it = sheaf_dataset_iterate(d);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_NOT_FOUND, "stage 1 (tfrecord): ");
    assert_string_equal(sheaf__path_name(err.file), "none");
    assert_int_equal(sheaf_iterator_next(it, &e, &err), SHEAF_END);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* T32: files without records are no error. */
static void test_empty_files(void **state)
{
    (void)state;
    const char *paths[] = {write_examples("e", 0, 0, -1), write_examples("a", 0, 2, -1),
                           write_examples("f", 0, 0, -1)};
    assert_xs(sheaf_dataset_parse_example(sheaf_tfrecord_files(paths, 3), features, 2), "[0, 1]");
    assert_gives(sheaf_tfrecord(paths[0]), "[]");
}

/* A feature of another type: key and stage; single examples and batches go on behind it. */
static void test_wrong_feature(void **state)
{
    (void)state;
    const char *path = write_examples("a", 0, 6, 3);
    sheaf_dataset *d = sheaf_dataset_parse_example(sheaf_tfrecord(path), features, 2);
    assert_xs(sheaf_dataset_ref(d), "[0, 1, 2, {\"status\": \"InvalidArgument\"}, 4, 5]");
    assert_xs(sheaf_dataset_batch(d, 2, NULL),
              "[[0, 1], {\"status\": \"InvalidArgument\"}, [4, 5]]");
    d = sheaf_dataset_batch(sheaf_tfrecord(path), 2, NULL);
    d = sheaf_dataset_parse_example(d, features, 2);
    assert_xs(sheaf_dataset_ref(d), "[[0, 1], {\"status\": \"InvalidArgument\"}, [4, 5]]");
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "stage 3 (parse_example): ");
    assert_non_null(strstr(err.message, "\"x\""));
    assert_non_null(strstr(err.message, "int64"));
    assert_string_equal(err.file, path);
    assert_int_equal(err.record, 3);
    assert_int_equal(err.offset, file_size_before(path, 3));
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static void test_not_examples(void **state)
{
    (void)state;
    assert_first_fails(sheaf_dataset_parse_example(sheaf_dataset_range(0, 2, 1), features, 2),
                       SHEAF_ERR_INVALID_ARGUMENT, "stage 2 (parse_example): the input is no");
    sheaf_dataset *nothing = sheaf_dataset_from_tensors(sheaf_element_new());
    assert_first_fails(sheaf_dataset_parse_example(nothing, features, 2),
                       SHEAF_ERR_INVALID_ARGUMENT, "stage 2 (parse_example): the input is no");
    const sheaf_feature twice[] = {features[0], features[0]};
    assert_first_fails(sheaf_dataset_parse_example(sheaf_tfrecord("x"), twice, 2),
                       SHEAF_ERR_INVALID_ARGUMENT, "stage 2 (parse_example): ");
}

/* Parsed in any form, the values are the same: rows that come in blocks, one by one, in batches. */
static void test_forms_of_parsing_agree(void **state)
{
    (void)state;
    const char *path = write_examples("a", 0, 50, -1);
    const sheaf_shuffle_options o = {.seed = 3};
    sheaf_dataset *records = sheaf_dataset_shuffle(sheaf_tfrecord(path), 20, &o);
    sheaf_dataset *forms[] = {
        sheaf_dataset_parse_example(sheaf_dataset_ref(records), features, 2),
        sheaf_dataset_unbatch(sheaf_dataset_batch(
            sheaf_dataset_parse_example(sheaf_dataset_ref(records), features, 2), 7, NULL)),
        sheaf_dataset_unbatch(sheaf_dataset_parse_example(
            sheaf_dataset_batch(sheaf_dataset_ref(records), 7, NULL), features, 2)),
    };
    sheaf_dataset_free(records);
    /* The shuffle is one node: all take new seeds from it in turn, so sets are compared. */
    for (int i = 0; i < 3; i++) {
        json_t *found = elements(forms[i]), *value;
        bool seen[50] = {false};
        size_t k;
        json_array_foreach(found, k, value)
        {
            int64_t x = json_integer_value(json_array_get(value, 0));
            const json_t *y = json_array_get(value, 1);
            seen[x] = true;
            assert_true(json_number_value(json_array_get(y, 0)) == (double)x);
            assert_true(json_number_value(json_array_get(y, 1)) == (double)x + 0.5);
        }
        assert_int_equal(json_array_size(found), 50);
        for (int x = 0; x < 50; x++)
            assert_true(seen[x]);
        json_decref(found);
        sheaf_dataset_free(forms[i]);
    }
}

/* What succeeds leaves the error of what failed before it; a loop begins without one. */
static void test_only_failures_write_the_error(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_dataset *d = sheaf_dataset_range(0, 2, 1);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_bytes position;
    sheaf_account account;
    sheaf_error_set(&err, SHEAF_ERR_ABORTED, "the step failed");
    rig_ok(sheaf_iterator_save(it, &position, &err), &err);
    rig_ok(sheaf_iterator_account(it, &account, &err), &err);
    rig_ok(sheaf_tensor_status(sheaf_float(1), &err), &err);
    assert_int_equal(err.status, SHEAF_ERR_ABORTED);
    assert_string_equal(err.message, "the step failed");
    int rounds = 0;
    sheaf_element *e;
    SHEAF_EACH_ELEMENT(e, it, &err)
    {
        rounds++;
    }
    assert_int_equal(rounds, 2);
    assert_int_equal(err.status, SHEAF_OK);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_corrupt_record),         rig_test(test_bad_length_and_truncation),
        rig_test(test_missing_file),           rig_test(test_empty_files),
        rig_test(test_wrong_feature),          rig_test(test_not_examples),
        rig_test(test_forms_of_parsing_agree), rig_test(test_only_failures_write_the_error),
    };
    return rig_run(tests);
}
