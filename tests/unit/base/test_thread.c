/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000 };

static struct sheaf__mutex lock = SHEAF__MUTEX_INIT;
static long counter;

static void count(void *user)
{
    (void)user;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3 == 0) {
            while (!sheaf__mutex_trylock(&lock))
                ;
        } else {
            sheaf__mutex_lock(&lock);
        }
        counter++;
        sheaf__mutex_unlock(&lock);
    }
}

static void start(struct sheaf__thread **threads, int n, sheaf__thread_fn fn, void *user)
{
    sheaf_error err = {0};
    for (int i = 0; i < n; i++)
        rig_ok(sheaf__thread_start("test", fn, user, NULL, &threads[i], &err), &err);
}

static void join(struct sheaf__thread **threads, int n)
{
    sheaf_error err = {0};
    for (int i = 0; i < n; i++)
        rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(30), &err), &err);
}

static void a_mutex_excludes(void **state)
{
    (void)state;
    struct sheaf__thread *threads[THREADS];
    counter = 0;
    start(threads, THREADS, count, NULL);
    join(threads, THREADS);
    assert_int_equal(counter, (long)THREADS * ROUNDS);
    assert_int_equal(lock.word, 0);
}

static _Atomic int made;

static void make(void)
{
    int64_t until = sheaf__clock_after(2 * SHEAF__MS);
    while (sheaf__clock_now() < until)
        ;
    atomic_fetch_add(&made, 1);
}

static struct sheaf__once once = SHEAF__ONCE_INIT;
static _Atomic int early;

static void use_once(void *user)
{
    (void)user;
    sheaf__once(&once, make);
    if (atomic_load(&made) != 1)
        atomic_fetch_add(&early, 1);
}

static void once_is_once_and_waited_for(void **state)
{
    (void)state;
    struct sheaf__thread *threads[THREADS];
    start(threads, THREADS, use_once, NULL);
    join(threads, THREADS);
    assert_int_equal(made, 1);
    assert_int_equal(early, 0);
}

static _Atomic int destroyed;

static void destroy(void *value)
{
    sheaf__free(value);
    atomic_fetch_add(&destroyed, 1);
}

static struct sheaf__local local = SHEAF__LOCAL_INIT(destroy);
static struct sheaf__local plain = SHEAF__LOCAL_INIT(NULL);

static void use_local(void *user)
{
    _Atomic int *wrong = user;
    if (sheaf__local_get(&local) || !sheaf__local_set(&local, sheaf__alloc(10)) ||
        !sheaf__local_get(&local) || !sheaf__local_set(&plain, &local) ||
        sheaf__local_get(&plain) != &local)
        atomic_fetch_add(wrong, 1);
}

static void *foreign(void *user)
{
    use_local(user);
    return NULL;
}

static void locals_are_destroyed_with_the_thread(void **state)
{
    (void)state;
    struct sheaf__thread *threads[THREADS];
    _Atomic int wrong = 0;
    pthread_t other;
    atomic_store(&destroyed, 0);
    start(threads, THREADS, use_local, &wrong);
    join(threads, THREADS);
    /* A thread of the program, which the library did not start. */
    assert_int_equal(pthread_create(&other, NULL, foreign, &wrong), 0);
    pthread_join(other, NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(destroyed, THREADS + 1);
}

struct seen {
    sheaf_context *context;
    uint64_t id;
    bool blocked;
};

static void look(void *user)
{
    struct seen *seen = user;
    sigset_t mask;
    seen->context = sheaf__context();
    seen->id = sheaf__thread_id();
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen->blocked = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT);
}

static void inherits_context_and_blocks_signals(void **state)
{
    (void)state;
    struct sheaf__thread *thread;
    struct seen seen = {0};
    sigset_t mask;
    start(&thread, 1, look, &seen);
    join(&thread, 1);
    assert_ptr_equal(seen.context, sheaf__context());
    assert_int_not_equal(seen.id, sheaf__thread_id());
    assert_true(seen.blocked);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
}

static void hold(void *user)
{
    struct sheaf__mutex *gate = user;
    sheaf__mutex_lock(gate);
    sheaf__mutex_unlock(gate);
}

static void a_late_thread_is_named(void **state)
{
    (void)state;
    struct sheaf__mutex gate = SHEAF__MUTEX_INIT;
    struct sheaf__thread *thread = NULL;
    sheaf_error err = {0};
    sheaf__mutex_lock(&gate);
    rig_ok(sheaf__thread_start("sleepy", hold, &gate, NULL, &thread, &err), &err);
    rig_fails(sheaf__thread_join(thread, sheaf__clock_deadline(0.02), &err), &err,
              SHEAF_ERR_DEADLINE, "thread sleepy");
    sheaf__mutex_unlock(&gate);
    join(&thread, 1);
    assert_int_equal(sheaf__thread_join(NULL, 0, NULL), SHEAF_OK);
}

static void spins_no_longer_than_asked(void **state)
{
    (void)state;
    struct sheaf__spin none = sheaf__spin_for(0);
    assert_false(sheaf__spin_again(&none));
    int64_t before = sheaf__clock_now();
    struct sheaf__spin spin = sheaf__spin_for(100 * SHEAF__US);
    while (sheaf__spin_again(&spin))
        ;
    assert_true(sheaf__clock_now() - before < SHEAF__S);
    assert_false(sheaf__spin_again(&spin));
}

/* One of two that want the same core, until both were taken off it for the other. */
struct rival {
    _Atomic int *left;
    struct sheaf__thread_use before, after, asleep;
};

static void compete(void *user)
{
    struct rival *r = user;
    int64_t deadline = sheaf__clock_deadline(30);
    r->before = r->after = sheaf__thread_use();
    while (r->after.preemptions == r->before.preemptions && sheaf__clock_left(deadline) > 0)
        r->after = sheaf__thread_use();
    atomic_fetch_sub(r->left, 1);
    while (atomic_load(r->left) > 0 && sheaf__clock_left(deadline) > 0)
        ;
    r->after = sheaf__thread_use();
    usleep(100 * 1000);
    r->asleep = sheaf__thread_use();
}

static void tells_what_a_thread_had_of_its_cores(void **state)
{
    (void)state;
    enum { RIVALS = 2 };
    int cpu;
    assert_true(sheaf__cpu_list(&cpu, 1) > 0);
    _Atomic int left = RIVALS;
    struct rival rivals[RIVALS] = {{.left = &left}, {.left = &left}};
    struct sheaf__thread *threads[RIVALS];
    const struct sheaf__thread_options options = {.cpus = &cpu, .cpu_count = 1};
    sheaf_error err = {0};
    for (int i = 0; i < RIVALS; i++)
        rig_ok(sheaf__thread_start("rival", compete, &rivals[i], &options, &threads[i], &err),
               &err);
    join(threads, RIVALS);
    for (int i = 0; i < RIVALS; i++) {
        const struct rival *r = &rivals[i];
        assert_true(r->after.preemptions > r->before.preemptions);
        assert_true(r->after.ran_ns > r->before.ran_ns);
        assert_true(r->asleep.ran_ns - r->after.ran_ns < 50 * SHEAF__MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(a_mutex_excludes),
        rig_test(once_is_once_and_waited_for),
        rig_test(locals_are_destroyed_with_the_thread),
        rig_test(inherits_context_and_blocks_signals),
        rig_test(a_late_thread_is_named),
        rig_test(spins_no_longer_than_asked),
        rig_test(tells_what_a_thread_had_of_its_cores),
    };
    return rig_run(tests);
}
