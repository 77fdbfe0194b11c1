/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/error.h"
#include "base/queue.h"

static struct sheaf__queue *new_queue(size_t capacity, void (*drop)(void *item))
{
    struct sheaf__queue *q = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf__queue_new(capacity, drop, &q, &err), &err);
    return q;
}

static void *number(intptr_t n)
{
    return (void *)n;
}

static struct sheaf__wait soon(void)
{
    return (struct sheaf__wait){.deadline = sheaf__clock_deadline(0.01), .what = "queue"};
}

static void first_in_first_out(void **state)
{
    (void)state;
    struct sheaf__queue *q = new_queue(3, NULL);
    struct sheaf__wait wait = soon();
    sheaf_error err = {0};
    void *item;
    for (intptr_t round = 0; round < 10; round++) {
        for (intptr_t i = 0; i < 3; i++)
            rig_ok(sheaf__queue_push(q, number(round * 3 + i), &wait, &err), &err);
        assert_int_equal(sheaf__queue_try_push(q, NULL, &err), SHEAF_PENDING);
        for (intptr_t i = 0; i < 3; i++) {
            rig_ok(sheaf__queue_pop(q, &item, &wait, &err), &err);
            assert_ptr_equal(item, number(round * 3 + i));
        }
        assert_int_equal(sheaf__queue_try_pop(q, &item, &err), SHEAF_PENDING);
    }
    rig_fails(sheaf__queue_pop(q, &item, &wait, &err), &err, SHEAF_ERR_DEADLINE, "queue");
    sheaf__queue_free(q);
    sheaf__queue_free(NULL);
    assert_int_equal(sheaf__queue_new(0, NULL, &q, &err), SHEAF_ERR_INVALID_ARGUMENT);
}

static void close_ends_after_the_last(void **state)
{
    (void)state;
    struct sheaf__queue *q = new_queue(4, NULL);
    struct sheaf__wait wait = soon();
    sheaf_error err = {0};
    void *item;
    rig_ok(sheaf__queue_push(q, number(1), &wait, &err), &err);
    sheaf__queue_close(q);
    assert_int_equal(sheaf__queue_push(q, number(2), &wait, &err), SHEAF_END);
    rig_ok(sheaf__queue_pop(q, &item, &wait, &err), &err);
    assert_int_equal(sheaf__queue_pop(q, &item, &wait, &err), SHEAF_END);
    sheaf__queue_free(q);
}

static int dropped;

static void drop(void *item)
{
    dropped += (int)(intptr_t)item;
}

static void cancel_keeps_the_first_cause(void **state)
{
    (void)state;
    struct sheaf__queue *q = new_queue(4, drop);
    struct sheaf__wait wait = soon();
    sheaf_error err = {0};
    sheaf_error one = {0};
    sheaf_error two = {0};
    void *item;
    sheaf__error(&one, SHEAF_ERR_DATA_LOSS, "one");
    sheaf__error(&two, SHEAF_ERR_IO, "two");
    for (intptr_t i = 1; i <= 3; i++)
        rig_ok(sheaf__queue_push(q, number(i), &wait, &err), &err);
    sheaf__queue_cancel(q, &one);
    sheaf__queue_cancel(q, &two);
    rig_fails(sheaf__queue_pop(q, &item, &wait, &err), &err, SHEAF_ERR_DATA_LOSS, "one");
    rig_fails(sheaf__queue_push(q, NULL, &wait, &err), &err, SHEAF_ERR_DATA_LOSS, "one");
    dropped = 0;
    sheaf__queue_free(q);
    assert_int_equal(dropped, 6);
}

static void the_bound_moves(void **state)
{
    (void)state;
    struct sheaf__queue *q = new_queue(2, NULL);
    sheaf_error err = {0};
    void *item;
    rig_ok(sheaf__queue_try_push(q, number(0), &err), &err);
    rig_ok(sheaf__queue_try_pop(q, &item, &err), &err);
    for (intptr_t i = 1; i <= 2; i++)
        rig_ok(sheaf__queue_try_push(q, number(i), &err), &err);
    rig_ok(sheaf__queue_set_capacity(q, 5, &err), &err);
    for (intptr_t i = 3; i <= 5; i++)
        rig_ok(sheaf__queue_try_push(q, number(i), &err), &err);
    rig_ok(sheaf__queue_set_capacity(q, 1, &err), &err);
    assert_int_equal(sheaf__queue_count(q), 5);
    for (intptr_t i = 1; i <= 5; i++) {
        assert_int_equal(sheaf__queue_try_push(q, NULL, &err), SHEAF_PENDING);
        rig_ok(sheaf__queue_try_pop(q, &item, &err), &err);
        assert_ptr_equal(item, number(i));
    }
    sheaf__queue_free(q);
}

/* ---- many threads ---- */

enum { PRODUCERS = 3, CONSUMERS = 3, EACH = 3000 };

struct traffic {
    struct sheaf__queue *queue;
    _Atomic int64_t sum;
    _Atomic int failed;
};

static void produce(void *user)
{
    struct traffic *t = user;
    struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(30)};
    for (intptr_t i = 1; i <= EACH; i++)
        if (sheaf__queue_push(t->queue, number(i), &wait, NULL) != SHEAF_OK)
            atomic_fetch_add(&t->failed, 1);
}

static void consume(void *user)
{
    struct traffic *t = user;
    struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(30)};
    void *item;
    sheaf_status status;
    while ((status = sheaf__queue_pop(t->queue, &item, &wait, NULL)) == SHEAF_OK)
        atomic_fetch_add(&t->sum, (intptr_t)item);
    if (status != SHEAF_END)
        atomic_fetch_add(&t->failed, 1);
}

static void nothing_is_lost_between_threads(void **state)
{
    (void)state;
    struct traffic t = {.queue = new_queue(5, NULL)};
    struct sheaf__thread *threads[PRODUCERS + CONSUMERS];
    sheaf_error err = {0};
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        rig_ok(sheaf__thread_start("q", i < PRODUCERS ? produce : consume, &t, NULL, &threads[i],
                                   &err),
               &err);
    for (int i = 0; i < PRODUCERS; i++)
        rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(60), &err), &err);
    sheaf__queue_close(t.queue);
    for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++)
        rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(60), &err), &err);
    assert_int_equal(t.failed, 0);
    assert_int_equal(t.sum, (int64_t)PRODUCERS * EACH * (EACH + 1) / 2);
    sheaf__queue_free(t.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(first_in_first_out),
        rig_test(close_ends_after_the_last),
        rig_test(cancel_keeps_the_first_cause),
        rig_test(the_bound_moves),
        rig_test(nothing_is_lost_between_threads),
    };
    return rig_run(tests);
}
