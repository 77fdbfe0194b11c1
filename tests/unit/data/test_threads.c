/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/wait.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* prefetch, and the end of iterators whose threads are busy. */

/* A source that counts what was asked of it and can be held. */
struct well {
    _Atomic int drawn;
    _Atomic int held; /* numbers from here on wait until it is let go */
    _Atomic bool released;
};
static sheaf_status draw(void *state, sheaf_element *out, sheaf_error *err)
{
    struct well *w = state;
    int n = atomic_fetch_add(&w->drawn, 1);
    (void)err;
    while (n >= atomic_load(&w->held) && !atomic_load(&w->released))
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    if (n % 10 == 9)
        return sheaf_error_set(err, SHEAF_ERR_IO, "number %d", n);
    return sheaf_element_put(out, "", sheaf_long(n));
}

static sheaf_dataset *drawn_from(struct well *w)
{
    const sheaf_generator g = {NULL, draw, NULL, w};
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, SHEAF_SCALAR));
    return d;
}

/* Waits until `*value` has been `expected` for a while. */
static int settled(_Atomic int *value, int expected)
{
    int64_t deadline = sheaf__clock_after(5 * SHEAF__S);
    while (atomic_load(value) < expected && sheaf__clock_now() < deadline)
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, NULL);
    sheaf__wait_sleep(sheaf__clock_after(20 * SHEAF__MS), NULL, NULL);
    return atomic_load(value);
}

/* R9.19, S135: as many elements are made ahead as were asked for, and no more. */
static void test_runs_ahead_exactly(void **state)
{
    (void)state;
    struct well w = {.held = INT32_MAX};
    sheaf_dataset *d = sheaf_dataset_prefetch(drawn_from(&w), 3);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    for (int i = 0; i < 5; i++)
        SHEAF_FRAME
        {
            sheaf_element *e;
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            assert_int_equal(sheaf_tensor_integer(sheaf_element_get(e, NULL), 0), i);
            assert_int_equal(settled(&w.drawn, i + 4), i + 4);
        }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* R9.19: an error comes in its place, and the elements go on behind it. */
static void test_errors_keep_their_place(void **state)
{
    (void)state;
    const int64_t ahead[] = {0, 1, 4, 30, SHEAF_AUTOTUNE};
    for (size_t k = 0; k < 5; k++) {
        struct well w = {.held = INT32_MAX};
        sheaf_dataset *d = sheaf_dataset_take(drawn_from(&w), 20);
        d = sheaf_dataset_prefetch(d, ahead[k]);
        assert_elements(d, "[0, 1, 2, 3, 4, 5, 6, 7, 8, {\"status\": \"IO\"}, 10, 11, 12, 13, 14, "
                           "15, 16, 17, 18, {\"status\": \"IO\"}, 20, 21]");
        sheaf_dataset_free(d);
    }
    assert_first_fails(sheaf_dataset_prefetch(sheaf_dataset_range(0, 3, 1), -2),
                       SHEAF_ERR_INVALID_ARGUMENT, "stage 2 (prefetch)");
}

static sheaf_status pass(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}
static sheaf_dataset *open_endless(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return sheaf_dataset_prefetch(sheaf_dataset_repeat(sheaf_dataset_range(0, 5, 1), -1), 4);
}

/* Pipelines with threads in all places. */
static sheaf_dataset *threaded(int kind)
{
    sheaf_dataset *d = sheaf_dataset_repeat(sheaf_dataset_range(0, 1000, 1), -1);
    const sheaf_map_options two = {.parallel = 2};
    const sheaf_interleave_options cycle = {.cycle_length = 3, .parallel = 2};
    switch (kind) {
    case 0:
        return sheaf_dataset_prefetch(d, 8);
    case 1:
        return sheaf_dataset_map(d, pass, NULL, &two);
    case 2:
        return sheaf_dataset_interleave(d, open_endless, NULL, &cycle);
    case 3:
        d = sheaf_dataset_map(sheaf_dataset_prefetch(d, 3), pass, NULL, &two);
        return sheaf_dataset_prefetch(sheaf_dataset_batch(d, 7, NULL), 2);
    default:
        d = sheaf_dataset_interleave(sheaf_dataset_map(d, pass, NULL, &two), open_endless, NULL,
                                     &cycle);
        return sheaf_dataset_repeat(sheaf_dataset_take(sheaf_dataset_prefetch(d, 5), 50), -1);
    }
}

/* Freed before the first element, after some, with full buffers: all threads end at once. */
static void test_freed_at_any_time(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        for (int taken = 0; taken < 200; taken = taken * 3 + 1) {
            sheaf_dataset *d = threaded(kind);
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            sheaf_error err = {0};
            for (int i = 0; i < taken; i++)
                SHEAF_FRAME
                {
                    sheaf_element *e;
                    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
                }
            if (taken == 13) /* full buffers */
                sheaf__wait_sleep(sheaf__clock_after(5 * SHEAF__MS), NULL, NULL);
            int64_t before = sheaf__clock_now();
            sheaf_iterator_free(it);
            assert_true(sheaf__clock_now() - before < 2 * SHEAF__S);
            sheaf_dataset_free(d);
        }
    }
}

