/* SPDX-License-Identifier: Apache-2.0 */

/* sheaf_reduce and sheaf_gather_values: S74-S80, R4.19-R4.30, T4.1-T4.6, T4.10. */

#include "helpers.h"

#include <math.h>
#include <string.h>

static const float numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
static const int full[] = {4, 4}, partial[] = {4, 2};
static const int first_axis[] = {0}, last_axis[] = {-1};

static sheaf_tensor *reduce(sheaf_strategy *s, sheaf_reduce_op op, const sheaf_values *v,
                            const int *axes)
{
    sheaf_error err = {0};
    sheaf_element *out = NULL;
    rig_ok(sheaf_reduce(s, op, v, axes, axes ? 1 : 0, &out, &err), &err);
    return only(out);
}

/* S74, S75, T4.2 */
static void test_T4_2_sum_and_mean(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(2);
    const sheaf_values *v = floats(numbers, full, 2);
    assert_floats(reduce(s, SHEAF_REDUCE_SUM, v, NULL), 4, 6, 8, 10);
    assert_floats(reduce(s, SHEAF_REDUCE_MEAN, v, NULL), 2, 3, 4, 5);
    assert_floats(reduce(s, SHEAF_REDUCE_SUM, v, first_axis), 28);
    assert_floats(reduce(s, SHEAF_REDUCE_SUM, v, last_axis), 28);
    assert_floats(reduce(s, SHEAF_REDUCE_MEAN, v, first_axis), 3.5);
    sheaf_strategy_free(s);
}

