/* SPDX-License-Identifier: Apache-2.0 */
#include "base/queue.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

struct sheaf__queue {
    struct sheaf__mutex lock;
    struct sheaf__cond not_full;
    struct sheaf__cond not_empty;
    void (*drop)(void *item);
    void **items; /* a ring of `room` places */
    size_t room;
    size_t first;
    size_t count;
    size_t capacity; /* the bound; count may be above it after it was lowered */
    bool closed;
    sheaf_error cancelled; /* status < 0: with this cause */
};

/* Makes a ring of `room` places with the items in order from place 0. */
static bool resize(struct sheaf__queue *q, size_t room)
{
    void **items = sheaf__alloc_array(room, sizeof(*items));
    if (!items)
        return false;
    for (size_t i = 0; i < q->count; i++)
        items[i] = q->items[(q->first + i) % q->room];
    sheaf__free(q->items);
    q->items = items;
    q->room = room;
    q->first = 0;
    return true;
}

sheaf_status sheaf__queue_new(size_t capacity, void (*drop)(void *item),
                              struct sheaf__queue **queue, sheaf_error *err)
{
    if (capacity == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "queue of capacity 0");
    struct sheaf__queue *q = sheaf__calloc(1, sizeof(*q));
    if (!q || !resize(q, capacity)) {
        sheaf__free(q);
        return sheaf__no_memory(err, "a queue");
    }
    q->capacity = capacity;
    q->drop = drop;
    *queue = q;
    return SHEAF_OK;
}

void sheaf__queue_free(struct sheaf__queue *queue)
{
    if (!queue)
        return;
    for (size_t i = 0; i < queue->count && queue->drop; i++)
        queue->drop(queue->items[(queue->first + i) % queue->room]);
    sheaf__free(queue->items);
    sheaf__free(queue);
}

/* SHEAF_OK, SHEAF_PENDING (full), SHEAF_END or the cancellation; with the lock held. */
static sheaf_status push_now(struct sheaf__queue *q, void *item, sheaf_error *err)
{
    if (q->cancelled.status < 0)
        return sheaf__error_copy(err, &q->cancelled);
    if (q->closed)
        return SHEAF_END;
    if (q->count >= q->capacity)
        return SHEAF_PENDING;
    q->items[(q->first + q->count++) % q->room] = item;
    sheaf__cond_signal(&q->not_empty);
    return SHEAF_OK;
}

static sheaf_status pop_now(struct sheaf__queue *q, void **item, sheaf_error *err)
{
    if (q->cancelled.status < 0)
        return sheaf__error_copy(err, &q->cancelled);
    if (q->count == 0)
        return q->closed ? SHEAF_END : SHEAF_PENDING;
    *item = q->items[q->first];
    q->first = (q->first + 1) % q->room;
    q->count--;
    sheaf__cond_signal(&q->not_full);
    return SHEAF_OK;
}

sheaf_status sheaf__queue_push(struct sheaf__queue *queue, void *item,
                               const struct sheaf__wait *wait, sheaf_error *err)
{
    sheaf__mutex_lock(&queue->lock);
    sheaf_status status = push_now(queue, item, err);
    while (status == SHEAF_PENDING) {
        status = sheaf__cond_wait(&queue->not_full, &queue->lock, wait, err);
        if (status == SHEAF_OK)
            status = push_now(queue, item, err);
    }
    sheaf__mutex_unlock(&queue->lock);
    return status;
}

sheaf_status sheaf__queue_pop(struct sheaf__queue *queue, void **item,
                              const struct sheaf__wait *wait, sheaf_error *err)
{
    sheaf__mutex_lock(&queue->lock);
    sheaf_status status = pop_now(queue, item, err);
    while (status == SHEAF_PENDING) {
        status = sheaf__cond_wait(&queue->not_empty, &queue->lock, wait, err);
        if (status == SHEAF_OK)
            status = pop_now(queue, item, err);
    }
    sheaf__mutex_unlock(&queue->lock);
    return status;
}

sheaf_status sheaf__queue_try_push(struct sheaf__queue *queue, void *item, sheaf_error *err)
{
    sheaf__mutex_lock(&queue->lock);
    sheaf_status status = push_now(queue, item, err);
    sheaf__mutex_unlock(&queue->lock);
    return status;
}

sheaf_status sheaf__queue_try_pop(struct sheaf__queue *queue, void **item, sheaf_error *err)
{
    sheaf__mutex_lock(&queue->lock);
    sheaf_status status = pop_now(queue, item, err);
    sheaf__mutex_unlock(&queue->lock);
    return status;
}

static void wake_all(struct sheaf__queue *queue)
{
    sheaf__cond_broadcast(&queue->not_full);
    sheaf__cond_broadcast(&queue->not_empty);
}

void sheaf__queue_close(struct sheaf__queue *queue)
{
    sheaf__mutex_lock(&queue->lock);
    queue->closed = true;
    wake_all(queue);
    sheaf__mutex_unlock(&queue->lock);
}

void sheaf__queue_cancel(struct sheaf__queue *queue, const sheaf_error *cause)
{
    sheaf__mutex_lock(&queue->lock);
    sheaf__error_keep_first(&queue->cancelled, cause);
    wake_all(queue);
    sheaf__mutex_unlock(&queue->lock);
}

size_t sheaf__queue_count(struct sheaf__queue *queue)
{
    sheaf__mutex_lock(&queue->lock);
    size_t count = queue->count;
    sheaf__mutex_unlock(&queue->lock);
    return count;
}

size_t sheaf__queue_capacity(struct sheaf__queue *queue)
{
    sheaf__mutex_lock(&queue->lock);
    size_t capacity = queue->capacity;
    sheaf__mutex_unlock(&queue->lock);
    return capacity;
}

sheaf_status sheaf__queue_set_capacity(struct sheaf__queue *queue, size_t capacity,
                                       sheaf_error *err)
{
    if (capacity == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "queue of capacity 0");
    sheaf__mutex_lock(&queue->lock);
    bool room = capacity <= queue->room || resize(queue, capacity);
    if (room) {
        queue->capacity = capacity;
        sheaf__cond_broadcast(&queue->not_full);
    }
    sheaf__mutex_unlock(&queue->lock);
    return room ? SHEAF_OK : sheaf__no_memory(err, "a queue");
}
