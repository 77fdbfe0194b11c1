/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <sheaf/ops.h>

/* batch, padded_batch and unbatch against TensorFlow (R9.15, R9.26, R1.40). */

static json_t *shaped_json(const sheaf_element *e)
{
    const sheaf_tensor *t = sheaf_element_at(e, 0);
    return json_pack("{s:o, s:o}", "shape", shape_json(sheaf_tensor_shape(t)), "values",
                     tensor_json(t));
}

static sheaf_shape shape_of(const json_t *list)
{
    int64_t dims[SHEAF_MAX_RANK];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *dim = json_array_get(list, i);
        dims[i] = json_is_null(dim) ? SHEAF_UNKNOWN_DIM : json_integer_value(dim);
    }
    return sheaf_shape_of((int)json_array_size(list), dims);
}

/* As TensorFlow makes a tensor of a Python value: a number without a dtype is int32. */
static sheaf_element *pad_value(const json_t *value)
{
    if (!value)
        return NULL;
    if (json_is_string(value))
        return sheaf_element_of(sheaf_string(json_string_value(value)));
    if (json_is_real(value))
        return sheaf_element_of(sheaf_double(json_real_value(value)));
    return sheaf_element_of(sheaf_int((int32_t)json_integer_value(value)));
}

static sheaf_dataset *padded(const json_t *c, sheaf_dataset *d)
{
    SHEAF_FRAME
    {
        const json_t *list = json_object_get(c, "padded_shapes");
        const sheaf_shape shape = shape_of(list);
        const sheaf_padded_batch_options o = {
            .drop_remainder = json_is_true(json_object_get(c, "drop_remainder")),
            .shapes = list ? &shape : NULL,
            .shape_count = 1,
            .values = pad_value(json_object_get(c, "padding_values"))};
        d = sheaf_dataset_padded_batch(d, number_at(c, "size", 0), &o);
    }
    return d;
}

static sheaf_dataset *apply(const json_t *c, sheaf_dataset *d)
{
    if (strcmp(text_at(c, "op"), "padded_batch") == 0)
        return padded(c, d);
    const sheaf_batch_options o = {.drop_remainder =
                                       json_is_true(json_object_get(c, "drop_remainder"))};
    if (strcmp(text_at(c, "op"), "batch") == 0)
        return sheaf_dataset_batch(d, number_at(c, "size", 0), &o);
    if (strcmp(text_at(c, "op"), "unbatch") == 0)
        return sheaf_dataset_unbatch(d);
    return sheaf_dataset_unbatch(sheaf_dataset_batch(d, 1, NULL));
}

/* Errors are compared by their status alone. An element that is larger than the shape to pad to is
 * DataLoss in TensorFlow, but no stored bytes are wrong: InvalidArgument here (R9.26). */
static void adapt_errors(json_t *output)
{
    size_t i;
    json_t *value;
    json_array_foreach(output, i, value)
    {
        json_object_del(value, "text");
        if (strcmp(text_at(value, "status"), "DataLoss") == 0)
            json_object_set_new(value, "status", json_string("InvalidArgument"));
    }
}

/* What a fresh iteration gives, against the golden's output; uses up `d`. */
static void check_output(sheaf_dataset *d, json_t *output, const char *what)
{
    adapt_errors(output);
    json_t *found = elements_by(d, shaped_json), *value;
    size_t i;
    assert_int_equal(json_array_size(found), json_array_size(output));
    json_array_foreach(found, i, value)
    {
        const json_t *expected = json_array_get(output, i);
        if (json_object_get(expected, "status")) {
            assert_json(json_incref(value), expected, what);
            continue;
        }
        assert_json(json_incref(json_object_get(value, "shape")),
                    json_object_get(expected, "shape"), what);
        assert_json(json_incref(json_object_get(value, "values")),
                    json_object_get(expected, "values"), what);
    }
    json_decref(found);
    sheaf_dataset_free(d);
}

