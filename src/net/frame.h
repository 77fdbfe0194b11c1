/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_FRAME_H
#define SHEAF_NET_FRAME_H

/* What travels between peers after the handshake: a frame of 32 bytes, little endian, then its meta
 * part, then its payload. On a stream both are filled up with zeros to a multiple of 8 bytes, so that
 * payloads lie aligned in a ring. */

#include <sheaf/status.h>

enum sheaf__frame_type {
    SHEAF__FRAME_BEAT = 1, /* sign of life */
    SHEAF__FRAME_BELL,     /* something is in the shared memory */
    SHEAF__FRAME_GOODBYE,  /* meta: nothing, or the sheaf_error for which the task gives up; one
                              without a peer is for which it gives us up */
    SHEAF__FRAME_REQUEST,  /* kind, id, meta, payload */
    SHEAF__FRAME_POST,     /* kind, meta, payload; nobody waits for an answer */
    SHEAF__FRAME_REPLY,    /* id, meta, payload */
    SHEAF__FRAME_FAILURE,  /* id, meta: a sheaf_error */
    SHEAF__FRAME_CANCEL,   /* id of the sender's request that nobody waits for any more */
    SHEAF__FRAME_TYPES
};

struct sheaf__frame {
    uint8_t type;
    uint8_t zero;
    uint16_t kind;
    uint32_t meta_size;
    uint64_t payload_size;
    uint64_t id;
    uint64_t reserved;
};
_Static_assert(sizeof(struct sheaf__frame) == 32, "frames cross processes as they are");

#define SHEAF__META_MOST    (UINT32_C(64) << 20)
#define SHEAF__PAYLOAD_MOST (UINT64_C(1) << 46)

/* Bytes that a meta part or a payload takes on a stream. */
static inline uint64_t sheaf__frame_room(uint64_t size)
{
    return size + (-size & 7);
}

/* SHEAF_OK if it is one that this version sends; else DATA_LOSS, which says what is wrong. */
sheaf_status sheaf__frame_check(const struct sheaf__frame *frame, sheaf_error *err);

#endif