/* However many elements may be made: what the end costs does not depend on it. */
static void test_end_of_a_large_prefetch(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_repeat(sheaf_dataset_range(0, 10, 1), -1);
    d = sheaf_dataset_prefetch(d, INT64_MAX);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    const uint64_t before = sheaf__mem_stats().allocations;
    const int64_t begin = sheaf__clock_now();
    sheaf_iterator_free(it);
    assert_true(sheaf__clock_now() - begin < 2 * SHEAF__S);
    assert_true(sheaf__mem_stats().allocations - before < 10000);
    sheaf_dataset_free(d);
}

static sheaf_status drop_all(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return SHEAF_END;
}

/* A thread that finds nothing to give ends as soon as it is told to. */
static void test_endless_search_is_cut_short(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_repeat(sheaf_dataset_range(0, 1000, 1), -1);
    d = sheaf_dataset_prefetch(sheaf_dataset_filter(d, drop_all, NULL), 1);
    sheaf_dataset *first = sheaf_dataset_concatenate(sheaf_dataset_range(0, 1, 1), d);
    d = sheaf_dataset_prefetch(first, 2);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* Functions that take two milliseconds each, from a call on. */
struct slow {
    _Atomic int calls;
    int quick;
};
static void take_long(struct slow *s)
{
    if (atomic_fetch_add(&s->calls, 1) >= s->quick)
        sheaf__wait_sleep(sheaf__clock_after(2 * SHEAF__MS), SHEAF__NO_TOKEN, NULL);
}
static sheaf_status pass_slowly(const sheaf_element *in, sheaf_element *out, void *user)
{
    take_long(user);
    return pass(in, out, NULL);
}
static sheaf_status keep_slowly(const sheaf_element *in, void *user)
{
    (void)in;
    take_long(user);
    return SHEAF_OK;
}
static sheaf_status make_slowly(void *state, sheaf_element *out, sheaf_error *err)
{
    (void)err;
    take_long(state);
    return sheaf_element_put(out, "", sheaf_long(1));
}

enum { MANY = 20000 };

/* Elements of each function. */
static sheaf_dataset *slow_ones(int kind, struct slow *s)
{
    const sheaf_generator g = {NULL, make_slowly, NULL, s};
    const sheaf_map_options two = {.parallel = 2};
    sheaf_dataset *d = NULL;
    if (kind == 0)
        SHEAF_FRAME
    d = sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, SHEAF_SCALAR));
    if (kind == 1)
        d = sheaf_dataset_filter(sheaf_dataset_range(0, 2 * MANY, 1), keep_slowly, s);
    if (kind >= 2)
        d = sheaf_dataset_map(sheaf_dataset_range(0, 2 * MANY, 1), pass_slowly, s,
                              kind == 3 ? &two : NULL);
    return d;
}