static void check(json_t *c)
{
    json_t *input = json_object_get(c, "input"), *output = json_object_get(c, "output");
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = json_is_array(json_array_get(input, 0))
            ? dataset_of_lists(input)
            : sheaf_dataset_from_slices(sheaf_element_of(int64_of(input)));
    d = apply(c, d);
    if (json_object_get(c, "error")) {
        assert_first_fails(d, SHEAF_ERR_INVALID_ARGUMENT, "");
        return;
    }
    const sheaf_element_spec *spec = sheaf_dataset_element_spec(d);
    assert_non_null(spec);
    assert_json(shape_json(sheaf_element_spec_at(spec, 0).shape),
                json_object_get(c, "element_spec"), "spec");
    check_output(d, output, text_at(c, "op"));
}

static void test_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("batch.json"), *c;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(root, "cases")), 88);
    json_array_foreach(json_object_get(root, "cases"), i, c) check(c);
    json_decref(root);
}

/* ---- padded_batch ---- */

/* A tensor of float64 or strings from nested lists of one or two axes. */
static sheaf_tensor *tensor_of(const json_t *list, bool strings)
{
    double numbers[16];
    sheaf_bytes texts[16];
    int64_t rows = (int64_t)json_array_size(list), width = 0, n = 0;
    for (int64_t i = 0; i < rows; i++) {
        const json_t *row = json_array_get(list, (size_t)i);
        width = (int64_t)json_array_size(row);
        for (size_t k = 0; k < json_array_size(row); k++)
            numbers[n++] = json_number_value(json_array_get(row, k));
        if (strings)
            texts[n++] = (sheaf_bytes){json_string_value(row), json_string_length(row)};
    }
    if (strings)
        return sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(rows), texts);
    return sheaf_tensor_new(SHEAF_FLOAT64, SHEAF_SHAPE(rows, width), numbers);
}

static sheaf_status tensors_next(void *state, sheaf_element *out, sheaf_error *err)
{
    struct lists *l = state;
    (void)err;
    if (l->at == json_array_size(json_object_get(l->rows, "input")))
        return SHEAF_END;
    const json_t *list = json_array_get(json_object_get(l->rows, "input"), l->at++);
    return sheaf_element_put(out, "", tensor_of(list, json_object_get(l->rows, "dtype") != NULL));
}

/* Two axes, strings, values to fill with. */
static void test_golden_more_padded(void **state)
{
    (void)state;
    json_t *root = golden_load("batch.json"), *c;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(root, "more_padded")), 5);
    json_array_foreach(json_object_get(root, "more_padded"), i, c)
    {
        const sheaf_generator g = {lists_start, tensors_next, free, c};
        sheaf_dataset *d = NULL;
        SHEAF_FRAME
        d = sheaf_dataset_from_generator(&g, json_object_get(c, "dtype")
                                                 ? spec_of(SHEAF_STRING, SHEAF_SHAPE(-1))
                                                 : spec_of(SHEAF_FLOAT64, SHEAF_SHAPE(-1, -1)));
        check_output(padded(c, d), json_object_get(c, "output"), "padded_batch");
    }
    json_decref(root);
}

static sheaf_status name_parts(const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_tensor *t = sheaf_element_get(in, NULL);
    (void)user;
    sheaf_status status = sheaf_element_put(out, "ids", t);
    return status < 0 ? status
                      : sheaf_element_put(out, "size", sheaf_long(sheaf_tensor_elements(t)));
}

/* Components have shapes and values of their own; the type of a map's result need not be known. */
static void test_padded_components(void **state)
{
    (void)state;
    json_t *rows = literal("[[1], [2, 3], []]");
    SHEAF_FRAME
    {
        sheaf_element *values = sheaf_element_new();
        assert_int_equal(sheaf_element_put(values, "ids", sheaf_long(-1)), SHEAF_OK);
        const sheaf_shape shapes[] = {SHEAF_SHAPE(3), SHEAF_SCALAR};
        const sheaf_padded_batch_options o = {.shapes = shapes, .shape_count = 2, .values = values};
        sheaf_dataset *d = sheaf_dataset_map(dataset_of_lists(rows), name_parts, NULL, NULL);
        assert_gives(sheaf_dataset_padded_batch(sheaf_dataset_ref(d), 2, &o),
                     "[[[[1, -1, -1], [2, 3, -1]], [1, 2]], [[[-1, -1, -1]], [0]]]");
        assert_gives(sheaf_dataset_padded_batch(sheaf_dataset_ref(d), 3, NULL),
                     "[[[[1, 0], [2, 3], [0, 0]], [1, 2, 0]]]");
        const sheaf_padded_batch_options one = {.shapes = shapes, .shape_count = 1};
        assert_first_fails(sheaf_dataset_padded_batch(d, 2, &one), SHEAF_ERR_INVALID_ARGUMENT,
                           "1 shapes to pad to for elements of 2 components");
    }
    json_decref(rows);
}

