/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_HEAP_LOCAL_H
#define SHEAF_TENSOR_HEAP_LOCAL_H

/* Freed small blocks that each thread keeps for itself, so that most allocations take no lock.
 *
 * A heap has one struct sheaf__heap_locals, and in it one struct sheaf__heap_local for every thread
 * that uses it. Only its thread touches the blocks; all may read the counts. Heap and thread end in
 * any order: the thread gives its blocks back to the heap, the heap takes them away from it. */

#include "base/thread.h"

struct sheaf__heap;

/* A freed block. */
struct sheaf__heap_block {
    struct sheaf__heap_block *next;
};

/* Classes of blocks that threads keep, the smallest, up to 4 KiB; see heap.c. */
#define SHEAF__HEAP_LOCAL_CLASSES 20

struct sheaf__heap_local {
    struct {
        struct sheaf__heap_block *first;
        _Atomic uint32_t count;
    } lists[SHEAF__HEAP_LOCAL_CLASSES];
    struct sheaf__heap_locals *of;       /* NULL: no thread has it */
    struct sheaf__heap_local *of_thread; /* the next of the same thread */
};

struct sheaf__heap_locals;

/* For a new heap; NULL without memory. */
struct sheaf__heap_locals *sheaf__heap_locals_new(struct sheaf__heap *heap);
/* The heap goes: all blocks move to its own lists. */
void sheaf__heap_locals_end(struct sheaf__heap_locals *locals);
/* The calling thread's. NULL: there is none for it. */
struct sheaf__heap_local *sheaf__heap_local(struct sheaf__heap_locals *locals);
/* Blocks of class `number` that all threads keep. */
uint64_t sheaf__heap_locals_count(const struct sheaf__heap_locals *locals, unsigned number);
/* The calling thread gives all that it keeps to the heap's lists. */
void sheaf__heap_local_flush(struct sheaf__heap_locals *locals);

static inline struct sheaf__heap_block *sheaf__heap_local_pop(struct sheaf__heap_local *local,
                                                              unsigned number)
{
    struct sheaf__heap_block *block = local->lists[number].first;
    uint32_t count = atomic_load_explicit(&local->lists[number].count, memory_order_relaxed);
    if (block) {
        local->lists[number].first = block->next;
        atomic_store_explicit(&local->lists[number].count, count - 1, memory_order_relaxed);
    }
    return block;
}
/* Returns how many it keeps now. */
static inline uint32_t sheaf__heap_local_push(struct sheaf__heap_local *local, unsigned number,
                                              struct sheaf__heap_block *block)
{
    uint32_t count = atomic_load_explicit(&local->lists[number].count, memory_order_relaxed) + 1;
    block->next = local->lists[number].first;
    local->lists[number].first = block;
    atomic_store_explicit(&local->lists[number].count, count, memory_order_relaxed);
    return count;
}
/* Into an empty list: `count` blocks, linked from `first` on. */
static inline void sheaf__heap_local_fill(struct sheaf__heap_local *local, unsigned number,
                                          struct sheaf__heap_block *first, uint32_t count)
{
    local->lists[number].first = count > 0 ? first : NULL;
    atomic_store_explicit(&local->lists[number].count, count, memory_order_relaxed);
}
/* Keeps the first `count` of more and gives away the others, linked from what is returned on. */
struct sheaf__heap_block *sheaf__heap_local_cut(struct sheaf__heap_local *local, unsigned number,
                                                uint32_t count);

/* ---- what the heap does for them ---- */

/* Moves `count` blocks, linked from `first` on, to the heap's list of class `number`. */
void sheaf__heap_give(struct sheaf__heap *heap, unsigned number, struct sheaf__heap_block *first,
                      uint32_t count);

#endif
