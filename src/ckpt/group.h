/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_GROUP_H
#define SHEAF_CKPT_GROUP_H

/* Save groups: the tasks that hold a checkpoint's tensors together.
 *
 * ckpt/ plans, writes this task's files, merges and commits. What another task holds is written and
 * read by that task; the group carries the order to it, and the owner carries it out with
 * ckpt/shard.h. distribute/ and ps/ implement groups; a process alone needs none. A saveable, or
 * an object that is saved as bytes, names its group, so ckpt/ needs no notion of a strategy. All of
 * a checkpoint that name a group name the same one; those without belong to this process.
 *
 * A variable of which every worker has a copy (mirrored over workers) names the group and, in each
 * process, a device of that process: the writer saves its own copy, and each process restores its
 * own. */

#include "tensor/trackable.h"

/* One tensor or slice in a file. `saveable` says what lies under `key`: dtype, full shape, offset
 * and shape of the slice. The slice may be smaller than what the owner's `handle` stands for, if a
 * policy cut it. */
struct sheaf__shard_item {
    const char *key; /* "w/.ATTRIBUTES/VARIABLE_VALUE" */
    struct sheaf__saveable saveable;
};

/* One file to be written: a bundle `path` of its own, in a directory that is merged away. */
struct sheaf__shard {
    const char *device; /* its task writes */
    const char *path;
    const struct sheaf__shard_item *items;
    size_t count;
};

/* Where another process takes over when the one that writes is lost. One that was only slow may come
 * back, and must not undo what its successor has done: so a number is given once, a save asks for leave
 * when the file that makes it visible stands beside its place and only the rename is left, and who takes
 * over deletes such files before it writes anything. All of it fails in a process that does not write. */
struct sheaf__save_turns {
    /* Takes the directory for checkpoints "<prefix>-N", for the whole job until its end.
     * FAILED_PRECONDITION: another one has it. `*last`: the last number that was given, 0: none. */
    sheaf_status (*take)(struct sheaf__save_group *g, const char *prefix, int64_t *last,
                         sheaf_error *err);
    /* The number of the next checkpoint: `*number` at least. After `take`. */
    sheaf_status (*number)(struct sheaf__save_group *g, const char *prefix, int64_t *number,
                           sheaf_error *err);
    /* Leave to make visible. */
    sheaf_status (*leave)(struct sheaf__save_group *g, sheaf_error *err);
};

struct sheaf__bundle_sums;

/* What other tasks hold for a save. */
struct sheaf__save_cut {
    uint64_t number; /* of the group's */
    uint64_t bytes;  /* the most that a task has to write */
};

struct sheaf__save_group_class {
    /* Whether this process restores what other tasks hold, and chooses the checkpoint (the chief). */
    bool (*restores)(struct sheaf__save_group *g);
    /* Whether this process writes and commits now (the chief, or who took over from it); the others'
     * saves only keep step. */
    sheaf_status (*writes)(struct sheaf__save_group *g, bool *now, sheaf_error *err);
    const struct sheaf__save_turns *turns; /* NULL: it is one process from beginning to end */
    /* Device of a task whose note is kept and comes back though it may hold no tensor of the checkpoint; NULL: there is none. */
    const char *(*keeper)(struct sheaf__save_group *g);
    /* Whether the task of `device` is this process. */
    bool (*is_local)(struct sheaf__save_group *g, const char *device);
    /* Has `device`'s task prove that it sees the directory: it finds `token` in the file `path`. Any
     * thread, as `write`, `drop` and the turns' `leave`, which a save in the background calls while the
     * program goes on. */
    sheaf_status (*prove)(struct sheaf__save_group *g, const char *device, const char *path,
                          const char *token, sheaf_error *err);
    /* Has other tasks hold their shards as they are now, all of a task's at one moment, whatever becomes
     * of the values; `*cut` is what to call them by. `notes[i]` may be set to one line of text of the
     * frame that belongs to the moment of shard i (the ps's table of push sequences); it is kept
     * beside the checkpoint by task. */
    sheaf_status (*cut)(struct sheaf__save_group *g, const struct sheaf__shard *shards,
                        size_t count, const char **notes, struct sheaf__save_cut *cut,
                        sheaf_error *err);
    /* Has them write these with sheaf__shard_write() and hold them no longer. Returns when all are durable
     * or one failed. */
    sheaf_status (*write)(struct sheaf__save_group *g, const struct sheaf__save_cut *cut,
                          sheaf_error *err);
    /* They will not be written. Never waits. */
    void (*drop)(struct sheaf__save_group *g, const struct sheaf__save_cut *cut);
    /* Has other tasks, each of them once in the list, read their shards from the checkpoint
     * shard->path with sheaf__shard_read(), all at once, and hold the values back. `notes[i]` is what
     * the task of shard i noted when it was saved, else NULL. Their checksums are added to `sums`. */
    sheaf_status (*read)(struct sheaf__save_group *g, const struct sheaf__shard *shards,
                         size_t count, const char *const *notes, struct sheaf__bundle_sums *sums,
                         sheaf_error *err);
    /* After reads: `take` puts the values held back into the variables, otherwise they are dropped.
     */
    sheaf_status (*settle)(struct sheaf__save_group *g, bool take, sheaf_error *err);
    /* Value of a tensor that another task holds, in the frame. */
    sheaf_tensor *(*fetch)(struct sheaf__save_group *g, const struct sheaf__saveable *s);
    /* Synchronous strategies, else NULL: gives every worker the chief's `*path` (NULL: none), so
     * that all restore the same checkpoint. Text of the frame. Called by all of them. */
    sheaf_status (*agree)(struct sheaf__save_group *g, const char **path, sheaf_error *err);
    /* Where one task alone restores what all use, else NULL: it says which checkpoint it has restored
     * (`*path`, NULL: none); the others wait for that and get the path, text of the frame, which may
     * be gone by then. Called by all of them, as often. */
    sheaf_status (*follow)(struct sheaf__save_group *g, const char **path, sheaf_error *err);
    /* Synchronous strategies, else NULL: returns when every worker has finished its save, its restore
     * or taking the directory, so that nobody goes on with half of it, with the first failure of any. */
    sheaf_status (*finish)(struct sheaf__save_group *g, sheaf_status mine, sheaf_error *err);
};

struct sheaf__halt;

struct sheaf__save_group {
    const struct sheaf__save_group_class *cls;
    struct sheaf__halt *halt; /* where its tasks stop when they are asked to (base/halt.h) */
};

#endif
