/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

static void check(uint64_t seed, uint64_t seed2, const uint32_t *expected, size_t count)
{
    struct sheaf__philox p;
    sheaf__philox_init(&p, seed, seed2);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sheaf__philox_next(&p), expected[i]);
}

/* T9.2 (R9.4). */
static void t9_2_philox(void **state)
{
    (void)state;
    static const uint32_t a[] = {3878945999, 2364392915, 1057429302,
                                 168492509,  3082076531, 3674517586};
    static const uint32_t b[] = {1713891541, 3781805453, 3159862348, 2600524760};
    static const uint32_t c[] = {2985944072, 4132877644, 929418493,
                                 249609589,  146598941,  4149265688};
    check(1, 2, a, 6);
    check(0, 0, b, 4);
    check(87654321, 42, c, 6);
}

static void skips_blocks(void **state)
{
    (void)state;
    struct sheaf__philox a;
    struct sheaf__philox b;
    sheaf__philox_init(&a, 3, 4);
    sheaf__philox_init(&b, 3, 4);
    for (int i = 0; i < 4 * 7; i++)
        sheaf__philox_next(&a);
    sheaf__philox_next(&b); /* the begun block is dropped, it is the first of the seven */
    sheaf__philox_skip(&b, 6);
    assert_int_equal(sheaf__philox_next(&a), sheaf__philox_next(&b));
    /* The counter carries over all its words. */
    sheaf__philox_init(&a, 3, 4);
    sheaf__philox_skip(&a, UINT64_MAX);
    sheaf__philox_skip(&a, 1);
    sheaf__philox_init(&b, 3, 5);
    assert_int_equal(sheaf__philox_next(&a), sheaf__philox_next(&b));
}

/* T9.25 (R9.8): the sequence of op seeds for a global seed. */
static void t9_25_op_seeds(void **state)
{
    (void)state;
    static const struct {
        int64_t global;
        uint32_t x[4];
    } cases[] = {
        {0, {1654615998, 1806341205, 173879092, 1112038970}},
        {11, {1942955373, 1999951809, 1940605046, 815623033}},
        {(INT64_C(1) << 40) + 3, {943978446, 261273136, 406355048, 1306272805}},
    };
    for (size_t i = 0; i < 3; i++) {
        for (int again = 0; again < 2; again++) {
            sheaf_set_seed(cases[i].global); /* starts anew */
            for (int k = 0; k < 4; k++) {
                struct sheaf__seeds s = sheaf__random_seeds(false, 0);
                assert_int_equal(s.seed, (uint64_t)cases[i].global % 0x7fffffff);
                assert_int_equal(s.seed2, cases[i].x[k]);
            }
        }
    }
}

/* T9.24 (R9.8). */
static void t9_24_reduction(void **state)
{
    (void)state;
    assert_int_equal(sheaf__random_seeds(true, -5).seed, 87654321);
    assert_int_equal(sheaf__random_seeds(true, -5).seed2, 2147483642);
    assert_int_equal(sheaf__random_seeds(true, INT64_C(1) << 31).seed2, 1);
    assert_int_equal(sheaf__random_seeds(true, (INT64_C(1) << 40) + 3).seed2, 515);
    sheaf_set_seed(2147483647);
    assert_int_equal(sheaf__random_seeds(true, 7).seed, 0);
    assert_int_equal(sheaf__random_seeds(true, 7).seed2, 7);
    /* (0, 0) would mean "at random". */
    assert_int_equal(sheaf__random_seeds(true, 0).seed, 0);
    assert_int_equal(sheaf__random_seeds(true, 0).seed2, 2147483647);
    assert_int_equal(sheaf__random_reduce(-1, 2147483647).seed, 2147483646);
    assert_int_equal(sheaf__random_reduce(-1, 2147483647).seed2, 0);
}

static void no_seed_is_never_the_same(void **state)
{
    (void)state;
    struct sheaf__seeds a = sheaf__random_seeds(false, 0);
    struct sheaf__seeds b = sheaf__random_seeds(false, 0);
    assert_true(memcmp(&a, &b, sizeof(a)) != 0);
}

