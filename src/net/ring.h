/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_RING_H
#define SHEAF_NET_RING_H

/* A stream made of two rings of bytes in memory that two processes, or two nets of one process,
 * share: one writer and one reader each. */

#include "net/segment.h"
#include "net/stream.h"

/* Bytes of memory that a pair of rings needs, zeroed. */
size_t sheaf__ring_bytes(void);

/* Wakes the other end's process. Called by reader or writer, with whatever locks they hold. */
struct sheaf__bell {
    void (*ring)(void *user);
    void *user;
};

/* End number `side` (0 or 1) of the rings in a segment, which it takes over and closes. `bell`
 * wakes the other end. NULL: no memory, the segment stays the caller's. */
struct sheaf__stream *sheaf__stream_of_segment(const struct sheaf__segment *segment, int side,
                                               const struct sheaf__bell *bell);
/* Two connected ends in this process. bells[i] wakes whoever reads and writes end i; it is not
 * called after that end is freed. */
sheaf_status sheaf__stream_pair(const struct sheaf__bell bells[2], struct sheaf__stream *streams[2],
                                sheaf_error *err);

#endif
