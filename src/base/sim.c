/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated scheduler. Exactly one thread of the simulation runs at a time; it alone touches
 * the state here and hands the baton on through the `turn` word of the next one. So there is no
 * lock, and the functions are hidden from TSan, which then sees only the order that the program's
 * own locks make and finds its races in simulations, too. */
#include "base/sim.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/mem.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_sanitize("thread")))

enum state { READY, PARKED, ENDED };

struct sim_thread {
    struct sim_thread *next;
    char name[16];
    uint32_t number;
    enum state state;
    uint32_t turn;                /* 1: it is this thread's turn */
    const _Atomic uint32_t *word; /* where it is parked */
    const char *what;
    int64_t deadline;
    bool timed_out;
};

struct sim {
    struct sheaf__scheduler hook; /* first: the hook's pointer is ours */
    struct sim_thread *threads;
    struct sim_thread **threads_end;
    struct sim_thread *current;
    uint64_t random;
    uint32_t count; /* threads made */
    uint32_t live;  /* threads that have not ended */
    int64_t now;
    uint64_t switches;
    uint64_t hash;
    bool deadlock;
    char report[512];
    uint32_t finished; /* the word that sheaf__sim_run waits on */
};

static struct sim *sim_of(struct sheaf__scheduler *s)
{
    return (struct sim *)(void *)s;
}

/* ---- handing over ---- */

HIDDEN static void sleep_on(uint32_t *word, uint32_t while_is)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == while_is)
        syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, while_is, NULL, NULL, 0);
}

