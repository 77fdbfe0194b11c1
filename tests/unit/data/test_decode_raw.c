/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

/* decode_raw as an operation and as a stage (R9.37). */

static size_t unhex(const char *hex, char *out)
{
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++)
        out[i] = (char)strtol((const char[]){hex[2 * i], hex[2 * i + 1], 0}, NULL, 16);
    return size;
}

/* The strings of a case: a scalar, or a vector. */
static sheaf_tensor *input_of(const json_t *c)
{
    static char bytes[16][64];
    sheaf_bytes strings[16];
    const json_t *hex = json_object_get(c, "input_hex");
    size_t count = json_is_array(hex) ? json_array_size(hex) : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_is_array(hex) ? json_array_get(hex, i) : hex;
        strings[i] = (sheaf_bytes){bytes[i], unhex(json_string_value(one), bytes[i])};
    }
    return sheaf_tensor_new(
        SHEAF_STRING, json_is_array(hex) ? SHEAF_SHAPE((int64_t)count) : SHEAF_SCALAR, strings);
}

static json_t *decoded_json(const sheaf_tensor *t)
{
    if (sheaf_tensor_dtype(t) != SHEAF_BOOL && sheaf_tensor_dtype(t) != SHEAF_FLOAT16 &&
        sheaf_tensor_dtype(t) != SHEAF_BFLOAT16)
        return tensor_json(t);
    json_t *list = json_array();
    for (int64_t i = 0; i < sheaf_tensor_elements(t); i++)
        json_array_append_new(list, sheaf_tensor_dtype(t) == SHEAF_BOOL
                                        ? json_boolean(sheaf_tensor_integer(t, i))
                                        : json_real(sheaf_tensor_number(t, i)));
    return list;
}

/* One element of the strings, or one each, through the stage; NULL where it fails. */
static json_t *through_stage(sheaf_tensor *strings, sheaf_dtype dtype,
                             const sheaf_decode_raw_options *o, bool rows)
{
    sheaf_element *e = sheaf_element_of(strings);
    sheaf_dataset *d = rows ? sheaf_dataset_from_slices(e) : sheaf_dataset_from_tensors(e);
    d = sheaf_dataset_decode_raw(d, NULL, dtype, o);
    if (rows)
        d = sheaf_dataset_batch(d, 16, NULL);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *out;
    sheaf_status status = sheaf_iterator_next(it, &out, &err);
    json_t *list = status == SHEAF_OK ? decoded_json(sheaf_element_at(out, 0)) : NULL;
    assert_true(status >= 0 || status == SHEAF_ERR_INVALID_ARGUMENT);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    return list;
}

static void check(const json_t *c)
{
    SHEAF_FRAME
    {
        const sheaf_decode_raw_options o = {.big_endian =
                                                !json_is_true(json_object_get(c, "little_endian")),
                                            .fixed_length = number_at(c, "fixed_length", 0)};
        const sheaf_dtype dtype = sheaf_dtype_named(text_at(c, "dtype"));
        sheaf_tensor *strings = input_of(c), *t = sheaf_decode_raw(strings, dtype, &o);
        const json_t *values = json_object_get(c, "values");
        json_t *whole = through_stage(strings, dtype, &o, false);
        if (json_object_get(c, "error")) {
            sheaf_error err;
            assert_int_equal(sheaf_tensor_status(t, &err), SHEAF_ERR_INVALID_ARGUMENT);
            assert_null(whole);
            break;
        }
        assert_json(shape_json(sheaf_tensor_shape(t)), json_object_get(c, "shape"), "shape");
        assert_json(decoded_json(t), values, text_at(c, "dtype"));
        assert_json(whole, values, "an element");
        if (sheaf_tensor_shape(t).rank == 2 && json_array_size(values) > 0)
            assert_json(through_stage(strings, dtype, &o, true), values, "rows");
    }
}

static void test_golden(void **state)
{
    (void)state;
    static const char *const files[] = {"decode_raw.json", "decode_padded.json"};
    for (size_t k = 0; k < 2; k++) {
        json_t *root = golden_load(files[k]), *c;
        size_t i;
        assert_true(json_array_size(json_object_get(root, "decode_raw")) >= 30);
        json_array_foreach(json_object_get(root, "decode_raw"), i, c) check(c);
        json_decref(root);
    }
}

