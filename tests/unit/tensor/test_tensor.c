/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/mem.h"
#include "base/thread.h"
#include "tensor/heap.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <sheaf/frame.h>

#include <string.h>

static const float six[] = {0, 1, 2, 3, 4, 5};

static sheaf_tensor *matrix(void)
{
    return sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3, 2), six);
}

static void test_new_copies(void **state)
{
    (void)state;
    float data[] = {1, 2};
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), data);
    data[0] = 9;
    assert_int_equal(sheaf_tensor_dtype(t), SHEAF_FLOAT32);
    assert_int_equal(sheaf_tensor_elements(t), 2);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(t), SHEAF_SHAPE(2)));
    assert_true(sheaf_tensor_number(t, 0) == 1);
    assert_true(sheaf_tensor_number(t, 2) == 0 && sheaf_tensor_number(t, -1) == 0);
    assert_int_equal((uintptr_t)sheaf_tensor_data(t) % 64, 0);
    t = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(100), NULL);
    for (int i = 0; i < 100; i++)
        assert_int_equal(sheaf_tensor_integer(t, i), 0);
    t = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3, 0), NULL);
    assert_int_equal(sheaf_tensor_status(t, NULL), SHEAF_OK);
    assert_int_equal(sheaf_tensor_elements(t), 0);
    assert_null(sheaf_tensor_data(t));
}

static int released;
static void release(void *data, void *user)
{
    assert_ptr_equal(data, user);
    released++;
}

static void test_wrap(void **state)
{
    (void)state;
    int32_t data[] = {1, 2, 3};
    released = 0;
    SHEAF_FRAME
    {
        sheaf_tensor *t = sheaf_tensor_wrap(SHEAF_INT32, SHEAF_SHAPE(3), data, release, data);
        assert_ptr_equal(sheaf_tensor_data(t), data);
        sheaf_tensor *part = sheaf_tensor_keep(sheaf_tensor_rows(t, 1, 2));
        sheaf_frame_clear();
        assert_int_equal(released, 0);
        assert_int_equal(sheaf_tensor_integer(part, 0), 2);
        sheaf_tensor_free(part);
        assert_int_equal(released, 1);
        /* Given away also when it fails. */
        t = sheaf_tensor_wrap(SHEAF_INT32, SHEAF_SHAPE(-1), data, release, data);
        assert_int_equal(sheaf_tensor_status(t, NULL), SHEAF_ERR_INVALID_ARGUMENT);
        assert_int_equal(released, 2);
        t = sheaf_tensor_wrap(SHEAF_INT32, SHEAF_SHAPE(1), NULL, NULL, NULL);
        assert_int_equal(sheaf_tensor_status(t, NULL), SHEAF_ERR_INVALID_ARGUMENT);
    }
}

static void test_scalars(void **state)
{
    (void)state;
    assert_true(sheaf_tensor_number(sheaf_float(0.5F), 0) == 0.5);
    assert_true(sheaf_tensor_number(sheaf_double(0.1), 0) == 0.1);
    assert_int_equal(sheaf_tensor_integer(sheaf_int(-7), 0), -7);
    assert_true(sheaf_tensor_integer(sheaf_long(INT64_MIN), 0) == INT64_MIN);
    assert_int_equal(sheaf_tensor_integer(sheaf_bool(true), 0), 1);
    assert_int_equal(sheaf_tensor_dtype(sheaf_bool(true)), SHEAF_BOOL);
    sheaf_bytes text = sheaf_tensor_bytes(sheaf_string("abc"), 0);
    assert_int_equal(text.size, 3);
    assert_memory_equal(text.data, "abc", 3);
    assert_int_equal(sheaf_tensor_bytes(sheaf_string(""), 0).size, 0);
    assert_int_equal(sheaf_tensor_bytes(sheaf_int(1), 0).size, 0);
}

/* R4.17: a plain number is flagged; the tensor it came from is not. */
static void test_plain(void **state)
{
    (void)state;
    sheaf_tensor *t = sheaf_int(3);
    sheaf_tensor *plain = sheaf_plain(t);
    assert_true(sheaf_tensor_is_plain(plain));
    assert_false(sheaf_tensor_is_plain(t));
    assert_ptr_equal(sheaf_tensor_data(plain), sheaf_tensor_data(t));
    assert_int_equal(sheaf_tensor_status(sheaf_plain(matrix()), NULL), SHEAF_ERR_INVALID_ARGUMENT);
    assert_int_equal(sheaf_tensor_status(sheaf_plain(NULL), NULL), SHEAF_ERR_INVALID_ARGUMENT);
    assert_false(sheaf_tensor_is_plain(NULL));
}

