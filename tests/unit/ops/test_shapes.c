/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, movements, look-ups, constants, losses: values and messages. */
#include "rig.h"

#include "ops_help.h"

static sheaf_tensor *cube(void)
{
    return sheaf_cast(sheaf_reshape(sheaf_range(0, 24, 1), SHEAF_SHAPE(2, 3, 4)), SHEAF_FLOAT32);
}

static void reduces_every_axis(void **state)
{
    (void)state;
    sheaf_tensor *t = cube();
    EXPECT(sheaf_sum(t), SHEAF_FLOAT32, SHEAF_SCALAR, 276);
    EXPECT(sheaf_mean(t), SHEAF_FLOAT32, SHEAF_SCALAR, 11.5);
    EXPECT(sheaf_reduce_sum(t, (int[]){0}, 1), SHEAF_FLOAT32, SHEAF_SHAPE(3, 4), 12, 14, 16, 18, 20,
           22, 24, 26, 28, 30, 32, 34);
    EXPECT(sheaf_reduce_sum(t, (int[]){1}, 1), SHEAF_FLOAT32, SHEAF_SHAPE(2, 4), 12, 15, 18, 21, 48,
           51, 54, 57);
    EXPECT(sheaf_reduce_sum(t, (int[]){-1}, 1), SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), 6, 22, 38, 54, 70,
           86);
    EXPECT(sheaf_reduce_sum(t, (int[]){0, 2}, 2), SHEAF_FLOAT32, SHEAF_SHAPE(3), 60, 92, 124);
    EXPECT(sheaf_reduce_mean(t, (int[]){0, -1}, 2), SHEAF_FLOAT32, SHEAF_SHAPE(3), 7.5, 11.5, 15.5);
    EXPECT(sheaf_reduce_mean(t, (int[]){1, 2}, 2), SHEAF_FLOAT32, SHEAF_SHAPE(2), 5.5, 17.5);
    EXPECT(sheaf_reduce_sum(F32(SHEAF_SHAPE(2), 1, 2), (int[]){0}, 0), SHEAF_FLOAT32,
           SHEAF_SHAPE(2), 1, 2);
    expect_failed(sheaf_reduce_sum(t, (int[]){3}, 1), "reduce_sum: axis 3 of shape (2, 3, 4)");
}

static void reduces_integers_and_nothing(void **state)
{
    (void)state;
    EXPECT(sheaf_sum(I64(SHEAF_SHAPE(2), INT64_C(1) << 62, 5)), SHEAF_INT64, SHEAF_SCALAR,
           4611686018427387909.0);
    EXPECT(sheaf_mean(I32(SHEAF_SHAPE(2), -3, -4)), SHEAF_INT32, SHEAF_SCALAR,
           -3); /* toward zero */
    EXPECT(sheaf_sum(sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0))), SHEAF_FLOAT32, SHEAF_SCALAR, 0);
    EXPECT(sheaf_mean(sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0))), SHEAF_FLOAT32, SHEAF_SCALAR,
           NAN);
    EXPECT(sheaf_reduce_sum(sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0, 2)), (int[]){0}, 1),
           SHEAF_FLOAT32, SHEAF_SHAPE(2), 0, 0);
}

/* Sums of many floats stay exact to a float's last digit. */
static void sums_long_rows(void **state)
{
    (void)state;
    enum { N = 1000003 };
    sheaf_tensor *t = sheaf_fill(SHEAF_FLOAT32, SHEAF_SHAPE(N), 0.1);
    EXPECT(sheaf_sum(t), SHEAF_FLOAT32, SHEAF_SCALAR, N * (double)0.1f);
    sheaf_tensor *columns =
        sheaf_reshape(sheaf_tensor_rows(t, 0, 1000000), SHEAF_SHAPE(100000, 10));
    double tenth = 100000 * (double)0.1f;
    EXPECT(sheaf_reduce_sum(columns, (int[]){0}, 1), SHEAF_FLOAT32, SHEAF_SHAPE(10), tenth, tenth,
           tenth, tenth, tenth, tenth, tenth, tenth, tenth, tenth);
}

