/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_PLAN_H
#define SHEAF_CKPT_PLAN_H

/* Which tensor goes into which file: a sharding policy is asked once for every task that holds
 * tensors, and its answer is checked (R8.13-R8.16, S200-S214). */

#include "ckpt/objects.h"
#include "format/slice.h"

#include <sheaf/checkpoint.h>

/* One file of the new checkpoint. */
struct sheaf__ckpt_shard {
    const char *device; /* a device of the task that writes it; borrowed */
    bool local;
    struct sheaf__shard_item *items;
    const struct sheaf__ckpt_tensor **tensors; /* tensors[i] is, or contains, items[i] */
    size_t count;
};

struct sheaf__ckpt_plan {
    struct sheaf__ckpt_shard *shards; /* in the order of their numbers; none is empty */
    size_t count, capacity;
};

/* Makes the plan; `sharding` NULL: one shard a task. `own_device` stands for this task where a
 * tensor names no device. */
sheaf_status sheaf__ckpt_plan_make(struct sheaf__ckpt_plan *plan,
                                   const struct sheaf__ckpt_objects *o,
                                   const sheaf_sharding_callback *sharding, const char *own_device,
                                   sheaf_error *err);
void sheaf__ckpt_plan_free(struct sheaf__ckpt_plan *plan);

/* For the files that make up the plan. */

struct sheaf_shardable {
    const struct sheaf__ckpt_objects *objects;
    const struct sheaf__ckpt_tensor *tensor;
    const char *device;
    const char *slice_spec;
    struct sheaf__slice slice;
    bool placed; /* it was put somewhere */
};

/* What the callback put somewhere, as it said it. */
struct sheaf__placement {
    int shard;
    const char *key, *slice_spec, *device;
    sheaf_dtype dtype;
    sheaf_shape shape;
    sheaf_status status;    /* of the tensor it gave */
    sheaf_shardable *input; /* filled by the check */
    struct sheaf__slice slice;
};

struct sheaf_shard_plan {
    struct sheaf__placement *list;
    size_t count, capacity;
    struct sheaf__arena texts; /* of the placements */
    bool failed;               /* no memory */
    sheaf_error error;         /* why a policy of ours gave up */
};
void sheaf__placements_free(struct sheaf_shard_plan *plan);
/* Puts a slice of what `t` is, or all of it, into a shard. */
void sheaf__shard_put_part(sheaf_shard_plan *plan, int shard, const sheaf_shardable *t,
                           const struct sheaf__slice *part);

/* Checks what a callback did with the tensors of one task. `all` are the tensors of all tasks. */
struct sheaf__plan_check {
    const char *description;
    sheaf_shardable *all;
    size_t all_count;
    sheaf_shardable *const *mine;
    size_t count;
    size_t last; /* the one found last: callbacks mostly keep the order */
};
sheaf_status sheaf__plan_check(struct sheaf__plan_check *check, sheaf_shard_plan *plan,
                               sheaf_error *err);

#endif