/* R9.26: what does not fit is named with its component, when the dataset is made or at its place. */
static void test_padded_misfits_are_named(void **state)
{
    (void)state;
    json_t *rows = literal("[[1, 2, 3]]");
    SHEAF_FRAME
    {
        const sheaf_shape two = SHEAF_SHAPE(2), matrix = SHEAF_SHAPE(2, 2);
        sheaf_padded_batch_options o = {.shapes = &two, .shape_count = 1};
        assert_first_fails(sheaf_dataset_padded_batch(dataset_of_lists(rows), 2, &o),
                           SHEAF_ERR_INVALID_ARGUMENT,
                           "cannot pad component 0 (\"\"): an element of shape (3,) does not fit "
                           "into (2,)");
        o.shapes = &matrix;
        assert_first_fails(sheaf_dataset_padded_batch(dataset_of_lists(rows), 2, &o),
                           SHEAF_ERR_INVALID_ARGUMENT,
                           "of shape (None,) cannot be padded to (2, 2)");
        o.shapes = &two;
        assert_first_fails(sheaf_dataset_padded_batch(sheaf_dataset_from_tensors(sheaf_element_of(
                                                          int64_of(json_array_get(rows, 0)))),
                                                      2, &o),
                           SHEAF_ERR_INVALID_ARGUMENT, "of shape (3,) cannot be padded to (2,)");
        o = (sheaf_padded_batch_options){.values = sheaf_element_of(int64_of(rows))};
        assert_first_fails(sheaf_dataset_padded_batch(dataset_of_lists(rows), 2, &o),
                           SHEAF_ERR_INVALID_ARGUMENT, "is no scalar but of shape (1, 3)");
        sheaf_element *values = sheaf_element_new();
        assert_int_equal(sheaf_element_put(values, "none", sheaf_long(0)), SHEAF_OK);
        o.values = values;
        assert_first_fails(sheaf_dataset_padded_batch(dataset_of_lists(rows), 2, &o),
                           SHEAF_ERR_INVALID_ARGUMENT, "\"none\" with, but no such component");
        const sheaf_generator g = {lists_start, lists_next, free, rows};
        assert_first_fails(
            sheaf_dataset_padded_batch(
                sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, sheaf_shape_of(-1, NULL))), 2,
                NULL),
            SHEAF_ERR_INVALID_ARGUMENT, "has no known number of axes");
    }
    json_decref(rows);
}

/* ---- batch ---- */

/* A shape that does not fit is named with its component. */
static void test_unlike_shapes_are_named(void **state)
{
    (void)state;
    json_t *rows = literal("[[1, 2], [3]]");
    assert_first_fails(sheaf_dataset_batch(dataset_of_lists(rows), 2, NULL),
                       SHEAF_ERR_INVALID_ARGUMENT,
                       "stage 2 (batch): cannot batch tensors with different shapes in component "
                       "0: element 0 has (2,), element 1 has (1,)");
    json_decref(rows);
}

