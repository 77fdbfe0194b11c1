/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_WORLD_H
#define SHEAF_TENSOR_WORLD_H

/** @file
 *  What tensor/ keeps per context: one slot, found without a lock from the thread that used it
 * last. */

#include "base/context.h"
#include "tensor/heap.h"

struct sheaf__devices;
struct sheaf__names;

struct sheaf__world {
    sheaf_context *context;
    struct sheaf__heap *heap;
    struct sheaf__devices *devices;
    struct sheaf__names *names;
};

/** Of the current context. NULL only without memory. */
struct sheaf__world *sheaf__world(sheaf_error *err);

/** Parts of it, made and deleted with it. */
struct sheaf__devices *sheaf__devices_new(struct sheaf__world *world, sheaf_error *err);
void sheaf__devices_delete(struct sheaf__devices *devices);
struct sheaf__names *sheaf__names_new(sheaf_error *err);
void sheaf__names_delete(struct sheaf__names *names);

#endif
