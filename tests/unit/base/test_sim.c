/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/queue.h"
#include "base/sim.h"
#include "base/wait.h"

#include <string.h>

/* ---- a lost update: read, a point, write ---- */

struct account {
    struct sheaf__mutex lock;
    bool locked; /* whether the program is right */
    _Atomic int balance;
};

static void pay_in(void *user)
{
    struct account *a = user;
    if (a->locked)
        sheaf__mutex_lock(&a->lock);
    int seen = a->balance;
    sheaf__thread_point();
    a->balance = seen + 1;
    if (a->locked)
        sheaf__mutex_unlock(&a->lock);
}

static void two_pay_in(void *user)
{
    struct sheaf__thread *threads[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (sheaf__thread_start("payer", pay_in, user, NULL, &threads[i], NULL) < 0)
            return;
    for (int i = 0; i < 2; i++)
        (void)!sheaf__thread_join(threads[i], SHEAF__NO_DEADLINE, NULL);
}

static int lost_updates(bool locked, int seeds)
{
    int lost = 0;
    for (int seed = 0; seed < seeds; seed++) {
        struct account a = {.locked = locked};
        sheaf_error err = {0};
        rig_ok(sheaf__sim_run((uint64_t)seed, two_pay_in, &a, NULL, &err), &err);
        lost += a.balance != 2;
    }
    return lost;
}

static void finds_a_lost_update(void **state)
{
    (void)state;
    int lost = lost_updates(false, 50);
    assert_true(lost > 5 && lost < 50);
    assert_int_equal(lost_updates(true, 50), 0);
}

/* ---- the same seed, the same run ---- */

static void same_seed_same_run(void **state)
{
    (void)state;
    uint64_t first = 0;
    int different = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct sheaf__sim_result a;
        struct sheaf__sim_result b;
        struct account x = {.locked = true};
        struct account y = {.locked = true};
        sheaf_error err = {0};
        rig_ok(sheaf__sim_run(seed, two_pay_in, &x, &a, &err), &err);
        rig_ok(sheaf__sim_run(seed, two_pay_in, &y, &b, &err), &err);
        assert_int_equal(a.trace_hash, b.trace_hash);
        assert_int_equal(a.switches, b.switches);
        if (seed == 0)
            first = a.trace_hash;
        different += a.trace_hash != first;
    }
    assert_true(different > 5);
}

/* Threads that end in a deadlock are never joined: their handles stay reachable here, so that
 * nothing is reported as lost. */
static struct sheaf__thread *unjoined[200];
static size_t unjoined_count;

static struct sheaf__thread **new_handle(void)
{
    return &unjoined[unjoined_count++];
}

/* ---- deadlock: two locks in two orders ---- */

struct pair {
    struct sheaf__mutex a;
    struct sheaf__mutex b;
};

static void a_then_b(void *user)
{
    struct pair *p = user;
    sheaf__mutex_lock(&p->a);
    sheaf__mutex_lock(&p->b);
    sheaf__mutex_unlock(&p->b);
    sheaf__mutex_unlock(&p->a);
}

static void b_then_a(void *user)
{
    struct pair *p = user;
    sheaf__mutex_lock(&p->b);
    sheaf__mutex_lock(&p->a);
    sheaf__mutex_unlock(&p->a);
    sheaf__mutex_unlock(&p->b);
}

static void lock_both(void *user)
{
    struct sheaf__thread **other = new_handle();
    if (sheaf__thread_start("other", b_then_a, user, NULL, other, NULL) < 0)
        return;
    a_then_b(user);
    (void)!sheaf__thread_join(*other, SHEAF__NO_DEADLINE, NULL);
}

static void finds_a_deadlock(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* TSan reports the inversion of the locks itself */
#endif
    int found = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct pair p = {0};
        struct sheaf__sim_result result;
        sheaf_error err = {0};
        sheaf_status status = sheaf__sim_run(seed, lock_both, &p, &result, &err);
        if (status == SHEAF_OK)
            continue;
        rig_fails(status, &err, SHEAF_ERR_ABORTED,
                  "deadlock: sim-1 waits for mutex, other waits for mutex");
        assert_true(result.deadlock);
        found++;
    }
    assert_true(found > 3 && found < 30);
}

/* ---- a lost wake-up: the flag is set without the lock between the check and the sleep ---- */

struct gate {
    struct sheaf__mutex lock;
    struct sheaf__cond cond;
    _Atomic bool open;
    bool right;
};

static void open_gate(void *user)
{
    struct gate *g = user;
    if (g->right)
        sheaf__mutex_lock(&g->lock);
    atomic_store(&g->open, true);
    sheaf__cond_broadcast(&g->cond);
    if (g->right)
        sheaf__mutex_unlock(&g->lock);
}

