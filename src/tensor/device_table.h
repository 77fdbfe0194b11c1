/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_DEVICE_TABLE_H
#define SHEAF_TENSOR_DEVICE_TABLE_H

/** @file
 *  The device table of a context, shared by device.c (what there is) and device_name.c (what it is
 * called). */

#include "tensor/device.h"
#include "tensor/world.h"

struct sheaf__device_names;

struct sheaf__devices {
    struct sheaf__world *world;
    struct sheaf__mutex lock; /**< of what changes: the plan before use, pools, names */
    struct sheaf__device_plan {
        char type[8];
        int count;
    } plan[4]; /**< kinds asked for; the first is the CPU */
    int plans;
    _Atomic bool made; /**< the plan is carried out and stays */
    struct sheaf__device *items;
    int count;
    int *cpus; /**< cores of all devices, dealt out in slices */
    struct sheaf__device_names *_Atomic names;
};

/** The table of the current context, made (the plan carried out) if it was not. NULL only without
 * memory. */
struct sheaf__devices *sheaf__devices_made(sheaf_error *err);
/** Frees the names it holds. */
void sheaf__device_names_free(struct sheaf__devices *devices);

#endif
