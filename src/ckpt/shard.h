/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_SHARD_H
#define SHEAF_CKPT_SHARD_H

/* What the owner of tensors does when it is told to save or to restore them. Needs no objects: a
 * parameter server has only buffers. Any thread. */

#include "ckpt/group.h"

#include <sheaf/bundle.h>

struct sheaf__bundle_sums;

/* The value of exactly `item`'s slice, in the frame (sheaf__shard_cut() takes it out of a larger
 * one); a failed tensor carries the error. */
typedef sheaf_tensor *(*sheaf__shard_value_fn)(void *user, const struct sheaf__shard_item *item);
/* Takes the value read for `item`, which belongs to a frame that ends after the call. */
typedef sheaf_status (*sheaf__shard_put_fn)(void *user, const struct sheaf__shard_item *item,
                                            sheaf_tensor *value, sheaf_error *err);

/* Writes the one-file bundle `path` of `count` items in their order, durable when it returns. On
 * failure no file of it is left. */
sheaf_status sheaf__shard_write(const char *path, const struct sheaf__shard_item *items,
                                size_t count, sheaf__shard_value_fn value, void *user,
                                sheaf_error *err);
/* Who takes what is read. Of a stored tensor that an item is a part of, the part alone is read: its checksum
 * comes to `sums`, and the values must not be used before all of them were checked. */
struct sheaf__shard_taker {
    sheaf__shard_put_fn put;
    void *user;
    struct sheaf__bundle_sums *sums;
};
/* Reads each item's slice from checkpoint `path`, in whatever slices it was stored. Stops at the
 * first failure; what `put` was given before it must not be used then. */
sheaf_status sheaf__shard_read(const char *path, const struct sheaf__shard_item *items,
                               size_t count, const struct sheaf__shard_taker *taker,
                               sheaf_error *err);
/* The same from one that is open. */
sheaf_status sheaf__shard_read_from(sheaf_bundle *b, const struct sheaf__shard_item *items,
                                    size_t count, const struct sheaf__shard_taker *taker,
                                    sheaf_error *err);
/* The slice `part` of `t`, which is itself the slice at `offset` of the same tensor: `t` or a view
 * of it if it can be one, else a copy. */
sheaf_tensor *sheaf__shard_cut(sheaf_tensor *t, const int64_t *offset,
                               const struct sheaf__saveable *part);
/* How much of the name of a device is its task's: up to "/device:". */
size_t sheaf__shard_task_size(const char *device);
/* Whether two devices belong to one task. */
bool sheaf__shard_same_task(const char *a, const char *b);

#endif
