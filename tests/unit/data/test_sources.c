/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <sheaf/npy.h>
#include <sheaf/ops.h>

/* Sources: text lines, records of one size, arrays in memory and in NumPy's files. */

/* ---- text lines (R9.34) ---- */

static void test_S216_text_lines_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("files.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "text"), i, c)
    {
        char name[64];
        snprintf(name, sizeof(name), "input/%s", text_at(c, "file"));
        sheaf_dataset *d = sheaf_text_lines(rig_golden(name), NULL);
        assert_int_equal(sheaf_dataset_cardinality(d), SHEAF_UNKNOWN);
        assert_int_equal(sheaf_element_spec_at(sheaf_dataset_element_spec(d), 0).dtype,
                         SHEAF_STRING);
        assert_json(elements(d), json_object_get(c, "lines"), name);
        assert_json(elements(d), json_object_get(c, "lines"), name);
        d = sheaf_dataset_prefetch(d, 3);
        assert_json(elements(d), json_object_get(c, "lines"), name);
        sheaf_dataset_free(d);
    }
    assert_true(i >= 12);
    json_decref(root);
}

/* The names of the case as paths. */
static size_t paths_of(const json_t *c, const char *paths[8])
{
    const json_t *files = json_object_get(c, "files");
    for (size_t i = 0; i < json_array_size(files); i++) {
        char name[64];
        snprintf(name, sizeof(name), "input/text/%s.txt",
                 json_string_value(json_array_get(files, i)));
        paths[i] = rig_golden(name);
    }
    return json_array_size(files);
}

static sheaf_dataset *names_of(const char *const *paths, size_t count)
{
    sheaf_bytes names[8];
    sheaf_dataset *d = NULL;
    for (size_t i = 0; i < count; i++)
        names[i] = (sheaf_bytes){paths[i], strlen(paths[i])};
    SHEAF_FRAME
    d = sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE((int64_t)count), names)));
    return d;
}

/* TensorFlow's num_parallel_reads is an interleave. */
static void test_several_text_files_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("files.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "several_text_files"), i, c)
    {
        const char *paths[8];
        size_t count = paths_of(c, paths);
        const int reads = (int)number_at(c, "parallel_reads", 0);
        const sheaf_interleave_options o = {.cycle_length = reads, .parallel = reads};
        sheaf_dataset *d = reads ? sheaf_dataset_interleave(names_of(paths, count),
                                                            sheaf_open_text_lines, NULL, &o)
                                 : sheaf_text_lines_files(paths, count, NULL);
        if (json_object_get(c, "error"))
            assert_elements(d, "[\"a\", \"b\", {\"status\": \"NotFound\"}]");
        else
            assert_json(elements(d), json_object_get(c, "lines"), "several files");
        sheaf_dataset_free(d);
    }
    assert_true(i >= 5);
    json_decref(root);
}

/* ---- records of one size (R9.35) ---- */

static void test_fixed_records_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("files.json"), *c;
    const char *input = json_string_value(json_object_get(root, "fixed_length_input"));
    const char *path = rig_path("fixed");
    sheaf_error err = {0};
    size_t i;
    rig_ok(sheaf__file_replace(path, input, strlen(input), &err), &err);
    json_array_foreach(json_object_get(root, "fixed_length"), i, c)
    {
        const sheaf_fixed_records_options o = {.record_bytes = number_at(c, "record_bytes", 0),
                                               .header_bytes = number_at(c, "header_bytes", 0),
                                               .footer_bytes = number_at(c, "footer_bytes", 0)};
        sheaf_dataset *d = sheaf_fixed_records(path, &o);
        json_t *error = json_object_get(c, "error");
        /* A header larger than the file is an internal error of TensorFlow's. */
        if (error)
            assert_first_fails(d, SHEAF_ERR_INVALID_ARGUMENT, "stage 1 (fixed_records): ");
        else
            assert_json(elements(d), json_object_get(c, "records"), "fixed records");
        if (!error)
            sheaf_dataset_free(d);
    }
    assert_true(i >= 15);
    json_decref(root);
}

