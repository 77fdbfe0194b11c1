/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_CALL_H
#define SHEAF_NET_CALL_H

/* Calls: a request to a peer, which serves it and replies.
 *
 * A request has a kind (which service), a meta part (small, copied, at most 64 MiB) and a payload
 * of any size, which is not copied: it goes from the caller's parts to where the service places it,
 * and the reply's payload from the service's parts to where the caller wants it. Requests to one
 * peer arrive in the order in which they were started; replies come in any order. Any number may be
 * outstanding. An error of the service comes back as the error of the call, origin kept. */

#include "base/buf.h"
#include "net/net.h"

/* Kinds, one table for the whole library so that they cannot clash. */
enum sheaf__call_kind {
    SHEAF__CALL_PING = 1,         /* net/: answered by every net */
    SHEAF__CALL_TEAM = 16,        /* coll/: 16..31 */
    SHEAF__CALL_CLUSTER = 32,     /* cluster/: 32..63 */
    SHEAF__CALL_PS = 64,          /* ps/: 64..127 */
    SHEAF__CALL_DISTRIBUTE = 128, /* distribute/: 128..191 */
    SHEAF__CALL_TEST = 192,       /* tests: 192..255 */
    SHEAF__CALL_KINDS = 256
};

/* ---- serving ---- */

/* A request that arrived. Belongs to the service from place() or serve() until it is answered. */
struct sheaf__call;

struct sheaf__service {
    uint32_t kind;
    /* Called when a request with payload begins, with its meta: says where the payload goes by
     * sheaf__call_place() or sheaf__call_take(); if it does not, the payload goes to memory of the
     * call. A failure refuses the request with that error. NULL: memory of the call. */
    sheaf_status (*place)(struct sheaf__call *call, void *user, sheaf_error *err);
    /* Is given a payload for which place() said so, in order and in pieces: valid for the call,
     * aligned to 8 bytes, multiples of 8 bytes but for the last. */
    void (*take)(struct sheaf__call *call, const void *data, size_t size, void *user);
    /* The request is complete. Answers it, now or later, from any thread, exactly once. */
    void (*serve)(struct sheaf__call *call, void *user);
    /* The caller was lost while the payload came in; after place() and instead of serve(). The
     * call is gone when it returns. May be NULL. */
    void (*drop)(struct sheaf__call *call, void *user);
    void *user;
    size_t payload_limit; /* refused beyond it if not placed; 0: 1 GiB */
    /* The net is freed; nothing of the service will be called after this. May be NULL. */
    void (*close)(void *user);
};
/* Before sheaf__net_start(). The struct is copied. ALREADY_EXISTS: the kind is taken. */
sheaf_status sheaf__net_serve(struct sheaf__net *net, const struct sheaf__service *service,
                              sheaf_error *err);

/* Requests of that kind whose payload is coming in right now and for which `match` is true go to
 * nowhere: the memory they were placed in is the caller's again when this returns. They are neither
 * served nor dropped. */
void sheaf__net_discard(struct sheaf__net *net, uint32_t kind,
                        bool (*match)(struct sheaf__call *call, void *arg), void *arg);

/* The `user` of the service of that kind; NULL: there is none. */
void *sheaf__net_service(struct sheaf__net *net, uint32_t kind);

/* The caller; borrowed for as long as the call. */
struct sheaf__peer *sheaf__call_peer(const struct sheaf__call *call);
/* Valid until the call is answered. */
struct sheaf__bytes sheaf__call_meta(const struct sheaf__call *call);
/* Size of the payload, and its bytes if they are in memory of the call (else NULL). */
size_t sheaf__call_payload_size(const struct sheaf__call *call);
void *sheaf__call_payload(const struct sheaf__call *call);
/* A place for the service to hang its own state on, NULL at first. */
void **sheaf__call_user(struct sheaf__call *call);
/* From place() only: the payload goes to these parts, whose sizes sum to it exactly. The array is
 * copied, the memory stays until serve() or drop(). */
sheaf_status sheaf__call_place(struct sheaf__call *call, const struct sheaf__part *parts,
                               size_t count, sheaf_error *err);