static void finds_the_first_largest(void **state)
{
    (void)state;
    sheaf_tensor *t = F32(SHEAF_SHAPE(2, 3), 1, 5, 5, 7, 2, 7);
    EXPECT(sheaf_argmax(t, 1), SHEAF_INT64, SHEAF_SHAPE(2), 1, 0);
    EXPECT(sheaf_argmax(t, 0), SHEAF_INT64, SHEAF_SHAPE(3), 1, 0, 1);
    EXPECT(sheaf_argmax(t, -1), SHEAF_INT64, SHEAF_SHAPE(2), 1, 0);
    EXPECT(
        sheaf_argmax(
            F32(SHEAF_SHAPE(4, 3), NAN, 1, NAN, NAN, NAN, NAN, 1, NAN, 2, NAN, -INFINITY, -1), 1),
        SHEAF_INT64, SHEAF_SHAPE(4), 1, 0, 2, 2);
    expect_failed(sheaf_argmax(t, 2), "argmax: axis 2 of shape (2, 3)");
    expect_failed(sheaf_argmax(sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2, 0)), 1), "is empty");
}

static void moves_elements(void **state)
{
    (void)state;
    sheaf_tensor *t = I32(SHEAF_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    EXPECT(sheaf_transpose(t), SHEAF_INT32, SHEAF_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
    EXPECT(sheaf_reshape(t, SHEAF_SHAPE(-1, 2)), SHEAF_INT32, SHEAF_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
    assert_ptr_equal(sheaf_tensor_data(sheaf_reshape(t, SHEAF_SHAPE(6))), sheaf_tensor_data(t));
    expect_failed(sheaf_reshape(t, SHEAF_SHAPE(4, -1)), "reshape: 6 elements of shape (2, 3)");
    expect_failed(sheaf_reshape(t, SHEAF_SHAPE(7)), "do not fit shape (7,)");
    sheaf_tensor *more = I32(SHEAF_SHAPE(2, 1), 7, 8);
    EXPECT(sheaf_concat((sheaf_tensor *[]){t, more, t}, 3, -1), SHEAF_INT32, SHEAF_SHAPE(2, 7), 1,
           2, 3, 7, 1, 2, 3, 4, 5, 6, 8, 4, 5, 6);
    EXPECT(sheaf_concat((sheaf_tensor *[]){t, t}, 2, 0), SHEAF_INT32, SHEAF_SHAPE(4, 3), 1, 2, 3, 4,
           5, 6, 1, 2, 3, 4, 5, 6);
    expect_failed(sheaf_concat(NULL, 2, 0), "concat: no tensors");
    expect_failed(sheaf_concat((sheaf_tensor *[]){t, more}, 2, 0),
                  "concat: shapes (2, 3) and (2, 1) (input 1)");
    expect_failed(sheaf_concat((sheaf_tensor *[]){t, sheaf_cast(more, SHEAF_INT64)}, 2, 1),
                  "concat: int32");
}

static void looks_up_rows(void **state)
{
    (void)state;
    sheaf_tensor *table = F32(SHEAF_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
    EXPECT(sheaf_gather(table, I32(SHEAF_SHAPE(2, 2), 2, 0, 1, 2)), SHEAF_FLOAT32,
           SHEAF_SHAPE(2, 2, 2), 5, 6, 1, 2, 3, 4, 5, 6);
    EXPECT(sheaf_gather(table, sheaf_long(1)), SHEAF_FLOAT32, SHEAF_SHAPE(2), 3, 4);
    expect_failed(sheaf_gather(table, I64(SHEAF_SHAPE(2), 0, 3)),
                  "gather: id 3 (element 1) is not one of the 3 rows");
    expect_failed(sheaf_gather(table, sheaf_long(-1)), "gather: id -1");
    expect_failed(sheaf_gather(table, sheaf_float(1)), "ids float32");
}

/* TensorFlow refuses such a range for integers alone, and makes NaN of floats. */
static void refuses_to_draw(void **state)
{
    (void)state;
    const sheaf_shape two = SHEAF_SHAPE(2);
    expect_failed(
        sheaf_random_uniform(SHEAF_FLOAT32, two, 1, 0, 1),
        "random_uniform: uniform in [1, 0), expected low <= high, a finite range of float32");
    expect_failed(sheaf_random_uniform(SHEAF_FLOAT64, two, 0, NAN, 1), "[0, nan)");
    expect_failed(sheaf_random_uniform(SHEAF_FLOAT64, two, -INFINITY, 0, 1), "[-inf, 0)");
    expect_failed(sheaf_random_uniform(SHEAF_FLOAT32, two, -3e38, 3e38, 1), "[-3e+38, 3e+38)");
    expect_failed(sheaf_random_uniform(SHEAF_FLOAT16, two, 0, 1e5, 1), "range of float16");
    expect_failed(sheaf_random_normal(SHEAF_FLOAT32, two, 0, -1, 1),
                  "random_normal: normal with mean 0 and deviation -1, expected finite numbers of "
                  "float32, the deviation 0 or more");
    expect_failed(sheaf_random_normal(SHEAF_FLOAT32, two, NAN, 1, 1), "mean nan");
    expect_failed(sheaf_random_normal(SHEAF_FLOAT32, two, 0, 1e40, 1), "deviation 1e+40");
    EXPECT(sheaf_random_uniform(SHEAF_FLOAT32, two, 3, 3, 1), SHEAF_FLOAT32, two, 3, 3);
    EXPECT(sheaf_random_normal(SHEAF_FLOAT64, two, 3, 0, 1), SHEAF_FLOAT64, two, 3, 3);
    expect_numbers(sheaf_scale(sheaf_random_uniform(SHEAF_FLOAT64, two, -3e38, 3e38, 1), 0, 0),
                   SHEAF_FLOAT64, two, (const double[]){0, 0}, 0);
}

static void makes_constants(void **state)
{
    (void)state;
    EXPECT(sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(2)), SHEAF_INT64, SHEAF_SHAPE(2), 0, 0);
    EXPECT(sheaf_ones(SHEAF_BOOL, SHEAF_SHAPE(2)), SHEAF_BOOL, SHEAF_SHAPE(2), 1, 1);
    EXPECT(sheaf_fill(SHEAF_BFLOAT16, SHEAF_SCALAR, 2.5), SHEAF_BFLOAT16, SHEAF_SCALAR, 2.5);
    EXPECT(sheaf_range(2, 9, 3), SHEAF_INT64, SHEAF_SHAPE(3), 2, 5, 8);
    EXPECT(sheaf_range(3, 0, -2), SHEAF_INT64, SHEAF_SHAPE(2), 3, 1);
    EXPECT(sheaf_range(3, 0, 1), SHEAF_INT64, SHEAF_SHAPE(0), 0);
    EXPECT(sheaf_range(INT64_MIN, INT64_MAX, INT64_MAX), SHEAF_INT64, SHEAF_SHAPE(3),
           (double)INT64_MIN, -1, (double)(INT64_MAX - 1));
    expect_failed(sheaf_range(0, 1, 0), "range: step 0");
    expect_failed(sheaf_zeros(SHEAF_STRING, SHEAF_SHAPE(2)), "fill: no numbers of dtype string");
    expect_failed(sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(-1)), "");
}

static void draws_numbers(void **state)
{
    (void)state;
    const float *u =
        sheaf_tensor_data(sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE(40000), -1, 3, 7));
    const float *again =
        sheaf_tensor_data(sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE(40000), -1, 3, 7));
    double sum = 0, normal_sum = 0, squares = 0;
    for (int i = 0; i < 40000; i++) {
        assert_true(u[i] >= -1 && u[i] < 3 && u[i] == again[i]);
        sum += u[i];
    }
    assert_true(fabs(sum / 40000 - 1) < .03);
    sheaf_tensor *n = sheaf_random_normal(SHEAF_FLOAT64, SHEAF_SHAPE(40000), 5, 2, 3);
    for (int i = 0; i < 40000; i++) {
        double z = (sheaf_tensor_number(n, i) - 5) / 2;
        normal_sum += z;
        squares += z * z;
    }
    assert_true(fabs(normal_sum / 40000) < .02 && fabs(squares / 40000 - 1) < .03);
    sheaf_set_seed(1);
    double first =
        sheaf_tensor_number(sheaf_random_uniform(SHEAF_FLOAT64, SHEAF_SCALAR, 0, 1, 0), 0);
    double second =
        sheaf_tensor_number(sheaf_random_uniform(SHEAF_FLOAT64, SHEAF_SCALAR, 0, 1, 0), 0);
    sheaf_set_seed(1);
    assert_true(first ==
                sheaf_tensor_number(sheaf_random_uniform(SHEAF_FLOAT64, SHEAF_SCALAR, 0, 1, 0), 0));
    assert_true(first != second);
}

