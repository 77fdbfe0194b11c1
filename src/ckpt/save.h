/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_SAVE_H
#define SHEAF_CKPT_SAVE_H

/* Writing a checkpoint and reading one back, for the objects that hold the options. */

#include "ckpt/snapshot.h"

#include <sheaf/checkpoint.h>

struct sheaf__ckpt_save {
    sheaf_trackable *root;
    const char *path; /* the new checkpoint's */
    const sheaf_checkpoint_options *options;
    struct sheaf__save_group *group; /* of the tasks that save together, NULL: this process alone */
    bool writes;                     /* this process does */
    bool keeps;                      /* the number is above all that are there: none is replaced */
    bool has_measure;
    double measure; /* how good it is, noted beside it */
    /* Called where the checkpoint is written, before there is any file of it, and after it has failed. May be NULL. */
    void (*begun)(void *user, const char *path);
    void (*given_up)(void *user, const char *path);
    /* Called there after it became visible and before any other task goes on: the state file. May be NULL. */
    sheaf_status (*committed)(void *user, const char *path, sheaf_error *err);
    void *user;
    /* Where the values are copied to, so that a thread of its own writes them; `committed` is called by
     * that. NULL: all is done at once. */
    struct sheaf__snapshot *snapshot;
};

/* To be asked before the rename that makes something visible (sheaf__file_replace_if()): whether the
 * group (NULL: none) still lets this process do that. */
sheaf_status sheaf__ckpt_leave(void *group, sheaf_error *err);

/* `*skipped`: this process has no part in it ("ps": not the one that saves). Otherwise the
 * checkpoint is there, whichever task wrote it. */
sheaf_status sheaf__ckpt_save(const struct sheaf__ckpt_save *save, bool *skipped, sheaf_error *err);

/* The same in two halves. Between them the objects stay, and may change. */
struct sheaf__ckpt_saving;
sheaf_status sheaf__ckpt_save_begin(const struct sheaf__ckpt_save *save,
                                    struct sheaf__ckpt_saving **saving, sheaf_error *err);
/* Waits for the end of it and frees it. */
sheaf_status sheaf__ckpt_save_end(struct sheaf__ckpt_saving *saving, bool *skipped,
                                  sheaf_error *err);
/* The same without a word to the others; a failure is logged. NULL is nothing. */
void sheaf__ckpt_save_drop(struct sheaf__ckpt_saving *saving);

struct sheaf__ckpt_restore {
    sheaf_trackable *root;
    const sheaf_trackable *optional; /* may be missing in the file; NULL: none */
    const char *path;
    bool partial; /* any may be missing */
};
/* Reads everything below `root` back. `*restored` says what is left, and is the caller's. */
struct sheaf__restored;
sheaf_status sheaf__ckpt_restore(const struct sheaf__ckpt_restore *how,
                                 struct sheaf__restored **restored, sheaf_error *err);
/* An object that was not there then. If the file has it, it must have all of it. */
struct sheaf__ckpt_later {
    sheaf_trackable *object;
    const char *path;
    int32_t node; /* of the file; -1: it has none */
    bool grown;   /* it was restored, and now it has children */
};
sheaf_status sheaf__ckpt_restore_later(struct sheaf__restored *from,
                                       const struct sheaf__ckpt_later *later, sheaf_error *err);
/* No object that comes later is restored from it. Warns of what nobody has taken. NULL is nothing. */
void sheaf__ckpt_restored_free(struct sheaf__restored *restored);
/* Before a save: FAILED_PRECONDITION if an object takes its values only when it is built, so that the save would lose
 * them. NULL is nothing. */
sheaf_status sheaf__ckpt_restored_check(const struct sheaf__restored *restored, sheaf_error *err);

/* SHEAF_ERR_INVALID_ARGUMENT: room that must be zero is not, a callback without its parts. */
sheaf_status sheaf__ckpt_check_options(const sheaf_checkpoint_options *options, sheaf_error *err);

#endif
