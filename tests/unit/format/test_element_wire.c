/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/file.h"
#include "base/mem.h"
#include "format/element_wire.h"
#include "tensor/strings.h"

#include <sheaf/frame.h>

#include <string.h>

/* Elements as bytes (format/element_wire.h). */

/* One of every layout, in the frame. */
static sheaf_element *make(void)
{
    static const int64_t indices[] = {0, 1, 2, 0}, splits[] = {0, 2, 2, 3}, outer[] = {0, 1, 3};
    static const float numbers[100] = {1, 2, 3};
    static const sheaf_bytes words[] = {{"a", 1}, {"", 0}, {"b\0c", 3}};
    sheaf_error err = {0};
    sheaf_element *e = sheaf_element_new();
    sheaf_tensor *three = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(3), words);
    sheaf_tensor *inner =
        sheaf__tensor_ragged(three, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(4), splits), &err);
    sheaf_tensor *ragged =
        sheaf__tensor_ragged(inner, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3), outer), &err);
    sheaf_tensor *two = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), numbers);
    sheaf_tensor *sparse = sheaf__tensor_sparse(
        sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2, 2), indices), two, SHEAF_SHAPE(3, 2), &err);
    sheaf_tensor *rows = sheaf__tensor_rows(sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2), indices),
                                            two, SHEAF_SHAPE(9), &err);
    sheaf_tensor *all[] = {sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(4, 25), numbers),
                           sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(0, 3), NULL),
                           sheaf_plain(sheaf_int(7)),
                           sheaf_tensor_rows(three, 1, 3),
                           sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(0), NULL),
                           ragged,
                           sparse,
                           rows};
    static const char *const names[] = {"x", "none", "plain", "words", "no.words", "r", "s", "g"};
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(sheaf_element_put(e, names[i], all[i]), SHEAF_OK);
    sheaf_element_nest(e, '{');
    sheaf__unref(inner);
    sheaf__unref(ragged);
    sheaf__unref(sparse);
    sheaf__unref(rows);
    return e;
}

static void assert_same(const sheaf_tensor *a, const sheaf_tensor *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->layout, b->layout);
    assert_int_equal(a->plain, b->plain);
    assert_true(sheaf_shape_equal(a->shape, b->shape));
    if (a->layout != SHEAF__DENSE) {
        assert_same(a->parts[0], b->parts[0]);
        assert_same(a->parts[1], b->parts[1]);
        return;
    }
    for (int64_t i = 0; i < sheaf_shape_elements(a->shape); i++) {
        sheaf_bytes x = sheaf_tensor_bytes(a, i), y = sheaf_tensor_bytes(b, i);
        assert_int_equal(x.size, y.size);
        assert_memory_equal(x.data, y.data, x.size);
        assert_true(sheaf_tensor_number(a, i) == sheaf_tensor_number(b, i));
    }
}

/* Behind other bytes of the buffer, at any phase; numbers are views of the bytes where they are aligned, and
 * copies where the bytes were moved. */
static void returns_the_same(void **state)
{
    (void)state;
    for (size_t phase = 0; phase < 64; phase += 13) {
        for (size_t shift = 0; shift < 2; shift++) {
            SHEAF_FRAME
            {
                sheaf_error err = {0};
                struct sheaf__buf buf = {0};
                sheaf_element *e = make(), *back = NULL;
                sheaf__buf_bytes(&buf, "before", 6);
                rig_ok(sheaf__element_wire_put(&buf, 6, phase, e, &err), &err);
                size_t size = buf.size - 6;
                uint8_t *memory = sheaf__alloc_aligned(64 + phase + shift + size);
                uint8_t *bytes = memory + phase + shift;
                memcpy(bytes, buf.data + 6, size);
                struct sheaf__cursor c = sheaf__cursor_of(bytes, size);
                rig_ok(sheaf__element_wire_get(&c, phase, NULL, &back, &err), &err);
                assert_int_equal(sheaf__cursor_left(&c), 0);
                assert_int_equal(back->count, e->count);
                assert_int_equal(back->pattern, '{');
                for (size_t i = 0; i < e->count; i++) {
                    assert_ptr_equal(back->items[i].name, e->items[i].name);
                    assert_same(back->items[i].tensor, e->items[i].tensor);
                }
                const uint8_t *x = back->items[0].tensor->data;
                assert_int_equal((uintptr_t)x % 64, 0);
                assert_int_equal(x > bytes && x < bytes + size, shift == 0);
                sheaf__unref(back);
                sheaf__free(memory);
                sheaf__buf_free(&buf);
            }
        }
    }
}