static void options_and_variable_give_the_seed(void **state)
{
    (void)state;
    static const char *const environment[] = {"SHEAF_SEED=11", NULL};
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    sheaf_context_options from_env = {.environment = environment};
    rig_ok(sheaf_context_new(&from_env, &context, &err), &err);
    sheaf_context *before = sheaf_context_enter(context);
    assert_int_equal(sheaf__random_seeds(false, 0).seed2, 1942955373);
    sheaf_context_enter(before);
    sheaf_context_free(context);
    sheaf_context_options zero = {.environment = environment, .has_seed = true};
    rig_ok(sheaf_context_new(&zero, &context, &err), &err);
    before = sheaf_context_enter(context);
    assert_int_equal(sheaf__random_seeds(false, 0).seed2, 1654615998);
    sheaf_context_enter(before);
    sheaf_context_free(context);
}

/* Of |seed| two words are taken: 2^32 + 2 is {2, 1}. */
static void mersenne_twister_takes_two_words(void **state)
{
    (void)state;
    struct sheaf__mt19937 a;
    struct sheaf__mt19937 b;
    sheaf__mt19937_init(&a, (INT64_C(1) << 32) + 2);
    sheaf__mt19937_init(&b, -((INT64_C(1) << 32) + 2));
    for (int i = 0; i < 2000; i++)
        assert_int_equal(sheaf__mt19937_next(&a), sheaf__mt19937_next(&b));
    /* Python: random.Random(2**32 + 2).getrandbits(32) five times. */
    static const uint32_t expected[] = {4106135923U, 3707026329U, 4070888059U, 3646664648U,
                                        242886303U};
    sheaf__mt19937_init(&a, (INT64_C(1) << 32) + 2);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(sheaf__mt19937_next(&a), expected[i]);
}

static void floats_have_their_moments(void **state)
{
    (void)state;
    enum { N = 40001 };
    static float v[N];
    struct sheaf__philox p;
    double sum = 0;
    double square = 0;
    sheaf__philox_init(&p, 1, 2);
    sheaf__philox_uniform(&p, v, N);
    /* The first is the low 23 bits of the first output (T9.2). */
    assert_true(v[0] == (float)(3878945999U & 0x7fffff) / 8388608.0f);
    for (int i = 0; i < N; i++) {
        assert_true(v[i] >= 0 && v[i] < 1);
        sum += v[i];
    }
    assert_true(fabs(sum / N - 0.5) < 0.01);
    sum = 0;
    sheaf__philox_normal(&p, v, N);
    for (int i = 0; i < N; i++) {
        sum += v[i];
        square += v[i] * v[i];
    }
    assert_true(fabs(sum / N) < 0.02);
    assert_true(fabs(square / N - 1) < 0.03);
    sheaf__philox_truncated_normal(&p, v, N);
    square = 0;
    for (int i = 0; i < N; i++) {
        assert_true(fabsf(v[i]) < 2);
        square += v[i] * v[i];
    }
    assert_true(fabs(square / N - 0.774) < 0.03); /* variance of a normal cut at two deviations */
}

static void below_is_fair(void **state)
{
    (void)state;
    struct sheaf__philox p;
    int counts[6] = {0};
    sheaf__philox_init(&p, 9, 9);
    for (int i = 0; i < 60000; i++)
        counts[sheaf__philox_below(&p, 6)]++;
    for (int i = 0; i < 6; i++)
        assert_true(counts[i] > 9600 && counts[i] < 10400);
    for (int i = 0; i < 100; i++)
        assert_int_equal(sheaf__philox_below(&p, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(t9_2_philox),
        rig_test(skips_blocks),
        rig_test(t9_25_op_seeds),
        rig_test(t9_24_reduction),
        rig_test(no_seed_is_never_the_same),
        rig_test(options_and_variable_give_the_seed),
        rig_test(mersenne_twister_takes_two_words),
        rig_test(floats_have_their_moments),
        rig_test(below_is_fair),
    };
    return rig_run(tests);
}
