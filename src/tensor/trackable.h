/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_TRACKABLE_H
#define SHEAF_TENSOR_TRACKABLE_H

/** @file
 *  What a checkpoint can walk: children by name, tensors to save, tensors to accept. Variables,
 * optimizers, iterators and random state implement it; ckpt/ walks it and knows none of them. */

#include <sheaf/tensor.h>
#include <sheaf/variable.h>

/** The tasks that hold tensors of a checkpoint together; defined by ckpt/group.h. */
struct sheaf__save_group;

/** One tensor, or one slice of a tensor, that an object saves. Texts live as long as the object. */
struct sheaf__saveable {
    const char *attribute; /**< "VARIABLE_VALUE" */
    const char *full_name; /**< name in the object graph, "dense/kernel" */
    sheaf_dtype dtype;
    sheaf_shape shape; /**< of this slice */
    sheaf_shape full;  /**< of the whole tensor; equal to `shape` when it is saved whole */
    int64_t offset[SHEAF_MAX_RANK];  /**< of this slice in it */
    const char *device;              /**< full name; its task is the one that writes */
    struct sheaf__save_group *group; /**< NULL: this process alone */
    uint64_t handle;                 /**< the group's number for it, if another task holds it */
    bool together;                   /**< every task of the group has a share: all call `read` */
};

/** Slot variable of an optimizer: `slot` ("m") of `variable`. */
struct sheaf__slot_ref {
    const char *slot;
    sheaf_trackable *variable;
    sheaf_trackable *value;
};

/** What it means that a file is without something. */
enum sheaf__lack { SHEAF__LACK_FAILS, SHEAF__LACK_TOLD, SHEAF__LACK_FINE };

/** Where a file of another layout has the value of something below an object. Texts live as long as
 * the frame. */
struct sheaf__elsewhere {
    sheaf_trackable *value; /**< takes it; need be nobody's child. NULL: there is no such place */
    sheaf_trackable *variable; /**< it is the slot `name` of this variable; NULL: a child */
    const char *name;          /**< "m"; "iter", "_variables/0" */
    const char *key;           /**< in a file without objects; NULL: not there */
    const char *with;          /**< such a file's object has this child; NULL: any has */
    const char *without;       /**< such a file's object does not have this child */
    sheaf_trackable *instead;  /**< is not missed where this is found; or NULL */
    enum sheaf__lack lack;     /**< if no place has it */
};

/** Who gives values to the children of an object that has none yet. */
struct sheaf__trackable_watch {
    /** It has them now, and nobody has used them: they may be given values. */
    sheaf_status (*grown)(struct sheaf__trackable_watch *w, sheaf_error *err);
    /** There is nothing more to watch: they have their values, it is freed, or another watches. */
    void (*gone)(struct sheaf__trackable_watch *w);
};

struct sheaf__trackable_class {
    /** What all the children make up, "optimizer", if a file that has others than these is of
     * another one: a restore says so. NULL: children are independent. */
    const char *whole;
    /** Child `i` and the name of the edge to it; false past the last. May be NULL. */
    bool (*child)(sheaf_trackable *t, size_t i, const char **name, sheaf_trackable **child);
    /** Tensor `i`; slices of one tensor share their attribute. False past the last. May be NULL. */
    bool (*saveable)(sheaf_trackable *t, size_t i, struct sheaf__saveable *out);
    /** Slot variable `i`; false past the last. May be NULL. */
    bool (*slot)(sheaf_trackable *t, size_t i, struct sheaf__slot_ref *out);
    /** Other place `i` of a value, for files that do not have all children; of several for one value the
     * first that is there counts. False past the last. May be NULL. */
    bool (*elsewhere)(sheaf_trackable *t, size_t i, struct sheaf__elsewhere *out);
    /** Value of saveable `i` that this process holds, in the frame. */
    sheaf_tensor *(*read)(sheaf_trackable *t, size_t i);
    /** Takes a restored value for saveable `i` that this process holds. */
    sheaf_status (*write)(sheaf_trackable *t, size_t i, sheaf_tensor *value, sheaf_error *err);

    /** Of one whose children come later, all at once (an optimizer's, when it is bound): from now on
     * `w` watches (NULL: nobody), whom it tells of every end but this. False: they are there. */
    bool (*watch)(sheaf_trackable *t, struct sheaf__trackable_watch *w);
    /** What is wrong with the object itself, which is then the fault of no checkpoint. May be NULL. */
    sheaf_status (*check)(const sheaf_trackable *t, sheaf_error *err);

    /* An object that TensorFlow knows no kind of has these and `check`, nothing else. It is no node of the
     * object graph; its bytes are kept beside the checkpoint, by the task that writes it. */

    /** The tasks that each have one of it, which the writer's stands for. NULL: this process alone. */
    struct sheaf__save_group *(*group)(const sheaf_trackable *t);
    /** The object as bytes, in the frame. */
    sheaf_status (*save)(sheaf_trackable *t, sheaf_bytes *bytes, sheaf_error *err);
    /** Checks bytes that are being restored and keeps what they say, apart. NULL: the checkpoint has
     * none for it. */
    sheaf_status (*accept)(sheaf_trackable *t, const sheaf_bytes *bytes, sheaf_error *err);
    /** After every object has accepted: takes what it kept, or forgets it. */
    void (*settle)(sheaf_trackable *t, bool take);
};

struct sheaf_trackable {
    const struct sheaf__trackable_class *cls;
    void *object; /**< the object that implements it */
};

#endif
