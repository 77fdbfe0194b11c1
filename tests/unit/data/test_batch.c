/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

/* batch and unbatch against TensorFlow (R9.15, R9.26, R1.40). */

static json_t *shaped_json(const sheaf_element *e)
{
    const sheaf_tensor *t = sheaf_element_at(e, 0);
    return json_pack("{s:o, s:o}", "shape", shape_json(sheaf_tensor_shape(t)), "values",
                     tensor_json(t));
}

static sheaf_dataset *apply(const json_t *c, sheaf_dataset *d)
{
    const sheaf_batch_options o = {.drop_remainder =
                                       json_is_true(json_object_get(c, "drop_remainder"))};
    if (strcmp(text_at(c, "op"), "batch") == 0)
        return sheaf_dataset_batch(d, number_at(c, "size", 0), &o);
    if (strcmp(text_at(c, "op"), "unbatch") == 0)
        return sheaf_dataset_unbatch(d);
    return sheaf_dataset_unbatch(sheaf_dataset_batch(d, 1, NULL));
}

/* Errors are compared by their status alone. */
static void strip_texts(json_t *output)
{
    size_t i;
    json_t *value;
    json_array_foreach(output, i, value) json_object_del(value, "text");
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
    strip_texts(output);
    json_t *found = elements_by(d, shaped_json), *value;
    size_t i;
    assert_int_equal(json_array_size(found), json_array_size(output));
    json_array_foreach(found, i, value)
    {
        const json_t *expected = json_array_get(output, i);
        json_incref(value);
        if (json_object_get(expected, "status")) {
            assert_json(value, expected, text_at(c, "op"));
            continue;
        }
        assert_true(same_json(json_object_get(value, "shape"), json_object_get(expected, "shape")));
        assert_true(
            same_json(json_object_get(value, "values"), json_object_get(expected, "values")));
        json_decref(value);
    }
    json_decref(found);
    sheaf_dataset_free(d);
}

static void test_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("batch.json"), *c;
    size_t i, checked = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        if (strcmp(text_at(c, "op"), "padded_batch") == 0)
            continue;
        check(c);
        checked++;
    }
    assert_true(checked > 40);
    json_decref(root);
}

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
        rig_test(test_unlike_shapes_are_named),
        rig_test(test_slices_are_not_copied),
        rig_test(test_unbatch_is_a_view),
        rig_test(test_large_rows),
    };
    return rig_run(tests);
}
