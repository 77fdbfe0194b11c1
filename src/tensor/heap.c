/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/heap.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tensor/heap_local.h"

#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISONED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONED 1
#endif
#endif
#ifdef POISONED
#include <sanitizer/asan_interface.h>
#endif

/* Every block is 64 bytes and a multiple of 64 that has at most three binary digits, so that no
 * more than a fifth is lost; the extra 64 let a buffer's head stand before a power of two. */
#define UNIT    64
#define STEPS   4  /* classes for each doubling */
#define LARGEST 40 /* doublings of 64 bytes that have classes */
#define CLASSES (STEPS + STEPS * (LARGEST - 1))

/* Before memory is asked of the system for a block of at least this size, more waiting blocks than
 * what is in use are given up: they are of sizes nobody wants any more. */
#define LARGE ((size_t)1 << 20)
#define SPARE ((uint64_t)64 << 20)

/* What a thread keeps for itself of a class: bytes, but some blocks at least. */
#define LOCAL_BYTES ((size_t)16 << 10)
#define LOCAL_LEAST 8

struct size_class {
    struct sheaf__mutex lock;
    struct sheaf__heap_block *waiting;
    uint64_t obtained; /* blocks from the system that were not given back to it */
    uint64_t cached;   /* of them, waiting */
};

struct sheaf__heap {
    _Atomic uint64_t cached_bytes;
    _Atomic uint64_t keep;
    _Atomic uint64_t misses;
    struct sheaf__heap_locals *locals;
    struct size_class classes[CLASSES];
};

/* The class of `units`, which is at least 1; its own size in units comes back. */
static unsigned class_of(size_t *units)
{
    if (*units <= STEPS)
        return (unsigned)*units - 1;
    unsigned log2 = 63 - (unsigned)__builtin_clzll(*units - 1);
    size_t step = (*units - 1) >> (log2 - 2);
    *units = (step + 1) << (log2 - 2);
    return STEPS * (log2 - 1) + (unsigned)(step - STEPS);
}

/* Bytes of the blocks of class `number`. */
static size_t class_bytes(unsigned number)
{
    size_t step = number % STEPS + 1;
    size_t units = number < STEPS ? step : (STEPS + step) << (number / STEPS - 1);
    return (units + 1) * UNIT;
}

/* Class and bytes of the block for `size`; false if there is none, as no machine has so much. */
static bool measure(size_t size, unsigned *number, size_t *bytes)
{
    if (size > SIZE_MAX / 2)
        return false;
    size_t units = size <= 2 * UNIT ? 1 : (size + UNIT - 1) / UNIT - 1;
    *number = class_of(&units);
    *bytes = (units + 1) * UNIT;
    return *number < CLASSES;
}

/* Under the address sanitizer, what waits must not be touched, nor what is beyond the size asked for. */
static void forbid(void *block, size_t bytes)
{
#ifdef POISONED
    __asan_poison_memory_region(block, bytes);
#else
    (void)block, (void)bytes;
#endif
}

static void permit(void *block, size_t bytes)
{
#ifdef POISONED
    __asan_unpoison_memory_region(block, bytes);
#else
    (void)block, (void)bytes;
#endif
}

size_t sheaf__heap_room(size_t size)
{
    unsigned number;
    size_t bytes;
    return measure(size, &number, &bytes) ? bytes : 0;
}

static uint64_t live_bytes(struct sheaf__heap *heap)
{
    uint64_t live = 0;
    for (unsigned i = 0; i < CLASSES; i++) {
        struct size_class *c = &heap->classes[i];
        sheaf__mutex_lock(&c->lock);
        uint64_t blocks = c->obtained - c->cached;
        sheaf__mutex_unlock(&c->lock);
        if (i < SHEAF__HEAP_LOCAL_CLASSES)
            blocks -= sheaf__heap_locals_count(heap->locals, i);
        live += blocks * class_bytes(i);
    }
    return live;
}

static uint64_t local_bytes(struct sheaf__heap *heap)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < SHEAF__HEAP_LOCAL_CLASSES; i++)
        bytes += sheaf__heap_locals_count(heap->locals, i) * class_bytes(i);
    return bytes;
}

static void trim(struct sheaf__heap *heap, uint64_t keep);

