/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

struct sheaf__thread {
    pthread_t handle;
    char name[16];
    sheaf__thread_fn fn;
    void *user;
    sheaf_context *context;
    struct sheaf__scheduler *scheduler;
    void *record; /* the scheduler's */
    _Atomic uint32_t done;
};

static _Thread_local uint64_t thread_id;
static _Atomic uint64_t last_thread_id;

uint64_t sheaf__thread_id(void)
{
    if (thread_id == 0)
        thread_id = atomic_fetch_add(&last_thread_id, 1) + 1;
    return thread_id;
}

/* ---- pointers per thread ---- */

/* All of a thread's pointers are one table behind one pthread key, so that our own threads can run
 * the destructors while they still belong to their scheduler. */
struct locals {
    void *values[SHEAF__LOCAL_MAX];
};

static struct sheaf__once locals_once = SHEAF__ONCE_INIT;
static pthread_key_t locals_key;
static bool locals_ready;
static _Atomic uint32_t locals_used;
static struct sheaf__local *_Atomic locals_known[SHEAF__LOCAL_MAX];
static struct sheaf__mutex locals_lock = SHEAF__MUTEX_INIT;

static void destroy_locals(void *value)
{
    struct locals *table = value;
    /* A destructor may set others again; as pthread, give up after a few rounds. */
    for (int round = 0; round < 4; round++) {
        bool any = false;
        for (uint32_t i = 0; i < SHEAF__LOCAL_MAX; i++) {
            void *v = table->values[i];
            struct sheaf__local *local = atomic_load(&locals_known[i]);
            if (!v || !local)
                continue;
            table->values[i] = NULL;
            any = true;
            if (local->destroy)
                local->destroy(v);
        }
        if (!any)
            break;
    }
    pthread_setspecific(locals_key, NULL);
    sheaf__free(table);
}

/* pthread has cleared the key before it calls: put the table back, a destructor may look at others.
 */
static void destroy_locals_at_exit(void *value)
{
    pthread_setspecific(locals_key, value);
    destroy_locals(value);
}

static void make_locals_key(void)
{
    locals_ready = pthread_key_create(&locals_key, destroy_locals_at_exit) == 0;
}

static struct locals *locals(void)
{
    sheaf__once(&locals_once, make_locals_key);
    return locals_ready ? pthread_getspecific(locals_key) : NULL;
}

void sheaf__local_release(void)
{
    struct locals *table = locals();
    if (table)
        destroy_locals(table);
}

void *sheaf__local_get(struct sheaf__local *local)
{
    uint32_t number = atomic_load_explicit(&local->number, memory_order_acquire);
    struct locals *table = number ? locals() : NULL;
    return table ? table->values[number - 1] : NULL;
}

/* The place of `local` in the tables, given at its first use; 0 if all are taken. */
static uint32_t local_number(struct sheaf__local *local)
{
    uint32_t number = atomic_load_explicit(&local->number, memory_order_acquire);
    if (number)
        return number;
    sheaf__mutex_lock(&locals_lock);
    number = atomic_load(&local->number);
    if (!number && atomic_load(&locals_used) < SHEAF__LOCAL_MAX) {
        number = atomic_fetch_add(&locals_used, 1) + 1;
        atomic_store(&locals_known[number - 1], local);
        atomic_store_explicit(&local->number, number, memory_order_release);
    }
    sheaf__mutex_unlock(&locals_lock);
    return number;
}

bool sheaf__local_set(struct sheaf__local *local, void *value)
{
    uint32_t number = local_number(local);
    struct locals *table = locals();
    if (!number || !locals_ready)
        return false;
    if (!table) {
        table = sheaf__calloc(1, sizeof(*table));
        if (!table)
            return false;
        if (pthread_setspecific(locals_key, table) != 0) {
            sheaf__free(table);
            return false;
        }
    }
    table->values[number - 1] = value;
    return true;
}

/* ---- threads ---- */

static int64_t nanoseconds(struct timeval t)
{
    return (int64_t)t.tv_sec * SHEAF__S + (int64_t)t.tv_usec * SHEAF__US;
}

