/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_SNAPSHOT_H
#define SHEAF_CKPT_SNAPSHOT_H

/* Copies of what this process saves, so that the program goes on while they are written. */

#include "ckpt/objects.h"

/* The copies stay for the next snapshot, which uses their memory again. Zeroed is empty. */
struct sheaf__snapshot {
    sheaf_tensor **copies; /* by tensor of the objects; NULL: another task's */
    size_t count;
};

/* Copies the values of all tensors that are local, and has the objects give those from then on. */
sheaf_status sheaf__snapshot_take(struct sheaf__snapshot *snapshot, struct sheaf__ckpt_objects *o,
                                  sheaf_error *err);
void sheaf__snapshot_free(struct sheaf__snapshot *snapshot);

#endif
