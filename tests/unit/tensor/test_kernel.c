/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "tensor/half.h"
#include "tensor/kernel.h"

#include <math.h>
#include <string.h>

/* Odd, so that every loop has a rest. */
#define N 517

static uint64_t seed = 88172645463325252;
static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* Bits of any kind: for floats denormals, infinities and NaN among them. */
static void fill_bits(void *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)out)[i] = (uint8_t)(next() >> 24);
}

static const sheaf_dtype numbers[] = {
    SHEAF_FLOAT32,  SHEAF_FLOAT64, SHEAF_INT8,   SHEAF_INT16,  SHEAF_INT32,
    SHEAF_INT64,    SHEAF_UINT8,   SHEAF_UINT16, SHEAF_UINT32, SHEAF_UINT64,
    SHEAF_BFLOAT16, SHEAF_FLOAT16, SHEAF_BOOL,
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static bool is_nan_at(const void *data, sheaf_dtype dtype, size_t i)
{
    return isnan(sheaf__kernel_number(data, dtype, (int64_t)i));
}

/* The same bits, but for which NaN it is. */
static void assert_same(const void *a, const void *b, sheaf_dtype dtype, size_t n)
{
    size_t size = sheaf_dtype_size(dtype);
    for (size_t i = 0; i < n; i++) {
        bool same = !memcmp((const char *)a + i * size, (const char *)b + i * size, size);
        if (!same && !(is_nan_at(a, dtype, i) && is_nan_at(b, dtype, i)))
            fail_msg("%s element %zu: %.17g, expected %.17g", sheaf_dtype_name(dtype), i,
                     sheaf__kernel_number(a, dtype, (int64_t)i),
                     sheaf__kernel_number(b, dtype, (int64_t)i));
    }
}

struct arrays {
    double a[N], b[N], wide[N], plain[N];
};

static void fill(struct arrays *x, sheaf_dtype dtype)
{
    fill_bits(x->a, sizeof(x->a));
    fill_bits(x->b, sizeof(x->b));
    for (size_t i = 0; dtype == SHEAF_BOOL && i < sizeof(x->a); i++) {
        ((uint8_t *)x->a)[i] &= 1;
        ((uint8_t *)x->b)[i] &= 1;
    }
}

/* The table for this processor gives the bits of the portable one, also in place. */
static void test_wide_kernels_agree(void **state)
{
    (void)state;
    const struct sheaf__kernels *wide = sheaf__kernels(), *plain = sheaf__kernels_portable();
    static struct arrays x;
    for (int round = 0; round < 20; round++)
        for (size_t k = 0; k < NUMBERS; k++) {
            sheaf_dtype d = numbers[k];
            const sheaf__kernel_binary *pairs[][2] = {{wide->add, plain->add},
                                                      {wide->sub, plain->sub},
                                                      {wide->mul, plain->mul},
                                                      {wide->max, plain->max},
                                                      {wide->min, plain->min}};
            for (size_t p = 0; p < 5; p++) {
                assert_true((pairs[p][0][d] != NULL) == (d != SHEAF_BOOL || p != 1));
                if (!pairs[p][0][d])
                    continue;
                fill(&x, d);
                pairs[p][0][d](x.wide, x.a, x.b, N);
                pairs[p][1][d](x.plain, x.a, x.b, N);
                assert_same(x.wide, x.plain, d, N);
                memcpy(x.wide, x.a, sizeof(x.a));
                pairs[p][0][d](x.wide, x.wide, x.b, N);
                assert_same(x.wide, x.plain, d, N);
                memcpy(x.wide, x.b, sizeof(x.b));
                pairs[p][0][d](x.wide, x.a, x.wide, N);
                assert_same(x.wide, x.plain, d, N);
            }
            if (d == SHEAF_BOOL)
                continue;
            double factor = (double)(int64_t)(next() % 7) - 3.0;
            fill(&x, d);
            wide->scale[d](x.wide, x.a, factor, N);
            plain->scale[d](x.plain, x.a, factor, N);
            assert_same(x.wide, x.plain, d, N);
            memcpy(x.wide, x.b, sizeof(x.b));
            memcpy(x.plain, x.b, sizeof(x.b));
            wide->axpy[d](x.wide, x.a, factor, N);
            plain->axpy[d](x.plain, x.a, factor, N);
            assert_same(x.wide, x.plain, d, N);
        }
}

/* Against plain arithmetic. */
static void test_values(void **state)
{
    (void)state;
    const struct sheaf__kernels *k = sheaf__kernels();
    float f[] = {1, 2, NAN, -INFINITY}, g[] = {0.5F, -3, 1, 7}, out[4];
    k->add[SHEAF_FLOAT32](out, f, g, 4);
    assert_true(out[0] == 1.5F && out[1] == -1 && isnan(out[2]) && isinf(out[3]));
    k->max[SHEAF_FLOAT32](out, f, g, 4);
    assert_true(out[0] == 1 && out[1] == 2 && isnan(out[2]) && out[3] == 7);
    k->min[SHEAF_FLOAT32](out, g, f, 4);
    assert_true(out[0] == 0.5F && out[1] == -3 && isnan(out[2]) && isinf(out[3]));
    k->scale[SHEAF_FLOAT32](out, g, 2, 4);
    assert_true(out[0] == 1 && out[3] == 14);
    /* Two roundings: 1 + 2^-24 squared would keep more if it were fused. */
    float x[] = {1 + 0x1p-12F}, y[] = {-1};
    k->axpy[SHEAF_FLOAT32](y, x, 1 + 0x1p-12, 1);
    assert_true(y[0] == 0x1p-11F);
    int8_t small[] = {127, -128}, one[] = {1, 1}, sum[2];
    k->add[SHEAF_INT8](sum, small, one, 2);
    assert_int_equal(sum[0], -128);
    assert_int_equal(sum[1], -127);
    k->max[SHEAF_INT8](sum, small, one, 2);
    assert_true(sum[0] == 127 && sum[1] == 1);
    uint8_t u[] = {200, 1}, v[] = {100, 2}, w[2];
    k->max[SHEAF_UINT8](w, u, v, 2);
    assert_true(w[0] == 200 && w[1] == 2);
    k->scale[SHEAF_INT8](sum, one, -3, 2);
    assert_int_equal(sum[0], -3);
    uint16_t half[] = {sheaf__bfloat16_of_float(1.0F)},
             tiny[] = {sheaf__bfloat16_of_float(0x1p-9F)};
    k->add[SHEAF_BFLOAT16](half, half, tiny, 1);
    assert_true(sheaf__bfloat16_to_float(half[0]) == 1);
    assert_null(k->add[SHEAF_STRING]);
    assert_null(k->add[SHEAF_FLOAT8_E5M2]);
}

static void test_half_conversions(void **state)
{
    (void)state;
    const struct sheaf__kernels *k = sheaf__kernels();
    static uint16_t bits[0x10000 + 3], back[0x10000 + 3];
    static float values[0x10000 + 3];
    for (size_t i = 0; i < 0x10000 + 3; i++)
        bits[i] = (uint16_t)i;
    k->float16_to_float(values, bits, 0x10000 + 3);
    k->float_to_float16(back, values, 0x10000 + 3);
    for (size_t i = 0; i < 0x10000 + 3; i++) {
        assert_int_equal(sheaf__bits_of_float(values[i]),
                         sheaf__bits_of_float(sheaf__float16_to_float(bits[i])));
        assert_int_equal(back[i], sheaf__float16_of_float(values[i]));
    }
    k->bfloat16_to_float(values, bits, 0x10000 + 3);
    k->float_to_bfloat16(back, values, 0x10000 + 3);
    for (size_t i = 0; i < 0x10000 + 3; i++)
        assert_int_equal(back[i], sheaf__bfloat16_of_float(values[i]));
    for (int round = 0; round < 50; round++) {
        fill_bits(values, sizeof(values));
        k->float_to_float16(back, values, 1000);
        for (size_t i = 0; i < 1000; i++)
            assert_int_equal(back[i], sheaf__float16_of_float(values[i]));
        k->float_to_bfloat16(back, values, 1000);
        for (size_t i = 0; i < 1000; i++)
            assert_int_equal(back[i], sheaf__bfloat16_of_float(values[i]));
    }
}

/* Through every pair of dtypes and back, with numbers that all of them hold. */
static void test_cast_round_trips(void **state)
{
    (void)state;
    static double from[1100], to[1100], again[1100];
    for (size_t a = 0; a < NUMBERS; a++)
        for (size_t b = 0; b < NUMBERS; b++) {
            bool boolean = numbers[a] == SHEAF_BOOL || numbers[b] == SHEAF_BOOL;
            assert_true(sheaf__kernel_can_cast(numbers[b], numbers[a]));
            for (size_t i = 0; i < 1100; i++) {
                double value = boolean ? (double)(i % 2) : (double)(i % 100);
                sheaf__kernel_cast((char *)from + i * sheaf_dtype_size(numbers[a]), numbers[a],
                                   &value, SHEAF_FLOAT64, 1);
            }
            sheaf__kernel_cast(to, numbers[b], from, numbers[a], 1100);
            for (size_t i = 0; i < 1100; i++)
                assert_true(sheaf__kernel_number(to, numbers[b], (int64_t)i) ==
                            (boolean ? (double)(i % 2) : (double)(i % 100)));
            sheaf__kernel_cast(again, numbers[a], to, numbers[b], 1100);
            assert_memory_equal(from, again, 1100 * sheaf_dtype_size(numbers[a]));
        }
    assert_false(sheaf__kernel_can_cast(SHEAF_STRING, SHEAF_INT32));
    assert_false(sheaf__kernel_can_cast(SHEAF_INT32, SHEAF_FLOAT8_E5M2));
}

static int64_t cast_to(sheaf_dtype dtype, double value)
{
    int64_t out = 0;
    sheaf__kernel_cast(&out, dtype, &value, SHEAF_FLOAT64, 1);
    return out;
}

static void test_cast_edges(void **state)
{
    (void)state;
    assert_int_equal(cast_to(SHEAF_INT32, 2.9), 2);
    assert_int_equal((int32_t)cast_to(SHEAF_INT32, -2.9), -2);
    assert_int_equal((int32_t)cast_to(SHEAF_INT32, 1e10), INT32_MIN);
    assert_int_equal((int32_t)cast_to(SHEAF_INT32, NAN), INT32_MIN);
    assert_int_equal((int32_t)cast_to(SHEAF_INT32, -2147483648.5), INT32_MIN);
    assert_int_equal((int32_t)cast_to(SHEAF_INT32, 2147483647.5), INT32_MAX);
    assert_true(cast_to(SHEAF_INT64, 1e19) == INT64_MIN);
    assert_true((uint64_t)cast_to(SHEAF_UINT64, 1e19) == UINT64_C(10000000000000000000));
    assert_int_equal(cast_to(SHEAF_BOOL, NAN), 1);
    assert_int_equal(cast_to(SHEAF_BOOL, -0.0), 0);
    assert_int_equal(cast_to(SHEAF_BOOL, 0.25), 1);
    assert_int_equal((uint32_t)cast_to(SHEAF_UINT32, 4294967295.0), UINT32_MAX);
    /* One rounding from int64 to float32, none through double. */
    int64_t whole = (INT64_C(1) << 54) + (INT64_C(1) << 30) + 1;
    float narrow;
    sheaf__kernel_cast(&narrow, SHEAF_FLOAT32, &whole, SHEAF_INT64, 1);
    assert_true(narrow == (float)whole);
    float pair[] = {3, 4};
    double part[2];
    sheaf__kernel_cast(part, SHEAF_FLOAT64, pair, SHEAF_COMPLEX64, 1);
    assert_true(part[0] == 3);
    sheaf__kernel_cast(part, SHEAF_COMPLEX128, pair, SHEAF_COMPLEX64, 1);
    assert_true(part[0] == 3 && part[1] == 4);
    sheaf__kernel_cast(part, SHEAF_COMPLEX128, pair, SHEAF_FLOAT32, 1);
    assert_true(part[0] == 3 && part[1] == 0);
}

static void test_fill(void **state)
{
    (void)state;
    static double out[3000];
    for (size_t k = 0; k < NUMBERS; k++) {
        memset(out, 0x55, sizeof(out));
        sheaf__kernel_fill(out, numbers[k], 1, 2999);
        for (int64_t i = 0; i < 2999; i++)
            assert_true(sheaf__kernel_number(out, numbers[k], i) == 1);
        size_t size = sheaf_dtype_size(numbers[k]);
        assert_int_equal(((uint8_t *)out)[2999 * size], 0x55);
        sheaf__kernel_fill(out, numbers[k], 1, 0);
    }
}

/* Any strides against an odometer that computes each address. */
static void test_gather(void **state)
{
    (void)state;
    static uint8_t in[4096 * 16], out[4096 * 16];
    static const size_t sizes[] = {1, 2, 4, 8, 16};
    fill_bits(in, sizeof(in));
    for (int round = 0; round < 500; round++) {
        size_t size = sizes[next() % 5];
        sheaf_shape shape = {.rank = (int)(next() % 5)};
        int64_t strides[8], base = 2000;
        for (int i = 0; i < shape.rank; i++) {
            shape.dims[i] = (int64_t)(next() % 5);
            strides[i] = (int64_t)(next() % 100) - 50;
            if (next() % 3 == 0)
                strides[i] = i + 1 < shape.rank ? 5 : 1;
        }
        memset(out, 0, sizeof(out));
        sheaf__kernel_gather(out, in + (size_t)base * size, size, shape, strides);
        int64_t n = sheaf_shape_elements(shape);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = base, rest = i;
            for (int axis = shape.rank - 1; axis >= 0; axis--) {
                at += rest % shape.dims[axis] * strides[axis];
                rest /= shape.dims[axis];
            }
            assert_memory_equal(out + (size_t)i * size, in + (size_t)at * size, size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_wide_kernels_agree),
        rig_test(test_values),
        rig_test(test_half_conversions),
        rig_test(test_cast_round_trips),
        rig_test(test_cast_edges),
        rig_test(test_fill),
        rig_test(test_gather),
    };
    return rig_run(tests);
}