/* What asks for many elements to give one. */
static sheaf_dataset *collecting(int kind, sheaf_dataset *d)
{
    static const int64_t size = MANY;
    switch (kind) {
    case 0:
        return sheaf_dataset_batch(d, MANY, NULL);
    case 1:
        return sheaf_dataset_padded_batch(d, MANY, NULL);
    case 2:
        return sheaf_dataset_rebatch(sheaf_dataset_batch(d, 10, NULL), &size, 1, false);
    case 3:
        return sheaf_dataset_batch(sheaf_dataset_shuffle(d, MANY, NULL), 1, NULL);
    default:
        return sheaf_dataset_batch(sheaf_dataset_skip(d, MANY), 1, NULL);
    }
}

static void freed_while_it_collects(sheaf_dataset *d, struct slow *s)
{
    sheaf_dataset *one = sheaf_dataset_batch(sheaf_dataset_range(0, 1, 1), 1, NULL);
    d = sheaf_dataset_prefetch(sheaf_dataset_concatenate(one, d), 2);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        sheaf_element *e;
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    }
    assert_true(settled(&s->calls, s->quick + 2) < MANY);
    const int before = atomic_load(&s->calls);
    sheaf_iterator_free(it);
    assert_true(atomic_load(&s->calls) - before < 200);
    sheaf_dataset_free(d);
}

/* A free waits for the call that runs, not for all that are still to be collected; also of a map
 * that took many elements at once, as long as its calls were quick. */
static void test_freed_while_it_collects(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4 * 5; kind++) {
        struct slow s = {.quick = kind % 4 == 3 ? 3000 : 0};
        freed_while_it_collects(collecting(kind / 4, slow_ones(kind % 4, &s)), &s);
    }
}

/* Calls sheaf_stop() when the consumer is on its way. */
struct stopper {
    _Atomic int calls, taken;
};
static void stop_on_the_way(void *user)
{
    struct stopper *s = user;
    while (atomic_load(&s->taken) < 100 && atomic_load(&s->calls) < 1000)
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    sheaf_stop();
}

static sheaf_status count_and_drop(const sheaf_element *in, void *user)
{
    struct stopper *s = user;
    atomic_fetch_add(&s->calls, 1);
    return drop_all(in, NULL);
}

/* A search that finds nothing, on the consumer's thread or another, behind the kinds above. */
static sheaf_dataset *endless(int kind, struct stopper *s)
{
    sheaf_dataset *d = threaded(kind % 5);
    if (kind >= 5)
        d = sheaf_dataset_filter(d, count_and_drop, s);
    return kind >= 10 ? sheaf_dataset_prefetch(d, 1) : d;
}

/* Another thread cancels all: whatever the iterator does ends, and its threads with it. */
static void stopped_on_the_way(int kind)
{
    struct stopper s = {.calls = 0};
    struct sheaf__thread *thread;
    sheaf_status status = SHEAF_OK;
    sheaf_error err = {0};
    sheaf_dataset *d = endless(kind, &s);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    rig_ok(sheaf__thread_start("stopper", stop_on_the_way, &s, NULL, &thread, &err), &err);
    while (status == SHEAF_OK)
        SHEAF_FRAME
        {
            sheaf_element *e;
            status = sheaf_iterator_next(it, &e, &err);
            atomic_fetch_add(&s.taken, 1);
        }
    rig_fails(status, &err, SHEAF_ERR_CANCELLED, "");
    const int64_t before = sheaf__clock_now();
    sheaf_iterator_free(it);
    assert_true(sheaf__clock_now() - before < 2 * SHEAF__S);
    rig_ok(sheaf__thread_join(thread, sheaf__clock_after(5 * SHEAF__S), &err), &err);
    sheaf_dataset_free(d);
}

static void test_stopped_by_another_thread(void **state)
{
    (void)state;
    for (int kind = 0; kind < 15; kind++) {
        sheaf_context *context = NULL;
        sheaf_error err = {0};
        rig_ok(sheaf_context_new(NULL, &context, &err), &err);
        sheaf_context *before = sheaf_context_enter(context);
        stopped_on_the_way(kind);
        sheaf_frame_clear();
        sheaf_context_enter(before);
        sheaf_context_free(context);
    }
}