/* S80: several axes, in any order, counted from either end */
static void test_S80_axes(void **state)
{
    (void)state;
    static const struct {
        int axes[2];
        size_t count;
        float sums[3];
        size_t sizes;
    } cases[] = {
        {{0}, 1, {30, 34, 38}, 3}, {{-2}, 1, {30, 34, 38}, 3}, {{1}, 1, {42, 60}, 2},
        {{-1}, 1, {42, 60}, 2},    {{0, 1}, 2, {102}, 1},      {{-1, 0}, 2, {102}, 1},
        {{1, -2}, 2, {102}, 1},
    };
    sheaf_error err = {0};
    sheaf_element *out = NULL, *parts[2];
    sheaf_strategy *s = mirrored(2);
    for (int r = 0; r < 2; r++) { /* 0..5 and 12..17 as (2, 3) */
        sheaf_tensor *t = sheaf_cast(sheaf_range(12 * r, 12 * r + 6, 1), SHEAF_FLOAT32);
        parts[r] = sheaf_element_of(sheaf_reshape(t, SHEAF_SHAPE(2, 3)));
    }
    sheaf_values *v = sheaf_values_per_replica(parts, 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rig_ok(sheaf_reduce(s, SHEAF_REDUCE_SUM, v, cases[i].axes, cases[i].count, &out, &err),
               &err);
        assert_floats_at(only(out), cases[i].sums, cases[i].sizes, __FILE__, __LINE__);
    }
    rig_ok(sheaf_reduce(s, SHEAF_REDUCE_MEAN, v, cases[4].axes, 2, &out, &err), &err);
    assert_floats(only(out), 8.5);
    assert_int_equal(sheaf_reduce(s, SHEAF_REDUCE_SUM, v, (int[]){2}, 1, &out, &err),
                     SHEAF_ERR_INVALID_ARGUMENT);
    rig_fails(sheaf_reduce(s, SHEAF_REDUCE_MEAN, v, (int[]){0, -2}, 2, &out, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "axis -2 is given twice");
    sheaf_strategy_free(s);
}

/* S76, S77, T4.1 */
static void test_T4_1_partial_batches(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_element *out;
    sheaf_strategy *s = mirrored(2);
    const sheaf_values *v = floats(numbers, partial, 2);
    rig_fails(sheaf_reduce(s, SHEAF_REDUCE_SUM, v, NULL, 0, &out, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "(4,)");
    rig_fails(sheaf_reduce(s, SHEAF_REDUCE_SUM, v, NULL, 0, &out, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "(2,)");
    assert_floats(reduce(s, SHEAF_REDUCE_SUM, v, first_axis), 15);
    assert_floats(reduce(s, SHEAF_REDUCE_MEAN, v, first_axis), 2.5);
    sheaf_strategy_free(s);
}

/* T4.3, T4.4: empty parts add nothing; nothing at all has no mean */
static void test_T4_3_empty_parts(void **state)
{
    (void)state;
    static const int one_empty[] = {0, 1}, all_empty[] = {0, 0};
    const float eight[] = {8};
    sheaf_strategy *s = mirrored(2);
    assert_floats(reduce(s, SHEAF_REDUCE_SUM, floats(eight, one_empty, 2), first_axis), 8);
    assert_floats(reduce(s, SHEAF_REDUCE_MEAN, floats(eight, one_empty, 2), first_axis), 8);
    assert_floats(reduce(s, SHEAF_REDUCE_MEAN, floats(eight, all_empty, 2), first_axis), NAN);
    sheaf_strategy_free(s);
}

/* S79, R4.20: MEAN of integers is float64; SUM keeps the dtype; bool is refused */
static void test_S79_dtypes(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_element *out;
    sheaf_strategy *s = mirrored(2);
    sheaf_element *ints[] = {sheaf_element_of(sheaf_int(1)), sheaf_element_of(sheaf_int(2))};
    sheaf_element *bools[] = {sheaf_element_of(sheaf_bool(true)),
                              sheaf_element_of(sheaf_bool(false))};
    sheaf_tensor *sum = reduce(s, SHEAF_REDUCE_SUM, sheaf_values_per_replica(ints, 2), NULL);
    sheaf_tensor *mean = reduce(s, SHEAF_REDUCE_MEAN, sheaf_values_per_replica(ints, 2), NULL);
    assert_int_equal(sheaf_tensor_dtype(sum), SHEAF_INT32);
    assert_int_equal(sheaf_tensor_integer(sum, 0), 3);
    assert_int_equal(sheaf_tensor_dtype(mean), SHEAF_FLOAT64);
    assert_true(sheaf_tensor_number(mean, 0) == 1.5);
    assert_int_equal(
        sheaf_reduce(s, SHEAF_REDUCE_SUM, sheaf_values_per_replica(bools, 2), NULL, 0, &out, &err),
        SHEAF_ERR_INVALID_ARGUMENT);
    sheaf_strategy_free(s);
}

/* S79, R4.19: unknown ops */
static void test_S79_unknown_op(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_element *out;
    sheaf_reduce_op op;
    sheaf_strategy *s = mirrored(1);
    rig_ok(sheaf_reduce_op_named("Mean", &op, &err), &err);
    assert_int_equal(op, SHEAF_REDUCE_MEAN);
    rig_fails(sheaf_reduce_op_named("max", &op, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "max");
    rig_fails(sheaf_reduce(s, (sheaf_reduce_op)3, sheaf_values_tensor(sheaf_float(1)), NULL, 0,
                           &out, &err),
              &err, SHEAF_ERR_INVALID_ARGUMENT, "3");
    sheaf_strategy_free(s);
}

/* T4.5, T4.10, R4.25: values that are not distributed */
static void test_T4_5_plain_values(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_element *out;
    const float pair[] = {1, 3};
    sheaf_strategy *s = mirrored(2);
    sheaf_values *zero = sheaf_values_tensor(sheaf_plain(sheaf_int(0)));
    sheaf_values *one = sheaf_values_tensor(sheaf_float(1));
    sheaf_values *two = sheaf_values_tensor(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), pair));
    assert_floats(reduce(s, SHEAF_REDUCE_SUM, zero, NULL), 0);
    rig_fails(sheaf_reduce(s, SHEAF_REDUCE_SUM, one, NULL, 0, &out, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "not distributed");
    assert_floats(reduce(s, SHEAF_REDUCE_MEAN, one, NULL), 1);
    assert_floats(reduce(s, SHEAF_REDUCE_SUM, two, first_axis), 8);
    assert_floats(reduce(s, SHEAF_REDUCE_MEAN, two, first_axis), 2);
    sheaf_strategy_free(s);
}

/* T4.6, R4.29 */
static void test_T4_6_gather(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_element *out;
    const float rows[] = {1, 2, 3, 4, 5, 6};
    sheaf_strategy *s = mirrored(2);
    sheaf_element *parts[] = {
        sheaf_element_of(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1, 2), rows)),
        sheaf_element_of(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), rows + 2))};
    sheaf_values *v = sheaf_values_per_replica(parts, 2);
    rig_fails(sheaf_gather_values(s, NULL, 0, &out, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "sheaf_gather_values: the value is NULL");
    rig_ok(sheaf_gather_values(s, v, 0, &out, &err), &err);
    assert_floats(only(out), 1, 2, 3, 4, 5, 6);
    assert_int_equal(sheaf_gather_values(s, v, 1, &out, &err), SHEAF_ERR_INVALID_ARGUMENT);
    sheaf_strategy_free(s);
}

static sheaf_status reduce_inside(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                  void *user)
{
    sheaf_error *err = user;
    sheaf_element *e;
    (void)in;
    (void)out;
    return sheaf_reduce(sheaf_replica_strategy(r), SHEAF_REDUCE_MEAN,
                        sheaf_values_tensor(sheaf_float(1)), NULL, 0, &e, err) < 0
               ? SHEAF_OK
               : SHEAF_ERR_INTERNAL;
}

/* R4.19: cross-replica context only */
static void test_R4_19_in_a_replica(void **state)
{
    (void)state;
    sheaf_error err = {0}, inside = {0};
    sheaf_strategy *s = mirrored(1);
    rig_ok(sheaf_run(s, reduce_inside, &inside, NULL, NULL, &err), &err);
    assert_int_equal(inside.status, SHEAF_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(inside.message, "sheaf_merge_call"));
    sheaf_strategy_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_T4_2_sum_and_mean), rig_test(test_T4_1_partial_batches),
        rig_test(test_T4_3_empty_parts),  rig_test(test_S79_dtypes),
        rig_test(test_S79_unknown_op),    rig_test(test_T4_5_plain_values),
        rig_test(test_T4_6_gather),       rig_test(test_R4_19_in_a_replica),
        rig_test(test_S80_axes),
    };
    return rig_run(tests);
}
