/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"

#include <limits.h>

/* A loop is offered by one word, `ticket`: the first of its iterations that are still to be taken in
 * the high half, how many there are in the low half. Taking one is a compare-and-swap, and as long as
 * what was taken is not done, the loop cannot end, so fn, user and n are read after it without a race.
 * A worker that comes late finds the low half 0 and nothing to wait for it: the caller does what
 * nobody took.
 *
 * The caller takes from the front and workers from the back, so that in loops over the same memory a
 * core meets what it has in its cache. */

struct sheaf__pool {
    /* The loop. */
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic uint32_t done; /* iterations that have ended */
    _Atomic bool caller_sleeps;
    void (*fn)(size_t i, void *user);
    void *user;
    uint32_t n;
    _Atomic bool busy; /* somebody runs a loop */

    /* Sleeping workers wait for `news` to change. */
    _Alignas(64) _Atomic uint32_t news;
    _Atomic uint32_t sleepers;
    _Atomic bool closing;

    struct sheaf__mutex lock; /* of the jobs and of starting a worker */
    struct sheaf__pool_job *jobs;
    struct sheaf__pool_job **jobs_end;
    _Atomic uint32_t job_count;

    int parallel; /* threads of a loop, the caller included */
    int workers;  /* threads that run */
    int64_t spin_ns;
    const char *name;
    int *cpus;
    size_t cpu_count;
    struct sheaf__thread **threads;
};

/* True on a thread that runs an iteration, of whatever pool: a loop inside it runs on the caller.
 */
static _Thread_local bool inside;

bool sheaf__pool_set_alone(bool alone)
{
    bool before = inside;
    inside = alone;
    return before;
}

/* ---- waiting ---- */

/* Loops follow one another at distances that a usual spin does not reach, such as the operations of
 * a step, and waking a thread takes several times as long. So between loops threads spin LONG times
 * as long as usual, unless somebody else wants their core: one that was preempted spins as usual
 * until it has run for a while, twice as long if the peace before was shorter than that. */
enum { LONG = 10 };
#define LEAST_REST (10 * SHEAF__MS)
#define MOST_REST  (10 * SHEAF__S)

static _Thread_local struct {
    uint64_t preemptions; /* seen so far */
    int64_t rest, end;    /* from long spins: how long, until when; time that the thread ran */
} calm;

/* Whether this thread may spin long now. */
static bool is_calm(void)
{
    struct sheaf__thread_use use = sheaf__thread_use();
    if (use.ran_ns < calm.end)
        return false;
    if (use.preemptions == calm.preemptions)
        return true;
    int64_t longer = 2 * calm.rest < MOST_REST ? 2 * calm.rest : MOST_REST;
    calm.rest = use.ran_ns - calm.end < calm.rest ? longer : LEAST_REST;
    calm.end = use.ran_ns + calm.rest;
    calm.preemptions = use.preemptions;
    return false;
}

typedef bool (*ready_fn)(const struct sheaf__pool *pool);

static bool spin_for(const struct sheaf__pool *pool, int64_t ns, ready_fn ready)
{
    struct sheaf__spin spin = sheaf__spin_for(ns);
    do {
        if (ready(pool))
            return true;
    } while (sheaf__spin_again(&spin));
    return false;
}

/* Spins until ready(pool), perhaps long; false: it is time to sleep. */
static bool spin(const struct sheaf__pool *pool, bool may_be_long, ready_fn ready)
{
    if (spin_for(pool, pool->spin_ns, ready))
        return true;
    return may_be_long && pool->spin_ns > 0 && is_calm() &&
           spin_for(pool, (LONG - 1) * pool->spin_ns, ready);
}

/* ---- the loop ---- */

/* Takes an iteration of the loop that is offered, its first or its last; false if none is left. */
static bool take(struct sheaf__pool *pool, bool from_front, uint32_t *i)
{
    uint64_t t = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while ((uint32_t)t > 0) {
        uint64_t rest = (from_front ? t + (UINT64_C(1) << 32) : t) - 1;
        if (atomic_compare_exchange_weak_explicit(&pool->ticket, &t, rest, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            uint32_t first = (uint32_t)(t >> 32);
            *i = from_front ? first : first + (uint32_t)t - 1;
            return true;
        }
    }
    return false;
}

/* Runs iterations until none is left to take; false: there was none. */
static bool work(struct sheaf__pool *pool, bool from_front)
{
    uint32_t i;
    bool any = false;
    for (; take(pool, from_front, &i); any = true) {
        uint32_t n = pool->n;
        inside = true;
        pool->fn(i, pool->user);
        inside = false;
        if (atomic_fetch_add(&pool->done, 1) + 1 == n && atomic_load(&pool->caller_sleeps))
            sheaf__wake(&pool->done, 1);
    }
    return any;
}

static bool is_done(const struct sheaf__pool *pool)
{
    return atomic_load_explicit(&pool->done, memory_order_acquire) == pool->n;
}

/* Waits for the iterations that workers took. They are running, so this is short. */
static void wait_done(struct sheaf__pool *pool, uint32_t n)
{
    uint32_t done;
    if (spin(pool, true, is_done))
        return;
    atomic_store(&pool->caller_sleeps, true);
    while ((done = atomic_load(&pool->done)) != n)
        sheaf__park(&pool->done, done, SHEAF__NO_DEADLINE, "end of a loop");
    atomic_store(&pool->caller_sleeps, false);
}

static void wake_workers(struct sheaf__pool *pool, int count)
{
    atomic_fetch_add(&pool->news, 1);
    if (atomic_load(&pool->sleepers) > 0)
        sheaf__wake(&pool->news, count);
}

void sheaf__pool_run(struct sheaf__pool *pool, size_t n, void (*fn)(size_t i, void *user),
                     void *user)
{
    bool busy = false;
    bool alone = !pool || n < 2 || n > UINT32_MAX || inside || pool->parallel < 2;
    if (alone || !atomic_compare_exchange_strong(&pool->busy, &busy, true)) {
        for (size_t i = 0; i < n; i++)
            fn(i, user);
        return;
    }
    pool->fn = fn;
    pool->user = user;
    pool->n = (uint32_t)n;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->ticket, n, memory_order_release);
    wake_workers(pool, n - 1 < (size_t)pool->parallel - 1 ? (int)n - 1 : pool->parallel - 1);
    work(pool, true);
    wait_done(pool, (uint32_t)n);
    atomic_store(&pool->busy, false);
}

