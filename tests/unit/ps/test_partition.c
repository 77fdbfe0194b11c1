/* SPDX-License-Identifier: Apache-2.0 */

/* Into which parts variables are cut: R5.27-R5.34, R5.41. */

#include "rig.h"

#include "ps/partition.h"

static int64_t parts_of(sheaf_partitioner p, sheaf_dtype dtype, sheaf_shape shape)
{
    sheaf_error err = {0};
    int64_t parts = 0;
    rig_ok(sheaf__partitioner_check(&p, &err), &err);
    const sheaf_shape answer = p.fn(dtype, shape, p.args, p.user);
    assert_int_equal(answer.rank, shape.rank); /* R5.30 */
    for (int i = 1; i < answer.rank; i++)
        assert_int_equal(answer.dims[i], 1);
    rig_ok(sheaf__ps_parts(&p, dtype, shape, &parts, &err), &err);
    assert_int_equal(answer.dims[0], parts);
    return parts;
}

/* T5.5-T5.17 */
static void test_T5_5_partitioners(void **state)
{
    (void)state;
    const sheaf_partitioner *p;
    static const sheaf_dtype f32 = SHEAF_FLOAT32;
    const sheaf_shape tall = SHEAF_SHAPE(6, 1), wide = SHEAF_SHAPE(10, 3);
    const struct {
        sheaf_partitioner partitioner;
        sheaf_shape shape;
        int64_t parts;
    } cases[] = {
        {sheaf_partitioner_fixed(2), wide, 2},
        {sheaf_partitioner_fixed(10), SHEAF_SHAPE(3, 2), 3},
        {sheaf_partitioner_min_size(4, 2), tall, 2},
        {sheaf_partitioner_min_size(4, 10), tall, 6},
        {sheaf_partitioner_min_size(0, 10), tall, 1},
        {sheaf_partitioner_min_size(48, 100), wide, 3},
        {sheaf_partitioner_min_size(60, 2), wide, 2},
        {sheaf_partitioner_max_size(4, 0), tall, 6},
        {sheaf_partitioner_max_size(4, 2), tall, 2},
        {sheaf_partitioner_max_size(8, 0), tall, 3},
        {sheaf_partitioner_max_size(1024, 0), tall, 1},
        {sheaf_partitioner_max_size(24, 0), wide, 5},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        p = &cases[i].partitioner;
        assert_int_equal(parts_of(*p, f32, cases[i].shape), cases[i].parts);
    }
    assert_int_equal(parts_of(sheaf_partitioner_max_size(100, 0), SHEAF_FLOAT64, SHEAF_SHAPE(7, 5)),
                     4);
}

/* The default of MinSize is 256 KiB; what has no elements stays whole; more than 2^31 rows, and 2^31 parts */
static void test_partitioners_at_the_ends(void **state)
{
    (void)state;
    const sheaf_shape mebi = SHEAF_SHAPE(1024, 256), huge = SHEAF_SHAPE(INT64_C(5) << 31, 16);
    assert_int_equal(parts_of(sheaf_partitioner_min_size(0, 100), SHEAF_FLOAT32, mebi), 4);
    const sheaf_shape none[] = {SHEAF_SHAPE(0), SHEAF_SHAPE(0, 3), SHEAF_SHAPE(3, 0)};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
        assert_int_equal(parts_of(sheaf_partitioner_min_size(4, 9), SHEAF_INT8, none[i]), 1);
        assert_int_equal(parts_of(sheaf_partitioner_max_size(4, 9), SHEAF_INT8, none[i]), 1);
    }
    assert_int_equal(parts_of(sheaf_partitioner_fixed(4), SHEAF_INT8, none[0]), 1);
    assert_int_equal(parts_of(sheaf_partitioner_max_size(320, 0), SHEAF_FLOAT32, huge), INT64_C(1)
                                                                                            << 31);
    assert_int_equal(
        parts_of(sheaf_partitioner_min_size(INT64_C(1) << 31, 1000), SHEAF_FLOAT32, huge), 320);
    assert_int_equal(sheaf__ps_first_row(INT64_C(5) << 31, 7, 6), 9203501349);
    assert_int_equal(sheaf__ps_part_of(INT64_C(5) << 31, 7, 9203501349), 6);
    assert_int_equal(sheaf__ps_part_of(INT64_C(5) << 31, 7, 9203501348), 5);
}