static void computes_losses(void **state)
{
    (void)state;
    sheaf_tensor *z = F32(SHEAF_SHAPE(2, 3), 1, 2, 3, 1000, 1000, -1000);
    EXPECT(sheaf_softmax(z), SHEAF_FLOAT32, SHEAF_SHAPE(2, 3), 0.09003057, 0.24472847, 0.66524096,
           .5, .5, 0);
    EXPECT(sheaf_sparse_softmax_cross_entropy(I32(SHEAF_SHAPE(2), 0, 1), z), SHEAF_FLOAT32,
           SHEAF_SHAPE(2), 2.40760596, 0.69314718);
    EXPECT(sheaf_softmax_cross_entropy(F32(SHEAF_SHAPE(2, 3), 0, .5f, .5f, 1, 0, 0), z),
           SHEAF_FLOAT32, SHEAF_SHAPE(2), 0.90760596, 0.69314718);
    EXPECT(
        sheaf_sigmoid_cross_entropy(F32(SHEAF_SHAPE(3), 1, 0, 1), F32(SHEAF_SHAPE(3), 2, 2, -100)),
        SHEAF_FLOAT32, SHEAF_SHAPE(3), 0.12692801, 2.12692801, 100);
    EXPECT(sheaf_sparse_softmax_cross_entropy(sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(0)),
                                              sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(0, 3))),
           SHEAF_FLOAT32, SHEAF_SHAPE(0), 0);
    sheaf_tensor *half = sheaf_cast(z, SHEAF_BFLOAT16);
    expect_numbers(sheaf_softmax(half), SHEAF_BFLOAT16, SHEAF_SHAPE(2, 3),
                   (double[]){0.09003057, 0.24472847, 0.66524096, .5, .5, 0}, 4e-3);
    expect_failed(sheaf_sparse_softmax_cross_entropy(I32(SHEAF_SHAPE(2), 0, 3), z),
                  "label 3 of row 1 is not one of the 3 classes");
    expect_failed(sheaf_sparse_softmax_cross_entropy(I32(SHEAF_SHAPE(3), 0, 1, 2), z),
                  "labels int32 of shape (3,)");
    expect_failed(sheaf_softmax_cross_entropy(F32(SHEAF_SHAPE(1, 3), 0, 1, 0), z),
                  "labels of shape (1, 3)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(reduces_every_axis), rig_test(reduces_integers_and_nothing),
        rig_test(sums_long_rows),     rig_test(finds_the_first_largest),
        rig_test(moves_elements),     rig_test(looks_up_rows),
        rig_test(makes_constants),    rig_test(draws_numbers),
        rig_test(refuses_to_draw),    rig_test(computes_losses),
    };
    return rig_run(tests);
}
