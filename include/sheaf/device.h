/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DEVICE_H
#define SHEAF_DEVICE_H

/** @file
 *  Logical devices: this machine's cores split into devices, each a thread with a core set (S108). */

#include <sheaf/status.h>

SHEAF_BEGIN_DECLS

/** A logical device. */
typedef struct sheaf_device {
    char name[24];   /**< "/device:CPU:0" */
    char type[8];    /**< "CPU" */
    int32_t index;   /**< number within its type */
    int32_t threads; /**< threads an operation on it may use */
} sheaf_device;

/** Splits the physical CPU of the current context into `count` logical devices, as set_logical_device_configuration
 *  does: cores are dealt evenly, and shared where there are fewer cores than devices.
 *  SHEAF_ERR_INVALID_ARGUMENT: count < 1. SHEAF_ERR_FAILED_PRECONDITION: the devices are in use already. */
SHEAF_CHECKED sheaf_status sheaf_devices_configure(int count, sheaf_error *err);

/** The same with `count` simulated devices of another `type` ("GPU"), listed after the CPU; they compute on its cores. */
SHEAF_CHECKED sheaf_status sheaf_devices_simulate(const char *type, int count, sheaf_error *err);

/** Logical devices of the current context: their number, and device `i` (SHEAF_ERR_OUT_OF_RANGE past the end). */
SHEAF_API int sheaf_devices_count(void);
SHEAF_API sheaf_status sheaf_devices_get(int i, sheaf_device *device);

/** Runs the block's operations on device `name` ("CPU:1"): `SHEAF_DEVICE("CPU:1") { … }`. Inside a strategy's scope it
 *  decides where operations run, never where variables live (S13). An unknown name fails the first operation;
 *  NULL leaves the devices of the blocks around it. */
#define SHEAF_DEVICE(name)                                                    \
    for (sheaf_device_scope SHEAF_BLOCK_NAME(sheaf_device_)                   \
             __attribute__((cleanup(sheaf_device_scope_leave))) = SHEAF_ZERO; \
         sheaf_device_scope_enter(&SHEAF_BLOCK_NAME(sheaf_device_), (name));)

/** State of SHEAF_DEVICE. */
typedef struct sheaf_device_scope {
    struct sheaf_device_scope *parent;
    const char *name; /**< borrowed for the block */
    int32_t device;
    int32_t open;
} sheaf_device_scope;
SHEAF_API bool sheaf_device_scope_enter(sheaf_device_scope *scope, const char *name);
SHEAF_API void sheaf_device_scope_leave(sheaf_device_scope *scope);

SHEAF_END_DECLS

#endif
