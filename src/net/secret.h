/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_SECRET_H
#define SHEAF_NET_SECRET_H

/* The cluster's secret: what every task must prove to know before it is listened to. */

#include <sheaf/status.h>

#define SHEAF__SECRET_MAX 4096

struct sheaf__secret {
    size_t size; /* 0: none, every peer is admitted (SHEAF_INSECURE) */
    uint8_t bytes[SHEAF__SECRET_MAX];
};

/* Finds the secret of the current context: the file SHEAF_SECRET_FILE; else, where every task of
 * the cluster has a loopback address (`loopback`), a key of the user that is made at first use (mode
 * 0600, $XDG_STATE_HOME/sheaf/key, ~/.local/state/sheaf/key or $XDG_RUNTIME_DIR/sheaf/key); else
 * none if SHEAF_INSECURE is 1, and FAILED_PRECONDITION, which says what to do, otherwise. */
sheaf_status sheaf__secret_find(bool loopback, struct sheaf__secret *secret, sheaf_error *err);
/* Overwrites it. */
void sheaf__secret_wipe(struct sheaf__secret *secret);

#endif