/* Slices share memory: by address. */
static void test_views(void **state)
{
    (void)state;
    sheaf_tensor *t = matrix();
    const float *data = sheaf_tensor_data(t);
    sheaf_tensor *rows = sheaf_tensor_rows(t, 1, 3);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(rows), SHEAF_SHAPE(2, 2)));
    assert_ptr_equal(sheaf_tensor_data(rows), data + 2);
    assert_ptr_equal(sheaf_tensor_data(sheaf_tensor_rows(rows, 1, 2)), data + 4);
    assert_int_equal(sheaf_tensor_elements(sheaf_tensor_rows(t, 3, 3)), 0);
    sheaf_error err;
    rig_fails(sheaf_tensor_status(sheaf_tensor_rows(t, 2, 4), &err), &err, SHEAF_ERR_OUT_OF_RANGE,
              "rows 2 to 4 of a tensor of shape (3, 2)");
    assert_int_equal(sheaf_tensor_status(sheaf_tensor_rows(t, -1, 1), NULL),
                     SHEAF_ERR_OUT_OF_RANGE);
    assert_int_equal(sheaf_tensor_status(sheaf_tensor_rows(t, 2, 1), NULL), SHEAF_ERR_OUT_OF_RANGE);
    assert_int_equal(sheaf_tensor_status(sheaf_tensor_rows(sheaf_int(1), 0, 1), NULL),
                     SHEAF_ERR_OUT_OF_RANGE);
}

/* A view with gaps is gathered once. */
static void test_gather(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_tensor *t = matrix();
    int64_t strides[] = {1, 2};
    sheaf_tensor *flipped =
        sheaf__tensor_give(sheaf__tensor_view(t, SHEAF_SHAPE(2, 3), strides, 0, &err), &err);
    assert_false(flipped->contiguous);
    const float *data = sheaf_tensor_data(flipped);
    const float expected[] = {0, 2, 4, 1, 3, 5};
    assert_memory_equal(data, expected, sizeof(expected));
    assert_ptr_equal(sheaf_tensor_data(flipped), data);
    assert_true(sheaf_tensor_number(flipped, 1) == 2);
    /* Rows of it lie as the view does. */
    sheaf_tensor *last = sheaf_tensor_rows(flipped, 1, 2);
    assert_true(sheaf_tensor_number(last, 2) == 5);
    /* Broadcast and backwards. */
    int64_t again[] = {0, -1};
    t = sheaf__tensor_give(sheaf__tensor_view(t, SHEAF_SHAPE(2, 3), again, 2, &err), &err);
    const float backwards[] = {2, 1, 0, 2, 1, 0};
    assert_memory_equal(sheaf_tensor_data(t), backwards, sizeof(backwards));
}

static void test_over(void **state)
{
    (void)state;
    sheaf_error err;
    struct sheaf__buffer *buffer = sheaf__buffer_new(NULL, 100, &err);
    sheaf_tensor *t = sheaf__tensor_over(SHEAF_INT32, SHEAF_SHAPE(5), buffer, 80, &err);
    assert_ptr_equal(sheaf__tensor_out(t), (char *)buffer->data + 80);
    sheaf__unref(t);
    assert_null(sheaf__tensor_over(SHEAF_INT32, SHEAF_SHAPE(6), buffer, 80, &err));
    assert_non_null(strstr(err.message, "does not fit into a buffer of 100 bytes"));
    assert_null(sheaf__tensor_over(SHEAF_INT8, SHEAF_SHAPE(0), buffer, 101, &err));
    sheaf__unref(buffer);
}