HIDDEN static void set_and_wake(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

/* splitmix64 */
HIDDEN static uint32_t draw(struct sim *sim, uint32_t bound)
{
    sim->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = sim->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (uint32_t)((z >> 32) * bound >> 32);
}

HIDDEN static uint32_t count_ready(const struct sim *sim)
{
    uint32_t n = 0;
    for (const struct sim_thread *t = sim->threads; t; t = t->next)
        n += t->state == READY;
    return n;
}

/* Nobody can run: time goes to the earliest deadline. False if there is none. */
HIDDEN static bool advance_time(struct sim *sim)
{
    int64_t earliest = SHEAF__NO_DEADLINE;
    for (struct sim_thread *t = sim->threads; t; t = t->next)
        if (t->state == PARKED && t->deadline < earliest)
            earliest = t->deadline;
    if (earliest == SHEAF__NO_DEADLINE)
        return false;
    if (earliest > sim->now)
        sim->now = earliest;
    for (struct sim_thread *t = sim->threads; t; t = t->next) {
        if (t->state == PARKED && t->deadline <= sim->now) {
            t->state = READY;
            t->timed_out = true;
        }
    }
    return true;
}

HIDDEN static void put(struct sim *sim, size_t *at, const char *text)
{
    while (*text && *at + 1 < sizeof(sim->report))
        sim->report[(*at)++] = *text++;
    sim->report[*at] = '\0';
}

/* All sleep without a deadline: says where, and lets every thread end where it is. */
HIDDEN static void declare_deadlock(struct sim *sim)
{
    size_t at = 0;
    sim->deadlock = true;
    put(sim, &at, "deadlock:");
    for (struct sim_thread *t = sim->threads; t; t = t->next) {
        if (t->state != PARKED)
            continue;
        put(sim, &at, at > 9 ? ", " : " ");
        put(sim, &at, t->name);
        put(sim, &at, " waits for ");
        put(sim, &at, t->what);
        t->state = READY;
    }
}

/* Gives the turn to one that can run, perhaps the caller itself, whose state says whether it can.
 */
HIDDEN static void hand_over(struct sim *sim)
{
    struct sim_thread *me = sim->current;
    uint32_t ready = count_ready(sim);
    while (ready == 0) {
        if (!advance_time(sim))
            declare_deadlock(sim);
        ready = count_ready(sim);
    }
    uint32_t chosen = draw(sim, ready);
    struct sim_thread *next = sim->threads;
    while (next->state != READY || chosen-- > 0)
        next = next->next;
    sim->hash = (sim->hash ^ next->number) * UINT64_C(0x100000001b3);
    if (next == me)
        return;
    sim->switches++;
    sim->current = next;
    me->turn = 0;
    bool ended = me->state == ENDED;
    set_and_wake(&next->turn, 1);
    if (!ended) /* an ended thread's record may be gone by now */
        sleep_on(&me->turn, 0);
}

/* ---- the end of a thread ---- */

HIDDEN static void end_thread(struct sim *sim)
{
    sim->current->state = ENDED;
    if (--sim->live == 0)
        set_and_wake(&sim->finished, 1);
    else
        hand_over(sim);
}

/* In a deadlock a thread ends in the middle of whatever it does. */
HIDDEN static void leave_deadlock(struct sim *sim)
{
    sheaf__thread_set_scheduler(NULL);
    if (sim->current->number != 1)
        pthread_detach(pthread_self()); /* who would join it ends as well */
    end_thread(sim);
    pthread_exit(NULL);
}

/* ---- the hook ---- */

HIDDEN static void point(struct sheaf__scheduler *s)
{
    struct sim *sim = sim_of(s);
    if (!sim->current) /* sheaf__sim_run itself, starting the first thread */
        return;
    if (sim->live > 1)
        hand_over(sim);
    if (sim->deadlock)
        leave_deadlock(sim);
}

HIDDEN static sheaf_status park(struct sheaf__scheduler *s, _Atomic uint32_t *word,
                                uint32_t expected, int64_t deadline, const char *what)
{
    struct sim *sim = sim_of(s);
    struct sim_thread *me = sim->current;
    if (__atomic_load_n((uint32_t *)(uintptr_t)word, __ATOMIC_ACQUIRE) != expected)
        return SHEAF_OK;
    me->state = PARKED;
    me->word = word;
    me->what = what;
    me->deadline = deadline;
    me->timed_out = false;
    hand_over(sim);
    me->word = NULL;
    if (sim->deadlock)
        leave_deadlock(sim);
    return me->timed_out ? SHEAF_ERR_DEADLINE : SHEAF_OK;
}

/* Wakes `count` of those who sleep on the word, chosen at random, as the system promises no order.
 */
HIDDEN static void wake(struct sheaf__scheduler *s, _Atomic uint32_t *word, int count)
{
    struct sim *sim = sim_of(s);
    uint32_t waiting = 0;
    for (struct sim_thread *t = sim->threads; t; t = t->next)
        waiting += t->state == PARKED && t->word == word;
    for (; waiting > 0 && count > 0; waiting--, count--) {
        uint32_t chosen = draw(sim, waiting);
        struct sim_thread *t = sim->threads;
        while (t->state != PARKED || t->word != word || chosen-- > 0)
            t = t->next;
        t->state = READY;
    }
}

HIDDEN static int64_t now(struct sheaf__scheduler *s)
{
    return sim_of(s)->now;
}

HIDDEN static void *thread_new(struct sheaf__scheduler *s, const char *name)
{
    struct sim *sim = sim_of(s);
    struct sim_thread *t = sheaf__calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    for (size_t i = 0; name[i] && i + 1 < sizeof(t->name); i++)
        t->name[i] = name[i];
    t->number = ++sim->count;
    t->state = READY; /* it sleeps until its turn, though the system may not have started it yet */
    sim->live++;
    *sim->threads_end = t;
    sim->threads_end = &t->next;
    return t;
}

HIDDEN static void thread_drop(struct sheaf__scheduler *s, void *record)
{
    struct sim *sim = sim_of(s);
    struct sim_thread *t = record;
    t->state = ENDED;
    sim->live--;
}

HIDDEN static void thread_begin(struct sheaf__scheduler *s, void *record)
{
    struct sim *sim = sim_of(s);
    struct sim_thread *t = record;
    sleep_on(&t->turn, 0);
    if (sim->deadlock)
        leave_deadlock(sim);
}

HIDDEN static void thread_end(struct sheaf__scheduler *s, void *record)
{
    (void)record;
    sheaf__thread_set_scheduler(NULL);
    end_thread(sim_of(s));
}

/* ---- a run ---- */

struct first {
    sheaf__thread_fn fn;
    void *user;
};

HIDDEN static void run_first(void *user)
{
    struct first *first = user;
    int cpu;
    /* On one core a switch costs less than half; the others inherit it. */
    if (sheaf__cpu_list(&cpu, 1) > 0)
        sheaf__thread_pin(&cpu, 1);
    first->fn(first->user);
}

HIDDEN sheaf_status sheaf__sim_run(uint64_t seed, sheaf__thread_fn fn, void *user,
                                   struct sheaf__sim_result *result, sheaf_error *err)
{
    struct first first = {fn, user};
    struct sheaf__thread *thread = NULL;
    struct sim sim = {
        .hook = {park, wake, point, now, thread_new, thread_drop, thread_begin, thread_end},
        .random = seed,
        .now = SHEAF__S,
        .hash = UINT64_C(0xcbf29ce484222325),
    };
    sim.threads_end = &sim.threads;
    if (sheaf__thread_scheduler())
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION, "a simulation inside a simulation");
    /* The first thread takes its scheduler from its creator. */
    sheaf__thread_set_scheduler(&sim.hook);
    sheaf_status status = sheaf__thread_start("sim-1", run_first, &first, NULL, &thread, err);
    sheaf__thread_set_scheduler(NULL);
    if (status == SHEAF_OK) {
        sim.current = sim.threads;
        set_and_wake(&sim.threads->turn, 1);
        sleep_on(&sim.finished, 0);
        sheaf__thread_reap(thread);
    }
    if (result) {
        *result = (struct sheaf__sim_result){.switches = sim.switches,
                                             .virtual_ns = sim.now - SHEAF__S,
                                             .trace_hash = sim.hash,
                                             .deadlock = sim.deadlock};
        __builtin_memcpy(result->report, sim.report, sizeof(sim.report));
    }
    while (sim.threads) {
        struct sim_thread *t = sim.threads;
        sim.threads = t->next;
        sheaf__free(t);
    }
    if (status == SHEAF_OK && sim.deadlock)
        return sheaf__error(err, SHEAF_ERR_ABORTED, "%s", sim.report);
    return status;
}