/* What is wrong with one file does not keep the others from being read. */
static void test_fixed_records_of_several_files(void **state)
{
    (void)state;
    static const char *const contents[] = {"abcd", "xyz", "", "ef"};
    const char *paths[4];
    sheaf_error err = {0};
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof(name), "f%d", i);
        paths[i] = rig_path(name);
        rig_ok(sheaf__file_replace(paths[i], contents[i], strlen(contents[i]), &err), &err);
    }
    const sheaf_fixed_records_options two = {.record_bytes = 2};
    assert_gives(sheaf_fixed_records_files(paths, 4, &two),
                 "[\"ab\", \"cd\", {\"status\": \"InvalidArgument\"}, \"ef\"]");
    sheaf_iterator *it = NULL;
    sheaf_element *e;
    sheaf_dataset *d = sheaf_dataset_flat_map(names_of(paths + 1, 1), sheaf_open_fixed_records,
                                              (void *)(uintptr_t)&two);
    it = sheaf_dataset_iterate(d);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "3 bytes between a header of 0 and a footer of 0, expected a multiple of 2");
    assert_string_equal(sheaf__path_name(err.file), "f1");
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* ---- arrays ---- */

static void count_release(void *data, void *user)
{
    (void)data;
    ++*(int *)user;
}

/* R9.24: the rows are where the program has them, and it hears when nobody reads them any more. */
static void test_S216_from_array(void **state)
{
    (void)state;
    static const float array[4][3] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}};
    int released = 0;
    sheaf_dataset *d =
        sheaf_dataset_from_array(SHEAF_FLOAT32, SHEAF_SHAPE(4, 3), array, count_release, &released);
    assert_int_equal(sheaf_dataset_cardinality(d), 4);
    assert_elements(d, "[[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]");
    sheaf_dataset *batches = sheaf_dataset_batch(sheaf_dataset_ref(d), 2, NULL);
    sheaf_iterator *rows = sheaf_dataset_iterate(d), *pairs = sheaf_dataset_iterate(batches);
    sheaf_element *kept = NULL;
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        sheaf_element *e;
        for (int i = 0; i < 2; i++) {
            rig_ok(sheaf_iterator_next(rows, &e, &err), &err);
            assert_ptr_equal(sheaf_tensor_data(sheaf_element_at(e, 0)), array[i]);
            rig_ok(sheaf_iterator_next(pairs, &e, &err), &err);
            assert_ptr_equal(sheaf_tensor_data(sheaf_element_at(e, 0)), array[2 * i]);
        }
        kept = sheaf_element_keep(e);
    }
    sheaf_iterator_free(rows);
    sheaf_iterator_free(pairs);
    sheaf_dataset_free(batches);
    sheaf_dataset_free(d);
    assert_int_equal(released, 0);
    sheaf_element_free(kept);
    assert_int_equal(released, 1);
    /* What cannot be is given back at once. */
    assert_first_fails(sheaf_dataset_from_array(SHEAF_FLOAT32, SHEAF_SHAPE(4, -1), array,
                                                count_release, &released),
                       SHEAF_ERR_INVALID_ARGUMENT, "stage 1 (from_array): ");
    assert_first_fails(sheaf_dataset_from_array(SHEAF_FLOAT32, SHEAF_SCALAR, array, NULL, NULL),
                       SHEAF_ERR_INVALID_ARGUMENT, "is a scalar: it has no rows");
    assert_int_equal(released, 2);
}

/* As numpy.load() and from_tensor_slices(). */
static void test_from_npy(void **state)
{
    (void)state;
    assert_gives(sheaf_dataset_from_npy(rig_golden("npy/fortran.npy")),
                 "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]");
    assert_gives(sheaf_dataset_from_npy(rig_golden("npy/big-endian.npy")), "[1.5, -2.0, 3.0]");
    assert_gives(sheaf_dataset_from_npy(rig_golden("npy/strings.npy")), "[\"a\", \"bcd\"]");
    assert_gives(sheaf_dataset_from_npy(rig_golden("npy/empty.npy")), "[]");
    sheaf_dataset *d = sheaf_dataset_from_npy(rig_golden("npy/v-int16.npy"));
    assert_int_equal(sheaf_dataset_cardinality(d), 2);
    assert_int_equal(sheaf_element_spec_at(sheaf_dataset_element_spec(d), 0).dtype, SHEAF_INT16);
    sheaf_dataset_free(d);
    assert_first_fails(sheaf_dataset_from_npy(rig_golden("npy/scalar.npy")),
                       SHEAF_ERR_INVALID_ARGUMENT, "stage 1 (from_npy): component 0");
    assert_first_fails(sheaf_dataset_from_npy(rig_golden("npy/bad-cut-data.npy")),
                       SHEAF_ERR_DATA_LOSS, "stage 1 (from_npy): the file has 7 bytes");
    assert_first_fails(sheaf_dataset_from_npy(rig_path("none.npy")), SHEAF_ERR_NOT_FOUND,
                       "stage 1 (from_npy): ");
}

