/* SPDX-License-Identifier: Apache-2.0 */
/* Locks, condition variables and the system's scheduler under them: a word that threads sleep on (a
 * futex). */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/thread.h"
#include "base/tsan.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Thread_local struct sheaf__scheduler *current;

struct sheaf__scheduler *sheaf__thread_scheduler(void)
{
    return current;
}

void sheaf__thread_set_scheduler(struct sheaf__scheduler *scheduler)
{
    current = scheduler;
}

/* ---- sleeping on a word ---- */

static sheaf_status system_park(_Atomic uint32_t *word, uint32_t expected, int64_t deadline)
{
    struct timespec at;
    struct timespec *limit = NULL;
    if (deadline != SHEAF__NO_DEADLINE) {
        if (deadline < 0)
            deadline = 0;
        at.tv_sec = deadline / SHEAF__S;
        at.tv_nsec = deadline % SHEAF__S;
        limit = &at;
    }
    /* BITSET: the time is absolute on the monotonic clock. */
    long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, limit, NULL,
                     FUTEX_BITSET_MATCH_ANY);
    return r < 0 && errno == ETIMEDOUT ? SHEAF_ERR_DEADLINE : SHEAF_OK;
}

sheaf_status sheaf__park(_Atomic uint32_t *word, uint32_t expected, int64_t deadline,
                         const char *what)
{
    if (current)
        return current->park(current, word, expected, deadline, what);
    return system_park(word, expected, deadline);
}

void sheaf__wake(_Atomic uint32_t *word, int count)
{
    if (current)
        current->wake(current, word, count);
    else
        syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

void sheaf__thread_point(void)
{
    if (current)
        current->point(current);
}

/* ---- mutex ---- */

/* The thread sanitizer is told of our locks, or it would see only atomic words and miss inversions of their order. */

void sheaf__mutex_init(struct sheaf__mutex *mutex)
{
    atomic_init(&mutex->word, 0);
    SHEAF__TSAN(__tsan_mutex_create(mutex, 0));
}

static void lock_slowly(struct sheaf__mutex *mutex)
{
    while (atomic_exchange_explicit(&mutex->word, 2, memory_order_acquire) != 0)
        sheaf__park(&mutex->word, 2, SHEAF__NO_DEADLINE, "mutex");
}

void sheaf__mutex_lock(struct sheaf__mutex *mutex)
{
    uint32_t free_word = 0;
    sheaf__thread_point();
    SHEAF__TSAN(__tsan_mutex_pre_lock(mutex, 0));
    if (!atomic_compare_exchange_strong_explicit(&mutex->word, &free_word, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        lock_slowly(mutex);
    SHEAF__TSAN(__tsan_mutex_post_lock(mutex, 0, 0));
}

bool sheaf__mutex_trylock(struct sheaf__mutex *mutex)
{
    uint32_t free_word = 0;
    sheaf__thread_point();
    SHEAF__TSAN(__tsan_mutex_pre_lock(mutex, __tsan_mutex_try_lock));
    bool locked = atomic_compare_exchange_strong_explicit(
        &mutex->word, &free_word, 1, memory_order_acquire, memory_order_relaxed);
    SHEAF__TSAN(__tsan_mutex_post_lock(
        mutex, __tsan_mutex_try_lock | (locked ? 0U : __tsan_mutex_try_lock_failed), 0));
    return locked;
}

void sheaf__mutex_unlock(struct sheaf__mutex *mutex)
{
    SHEAF__TSAN(__tsan_mutex_pre_unlock(mutex, 0));
    uint32_t before = atomic_exchange_explicit(&mutex->word, 0, memory_order_release);
    /* Whoever locks now may free the mutex: only its address is used from here on. */
    if (before == 2)
        sheaf__wake(&mutex->word, 1);
    SHEAF__TSAN(__tsan_mutex_post_unlock(mutex, 0));
    sheaf__thread_point();
}

/* ---- condition variable ---- */

/* A waiter reads the word while it holds the mutex and sleeps only as long as the word is the same,
 * so no wake-up between the unlock and the sleep is lost. */

void sheaf__cond_init(struct sheaf__cond *cond)
{
    atomic_init(&cond->word, 0);
}

void sheaf__cond_signal(struct sheaf__cond *cond)
{
    atomic_fetch_add(&cond->word, 1);
    sheaf__wake(&cond->word, 1);
}

void sheaf__cond_broadcast(struct sheaf__cond *cond)
{
    atomic_fetch_add(&cond->word, 1);
    sheaf__wake(&cond->word, INT_MAX);
}

/* ---- once ---- */

enum { ONCE_NEW, ONCE_RUNS, ONCE_DONE };

void sheaf__once(struct sheaf__once *once, void (*fn)(void))
{
    uint32_t state = atomic_load_explicit(&once->word, memory_order_acquire);
    if (state == ONCE_DONE)
        return;
    if (state == ONCE_NEW && atomic_compare_exchange_strong(&once->word, &state, ONCE_RUNS)) {
        fn();
        atomic_store_explicit(&once->word, ONCE_DONE, memory_order_release);
        sheaf__wake(&once->word, INT_MAX);
        return;
    }
    while (atomic_load_explicit(&once->word, memory_order_acquire) != ONCE_DONE)
        sheaf__park(&once->word, ONCE_RUNS, SHEAF__NO_DEADLINE, "once");
}

/* ---- spinning ---- */

struct sheaf__spin sheaf__spin_for(int64_t ns)
{
    bool worthwhile = !current && ns > 0 && sheaf__cpu_count() > 1;
    return (struct sheaf__spin){.end = worthwhile ? sheaf__clock_now() + ns : 0};
}

bool sheaf__spin_again(struct sheaf__spin *spin)
{
    if (spin->end == 0)
        return false;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    /* The clock costs about as much as a pause: ask it at every fourth round. */
    if ((++spin->round & 3) == 0 && sheaf__clock_now() >= spin->end)
        spin->end = 0;
    return spin->end != 0;
}
