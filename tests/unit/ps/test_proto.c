/* SPDX-License-Identifier: Apache-2.0 */

/* The meta parts of messages: what was put comes out, and nothing that is cut or bent is taken. */

#include "rig.h"

#include "ps/proto.h"

#include <sheaf/frame.h>

#include <string.h>

static struct sheaf__ps_definition a_definition(void)
{
    return (struct sheaf__ps_definition){.variable = 7,
                                         .dtype = SHEAF_FLOAT32,
                                         .full = SHEAF_SHAPE(10, 3),
                                         .shape = SHEAF_SHAPE(4, 3),
                                         .first_row = 6,
                                         .initialises = true,
                                         .name = "dense/kernel",
                                         .name_size = 12};
}

static void test_definition(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__buf buf = {0};
    const struct sheaf__ps_definition in = a_definition();
    struct sheaf__ps_definition out;
    sheaf__ps_put_definition(&buf, &in);
    rig_ok(sheaf__ps_get_definition((struct sheaf__bytes){buf.data, buf.size}, &out, &err), &err);
    assert_int_equal(out.variable, 7);
    assert_true(sheaf_shape_equal(out.full, in.full) && sheaf_shape_equal(out.shape, in.shape));
    assert_int_equal(out.first_row, 6);
    assert_int_equal(out.name_size, 12);
    assert_memory_equal(out.name, "dense/kernel", 12);
    for (size_t size = 0; size < buf.size; size++)
        assert_int_equal(
            sheaf__ps_get_definition((struct sheaf__bytes){buf.data, size}, &out, NULL),
            SHEAF_ERR_DATA_LOSS);
    sheaf__buf_free(&buf);
}

static void put_push(struct sheaf__buf *buf, const struct sheaf__ps_update *u,
                     const struct sheaf__hyper *h)
{
    const struct sheaf__ps_push head = {.sequence = 3, .hypers = 1, .updates = 1};
    sheaf__buf_clear(buf);
    sheaf__buf_bytes(buf, &head, sizeof(head));
    sheaf__buf_bytes(buf, h, sizeof(*h));
    sheaf__buf_bytes(buf, u, sizeof(*u));
}

static void test_push(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__buf buf = {0};
    struct sheaf__ps_push_view view;
    struct sheaf__hyper h = {.rule = SHEAF__RULE_SGD, .step = 1, .lr = 0.5};
    struct sheaf__ps_update u = {.variable = 1, .kind = SHEAF__PS_GRADIENT, .bytes = 8};
    put_push(&buf, &u, &h);
    const struct sheaf__bytes meta = {buf.data, buf.size};
    rig_ok(sheaf__ps_get_push(meta, 8, &view, &err), &err);
    assert_int_equal(view.head.sequence, 3);
    assert_true(sheaf__ps_push_hyper(&view, 0).lr == 0.5);
    assert_int_equal(sheaf__ps_get_push(meta, 9, &view, NULL), SHEAF_ERR_DATA_LOSS);
    for (size_t size = 0; size < buf.size; size++)
        assert_int_equal(sheaf__ps_get_push((struct sheaf__bytes){buf.data, size}, 8, &view, NULL),
                         SHEAF_ERR_DATA_LOSS);
    u.bytes = 5; /* what follows would be aligned */
    put_push(&buf, &u, &h);
    rig_ok(sheaf__ps_get_push((struct sheaf__bytes){buf.data, buf.size}, 8, &view, &err), &err);
    assert_int_equal(sheaf__ps_get_push((struct sheaf__bytes){buf.data, buf.size}, 5, &view, NULL),
                     SHEAF_ERR_DATA_LOSS);
    u.bytes = UINT64_MAX;
    put_push(&buf, &u, &h);
    assert_int_equal(sheaf__ps_get_push((struct sheaf__bytes){buf.data, buf.size}, 0, &view, NULL),
                     SHEAF_ERR_DATA_LOSS);
    u.bytes = 8;
    u.kind = 9;
    put_push(&buf, &u, &h);
    assert_int_equal(sheaf__ps_get_push((struct sheaf__bytes){buf.data, buf.size}, 8, &view, NULL),
                     SHEAF_ERR_DATA_LOSS);
    u.kind = SHEAF__PS_GRADIENT;
    u.hyper = 1;
    put_push(&buf, &u, &h);
    assert_int_equal(sheaf__ps_get_push((struct sheaf__bytes){buf.data, buf.size}, 8, &view, NULL),
                     SHEAF_ERR_DATA_LOSS);
    u.hyper = 0;
    h.rule = 99;
    put_push(&buf, &u, &h);
    assert_true(sheaf__ps_get_push((struct sheaf__bytes){buf.data, buf.size}, 8, &view, NULL) < 0);
    sheaf__buf_free(&buf);
}

/* What a worker says of itself stands behind the updates. */
static void test_mark(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__ps_push head = {.sequence = 1, .mark = 5};
    struct sheaf__ps_push_view view;
    struct sheaf__buf buf = {0};
    sheaf__buf_bytes(&buf, &head, sizeof(head));
    sheaf__buf_bytes(&buf, "place", 5);
    rig_ok(sheaf__ps_get_push((struct sheaf__bytes){buf.data, buf.size}, 0, &view, &err), &err);
    assert_memory_equal(view.mark, "place", 5);
    for (size_t size = sizeof(head); size < buf.size; size++)
        assert_int_equal(sheaf__ps_get_push((struct sheaf__bytes){buf.data, size}, 0, &view, NULL),
                         SHEAF_ERR_DATA_LOSS);
    head.mark = 1 << 20;
    memcpy(buf.data, &head, sizeof(head));
    assert_non_null(sheaf__buf_extend(&buf, head.mark));
    assert_int_equal(sheaf__ps_get_push((struct sheaf__bytes){buf.data, buf.size}, 0, &view, NULL),
                     SHEAF_ERR_DATA_LOSS);
    sheaf__buf_free(&buf);
}

static void test_shard(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct sheaf__buf buf = {0};
    const struct sheaf__shard_item item = {.key = "w/.ATTRIBUTES/VARIABLE_VALUE",
                                           .saveable = {.dtype = SHEAF_FLOAT32,
                                                        .shape = SHEAF_SHAPE(4, 3),
                                                        .full = SHEAF_SHAPE(10, 3),
                                                        .offset = {6, 0},
                                                        .handle = SHEAF__PS_HANDLE(7, 2)}};
    const struct sheaf__shard in = {
        .device = "/job:ps/task:0", .path = "out/x", .items = &item, .count = 1};
    sheaf__ps_put_shard(&buf, &in, "a note");
    SHEAF_FRAME
    {
        struct sheaf__cursor c = sheaf__cursor_of(buf.data, buf.size);
        struct sheaf__shard out;
        const char *note;
        rig_ok(sheaf__ps_get_shard(&c, &out, &note, &err), &err);
        assert_string_equal(out.device, in.device);
        assert_string_equal(out.path, in.path);
        assert_string_equal(note, "a note");
        assert_int_equal(out.count, 1);
        assert_string_equal(out.items[0].key, item.key);
        assert_int_equal(out.items[0].saveable.handle, item.saveable.handle);
        assert_int_equal(out.items[0].saveable.offset[0], 6);
        for (size_t size = 0; size < buf.size; size++) {
            c = sheaf__cursor_of(buf.data, size);
            assert_int_equal(sheaf__ps_get_shard(&c, &out, &note, NULL), SHEAF_ERR_DATA_LOSS);
        }
    }
    sheaf__buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_definition),
        rig_test(test_push),
        rig_test(test_mark),
        rig_test(test_shard),
    };
    return rig_run(tests);
}
