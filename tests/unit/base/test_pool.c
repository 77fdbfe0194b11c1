/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/clock.h"
#include "base/pool.h"
#include "base/sim.h"

#include <string.h>
#include <unistd.h>

static struct sheaf__pool *new_pool(int threads)
{
    struct sheaf__pool *pool = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf__pool_new(&(struct sheaf__pool_options){.threads = threads}, &pool, &err), &err);
    return pool;
}

enum { N = 1000 };

static void mark(size_t i, void *user)
{
    int *marks = user; /* plain: every i is one thread's */
    marks[i]++;
}

static void every_iteration_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        struct sheaf__pool *pool = new_pool(threads);
        assert_int_equal(sheaf__pool_threads(pool), threads);
        int marks[N] = {0};
        for (int round = 1; round <= 200; round++) {
            size_t n = (size_t)round * 5;
            sheaf__pool_run(pool, n, mark, marks);
            /* What the iterations wrote is seen here. */
            for (size_t i = 0; i < n; i++)
                assert_int_equal(marks[i], round - (int)i / 5);
        }
        sheaf__pool_run(pool, 0, mark, marks);
        sheaf__pool_free(pool);
    }
    int marks[3] = {0};
    sheaf__pool_run(NULL, 3, mark, marks);
    assert_int_equal(marks[0] + marks[1] + marks[2], 3);
    assert_int_equal(sheaf__pool_threads(NULL), 1);
}

static void note_thread(size_t i, void *user)
{
    ((uint64_t *)user)[i] = sheaf__thread_id();
}

/* The caller takes from the front, the worker from the back: each has one stretch. */
static void each_end_is_one_threads(void **state)
{
    (void)state;
    struct sheaf__pool *pool = new_pool(2);
    uint64_t threads[N], caller = sheaf__thread_id();
    for (int round = 0; round < 50; round++) {
        sheaf__pool_run(pool, N, note_thread, threads);
        size_t i = 0;
        while (i < N && threads[i] == caller)
            i++;
        for (; i < N; i++)
            assert_int_not_equal(threads[i], caller);
    }
    sheaf__pool_free(pool);
}

/* A thread that runs its loops alone: on no other, however long they are. */
static void a_thread_may_be_alone(void **state)
{
    (void)state;
    struct sheaf__pool *pool = new_pool(4);
    uint64_t threads[N];
    assert_false(sheaf__pool_set_alone(true));
    for (int round = 0; round < 20; round++) {
        sheaf__pool_run(pool, N, note_thread, threads);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(threads[i], sheaf__thread_id());
    }
    assert_true(sheaf__pool_set_alone(false));
    sheaf__pool_free(pool);
}

struct nest {
    struct sheaf__pool *pool;
    _Atomic int sum;
};

static void inner(size_t i, void *user)
{
    struct nest *nest = user;
    atomic_fetch_add(&nest->sum, (int)i);
}

static void outer(size_t i, void *user)
{
    struct nest *nest = user;
    (void)i;
    sheaf__pool_run(nest->pool, 10, inner, nest);
}

static void loops_may_nest(void **state)
{
    (void)state;
    struct nest nest = {.pool = new_pool(3)};
    sheaf__pool_run(nest.pool, 20, outer, &nest);
    assert_int_equal(nest.sum, 20 * 45);
    sheaf__pool_free(nest.pool);
}

static void run_outer(void *user)
{
    for (int i = 0; i < 100; i++)
        outer(0, user);
}

static void threads_may_share_a_pool(void **state)
{
    (void)state;
    struct nest nest = {.pool = new_pool(2)};
    struct sheaf__thread *threads[3];
    sheaf_error err = {0};
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_start("caller", run_outer, &nest, NULL, &threads[i], &err), &err);
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(30), &err), &err);
    assert_int_equal(nest.sum, 300 * 45);
    sheaf__pool_free(nest.pool);
}

struct job {
    struct sheaf__pool_job job;
    int number;
    _Atomic int *next;
    _Atomic int *wrong;
};

