/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/buf.h"
#include "base/mem.h"

#include <string.h>

static const uint64_t values[] = {0,
                                  1,
                                  127,
                                  128,
                                  16383,
                                  16384,
                                  UINT32_MAX,
                                  (uint64_t)UINT32_MAX + 1,
                                  INT64_MAX,
                                  UINT64_MAX,
                                  UINT64_C(1) << 63};

static void writes_and_reads(void **state)
{
    (void)state;
    struct sheaf__buf b = {0};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        size_t before = b.size;
        sheaf__buf_varint(&b, values[i]);
        assert_int_equal(b.size - before, sheaf__varint_size(values[i]));
        sheaf__buf_fixed32(&b, (uint32_t)values[i]);
        sheaf__buf_fixed64(&b, values[i]);
        sheaf__buf_sized(&b, "xyz", i % 4);
        sheaf__buf_byte(&b, (uint8_t)i);
    }
    assert_int_equal(sheaf__buf_check(&b, "x", NULL), SHEAF_OK);
    struct sheaf__cursor c = sheaf__cursor_of(b.data, b.size);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        uint64_t v;
        uint64_t f64;
        uint32_t f32;
        uint8_t byte;
        struct sheaf__cursor sub;
        assert_true(sheaf__cursor_varint(&c, &v));
        assert_true(v == values[i]);
        assert_true(sheaf__cursor_fixed32(&c, &f32) && f32 == (uint32_t)values[i]);
        assert_true(sheaf__cursor_fixed64(&c, &f64) && f64 == values[i]);
        assert_true(sheaf__cursor_sub(&c, &sub));
        assert_int_equal(sheaf__cursor_left(&sub), i % 4);
        assert_memory_equal(sub.at, "xyz", i % 4);
        assert_true(sheaf__cursor_byte(&c, &byte) && byte == i);
    }
    assert_int_equal(sheaf__cursor_left(&c), 0);
    assert_int_equal(sheaf__cursor_offset(&c), b.size);
    sheaf__buf_free(&b);
}

/* Every prefix of a message fails where it ends, and never reads past it (ASan watches the copy's
 * end). */
static void stops_at_the_end(void **state)
{
    (void)state;
    struct sheaf__buf b = {0};
    sheaf__buf_varint(&b, UINT64_MAX);
    sheaf__buf_fixed64(&b, 7);
    sheaf__buf_sized(&b, "hello", 5);
    for (size_t size = 0; size < b.size; size++) {
        uint8_t *copy = sheaf__memdup(b.data, size);
        struct sheaf__cursor c = sheaf__cursor_of(copy, size);
        uint64_t v;
        const uint8_t *data;
        size_t n;
        bool all = sheaf__cursor_varint(&c, &v) && sheaf__cursor_fixed64(&c, &v) &&
                   sheaf__cursor_sized(&c, &data, &n);
        assert_false(all);
        assert_true(c.failed);
        assert_false(sheaf__cursor_skip(&c, 0));
        sheaf__free(copy);
    }
    sheaf__buf_free(&b);
}

static void refuses_bad_varints(void **state)
{
    (void)state;
    static const uint8_t eleven[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                     0x80, 0x80, 0x80, 0x80, 0x01};
    static const uint8_t too_big[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    static const uint8_t above32[] = {0x80, 0x80, 0x80, 0x80, 0x10};
    static const uint8_t padded[] = {0x81, 0x80, 0x00};
    uint64_t v;
    uint32_t v32;
    struct sheaf__cursor c = sheaf__cursor_of(eleven, sizeof(eleven));
    assert_false(sheaf__cursor_varint(&c, &v));
    assert_ptr_equal(c.at, c.start);
    c = sheaf__cursor_of(too_big, sizeof(too_big));
    assert_false(sheaf__cursor_varint(&c, &v));
    c = sheaf__cursor_of(above32, sizeof(above32));
    assert_false(sheaf__cursor_varint32(&c, &v32));
    assert_ptr_equal(c.at, c.start);
    c = sheaf__cursor_of(padded, sizeof(padded));
    assert_true(sheaf__cursor_varint32(&c, &v32) && v32 == 1);
    c = sheaf__cursor_of(NULL, 0);
    assert_false(sheaf__cursor_varint(&c, &v));
}

static sheaf_status fill(void *user, sheaf_error *err)
{
    (void)user;
    struct sheaf__buf b = {0};
    for (int i = 0; i < 1000; i++)
        sheaf__buf_varint(&b, (uint64_t)i);
    sheaf_status status = sheaf__buf_check(&b, "numbers", err);
    if (status == SHEAF_OK && b.size != 128 + 872 * 2)
        status = sheaf_error_set(err, SHEAF_ERR_INTERNAL, "size %zu", b.size);
    size_t size = 0;
    uint8_t *data = sheaf__buf_take(&b, &size);
    sheaf__free(data);
    return status;
}

static void latches_failure(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(fill, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(writes_and_reads),
        rig_test(stops_at_the_end),
        rig_test(refuses_bad_varints),
        rig_test(latches_failure),
    };
    return rig_run(tests);
}
