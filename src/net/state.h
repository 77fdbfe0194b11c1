/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_STATE_H
#define SHEAF_NET_STATE_H

/* Inside of net/: what its files share.
 *
 * Locks, in the order in which they may be taken: gate, drive, net->lock, peer->lock, a lane's. Who
 * holds `drive` is the driver: it alone receives, accepts, establishes and loses peers, and calls
 * handlers and events, with no other lock held. A frequent driver goes through `gate`, so that one
 * who needs `drive` once gets it. */

#include "base/array.h"
#include "base/farewell.h"
#include "base/list.h"
#include "base/object.h"
#include "net/call.h"
#include "net/handshake.h"
#include "net/lane.h"
#include "net/patience.h"
#include "net/poller.h"
#include "net/socket.h"
#include "net/ucx.h"

/* ---- peers ---- */

/* Requests that wait for their reply: found by id = number of the slot + a count that changes with
 * every use, so that a late reply finds nobody. */
struct sheaf__pending_slot {
    struct sheaf__request *request; /* NULL: free */
    uint32_t turn;
};

struct sheaf__peer {
    struct sheaf__object object;
    struct sheaf__net *net; /* counted */
    sheaf_task task;
    uint64_t incarnation;
    char address[SHEAF__ADDRESS_TEXT];
    struct sheaf__list_node node;   /* of net->peers, under net->lock and drive */
    struct sheaf__watch watch;      /* of the socket, if there is one */
    struct sheaf__watch data_watch; /* of a lane that has a descriptor besides */
    int bell; /* its pipe, if it shares memory; -1: it is woken through the connection */
    struct sheaf__lane *ctl;  /* the connection */
    struct sheaf__lane *data; /* where messages go; may be ctl */

    _Atomic int status; /* sheaf_status; 0 while it lives */
    sheaf_error cause;  /* written before the status, once */
    _Atomic int end;    /* enum sheaf__peer_end; once it is lost */

    /* Driver: signs of life. */
    bool heard;
    int64_t last_heard;
    _Atomic bool spoke; /* something was sent since the last look */

    struct sheaf__mutex lock; /* guards what follows */
    struct sheaf__pending_slot *slots;
    size_t slot_count;
    uint32_t free_hint;
    struct sheaf__list calls; /* being served */
    _Atomic bool cut_wanted;
    sheaf_error cut;
};

/* ---- nets ---- */

struct sheaf__hub {
    struct sheaf__mutex lock;
    struct sheaf__list nets; /* that listen */
    uint32_t next_port;
};

/* A connection that is not a peer yet. Driver only, but for what is under net->lock. */
struct sheaf__conn {
    struct sheaf__list_node node; /* of net->conns */
    struct sheaf__net *net;
    struct sheaf__stream *stream;
    struct sheaf__watch watch;
    struct sheaf__handshake handshake;
    bool dialer;
    bool connecting;
    bool proved; /* does not count as a stranger */
    int64_t deadline;
    char address[SHEAF__ADDRESS_TEXT];
    struct sheaf__segment segment; /* that was offered, or taken */
    struct sheaf__ucx *ucx;        /* the same */
    int bell;                      /* the other side's pipe; -1: none */
    bool finished;                 /* under net->lock: the dialing thread may look at the error */
    bool retry;
    sheaf_error error;
};

/* A thread that connects to a task, under net->lock. */
struct sheaf__dial {
    struct sheaf__list_node node;
    sheaf_task task;
};

/* What was told lately of connections that were refused (refuse.c). */
struct sheaf__refusals {
    int64_t since; /* when the first of them was */
    int told;
    char last[360];
};

struct sheaf__net {
    struct sheaf__object object;
    sheaf_context *context;
    struct sheaf__farewell farewell;
    struct sheaf__identity identity;
    struct sheaf__secret secret;
    struct sheaf__hub *hub;
    struct sheaf__poller *poller;
    struct sheaf__thread *keeper, *beater;
    struct sheaf__token *token;
    int64_t heartbeat, silence, spin;
    struct sheaf__patience waiters, keeping;
    struct sheaf__service services[SHEAF__CALL_KINDS];
    char listen_address[SHEAF__ADDRESS_TEXT]; /* as asked for; "" if none */
    char address[SHEAF__ADDRESS_TEXT];        /* real one */
    struct sheaf__list_node hub_node;

    struct sheaf__mutex gate, drive;
    _Atomic int gate_waiters;
    _Atomic uint64_t driver;     /* thread that drives, 0: none */
    _Atomic bool drives_sockets; /* and looks at the sockets, too */
    /* Under drive. */
    bool keeper_sleeps;
    int listener; /* -1: none */
    struct sheaf__watch listener_watch;
    bool listener_off; /* out of descriptors for the moment */
    struct sheaf__list conns;
    size_t strangers;                          /* connections that have proved nothing yet */
    struct sheaf__refusals refused[2];         /* of what is no task; of what says that it is one */
    struct sheaf__list dead_conns, dead_peers; /* freed at the end of the round */
    _Atomic int64_t next_timer;
    size_t sockets_with_data; /* peers whose messages come over a socket */

    struct sheaf__mutex lock; /* guards what follows */
    struct sheaf__cond changed;
    struct sheaf__cond stopped; /* for the beater */
    int sleepers;
    uint64_t changes;
    char refusal[420];        /* of the last task that was refused; "": none */
    struct sheaf__list peers; /* alive */
    struct sheaf__list dials;
    struct sheaf__list events;
    struct sheaf__list incoming;             /* of an in-process net: conns that were made for it */
    const struct sheaf__net_events *running; /* event whose function runs */
    sheaf_error given_up;                    /* status < 0: why; the goodbye says so */
    bool started, closing;
    _Atomic bool stop; /* the keeper ends */
    struct sheaf__list call_pool;
    size_t call_pool_size;
    struct sheaf__buf payloads[16]; /* large ones for the next requests */
    size_t payload_count, payload_bytes;
};

