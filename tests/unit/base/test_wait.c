/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/context.h"
#include "base/error.h"
#include "base/sim.h"
#include "base/wait.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static sheaf_error cause_of(const char *text)
{
    sheaf_error cause = {0};
    sheaf__error(&cause, SHEAF_ERR_ABORTED, "%s", text);
    return cause;
}

static void deadlines_end_waits(void **state)
{
    (void)state;
    struct sheaf__mutex mutex = SHEAF__MUTEX_INIT;
    struct sheaf__cond cond = SHEAF__COND_INIT;
    sheaf_error err = {0};
    struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(0.03), .what = "reply of ps:1"};
    int64_t before = sheaf__clock_now();
    sheaf_status status;
    sheaf__mutex_lock(&mutex);
    while ((status = sheaf__cond_wait(&cond, &mutex, &wait, &err)) == SHEAF_OK)
        ;
    assert_false(sheaf__mutex_trylock(&mutex));
    sheaf__mutex_unlock(&mutex);
    rig_fails(status, &err, SHEAF_ERR_DEADLINE, "waited too long for reply of ps:1");
    int64_t took = sheaf__clock_now() - before;
    assert_true(took >= 30 * SHEAF__MS && took < 5 * SHEAF__S);
    rig_ok(sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, &err), &err);
}

static void deadlines_do_not_overflow(void **state)
{
    (void)state;
    assert_true(sheaf__clock_deadline(1e300) > sheaf__clock_now() + 1000000 * SHEAF__S);
    assert_true(sheaf__clock_deadline(-5) <= sheaf__clock_now());
    assert_true(sheaf__clock_after(INT64_MAX) > sheaf__clock_now());
    assert_int_equal(sheaf__clock_left(0), 0);
    assert_int_equal(sheaf__clock_left(SHEAF__NO_DEADLINE), SHEAF__NO_DEADLINE);
    assert_true(sheaf__clock_given(998000) == 0.001 && sheaf__clock_given(SHEAF__MS) == 0.001);
    assert_true(sheaf__clock_given(30 * SHEAF__S - 40) == 30 && sheaf__clock_given(0) == 0);
}

/* ---- tokens ---- */

static void cancelling_goes_down_and_keeps_the_first(void **state)
{
    (void)state;
    struct sheaf__token *server = sheaf__token_new(NULL);
    struct sheaf__token *step = sheaf__token_new(server);
    struct sheaf__token *closure = sheaf__token_new(step);
    struct sheaf__token *other = sheaf__token_new(server);
    sheaf_error one = cause_of("one");
    sheaf_error two = cause_of("two");
    sheaf_error err = {0};
    assert_int_equal(sheaf__token_status(closure), SHEAF_OK);
    assert_true(sheaf__token_cancel(step, &one));
    assert_false(sheaf__token_cancel(step, &two));
    rig_fails(sheaf__token_check(closure, &err), &err, SHEAF_ERR_ABORTED, "one");
    assert_int_equal(sheaf__token_status(server), SHEAF_OK);
    assert_int_equal(sheaf__token_status(other), SHEAF_OK);
    assert_true(sheaf__token_cancel(server, &two));
    rig_fails(sheaf__token_check(other, &err), &err, SHEAF_ERR_ABORTED, "two");
    rig_fails(sheaf__token_check(closure, &err), &err, SHEAF_ERR_ABORTED, "one");
    /* Born cancelled. */
    struct sheaf__token *late = sheaf__token_new(closure);
    rig_fails(sheaf__token_check(late, &err), &err, SHEAF_ERR_ABORTED, "one");
    assert_int_equal(sheaf__token_status(NULL), SHEAF_OK);
    assert_int_equal(sheaf__token_check(SHEAF__NO_TOKEN, &err), SHEAF_OK);
    /* A child keeps its parents. */
    sheaf__token_unref(server);
    sheaf__token_unref(step);
    sheaf__token_unref(other);
    sheaf__token_unref(late);
    rig_fails(sheaf__token_check(closure, &err), &err, SHEAF_ERR_ABORTED, "one");
    sheaf__token_unref(closure);
}

struct call {
    struct sheaf__token_callback callback;
    struct sheaf__token *token;
    int calls;
    bool off_inside;
};

static void called(void *user)
{
    struct call *call = user;
    call->calls++;
    if (call->off_inside)
        sheaf__token_off(call->token, &call->callback);
}