static void *ask_system(struct sheaf__heap *heap, unsigned number, size_t bytes)
{
    if (bytes >= LARGE) {
        uint64_t cached = atomic_load_explicit(&heap->cached_bytes, memory_order_relaxed);
        if (cached > SPARE && cached > live_bytes(heap) + SPARE)
            trim(heap, cached / 2);
    }
    atomic_fetch_add_explicit(&heap->misses, 1, memory_order_relaxed);
    void *block = sheaf__alloc_aligned(bytes);
    if (!block)
        sheaf__heap_local_flush(heap->locals);
    if (!block && atomic_load_explicit(&heap->cached_bytes, memory_order_relaxed)) {
        trim(heap, 0);
        block = sheaf__alloc_aligned(bytes);
    }
    if (!block)
        return NULL;
    struct size_class *c = &heap->classes[number];
    sheaf__mutex_lock(&c->lock);
    c->obtained++;
    sheaf__mutex_unlock(&c->lock);
    return block;
}

/* The next waiting block; NULL: none waits. */
static struct sheaf__heap_block *take(struct sheaf__heap *heap, unsigned number, size_t bytes)
{
    struct size_class *c = &heap->classes[number];
    sheaf__mutex_lock(&c->lock);
    struct sheaf__heap_block *block = c->waiting;
    if (block) {
        c->waiting = block->next;
        c->cached--;
    }
    sheaf__mutex_unlock(&c->lock);
    if (block)
        atomic_fetch_sub_explicit(&heap->cached_bytes, bytes, memory_order_relaxed);
    return block;
}

/* Blocks of `bytes` that a thread keeps at most. */
static uint32_t local_most(size_t bytes)
{
    return LOCAL_BYTES / bytes < LOCAL_LEAST ? LOCAL_LEAST : (uint32_t)(LOCAL_BYTES / bytes);
}

/* Whether it may keep `count`: the same, without dividing at every free. */
static bool may_keep(uint32_t count, size_t bytes)
{
    return count <= LOCAL_LEAST || count * bytes <= LOCAL_BYTES;
}

/* The thread has none of the class: it gets half of what it may keep, if so many wait. */
static void refill(struct sheaf__heap *heap, struct sheaf__heap_local *local, unsigned number,
                   size_t bytes)
{
    struct size_class *c = &heap->classes[number];
    uint32_t moved = 0;
    sheaf__mutex_lock(&c->lock);
    struct sheaf__heap_block *first = c->waiting, *last = NULL;
    for (; c->waiting && moved < local_most(bytes) / 2; moved++) {
        last = c->waiting;
        c->waiting = last->next;
    }
    if (last)
        last->next = NULL;
    c->cached -= moved;
    sheaf__mutex_unlock(&c->lock);
    sheaf__heap_local_fill(local, number, first, moved);
    atomic_fetch_sub_explicit(&heap->cached_bytes, moved * bytes, memory_order_relaxed);
}

static struct sheaf__heap_block *take_local(struct sheaf__heap *heap, unsigned number, size_t bytes)
{
    struct sheaf__heap_local *local = sheaf__heap_local(heap->locals);
    if (!local)
        return take(heap, number, bytes);
    struct sheaf__heap_block *block = sheaf__heap_local_pop(local, number);
    if (__builtin_expect(block != NULL, 1))
        return block;
    refill(heap, local, number, bytes);
    return sheaf__heap_local_pop(local, number);
}

void *sheaf__heap_alloc(struct sheaf__heap *heap, size_t size)
{
    unsigned number;
    size_t bytes;
    if (!measure(size, &number, &bytes))
        return NULL;
    void *block = number < SHEAF__HEAP_LOCAL_CLASSES ? take_local(heap, number, bytes)
                                                     : take(heap, number, bytes);
    if (!block)
        block = ask_system(heap, number, bytes);
    if (block) {
        forbid(block, bytes);
        permit(block, size);
    }
    return block;
}

void sheaf__heap_give(struct sheaf__heap *heap, unsigned number, struct sheaf__heap_block *first,
                      uint32_t count)
{
    struct size_class *c = &heap->classes[number];
    struct sheaf__heap_block *last = first;
    for (uint32_t i = 1; i < count; i++)
        last = last->next;
    uint64_t bytes = count * class_bytes(number);
    atomic_fetch_add_explicit(&heap->cached_bytes, bytes, memory_order_relaxed);
    sheaf__mutex_lock(&c->lock);
    last->next = c->waiting;
    c->waiting = first;
    c->cached += count;
    sheaf__mutex_unlock(&c->lock);
}

