/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_LANE_H
#define SHEAF_NET_LANE_H

/* A lane carries whole messages to a peer in order. Here are the lanes that run over a stream;
 * net/ucx.c has the others. Sending never waits: what has no room is queued and leaves when the
 * network is driven. */

#include "base/buf.h"
#include "net/frame.h"
#include "net/stream.h"

/* Where the payload of the message that comes in goes: into memory, or to a function. */
struct sheaf__sink {
    const struct sheaf__part *parts;
    size_t count;
    size_t part, offset; /* how far it is */
    /* If set: is given the payload in order and in pieces, from memory that is valid for the call.
     * They are aligned to 8 bytes and, but for the last, multiples of 8 bytes. */
    void (*take)(void *user, const void *data, size_t size);
    void *user;
    bool discard; /* nowhere */
};

/* A message that comes in; the lane fills it, the receiver uses it. */
struct sheaf__incoming {
    struct sheaf__frame frame;
    struct sheaf__buf meta;
    struct sheaf__sink sink;
    uint64_t left; /* bytes of the payload that are still to come */
    bool takes;    /* the lane's: it can serve a sink's take() */
    /* What the receiver made of it. */
    struct sheaf__call *call;
    struct sheaf__request *request;
};

/* Who receives. On the thread that drives. */
struct sheaf__receiver {
    /* Frame and meta are in: sets the sink. */
    void (*begin)(void *user, struct sheaf__incoming *in);
    /* The payload is in, too. A failure ends the session. */
    sheaf_status (*end)(void *user, struct sheaf__incoming *in, sheaf_error *err);
    void *user;
};

/* A message to send. */
struct sheaf__message {
    struct sheaf__frame frame; /* sizes are filled in by the lane */
    const void *meta;
    const struct sheaf__part *parts;
    size_t count;
    bool copy;                /* the parts do not outlive the call */
    void (*sent)(void *user); /* the parts are free again; NULL: nobody asks */
    void *user;
    const void *owner; /* for sheaf__lane_disown() */
};

struct sheaf__lane;
struct sheaf__lane_ops {
    sheaf_status (*post)(struct sheaf__lane *lane, struct sheaf__message *message,
                         sheaf_error *err);
    /* Receives and sends what can be now; sets *worked if anything moved. A failure ends the
     * session: END if the other side closed. */
    sheaf_status (*progress)(struct sheaf__lane *lane, bool *worked, sheaf_error *err);
    /* Before sleeping: what comes or has room rings; false: there is something to do already. */
    bool (*arm)(struct sheaf__lane *lane);
    void (*disarm)(struct sheaf__lane *lane);
    /* As those of a stream; word NULL: there is none. */
    bool (*arm_word)(struct sheaf__lane *lane);
    _Atomic uint32_t *(*word)(struct sheaf__lane *lane);
    /* The driver's: the memory of the sink is not written any more from now on, the rest of the
     * payload goes nowhere. The memory of what the owner sends is not read any more, and its `sent`
     * does not come. False: that was possible only by ending; the session must end, too. */
    bool (*discard)(struct sheaf__lane *lane);
    bool (*disown)(struct sheaf__lane *lane, const void *owner);
    /* True if all that was posted has left. */
    bool (*idle)(struct sheaf__lane *lane);
    /* Nothing is sent or received any more; every `sent` that is due comes now. */
    void (*stop)(struct sheaf__lane *lane);
    void (*free)(struct sheaf__lane *lane); /* after stop */
};

struct sheaf__lane {
    const struct sheaf__lane_ops *ops;
    const char *name;
    int fd; /* to be watched besides; -1: none */
    struct sheaf__incoming in;
};

/* Over a stream, which it takes over and frees. `blocked` is called when a message had to be queued
 * (with a lock of the lane held), and when a write failed. NULL: no memory, the stream stays. */
struct sheaf__lane *sheaf__lane_of_stream(struct sheaf__stream *stream,
                                          const struct sheaf__receiver *receiver,
                                          void (*blocked)(void *user), void *user);
struct sheaf__stream *sheaf__lane_stream(struct sheaf__lane *lane);

#endif