struct sheaf__thread_use sheaf__thread_use(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0)
        return (struct sheaf__thread_use){0};
    return (struct sheaf__thread_use){nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
                                      (uint64_t)usage.ru_nivcsw};
}

void sheaf__thread_pin(const int *cpus, size_t count)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < count; i++)
        if (cpus[i] >= 0 && cpus[i] < CPU_SETSIZE)
            CPU_SET(cpus[i], &set);
    if (count)
        pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *thread_main(void *arg)
{
    struct sheaf__thread *t = arg;
    struct sheaf__scheduler *s = t->scheduler;
    pthread_setname_np(pthread_self(), t->name);
    sheaf__thread_set_scheduler(s);
    sheaf_context_enter(t->context);
    if (s)
        s->thread_begin(s, t->record);
    t->fn(t->user);
    sheaf__local_release();
    /* After this the joiner may free `t`, except that it joins the handle first. */
    void *record = t->record;
    atomic_store(&t->done, 1);
    sheaf__wake(&t->done, 1);
    if (s)
        s->thread_end(s, record);
    return NULL;
}

void sheaf__signals_hold(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

void sheaf__signals_release(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static int create(struct sheaf__thread *t, const struct sheaf__thread_options *options)
{
    pthread_attr_t attr;
    sigset_t before;
    int code = pthread_attr_init(&attr);
    if (code)
        return code;
    size_t stack = options && options->stack_bytes ? options->stack_bytes : (size_t)1 << 20;
    pthread_attr_setstacksize(&attr, stack < (size_t)64 << 10 ? (size_t)64 << 10 : stack);
    if (options && options->cpu_count) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (size_t i = 0; i < options->cpu_count; i++)
            if (options->cpus[i] >= 0 && options->cpus[i] < CPU_SETSIZE)
                CPU_SET(options->cpus[i], &set);
        pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    }
    /* The mask is inherited: a program's signal handlers run on its own threads only. */
    sheaf__signals_hold(&before);
    code = pthread_create(&t->handle, &attr, thread_main, t);
    sheaf__signals_release(&before);
    pthread_attr_destroy(&attr);
    return code;
}

sheaf_status sheaf__thread_start(const char *name, sheaf__thread_fn fn, void *user,
                                 const struct sheaf__thread_options *options,
                                 struct sheaf__thread **thread, sheaf_error *err)
{
    struct sheaf__scheduler *s = sheaf__thread_scheduler();
    struct sheaf__thread *t = sheaf__calloc(1, sizeof(*t));
    if (!t)
        return sheaf__no_memory(err, "a thread");
    sheaf__str_copy(t->name, sizeof(t->name), name);
    t->fn = fn;
    t->user = user;
    t->scheduler = s;
    t->context = sheaf_context_enter(NULL);
    sheaf_context_enter(t->context);
    if (s && !(t->record = s->thread_new(s, t->name))) {
        sheaf__free(t);
        return sheaf__no_memory(err, "a thread");
    }
    /* Before the start: the thread may run and be done first. */
    *thread = t;
    int code = create(t, options);
    if (code) {
        *thread = NULL;
        if (s)
            s->thread_drop(s, t->record);
        sheaf__error(err, SHEAF_ERR_RESOURCE_EXHAUSTED, "cannot start thread %s: %s", t->name,
                     strerrordesc_np(code));
        sheaf__free(t);
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    }
    sheaf__thread_point();
    return SHEAF_OK;
}

void sheaf__thread_reap(struct sheaf__thread *thread)
{
    pthread_join(thread->handle, NULL);
    sheaf__free(thread);
}

sheaf_status sheaf__thread_join(struct sheaf__thread *thread, int64_t deadline, sheaf_error *err)
{
    if (!thread)
        return SHEAF_OK;
    while (!atomic_load(&thread->done)) {
        if (sheaf__park(&thread->done, 0, deadline, "thread join") == SHEAF_ERR_DEADLINE &&
            !atomic_load(&thread->done))
            return sheaf__error(err, SHEAF_ERR_DEADLINE, "thread %s has not ended in time",
                                thread->name);
    }
    sheaf__thread_reap(thread);
    return SHEAF_OK;
}
