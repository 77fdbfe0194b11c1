/* SPDX-License-Identifier: Apache-2.0 */
/* Building tf.train.Example messages, and showing them (formats.md 3.1). */
#include "rig.h"

#include <sheaf/example.h>

#include <math.h>

#include <string.h>

static sheaf_bytes serialize(sheaf_example *x)
{
    sheaf_bytes message = {0};
    sheaf_error err = {0};
    rig_ok(sheaf_example_serialize(x, &message, &err), &err);
    return message;
}

static void assert_bytes(sheaf_bytes got, const char *want, size_t size)
{
    assert_int_equal(got.size, size);
    assert_memory_equal(got.data, want, size);
}

/* The vectors of formats.md 3.1. */
static void bytes_of_the_vectors(void **state)
{
    (void)state;
    sheaf_example *x = sheaf_example_new();
    assert_bytes(serialize(x), "\x0a\x00", 2);
    sheaf_example_int64(x, "age", &(int64_t){29}, 1);
    sheaf_example_bytes(x, "name", &(sheaf_bytes){"ab", 2}, 1);
    sheaf_example_float(x, "x", (float[]){1.5f, -2}, 2);
    assert_bytes(
        serialize(x),
        "\x0a\x31\x0a\x0c\x0a\x03\x61\x67\x65\x12\x05\x1a\x03\x0a\x01\x1d\x0a\x0e\x0a\x04\x6e"
        "\x61\x6d\x65\x12\x06\x0a\x04\x0a\x02\x61\x62\x0a\x11\x0a\x01\x78\x12\x0c\x12\x0a\x0a"
        "\x08\x00\x00\xc0\x3f\x00\x00\x00\xc0",
        51);
    sheaf_example_clear(x);
    sheaf_example_int64(x, "a", (int64_t[]){3, 270, -1}, 3);
    assert_bytes(
        serialize(x),
        "\x0a\x18\x0a\x16\x0a\x01\x61\x12\x11\x1a\x0f\x0a\x0d\x03\x8e\x02\xff\xff\xff\xff\xff"
        "\xff\xff\xff\xff\x01",
        26);
    sheaf_example_clear(x);
    sheaf_example_int64(x, "", NULL, 0); /* empty lists keep their kind, an empty key is written */
    sheaf_example_float(x, "f", NULL, 0);
    sheaf_example_bytes(x, "b", NULL, 0);
    assert_bytes(
        serialize(x),
        "\x0a\x1a\x0a\x06\x0a\x00\x12\x02\x1a\x00\x0a\x07\x0a\x01\x66\x12\x02\x12\x00\x0a\x07"
        "\x0a\x01\x62\x12\x02\x0a\x00",
        28);
    sheaf_example_free(x);
}