/* Only a function of the program can make the end late: it is named, and waited for. */
static void release_later(void *user)
{
    struct well *w = user;
    sheaf__wait_sleep(sheaf__clock_after(1300 * SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    atomic_store(&w->released, true);
}

static void test_late_function_is_named(void **state)
{
    (void)state;
    struct well w = {.held = 2};
    struct sheaf__thread *thread;
    sheaf_error err = {0};
    sheaf_dataset *d = sheaf_dataset_prefetch(drawn_from(&w), 4);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    settled(&w.drawn, 3);
    rig_ok(sheaf__thread_start("later", release_later, &w, NULL, &thread, &err), &err);
    sheaf_iterator_free(it);
    assert_non_null(strstr(rig_log_take(), "stage 2 (prefetch): still waiting for a function of "
                                           "the program to return"));
    rig_ok(sheaf__thread_join(thread, sheaf__clock_after(5 * SHEAF__S), &err), &err);
    sheaf_dataset_free(d);
}

/* Waits until somebody reads a pipe, and has it open for writing. */
static int writer_of(const char *path)
{
    const int64_t deadline = sheaf__clock_after(5 * SHEAF__S);
    int fd;
    while ((fd = open(path, O_WRONLY | O_NONBLOCK)) < 0 && sheaf__clock_now() < deadline)
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void close_later(void *user)
{
    sheaf__wait_sleep(sheaf__clock_after(1300 * SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    close(*(const int *)user);
}

/* Where there is no function, what is late is a file. */
static void test_late_file_is_named(void **state)
{
    (void)state;
    const char *paths[] = {rig_path("text"), rig_path("pipe")};
    struct sheaf__thread *thread;
    sheaf_error err = {0};
    sheaf_element *e;
    rig_ok(sheaf__file_replace(paths[0], "a line\n", 7, &err), &err);
    assert_int_equal(mkfifo(paths[1], 0600), 0);
    sheaf_dataset *d = sheaf_dataset_prefetch(sheaf_text_lines_files(paths, 2, NULL), 1);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    int fd = writer_of(paths[1]);
    rig_ok(sheaf__thread_start("later", close_later, &fd, NULL, &thread, &err), &err);
    sheaf_iterator_free(it);
    assert_non_null(
        strstr(rig_log_take(), "stage 2 (prefetch): still waiting for its input to be read"));
    rig_ok(sheaf__thread_join(thread, sheaf__clock_after(5 * SHEAF__S), &err), &err);
    sheaf_dataset_free(d);
}

/* Two iterators of one dataset, on two threads, know nothing of each other. */
static void count_all(void *user)
{
    sheaf_iterator *it = sheaf_dataset_iterate(user);
    sheaf_error err = {0};
    sheaf_element *e;
    int64_t expected = 0;
    SHEAF_EACH_ELEMENT(e, it, &err)
    {
        if (sheaf_tensor_integer(sheaf_element_get(e, NULL), 0) != expected++)
            abort();
    }
    if (expected != 5000 || err.status < 0)
        abort();
    sheaf_iterator_free(it);
}

static void test_iterators_are_independent(void **state)
{
    (void)state;
    const sheaf_map_options two = {.parallel = 2};
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, 5000, 1), pass, NULL, &two);
    d = sheaf_dataset_prefetch(d, 16);
    struct sheaf__thread *threads[2];
    sheaf_error err = {0};
    for (int i = 0; i < 2; i++)
        rig_ok(sheaf__thread_start("reader", count_all, d, NULL, &threads[i], &err), &err);
    count_all(d);
    for (int i = 0; i < 2; i++)
        rig_ok(sheaf__thread_join(threads[i], sheaf__clock_after(30 * SHEAF__S), &err), &err);
    sheaf_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_runs_ahead_exactly),        rig_test(test_errors_keep_their_place),
        rig_test(test_freed_at_any_time),         rig_test(test_endless_search_is_cut_short),
        rig_test(test_freed_while_it_collects),   rig_test(test_stopped_by_another_thread),
        rig_test(test_late_function_is_named),    rig_test(test_late_file_is_named),
        rig_test(test_iterators_are_independent), rig_test(test_end_of_a_large_prefetch),
    };
    return rig_run(tests);
}
