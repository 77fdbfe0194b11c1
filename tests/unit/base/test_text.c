/* SPDX-License-Identifier: Apache-2.0 */
/* base/str.h and base/array.h */
#include "rig.h"

#include "base/array.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void builds(void **state)
{
    (void)state;
    struct sheaf__str s = {0};
    assert_string_equal(sheaf__str_text(&s), "");
    for (int i = 0; i < 100; i++)
        sheaf__str_printf(&s, "%d,", i);
    sheaf__str_char(&s, '!');
    assert_int_equal(s.size, 291);
    assert_string_equal(sheaf__str_text(&s) + 284, "98,99,!");
    char *text = sheaf__str_take(&s);
    assert_int_equal(strlen(text), 291);
    sheaf__free(text);
    text = sheaf__str_take(&s);
    assert_string_equal(text, "");
    sheaf__free(text);
}

static sheaf_status build(void *user, sheaf_error *err)
{
    (void)user;
    struct sheaf__str s = {0};
    for (int i = 0; i < 50; i++)
        sheaf__str_add(&s, "abcdefghij");
    bool whole = !s.failed && s.size == 500;
    bool failed = s.failed;
    sheaf__str_free(&s);
    if (whole)
        return SHEAF_OK;
    return sheaf_error_set(err, failed ? SHEAF_ERR_RESOURCE_EXHAUSTED : SHEAF_ERR_INTERNAL, "x");
}

static void latches_failure(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(build, NULL) >= 5);
}

static void quotes_json(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        const char *to;
    } cases[] = {
        {"a\"b\\c", "a\\\"b\\\\c"},
        {"\n\t\x01", "\\n\\u0009\\u0001"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xff\xc3", "\\ufffd\\ufffd"},
        {"\xc0\x80", "\\ufffd\\ufffd"},            /* overlong */
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"}, /* surrogate */
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xe2\x82", "\\ufffd\\ufffd"}, /* cut */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sheaf__str s = {0};
        sheaf__str_json(&s, cases[i].from, strlen(cases[i].from));
        assert_string_equal(sheaf__str_text(&s), cases[i].to);
        sheaf__str_free(&s);
    }
}

static void reads_numbers(void **state)
{
    (void)state;
    int64_t i = 5;
    uint64_t u = 5;
    double d = 5;
    assert_true(sheaf__str_to_int("-9223372036854775808", &i) && i == INT64_MIN);
    assert_true(sheaf__str_to_int("9223372036854775807", &i) && i == INT64_MAX);
    assert_false(sheaf__str_to_int("9223372036854775808", &i));
    assert_false(sheaf__str_to_int("-9223372036854775809", &i));
    assert_true(sheaf__str_to_uint("18446744073709551615", &u) && u == UINT64_MAX);
    assert_false(sheaf__str_to_uint("18446744073709551616", &u));
    static const char *const bad[] = {"", "-", "+1", " 1", "1 ", "0x10", "1.5", "--1"};
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
        assert_false(sheaf__str_to_int(bad[k], &i));
    assert_true(sheaf__str_to_double("-1.5e3", &d) && d == -1500);
    assert_true(sheaf__str_to_double("inf", &d) && isinf(d));
    assert_true(sheaf__str_to_double("1e-320", &d) && d > 0);
    static const char *const wrong[] = {"", " 1", "1,5", "0x1p3", "1e999", "1.5.5", "e"};
    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++)
        assert_false(sheaf__str_to_double(wrong[k], &d));
}

static void cuts_and_compares(void **state)
{
    (void)state;
    char small[4];
    assert_int_equal(sheaf__str_copy(small, sizeof(small), "abcdef"), 6);
    assert_string_equal(small, "abc");
    assert_true(sheaf__str_starts("worker:0", "worker"));
    assert_false(sheaf__str_starts("work", "worker"));
    assert_true(sheaf__str_ends("a.txt", ".txt"));
    assert_false(sheaf__str_ends("txt", ".txt"));
}

static void shortens_names(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'x', 100);
    strcpy(text + 100, " is short");
    sheaf__str_shorten(text, 200);
    assert_int_equal(strlen(text), 109);
    sheaf__str_shorten(text, 100);
    assert_int_equal(strlen(text), 99);
    assert_string_equal(text + 99 - 9, " is short");
    assert_memory_equal(text, "xxxxxxxxxx", 10);
    assert_non_null(strstr(text, "x...x"));
    /* No half of a character stays. */
    for (int room = 60; room < 64; room++) {
        text[0] = '\0';
        for (int i = 0; i < 33; i++)
            strcat(text, "\xe2\x82\xac");
        sheaf__str_shorten(text, (size_t)room);
        assert_true(strlen(text) < (size_t)room && strlen(text) > (size_t)room - 6);
        assert_true(sheaf__str_is_utf8(text, strlen(text)));
    }
    /* Of two names the longer one first; nothing but short words loses the middle of all. */
    memset(text, 'x', 90);
    text[90] = ' ';
    memset(text + 91, 'y', 60);
    text[151] = '\0';
    sheaf__str_shorten(text, 120);
    assert_int_equal(strlen(text), 119);
    assert_non_null(strstr(text, "x...x"));
    assert_null(strstr(text, "y."));
    strcpy(text, "one two three four five");
    sheaf__str_shorten(text, 16);
    assert_string_equal(text, "one tw...r five");
}

static void lists_grow_and_sort(void **state)
{
    (void)state;
    struct sheaf__strings list = {0};
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "%d", (i * 37) % 100);
        assert_true(sheaf__strings_add(&list, name));
    }
    assert_true(sheaf__strings_add(&list, "\xff"));
    sheaf__strings_sort(&list);
    assert_string_equal(list.items[0], "0");
    assert_string_equal(list.items[2], "10");
    assert_string_equal(list.items[100], "\xff");
    for (size_t i = 1; i < list.count; i++)
        assert_true(strcmp(list.items[i - 1], list.items[i]) < 0);
    sheaf__strings_clear(&list);
    assert_int_equal(list.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(builds),
        rig_test(latches_failure),
        rig_test(quotes_json),
        rig_test(reads_numbers),
        rig_test(cuts_and_compares),
        rig_test(shortens_names),
        rig_test(lists_grow_and_sort),
    };
    return rig_run(tests);
}