static void errors_come_out_of_serialize(void **state)
{
    (void)state;
    sheaf_example *x = sheaf_example_new();
    sheaf_bytes message;
    sheaf_error err = {0};
    sheaf_example_int64(x, "a", &(int64_t){1}, 1);
    sheaf_example_float(x, "a", &(float){1}, 1);
    sheaf_example_int64(x, NULL, &(int64_t){1}, 1);
    rig_fails(sheaf_example_serialize(x, &message, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "two features \"a\"");
    sheaf_example_clear(x);
    sheaf_example_int64(x, NULL, &(int64_t){1}, 1);
    rig_fails(sheaf_example_serialize(x, &message, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "has no key");
    sheaf_example_clear(x);
    assert_bytes(serialize(x), "\x0a\x00", 2);
    sheaf_example_free(x);
    sheaf_example_free(NULL);
    rig_fails(sheaf_example_serialize(NULL, &message, &err), &err, SHEAF_ERR_RESOURCE_EXHAUSTED,
              "");
}

static void text_of_an_example(void **state)
{
    (void)state;
    char text[400];
    sheaf_example *x = sheaf_example_new();
    sheaf_example_int64(x, "image", (int64_t[]){0, 0, 5, -16}, 4);
    sheaf_example_float(x, "w", (float[]){0.1f, 1e30f, 16777216}, 3);
    sheaf_example_bytes(x, "name", (sheaf_bytes[]){{"a\"b\\", 4}, {"\x00\xff", 2}}, 2);
    sheaf_example_bytes(x, "none", NULL, 0);
    static const char want[] = "image: int64[4] 0 0 5 …\n"
                               "w: float[3] 0.1 1e+30 16777216\n"
                               "name: bytes[2] \"a\\\"b\\\\\" \"\\x00\\xff\"\n"
                               "none: bytes[0]";
    sheaf_bytes message = serialize(x);
    assert_int_equal(sheaf_example_format(message, 3, text, sizeof(text)), strlen(want));
    assert_string_equal(text, want);
    assert_int_equal(sheaf_example_format(message, 3, text, 9), strlen(want));
    assert_string_equal(text, "image: i");
    assert_int_equal(sheaf_example_format(message, 3, NULL, 0), strlen(want));
    for (size_t cut = 1; cut < message.size; cut++)
        assert_int_equal(sheaf_example_format((sheaf_bytes){message.data, cut}, 3, text, 400), 0);
    assert_string_equal(text, "");
    sheaf_example_free(x);
}

static void json_of_an_example(void **state)
{
    (void)state;
    char text[400];
    sheaf_example *x = sheaf_example_new();
    sheaf_example_int64(x, "big\"", (int64_t[]){0, INT64_MIN, INT64_MAX}, 3);
    sheaf_example_float(x, "w", (float[]){0.1f, 1e30f, -INFINITY, NAN, INFINITY}, 5);
    /* Text; "é" with a newline; half an "é"; a surrogate. Base64 by coreutils. */
    sheaf_example_bytes(
        x, "name",
        (sheaf_bytes[]){{"a\"b\\", 4}, {"\xc3\xa9\n", 3}, {"\xc3", 1}, {"\xed\xa0\x80", 3}}, 4);
    sheaf_example_bytes(x, "none", NULL, 0);
    static const char want[] = "{\"big\\\"\":[0,-9223372036854775808,9223372036854775807],"
                               "\"w\":[0.1,1e+30,\"-Infinity\",\"NaN\",\"Infinity\"],"
                               "\"name\":[\"a\\\"b\\\\\",\"\xc3\xa9\\n\",{\"b64\":\"ww==\"},{"
                               "\"b64\":\"7aCA\"}],\"none\":[]}";
    sheaf_bytes message = serialize(x);
    assert_int_equal(sheaf_example_json(message, SIZE_MAX, text, sizeof(text)), strlen(want));
    assert_string_equal(text, want);
    sheaf_example_clear(x);
    sheaf_example_int64(x, "a", (int64_t[]){1, 2, 3}, 3);
    message = serialize(x);
    assert_int_equal(sheaf_example_json(message, 2, text, sizeof(text)), strlen("{\"a\":[1,2]}"));
    assert_string_equal(text, "{\"a\":[1,2]}");
    assert_int_equal(
        sheaf_example_json((sheaf_bytes){message.data, message.size - 1}, 2, text, 400), 0);
    assert_int_equal(sheaf_example_json((sheaf_bytes){"", 0}, 2, text, 400), 2);
    assert_string_equal(text, "{}");
    sheaf_example_free(x);
}

static sheaf_status build_one(void *user, sheaf_error *err)
{
    (void)user;
    sheaf_example *x = sheaf_example_new();
    sheaf_bytes message;
    sheaf_example_int64(x, "a", (int64_t[]){1, 2, 3}, 3);
    sheaf_example_bytes(x, "b", &(sheaf_bytes){"bytes", 5}, 1);
    sheaf_status status = sheaf_example_serialize(x, &message, err);
    sheaf_example_free(x);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(build_one, NULL) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(bytes_of_the_vectors),      rig_test(errors_come_out_of_serialize),
        rig_test(text_of_an_example),        rig_test(json_of_an_example),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
