/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/mem.h"
#include "base/thread.h"
#include "tensor/buffer.h"
#include "tensor/device.h"
#include "tensor/heap.h"

#include <string.h>

/* A buffer freed is the next one of its size: by address. */
static void test_reuse(void **state)
{
    (void)state;
    sheaf_error err;
    struct sheaf__buffer *a = sheaf__buffer_new(NULL, 1000, &err);
    void *data = a->data;
    assert_int_equal((uintptr_t)data % 64, 0);
    assert_int_equal(a->size, 1000);
    memset(data, 7, 1000);
    sheaf__unref(a);
    struct sheaf__buffer *b = sheaf__buffer_new(NULL, 990, &err);
    assert_ptr_equal(b->data, data);
    struct sheaf__buffer *c = sheaf__buffer_new(NULL, 1000, &err);
    assert_ptr_not_equal(c->data, data);
    sheaf__unref(b);
    sheaf__unref(c);
}

/* Repeating the same work takes nothing from the system after the first time. */
static void test_second_round_allocates_nothing(void **state)
{
    (void)state;
    sheaf_error err;
    uint64_t before = 0;
    for (int round = 0; round < 3; round++) {
        struct sheaf__buffer *buffers[50];
        for (size_t i = 0; i < 50; i++)
            buffers[i] = sheaf__buffer_new(NULL, i * i * 100, &err);
        for (size_t i = 0; i < 50; i++)
            sheaf__unref(buffers[i]);
        uint64_t allocations = sheaf__mem_stats().allocations;
        if (round > 0)
            assert_int_equal(allocations, before);
        before = allocations;
    }
}

static void test_room(void **state)
{
    (void)state;
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    for (size_t size = 0; size < 100000; size = size * 5 / 4 + 1) {
        size_t room = sheaf__heap_room(size);
        assert_true(room >= size && room % 64 == 0);
        assert_true(room <= 128 || room <= size + size / 4 + 64);
        char *block = sheaf__heap_alloc(heap, size);
        memset(block, 1, size);
        assert_int_equal(sheaf__heap_stats(heap).live_bytes, room);
        sheaf__heap_free(heap, block, size);
        /* All of the room may be asked for, and is the same block. */
        assert_ptr_equal(sheaf__heap_alloc(heap, room), block);
        memset(block, 1, room);
        sheaf__heap_free(heap, block, room);
    }
    /* A power of two fits exactly behind a buffer's head. */
    assert_int_equal(sheaf__heap_room((1 << 20) + SHEAF__BUFFER_HEAD), (1 << 20) + 64);
    assert_null(sheaf__heap_alloc(heap, SIZE_MAX));
    assert_null(sheaf__heap_alloc(heap, (size_t)1 << 50));
}

static void test_limits(void **state)
{
    (void)state;
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    sheaf__heap_set_keep(heap, 100000);
    void *blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = sheaf__heap_alloc(heap, 20000);
    for (int i = 0; i < 10; i++)
        sheaf__heap_free(heap, blocks[i], 20000);
    uint64_t cached = sheaf__heap_stats(heap).cached_bytes;
    assert_true(cached > 0 && cached <= 100000);
    sheaf__heap_trim(heap, 0);
    assert_int_equal(sheaf__heap_stats(heap).cached_bytes, 0);
}

/* What has been freed in sizes that nobody asks for any more does not pile up. */
static void test_stale_sizes_are_given_up(void **state)
{
    (void)state;
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    for (size_t i = 0; i < 40; i++) {
        size_t size = ((size_t)10 << 20) + i * ((size_t)2 << 20);
        void *block = sheaf__heap_alloc(heap, size);
        assert_non_null(block);
        sheaf__heap_free(heap, block, size);
    }
    assert_true(sheaf__heap_stats(heap).cached_bytes < (uint64_t)300 << 20);
}

static int released;
static void release(void *data, void *user)
{
    assert_ptr_equal(data, user);
    released++;
}

static void test_foreign_memory(void **state)
{
    (void)state;
    sheaf_error err;
    char memory[10];
    released = 0;
    struct sheaf__buffer *b = sheaf__buffer_wrap(memory, sizeof(memory), release, memory, &err);
    assert_ptr_equal(b->data, memory);
    sheaf__ref(b);
    sheaf__unref(b);
    assert_int_equal(released, 0);
    sheaf__unref(b);
    assert_int_equal(released, 1);
    /* The caller gave it away, also if that fails. */
    sheaf__heap_trim(sheaf__heap_current(NULL), 0);
    sheaf__mem_fail_at(1);
    assert_null(sheaf__buffer_wrap(memory, sizeof(memory), release, memory, &err));
    sheaf__mem_fail_at(0);
    assert_int_equal(released, 2);
}

static void test_owners(void **state)
{
    (void)state;
    sheaf_error err;
    released = 0;
    char memory[20];
    struct sheaf__buffer *b = sheaf__buffer_new(NULL, 1, &err);
    for (int i = 0; i < 20; i++) {
        struct sheaf__buffer *owner = sheaf__buffer_wrap(memory + i, 1, release, memory + i, &err);
        for (int k = 0; k < 3; k++)
            rig_ok(sheaf__buffer_keep(b, owner, &err), &err);
        /* Kept once: ours and one more. */
        assert_int_equal(atomic_load(&owner->object.refs), 2);
        sheaf__unref(owner);
    }
    struct sheaf__buffer *c = sheaf__buffer_new(NULL, 1, &err);
    rig_ok(sheaf__buffer_keep_like(c, b, &err), &err);
    sheaf__unref(b);
    assert_int_equal(released, 0);
    sheaf__unref(c);
    assert_int_equal(released, 20);
}

struct traffic {
    struct sheaf__buffer *_Atomic handed[16];
    _Atomic int done;
};

static void produce(void *user)
{
    struct traffic *traffic = user;
    sheaf_error err;
    for (int i = 0; i < 4000; i++) {
        struct sheaf__buffer *b = sheaf__buffer_new(NULL, 100 + (size_t)i % 7 * 1000, &err);
        memset(b->data, i, b->size);
        sheaf__unref(atomic_exchange(&traffic->handed[i % 16], b));
    }
    atomic_fetch_add(&traffic->done, 1);
}

/* Buffers made on one thread and freed on another. */
static void test_threads(void **state)
{
    (void)state;
    sheaf_error err;
    struct traffic traffic = {.done = 0};
    struct sheaf__thread *threads[3];
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_start("heap", produce, &traffic, NULL, &threads[i], &err), &err);
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_join(threads[i], INT64_MAX, &err), &err);
    for (int i = 0; i < 16; i++)
        sheaf__unref(atomic_load(&traffic.handed[i]));
    assert_int_equal(sheaf__heap_stats(sheaf__heap_current(NULL)).live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_reuse),
        rig_test(test_second_round_allocates_nothing),
        rig_test(test_room),
        rig_test(test_limits),
        rig_test(test_stale_sizes_are_given_up),
        rig_test(test_foreign_memory),
        rig_test(test_owners),
        rig_test(test_threads),
    };
    return rig_run(tests);
}