static void run_job(struct sheaf__pool_job *job)
{
    struct job *j = (struct job *)(void *)job;
    if (atomic_fetch_add(j->next, 1) != j->number)
        atomic_fetch_add(j->wrong, 1);
}

static void jobs_run_in_order_and_before_the_end(void **state)
{
    (void)state;
    /* 1: the worker starts with the first job; 2: there is one. Two workers could finish out of
     * order. */
    for (int threads = 1; threads <= 2; threads++) {
        struct sheaf__pool *pool = new_pool(threads);
        struct job jobs[100];
        _Atomic int next = 0;
        _Atomic int wrong = 0;
        sheaf_error err = {0};
        for (int i = 0; i < 100; i++) {
            jobs[i] = (struct job){{run_job, NULL}, i, &next, &wrong};
            rig_ok(sheaf__pool_submit(pool, &jobs[i].job, &err), &err);
        }
        sheaf__pool_free(pool);
        assert_int_equal(next, 100);
        assert_int_equal(wrong, 0);
    }
}

/* Looks how much its thread ran; the second look comes after a rest. */
struct look {
    struct sheaf__pool_job job;
    int64_t ran_ns;
    atomic_bool done;
};

static void look(struct sheaf__pool_job *job)
{
    struct look *l = (struct look *)(void *)job;
    l->ran_ns = sheaf__thread_use().ran_ns;
    atomic_store(&l->done, true);
}

static void idle_workers_sleep(void **state)
{
    (void)state;
    struct sheaf__pool *pool = new_pool(2);
    int marks[N] = {0};
    struct look looks[2] = {{.job.fn = look}, {.job.fn = look}};
    for (int i = 0; i < 100; i++)
        sheaf__pool_run(pool, N, mark, marks);
    for (int i = 0; i < 2; i++) {
        usleep(100 * 1000);
        rig_ok(sheaf__pool_submit(pool, &looks[i].job, NULL), NULL);
        int64_t deadline = sheaf__clock_deadline(30);
        while (!atomic_load(&looks[i].done))
            assert_true(sheaf__clock_left(deadline) > 0);
    }
    assert_true(looks[1].ran_ns - looks[0].ran_ns < 50 * SHEAF__MS);
    sheaf__pool_free(pool);
}

/* ---- under the simulator ---- */

static void simulated(void *user)
{
    int *failed = user;
    int marks[8] = {0};
    struct sheaf__pool *pool = NULL;
    _Atomic int next = 0;
    _Atomic int wrong = 0;
    struct job job = {{run_job, NULL}, 0, &next, &wrong};
    if (sheaf__pool_new(&(struct sheaf__pool_options){.threads = 3}, &pool, NULL) < 0)
        return;
    for (int round = 1; round <= 3; round++) {
        sheaf__pool_run(pool, 8, mark, marks);
        for (int i = 0; i < 8; i++)
            *failed += marks[i] != round;
        if (round == 2)
            *failed += sheaf__pool_submit(pool, &job.job, NULL) < 0;
    }
    sheaf__pool_free(pool);
    *failed += next != 1 || wrong != 0;
}

static void no_schedule_hangs_it(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        int failed = 0;
        sheaf_error err = {0};
        rig_ok(sheaf__sim_run(seed, simulated, &failed, NULL, &err), &err);
        assert_int_equal(failed, 0);
    }
}

static sheaf_status make(void *user, sheaf_error *err)
{
    (void)user;
    struct sheaf__pool *pool = NULL;
    struct sheaf__pool_options options = {.threads = 3};
    sheaf_status status = sheaf__pool_new(&options, &pool, err);
    if (status == SHEAF_OK)
        sheaf__pool_free(pool);
    return status;
}

static void survives_failed_allocations(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(make, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(every_iteration_once),        rig_test(each_end_is_one_threads),
        rig_test(a_thread_may_be_alone),       rig_test(loops_may_nest),
        rig_test(threads_may_share_a_pool),    rig_test(jobs_run_in_order_and_before_the_end),
        rig_test(idle_workers_sleep),          rig_test(no_schedule_hangs_it),
        rig_test(survives_failed_allocations),
    };
    return rig_run(tests);
}
