/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_PROTO_H
#define SHEAF_PS_PROTO_H

/* What workers and parameter servers say to each other: kinds of calls, and their meta parts. A
 * variable is its number: the n-th that the program made, the same in every process. Everything
 * that arrives is checked before it is used. */

#include "ckpt/group.h"
#include "net/call.h"
#include "optim/rule.h"

enum sheaf__ps_kind {
    SHEAF__PS_CREATE =
        SHEAF__CALL_PS, /* definition, and the chief's first value -> when it is initialised */
    SHEAF__PS_SLOT,     /* makes a slot of a variable */
    SHEAF__PS_PULL,     /* numbers -> values and versions */
    SHEAF__PS_PUSH,     /* updates -> applied */
    SHEAF__PS_LOOKUP,   /* numbers and counts, ids of each -> rows of each */
    SHEAF__PS_FETCH,    /* variable and slot -> value */
    SHEAF__PS_PROVE,    /* file and token -> found */
    SHEAF__PS_CUT,      /* number, shards -> held as they are now, note */
    SHEAF__PS_WRITE,    /* number of a cut -> written */
    SHEAF__PS_DROP,     /* number of a cut that is not written; a post */
    SHEAF__PS_READ,     /* shard -> read and held back, checksums of parts of tensors */
    SHEAF__PS_SETTLE,   /* takes or drops what is held back */
    SHEAF__PS_RESTORED, /* number; the chief has restored this path, or nothing */
    SHEAF__PS_AWAIT, /* number, life of the chief -> its life, path; when it has restored so often */
    SHEAF__PS_MARK,  /* -> what this worker last said of itself, or is said to have by a restore */
    SHEAF__PS_DONE,  /* patience with workers that never came; this one has done its part */
    SHEAF__PS_JOIN,  /* that, -> when it may leave (server_wait.c) */
    SHEAF__PS_WRITER, /* -> whether this worker saves (a byte) */
    SHEAF__PS_CLAIM, /* prefix of checkpoints -> the directory is the job's; the last number given */
    SHEAF__PS_NUMBER, /* least number, prefix -> number of the next checkpoint */
    SHEAF__PS_LEAVE,  /* -> this worker may make visible what it has saved */
    SHEAF__PS_WATCH,  /* -> when the job is asked to stop */
    SHEAF__PS_STOP    /* it is; a post */
};

/* Slot 0 of a variable is its value, 1.. are the optimizer's. */
#define SHEAF__PS_HANDLE(variable, slot) ((uint64_t)(variable) << 8 | (uint64_t)(slot))

/* More variables, and parts of them, than any program makes: what is beyond is no number. */
enum { SHEAF__PS_MOST_VARIABLES = 1 << 22 };

/* A variable, or a part of one, as every process must define it. */
struct sheaf__ps_definition {
    uint32_t variable;
    sheaf_dtype dtype;
    sheaf_shape full;  /* of the whole */
    sheaf_shape shape; /* of the part that this ps holds */
    int64_t first_row; /* of the part */
    bool initialises;  /* the payload is the first value, if there is none yet */
    const char *name;  /* in what was decoded: with a length, no terminating zero */
    size_t name_size;
};
void sheaf__ps_put_definition(struct sheaf__buf *buf, const struct sheaf__ps_definition *d);
sheaf_status sheaf__ps_get_definition(struct sheaf__bytes meta, struct sheaf__ps_definition *d,
                                      sheaf_error *err);

/* Pushes: a head with a sequence number, hyperparameters, updates; the payload is the updates' data one after
 * the other, each filled up to sheaf__ps_room(). */
enum sheaf__ps_update_kind {
    SHEAF__PS_GRADIENT = 1, /* dense, by a rule */
    SHEAF__PS_ROWS,         /* `count` ids (int64) of rows of the part, then rows, by a rule */
    SHEAF__PS_ASSIGN,
    SHEAF__PS_ADD,
    SHEAF__PS_SUB
};
struct sheaf__ps_update {
    uint32_t variable;
    uint16_t kind;
    uint16_t hyper;   /* which of the push's, for gradients */
    uint64_t count;   /* of ids */
    uint64_t bytes;   /* of data */
    uint64_t version; /* of the value it was computed from */
};
_Static_assert(sizeof(struct sheaf__ps_update) == 32, "travels as it is");

/* Bytes that data take in a payload, so that what follows them is aligned for every dtype. */
static inline uint64_t sheaf__ps_room(uint64_t bytes)
{
    return bytes + (-bytes & 7);
}

struct sheaf__ps_push {
    uint64_t sequence; /* of this worker, from 1; one that is not newer than the last is
                          acknowledged, not applied */
    uint32_t hypers, updates;
    uint32_t again; /* 1: the server has asked for it once more */
    uint32_t mark;  /* bytes after the updates: the worker's place in the input (server_mark.c) */
};
_Static_assert(sizeof(struct sheaf__ps_push) == 24, "travels as it is");

/* The reply to a push is empty, or SHEAF__PS_AGAIN: nothing of it is applied, it is to be pushed
 * again with that mark. A server that computes a push while its data come in says so when another
 * one has come in the meantime; one with the mark it takes in whole first. */
enum { SHEAF__PS_AGAIN = 1 };

/* Views into `meta`, checked: counts, kinds, hyperparameters; the updates' room is `payload`. */
struct sheaf__ps_push_view {
    struct sheaf__ps_push head;
    const uint8_t *hypers, *updates, *mark;
};
sheaf_status sheaf__ps_get_push(struct sheaf__bytes meta, uint64_t payload,
                                struct sheaf__ps_push_view *view, sheaf_error *err);
struct sheaf__hyper sheaf__ps_push_hyper(const struct sheaf__ps_push_view *v, uint32_t i);
struct sheaf__ps_update sheaf__ps_push_update(const struct sheaf__ps_push_view *v, uint32_t i);

/* Shards of a save or restore. Texts of what was decoded belong to the frame. */
void sheaf__ps_put_shard(struct sheaf__buf *buf, const struct sheaf__shard *shard,
                         const char *note);
sheaf_status sheaf__ps_get_shard(struct sheaf__cursor *c, struct sheaf__shard *shard,
                                 const char **note, sheaf_error *err);

/* "a message of kind K from T is malformed". */
sheaf_status sheaf__ps_malformed(const char *what, sheaf_error *err);

#endif
