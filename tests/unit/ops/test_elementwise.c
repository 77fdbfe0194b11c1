/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "ops_help.h"

#include <string.h>

static void adds_equal_shapes(void **state)
{
    (void)state;
    sheaf_tensor *a = F32(SHEAF_SHAPE(2, 2), 1, 2, 3, 4),
                 *b = F32(SHEAF_SHAPE(2, 2), 10, 20, 30, 40);
    EXPECT(sheaf_add(a, b), SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), 11, 22, 33, 44);
    EXPECT(sheaf_sub(a, b), SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), -9, -18, -27, -36);
    EXPECT(sheaf_mul(a, b), SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), 10, 40, 90, 160);
    EXPECT(sheaf_div(b, a), SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), 10, 10, 10, 10);
    EXPECT(sheaf_maximum(a, F32(SHEAF_SCALAR, 2.5f)), SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), 2.5, 2.5, 3,
           4);
}

static void broadcasts_as_numpy(void **state)
{
    (void)state;
    sheaf_tensor *row = I32(SHEAF_SHAPE(3), 1, 2, 3), *column = I32(SHEAF_SHAPE(2, 1), 10, 20);
    EXPECT(sheaf_add(row, column), SHEAF_INT32, SHEAF_SHAPE(2, 3), 11, 12, 13, 21, 22, 23);
    EXPECT(sheaf_sub(column, row), SHEAF_INT32, SHEAF_SHAPE(2, 3), 9, 8, 7, 19, 18, 17);
    EXPECT(sheaf_mul(sheaf_int(2), row), SHEAF_INT32, SHEAF_SHAPE(3), 2, 4, 6);
    /* (2, 1, 2) with (3, 1): an axis of each is repeated */
    sheaf_tensor *a = I64(SHEAF_SHAPE(2, 1, 2), 1, 2, 3, 4),
                 *b = I64(SHEAF_SHAPE(3, 1), 10, 20, 30);
    EXPECT(sheaf_add(a, b), SHEAF_INT64, SHEAF_SHAPE(2, 3, 2), 11, 12, 21, 22, 31, 32, 13, 14, 23,
           24, 33, 34);
    EXPECT(sheaf_add(F32(SHEAF_SHAPE(1, 1), 1), F32(SHEAF_SCALAR, 2)), SHEAF_FLOAT32,
           SHEAF_SHAPE(1, 1), 3);
    EXPECT(sheaf_add(sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0, 3)),
                     sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(3))),
           SHEAF_FLOAT32, SHEAF_SHAPE(0, 3), 0);
}

/* Every pair of strides over sizes that cross the pieces given to threads. */
static void broadcasts_large_arrays(void **state)
{
    (void)state;
    enum { M = 70, N = 1000 };
    static float m[M * N], row[N], column[M];
    for (int i = 0; i < M * N; i++)
        m[i] = (float)(i % 1009);
    for (int j = 0; j < N; j++)
        row[j] = (float)j;
    for (int i = 0; i < M; i++)
        column[i] = (float)(1000 * i);
    sheaf_tensor *a = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(M, N), m);
    sheaf_tensor *r = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(N), row);
    sheaf_tensor *c = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(M, 1), column);
    const float *ar = sheaf_tensor_data(sheaf_add(a, r)), *ca = sheaf_tensor_data(sheaf_sub(c, a));
    const float *cr = sheaf_tensor_data(sheaf_add(c, r)),
                *sa = sheaf_tensor_data(sheaf_sub(sheaf_float(1), a));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            assert_true(ar[i * N + j] == m[i * N + j] + row[j]);
            assert_true(ca[i * N + j] == column[i] - m[i * N + j]);
            assert_true(cr[i * N + j] == column[i] + row[j]);
            assert_true(sa[i * N + j] == 1 - m[i * N + j]);
        }
}

/* R4.20: true division of integers gives float64. */
static void divides_integers_truly_R4_20(void **state)
{
    (void)state;
    EXPECT(sheaf_div(I32(SHEAF_SHAPE(2), 7, -7), sheaf_int(2)), SHEAF_FLOAT64, SHEAF_SHAPE(2), 3.5,
           -3.5);
    EXPECT(sheaf_div(I64(SHEAF_SHAPE(1), 1), sheaf_long(4)), SHEAF_FLOAT64, SHEAF_SHAPE(1), .25);
    EXPECT(sheaf_div(I64(SHEAF_SHAPE(1), 1), sheaf_long(0)), SHEAF_FLOAT64, SHEAF_SHAPE(1),
           INFINITY);
}

