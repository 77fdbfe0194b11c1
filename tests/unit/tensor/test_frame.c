/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/object.h"
#include "base/thread.h"
#include "tensor/frame.h"
#include "tensor/heap.h"
#include "tensor/tensor.h"

#include <string.h>

/* An object that says when it goes. */
struct probe {
    struct sheaf__object object;
    int number;
};
static int gone[16];
static int gone_count;

static void probe_destroy(void *object)
{
    gone[gone_count++] = ((struct probe *)object)->number;
}
static const struct sheaf__class probe_class = {"probe", probe_destroy};

static struct probe *probe(struct probe *p, int number)
{
    p->number = number;
    sheaf__object_init(&p->object, &probe_class);
    return p;
}

static int reset(void **state)
{
    gone_count = 0;
    return rig_setup(state);
}
#define frame_test(fn) cmocka_unit_test_setup_teardown(fn, reset, rig_teardown)

static void test_releases_newest_first(void **state)
{
    (void)state;
    struct probe p[3];
    SHEAF_FRAME
    {
        for (int i = 0; i < 3; i++)
            assert_ptr_equal(sheaf__frame_own(probe(&p[i], i)), &p[i]);
        assert_int_equal(gone_count, 0);
    }
    assert_int_equal(gone_count, 3);
    assert_int_equal(gone[0], 2);
    assert_int_equal(gone[2], 0);
    assert_null(sheaf__frame_current());
}

static int leave_by(int how, struct probe *p)
{
    SHEAF_FRAME
    {
        sheaf__frame_own(probe(p, how));
        if (how == 0)
            break;
        if (how == 1)
            return 1;
        if (how == 2)
            goto out;
        if (how == 3)
            continue;
    }
out:
    return 0;
}

/* The block macro is clean however it is left. */
static void test_early_exits(void **state)
{
    (void)state;
    struct probe p;
    for (int how = 0; how < 5; how++) {
        assert_int_equal(leave_by(how, &p), how == 1);
        assert_int_equal(gone_count, how + 1);
        assert_null(sheaf__frame_current());
    }
}

static void test_nested_frames(void **state)
{
    (void)state;
    struct probe p[4];
    SHEAF_FRAME
    {
        sheaf_frame *outer = sheaf__frame_current();
        sheaf__frame_own(probe(&p[0], 0));
        SHEAF_FRAME
        {
            sheaf__frame_own(probe(&p[1], 1));
            sheaf__frame_own_in(outer, probe(&p[2], 2));
        }
        assert_int_equal(gone_count, 1);
        assert_int_equal(gone[0], 1);
        assert_ptr_equal(sheaf__frame_current(), outer);
        sheaf__frame_own(probe(&p[3], 3));
    }
    assert_int_equal(gone_count, 4);
}

/* Closing an outer frame closes what was opened inside it. */
static void test_close_outer_first(void **state)
{
    (void)state;
    struct probe p[2];
    sheaf_frame outer = {0}, inner = {0};
    sheaf_frame_open(&outer);
    sheaf__frame_own(probe(&p[0], 0));
    sheaf_frame_open(&inner);
    sheaf__frame_own(probe(&p[1], 1));
    sheaf_frame_close(&outer);
    assert_int_equal(gone_count, 2);
    assert_int_equal(gone[0], 1);
    assert_null(sheaf__frame_current());
    sheaf_frame_close(&inner);
    sheaf_frame_close(&outer);
    assert_int_equal(gone_count, 2);
}

static void test_clear_keeps_it_open(void **state)
{
    (void)state;
    struct probe p[2];
    SHEAF_FRAME
    {
        sheaf_frame *frame = sheaf__frame_current();
        sheaf__frame_own(probe(&p[0], 0));
        sheaf_frame_clear();
        assert_int_equal(gone_count, 1);
        assert_ptr_equal(sheaf__frame_current(), frame);
        sheaf__frame_own(probe(&p[1], 1));
    }
    assert_int_equal(gone_count, 2);
}

static void test_many_entries(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        for (int i = 0; i < 5000; i++)
            assert_int_equal(sheaf_tensor_integer(sheaf_int(i), 0), i);
    }
    /* Nothing is held any more, everything waits for reuse. */
    assert_int_equal(sheaf__heap_stats(sheaf__heap_current(NULL)).live_bytes, 0);
}

