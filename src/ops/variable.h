/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_VARIABLE_H
#define SHEAF_OPS_VARIABLE_H

/** @file
 *  The variable interface, and plain variables.
 *
 *  ps/ and distribute/ implement the interface for theirs; tape, layers and public calls use it. A
 * read is a snapshot: a write that finds readers writes into another (pooled) buffer instead. */

#include "base/object.h"
#include "tensor/trackable.h"

enum sheaf__assign_op { SHEAF__ASSIGN, SHEAF__ASSIGN_ADD, SHEAF__ASSIGN_SUB };

struct sheaf__variable_class {
    const char *container; /**< "MirroredVariable" when printed (P5.4); NULL: plain */
    /** The value as the calling thread's mode says, in the frame. */
    sheaf_tensor *(*read)(sheaf_variable *v);
    /** Rows `ids`, without leaving a reader of the rest. NULL: gathered from `read`. */
    sheaf_tensor *(*lookup)(sheaf_variable *v, sheaf_tensor *ids);
    sheaf_status (*assign)(sheaf_variable *v, enum sheaf__assign_op op, sheaf_tensor *value,
                           sheaf_error *err);
    /** Copies in this process and copy `i`; NULL: one, itself. */
    int (*copies)(const sheaf_variable *v);
    sheaf_variable *(*copy)(sheaf_variable *v, int i);
    /** Parts over tasks and the device of part `i`; NULL: one. */
    int (*parts)(const sheaf_variable *v);
    const char *(*part_device)(const sheaf_variable *v, int i);
    /** Trackable of the optimizer's slot `slot`, made at first use and filled with `fill`; lives as
     * long as the variable. NULL without memory. The member is NULL for plain ones:
     * sheaf__variable_slot_track(). */
    sheaf_trackable *(*slot)(sheaf_variable *v, const char *slot, double fill);
    void (*destroy)(sheaf_variable *v);
};

/** Head of every variable; implementations put it first in their own struct. */
struct sheaf_variable {
    struct sheaf__object object; /**< counted */
    const struct sheaf__variable_class *cls;
    sheaf_trackable trackable; /**< its class is set by the implementation */
    char *name;
    sheaf_dtype dtype;
    sheaf_shape shape;
    bool trainable;
    sheaf_synchronization synchronization;
    sheaf_aggregation aggregation;
    struct sheaf_strategy *strategy; /**< that made it; NULL: none (R4.10) */
    const char *device;              /**< full name, lives as long as the variable */
    sheaf_error latched;             /**< error of its creation; status 0: none */
    uint32_t order;                  /**< creation number in its context: gradients follow it */
    uint32_t number;                 /**< among those of its strategy, the same on all workers */
};

/** The interface's calls, which check arguments and the latched error, count unscoped reads and
 * record on tapes. */
sheaf_tensor *sheaf__variable_read(sheaf_variable *v);

/** Creation: the innermost creator of the calling thread, public hooks and strategies' alike, gets
 * the request first; without any a plain variable is made. Strategies push theirs with
 * sheaf_creator_scope_enter(). */
sheaf_variable *sheaf__variable_plain(const sheaf_variable_request *request, const char *device);
/** What stands for one where there was no memory to make it. */
sheaf_variable *sheaf__variable_lost(void);
/** For implementations: fills the head of a zeroed variable from a request (name copied, options,
 * creation number), with one count. `trackable`, `strategy` and `device` are the caller's to set.
 */
void sheaf__variable_init_head(sheaf_variable *v, const struct sheaf__variable_class *cls,
                               const sheaf_variable_request *request);
/** Value of a request: its initial tensor, or rows [first, first + rows) of it made by its
 * initializer; rows -1: all. */
sheaf_tensor *sheaf__variable_initial(const sheaf_variable_request *request, int64_t first_row,
                                      int64_t rows);

/** A plain variable's value for an update: `*from` what it is now, `*to` where the new value goes
 * (the same memory if nobody reads it); then commit. Between the two nobody else writes: the lock
 * is the variable's. */
void *sheaf__variable_update_begin(sheaf_variable *v, const void **from);
void sheaf__variable_update_commit(sheaf_variable *v);
/** Gives the new value up instead; only where `*to` was other memory. */
void sheaf__variable_update_abort(sheaf_variable *v);

/** For the trackables of variables, whose object is the variable. */
sheaf_status sheaf__variable_check(const sheaf_trackable *t, sheaf_error *err);

/** Slots of a plain variable, kept beside it: buffer of `slot` ("m"), made with `fill` at first
 * use; same dtype and shape. The k-th slot in order of creation for checkpoints. */
void *sheaf__variable_slot(sheaf_variable *v, const char *slot, double fill);
size_t sheaf__variable_slots(const sheaf_variable *v);
const char *sheaf__variable_slot_name(const sheaf_variable *v, size_t k);
/** Slot `k` as a trackable with one VARIABLE_VALUE. */
sheaf_trackable *sheaf__variable_slot_trackable(sheaf_variable *v, size_t k);
/** Trackable of slot `slot` of any variable, made at first use: the class's, or the plain one's. */
sheaf_trackable *sheaf__variable_slot_track(sheaf_variable *v, const char *slot, double fill);

#endif
