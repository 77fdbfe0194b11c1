/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_DEVICE_H
#define SHEAF_TENSOR_DEVICE_H

/** @file
 *  Logical devices of a context, and what a kind of device must be able to do.
 *
 *  The table is made at first use (a tensor, a listing) and then stays. Host code reaches the bytes
 * of a tensor only through sheaf_tensor_data(), which copies back if it must; CPUs and simulated
 * devices compute in host memory. */

#include "base/pool.h"
#include "tensor/buffer.h"

#include <sheaf/device.h>

struct sheaf__device;
struct sheaf__heap;

/** What a kind of device does. */
struct sheaf__device_class {
    const char *type; /**< "CPU" */
    bool host_memory; /**< its memory can be read and written by host code */
    struct sheaf__buffer *(*allocate)(struct sheaf__device *device, size_t size, sheaf_error *err);
    /** `size` bytes between devices one of which is of this class; both addresses in their devices'
     * memory. Done on return for host memory, else after synchronise. */
    sheaf_status (*copy)(struct sheaf__device *to_device, void *to,
                         struct sheaf__device *from_device, const void *from, size_t size,
                         sheaf_error *err);
    /** Calls fn(i, user) for i in 0..n-1 on the device's threads; returns when all are done. */
    void (*run)(struct sheaf__device *device, size_t n, void (*fn)(size_t i, void *user),
                void *user);
    /** Waits for everything the device was asked to do. */
    sheaf_status (*synchronise)(struct sheaf__device *device, sheaf_error *err);
    /** Collectives of the device's own, for coll/; NULL: through host memory. */
    const void *collective;
};

/** A logical device. Lives as long as its context; immutable but for what starts lazily. */
struct sheaf__device {
    const struct sheaf__device_class *cls;
    struct sheaf_device info; /**< name, type, index, threads */
    int number;               /**< position in the table: what sheaf_devices_get() counts */
    struct sheaf__heap *heap; /**< of the context */
    struct sheaf__devices *table;
    const int *cpus;  /**< cores its threads run on: options of sheaf__thread_start() */
    size_t cpu_count; /**< 0: anywhere */
    struct sheaf__pool *_Atomic pool;
    _Atomic bool pool_ready;
};

/** Device where operations of the calling thread run: the innermost SHEAF_DEVICE, else the thread's
 * own, else CPU:0. NULL with `err` for a name that SHEAF_DEVICE was given and that is none. */
struct sheaf__device *sheaf__device_current(sheaf_error *err);
/** CPU:0 of the current context. NULL only without memory. */
struct sheaf__device *sheaf__device_host(sheaf_error *err);
/** Device `i` of the current context, NULL past the end. */
struct sheaf__device *sheaf__device_at(int i);
/** By name: "CPU:1", "/device:CPU:1", "/CPU:1", "cpu" (number 0), or a full name of this task. NULL
 * with SHEAF_ERR_NOT_FOUND that lists what there is. */
struct sheaf__device *sheaf__device_find(const char *name, sheaf_error *err);

/** Makes `device` (NULL: none) the calling thread's own and returns the one before: a replica's
 * thread. */
struct sheaf__device *sheaf__device_set_own(struct sheaf__device *device);

/** "/job:localhost/replica:0/task:0/device:CPU:0", the job and number of the context's task where
 * it has one. Lives as long as the context. */
const char *sheaf__device_full_name(struct sheaf__device *device);

/** The device's threads, started at first use; NULL where it has one only (run loops on the
 * caller). */
struct sheaf__pool *sheaf__device_pool(struct sheaf__device *device);
/** Loop on the device's threads, the caller among them. */
static inline void sheaf__device_run(struct sheaf__device *device, size_t n,
                                     void (*fn)(size_t i, void *user), void *user)
{
    device->cls->run(device, n, fn, user);
}

#endif
