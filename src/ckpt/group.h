/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_GROUP_H
#define SHEAF_CKPT_GROUP_H

/** @file
 *  Save groups: the tasks that hold a checkpoint's tensors together.
 *
 *  ckpt/ plans, writes this task's files, merges and commits. What another task holds is written and read by that task;
 *  the group carries the order to it. distribute/ and ps/ implement it; a process alone needs none. A saveable names its
 *  group, so ckpt/ needs no notion of a strategy. */

#include "tensor/trackable.h"

/** One tensor or slice for a file: where it goes in, and whose it is. */
struct sheaf__shard_item {
    const char *key; /**< "w/.ATTRIBUTES/VARIABLE_VALUE" */
    struct sheaf__saveable saveable;
};

struct sheaf__save_group_class {
    /** Whether this process writes and commits (the chief); the others' saves only keep step. */
    bool (*writes)(struct sheaf__save_group *g);
    /** Whether the task of device `device` is this process. */
    bool (*is_local)(struct sheaf__save_group *g, const char *device);
    /** Has `device`'s task prove that it sees `directory`: it finds `token` in the file `path`. */
    sheaf_status (*prove)(struct sheaf__save_group *g, const char *device, const char *path,
                          const char *token, sheaf_error *err);
    /** Has tasks write shards at one moment: shard i of `count` is a one-file bundle `<paths[i]>` of `items[i]`
     *  (`counts[i]` of them), written by the task of `devices[i]`. Returns when all have synced or one failed. */
    sheaf_status (*write)(struct sheaf__save_group *g, size_t count, const char *const *devices,
                          const char *const *paths, const struct sheaf__shard_item *const *items,
                          const size_t *counts, sheaf_error *err);
    /** Has the task of `device` read `items` from checkpoint `path` into its variables. */
    sheaf_status (*read)(struct sheaf__save_group *g, const char *device, const char *path,
                         const struct sheaf__shard_item *items, size_t count, sheaf_error *err);
    /** Value of a tensor that another task holds, in the frame. */
    sheaf_tensor *(*fetch)(struct sheaf__save_group *g, const struct sheaf__saveable *s);
    /** Synchronous strategies: returns when every worker is here, so that nobody looks for a checkpoint that is not
     *  committed, and agrees on the chief's status. NULL: nothing to wait for. */
    sheaf_status (*finish)(struct sheaf__save_group *g, sheaf_status mine, sheaf_error *err);
};

struct sheaf__save_group {
    const struct sheaf__save_group_class *cls;
};

#endif
