/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_BUFFER_H
#define SHEAF_TENSOR_BUFFER_H

/** @file
 *  Buffers: counted storage that tensors share. */

#include "base/object.h"

#include <sheaf/status.h>

struct sheaf__device;
struct sheaf__owners;

/** Bytes of the struct; pooled storage follows behind so many. */
#define SHEAF__BUFFER_HEAD 64

/** Pooled storage follows right behind, so that a buffer is one block. */
struct sheaf__buffer {
    struct sheaf__object object; /**< counted: sheaf__ref(), sheaf__unref() */
    void *data; /**< in the device's memory; 64-byte aligned unless it is foreign */
    size_t size;
    struct sheaf__device *device;            /**< never NULL */
    void (*release)(void *data, void *user); /**< of foreign memory; NULL: none, or pooled */
    void *user;                              /**< for release */
    struct sheaf__owners *owners; /**< what else must live as long: sheaf__buffer_keep() */
};

/** `size` bytes of `device`'s memory (NULL: CPU:0 of the current context), not cleared, one count.
 * From the context's pool: a buffer freed is the next one of its size. NULL with `err` without
 * memory. */
struct sheaf__buffer *sheaf__buffer_new(struct sheaf__device *device, size_t size,
                                        sheaf_error *err);

/** The same in host memory, for the device classes whose memory that is. */
struct sheaf__buffer *sheaf__buffer_host(struct sheaf__device *device, size_t size,
                                         sheaf_error *err);

/** A buffer over host memory that is not ours. `release` (NULL: none) runs once when the last count
 * is gone, on the thread that drops it; at once if this fails. */
struct sheaf__buffer *sheaf__buffer_wrap(void *data, size_t size,
                                         void (*release)(void *data, void *user), void *user,
                                         sheaf_error *err);

/** Takes a count of `object` (a buffer, a mapped file: anything that starts with struct
 * sheaf__object) that is given back when the buffer goes. Repeats that follow closely are kept
 * once. Only before the buffer is shared. */
sheaf_status sheaf__buffer_keep(struct sheaf__buffer *buffer, void *object, sheaf_error *err);
/** Keeps everything that `from` keeps, too. */
sheaf_status sheaf__buffer_keep_like(struct sheaf__buffer *buffer, const struct sheaf__buffer *from,
                                     sheaf_error *err);

/** First of the kept objects, and of those that buffers among them keep, that `match` says yes to, borrowed; NULL if
 * there is none. */
void *sheaf__buffer_find(const struct sheaf__buffer *buffer,
                         bool (*match)(void *object, const void *user), const void *user);

/** Whether the storage is the pool's, not foreign. */
static inline bool sheaf__buffer_pooled(const struct sheaf__buffer *buffer)
{
    return buffer->data == (const char *)buffer + SHEAF__BUFFER_HEAD;
}

/** True if the caller's count is the only one: it may write. */
static inline bool sheaf__buffer_unique(const struct sheaf__buffer *buffer)
{
    return sheaf__object_unique(buffer);
}

#endif