static void test_first_error(void **state)
{
    (void)state;
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        assert_int_equal(sheaf_frame_status(&err), SHEAF_OK);
        SHEAF_FRAME
        {
            sheaf__tensor_fail(SHEAF_ERR_NOT_FOUND, "first %d", 1);
            sheaf__tensor_fail(SHEAF_ERR_IO, "second");
            for (int i = 0; i < 1000; i++)
                sheaf_int(i);
            rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_NOT_FOUND, "first 1");
        }
        /* An inner frame keeps its errors to itself. */
        assert_int_equal(sheaf_frame_status(&err), SHEAF_OK);
    }
}

static void test_errors_of_the_root(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf__tensor_fail(SHEAF_ERR_IO, "outside");
    rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_IO, "outside");
    sheaf_frame_clear();
    assert_int_equal(sheaf_frame_status(&err), SHEAF_OK);
}

static void test_memory_and_text(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        char *memory = sheaf__frame_alloc(1000);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        memset(memory, 1, 1000);
        assert_string_equal(sheaf__frame_text("hello!", 5), "hello");
        struct sheaf__str str = {0};
        sheaf__str_printf(&str, "%d", 42);
        assert_string_equal(sheaf__frame_str(&str), "42");
    }
    assert_int_equal(sheaf__heap_stats(sheaf__heap_current(NULL)).live_bytes, 0);
}

/* A library thread that works for another one puts results into that one's frame. */
static void test_swap(void **state)
{
    (void)state;
    struct probe p[2];
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_frame *before = sheaf__frame_swap(NULL);
    assert_ptr_equal(before, &frame);
    sheaf__frame_own(probe(&p[0], 0)); /* the root's */
    assert_ptr_equal(sheaf__frame_swap(before), NULL);
    sheaf__frame_own(probe(&p[1], 1));
    sheaf_frame_close(&frame);
    assert_int_equal(gone_count, 1);
    assert_int_equal(gone[0], 1);
    sheaf_frame_clear();
    assert_int_equal(gone_count, 2);
}

static void fill_root(void *user)
{
    (void)user;
    for (int i = 0; i < 65536; i++)
        sheaf_int(i);
    assert_null(sheaf__frame_current());
    sheaf_int(0);
    sheaf_int(0);
}

/* The root warns once past 65,536 entries, and goes with its thread. */
static void test_root_warns_once(void **state)
{
    (void)state;
    sheaf_error err;
    for (int i = 0; i < 2; i++) {
        struct sheaf__thread *thread = NULL;
        rig_ok(sheaf__thread_start("root", fill_root, NULL, NULL, &thread, &err), &err);
        rig_ok(sheaf__thread_join(thread, INT64_MAX, &err), &err);
        const char *log = rig_log_take();
        assert_non_null(strstr(log, "more than 65536 results wait"));
        assert_null(strchr(strchr(log, '\n') + 1, '\n'));
    }
    assert_int_equal(sheaf__heap_stats(sheaf__heap_current(NULL)).live_bytes, 0);
}

static sheaf_status build(void *user, sheaf_error *err)
{
    (void)user;
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        for (int i = 0; i < 100; i++) {
            sheaf_tensor *t = sheaf_int(i);
            assert_non_null(t);
            sheaf__frame_text("abc", 3);
        }
        status = sheaf_frame_status(err);
    }
    return status;
}

/* Whatever allocation fails, a builder returns a failed tensor and the frame says so. */
static sheaf_status build_in_own_context(void *user, sheaf_error *err)
{
    sheaf_context *context = NULL;
    sheaf_status status = sheaf_context_new(NULL, &context, err);
    if (status < 0)
        return status;
    sheaf_context *before = sheaf_context_enter(context);
    status = build(user, err);
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

static void test_without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(build_in_own_context, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        frame_test(test_releases_newest_first), frame_test(test_early_exits),
        frame_test(test_nested_frames),         frame_test(test_close_outer_first),
        frame_test(test_clear_keeps_it_open),   frame_test(test_many_entries),
        frame_test(test_first_error),           frame_test(test_errors_of_the_root),
        frame_test(test_memory_and_text),       frame_test(test_swap),
        frame_test(test_root_warns_once),       frame_test(test_without_memory),
    };
    return rig_run(tests);
}