static void callbacks_run_once(void **state)
{
    (void)state;
    struct sheaf__token *t = sheaf__token_new(NULL);
    struct call calls[4];
    memset(calls, 0, sizeof(calls));
    for (int i = 0; i < 4; i++) {
        calls[i].callback.fn = called;
        calls[i].callback.user = &calls[i];
        calls[i].token = t;
        calls[i].off_inside = i == 1;
    }
    for (int i = 0; i < 3; i++)
        sheaf__token_on(t, &calls[i].callback);
    sheaf__token_off(t, &calls[2].callback);
    sheaf_error cause = cause_of("x");
    sheaf__token_cancel(t, &cause);
    sheaf__token_cancel(t, &cause);
    assert_int_equal(calls[0].calls, 1);
    assert_int_equal(calls[1].calls, 1);
    assert_int_equal(calls[2].calls, 0);
    sheaf__token_on(t, &calls[3].callback);
    assert_int_equal(calls[3].calls, 1);
    for (int i = 0; i < 4; i++)
        sheaf__token_off(t, &calls[i].callback);
    sheaf__token_unref(t);
}

/* Under every schedule: after off() returns the callback is not running and will not run. */
struct race {
    struct sheaf__token *token;
    struct sheaf__token_callback callback;
    _Atomic bool gone;
    _Atomic int wrong;
    _Atomic int waits_ended;
};

static void watch(void *user)
{
    struct race *r = user;
    for (int i = 0; i < 3; i++) {
        if (atomic_load(&r->gone))
            atomic_fetch_add(&r->wrong, 1);
        sheaf__thread_point();
    }
}

static void canceller(void *user)
{
    struct race *r = user;
    sheaf__token_cancel_with(r->token, SHEAF_ERR_ABORTED, "cause");
}

static void waiter(void *user)
{
    struct race *r = user;
    if (sheaf__wait_sleep(SHEAF__NO_DEADLINE, r->token, NULL) == SHEAF_ERR_ABORTED)
        atomic_fetch_add(&r->waits_ended, 1);
}

static void race(void *user)
{
    struct race *r = user;
    struct sheaf__thread *threads[3] = {NULL, NULL, NULL};
    r->token = sheaf__token_new(NULL);
    r->callback = (struct sheaf__token_callback){.fn = watch, .user = r};
    sheaf__token_on(r->token, &r->callback);
    if (sheaf__thread_start("waiter", waiter, r, NULL, &threads[0], NULL) < 0 ||
        sheaf__thread_start("waiter2", waiter, r, NULL, &threads[1], NULL) < 0 ||
        sheaf__thread_start("canceller", canceller, r, NULL, &threads[2], NULL) < 0)
        atomic_fetch_add(&r->wrong, 1);
    sheaf__token_off(r->token, &r->callback);
    atomic_store(&r->gone, true);
    for (int i = 0; i < 3; i++)
        (void)!sheaf__thread_join(threads[i], SHEAF__NO_DEADLINE, NULL);
    sheaf__token_unref(r->token);
}

static void cancelling_is_right_under_every_schedule(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct race r = {0};
        sheaf_error err = {0};
        rig_ok(sheaf__sim_run(seed, race, &r, NULL, &err), &err);
        assert_int_equal(r.wrong, 0);
        assert_int_equal(r.waits_ended, 2);
    }
}

static void cancelling_wakes_real_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct race r = {0};
        race(&r);
        assert_int_equal(r.wrong, 0);
        assert_int_equal(r.waits_ended, 2);
    }
}

/* One signal, one of two waiters is cancelled at the same moment: the other must get it. */
struct handoff {
    struct sheaf__mutex mutex;
    struct sheaf__cond cond;
    int items;
    int taken;
    struct sheaf__token *token;
};

static void take(struct handoff *h, struct sheaf__token *token)
{
    struct sheaf__wait wait = {.deadline = SHEAF__NO_DEADLINE, .token = token, .what = "item"};
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&h->mutex);
    while (h->items == 0 && status == SHEAF_OK)
        status = sheaf__cond_wait(&h->cond, &h->mutex, &wait, NULL);
    if (status == SHEAF_OK) {
        h->items--;
        h->taken++;
    }
    sheaf__mutex_unlock(&h->mutex);
}

static void take_cancellable(void *user)
{
    struct handoff *h = user;
    take(h, h->token);
}