/* T37: strings of any length come out of a batch as they went in, however they were copied. */
static void test_T37_strings_of_any_length(void **state)
{
    (void)state;
    char *text = malloc(70000);
    memset(text, 'x', 70000);
    text[0] = text[69999] = '\0';
    const sheaf_bytes strings[] = {
        {"a", 1}, {text + 69700, 300}, {text, 70000}, {"\0b", 2}, {"", 0}};
    const sheaf_shuffle_options same = {.seed = 1, .no_reshuffle = true};
    for (int kind = 0; kind < 3; kind++) {
        SHEAF_FRAME
        {
            sheaf_error err = {0};
            sheaf_element *e;
            sheaf_dataset *d = sheaf_dataset_from_slices(
                sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(5), strings)));
            if (kind == 1)
                d = sheaf_dataset_shuffle(d, 1, &same); /* copied row by row */
            if (kind == 2)
                d = sheaf_dataset_padded_batch(sheaf_dataset_batch(d, 1, NULL), 5, NULL);
            else
                d = sheaf_dataset_batch(d, 5, NULL);
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            sheaf_iterator_free(it);
            sheaf_dataset_free(d);
            for (int64_t i = 0; i < 5; i++) {
                sheaf_bytes found = sheaf_tensor_bytes(sheaf_element_get(e, NULL), i);
                assert_int_equal(found.size, strings[i].size);
                assert_memory_equal(found.data, strings[i].data, found.size);
            }
        }
    }
    free(text);
}

/* R1.9: the same batches; only rebatching does not see their size. */
static void test_parallel_changes_no_batch(void **state)
{
    (void)state;
    const sheaf_batch_options two = {.parallel = 2}, automatic = {.parallel = SHEAF_AUTOTUNE},
                              bad = {.parallel = -2}, many = {.parallel = 1000000000};
    assert_gives(sheaf_dataset_batch(sheaf_dataset_range(0, 5, 1), 2, &two),
                 "[[0, 1], [2, 3], [4]]");
    assert_gives(sheaf_dataset_batch(sheaf_dataset_range(0, 5, 1), 2, &automatic),
                 "[[0, 1], [2, 3], [4]]");
    assert_first_fails(sheaf_dataset_batch(sheaf_dataset_range(0, 5, 1), 2, &bad),
                       SHEAF_ERR_INVALID_ARGUMENT, "parallel is -2");
    assert_first_fails(sheaf_dataset_batch(sheaf_dataset_range(0, 5, 1), 2, &many),
                       SHEAF_ERR_INVALID_ARGUMENT, "parallel is 1000000000, expected 0 to 1024");
}

enum { SIDE = 200, SQUARE = SIDE * SIDE, SLICES = 7, BOXES = 60, ROWS = SLICES + BOXES + SLICES };

/* Squares with numbers from `from` on. */
static sheaf_tensor *squares(int64_t from, int64_t count)
{
    sheaf_tensor *numbers = sheaf_range(from, from + count * SQUARE, 1);
    return sheaf_reshape(sheaf_cast(numbers, SHEAF_FLOAT32), SHEAF_SHAPE(count, SIDE, SIDE));
}

/* A square of its own; every third one lies there across. */
static sheaf_status square(const sheaf_element *in, sheaf_element *out, void *user)
{
    const int64_t i = sheaf_tensor_integer(sheaf_element_at(in, 0), 0);
    (void)user;
    sheaf_tensor *t = sheaf_reshape(squares(i, 1), SHEAF_SHAPE(SIDE, SIDE));
    return sheaf_element_put(out, "", i % 3 == 0 ? sheaf_transpose(t) : t);
}

/* Large rows of both kinds: several in one tensor, and each in one of its own. */
static sheaf_dataset *large_rows(void)
{
    sheaf_dataset *slices = sheaf_dataset_from_slices(sheaf_element_of(squares(0, SLICES)));
    sheaf_dataset *boxes = sheaf_dataset_map(sheaf_dataset_range(0, BOXES, 1), square, NULL, NULL);
    sheaf_dataset *d = sheaf_dataset_concatenate(sheaf_dataset_ref(slices), boxes);
    return sheaf_dataset_concatenate(d, slices);
}

/* The number in place `i` of row `row`. */
static int64_t number_in(int64_t row, int64_t i)
{
    const int64_t across = i % SIDE * SIDE + i / SIDE, box = row - SLICES;
    if (box < 0)
        return row * SQUARE + i;
    if (box >= BOXES)
        return (box - BOXES) * SQUARE + i;
    return box + (box % 3 == 0 ? across : i);
}

