/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FRAME_H
#define SHEAF_FRAME_H

/** @file
 *  Frames: who frees what a call hands out.
 *
 *  Tensors, elements, per-replica values and other results belong to the innermost frame of the calling thread and go
 *  with it. The library opens a frame around each replica step, each call of a stage's function and each round of
 *  SHEAF_EACH; SHEAF_FRAME opens one anywhere. Outside them a thread has a root frame that lives until the thread ends
 *  (or sheaf_frame_clear()) and warns once when it grows past 65,536 entries. Frames may be closed in any order with
 *  respect to a running tape: what still has a count stays. */

#include <sheaf/status.h>

SHEAF_BEGIN_DECLS

/** A frame on its owner's stack; use SHEAF_FRAME instead of these fields. */
typedef struct sheaf_frame {
    struct sheaf_frame *parent;
    void *entries;
    uint32_t count, capacity;
    uint32_t rounds;
    int32_t open;
} sheaf_frame;

/** Opens `frame` as the innermost of the calling thread. */
SHEAF_API void sheaf_frame_open(sheaf_frame *frame);
/** Closes it and every frame opened inside it; no-op for a closed one. */
SHEAF_API void sheaf_frame_close(sheaf_frame *frame);
/** Releases what the innermost frame of the thread holds, its first error included, without closing it. */
SHEAF_API void sheaf_frame_clear(void);
/** First error of a builder in the innermost frame since it was opened: SHEAF_OK or its status, copied to `err`. */
SHEAF_API sheaf_status sheaf_frame_status(sheaf_error *err);
/** For SHEAF_FRAME: true the first time. */
SHEAF_API bool sheaf_frame_enter(sheaf_frame *frame);

/** A block with a frame of its own: `SHEAF_FRAME { … }`. Clean on `break`, `return` and `goto`. */
#define SHEAF_FRAME                                                    \
    for (sheaf_frame SHEAF_BLOCK_NAME(sheaf_frame_)                    \
             __attribute__((cleanup(sheaf_frame_close))) = SHEAF_ZERO; \
         sheaf_frame_enter(&SHEAF_BLOCK_NAME(sheaf_frame_));)

SHEAF_END_DECLS

#endif