/* NULL and failed tensors are allowed everywhere. */
static void test_failed(void **state)
{
    (void)state;
    sheaf_error cause = {.status = SHEAF_ERR_IO, .message = "broken"}, err;
    sheaf_tensor *bad[] = {NULL, sheaf_failed(&cause)};
    for (int i = 0; i < 2; i++) {
        sheaf_tensor *t = bad[i];
        assert_int_equal(sheaf_tensor_dtype(t), SHEAF_INVALID_DTYPE);
        assert_int_equal(sheaf_tensor_elements(t), 0);
        assert_int_equal(sheaf_shape_elements(sheaf_tensor_shape(t)), 0);
        assert_null(sheaf_tensor_data(t));
        assert_string_equal(sheaf_tensor_device(t), "");
        assert_int_equal(sheaf_tensor_integer(t, 0), 0);
        assert_int_equal(sheaf_tensor_bytes(t, 0).size, 0);
        assert_true(sheaf_tensor_status(sheaf_tensor_rows(t, 0, 1), NULL) < 0);
        assert_true(sheaf_tensor_status(sheaf_tensor_to_device(t, "CPU:0"), NULL) < 0);
    }
    rig_fails(sheaf_tensor_status(bad[1], &err), &err, SHEAF_ERR_IO, "broken");
    /* The first of several comes through, and is latched where it is used. */
    sheaf_tensor *mixed[] = {matrix(), bad[1]};
    SHEAF_FRAME
    {
        assert_ptr_equal(sheaf__tensor_first_failed(mixed, 2), bad[1]);
        rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_IO, "broken");
    }
    assert_null(sheaf__tensor_first_failed(mixed, 1));
    rig_fails(sheaf_tensor_status(sheaf_failed(NULL), &err), &err, SHEAF_ERR_INTERNAL, "");
    sheaf_tensor *none = sheaf_tensor_new((sheaf_dtype)99, SHEAF_SCALAR, NULL);
    assert_int_equal(sheaf_tensor_status(none, NULL), SHEAF_ERR_INVALID_ARGUMENT);
}

static void test_integers(void **state)
{
    (void)state;
    double data[] = {2.9, -2.9, 1e300, -1e300, 0.0 / 0.0};
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT64, SHEAF_SHAPE(5), data);
    assert_int_equal(sheaf_tensor_integer(t, 0), 2);
    assert_int_equal(sheaf_tensor_integer(t, 1), -2);
    assert_true(sheaf_tensor_integer(t, 2) == INT64_MAX);
    assert_true(sheaf_tensor_integer(t, 3) == INT64_MIN);
    assert_int_equal(sheaf_tensor_integer(t, 4), 0);
    uint64_t large = UINT64_MAX;
    t = sheaf_tensor_new(SHEAF_UINT64, SHEAF_SCALAR, &large);
    assert_true(sheaf_tensor_integer(t, 0) == INT64_MAX);
    assert_true(sheaf_tensor_number(t, 0) == 0x1p64);
    /* Not through double, which would round. */
    assert_true(sheaf_tensor_integer(sheaf_long(INT64_MAX - 1), 0) == INT64_MAX - 1);
    uint16_t half = 0x3e00;
    assert_true(sheaf_tensor_number(sheaf_tensor_new(SHEAF_FLOAT16, SHEAF_SCALAR, &half), 0) ==
                1.5);
}

/* A string tensor keeps what its views rest on. */
static void test_strings_keep_owners(void **state)
{
    (void)state;
    sheaf_error err;
    static char file[] = "alphabetagamma";
    released = 0;
    struct sheaf__buffer *mapped = sheaf__buffer_wrap(file, sizeof(file), release, file, &err);
    sheaf_tensor *t = sheaf__tensor_new(SHEAF_STRING, SHEAF_SHAPE(3), NULL, &err);
    sheaf_bytes *out = sheaf__tensor_out(t);
    assert_int_equal(out[2].size, 0);
    out[0] = (sheaf_bytes){file, 5};
    out[1] = (sheaf_bytes){file + 5, 4};
    out[2] = (sheaf_bytes){file + 9, 5};
    rig_ok(sheaf__string_keep(t, mapped, &err), &err);
    sheaf__unref(mapped);
    /* Another tensor of the same views, and a slice of that. */
    sheaf_tensor *copy = sheaf__tensor_new(SHEAF_STRING, SHEAF_SHAPE(1), NULL, &err);
    *(sheaf_bytes *)sheaf__tensor_out(copy) = out[1];
    rig_ok(sheaf__string_keep_like(copy, t, &err), &err);
    sheaf_tensor *slice = sheaf__tensor_slice(t, 2, 3, &err);
    assert_ptr_equal(sheaf_tensor_bytes(slice, 0).data, file + 9);
    sheaf__unref(t);
    assert_int_equal(released, 0);
    sheaf__unref(slice);
    assert_int_equal(released, 0);
    assert_memory_equal(sheaf_tensor_bytes(copy, 0).data, "beta", 4);
    sheaf__unref(copy);
    assert_int_equal(released, 1);
}

