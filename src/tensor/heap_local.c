/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/heap_local.h"

#include "base/mem.h"

/* Threads that can have a list; those beyond use the heap's. */
#define THREADS 64

struct sheaf__heap_locals {
    _Atomic uint32_t refs;    /* the heap's, and each thread's */
    uint64_t number;          /* never used twice: an address may be */
    struct sheaf__mutex lock; /* guards what follows */
    struct sheaf__heap *heap; /* NULL: it is gone */
    struct sheaf__heap_local all[THREADS];
};

static _Atomic uint64_t last_number;

/* What the calling thread used last, and all it has. */
static _Thread_local struct {
    uint64_t number;
    struct sheaf__heap_local *local;
    struct sheaf__heap_local *first;
} mine;

static void unref(struct sheaf__heap_locals *locals)
{
    if (atomic_fetch_sub_explicit(&locals->refs, 1, memory_order_acq_rel) == 1)
        sheaf__free(locals);
}

/* Gives all blocks to the heap. With the lock, while the heap is there. */
static void flush(struct sheaf__heap *heap, struct sheaf__heap_local *local)
{
    for (unsigned i = 0; i < SHEAF__HEAP_LOCAL_CLASSES; i++) {
        uint32_t count = atomic_load_explicit(&local->lists[i].count, memory_order_relaxed);
        if (count > 0)
            sheaf__heap_give(heap, i, local->lists[i].first, count);
        sheaf__heap_local_fill(local, i, NULL, 0);
    }
}

/* ---- the thread's side ---- */

/* Ends what the thread has of one heap; one that is gone has taken its blocks. */
static void release(struct sheaf__heap_local *local)
{
    struct sheaf__heap_locals *locals = local->of;
    sheaf__mutex_lock(&locals->lock);
    if (locals->heap)
        flush(locals->heap, local);
    local->of = NULL;
    sheaf__mutex_unlock(&locals->lock);
    unref(locals);
}

static void end_thread(void *value)
{
    (void)value;
    mine.number = 0;
    while (mine.first) {
        struct sheaf__heap_local *local = mine.first;
        mine.first = local->of_thread;
        release(local);
    }
}
static struct sheaf__local at_end = SHEAF__LOCAL_INIT(end_thread);

static bool is_gone(struct sheaf__heap_locals *locals)
{
    sheaf__mutex_lock(&locals->lock);
    bool gone = !locals->heap;
    sheaf__mutex_unlock(&locals->lock);
    return gone;
}

/* What the thread has of `locals`, if anything. Ends what it has of heaps that are gone. */
static struct sheaf__heap_local *look(const struct sheaf__heap_locals *locals)
{
    struct sheaf__heap_local *found = NULL;
    for (struct sheaf__heap_local **at = &mine.first; *at;) {
        struct sheaf__heap_local *local = *at;
        if (is_gone(local->of)) {
            *at = local->of_thread;
            release(local);
            continue;
        }
        if (local->of == locals)
            found = local;
        at = &local->of_thread;
    }
    return found;
}

static struct sheaf__heap_local *claim(struct sheaf__heap_locals *locals)
{
    struct sheaf__heap_local *local = NULL;
    if (!sheaf__local_set(&at_end, &mine))
        return NULL;
    sheaf__mutex_lock(&locals->lock);
    for (int i = 0; i < THREADS && !local; i++)
        if (!locals->all[i].of)
            local = &locals->all[i];
    if (local)
        local->of = locals;
    sheaf__mutex_unlock(&locals->lock);
    if (!local)
        return NULL;
    atomic_fetch_add_explicit(&locals->refs, 1, memory_order_relaxed);
    local->of_thread = mine.first;
    mine.first = local;
    return local;
}

static __attribute__((noinline)) struct sheaf__heap_local *find(struct sheaf__heap_locals *locals)
{
    struct sheaf__heap_local *local = look(locals);
    mine.local = local ? local : claim(locals);
    mine.number = locals->number;
    return mine.local;
}

struct sheaf__heap_local *sheaf__heap_local(struct sheaf__heap_locals *locals)
{
    return mine.number == locals->number ? mine.local : find(locals);
}

struct sheaf__heap_block *sheaf__heap_local_cut(struct sheaf__heap_local *local, unsigned number,
                                                uint32_t count)
{
    struct sheaf__heap_block *last = local->lists[number].first;
    for (uint32_t i = 1; i < count; i++)
        last = last->next;
    struct sheaf__heap_block *others = last->next;
    last->next = NULL;
    atomic_store_explicit(&local->lists[number].count, count, memory_order_relaxed);
    return others;
}

void sheaf__heap_local_flush(struct sheaf__heap_locals *locals)
{
    struct sheaf__heap_local *local = look(locals);
    if (!local)
        return;
    sheaf__mutex_lock(&locals->lock);
    flush(locals->heap, local);
    sheaf__mutex_unlock(&locals->lock);
}

/* ---- the heap's side ---- */

struct sheaf__heap_locals *sheaf__heap_locals_new(struct sheaf__heap *heap)
{
    struct sheaf__heap_locals *locals = sheaf__calloc(1, sizeof(*locals));
    if (!locals)
        return NULL;
    atomic_init(&locals->refs, 1);
    locals->number = atomic_fetch_add(&last_number, 1) + 1;
    locals->heap = heap;
    return locals;
}

void sheaf__heap_locals_end(struct sheaf__heap_locals *locals)
{
    sheaf__mutex_lock(&locals->lock);
    for (int i = 0; i < THREADS; i++)
        if (locals->all[i].of)
            flush(locals->heap, &locals->all[i]);
    locals->heap = NULL;
    sheaf__mutex_unlock(&locals->lock);
    look(NULL); /* what the calling thread has of it */
    unref(locals);
}

uint64_t sheaf__heap_locals_count(const struct sheaf__heap_locals *locals, unsigned number)
{
    uint64_t count = 0;
    for (int i = 0; i < THREADS; i++)
        count += atomic_load_explicit(&locals->all[i].lists[number].count, memory_order_relaxed);
    return count;
}