/* A waiter that decides before it holds the lock: wrong, unless nobody opens meanwhile. */
static void pass_gate(void *user)
{
    struct gate *g = user;
    struct sheaf__thread **opener = new_handle();
    struct sheaf__wait wait = {.deadline = SHEAF__NO_DEADLINE, .what = "gate"};
    if (sheaf__thread_start("opener", open_gate, g, NULL, opener, NULL) < 0)
        return;
    bool decided = !g->right && !atomic_load(&g->open);
    sheaf__mutex_lock(&g->lock);
    if (decided || g->right)
        while ((decided || !atomic_load(&g->open)) &&
               sheaf__cond_wait(&g->cond, &g->lock, &wait, NULL) == SHEAF_OK)
            decided = false;
    sheaf__mutex_unlock(&g->lock);
    (void)!sheaf__thread_join(*opener, SHEAF__NO_DEADLINE, NULL);
}

static void finds_a_lost_wake_up(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* threads that end in a deadlock are a leak to TSan */
#endif
    int lost = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct gate g = {.right = false};
        sheaf_error err = {0};
        sheaf_status status = sheaf__sim_run(seed, pass_gate, &g, NULL, &err);
        if (status < 0) {
            rig_fails(status, &err, SHEAF_ERR_ABORTED, "waits for gate");
            lost++;
        }
    }
    assert_true(lost > 2 && lost < 60);
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct gate g = {.right = true};
        sheaf_error err = {0};
        rig_ok(sheaf__sim_run(seed, pass_gate, &g, NULL, &err), &err);
    }
}

/* ---- time ---- */

static void sleep_an_hour(void *user)
{
    int64_t *took = user;
    int64_t before = sheaf__clock_now();
    (void)!sheaf__wait_sleep(before + 3600 * SHEAF__S, NULL, NULL);
    *took = sheaf__clock_now() - before;
}

static void time_moves_when_nobody_can_run(void **state)
{
    (void)state;
    int64_t took = 0;
    struct sheaf__sim_result result;
    sheaf_error err = {0};
    int64_t before = sheaf__clock_now();
    rig_ok(sheaf__sim_run(1, sleep_an_hour, &took, &result, &err), &err);
    assert_int_equal(took, 3600 * SHEAF__S);
    assert_int_equal(result.virtual_ns, 3600 * SHEAF__S);
    assert_true(sheaf__clock_now() - before < 5 * SHEAF__S);
}

static void stop_me(void *user)
{
    sheaf__thread_point();
    (void)user;
    sheaf_stop();
}

static void wait_for_stop(void *user)
{
    sheaf_status *status = user;
    struct sheaf__thread *stopper = NULL;
    if (sheaf__thread_start("stopper", stop_me, NULL, NULL, &stopper, NULL) < 0)
        return;
    *status = sheaf__wait_sleep(sheaf__clock_deadline(1e6), NULL, NULL);
    (void)!sheaf__thread_join(stopper, SHEAF__NO_DEADLINE, NULL);
}

static void stop_works_inside(void **state)
{
    (void)state;
    sheaf_status status = SHEAF_OK;
    struct sheaf__sim_result result;
    sheaf_error err = {0};
    rig_ok(sheaf__sim_run(5, wait_for_stop, &status, &result, &err), &err);
    assert_int_equal(status, SHEAF_ERR_CANCELLED);
    assert_int_equal(result.virtual_ns, 0);
}

/* ---- a right program under many schedules ---- */

struct pipe {
    struct sheaf__queue *queue;
    int sum;
    bool ended;
};

static void produce(void *user)
{
    struct pipe *p = user;
    struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(10)};
    for (intptr_t i = 1; i <= 20; i++)
        if (sheaf__queue_push(p->queue, (void *)i, &wait, NULL) != SHEAF_OK)
            return;
    sheaf__queue_close(p->queue);
}

static void consume(void *user)
{
    struct pipe *p = user;
    struct sheaf__thread *producer = NULL;
    struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(10)};
    void *item;
    sheaf_status status;
    if (sheaf__queue_new(2, NULL, &p->queue, NULL) < 0 ||
        sheaf__thread_start("producer", produce, p, NULL, &producer, NULL) < 0)
        return;
    while ((status = sheaf__queue_pop(p->queue, &item, &wait, NULL)) == SHEAF_OK)
        p->sum += (int)(intptr_t)item;
    p->ended = status == SHEAF_END;
    (void)!sheaf__thread_join(producer, SHEAF__NO_DEADLINE, NULL);
    sheaf__queue_free(p->queue);
}

static void a_queue_survives_every_schedule(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct pipe p = {0};
        struct sheaf__sim_result result;
        sheaf_error err = {0};
        rig_ok(sheaf__sim_run(seed, consume, &p, &result, &err), &err);
        assert_int_equal(p.sum, 210);
        assert_true(p.ended);
        assert_int_equal(result.virtual_ns, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(finds_a_lost_update),
        rig_test(same_seed_same_run),
        cmocka_unit_test(finds_a_deadlock),
        cmocka_unit_test(finds_a_lost_wake_up),
        rig_test(time_moves_when_nobody_can_run),
        rig_test(stop_works_inside),
        rig_test(a_queue_survives_every_schedule),
    };
    return rig_run(tests);
}
