/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in text, as TensorFlow's CSV takes them (R9.36). */
#include "rig.h"

#include "base/number.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool to_int(const char *text, int64_t *value)
{
    return sheaf__number_int(text, strlen(text), INT64_MIN, INT64_MAX, value);
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"5", 5},
                {"+5", 5},
                {"-5", -5},
                {"010", 10},
                {"-0", 0},
                {"  7\t", 7},
                {"\v7\f", 7},
                {"\n7\r", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"00000000000000000000000000001", 1}};
    static const char *const bad[] = {"",
                                      " ",
                                      "-",
                                      "+",
                                      "- 5",
                                      "+-5",
                                      "--5",
                                      "0x10",
                                      "1_000",
                                      "1e3",
                                      "5.",
                                      "7 8",
                                      "\xa0"
                                      "7",
                                      "1.0",
                                      "٣",
                                      "inf",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999",
                                      "184467440737095516170"};
    int64_t value;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(to_int(good[i].text, &value));
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (to_int(bad[i], &value))
            fail_msg("\"%s\" was taken for %lld", bad[i], (long long)value);
    assert_false(sheaf__number_int("7\0", 2, INT64_MIN, INT64_MAX, &value));
    assert_false(sheaf__number_int("2147483648", 10, INT32_MIN, INT32_MAX, &value));
    assert_true(sheaf__number_int("-2147483648", 11, INT32_MIN, INT32_MAX, &value));
    assert_int_equal(value, INT32_MIN);
}

/* Both are what strtof() and strtod() give, to the bit. */
static void compare(const char *text)
{
    char *end;
    float f, f_right = strtof(text, &end);
    double d, d_right = strtod(text, NULL);
    const bool right = *text && !*end;
    if (sheaf__number_float(text, strlen(text), &f) != right ||
        sheaf__number_double(text, strlen(text), &d) != right)
        fail_msg("\"%s\" is %s number", text, right ? "a" : "no");
    if (right && !isnan(f_right) &&
        (memcmp(&f, &f_right, sizeof(f)) != 0 || memcmp(&d, &d_right, sizeof(d)) != 0))
        fail_msg("\"%s\" gave %.9g and %.17g, expected %.9g and %.17g", text, (double)f, d,
                 (double)f_right, d_right);
    assert_true(!right || isnan(f_right) == isnan(f));
}

static void odd_fractions(void **state)
{
    (void)state;
    static const char *const texts[] = {"+5",
                                        "-5",
                                        "- 5",
                                        "+-5",
                                        "0x10",
                                        "010",
                                        "1_000",
                                        "1e3",
                                        "5.",
                                        "7 8",
                                        "-0",
                                        "007",
                                        "1.0",
                                        "inf",
                                        "INF",
                                        "+inf",
                                        "-Infinity",
                                        "nan",
                                        "-NAN",
                                        "nan(1)",
                                        "1e",
                                        "1e+",
                                        "1e+3",
                                        "1E-3",
                                        ".e3",
                                        ".",
                                        "-.",
                                        "-.5",
                                        "+.5",
                                        "5.e2",
                                        "0x",
                                        "0xg",
                                        "0x1p3",
                                        "0x1.8",
                                        "-0X1F",
                                        "1f",
                                        "1d",
                                        "1,5",
                                        "1e99999",
                                        "1e-99999",
                                        "-1e400",
                                        "-1e-400",
                                        "3.5e38",
                                        "3.4028236e38",
                                        "3.40282357e38",
                                        "3.4028235677973366e38",
                                        "1e-45",
                                        "7e-46",
                                        "1.17549435e-38",
                                        "0.1e",
                                        "1e 3",
                                        "++1",
                                        "1.2.3",
                                        "infi",
                                        "na",
                                        "4.9e-324",
                                        "2e-324",
                                        "0x.8",
                                        "16777217",
                                        "16777219",
                                        "16777216.9999",
                                        "9007199254740993",
                                        "9007199254740995",
                                        "0.3",
                                        "1e23",
                                        "8388609.5",
                                        "8388610.5",
                                        "0e999999999999",
                                        "1e0000000000000000000000000001",
                                        "1e2147483648",
                                        "1e-2147483649",
                                        "0.000000000000000000000000000000000000000000001",
                                        "true",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "9999999999999999999",
                                        "9999999999999999999e27",
                                        "9999999999999999999e-27",
                                        "1e27",
                                        "1e28",
                                        "1e-27",
                                        "1e-28",
                                        "179769313486231580793e289",
                                        "1.7976931348623159e308",
                                        "123456789012345678901234567890",
                                        "0.1000000014901161193847656250"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        compare(texts[i]);
    double d;
    assert_true(sheaf__number_double(" 2.5\n", 5, &d));
    assert_true(d == 2.5);
    assert_false(sheaf__number_double("7\0", 2, &d));
    assert_false(sheaf__number_double("", 0, &d));
}

/* Numbers as programs print them, and random digits, also at the middle of two floats. */
static void random_fractions(void **state)
{
    (void)state;
    struct sheaf__philox r;
    char text[128];
    sheaf__philox_init(&r, 7, 7);
    for (int i = 0; i < 200000; i++) {
        const uint64_t bits = sheaf__philox_next64(&r);
        const uint32_t low = (uint32_t)(bits >> 13);
        float f;
        memcpy(&f, &low, sizeof(f));
        const int places = (int)(bits % 20), power = (int)(bits >> 8) % 40 - 20;
        switch (i % 6) {
        case 0:
            snprintf(text, sizeof(text), "%.9g", (double)f);
            break;
        case 1:
            snprintf(text, sizeof(text), "%.*f", places, (double)(int32_t)low / 1000);
            break;
        case 2:
            snprintf(text, sizeof(text), "%llue%d", (unsigned long long)(bits >> places), power);
            break;
        case 3: /* halfway between two floats */
            f = (float)(low >> 8);
            snprintf(text, sizeof(text), "%.1f",
                     (double)f + 0.5 * (double)(nextafterf(f, 1e30f) - f));
            break;
        case 4:
            snprintf(text, sizeof(text), "%.17g",
                     (double)(bits >> 11) * 0x1p-53 * (double)(1 + power * power));
            break;
        default:
            snprintf(text, sizeof(text), "0.%0*d%llu", places, 0,
                     (unsigned long long)bits >> places);
        }
        if (!strstr(text, "nan"))
            compare(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(integers),
        rig_test(odd_fractions),
        rig_test(random_fractions),
    };
    return rig_run(tests);
}