/* drive.c */
/* The keeper's thread, and that of the signs of life. */
void sheaf__drive_keep(void *net);
void sheaf__drive_beat(void *net);
/* Frees what has ended; driver. */
void sheaf__drive_free_dead(struct sheaf__net *net);
/* Takes the driver's place for one action on any thread; nested is nothing. */
struct sheaf__drive {
    bool nested;
};
struct sheaf__drive sheaf__drive_lock(struct sheaf__net *net);
void sheaf__drive_unlock(struct sheaf__net *net, struct sheaf__drive drive);
bool sheaf__drive_is_mine(struct sheaf__net *net);
/* Something changed that a thread sleeping in the net may wait for. */
void sheaf__net_changed(struct sheaf__net *net);
/* Lets the keeper do a round. */
void sheaf__net_kick(struct sheaf__net *net);
/* Before a thread sleeps on the word of a lane: what comes wakes it instead of the keeper. False: something has come, or
 * the keeper is awake, and will see what comes. */
bool sheaf__net_arm_word(struct sheaf__net *net, struct sheaf__lane *lane);
/* It does not sleep after all: what comes wakes the keeper again. */
void sheaf__net_rearm(struct sheaf__net *net);
/* One round, if nobody drives. */
void sheaf__net_poll(struct sheaf__net *net);
/* Drives for a short time, until ready(user) or nothing has come for as long as a waiter spins. */
void sheaf__net_spin(struct sheaf__net *net, bool (*ready)(void *user), void *user);

/* refuse.c; driver. An accepted conn has failed. */
void sheaf__refuse_tell(struct sheaf__conn *conn, const sheaf_error *error);

/* accept.c; driver */
sheaf_status sheaf__accept_open(struct sheaf__net *net, sheaf_error *err);
void sheaf__accept_close(struct sheaf__net *net);
void sheaf__accept_timer(struct sheaf__net *net);
/* In-process: connects to who listens at the address (any thread), and takes such connections. */
sheaf_status sheaf__accept_connect(struct sheaf__net *net, const char *address,
                                   struct sheaf__stream **stream, sheaf_error *err);
void sheaf__accept_incoming(struct sheaf__net *net);

/* conn.c; driver */
struct sheaf__conn *sheaf__conn_new(struct sheaf__net *net);
/* Puts an accepted conn into the net. */
void sheaf__conn_admit(struct sheaf__conn *conn);
void sheaf__conn_free(struct sheaf__conn *conn);
/* Takes the conn out of the net and ends it with an error. */
void sheaf__conn_fail(struct sheaf__conn *conn, bool retry, const sheaf_error *error);
bool sheaf__conn_progress_all(struct sheaf__net *net);
bool sheaf__conn_arm_all(struct sheaf__net *net);
void sheaf__conn_timers(struct sheaf__net *net, int64_t now);
void sheaf__conn_close_all(struct sheaf__net *net);
/* Any thread: starts a connection with the `attempt`-th address of the name, which has `*count`; it
 * belongs to the thread, which drops it, whatever has become of it, and frees it then. */
sheaf_status sheaf__conn_dial(struct sheaf__net *net, const sheaf_task *task, const char *address,
                              unsigned attempt, unsigned *count, struct sheaf__conn **conn,
                              sheaf_error *err);
void sheaf__conn_drop(struct sheaf__conn *conn);

/* peer.c; driver */
/* Makes the conn a peer and frees it. On failure the conn stays. */
sheaf_status sheaf__peer_establish(struct sheaf__conn *conn, sheaf_error *err);
bool sheaf__peer_progress(struct sheaf__peer *peer);
void sheaf__peer_timers(struct sheaf__peer *peer, int64_t now, bool stalled);
void sheaf__peer_beat(struct sheaf__peer *peer); /* any thread */
void sheaf__peer_lose(struct sheaf__peer *peer, const sheaf_error *cause, enum sheaf__peer_end end);
bool sheaf__peer_arm(struct sheaf__peer *peer);
void sheaf__peer_disarm(struct sheaf__peer *peer);
/* Any thread. */
sheaf_status sheaf__peer_post(struct sheaf__peer *peer, struct sheaf__message *message,
                              sheaf_error *err);
struct sheaf__peer *sheaf__peer_find_locked(struct sheaf__net *net, const sheaf_task *task);
bool sheaf__task_equal(const sheaf_task *a, const sheaf_task *b);

/* serve.c: requests that come in; driver */
void sheaf__serve_begin(struct sheaf__peer *peer, struct sheaf__incoming *in);
void sheaf__serve_end(struct sheaf__incoming *in);
void sheaf__serve_broken(struct sheaf__incoming *in);
void sheaf__serve_cancel(struct sheaf__peer *peer, uint64_t id);
void sheaf__serve_lost(struct sheaf__peer *peer);
void sheaf__serve_free_pool(struct sheaf__net *net);

/* call.c: replies that come in; driver */
void sheaf__reply_begin(struct sheaf__peer *peer, struct sheaf__incoming *in);
void sheaf__reply_end(struct sheaf__peer *peer, struct sheaf__incoming *in);
void sheaf__reply_lost(struct sheaf__peer *peer);

#endif