/* Several threads copy each row to its place, wherever their parts begin. */
static void test_parallel_copies_large_rows(void **state)
{
    (void)state;
    static const int parallel[] = {0, 1, 2, 3, SHEAF_AUTOTUNE};
    sheaf_dataset *rows = large_rows();
    for (size_t k = 0; k < sizeof(parallel) / sizeof(*parallel); k++)
        SHEAF_FRAME
        {
            sheaf_error err = {0};
            sheaf_element *e;
            const sheaf_batch_options o = {.parallel = parallel[k]};
            sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_ref(rows), 100, &o);
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            const sheaf_tensor *t = sheaf_element_at(e, 0);
            assert_true(sheaf_shape_equal(sheaf_tensor_shape(t), SHEAF_SHAPE(ROWS, SIDE, SIDE)));
            const float *found = sheaf_tensor_data(t);
            for (int64_t i = 0; i < ROWS * SQUARE; i++)
                if (found[i] != (float)number_in(i / SQUARE, i % SQUARE))
                    fail_msg("parallel %d, row %d: place %d has %g", parallel[k], (int)(i / SQUARE),
                             (int)(i % SQUARE), (double)found[i]);
            sheaf_iterator_free(it);
            sheaf_dataset_free(d);
        }
    sheaf_dataset_free(rows);
}

/* A batch of slices is a view of them, and a batch of batches copies once. */
static void test_slices_are_not_copied(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        int64_t numbers[12];
        for (int i = 0; i < 12; i++)
            numbers[i] = i;
        sheaf_tensor *t = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(6, 2), numbers);
        const int64_t *base = sheaf_tensor_data(t);
        sheaf_dataset *d =
            sheaf_dataset_batch(sheaf_dataset_from_slices(sheaf_element_of(t)), 4, NULL);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_element *e;
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        assert_ptr_equal(sheaf_tensor_data(sheaf_element_at(e, 0)), base);
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        assert_ptr_equal(sheaf_tensor_data(sheaf_element_at(e, 0)), base + 8);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

/* The rows of a batch are views of it. */
static void test_unbatch_is_a_view(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3, 4), NULL);
        sheaf_dataset *d = sheaf_dataset_unbatch(sheaf_dataset_from_tensors(sheaf_element_of(t)));
        assert_int_equal(sheaf_dataset_cardinality(d), 3);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        for (int i = 0; i < 3; i++) {
            sheaf_element *e;
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            assert_ptr_equal(sheaf_tensor_data(sheaf_element_at(e, 0)),
                             (const float *)sheaf_tensor_data(t) + 4 * i);
        }
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

/* Rows that are too large to be copied twice travel as they are. */
static void test_large_rows(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        float *values = calloc(6 * 5000, sizeof(*values));
        for (int i = 0; i < 6 * 5000; i++)
            values[i] = (float)i;
        sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(6, 5000), values);
        sheaf_dataset *d = sheaf_dataset_from_slices(sheaf_element_of(t));
        const sheaf_shuffle_options o = {.seed = 1};
        d = sheaf_dataset_batch(sheaf_dataset_shuffle(d, 6, &o), 6, NULL);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_element *e;
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        const float *found = sheaf_tensor_data(sheaf_element_at(e, 0));
        double sum = 0;
        for (int i = 0; i < 6; i++) {
            sum += found[i * 5000];
            assert_float_equal(found[i * 5000 + 4999], found[i * 5000] + 4999, 0);
        }
        assert_float_equal(sum, 5000 * 15, 0);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
        free(values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_golden),
        rig_test(test_golden_more_padded),
        rig_test(test_padded_components),
        rig_test(test_padded_misfits_are_named),
        rig_test(test_unlike_shapes_are_named),
        rig_test(test_T37_strings_of_any_length),
        rig_test(test_parallel_changes_no_batch),
        rig_test(test_parallel_copies_large_rows),
        rig_test(test_slices_are_not_copied),
        rig_test(test_unbatch_is_a_view),
        rig_test(test_large_rows),
    };
    return rig_run(tests);
}