static void refuse_arguments(sheaf_partitioner p, const char *message)
{
    sheaf_error err = {0};
    rig_fails(sheaf__partitioner_check(&p, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, message);
}

/* R5.28, R5.29: what the arguments must not be */
static void test_R5_28_arguments(void **state)
{
    (void)state;
    refuse_arguments(sheaf_partitioner_fixed(0), "of 0 parts, expected at least 1");
    refuse_arguments(sheaf_partitioner_min_size(-1, 2), "of -1 bytes, expected at least 1");
    refuse_arguments(sheaf_partitioner_min_size(4, 0), "at most 0 parts, expected at least 1");
    refuse_arguments(sheaf_partitioner_max_size(0, 2), "of 0 bytes, expected at least 1");
    refuse_arguments(sheaf_partitioner_max_size(4, -1), "at most -1 parts, expected at least 0");
}

static sheaf_shape given(sheaf_dtype dtype, sheaf_shape shape, const int64_t *args, void *user)
{
    (void)dtype;
    (void)shape;
    (void)args;
    return *(const sheaf_shape *)user;
}

/* R5.33: one number, not zero, then ones; no less */
static void test_R5_33_answers(void **state)
{
    (void)state;
    sheaf_error err = {0};
    int64_t parts;
    const sheaf_shape shape = SHEAF_SHAPE(10, 3);
    sheaf_shape good[] = {SHEAF_SHAPE(4, 1), SHEAF_SHAPE(4), SHEAF_SHAPE(99, 1)};
    static const int64_t expected[] = {4, 4, 10};
    sheaf_shape bad[] = {SHEAF_SCALAR,       SHEAF_SHAPE(0, 1), SHEAF_SHAPE(2, 2),
                         SHEAF_SHAPE(-2, 1), SHEAF_SHAPE(2, 0), {.rank = SHEAF_UNKNOWN_RANK}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        const sheaf_partitioner p = {.fn = given, .user = &good[i]};
        rig_ok(sheaf__ps_parts(&p, SHEAF_INT8, shape, &parts, &err), &err);
        assert_int_equal(parts, expected[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const sheaf_partitioner p = {.fn = given, .user = &bad[i]};
        rig_fails(sheaf__ps_parts(&p, SHEAF_INT8, shape, &parts, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, "the partitioner's answer for shape (10, 3) is");
    }
}

/* R5.32: it is not asked about scalars */
static void test_R5_32_scalars(void **state)
{
    (void)state;
    sheaf_error err = {0};
    int64_t parts;
    sheaf_shape bad = SHEAF_SCALAR;
    const sheaf_partitioner p = {.fn = given, .user = &bad};
    rig_ok(sheaf__ps_parts(&p, SHEAF_INT8, SHEAF_SCALAR, &parts, &err), &err);
    assert_int_equal(parts, 1);
}

static void expect_rows(int64_t rows, int64_t parts, const int64_t *expected)
{
    for (int64_t i = 0, first = 0; i < parts; i++) {
        assert_int_equal(sheaf__ps_first_row(rows, parts, i), first);
        assert_int_equal(sheaf__ps_first_row(rows, parts, i + 1) - first, expected[i]);
        for (int64_t row = first; row < first + expected[i]; row++)
            assert_int_equal(sheaf__ps_part_of(rows, parts, row), i);
        first += expected[i];
    }
    assert_int_equal(sheaf__ps_first_row(rows, parts, parts), rows);
}

/* T5.18 and S173: 13 rows over 5 */
static void test_T5_18_rows(void **state)
{
    (void)state;
    expect_rows(10, 4, (const int64_t[]){3, 3, 2, 2});
    expect_rows(10, 3, (const int64_t[]){4, 3, 3});
    expect_rows(7, 2, (const int64_t[]){4, 3});
    expect_rows(9, 4, (const int64_t[]){3, 2, 2, 2});
    expect_rows(3, 3, (const int64_t[]){1, 1, 1});
    expect_rows(13, 5, (const int64_t[]){3, 3, 3, 2, 2});
}

/* T5.20, T5.21 */
static void test_T5_20_owners(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, parts, row, part, local;
    } cases[] = {
        {10, 4, 0, 0, 0},   {10, 4, 2, 0, 2},  {10, 4, 3, 1, 0},   {10, 4, 5, 1, 2},
        {10, 4, 6, 2, 0},   {10, 4, 7, 2, 1},  {10, 4, 8, 3, 0},   {10, 4, 9, 3, 1},
        {32, 3, 10, 0, 10}, {32, 3, 11, 1, 0}, {32, 3, 21, 1, 10}, {32, 3, 22, 2, 0},
        {32, 3, 31, 2, 9},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const int64_t part = sheaf__ps_part_of(cases[i].rows, cases[i].parts, cases[i].row);
        assert_int_equal(part, cases[i].part);
        assert_int_equal(cases[i].row - sheaf__ps_first_row(cases[i].rows, cases[i].parts, part),
                         cases[i].local);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_T5_5_partitioners), rig_test(test_partitioners_at_the_ends),
        rig_test(test_R5_28_arguments),   rig_test(test_R5_33_answers),
        rig_test(test_R5_32_scalars),     rig_test(test_T5_18_rows),
        rig_test(test_T5_20_owners),
    };
    return rig_run(tests);
}
