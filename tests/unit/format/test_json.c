/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "format/json.h"

#include <stdio.h>
#include <string.h>

/* JSON read from front to back. */

/* Reads a value and appends it in a form of our own: {key:value}, [a,b], 'text', numbers as they are. */
static void show(struct sheaf__json *j, char *out, size_t size)
{
    sheaf_bytes text;
    uint64_t number;
    size_t at = strlen(out);
    while (j->at < j->end && strchr(" \t\r\n", *j->at))
        j->at++;
    const char c = j->at < j->end ? *j->at : 0;
    if (c == '{' || c == '[') {
        snprintf(out + at, size - at, "%c", c);
        sheaf__json_enter(j, c);
        while (c == '{' ? sheaf__json_key(j, &text) : sheaf__json_next(j)) {
            at = strlen(out);
            if (c == '{')
                snprintf(out + at, size - at, "%.*s:", (int)text.size, text.data);
            show(j, out, size);
            at = strlen(out);
            snprintf(out + at, size - at, ",");
        }
        at = strlen(out);
        snprintf(out + at, size - at, "%c", c == '{' ? '}' : ']');
    } else if (c == '"') {
        if (sheaf__json_text(j, &text))
            snprintf(out + at, size - at, "'%.*s'", (int)text.size, text.data);
    } else if (c >= '0' && c <= '9') {
        if (sheaf__json_uint(j, &number))
            snprintf(out + at, size - at, "%llu", (unsigned long long)number);
    } else {
        const char *start = j->at;
        if (sheaf__json_skip(j))
            snprintf(out + at, size - at, "%.*s", (int)(j->at - start), start);
    }
}

static void reads(const char *text, const char *expected)
{
    struct sheaf__json j;
    sheaf_error err;
    char out[512] = "";
    sheaf__json_begin(&j, text, strlen(text), "f", 0, &err);
    show(&j, out, sizeof(out));
    rig_ok(sheaf__json_end(&j), &err);
    assert_string_equal(out, expected);
    sheaf__json_begin(&j, text, strlen(text), "f", 0, &err);
    sheaf__json_skip(&j);
    rig_ok(sheaf__json_end(&j), &err);
}

static void values(void **state)
{
    (void)state;
    reads("{}", "{}");
    reads(" [ ] ", "[]");
    reads("{\"a\":1,\"b\":[true,null,false,-1.5e+3],\"\":{\"c\":[]}}",
          "{a:1,b:[true,null,false,-1.5e+3,],:{c:[],},}");
    reads("\"\"", "''");
    reads("\"\\\"\\\\\\/\\n\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00z\"",
          "'\"\\/\n\tA\xc3\xa9\xe2\x82\xac"
          "\xf0\x9f\x98\x80z'");
    reads("[18446744073709551615,0]", "[18446744073709551615,0,]");
    reads("\t\r\n [\n1 ,2 ]\n", "[1,2,]");
}

/* What is no JSON, at which byte (offset 100 on), and why. */
static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t offset;
        const char *message;
    } cases[] = {
        {"", 100, "the JSON ends, expected a value"},
        {"{", 101, "the JSON ends, expected a string"},
        {"{\"a\"}", 104, "the JSON has '}', expected ':'"},
        {"{\"a\":}", 105, "expected a value"},
        {"{\"a\":1,}", 107, "the JSON has '}', expected a string"},
        {"[1,]", 103, "the JSON has ']', expected a value"},
        {"[1 2]", 103, "expected ',' or ']'"},
        {"{\"a\":1 \"b\":2}", 107, "expected ',' or '}'"},
        {"[1}", 102, "expected ',' or ']'"},
        {"{} x", 103, "the JSON has 'x', expected its end"},
        {"[01]", 103, "expected a number"},
        {"[1.]", 103, "expected a number"},
        {"[-]", 102, "expected a number"},
        {"[1e]", 103, "expected a number"},
        {"[nul]", 101, "the JSON has 'nul]', expected a value"},
        {"\"a", 102, "a string without an end"},
        {"\"a\nb\"", 102, "a string without an end"},
        {"\"\\x\"", 102, "expected an escape like '\\n'"},
        {"\"\\u12g4\"", 105, "expected four digits after '\\u'"},
        {"\"\\ud800\"", 107, "one half of a character"},
        {"\"\\udc00\"", 107, "one half of a character"},
        {"\"\\ud800\\u0041\"", 113, "one half of a character"},
        {"\"\xff\"", 100, "the JSON is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sheaf__json j;
        sheaf_error err = {0};
        sheaf__json_begin(&j, cases[i].text, strlen(cases[i].text), "f.json", 100, &err);
        sheaf__json_skip(&j);
        rig_fails(sheaf__json_end(&j), &err, SHEAF_ERR_DATA_LOSS, cases[i].message);
        if (err.offset != cases[i].offset)
            fail_msg("%s: offset %d", cases[i].text, (int)err.offset);
        assert_string_equal(err.file, "f.json");
        assert_false(sheaf__json_skip(&j)); /* it stays */
    }
}

static void numbers(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "18446744073709551616", "-1", "1.5", "1e3", "007", "\"1\"", ""};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sheaf__json j;
        sheaf_error err;
        uint64_t value;
        sheaf__json_begin(&j, wrong[i], strlen(wrong[i]), NULL, 0, &err);
        assert_false(sheaf__json_uint(&j, &value));
        rig_fails(sheaf__json_end(&j), &err, SHEAF_ERR_DATA_LOSS,
                  "expected a whole number from 0 on");
    }
}

/* Lists in lists: so many and not one more, whatever the length. */
static void depth(void **state)
{
    (void)state;
    static char text[1 << 20];
    struct sheaf__json j;
    sheaf_error err;
    memset(text, '[', SHEAF__JSON_DEPTH);
    memset(text + SHEAF__JSON_DEPTH, ']', SHEAF__JSON_DEPTH);
    sheaf__json_begin(&j, text, 2 * SHEAF__JSON_DEPTH, NULL, 0, &err);
    assert_true(sheaf__json_skip(&j));
    rig_ok(sheaf__json_end(&j), &err);
    memset(text, '[', sizeof(text));
    sheaf__json_begin(&j, text, sizeof(text), NULL, 0, &err);
    assert_false(sheaf__json_skip(&j));
    rig_fails(sheaf__json_end(&j), &err, SHEAF_ERR_DATA_LOSS, "the JSON is more than 63 deep");
}

static sheaf_status read_some(void *user, sheaf_error *err)
{
    struct sheaf__json j;
    (void)user;
    static const char text[] = "{\"\\n\":\"\\u0041 and more than a few bytes \\u0042\"}";
    sheaf__json_begin(&j, text, sizeof(text) - 1, NULL, 0, err);
    sheaf__json_skip(&j);
    return sheaf__json_end(&j);
}

static void without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(read_some, NULL) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(values), rig_test(refused),        rig_test(numbers),
        rig_test(depth),  rig_test(without_memory),
    };
    return rig_run(tests);
}
