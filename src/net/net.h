/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_NET_H
#define SHEAF_NET_NET_H

/* One task's end of the network: its address, its peers, their life and death. What travels
 * between peers is in net/call.h (requests and replies) and net/tag.h (tagged buffers).
 *
 * A net admits a peer only after both have proved the secret and agree on version, run and tables;
 * nothing a stranger sends has any effect. A peer is one session with one incarnation of a task:
 * once lost it stays lost, and connecting again gives a new one. Where both are on one machine,
 * bytes travel through shared memory, else through the connection itself (or UCX, if asked).
 *
 * Progress: a thread that waits drives the network itself for SHEAF_SPIN_US and sleeps then; the
 * net's keeper thread drives whenever nobody else does and notices silence; another sends signs of
 * life. Handlers and event functions run on whichever thread drives, one at a time, without any
 * lock of the net held: they may start sends and calls but must be short and must not wait. Who
 * waits in the net must hold no lock that a handler takes. */

#include "base/digest.h"
#include "base/wait.h"
#include "net/secret.h"

struct sheaf__net;
struct sheaf__peer;

/* Memory to send from or to receive into. */
struct sheaf__part {
    void *data;
    size_t size;
};

#define SHEAF__ADDRESS_TEXT 288 /* "[host]:port" with the longest name */

/* ---- in-process networks: N tasks in one process, for tests ---- */

/* Where nets of one process find each other by address, instead of sockets. */
struct sheaf__hub;
sheaf_status sheaf__hub_new(struct sheaf__hub **hub, sheaf_error *err);
/* After every net on it. NULL is nothing. */
void sheaf__hub_free(struct sheaf__hub *hub);
/* Nets that are made under `context` from now on use the hub (NULL: sockets). Borrowed. */
sheaf_status sheaf__net_set_hub(sheaf_context *context, struct sheaf__hub *hub, sheaf_error *err);

/* ---- a task's net ---- */

struct sheaf__net_options {
    sheaf_task task;     /* who we are */
    const char *address; /* "host:port": listens there and nowhere else, before sheaf__net_start()
                            returns; port 0: any free one (tests); NULL: accepts nobody */
    bool loopback;       /* all tasks of the cluster are on loopback addresses */
    const struct sheaf__secret *secret; /* copied; NULL: sheaf__secret_find(loopback) */
    const char *run_id;                 /* NULL: SHEAF_RUN_ID */
    uint64_t incarnation;               /* 0: a random one */
    int64_t heartbeat;                  /* ns between signs of life; 0: SHEAF_HEARTBEAT_MS */
    int64_t silence; /* ns after which a silent peer is lost; 0: 3.5 heartbeats */
};

/* Makes a net that does nothing yet: register services, events and digests, then start it. Takes
 * the transport from SHEAF_TRANSPORT. */
sheaf_status sheaf__net_new(const struct sheaf__net_options *options, struct sheaf__net **net,
                            sheaf_error *err);
/* Listens and starts the keeper. ALREADY_EXISTS: the port is taken; the error names the address, its
 * origin is the task. */
sheaf_status sheaf__net_start(struct sheaf__net *net, sheaf_error *err);
/* This task gives up because of `cause`, a peer that was lost: its goodbye will say so, and whoever hears it finds that
 * cause in place of this task's leaving. The first one counts; NULL: it goes on after all. Any thread. */
void sheaf__net_give_up(struct sheaf__net *net, const sheaf_error *cause);
/* Says goodbye to all peers, after what was sent before has left (at most `deadline`), and closes;
 * with a negative deadline it closes without a word, as a task does that dies.
 * Nobody may call or wait on the net any more. Calls that are still being served (net/call.h) may
 * be answered afterwards, into nothing. NULL is nothing. */
void sheaf__net_free(struct sheaf__net *net, int64_t deadline);

/* Text of the address it listens on, with the real port; NULL if it does not. */
const char *sheaf__net_address(const struct sheaf__net *net);
sheaf_task sheaf__net_task(const struct sheaf__net *net);
uint64_t sheaf__net_incarnation(const struct sheaf__net *net);

/* A number that is equal in nets whose processes can and may share memory (net/segment.h); 0: this one
 * shares with nobody. */
uint64_t sheaf__net_shared_host(const struct sheaf__net *net);

