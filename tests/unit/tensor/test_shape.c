/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "tensor/half.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

/* formats.md 1.3: numbers, names and sizes as TensorFlow has them. */
static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *name;
        size_t size;
    } all[] = {
        {1, "float32", 4}, {2, "float64", 8},      {3, "int32", 4},          {4, "uint8", 1},
        {5, "int16", 2},   {6, "int8", 1},         {7, "string", 16},        {8, "complex64", 8},
        {9, "int64", 8},   {10, "bool", 1},        {11, "qint8", 1},         {12, "quint8", 1},
        {13, "qint32", 4}, {14, "bfloat16", 2},    {15, "qint16", 2},        {16, "quint16", 2},
        {17, "uint16", 2}, {18, "complex128", 16}, {19, "float16", 2},       {22, "uint32", 4},
        {23, "uint64", 8}, {24, "float8_e5m2", 1}, {25, "float8_e4m3fn", 1}, {29, "int4", 1},
        {30, "uint4", 1},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        sheaf_dtype dtype = (sheaf_dtype)all[i].number;
        assert_string_equal(sheaf_dtype_name(dtype), all[i].name);
        assert_int_equal(sheaf_dtype_size(dtype), all[i].size);
        assert_int_equal(sheaf_dtype_named(all[i].name), dtype);
    }
    static const int none[] = {0, 20, 21, 34, 101, -1};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_string_equal(sheaf_dtype_name((sheaf_dtype)none[i]), "invalid");
        assert_int_equal(sheaf_dtype_size((sheaf_dtype)none[i]), 0);
    }
    assert_int_equal(sheaf_dtype_named("Float32"), SHEAF_INVALID_DTYPE);
    assert_int_equal(sheaf_dtype_named("invalid"), SHEAF_INVALID_DTYPE);
    assert_int_equal(sheaf_dtype_named(NULL), SHEAF_INVALID_DTYPE);
}

static void test_elements(void **state)
{
    (void)state;
    assert_int_equal(sheaf_shape_elements(SHEAF_SCALAR), 1);
    assert_int_equal(sheaf_shape_elements(SHEAF_SHAPE(4, 1, 3)), 12);
    assert_int_equal(sheaf_shape_elements(SHEAF_SHAPE(4, 0, 3)), 0);
    assert_int_equal(sheaf_shape_elements(SHEAF_SHAPE(4, -1)), -1);
    assert_int_equal(sheaf_shape_elements((sheaf_shape){.rank = SHEAF_UNKNOWN_RANK}), -1);
    assert_int_equal(sheaf_shape_elements(SHEAF_SHAPE(INT64_MAX, 2)), -1);
    assert_int_equal(sheaf_shape_elements(SHEAF_SHAPE(INT64_MAX, 4, 0)), 0);
    assert_int_equal(sheaf_shape_elements(SHEAF_SHAPE(1ll << 32, 1ll << 32)),
                     -1); /* 0 in 64 bits */
    assert_int_equal(sheaf_shape_elements(SHEAF_SHAPE(1ll << 32, 1ll << 32, 7)), -1);
    assert_int_equal(sheaf_shape_elements(SHEAF_SHAPE(INT64_MAX, 3, INT64_MAX, 5)), -1);
    assert_int_equal(sheaf_shape_of(9, (const int64_t[9]){0}).rank, SHEAF_UNKNOWN_RANK);
    assert_int_equal(sheaf_shape_of(-5, NULL).rank, SHEAF_UNKNOWN_RANK);
}