/* The thread keeps `count` blocks, more than it may: what was freed first goes to the others. */
static void spill(struct sheaf__heap *heap, struct sheaf__heap_local *local, unsigned number,
                  uint32_t count)
{
    sheaf__heap_give(heap, number, sheaf__heap_local_cut(local, number, count / 2),
                     count - count / 2);
}

void sheaf__heap_free(struct sheaf__heap *heap, void *block, size_t size)
{
    unsigned number;
    size_t bytes;
    if (!block || !measure(size, &number, &bytes))
        return;
    struct sheaf__heap_block *head = block;
    permit(head, sizeof(*head));
    head->next = NULL;
    /* The leak sanitizer follows the link, so it stays readable. */
    forbid(head + 1, bytes - sizeof(*head));
    struct sheaf__heap_local *local =
        number < SHEAF__HEAP_LOCAL_CLASSES ? sheaf__heap_local(heap->locals) : NULL;
    if (local) {
        uint32_t count = sheaf__heap_local_push(local, number, head);
        if (__builtin_expect(may_keep(count, bytes), 1))
            return;
        spill(heap, local, number, count);
    } else {
        sheaf__heap_give(heap, number, head, 1);
    }
    uint64_t keep = atomic_load_explicit(&heap->keep, memory_order_relaxed);
    if (atomic_load_explicit(&heap->cached_bytes, memory_order_relaxed) > keep)
        trim(heap, keep);
}

/* Gives one waiting block of the class to the system; false if none waits. */
static bool give_up(struct sheaf__heap *heap, unsigned number, size_t bytes)
{
    struct size_class *c = &heap->classes[number];
    sheaf__mutex_lock(&c->lock);
    struct sheaf__heap_block *block = c->waiting;
    if (block) {
        permit(block, bytes);
        c->waiting = block->next;
        c->cached--;
        c->obtained--;
    }
    sheaf__mutex_unlock(&c->lock);
    if (!block)
        return false;
    atomic_fetch_sub_explicit(&heap->cached_bytes, bytes, memory_order_relaxed);
    sheaf__free(block);
    return true;
}

static void trim(struct sheaf__heap *heap, uint64_t keep)
{
    for (unsigned i = CLASSES; i-- > 0;) {
        while (atomic_load_explicit(&heap->cached_bytes, memory_order_relaxed) > keep &&
               give_up(heap, i, class_bytes(i)))
            ;
    }
}

void sheaf__heap_trim(struct sheaf__heap *heap, uint64_t keep)
{
    sheaf__heap_local_flush(heap->locals);
    trim(heap, keep);
}

void sheaf__heap_set_keep(struct sheaf__heap *heap, uint64_t bytes)
{
    atomic_store_explicit(&heap->keep, bytes, memory_order_relaxed);
    sheaf__heap_trim(heap, bytes);
}

struct sheaf__heap_stats sheaf__heap_stats(struct sheaf__heap *heap)
{
    return (struct sheaf__heap_stats){
        .live_bytes = live_bytes(heap),
        .cached_bytes =
            atomic_load_explicit(&heap->cached_bytes, memory_order_relaxed) + local_bytes(heap),
        .misses = atomic_load_explicit(&heap->misses, memory_order_relaxed),
    };
}

struct sheaf__heap *sheaf__heap_new(sheaf_error *err)
{
    struct sheaf__heap *heap = sheaf__calloc(1, sizeof(*heap));
    struct sheaf__heap_locals *locals = heap ? sheaf__heap_locals_new(heap) : NULL;
    if (!locals) {
        sheaf__free(heap);
        sheaf__no_memory(err, "a heap");
        return NULL;
    }
    heap->locals = locals;
    atomic_init(&heap->keep, SHEAF__HEAP_KEEP);
    return heap;
}

void sheaf__heap_delete(struct sheaf__heap *heap)
{
    if (heap) {
        sheaf__heap_locals_end(heap->locals);
        trim(heap, 0);
    }
    sheaf__free(heap);
}
