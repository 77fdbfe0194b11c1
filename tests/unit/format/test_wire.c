/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf's wire format (formats.md 1.2). */
#include "rig.h"

#include "format/wire.h"

#include <string.h>

static void varints_at_their_limits(void **state)
{
    (void)state;
    static const uint64_t values[] = {0,          1,          127,        128,
                                      16383,      16384,      UINT32_MAX, INT64_MAX,
                                      UINT64_MAX, 1ull << 63, 0x80808080, 300};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        uint8_t data[10];
        uint64_t v;
        size_t size = sheaf__varint_put(data, values[i]);
        assert_ptr_equal(sheaf__wire_varint(data, data + size, &v), data + size);
        assert_true(v == values[i]);
        for (size_t cut = 0; cut < size; cut++)
            assert_null(sheaf__wire_varint(data, data + cut, &v));
    }
    uint64_t v;
    static const uint8_t spelled_long[] = {0x85, 0x80, 0x00};
    assert_non_null(sheaf__wire_varint(spelled_long, spelled_long + 3, &v));
    assert_int_equal(v, 5);
    static const uint8_t too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    assert_null(sheaf__wire_varint(too_large, too_large + 10, &v));
    static const uint8_t too_long[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                       0x80, 0x80, 0x80, 0x80, 0x00};
    assert_null(sheaf__wire_varint(too_long, too_long + 11, &v));
}

static void fields_come_back_as_written(void **state)
{
    (void)state;
    struct sheaf__buf buf = {0};
    sheaf__wire_put_varint(&buf, 1, 300);
    sheaf__wire_put_fixed64(&buf, 2, UINT64_C(0x1122334455667788));
    sheaf__wire_put_float(&buf, 3, 1.5f);
    sheaf__wire_put_double(&buf, 4, -2);
    sheaf__wire_put_text(&buf, 536870911, "text");
    struct sheaf__cursor c = sheaf__cursor_of(buf.data, buf.size);
    struct sheaf__wire_field f;
    assert_true(sheaf__wire_next(&c, &f));
    assert_int_equal(f.number, 1);
    assert_int_equal(f.value, 300);
    assert_true(sheaf__wire_next(&c, &f));
    assert_true(f.type == SHEAF__WIRE_FIXED64 && f.value == UINT64_C(0x1122334455667788));
    assert_true(sheaf__wire_next(&c, &f));
    assert_true(f.type == SHEAF__WIRE_FIXED32 && f.value == 0x3fc00000);
    assert_true(sheaf__wire_next(&c, &f));
    assert_true(f.number == 4 && f.value == UINT64_C(0xc000000000000000));
    assert_true(sheaf__wire_next(&c, &f));
    assert_int_equal(f.number, 536870911);
    assert_int_equal(f.bytes.size, 4);
    assert_memory_equal(f.bytes.data, "text", 4);
    assert_false(sheaf__wire_next(&c, &f));
    assert_false(c.failed);
    for (size_t cut = 1; cut < buf.size;
         cut++) { /* cut anywhere: fields before it, then a failure */
        c = sheaf__cursor_of(buf.data, cut);
        while (sheaf__wire_next(&c, &f)) {
        }
        assert_true(c.failed || c.at == c.end);
    }
    sheaf__buf_free(&buf);
}

static void what_is_no_field_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t data[12];
        size_t size;
    } cases[] = {
        {{0x00, 0x00}, 2},                         /* field number 0 */
        {{0x0b}, 1},                               /* a group */
        {{0x0c}, 1},                               /* its end */
        {{0x0e}, 1},                               /* type 6 */
        {{0x0f}, 1},                               /* type 7 */
        {{0x0a, 0x02, 0x00}, 3},                   /* longer than the message */
        {{0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f}, 6}, /* much longer */
        {{0x0d, 0, 0, 0}, 4},
        {{0x09, 0, 0, 0, 0, 0, 0, 0}, 8},
        {{0x88, 0x80, 0x80, 0x80, 0x80, 0x01, 0}, 7}, /* a tag beyond 32 bits */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sheaf__cursor c = sheaf__cursor_of(cases[i].data, cases[i].size);
        struct sheaf__wire_field f;
        assert_false(sheaf__wire_next(&c, &f));
        assert_true(c.failed);
        assert_false(sheaf__wire_next(&c, &f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(varints_at_their_limits),
        rig_test(fields_come_back_as_written),
        rig_test(what_is_no_field_is_refused),
    };
    return rig_run(tests);
}
