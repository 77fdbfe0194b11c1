/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_CHECKPOINT_H
#define SHEAF_CKPT_CHECKPOINT_H

/* Inside of a checkpoint object, for the manager. */

#include "base/array.h"
#include "ckpt/restored.h"
#include "ckpt/save.h"

struct sheaf__ckpt_edge {
    char *name;
    sheaf_trackable *child;
    struct sheaf__ckpt_group *group; /* own; NULL: the program's object */
};

/* An object that only has children: the checkpoint itself, or a step of a path "model/kernel". */
struct sheaf__ckpt_group {
    sheaf_trackable trackable;
    struct sheaf__ckpt_edge **edges;
    size_t count, capacity;
    struct sheaf__strmap by_name; /* of the edges */
};

/* The number of saves so far: TensorFlow's save_counter. */
struct sheaf__ckpt_counter {
    sheaf_trackable trackable;
    int64_t value;
    bool made; /* by the first save, or a restore that found one */
};

struct sheaf_checkpoint {
    sheaf_trackable trackable; /* the root's edges, and the counter */
    struct sheaf__ckpt_group root;
    struct sheaf__ckpt_counter counter;
    sheaf_error latched;
    struct sheaf__restored *restored; /* what the last restore has left; NULL: there was none */
    bool partial;                     /* restores need not be whole */
    struct sheaf__strings left_out;   /* damaged ones that a follower has met */
};

/* The error of an object that was added, if there is one. */
sheaf_status sheaf__checkpoint_check_objects(const sheaf_checkpoint *c, sheaf_error *err);
/* The same, and of one that was to get its value when it was added after a restore. */
sheaf_status sheaf__checkpoint_check(const sheaf_checkpoint *c, sheaf_error *err);
/* A save under the next number, in two halves; zeroed: none is under way. */
struct sheaf__next_save {
    struct sheaf__ckpt_saving *saving;
    char *path;
    struct sheaf__ckpt_counter before;
};
/* `how` without root and path. */
sheaf_status sheaf__checkpoint_begin_next(sheaf_checkpoint *c, const struct sheaf__ckpt_save *how,
                                          const char *prefix, struct sheaf__next_save *next,
                                          sheaf_error *err);
/* `*path` is text of the frame, NULL where this process has no part in it. */
sheaf_status sheaf__checkpoint_end_next(sheaf_checkpoint *c, struct sheaf__next_save *next,
                                        const char **path, sheaf_error *err);
/* Reads a part of an object's name, up to its end or a "/", behind which `*at` is put: whether there was one. In it "\\/" is a
 * "/" and "\\\\" a "\\". */
bool sheaf__checkpoint_step(const char **at, struct sheaf__str *step);
/* Gives an object that is added after a restore its value; `at` is the number of its edge. A failure
 * is latched. */
void sheaf__checkpoint_added(sheaf_checkpoint *c, const char *name, sheaf_trackable *object,
                             size_t at);
/* Restores, as sheaf_checkpoint_restore(). `*damaged`: it failed as the files cannot be read, and the
 * error says what is wrong with them, so an older checkpoint will do. */
sheaf_status sheaf__checkpoint_try(sheaf_checkpoint *c, const char *path, bool *damaged,
                                   sheaf_error *err);
/* Reads every byte of a checkpoint. */
sheaf_status sheaf__checkpoint_verify(const char *path, sheaf_error *err);
/* Warns that a damaged checkpoint is passed over. */
void sheaf__checkpoint_leave_out(const char *path, const sheaf_error *damage);
/* The group of tasks that save together, NULL: this process alone. */
sheaf_status sheaf__checkpoint_group(sheaf_checkpoint *c, struct sheaf__save_group **group,
                                     sheaf_error *err);
/* That, and whether this process writes now, into `how`. */
sheaf_status sheaf__checkpoint_writes(sheaf_checkpoint *c, struct sheaf__ckpt_save *how,
                                      sheaf_error *err);

#endif