/* Both parts of a complex number change the order of their bytes; what is no number is refused. */
static void test_other_dtypes(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        const sheaf_decode_raw_options big = {.big_endian = true}, cut = {.fixed_length = 2};
        const sheaf_decode_raw_options below = {.fixed_length = -3};
        const sheaf_bytes bytes = {"\1\2\3\4\5\6\7\10", 8};
        sheaf_tensor *s = sheaf_tensor_new(SHEAF_STRING, SHEAF_SCALAR, &bytes);
        assert_memory_equal(sheaf_tensor_data(sheaf_decode_raw(s, SHEAF_COMPLEX64, &big)),
                            "\4\3\2\1\10\7\6\5", 8);
        assert_int_equal(sheaf_tensor_integer(sheaf_decode_raw(s, SHEAF_UINT64, &big), 0),
                         0x0102030405060708);
        assert_int_equal(sheaf_tensor_integer(sheaf_decode_raw(s, SHEAF_UINT32, NULL), 1),
                         0x08070605);
        sheaf_status status = sheaf_tensor_status(sheaf_decode_raw(s, SHEAF_STRING, NULL), &err);
        rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT, "cannot be decoded as string");
        status = sheaf_tensor_status(sheaf_decode_raw(s, SHEAF_INT32, &cut), &err);
        rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "fixed_length is 2, expected a multiple of 4, the size of int32");
        status = sheaf_tensor_status(sheaf_decode_raw(s, SHEAF_UINT8, &below), &err);
        rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "fixed_length is -3, expected 0 or more");
        status = sheaf_tensor_status(sheaf_decode_raw(sheaf_int(3), SHEAF_INT32, NULL), &err);
        rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT, "decode_raw of int32 of shape ()");
        sheaf_frame_clear();
    }
}

/* A large string is not copied, and lives as long as what was made of it. */
static void test_large_string_is_viewed(void **state)
{
    (void)state;
    char *bytes = malloc(9000);
    memset(bytes, 7, 9000);
    sheaf_tensor *kept = NULL;
    SHEAF_FRAME
    {
        const sheaf_bytes one = {bytes, 9000};
        sheaf_tensor *s = sheaf_tensor_new(SHEAF_STRING, SHEAF_SCALAR, &one);
        kept = sheaf_tensor_keep(sheaf_decode_raw(s, SHEAF_UINT8, NULL));
        assert_ptr_equal(sheaf_tensor_data(kept), sheaf_tensor_bytes(s, 0).data);
        const sheaf_decode_raw_options longer = {.fixed_length = 9004};
        assert_int_equal(sheaf_tensor_integer(sheaf_decode_raw(s, SHEAF_UINT8, &longer), 9003), 0);
    }
    for (int64_t i = 0; i < 9000; i++)
        assert_int_equal(sheaf_tensor_integer(kept, i), 7);
    sheaf_tensor_free(kept);
    free(bytes);
}

static sheaf_status name_it(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    sheaf_status status = sheaf_element_put(out, "image", sheaf_element_get(in, NULL));
    return status < 0 ? status : sheaf_element_put(out, "label", sheaf_long(5));
}

/* Of several components the named one is decoded; strings of unlike sizes are, one by one, and a bad
 * one is an error in its place. The type says what is known before. */
static void test_components(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        const sheaf_bytes strings[] = {{"ab", 2}, {"cdef", 4}, {"xyz", 3}, {"gh", 2}};
        sheaf_dataset *d = sheaf_dataset_from_slices(
            sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(4), strings)));
        sheaf_dataset *shorts =
            sheaf_dataset_decode_raw(sheaf_dataset_ref(d), NULL, SHEAF_INT16, NULL);
        assert_int_equal(sheaf_dataset_cardinality(shorts), 4);
        const sheaf_shape shape =
            sheaf_element_spec_at(sheaf_dataset_element_spec(shorts), 0).shape;
        assert_true(shape.rank == 1 && shape.dims[0] == SHEAF_UNKNOWN_DIM);
        for (int ahead = 0; ahead < 9; ahead += 4)
            assert_gives(sheaf_dataset_prefetch(sheaf_dataset_ref(shorts), ahead),
                         "[[25185], [25699, 26213], {\"status\": \"InvalidArgument\"}, [26727]]");
        sheaf_dataset_free(shorts);
        d = sheaf_dataset_map(d, name_it, NULL, NULL);
        const sheaf_decode_raw_options two = {.fixed_length = 2};
        assert_gives(sheaf_dataset_decode_raw(sheaf_dataset_ref(d), "image", SHEAF_UINT8, &two),
                     "[[[97, 98], 5], [[99, 100], 5], [[120, 121], 5], [[103, 104], 5]]");
        assert_first_fails(
            sheaf_dataset_decode_raw(sheaf_dataset_ref(d), "text", SHEAF_UINT8, NULL),
            SHEAF_ERR_INVALID_ARGUMENT, "none of an element's 2 components is named \"text\"");
        assert_first_fails(sheaf_dataset_decode_raw(d, NULL, SHEAF_UINT8, NULL),
                           SHEAF_ERR_INVALID_ARGUMENT,
                           "an element has 2 components, which one is meant must be said");
        assert_first_fails(
            sheaf_dataset_decode_raw(sheaf_dataset_range(0, 2, 1), NULL, SHEAF_UINT8, NULL),
            SHEAF_ERR_INVALID_ARGUMENT, "is int64 of shape (), expected strings");
        assert_first_fails(
            sheaf_dataset_decode_raw(sheaf_dataset_range(0, 2, 1), NULL, SHEAF_STRING, NULL),
            SHEAF_ERR_INVALID_ARGUMENT, "stage 2 (decode_raw): raw bytes cannot be decoded");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_golden),
        rig_test(test_other_dtypes),
        rig_test(test_large_string_is_viewed),
        rig_test(test_components),
    };
    return rig_run(tests);
}
