/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_POLLER_H
#define SHEAF_NET_POLLER_H

/* Waiting for descriptors. A poller without descriptors (in-process nets) sleeps in base/ instead
 * of the system, so that it also works in a simulation. */

#include <sheaf/status.h>

struct sheaf__poller;

/* What is watched: the struct is a member of its owner. */
struct sheaf__watch {
    int fd;
    _Atomic bool out; /* also for writing */
    bool quiet;       /* only wakes the sleeper: being ready is no work in itself */
    void (*fn)(struct sheaf__watch *watch, bool in, bool out);
};

sheaf_status sheaf__poller_new(bool descriptors, struct sheaf__poller **poller, sheaf_error *err);
void sheaf__poller_free(struct sheaf__poller *poller);

/* Any thread. The watch stays until it is removed, on the thread that dispatches. */
sheaf_status sheaf__poller_add(struct sheaf__poller *poller, struct sheaf__watch *watch,
                               sheaf_error *err);
void sheaf__poller_remove(struct sheaf__poller *poller, struct sheaf__watch *watch);
/* Also tell when it is writable, or no more. */
void sheaf__poller_want_out(struct sheaf__poller *poller, struct sheaf__watch *watch, bool out);

/* Calls the functions of what is ready now; true if there was any. One thread at a time. */
bool sheaf__poller_dispatch(struct sheaf__poller *poller);
/* Sleeps until something is ready, it is kicked or the deadline passes; dispatches nothing. */
void sheaf__poller_sleep(struct sheaf__poller *poller, int64_t deadline);
/* Wakes the sleeper, or keeps the next one from sleeping. Any thread. */
void sheaf__poller_kick(struct sheaf__poller *poller);
/* The descriptor by which other processes do the same: they write a byte to it, opened by
 * sheaf__segment_open_pipe(). -1: none. */
int sheaf__poller_bell(const struct sheaf__poller *poller);

#endif