static void take_always(void *user)
{
    take(user, NULL);
}

static void cancel_it(void *user)
{
    struct handoff *h = user;
    sheaf__token_cancel_with(h->token, SHEAF_ERR_ABORTED, "cause");
}

static void hand_off(void *user)
{
    struct handoff *h = user;
    struct sheaf__thread *threads[3] = {NULL, NULL, NULL};
    h->token = sheaf__token_new(NULL);
    (void)!sheaf__thread_start("may-end", take_cancellable, h, NULL, &threads[0], NULL);
    (void)!sheaf__thread_start("must-get", take_always, h, NULL, &threads[1], NULL);
    (void)!sheaf__thread_start("cancel", cancel_it, h, NULL, &threads[2], NULL);
    sheaf__mutex_lock(&h->mutex);
    h->items++;
    sheaf__cond_signal(&h->cond);
    sheaf__mutex_unlock(&h->mutex);
    (void)!sheaf__thread_join(threads[0], SHEAF__NO_DEADLINE, NULL);
    /* If the one that may end took the item, there is another for the other. */
    sheaf__mutex_lock(&h->mutex);
    if (h->taken == 1 && h->items == 0)
        h->items++;
    sheaf__cond_signal(&h->cond);
    sheaf__mutex_unlock(&h->mutex);
    (void)!sheaf__thread_join(threads[1], SHEAF__NO_DEADLINE, NULL);
    (void)!sheaf__thread_join(threads[2], SHEAF__NO_DEADLINE, NULL);
    sheaf__token_unref(h->token);
}

static void no_signal_is_lost_to_a_cancelled_wait(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct handoff h = {0};
        sheaf_error err = {0};
        rig_ok(sheaf__sim_run(seed, hand_off, &h, NULL, &err), &err);
        assert_true(h.taken >= 1);
    }
}

/* ---- sheaf_stop ---- */

static void on_signal(int number)
{
    (void)number;
    sheaf_stop();
}

struct sleeper {
    sheaf_context *context;
    sheaf_status status;
    sheaf_error err;
    _Atomic bool started;
};

/* A thread of the program itself. */
static void *sleep_long(void *user)
{
    struct sleeper *s = user;
    sheaf_context_enter(s->context);
    atomic_store(&s->started, true);
    s->status = sheaf__wait_sleep(sheaf__clock_deadline(60), NULL, &s->err);
    return NULL;
}

static void a_signal_handler_stops_the_context(void **state)
{
    (void)state;
    sheaf_context *ours = sheaf__context();
    sheaf_context *other = NULL;
    sheaf_error err = {0};
    struct sleeper sleeper = {.context = ours};
    pthread_t thread;
    rig_ok(sheaf_context_new(NULL, &other, &err), &err);
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigaction(SIGUSR1, &action, &before);
    assert_int_equal(pthread_create(&thread, NULL, sleep_long, &sleeper), 0);
    while (!atomic_load(&sleeper.started))
        usleep(1000);
    int64_t asked = sheaf__clock_now();
    assert_false(sheaf_stopped());
    pthread_kill(thread, SIGUSR1); /* the handler runs in the middle of the wait */
    pthread_join(thread, NULL);
    assert_true(sheaf__clock_now() - asked < 5 * SHEAF__S);
    rig_fails(sleeper.status, &sleeper.err, SHEAF_ERR_CANCELLED, "asked to stop");
    assert_true(sheaf_stopped());
    rig_fails(sheaf__wait_sleep(sheaf__clock_deadline(60), NULL, &err), &err, SHEAF_ERR_CANCELLED,
              "asked to stop");
    /* The other context goes on; its token was not touched. */
    sheaf_context_enter(other);
    assert_false(sheaf_stopped());
    err = (sheaf_error){0};
    rig_ok(sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, &err), &err);
    sheaf_context_enter(ours);
    sheaf_context_free(other);
    sigaction(SIGUSR1, &before, NULL);
}

static void many_stops_wake_many_waits(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        sheaf_context *context = NULL;
        sheaf_error err = {0};
        struct sleeper s[4];
        pthread_t threads[4];
        rig_ok(sheaf_context_new(NULL, &context, &err), &err);
        for (int i = 0; i < 4; i++) {
            s[i] = (struct sleeper){.context = context};
            assert_int_equal(pthread_create(&threads[i], NULL, sleep_long, &s[i]), 0);
        }
        /* At any moment of their start. */
        sheaf_context *before = sheaf_context_enter(context);
        sheaf_stop();
        sheaf_context_enter(before);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(s[i].status, SHEAF_ERR_CANCELLED);
        }
        sheaf_context_free(context);
    }
}

