/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_THREAD_H
#define SHEAF_BASE_THREAD_H

/* Threads, locks, condition variables: the only user of pthread.
 *
 * Everything that blocks is built on two operations of the thread's scheduler, park and wake, so
 * that a simulation (base/sim.h) sees every blocking point and decides who goes on. Locks and
 * condition variables are one word, valid when zeroed, and need no clean-up. All threads that touch
 * one lock belong to the same scheduler.
 *
 * Waiting for a condition is sheaf__cond_wait() in base/wait.h: with deadline and token. */

#include <sheaf/context.h>

#include <signal.h>
#include <stdatomic.h>

/* ---- locks ---- */

struct sheaf__mutex {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
};
#define SHEAF__MUTEX_INIT \
    {                     \
        0                 \
    }

void sheaf__mutex_init(struct sheaf__mutex *mutex);
void sheaf__mutex_lock(struct sheaf__mutex *mutex);
bool sheaf__mutex_trylock(struct sheaf__mutex *mutex);
void sheaf__mutex_unlock(struct sheaf__mutex *mutex);

struct sheaf__cond {
    _Atomic uint32_t word; /* counts wake-ups */
};
#define SHEAF__COND_INIT \
    {                    \
        0                \
    }

void sheaf__cond_init(struct sheaf__cond *cond);
/* Wake one or all. With or without the mutex held. */
void sheaf__cond_signal(struct sheaf__cond *cond);
void sheaf__cond_broadcast(struct sheaf__cond *cond);

struct sheaf__once {
    _Atomic uint32_t word;
};
#define SHEAF__ONCE_INIT \
    {                    \
        0                \
    }
/* Calls fn once; who comes meanwhile waits until it is done. */
void sheaf__once(struct sheaf__once *once, void (*fn)(void));

/* ---- threads ---- */

struct sheaf__thread;
typedef void (*sheaf__thread_fn)(void *user);

struct sheaf__thread_options {
    const int *cpus; /* cores to run on; NULL: where it likes */
    size_t cpu_count;
    size_t stack_bytes; /* 0: 1 MiB */
};

/* Starts a thread under the creator's context and scheduler, with all signals blocked (a program's
 * handlers run on the program's threads). `name`: at most 15 bytes are shown by the system.
 * `options` may be NULL. Every thread is joined. */
sheaf_status sheaf__thread_start(const char *name, sheaf__thread_fn fn, void *user,
                                 const struct sheaf__thread_options *options,
                                 struct sheaf__thread **thread, sheaf_error *err);
/* Waits for the end of the thread and frees it. SHEAF_ERR_DEADLINE names it and leaves it the
 * caller's, who may join again. No token: joining is what teardown does after cancelling. NULL is
 * nothing. */
sheaf_status sheaf__thread_join(struct sheaf__thread *thread, int64_t deadline, sheaf_error *err);
/* The same for sheaf__sim_run, whose threads may end without being done. */
void sheaf__thread_reap(struct sheaf__thread *thread);
/* Number of the calling thread, > 0, never used twice in a process. */
uint64_t sheaf__thread_id(void);
/* What the calling thread has had of its cores, as far as the system tells. */
struct sheaf__thread_use {
    int64_t ran_ns;
    uint64_t preemptions; /* how often it was taken off for somebody else */
};
struct sheaf__thread_use sheaf__thread_use(void);
/* Lets the calling thread run on the given cores only. Best effort. */
void sheaf__thread_pin(const int *cpus, size_t count);

/* A pointer per thread, with a destructor that runs at the end of each thread that has a value, in
 * any order. Static storage only, at most SHEAF__LOCAL_MAX in the library. */
#define SHEAF__LOCAL_MAX 32
struct sheaf__local {
    void (*destroy)(void *value); /* may be NULL */
    _Atomic uint32_t number;      /* place in the thread's table + 1; 0: none yet */
};
#define SHEAF__LOCAL_INIT(fn) \
    {                         \
        .destroy = (fn)       \
    }
void *sheaf__local_get(struct sheaf__local *local);
bool sheaf__local_set(struct sheaf__local *local, void *value); /* false: no memory */
/* Runs the calling thread's destructors now, as its end would: for tests that count what is left.
 */
void sheaf__local_release(void);

/* ---- spinning and scheduling ---- */

/* A short spin before sleeping:
 *     struct sheaf__spin spin = sheaf__spin_for(ns);
 *     while (!ready() && sheaf__spin_again(&spin))
 *         ;
 * Never spins in a simulation. */
struct sheaf__spin {
    int64_t end;
    uint32_t round;
};
struct sheaf__spin sheaf__spin_for(int64_t ns);
bool sheaf__spin_again(struct sheaf__spin *spin);

/* A point where a simulation may let another thread run; nothing otherwise. Put it where two
 * threads could interleave without a lock between them. */
void sheaf__thread_point(void);

/* Signals that come to this thread wait until the release; `before` is what was held already. */
void sheaf__signals_hold(sigset_t *before);
void sheaf__signals_release(const sigset_t *before);

/* Sleeps until `*word` is not `expected` any more and somebody calls sheaf__wake(), or until the
 * deadline (SHEAF_ERR_DEADLINE); may return early without cause. For base/; others use base/wait.h.
 */
sheaf_status sheaf__park(_Atomic uint32_t *word, uint32_t expected, int64_t deadline,
                         const char *what);
void sheaf__wake(_Atomic uint32_t *word, int count);

/* The hook under all of it. A thread's scheduler is its creator's; NULL is the system (futexes). */
struct sheaf__scheduler {
    sheaf_status (*park)(struct sheaf__scheduler *s, _Atomic uint32_t *word, uint32_t expected,
                         int64_t deadline, const char *what);
    void (*wake)(struct sheaf__scheduler *s, _Atomic uint32_t *word, int count);
    void (*point)(struct sheaf__scheduler *s);
    int64_t (*now)(struct sheaf__scheduler *s);
    /* A thread is about to start: its record (NULL: no memory). Then, on the new thread, its begin
     * and end. */
    void *(*thread_new)(struct sheaf__scheduler *s, const char *name);
    void (*thread_drop)(struct sheaf__scheduler *s, void *record); /* it could not be started */
    void (*thread_begin)(struct sheaf__scheduler *s, void *record);
    void (*thread_end)(struct sheaf__scheduler *s, void *record);
};
struct sheaf__scheduler *sheaf__thread_scheduler(void);
void sheaf__thread_set_scheduler(struct sheaf__scheduler *scheduler);

#endif