static void compares(void **state)
{
    (void)state;
    EXPECT(sheaf_equal(I64(SHEAF_SHAPE(3), 1, 2, 3), I64(SHEAF_SHAPE(3), 1, 0, 3)), SHEAF_BOOL,
           SHEAF_SHAPE(3), 1, 0, 1);
    EXPECT(sheaf_equal(F32(SHEAF_SHAPE(2), NAN, 0), F32(SHEAF_SHAPE(2), NAN, -0.f)), SHEAF_BOOL,
           SHEAF_SHAPE(2), 0, 1);
    EXPECT(sheaf_equal(sheaf_bool(true), sheaf_bool(true)), SHEAF_BOOL, SHEAF_SCALAR, 1);
}

static void computes_functions(void **state)
{
    (void)state;
    sheaf_tensor *t = F64(SHEAF_SHAPE(3), -1, 0, 2);
    EXPECT(sheaf_neg(t), SHEAF_FLOAT64, SHEAF_SHAPE(3), 1, 0, -2);
    EXPECT(sheaf_square(t), SHEAF_FLOAT64, SHEAF_SHAPE(3), 1, 0, 4);
    EXPECT(sheaf_exp(t), SHEAF_FLOAT64, SHEAF_SHAPE(3), 0.36787944117, 1, 7.3890560989);
    EXPECT(sheaf_relu(t), SHEAF_FLOAT64, SHEAF_SHAPE(3), 0, 0, 2);
    EXPECT(sheaf_sigmoid(t), SHEAF_FLOAT64, SHEAF_SHAPE(3), 0.2689414214, .5, 0.8807970780);
    EXPECT(sheaf_tanh(t), SHEAF_FLOAT64, SHEAF_SHAPE(3), -0.7615941560, 0, 0.9640275801);
    EXPECT(sheaf_scale(t, 3, 1), SHEAF_FLOAT64, SHEAF_SHAPE(3), -2, 1, 7);
    EXPECT(sheaf_sqrt(F32(SHEAF_SHAPE(2), 4, 2)), SHEAF_FLOAT32, SHEAF_SHAPE(2), 2, 1.41421356);
    EXPECT(sheaf_log(F32(SHEAF_SHAPE(2), 1, 10)), SHEAF_FLOAT32, SHEAF_SHAPE(2), 0, 2.30258509);
    EXPECT(sheaf_relu(F32(SHEAF_SHAPE(2), NAN, -1)), SHEAF_FLOAT32, SHEAF_SHAPE(2), NAN, 0);
    EXPECT(sheaf_sigmoid(F32(SHEAF_SHAPE(2), -200, 200)), SHEAF_FLOAT32, SHEAF_SHAPE(2), 0, 1);
}

static void computes_integers(void **state)
{
    (void)state;
    sheaf_tensor *t = I32(SHEAF_SHAPE(3), -3, 0, INT32_MAX);
    EXPECT(sheaf_relu(t), SHEAF_INT32, SHEAF_SHAPE(3), 0, 0, INT32_MAX);
    EXPECT(sheaf_neg(t), SHEAF_INT32, SHEAF_SHAPE(3), 3, 0, -(double)INT32_MAX);
    EXPECT(sheaf_add(t, sheaf_int(1)), SHEAF_INT32, SHEAF_SHAPE(3), -2, 1, INT32_MIN); /* wraps */
    EXPECT(sheaf_scale(t, 2, 5), SHEAF_INT32, SHEAF_SHAPE(3), -1, 5, 3);
    EXPECT(sheaf_square(I64(SHEAF_SHAPE(1), 3000000000)), SHEAF_INT64, SHEAF_SHAPE(1), 9e18);
    EXPECT(sheaf_scale(I64(SHEAF_SHAPE(1), INT64_C(1) << 60), 2, 1), SHEAF_INT64, SHEAF_SHAPE(1),
           2.305843009213694e18);
}

static void casts_as_tensorflow(void **state)
{
    (void)state;
    EXPECT(sheaf_cast(F32(SHEAF_SHAPE(3), -1.9f, 1.9f, 0), SHEAF_INT32), SHEAF_INT32,
           SHEAF_SHAPE(3), -1, 1, 0);
    EXPECT(sheaf_cast(I64(SHEAF_SHAPE(2), 0, 7), SHEAF_BOOL), SHEAF_BOOL, SHEAF_SHAPE(2), 0, 1);
    EXPECT(sheaf_cast(sheaf_bool(true), SHEAF_FLOAT32), SHEAF_FLOAT32, SHEAF_SCALAR, 1);
    expect_failed(sheaf_cast(sheaf_float(1), SHEAF_STRING),
                  "cast: no conversion from float32 to string");
}