/* Features and labels of two files: views of both, no byte copied. */
static void test_rows_of_two_npy_files(void **state)
{
    (void)state;
    sheaf_dataset *d = NULL;
    const void *first = NULL;
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        sheaf_tensor *x = sheaf_npy_load(rig_golden("npy/v-float32.npy"));
        sheaf_tensor *y = sheaf_tensor_rows(sheaf_npy_load(rig_golden("npy/big-endian.npy")), 0, 2);
        first = sheaf_tensor_data(x);
        d = sheaf_dataset_from_slices(sheaf_element_tuple(x, y, NULL));
    }
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    SHEAF_FRAME
    {
        sheaf_element *e;
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        assert_ptr_equal(sheaf_tensor_data(sheaf_element_at(e, 0)), first);
        assert_true(sheaf_tensor_number(sheaf_element_at(e, 1), 0) == 1.5);
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* ---- what holds for both ---- */

/* T32: empty files among others, and alone. */
static void test_empty_files(void **state)
{
    (void)state;
    const char *empty = rig_golden("input/text/empty.txt"), *one = rig_golden("input/text/one.txt");
    const char *paths[] = {empty, one, empty};
    const sheaf_fixed_records_options two = {.record_bytes = 2};
    assert_gives(sheaf_text_lines_files(paths, 3, NULL), "[\"a\"]");
    assert_gives(sheaf_text_lines(empty, NULL), "[]");
    assert_gives(sheaf_fixed_records_files(paths, 3, &two), "[\"a\\n\"]");
    assert_gives(sheaf_text_lines_files(NULL, 0, NULL), "[]");
}

static void test_misuse(void **state)
{
    (void)state;
    const char *path = rig_golden("input/text/one.txt");
    const sheaf_text_lines_options odd = {.compression = (sheaf_compression)9},
                                   newer = {.reserved = {0, 1}};
    const sheaf_fixed_records_options negative = {.record_bytes = 1, .footer_bytes = -2};
    assert_first_fails(sheaf_text_lines(path, &odd), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (text_lines): compression is 9");
    assert_first_fails(sheaf_text_lines(path, &newer), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (text_lines): the options say something");
    /* The stage that is named is the program's own. */
    const char *const second[] = {"a", NULL};
    assert_first_fails(sheaf_tfrecord(NULL), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (tfrecord): name 1 of 1 files is NULL");
    assert_first_fails(sheaf_tfrecord_files(second, 2), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (tfrecord): name 2 of 2 files is NULL");
    assert_first_fails(sheaf_text_lines(NULL, NULL), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (text_lines): ");
    assert_first_fails(sheaf_csv_files(NULL, 3, NULL), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (csv): the list of 3 names of files is NULL");
    assert_first_fails(sheaf_fixed_records(NULL, NULL), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (fixed_records): ");
    assert_first_fails(sheaf_fixed_records(path, NULL), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (fixed_records): record_bytes is 0, it must be greater than 0");
    assert_first_fails(sheaf_fixed_records(path, &negative), SHEAF_ERR_INVALID_ARGUMENT,
                       "footer_bytes is -2, it must not be negative");
    assert_first_fails(sheaf_open_text_lines(NULL, NULL), SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 1 (text_lines): the name of a file must be");
}

/* ---- every source ---- */

struct source {
    sheaf_dataset *(*make)(bool bad); /* of three elements, or one that is refused */
    const char *elements;
    sheaf_status refusal;
};

static sheaf_dataset *make_range(bool bad)
{
    return sheaf_dataset_range(5, 8, bad ? 0 : 1);
}
static sheaf_dataset *make_tensors(bool bad)
{
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_tensors(bad ? NULL : sheaf_element_of(sheaf_range(0, 3, 1)));
    return d;
}
static sheaf_dataset *make_slices(bool bad)
{
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_slices(sheaf_element_of(bad ? sheaf_long(1) : sheaf_range(7, 10, 1)));
    return d;
}
static json_t *generated; /* as long as its dataset */
static sheaf_dataset *make_generator(bool bad)
{
    return bad ? sheaf_dataset_from_generator(NULL, NULL) : dataset_of_lists(generated);
}
static sheaf_dataset *make_tfrecord(bool bad)
{
    return sheaf_tfrecord(bad ? rig_path("none") : rig_golden("tfrecord/two.tfrecord"));
}
static sheaf_dataset *make_text(bool bad)
{
    if (!bad)
        assert_true(sheaf__file_replace(rig_path("lines"), "x\ny\nz", 5, NULL) >= 0);
    return sheaf_text_lines(bad ? rig_path("none") : rig_path("lines"), NULL);
}
static sheaf_dataset *make_list(bool bad)
{
    const sheaf_list_files_options sorted = {.no_shuffle = true};
    return sheaf_list_files(bad ? rig_path("no*ne") : rig_golden("tfrecord/two.tfrecord"), &sorted);
}

/* S216: each source gives its elements, ends and stays at its end, starts again, and has its error */
static void test_S216_every_source(void **state)
{
    (void)state;
    static const struct source sources[] = {
        {make_range, "[5, 6, 7]", SHEAF_ERR_INVALID_ARGUMENT},
        {make_tensors, "[[0, 1, 2]]", SHEAF_ERR_INVALID_ARGUMENT},
        {make_slices, "[7, 8, 9]", SHEAF_ERR_INVALID_ARGUMENT},
        {make_generator, "[[1], [2, 3], []]", SHEAF_ERR_INVALID_ARGUMENT},
        {make_tfrecord, "[\"abc\", \"defg\"]", SHEAF_ERR_NOT_FOUND},
        {make_text, "[\"x\", \"y\", \"z\"]", SHEAF_ERR_NOT_FOUND},
        {make_list, NULL, SHEAF_ERR_INVALID_ARGUMENT},
    };
    generated = literal("[[1], [2, 3], []]");
    for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
        sheaf_dataset *d = sources[i].make(false);
        char name[600];
        snprintf(name, sizeof(name), "[\"%s\"]", rig_golden("tfrecord/two.tfrecord"));
        const char *expected = sources[i].elements ? sources[i].elements : name;
        for (int pass = 0; pass < 2; pass++)
            assert_elements(d, expected);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        json_decref(drain(it, element_json, 100));
        for (int again = 0; again < 3; again++) {
            sheaf_element *e;
            assert_int_equal(sheaf_iterator_next(it, &e, NULL), SHEAF_END);
        }
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
        assert_first_fails(sources[i].make(true), sources[i].refusal, "stage 1 (");
    }
    json_decref(generated);
    sheaf_frame_clear();
}

/* The system's files say that they have no bytes, and have some. */
static void test_files_of_unknown_size(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_take(sheaf_text_lines("/proc/self/limits", NULL), 1);
    json_t *lines = elements(d);
    assert_int_equal(json_array_size(lines), 1);
    assert_memory_equal(json_string_value(json_array_get(lines, 0)), "Limit ", 6);
    json_decref(lines);
    sheaf_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S216_every_source),
        rig_test(test_S216_text_lines_golden),
        rig_test(test_several_text_files_golden),
        rig_test(test_fixed_records_golden),
        rig_test(test_fixed_records_of_several_files),
        rig_test(test_S216_from_array),
        rig_test(test_from_npy),
        rig_test(test_rows_of_two_npy_files),
        rig_test(test_empty_files),
        rig_test(test_files_of_unknown_size),
        rig_test(test_misuse),
    };
    return rig_run(tests);
}