static void test_string_copies(void **state)
{
    (void)state;
    char text[] = "one";
    sheaf_bytes strings[] = {{text, 3}, {NULL, 0}, {"a\0b", 3}};
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(3), strings);
    memset(text, 'x', 3);
    assert_memory_equal(sheaf_tensor_bytes(t, 0).data, "one", 3);
    assert_int_equal(sheaf_tensor_bytes(t, 1).size, 0);
    assert_non_null(sheaf_tensor_bytes(t, 1).data);
    assert_memory_equal(sheaf_tensor_bytes(t, 2).data, "a\0b", 3);
    assert_int_equal(sheaf_tensor_bytes(t, 3).size, 0);
    t = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(2), NULL);
    assert_int_equal(sheaf_tensor_bytes(t, 1).size, 0);
}

static void test_string_room(void **state)
{
    (void)state;
    sheaf_error err;
    struct sheaf__string_room room = {0};
    sheaf_tensor *t = sheaf__tensor_new(SHEAF_STRING, SHEAF_SHAPE(1000), NULL, &err);
    sheaf_bytes *out = sheaf__tensor_out(t);
    for (int i = 0; i < 1000; i++) {
        size_t size = i == 500 ? 200000 : (size_t)i % 300;
        char *bytes = sheaf__string_room_alloc(&room, size, &err);
        memset(bytes, i, size);
        out[i] = (sheaf_bytes){bytes, size};
    }
    rig_ok(sheaf__string_room_keep(&room, t, &err), &err);
    sheaf__string_room_free(&room);
    for (int i = 0; i < 1000; i++)
        for (size_t k = 0; k < out[i].size; k++)
            assert_int_equal((unsigned char)out[i].data[k], i % 256);
    sheaf__unref(t);
}

/* ---- other layouts ---- */

static sheaf_tensor *int64s(int64_t n, const int64_t *data)
{
    return sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(n), data);
}

static void assert_lacks(sheaf_tensor *t, const char *message)
{
    sheaf_error err;
    assert_int_equal(sheaf_tensor_status(t, &err), SHEAF_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, message));
}

static void test_ragged(void **state)
{
    (void)state;
    sheaf_error err;
    const int64_t splits[] = {0, 2, 2, 6}, bad[] = {0, 3, 2, 6}, short_of[] = {0, 2, 2, 5};
    sheaf_tensor *values = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(6), six);
    sheaf_tensor *t =
        sheaf__tensor_give(sheaf__tensor_ragged(values, int64s(4, splits), &err), &err);
    assert_int_equal(sheaf_tensor_status(t, NULL), SHEAF_OK);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(t), SHEAF_SHAPE(3, -1)));
    assert_int_equal(sheaf_tensor_elements(t), 6);
    assert_null(sheaf_tensor_data(t));
    assert_int_equal(sheaf_tensor_layout(t), SHEAF_LAYOUT_RAGGED);
    assert_ptr_equal(sheaf_tensor_data(sheaf_tensor_values(t)), sheaf_tensor_data(values));
    assert_memory_equal(sheaf_tensor_data(sheaf_tensor_row_splits(t)), splits, sizeof(splits));
    assert_lacks(sheaf_tensor_indices(t), "a tensor that is ragged has no indices");
    /* Rows 1 and 2: the values are a view. */
    sheaf_tensor *rows = sheaf_tensor_rows(t, 1, 3);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(rows), SHEAF_SHAPE(2, -1)));
    assert_ptr_equal(sheaf_tensor_data(rows->parts[SHEAF__RAGGED_VALUES]),
                     (const float *)sheaf_tensor_data(values) + 2);
    const int64_t expected[] = {0, 0, 4};
    assert_memory_equal(sheaf_tensor_data(rows->parts[SHEAF__ROW_SPLITS]), expected,
                        sizeof(expected));
    assert_null(sheaf__tensor_ragged(values, int64s(4, bad), &err));
    assert_non_null(strstr(err.message, "row split 2 is 2"));
    assert_null(sheaf__tensor_ragged(values, int64s(4, short_of), &err));
    assert_non_null(strstr(err.message, "last row split is 5, but there are 6"));
    assert_null(sheaf__tensor_ragged(values, values, &err));
    /* Ragged in ragged. */
    const int64_t outer[] = {0, 1, 3};
    sheaf_tensor *nested =
        sheaf__tensor_give(sheaf__tensor_ragged(t, int64s(3, outer), &err), &err);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(nested), SHEAF_SHAPE(2, -1, -1)));
    assert_int_equal(sheaf_tensor_layout(sheaf_tensor_values(nested)), SHEAF_LAYOUT_RAGGED);
    nested = sheaf_tensor_rows(nested, 1, 2);
    assert_int_equal(sheaf_tensor_elements(nested), 4);
}

