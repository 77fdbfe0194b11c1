/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_HANDSHAKE_H
#define SHEAF_NET_HANDSHAKE_H

/* How two tasks come to trust each other: messages in, messages out, no sockets.
 *
 *     dialer                                    listener
 *     HELLO  version, nonce, who I am, run  ->
 *                                           <-  CHALLENGE  nonce
 *     PROOF  whom I want, tables, host,     ->             the stranger shows first that it knows
 *            where I listen, MAC
 *                                           <-  WELCOME  who I am, tables, offer, MAC
 *                                               or REFUSE  why
 *     READY  which transport, MAC           ->
 *
 * Every MAC is HMAC-SHA256 with the secret over a label and all bytes exchanged so far, so nothing
 * can be replayed, reflected or changed. Before a correct PROOF the listener keeps at most
 * SHEAF__HANDSHAKE_MOST bytes of a connection and does nothing on its behalf. */

#include "base/buf.h"
#include "net/net.h"
#include "net/segment.h"

#define SHEAF__NET_VERSION     1
#define SHEAF__HANDSHAKE_MOST  8192 /* bytes of one message, its head included */
#define SHEAF__RUN_ID_MAX      64
#define SHEAF__TABLES_MAX      8
#define SHEAF__UCX_ADDRESS_MAX 4096

struct sheaf__table {
    char name[32];
    uint8_t digest[SHEAF__SHA256_SIZE];
};

/* What a task says of itself. */
struct sheaf__identity {
    sheaf_task task;
    uint64_t incarnation;
    char run_id[SHEAF__RUN_ID_MAX + 1];
    struct sheaf__table tables[SHEAF__TABLES_MAX];
    size_t table_count;
    uint64_t host;                     /* sheaf__segment_host() */
    uint32_t transports;               /* bits 1 << enum sheaf__lane_kind that it can do */
    char address[SHEAF__ADDRESS_TEXT]; /* where it listens, as a dialer says; "": nowhere */
};

/* How bytes travel after the handshake. FAR is never offered: it says that UCX may go between machines. */
enum sheaf__lane_kind { SHEAF__LANE_SAME, SHEAF__LANE_SHM, SHEAF__LANE_UCX, SHEAF__LANE_FAR };

struct sheaf__offer {
    uint8_t lane;
    struct sheaf__segment_ticket ticket; /* of SHM */
    int64_t bell_pid;                    /* of who says this: the pipe that wakes it; 0: none */
    int32_t bell_fd;
    uint8_t ucx[SHEAF__UCX_ADDRESS_MAX];
    size_t ucx_size;
};

enum sheaf__handshake_state {
    SHEAF__HANDSHAKE_HELLO,     /* listener waits for it */
    SHEAF__HANDSHAKE_CHALLENGE, /* dialer waits for it */
    SHEAF__HANDSHAKE_PROOF,
    SHEAF__HANDSHAKE_PROVED, /* the listener's user decides: welcome or refuse */
    SHEAF__HANDSHAKE_WELCOME,
    SHEAF__HANDSHAKE_WELCOMED, /* the dialer's user decides: ready */
    SHEAF__HANDSHAKE_READY,
    SHEAF__HANDSHAKE_DONE,
    SHEAF__HANDSHAKE_FAILED
};

struct sheaf__handshake {
    enum sheaf__handshake_state state;
    const struct sheaf__identity *self;
    const struct sheaf__secret *secret;
    sheaf_task wanted; /* whom the dialer wants */
    struct sheaf__identity peer;
    struct sheaf__offer offer;
    struct sheaf__buf transcript;
    struct sheaf__buf in;
    struct sheaf__buf out; /* to be sent; the user clears it */
    bool retry;            /* failed for a reason that may pass */
    sheaf_error error;
};

/* `wanted` NULL: the listener's side. Both pointers are borrowed. The dialer's HELLO is in `out`.
 */
sheaf_status sheaf__handshake_init(struct sheaf__handshake *h, const struct sheaf__identity *self,
                                   const struct sheaf__secret *secret, const sheaf_task *wanted,
                                   sheaf_error *err);
void sheaf__handshake_clear(struct sheaf__handshake *h);

/* Where to read to, and at most how many bytes. NULL: nothing more is wanted (or no memory; then
 * the state is FAILED). */
uint8_t *sheaf__handshake_room(struct sheaf__handshake *h, size_t *size);
/* So many bytes were read there. SHEAF_PENDING: go on; SHEAF_OK: PROVED, WELCOMED or DONE is
 * reached; or the failure, after which what is in `out` may still be sent. */
sheaf_status sheaf__handshake_took(struct sheaf__handshake *h, size_t size);

/* The listener's answers. */
sheaf_status sheaf__handshake_welcome(struct sheaf__handshake *h, const struct sheaf__offer *offer);
void sheaf__handshake_refuse(struct sheaf__handshake *h, bool retry, const sheaf_error *why);
/* The dialer's: which lane it took, with its own UCX address. DONE. */
sheaf_status sheaf__handshake_ready(struct sheaf__handshake *h, const struct sheaf__offer *answer);

#endif