static void rounds_bfloat16_once(void **state)
{
    (void)state;
    sheaf_tensor *a = sheaf_cast(F32(SHEAF_SHAPE(2), 1, 3), SHEAF_BFLOAT16);
    sheaf_tensor *b = sheaf_cast(F32(SHEAF_SHAPE(2), 0.0078125f, 7), SHEAF_BFLOAT16);
    EXPECT(sheaf_add(a, b), SHEAF_BFLOAT16, SHEAF_SHAPE(2), 1.0078125, 10);
    EXPECT(sheaf_div(a, b), SHEAF_BFLOAT16, SHEAF_SHAPE(2), 128, 0.427734375);
    EXPECT(sheaf_exp(a), SHEAF_BFLOAT16, SHEAF_SHAPE(2), 2.71875, 20.125);
    EXPECT(sheaf_equal(a, a), SHEAF_BOOL, SHEAF_SHAPE(2), 1, 1);
}

static void names_what_does_not_fit(void **state)
{
    (void)state;
    sheaf_tensor *a = F32(SHEAF_SHAPE(2), 1, 2), *b = F32(SHEAF_SHAPE(3), 1, 2, 3);
    expect_failed(sheaf_add(a, b), "add: shapes (2,) and (3,) do not fit (dtype float32)");
    expect_failed(sheaf_mul(a, sheaf_int(1)), "mul: float32 of shape (2,) with int32 of shape ()");
    expect_failed(sheaf_exp(sheaf_int(1)),
                  "exp: dtype int32 of shape (), wanted float32, float64 or bfloat16");
    expect_failed(sheaf_add(sheaf_string("a"), sheaf_string("b")), "add: dtype string");
    expect_failed(sheaf_relu(NULL), "");
}

/* A failed input comes out as it is, and the frame keeps the first error. */
static void passes_failures_on(void **state)
{
    (void)state;
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        sheaf_tensor *bad = sheaf_add(F32(SHEAF_SHAPE(2), 1, 2), F32(SHEAF_SHAPE(3), 1, 2, 3));
        sheaf_tensor *later = sheaf_mul(sheaf_relu(bad), sheaf_int(1));
        expect_failed(later, "add: shapes");
        assert_int_equal(sheaf_frame_status(&err), SHEAF_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "add: shapes (2,) and (3,)"));
    }
}

/* Numbers below the normal ones are 0 to kernels, on any thread; the program's own arithmetic keeps them. */
static void flushes_the_smallest_numbers(void **state)
{
    (void)state;
    volatile float tiny = 1e-39f;
    sheaf_tensor *t =
        sheaf_mul(sheaf_fill(SHEAF_FLOAT32, SHEAF_SHAPE(100000), 1e-30), sheaf_float(1e-9f));
    const float *x = sheaf_tensor_data(t);
    for (int i = 0; i < 100000; i++)
        assert_true(x[i] == 0);
    sheaf_tensor *small = sheaf_mul(F32(SHEAF_SHAPE(1), 1e-30f), F32(SHEAF_SHAPE(1), 1e-9f));
    assert_true(*(const float *)sheaf_tensor_data(small) == 0);
    assert_true(tiny * 1.f != 0);
}

/* A view with gaps computes like the array it shows. */
static void reads_views(void **state)
{
    (void)state;
    sheaf_tensor *t = F32(SHEAF_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
    EXPECT(sheaf_add(sheaf_tensor_rows(t, 1, 3), F32(SHEAF_SHAPE(2), 10, 20)), SHEAF_FLOAT32,
           SHEAF_SHAPE(2, 2), 13, 24, 15, 26);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(adds_equal_shapes),
        rig_test(broadcasts_as_numpy),
        rig_test(broadcasts_large_arrays),
        rig_test(divides_integers_truly_R4_20),
        rig_test(compares),
        rig_test(computes_functions),
        rig_test(computes_integers),
        rig_test(casts_as_tensorflow),
        rig_test(rounds_bfloat16_once),
        rig_test(names_what_does_not_fit),
        rig_test(passes_failures_on),
        rig_test(flushes_the_smallest_numbers),
        rig_test(reads_views),
    };
    return rig_run(tests);
}