static void test_sparse(void **state)
{
    (void)state;
    sheaf_error err;
    const int64_t index_data[] = {0, 1, 2, 0, 2, 4, 3, 3};
    sheaf_tensor *indices = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(4, 2), index_data);
    sheaf_tensor *values = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(4), six);
    sheaf_tensor *t =
        sheaf__tensor_give(sheaf__tensor_sparse(indices, values, SHEAF_SHAPE(4, 5), &err), &err);
    assert_int_equal(sheaf_tensor_elements(t), 20);
    assert_null(sheaf_tensor_data(t));
    assert_int_equal(sheaf_tensor_layout(t), SHEAF_LAYOUT_SPARSE);
    assert_ptr_equal(sheaf_tensor_data(sheaf_tensor_values(t)), sheaf_tensor_data(values));
    assert_memory_equal(sheaf_tensor_data(sheaf_tensor_indices(t)), index_data, sizeof(index_data));
    assert_lacks(sheaf_tensor_row_splits(t), "a tensor that is sparse has no row splits");
    assert_lacks(sheaf_tensor_values(values), "a tensor that is dense has no values of its own");
    assert_int_equal(sheaf_tensor_layout(NULL), SHEAF_LAYOUT_DENSE);
    sheaf_tensor *rows = sheaf_tensor_rows(t, 1, 3);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(rows), SHEAF_SHAPE(2, 5)));
    const int64_t expected[] = {1, 0, 1, 4};
    assert_memory_equal(sheaf_tensor_data(rows->parts[SHEAF__INDICES]), expected, sizeof(expected));
    assert_ptr_equal(sheaf_tensor_data(rows->parts[SHEAF__VALUES]),
                     (const float *)sheaf_tensor_data(values) + 1);
    assert_null(sheaf__tensor_sparse(indices, values, SHEAF_SHAPE(4), &err));
    assert_null(sheaf__tensor_sparse(values, values, SHEAF_SHAPE(4, 5), &err));
}

static void test_rows(void **state)
{
    (void)state;
    sheaf_error err;
    const int64_t ids[] = {7, 1, 7};
    sheaf_tensor *t = sheaf__tensor_give(
        sheaf__tensor_rows(int64s(3, ids), matrix(), SHEAF_SHAPE(10, 2), &err), &err);
    assert_int_equal(sheaf_tensor_layout(t), SHEAF_LAYOUT_ROWS);
    assert_memory_equal(sheaf_tensor_data(sheaf_tensor_indices(t)), ids, sizeof(ids));
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(sheaf_tensor_values(t)), SHEAF_SHAPE(3, 2)));
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(t), SHEAF_SHAPE(10, 2)));
    assert_null(sheaf__tensor_rows(int64s(2, ids), matrix(), SHEAF_SHAPE(10, 2), &err));
    assert_null(sheaf__tensor_rows(int64s(3, ids), matrix(), SHEAF_SHAPE(10, 3), &err));
    assert_int_equal(sheaf_tensor_status(sheaf_tensor_rows(t, 0, 1), NULL),
                     SHEAF_ERR_INVALID_ARGUMENT);
}

/* ---- pooling, threads ---- */

/* Headers and buffers come back: the second step allocates nothing. */
static void test_steps_allocate_nothing(void **state)
{
    (void)state;
    uint64_t before = 0;
    const void *data = NULL;
    for (int step = 0; step < 4; step++) {
        SHEAF_FRAME
        {
            sheaf_tensor *t = matrix();
            for (int i = 0; i < 200; i++)
                sheaf_tensor_rows(t, 0, 1 + i % 3);
            sheaf_string("text");
            sheaf_plain(sheaf_int(1));
            if (step > 1)
                assert_ptr_equal(sheaf_tensor_data(t), data);
            data = sheaf_tensor_data(t);
        }
        uint64_t allocations = sheaf__mem_stats().allocations;
        if (step > 0)
            assert_int_equal(allocations, before);
        before = allocations;
    }
}