/* ---- ends in order ---- */

/* A program that is asked to stop at 1 s, and perhaps again. */
struct ending {
    bool orderly, told;
    double again;                     /* s; 0: not a second time */
    _Atomic int64_t asked_ns, all_ns; /* when the two kinds of waits ended */
};

static void wait_for_asked(void *user)
{
    struct ending *e = user;
    (void)!sheaf__wait_sleep(sheaf__clock_deadline(100), sheaf__context_asked(sheaf__context()),
                             NULL);
    e->asked_ns = sheaf__clock_now();
}

static void wait_for_all(void *user)
{
    struct ending *e = user;
    (void)!sheaf__wait_sleep(sheaf__clock_deadline(100), NULL, NULL);
    e->all_ns = sheaf__clock_now();
}

static void end_it(void *user)
{
    static const char *const environment[] = {"SHEAF_GRACE_S=10", NULL};
    struct ending *e = user;
    sheaf_context *context = NULL;
    struct sheaf__thread *threads[2] = {0};
    if (sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, NULL) < 0)
        return;
    sheaf_context *before = sheaf_context_enter(context);
    const int64_t begin = sheaf__clock_now();
    sheaf__context_end_in_order(context, true);
    if (!e->orderly)
        sheaf__context_end_in_order(context, false);
    (void)!sheaf__thread_start("asked", wait_for_asked, e, NULL, &threads[0], NULL);
    (void)!sheaf__thread_start("all", wait_for_all, e, NULL, &threads[1], NULL);
    (void)!sheaf__wait_sleep(begin + SHEAF__S, SHEAF__NO_TOKEN, NULL);
    if (e->told)
        sheaf__context_told_to_stop(context);
    else
        sheaf_stop();
    if (e->again > 0) {
        (void)!sheaf__wait_sleep(begin + (int64_t)(e->again * 1e9), SHEAF__NO_TOKEN, NULL);
        sheaf_stop();
    }
    if (!sheaf_stopped())
        e->orderly = !e->orderly;
    for (int i = 0; i < 2; i++)
        (void)!sheaf__thread_join(threads[i], SHEAF__NO_DEADLINE, NULL);
    e->asked_ns -= begin;
    e->all_ns -= begin;
    sheaf_context_enter(before);
    sheaf_context_free(context);
}

/* The first request leaves a program that ends in order its time; a second one, which is not the first one's echo, or the
 * end of the time does not. */
static void in_order_or_at_once(void **state)
{
    (void)state;
    static const struct {
        bool orderly, told;
        double again, asked, all;
    } cases[] = {
        {false, false, 0, 1, 1}, {true, false, 0, 1, 11}, {true, false, 1.2, 1, 11},
        {true, false, 3, 1, 3},  {true, true, 0, 1, 11},  {true, true, 3, 1, 11},
        {false, true, 0, 1, 11}, {false, true, 3, 1, 3},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint64_t seed = 1; seed < 20; seed++) {
            struct ending e = {
                .orderly = cases[i].orderly, .told = cases[i].told, .again = cases[i].again};
            sheaf_error err = {0};
            rig_ok(sheaf__sim_run(seed, end_it, &e, NULL, &err), &err);
            assert_int_equal(e.orderly, cases[i].orderly);
            assert_int_equal(e.asked_ns / SHEAF__MS, (int64_t)(cases[i].asked * 1000));
            assert_int_equal(e.all_ns / SHEAF__MS, (int64_t)(cases[i].all * 1000));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(deadlines_end_waits),
        rig_test(deadlines_do_not_overflow),
        rig_test(cancelling_goes_down_and_keeps_the_first),
        rig_test(callbacks_run_once),
        rig_test(cancelling_is_right_under_every_schedule),
        rig_test(cancelling_wakes_real_threads),
        rig_test(no_signal_is_lost_to_a_cancelled_wait),
        rig_test(a_signal_handler_stops_the_context),
        rig_test(many_stops_wake_many_waits),
        rig_test(in_order_or_at_once),
    };
    return rig_run(tests);
}