/* ---- workers ---- */

static struct sheaf__pool_job *next_job(struct sheaf__pool *pool)
{
    if (atomic_load(&pool->job_count) == 0)
        return NULL;
    sheaf__mutex_lock(&pool->lock);
    struct sheaf__pool_job *job = pool->jobs;
    if (job) {
        pool->jobs = job->next;
        if (!pool->jobs)
            pool->jobs_end = &pool->jobs;
        atomic_fetch_sub(&pool->job_count, 1);
    }
    sheaf__mutex_unlock(&pool->lock);
    return job;
}

static bool has_news(const struct sheaf__pool *pool)
{
    return (uint32_t)atomic_load_explicit(&pool->ticket, memory_order_acquire) > 0 ||
           atomic_load(&pool->job_count) > 0 || atomic_load(&pool->closing);
}

/* Spins for a while, then sleeps until there is news. */
static void idle(struct sheaf__pool *pool, bool in_loops)
{
    if (spin(pool, in_loops, has_news))
        return;
    uint32_t seen = atomic_load(&pool->news);
    atomic_fetch_add(&pool->sleepers, 1);
    /* Who gives work changes `news` first and then looks for sleepers, so one of the two sees the
     * other. */
    if (!has_news(pool))
        sheaf__park(&pool->news, seen, SHEAF__NO_DEADLINE, "work of a pool");
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void worker(void *user)
{
    struct sheaf__pool *pool = user;
    bool in_loops = false; /* the last work was of one */
    for (;;) {
        in_loops = work(pool, false) || in_loops;
        struct sheaf__pool_job *job = next_job(pool);
        if (job)
            job->fn(job);
        else if (atomic_load(&pool->closing))
            return;
        else
            idle(pool, in_loops);
        in_loops = in_loops && !job;
    }
}

/* Starts one more worker; with the lock held, or before anybody knows the pool. */
static sheaf_status start_worker(struct sheaf__pool *pool, sheaf_error *err)
{
    struct sheaf__thread_options options = {.cpus = pool->cpus, .cpu_count = pool->cpu_count};
    SHEAF__TRY(sheaf__thread_start(pool->name, worker, pool, &options,
                                   &pool->threads[pool->workers], err));
    pool->workers++;
    return SHEAF_OK;
}

static sheaf_status init(struct sheaf__pool *pool, const struct sheaf__pool_options *options,
                         sheaf_error *err)
{
    pool->parallel = options->threads > 0 ? options->threads : 1;
    pool->name = options->name ? options->name : "sheaf-pool";
    pool->spin_ns =
        options->spin_ns ? options->spin_ns : sheaf__config_int(SHEAF__CONFIG_SPIN_US) * SHEAF__US;
    pool->jobs_end = &pool->jobs;
    pool->threads = sheaf__calloc((size_t)pool->parallel, sizeof(struct sheaf__thread *));
    if (!pool->threads)
        return sheaf__no_memory(err, "a pool");
    if (options->cpu_count) {
        pool->cpus = sheaf__memdup(options->cpus, options->cpu_count * sizeof(int));
        pool->cpu_count = options->cpu_count;
        if (!pool->cpus)
            return sheaf__no_memory(err, "a pool");
    }
    while (pool->workers < pool->parallel - 1)
        SHEAF__TRY(start_worker(pool, err));
    return SHEAF_OK;
}

sheaf_status sheaf__pool_new(const struct sheaf__pool_options *options, struct sheaf__pool **pool,
                             sheaf_error *err)
{
    struct sheaf__pool *p = sheaf__alloc_aligned(sizeof(*p));
    if (!p)
        return sheaf__no_memory(err, "a pool");
    *p = (struct sheaf__pool){0};
    sheaf_status status = init(p, options, err);
    if (status < 0) {
        sheaf__pool_free(p);
        return status;
    }
    *pool = p;
    return SHEAF_OK;
}

void sheaf__pool_free(struct sheaf__pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->closing, true);
    atomic_fetch_add(&pool->news, 1);
    sheaf__wake(&pool->news, INT_MAX);
    for (int i = 0; i < pool->workers; i++)
        sheaf__thread_join(pool->threads[i], SHEAF__NO_DEADLINE, NULL);
    sheaf__free(pool->threads);
    sheaf__free(pool->cpus);
    sheaf__free(pool);
}

int sheaf__pool_threads(const struct sheaf__pool *pool)
{
    return pool ? pool->parallel : 1;
}

sheaf_status sheaf__pool_submit(struct sheaf__pool *pool, struct sheaf__pool_job *job,
                                sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&pool->lock);
    if (pool->workers == 0)
        status = start_worker(pool, err);
    if (status == SHEAF_OK) {
        job->next = NULL;
        *pool->jobs_end = job;
        pool->jobs_end = &job->next;
        atomic_fetch_add(&pool->job_count, 1);
    }
    sheaf__mutex_unlock(&pool->lock);
    if (status == SHEAF_OK)
        wake_workers(pool, 1);
    return status;
}
