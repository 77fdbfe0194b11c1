/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_QUEUE_H
#define SHEAF_BASE_QUEUE_H

/* A bounded queue of pointers between threads: first in, first out. Any number of threads at both
 * ends. */

#include "base/wait.h"

struct sheaf__queue;

/* `drop` (may be NULL) is called for items that are still inside when the queue is freed. */
sheaf_status sheaf__queue_new(size_t capacity, void (*drop)(void *item),
                              struct sheaf__queue **queue, sheaf_error *err);
/* Nobody may wait on it any more. NULL is nothing. */
void sheaf__queue_free(struct sheaf__queue *queue);

/* Appends when there is room. SHEAF_END: closed; a failure: deadline, token or the queue's
 * cancellation. The item stays the caller's unless SHEAF_OK. */
sheaf_status sheaf__queue_push(struct sheaf__queue *queue, void *item,
                               const struct sheaf__wait *wait, sheaf_error *err);
/* Takes the oldest item. SHEAF_END: closed and empty. */
sheaf_status sheaf__queue_pop(struct sheaf__queue *queue, void **item,
                              const struct sheaf__wait *wait, sheaf_error *err);
/* The same without waiting: SHEAF_PENDING if full or empty. */
sheaf_status sheaf__queue_try_push(struct sheaf__queue *queue, void *item, sheaf_error *err);
sheaf_status sheaf__queue_try_pop(struct sheaf__queue *queue, void **item, sheaf_error *err);

/* No more items will come: pushes end, pops take what is left, then end. Wakes all. */
void sheaf__queue_close(struct sheaf__queue *queue);
/* Pushes and pops fail with this cause from now on; the first cause is kept. Items inside stay
 * until the free. */
void sheaf__queue_cancel(struct sheaf__queue *queue, const sheaf_error *cause);

size_t sheaf__queue_count(struct sheaf__queue *queue);
size_t sheaf__queue_capacity(struct sheaf__queue *queue);
/* Changes the bound (autotuning); items beyond a smaller one stay. */
sheaf_status sheaf__queue_set_capacity(struct sheaf__queue *queue, size_t capacity,
                                       sheaf_error *err);

#endif
