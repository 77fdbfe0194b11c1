/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_HEAP_H
#define SHEAF_TENSOR_HEAP_H

/** @file
 *  Pooled memory of a context: freed blocks wait in lists by size class for the next of their size,
 * so that a repeated step takes nothing from the system. Buffers, tensor headers, elements and what
 * frames hold come from here. Of small blocks each thread keeps some for itself. Any thread. */

#include <sheaf/context.h>

/** One per context; freed with it, after everything taken from it was given back. */
struct sheaf__heap;

/** Heap of the current context. NULL only without memory. Cheap: cached per thread. */
struct sheaf__heap *sheaf__heap_current(sheaf_error *err);

/** At least `size` bytes at a multiple of 64, not cleared. NULL without memory. */
void *sheaf__heap_alloc(struct sheaf__heap *heap, size_t size);
/** Gives a block back, with the size it was asked with: the next allocation of its class gets the
 * block freed last. NULL is nothing. */
void sheaf__heap_free(struct sheaf__heap *heap, void *block, size_t size);
/** What a block asked with `size` really holds. */
size_t sheaf__heap_room(size_t size);

/** What the heap holds now. */
struct sheaf__heap_stats {
    uint64_t live_bytes;   /**< handed out */
    uint64_t cached_bytes; /**< waiting for reuse */
    uint64_t misses;       /**< allocations that went to the system so far */
};
struct sheaf__heap_stats sheaf__heap_stats(struct sheaf__heap *heap);

/** Most bytes that wait for reuse, beside those that threads keep for themselves; what is freed beyond
 * goes to the system. Default SHEAF__HEAP_KEEP. */
#define SHEAF__HEAP_KEEP (UINT64_C(4) << 30)
void sheaf__heap_set_keep(struct sheaf__heap *heap, uint64_t bytes);
/** Gives waiting blocks to the system, the largest first, until at most `keep` bytes wait; those that
 * the calling thread keeps, too, but not other threads'. */
void sheaf__heap_trim(struct sheaf__heap *heap, uint64_t keep);

/** For world.c. */
struct sheaf__heap *sheaf__heap_new(sheaf_error *err);
void sheaf__heap_delete(struct sheaf__heap *heap);

#endif