/* Bytes that no code of ours made, but the words of the header. */
static void reads_the_documented_form(void **state)
{
    (void)state;
    sheaf_error err = {0};
    char *bytes;
    size_t size;
    rig_ok(sheaf__file_read_all(rig_golden("../fuzz/corpus/element_wire/every-layout"), 9999,
                                &bytes, &size, &err),
           &err);
    struct sheaf__cursor c = sheaf__cursor_of(bytes, size);
    sheaf_element *e;
    rig_ok(sheaf__element_wire_get(&c, 0, NULL, &e, &err), &err);
    assert_int_equal(sheaf__cursor_left(&c), 0);
    assert_float_equal(sheaf_tensor_number(sheaf_element_get(e, "x"), 19), 19, 0);
    const sheaf_tensor *inner = sheaf_element_get(e, "r")->parts[SHEAF__RAGGED_VALUES];
    assert_memory_equal(sheaf_tensor_bytes(inner->parts[SHEAF__RAGGED_VALUES], 2).data, "bc", 2);
    assert_int_equal(sheaf_tensor_integer(sheaf_element_get(e, "s")->parts[SHEAF__INDICES], 2), 2);
    assert_int_equal(sheaf_tensor_integer(sheaf_element_get(e, "g")->parts[SHEAF__INDICES], 1), 8);
    sheaf__unref(e);
    sheaf__free(bytes);
    sheaf_frame_clear();
}

/* Every cut of the bytes, and every byte that is changed, is an error or an element; nothing is read beyond. */
static void survives_damage(void **state)
{
    (void)state;
    struct sheaf__buf buf = {0};
    sheaf_error err = {0};
    SHEAF_FRAME
    rig_ok(sheaf__element_wire_put(&buf, 0, 0, make(), &err), &err);
    for (size_t cut = 0; cut < buf.size; cut++) {
        sheaf_element *e = NULL;
        uint8_t *bytes = sheaf__memdup(buf.data, cut); /* so that a sanitizer sees its end */
        struct sheaf__cursor c = sheaf__cursor_of(bytes, cut);
        sheaf_status status = sheaf__element_wire_get(&c, 0, NULL, &e, &err);
        rig_fails(status, &err, SHEAF_ERR_DATA_LOSS, "is malformed");
        assert_null(e);
        sheaf__free(bytes);
    }
    for (size_t at = 0; at < buf.size; at++) {
        sheaf_element *e = NULL;
        buf.data[at] ^= 0x81;
        struct sheaf__cursor c = sheaf__cursor_of(buf.data, buf.size);
        sheaf_status status = sheaf__element_wire_get(&c, 0, NULL, &e, &err);
        assert_true(status == SHEAF_OK || status == SHEAF_ERR_DATA_LOSS);
        sheaf__unref(e);
        buf.data[at] ^= 0x81;
    }
    sheaf__buf_free(&buf);
}

static sheaf_status attempt(void *user, sheaf_error *err)
{
    const struct sheaf__buf *buf = user;
    struct sheaf__buf mine = {0};
    sheaf_element *e = NULL;
    struct sheaf__cursor c = sheaf__cursor_of(buf->data, buf->size);
    sheaf_status status = sheaf__element_wire_get(&c, 0, NULL, &e, err);
    if (status == SHEAF_OK)
        status = sheaf__element_wire_put(&mine, 0, 0, e, err);
    sheaf__unref(e);
    sheaf__buf_free(&mine);
    return status;
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    struct sheaf__buf buf = {0};
    sheaf_error err = {0};
    SHEAF_FRAME
    rig_ok(sheaf__element_wire_put(&buf, 0, 0, make(), &err), &err);
    assert_true(rig_fail_allocations(attempt, &buf) > 3);
    sheaf__buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(returns_the_same), rig_test(reads_the_documented_form), rig_test(survives_damage),
        rig_test(survives_failing_allocations)};
    return rig_run(tests);
}