static void test_ids(void **state)
{
    (void)state;
    sheaf_tensor *a = sheaf_int(1), *b = sheaf_int(1);
    assert_true(sheaf__tensor_id(a) != 0);
    assert_true(sheaf__tensor_id(a) == sheaf__tensor_id(a));
    assert_true(sheaf__tensor_id(a) != sheaf__tensor_id(b));
}

struct shared {
    sheaf_tensor *tensor;
    _Atomic uint64_t id;
    _Atomic bool wrong;
};

static void use_shared(void *user)
{
    struct shared *s = user;
    for (int i = 0; i < 500; i++)
        SHEAF_FRAME
        {
            sheaf_tensor *own = sheaf_tensor_keep(s->tensor);
            sheaf_tensor *row = sheaf_tensor_rows(own, i % 2, i % 2 + 1);
            const float *data = sheaf_tensor_data(own);
            uint64_t id = 0;
            if (data[1] != 2 || sheaf_tensor_number(row, 2) != 4 + i % 2)
                atomic_store(&s->wrong, true);
            if (!atomic_compare_exchange_strong(&s->id, &id, sheaf__tensor_id(own)) &&
                id != sheaf__tensor_id(own))
                atomic_store(&s->wrong, true);
            sheaf_tensor_free(own);
        }
}

/* A tensor is read, viewed, gathered and counted by several threads at once. */
static void test_threads(void **state)
{
    (void)state;
    sheaf_error err;
    int64_t strides[] = {1, 2};
    struct shared s = {.id = 0};
    s.tensor = sheaf__tensor_view(matrix(), SHEAF_SHAPE(2, 3), strides, 0, &err);
    struct sheaf__thread *threads[3];
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_start("use", use_shared, &s, NULL, &threads[i], &err), &err);
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_join(threads[i], INT64_MAX, &err), &err);
    assert_false(atomic_load(&s.wrong));
    assert_true(sheaf__object_unique(s.tensor));
    sheaf_tensor_free(s.tensor);
}

static sheaf_status make_all(void *user, sheaf_error *err)
{
    (void)user;
    sheaf_context *context = NULL;
    sheaf_status status = sheaf_context_new(NULL, &context, err);
    if (status < 0)
        return status;
    sheaf_context *before = sheaf_context_enter(context);
    SHEAF_FRAME
    {
        const int64_t splits[] = {0, 2, 6};
        int64_t strides[] = {1, 2};
        sheaf_tensor *t = matrix();
        sheaf_tensor_rows(t, 0, 1);
        sheaf_bytes strings[] = {{"a", 1}, {"b", 1}};
        sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(2), strings);
        sheaf_tensor *values = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(6), six);
        sheaf_tensor *row_splits = int64s(3, splits);
        sheaf_error own = {0};
        if (sheaf__tensor_ok(values) && sheaf__tensor_ok(row_splits))
            sheaf_tensor_rows(
                sheaf__tensor_give(sheaf__tensor_ragged(values, row_splits, &own), &own), 0, 1);
        if (sheaf__tensor_ok(t)) {
            t = sheaf__tensor_give(sheaf__tensor_view(t, SHEAF_SHAPE(2, 3), strides, 0, &own),
                                   &own);
            if (sheaf__tensor_ok(t) && !sheaf__tensor_host(t, &own))
                sheaf_failed(&own);
        }
        status = sheaf_frame_status(err);
    }
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

/* With any allocation failing: a failed tensor, a clean end. */
static void test_without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(make_all, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_new_copies),
        rig_test(test_wrap),
        rig_test(test_scalars),
        rig_test(test_plain),
        rig_test(test_views),
        rig_test(test_gather),
        rig_test(test_over),
        rig_test(test_failed),
        rig_test(test_integers),
        rig_test(test_strings_keep_owners),
        rig_test(test_string_copies),
        rig_test(test_string_room),
        rig_test(test_ragged),
        rig_test(test_sparse),
        rig_test(test_rows),
        rig_test(test_steps_allocate_nothing),
        rig_test(test_ids),
        rig_test(test_threads),
        rig_test(test_without_memory),
    };
    return rig_run(tests);
}
