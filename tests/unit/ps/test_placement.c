/* SPDX-License-Identifier: Apache-2.0 */

/* Which server holds a variable: R5.44, R5.47, T5.22-T5.24. */

#include "rig.h"

#include "ps/placement.h"

/* T5.22: a plain -> 0, b in three parts -> 1, 0, 1, c -> 0 */
static void test_T5_22_round_robin(void **state)
{
    (void)state;
    static const int expected[] = {0, 1, 0, 1, 0};
    for (uint32_t n = 0; n < 5; n++)
        assert_int_equal(sheaf__ps_round_robin(n, 2), expected[n]);
}

static void expect_greedy(int servers, const uint64_t *sizes, const int *expected, size_t count,
                          const uint64_t *final)
{
    uint64_t loads[8] = {0};
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sheaf__ps_greedy(loads, servers, sizes[i]), expected[i]);
    for (int s = 0; s < servers; s++)
        assert_int_equal(loads[s], final[s]);
}

static void test_T5_23_greedy_by_bytes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {16, 8, 16, 12}, final[] = {28, 24};
    static const int expected[] = {0, 1, 1, 0};
    expect_greedy(2, sizes, expected, 4, final);
}

static void test_T5_24_greedy_three_tasks(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {10, 7, 4, 4, 4, 1, 9}, final[] = {10, 11, 18};
    static const int expected[] = {0, 1, 2, 2, 1, 2, 2};
    expect_greedy(3, sizes, expected, 7, final);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_T5_22_round_robin),
        rig_test(test_T5_23_greedy_by_bytes),
        rig_test(test_T5_24_greedy_three_tasks),
    };
    return rig_run(tests);
}