/* From place() only: the payload goes to the service's take() and nowhere else. */
void sheaf__call_take(struct sheaf__call *call);
/* True once the caller has given the call up or is lost. */
bool sheaf__call_abandoned(struct sheaf__call *call);
/* Below the net's token, and cancelled when the call is abandoned: for long work. Lives as long as
 * the call; NULL: no memory. Made at the first call. */
struct sheaf__token *sheaf__call_token(struct sheaf__call *call);

struct sheaf__reply {
    const void *meta;
    size_t meta_size;
    const struct sheaf__part *parts; /* the array is copied */
    size_t count;
    /* Called once when the memory of the parts is free again: they have left or never will. NULL:
     * what cannot leave at once is copied. */
    void (*sent)(void *user);
    void *user;
};
/* Answers. `reply` NULL: nothing but success. Never fails: if the caller is gone nobody hears it;
 * if memory ran out the caller hears that. */
void sheaf__call_reply(struct sheaf__call *call, const struct sheaf__reply *reply);
/* Answers with an error. */
void sheaf__call_fail(struct sheaf__call *call, const sheaf_error *err);

/* ---- calling ---- */

/* A request. Zero it, fill the first block, start it, finish it; it may be used again after that
 * (the memory of `reply_meta` is reused, freed by sheaf__request_clear()). */
struct sheaf__request {
    uint32_t kind;
    const void *meta; /* copied at start */
    size_t meta_size;
    const struct sheaf__part *parts; /* payload; array and memory stay until the finish */
    size_t count;
    const struct sheaf__part *into; /* where the reply's payload goes; array and memory stay until
                                       the finish. A reply that is larger is an error, a smaller
                                       one fills the first bytes */
    size_t into_count;
    /* If set, called once when the call is over (`status` is set), on the thread that drives, or
     * never in sheaf__request_start(). The request may be freed or started again in it. Then
     * sheaf__request_finish() is not called. */
    void (*done)(struct sheaf__request *request, void *user);
    void *user;

    /* Results. */
    sheaf_status status;
    sheaf_error error;            /* if status < 0 */
    struct sheaf__buf reply_meta; /* meta part of the reply */
    size_t reply_size;            /* bytes of its payload */

    /* Of net/. */
    struct sheaf__peer *peer;
    uint64_t id;
    _Atomic int state;
    struct sheaf__cond cond;
};

/* Sends it. Never waits. A failure means that it was not started: the peer is lost, or no memory.
 */
sheaf_status sheaf__request_start(struct sheaf__peer *peer, struct sheaf__request *request,
                                  sheaf_error *err);
/* Waits for the reply and returns its status. At the deadline or when the token is cancelled the
 * call is given up: the peer is told, what it replies later goes nowhere. Afterwards all memory of
 * the request is the caller's again. */
sheaf_status sheaf__request_finish(struct sheaf__request *request, const struct sheaf__wait *wait,
                                   sheaf_error *err);
/* True if sheaf__request_finish() would not wait. Drives the network a little. */
bool sheaf__request_ready(struct sheaf__request *request);
/* Gives up one that was started with `done`: done comes, now, with this cause, unless it came
 * already (or runs on another thread, then that is waited for). */
void sheaf__request_cancel(struct sheaf__request *request, const sheaf_error *cause);
/* Frees the memory of the results. */
void sheaf__request_clear(struct sheaf__request *request);

/* Start and finish in one. */
sheaf_status sheaf__call(struct sheaf__peer *peer, struct sheaf__request *request,
                         const struct sheaf__wait *wait, sheaf_error *err);

/* ---- posts: requests without an answer ---- */

struct sheaf__post {
    uint32_t kind;
    const void *meta; /* copied */
    size_t meta_size;
    const struct sheaf__part *parts; /* the array is copied */
    size_t count;
    void (*sent)(void *user); /* as in a reply */
    void *user;
    const void *owner; /* for sheaf__post_disown() */
};
/* Sends it to the service of that kind, in order with requests; the service ends the call with an
 * empty reply. Never waits. On failure `sent` is not called. */
sheaf_status sheaf__post(struct sheaf__peer *peer, const struct sheaf__post *post,
                         sheaf_error *err);
/* The memory of what `owner` has posted is not read any more when this returns: what has not begun
 * to leave never will, the rest of what has leaves from a copy. `sent` of these is not called any
 * more. */
void sheaf__post_disown(struct sheaf__peer *peer, const void *owner);

#endif