/* A table of this program that must be equal in peers that have one of that name, e.g. "functions".
 * Proved in the handshake; a peer whose table differs is refused with INCOMPATIBLE, which names the
 * table. Before start. `name` at most 31 bytes, at most 8 tables. */
sheaf_status sheaf__net_set_digest(struct sheaf__net *net, const char *name,
                                   const uint8_t digest[SHEAF__SHA256_SIZE], sheaf_error *err);

/* ---- peers ---- */

/* Connects to `task` at `address` and returns the peer with a count, at once if there is one that
 * is alive. Tries until wait->deadline while nobody listens there. UNAVAILABLE: nobody came up;
 * UNAUTHENTICATED: other secret; INCOMPATIBLE: other version, run or table, or another task
 * answers there. Both ends may call it at the same time: they get one session. */
sheaf_status sheaf__net_connect(struct sheaf__net *net, const sheaf_task *task, const char *address,
                                const struct sheaf__wait *wait, struct sheaf__peer **peer,
                                sheaf_error *err);
/* Waits until `task` has connected to us and returns the peer with a count. */
sheaf_status sheaf__net_await(struct sheaf__net *net, const sheaf_task *task,
                              const struct sheaf__wait *wait, struct sheaf__peer **peer,
                              sheaf_error *err);
/* The last task whose connection was refused, and why, as text; false: none was. */
bool sheaf__net_refusal(struct sheaf__net *net, char *text, size_t size);
/* The live session with `task` with a count, or NULL. */
struct sheaf__peer *sheaf__net_find(struct sheaf__net *net, const sheaf_task *task);

struct sheaf__peer *sheaf__peer_ref(struct sheaf__peer *peer);
void sheaf__peer_unref(struct sheaf__peer *peer);

sheaf_task sheaf__peer_task(const struct sheaf__peer *peer);
uint64_t sheaf__peer_incarnation(const struct sheaf__peer *peer);
struct sheaf__net *sheaf__peer_net(const struct sheaf__peer *peer);
/* Where it listens, as its cluster says; if nowhere, where its connection comes from. */
const char *sheaf__peer_address(const struct sheaf__peer *peer);
/* "inproc", "shm", "tcp" or "ucx": how bytes travel to it. */
const char *sheaf__peer_transport(const struct sheaf__peer *peer);
/* SHEAF_OK, or UNAVAILABLE once it is lost or has left, with the cause: if it gave up, its own, which names another peer. */
sheaf_status sheaf__peer_status(struct sheaf__peer *peer, sheaf_error *err);
/* How a session that is over has ended. After a goodbye of either kind, all that the peer had sent before it is here. */
enum sheaf__peer_end {
    SHEAF__PEER_LOST,    /* without a word */
    SHEAF__PEER_GAVE_UP, /* because of another peer, which its goodbye names */
    SHEAF__PEER_LEFT     /* in order */
};
enum sheaf__peer_end sheaf__peer_end(struct sheaf__peer *peer);
/* Cuts the session: lost on both sides, here with `cause`. */
void sheaf__peer_cut(struct sheaf__peer *peer, const sheaf_error *cause);

/* ---- events ---- */

/* Told of every session that begins and ends. `down` comes exactly once for every `up`; `cause` is
 * that of sheaf__peer_status(). */
struct sheaf__net_events {
    void (*up)(struct sheaf__peer *peer, void *user);                             /* may be NULL */
    void (*down)(struct sheaf__peer *peer, const sheaf_error *cause, void *user); /* may be NULL */
    void *user;
    struct sheaf__list_node node;
};
/* The struct is the caller's. Sessions that are alive already are not told of again. Neither call
 * from within such a function. */
void sheaf__net_listen(struct sheaf__net *net, struct sheaf__net_events *events);
/* Afterwards no function of it runs or will. */
void sheaf__net_unlisten(struct sheaf__net *net, struct sheaf__net_events *events);

/* ---- waiting ---- */

/* Waits until `ready(user)` is true, driving the network meanwhile: for whoever waits for what a
 * handler or an event brings about. Whoever makes it true calls sheaf__net_wake() afterwards.
 * `ready` is called often, from this thread, and must be cheap. */
sheaf_status sheaf__net_wait(struct sheaf__net *net, bool (*ready)(void *user), void *user,
                             const struct sheaf__wait *wait, sheaf_error *err);
void sheaf__net_wake(struct sheaf__net *net);

#endif