static void test_format(void **state)
{
    (void)state;
    char text[32];
    assert_int_equal(sheaf_shape_format(SHEAF_SHAPE(4, 1), text, sizeof(text)), 6);
    assert_string_equal(text, "(4, 1)");
    sheaf_shape_format(SHEAF_SCALAR, text, sizeof(text));
    assert_string_equal(text, "()");
    sheaf_shape_format(SHEAF_SHAPE(4), text, sizeof(text));
    assert_string_equal(text, "(4,)");
    sheaf_shape_format(SHEAF_SHAPE(-1, 1), text, sizeof(text));
    assert_string_equal(text, "(None, 1)");
    sheaf_shape_format((sheaf_shape){.rank = -1}, text, sizeof(text));
    assert_string_equal(text, "<unknown>");
    assert_int_equal(sheaf_shape_format(SHEAF_SHAPE(4, 1), text, 4), 6);
    assert_string_equal(text, "(4,");
    assert_int_equal(sheaf_shape_format(SHEAF_SHAPE(4, 1), NULL, 0), 6);
    int64_t dims[8] = {INT64_MIN, INT64_MAX, INT64_MAX, INT64_MAX,
                       INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    assert_true(sheaf_shape_format(sheaf_shape_of(8, dims), text, sizeof(text)) > 100);
}

static void test_bytes(void **state)
{
    (void)state;
    int64_t elements;
    size_t bytes;
    sheaf_error err;
    rig_ok(sheaf__shape_bytes(SHEAF_INT16, SHEAF_SHAPE(3, 5), &elements, &bytes, &err), &err);
    assert_int_equal(elements, 15);
    assert_int_equal(bytes, 30);
    rig_fails(
        sheaf__shape_bytes(SHEAF_FLOAT64, SHEAF_SHAPE(INT64_MAX / 8), &elements, &bytes, &err),
        &err, SHEAF_ERR_INVALID_ARGUMENT, "no size in bytes");
    rig_fails(sheaf__shape_bytes(SHEAF_FLOAT64, SHEAF_SHAPE(-1), &elements, &bytes, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "(None,)");
    rig_fails(sheaf__shape_bytes((sheaf_dtype)20, SHEAF_SHAPE(1), &elements, &bytes, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "dtype 20");
}

static void test_relations(void **state)
{
    (void)state;
    sheaf_shape unknown = {.rank = SHEAF_UNKNOWN_RANK}, out;
    assert_true(sheaf_shape_equal(SHEAF_SHAPE(1, 2), SHEAF_SHAPE(1, 2)));
    assert_false(sheaf_shape_equal(SHEAF_SHAPE(1, 2), SHEAF_SHAPE(1)));
    assert_false(sheaf_shape_equal(SHEAF_SHAPE(1, 2), SHEAF_SHAPE(1, 3)));
    assert_true(sheaf__shape_fits(unknown, SHEAF_SHAPE(7)));
    assert_true(sheaf__shape_fits(SHEAF_SHAPE(-1, 2), SHEAF_SHAPE(9, 2)));
    assert_false(sheaf__shape_fits(SHEAF_SHAPE(-1, 2), SHEAF_SHAPE(9, 3)));
    assert_false(sheaf__shape_fits(SHEAF_SHAPE(-1), SHEAF_SHAPE(9, 3)));
    assert_true(sheaf__shape_broadcast(SHEAF_SHAPE(4, 1), SHEAF_SHAPE(3), &out));
    assert_true(sheaf_shape_equal(out, SHEAF_SHAPE(4, 3)));
    assert_true(sheaf__shape_broadcast(SHEAF_SHAPE(0, 1), SHEAF_SHAPE(1, 5), &out));
    assert_true(sheaf_shape_equal(out, SHEAF_SHAPE(0, 5)));
    assert_false(sheaf__shape_broadcast(SHEAF_SHAPE(4, 2), SHEAF_SHAPE(3), &out));
    assert_true(sheaf_shape_equal(sheaf__shape_prepend(SHEAF_SHAPE(2), 7), SHEAF_SHAPE(7, 2)));
    assert_true(sheaf_shape_equal(sheaf__shape_inner(SHEAF_SHAPE(7, 2)), SHEAF_SHAPE(2)));
    assert_int_equal(sheaf__shape_inner(SHEAF_SCALAR).rank, SHEAF_UNKNOWN_RANK);
}

/* Every float16 there is, and back; and every point between two neighbours. */
static void test_float16(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = sheaf__float16_to_float((uint16_t)bits);
        if (isnan(value)) {
            assert_true(isnan(sheaf__float16_to_float(sheaf__float16_of_float(value))));
            continue;
        }
        assert_int_equal(sheaf__float16_of_float(value), bits);
    }
    assert_true(sheaf__float16_to_float(0x0001) == 0x1p-24F);
    assert_true(sheaf__float16_to_float(0x0400) == 0x1p-14F);
    assert_true(sheaf__float16_to_float(0x7bff) == 65504);
    assert_true(isinf(sheaf__float16_to_float(0xfc00)));
    for (uint32_t bits = 0; bits < 0x7bff; bits++) {
        double low = (double)sheaf__float16_to_float((uint16_t)bits);
        double high = (double)sheaf__float16_to_float((uint16_t)(bits + 1));
        double middle = (low + high) / 2;
        uint32_t even = bits & 1 ? bits + 1 : bits;
        assert_int_equal(sheaf__float16_of_double(middle), even);
        assert_int_equal(sheaf__float16_of_double(nextafter(middle, 0)), bits);
        assert_int_equal(sheaf__float16_of_double(nextafter(middle, 1e9)), bits + 1);
        assert_int_equal(sheaf__float16_of_double(-middle), even | 0x8000);
    }
    assert_int_equal(sheaf__float16_of_double(65520), 0x7c00);
    assert_int_equal(sheaf__float16_of_double(65519.9), 0x7bff);
    assert_int_equal(sheaf__float16_of_double(1e300), 0x7c00);
    assert_int_equal(sheaf__float16_of_double(-1e-300), 0x8000);
}

static void test_bfloat16(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = sheaf__bfloat16_to_float((uint16_t)bits);
        uint16_t back = sheaf__bfloat16_of_float(value);
        if (isnan(value))
            assert_true(isnan(sheaf__bfloat16_to_float(back)));
        else
            assert_int_equal(back, bits);
    }
    /* Ties to even; NaN whose kept bits are zero stays NaN. */
    assert_int_equal(sheaf__bfloat16_of_float(sheaf__float_of_bits(0x3f808000)), 0x3f80);
    assert_int_equal(sheaf__bfloat16_of_float(sheaf__float_of_bits(0x3f818000)), 0x3f82);
    assert_int_equal(sheaf__bfloat16_of_float(sheaf__float_of_bits(0x3f808001)), 0x3f81);
    assert_int_equal(sheaf__bfloat16_of_float(sheaf__float_of_bits(0x7f7fffff)), 0x7f80);
    assert_int_equal(sheaf__bfloat16_of_float(sheaf__float_of_bits(0x7f800001)), 0x7fc0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_dtypes),   rig_test(test_elements),  rig_test(test_format),
        rig_test(test_bytes),    rig_test(test_relations), rig_test(test_float16),
        rig_test(test_bfloat16),
    };
    return rig_run(tests);
}
