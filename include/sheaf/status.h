/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_STATUS_H
#define SHEAF_STATUS_H

/** @file
 *  Results of calls, and what went wrong in words.
 *
 *  A NULL or a number out of range is an error of the call that gets it, never a crash; what only looks answers with
 *  nothing. Two things are the caller's: a place for a result must be there unless its function says that it may be
 *  NULL, and an object is used no more after its last count is gone. Free functions take NULL. Where a maker without
 *  a status returns NULL there was no memory, and every function that takes the object says so. Fields named
 *  `reserved` must be 0; options with others are refused.
 *
 *  Non-negative is success. Failures are grouped by the largest thing that is unusable afterwards, so that a
 *  caller knows what to rebuild without reading text: the call, a peer, the team.
 *
 *  TensorFlow's types map one to one (R0.3): ValueError, TypeError and InvalidArgument are
 *  SHEAF_ERR_INVALID_ARGUMENT; OutOfRange SHEAF_ERR_OUT_OF_RANGE; RuntimeError and FailedPrecondition
 *  SHEAF_ERR_FAILED_PRECONDITION; NotFound, DataLoss, Unimplemented (and NotImplementedError), Cancelled,
 *  Aborted, DeadlineExceeded, Unavailable and Internal the codes of the same name (S221). */

#include <sheaf/export.h>

SHEAF_BEGIN_DECLS

/** Result of a call. The numbers never change. */
typedef enum sheaf_status {
    SHEAF_OK = 0,
    SHEAF_END = 1,     /**< not an error: no element is left */
    SHEAF_PENDING = 2, /**< not an error: not ready yet */

    /* -1..-39: this call failed, everything else goes on */
    SHEAF_ERR_INVALID_ARGUMENT = -1,
    SHEAF_ERR_OUT_OF_RANGE = -2,        /**< read past the end of the data (S150) */
    SHEAF_ERR_NOT_FOUND = -3,           /**< a file, tensor, job or function does not exist */
    SHEAF_ERR_ALREADY_EXISTS = -4,      /**< a name, port or file is taken */
    SHEAF_ERR_FAILED_PRECONDITION = -5, /**< called in the wrong state or context */
    SHEAF_ERR_UNIMPLEMENTED = -6,
    SHEAF_ERR_DATA_LOSS = -7, /**< bytes disagree with their format or checksum */
    SHEAF_ERR_IO = -8,        /**< the operating system refused */
    SHEAF_ERR_PERMISSION = -9,
    SHEAF_ERR_RESOURCE_EXHAUSTED = -10, /**< memory, disk or a configured limit */
    SHEAF_ERR_CANCELLED = -11,
    SHEAF_ERR_ABORTED = -12,
    SHEAF_ERR_DEADLINE = -13, /**< waited too long */
    SHEAF_ERR_INTERNAL = -14, /**< a defect of this library */

    /* -40..-59: one peer is lost, the rest of the job is up */
    SHEAF_ERR_UNAVAILABLE = -40,     /**< the peer died, closed or fell silent */
    SHEAF_ERR_UNAUTHENTICATED = -41, /**< the peer could not prove the cluster's secret */
    /** the peer speaks another version or built other variables */
    SHEAF_ERR_INCOMPATIBLE = -42,

    /* -60..-79: the team must be rebuilt */
    SHEAF_ERR_TEAM_LOST = -60,    /**< a member is lost, collective calls cannot go on */
    SHEAF_ERR_TEAM_MISMATCH = -61 /**< members called different things */
} sheaf_status;

/** A task of the cluster. `job` is empty and `index` -1 where no task is meant. */
typedef struct sheaf_task {
    char job[20];
    int32_t index;
} sheaf_task;

/** What failed. Owned by the caller, who may pass NULL everywhere; written on failure only. 512 bytes for ever, so that
 *  it crosses processes as it is. Whom to blame is read from `status`, `origin` and `peer`, never from text. */
typedef struct sheaf_error {
    sheaf_status status; /**< as returned */
    int32_t reserved;
    sheaf_task origin; /**< where it arose; whoever passes it on keeps this */
    sheaf_task peer;   /**< whom it concerns, if another task */
    uint64_t offset;   /**< byte in `file`, or UINT64_MAX */
    uint64_t record;   /**< number of the record in `file` from 0, or UINT64_MAX */
    char file[160];    /**< file, address or empty */
    char message[280]; /**< one line: what was found, what was expected, where; no line end */
} sheaf_error;

/** Name of a status as in TensorFlow, e.g. "InvalidArgumentError"; "OK" for SHEAF_OK. Any thread. Static storage. */
SHEAF_API const char *sheaf_status_name(sheaf_status status);

/** Fills `err` (may be NULL) from a printf format and returns `status`; for a program's own functions that run inside
 *  the library. One that is given no error (step, merge, map, filter, opening, value and dataset functions, sharding callbacks,
 *  partitioners, initializers, creators of variables) calls it with NULL and returns the status, NULL if it returns an object,
 *  and anything if it cannot fail: the text comes out of the call that fails for it, before what failed in its frame. Any thread. */
SHEAF_API SHEAF_PRINTF(3, 4) sheaf_status
    sheaf_error_set(sheaf_error *err, sheaf_status status, const char *format, ...);

/** Writes "job:index: message (file F, record R, offset O)" with the parts that are known into `text` of `size` bytes,
 *  always terminated. Returns the length of the whole text, as snprintf does; 0 for NULL. */
SHEAF_API size_t sheaf_error_format(const sheaf_error *err, char *text, size_t size);

/** Writes the formatted error as one line to stderr and returns 1, the exit code for `main`: 1 for every failure; 0 if
 *  `err->status` is not negative, and then nothing is written. The only function besides the default log sink that
 *  writes anywhere by itself; the library never calls it. Before the strategies of the current context are freed it also ends
 *  this task's part in the job: the other tasks hear why, and what waits for this one there fails with the same error. */
SHEAF_API int sheaf_error_exit(const sheaf_error *err);

SHEAF_END_DECLS

#endif
