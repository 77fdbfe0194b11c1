/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_UCX_H
#define SHEAF_NET_UCX_H

/* Lanes over UCX: shared memory and CMA on one machine; between machines of a trusted fabric RDMA or
 * UCX's TCP, which listens on every interface and asks nobody who they are. The library is opened at
 * first use. Each lane has a worker of its own: when a peer is lost its worker goes, and with it
 * every use of memory that was being sent or received. */

#include "net/lane.h"

struct sheaf__ucx;

/* Opens this end: its address (at most `*size` bytes) goes to `address`. `local`: the other end is on this machine.
 * Any failure means that another way must be found. */
sheaf_status sheaf__ucx_open(bool local, struct sheaf__ucx **ucx, uint8_t *address, size_t *size,
                             sheaf_error *err);
sheaf_status sheaf__ucx_connect(struct sheaf__ucx *ucx, const uint8_t *address, size_t size,
                                sheaf_error *err);
/* The lane of a connected end, which it takes over. NULL: no memory, the end stays. */
struct sheaf__lane *sheaf__ucx_lane(struct sheaf__ucx *ucx, const struct sheaf__receiver *receiver,
                                    void (*blocked)(void *user), void *user);
/* Before it has become a lane. NULL is nothing. */
void sheaf__ucx_close(struct sheaf__ucx *ucx);

#endif
