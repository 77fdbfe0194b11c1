/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_FRAME_H
#define SHEAF_TENSOR_FRAME_H

/** @file
 *  Frames inside the library: who releases what a call hands out.
 *
 *  A frame is used by one thread at a time. Everything registered is a counted object
 * (base/object.h); what was registered last is released first. */

#include "base/str.h"

#include <sheaf/frame.h>

/** Hands the caller's count of `object` to the innermost frame of the thread and returns it.
 * Without memory: gives the count back, latches that, returns NULL. NULL gives NULL. */
void *sheaf__frame_own(void *object);
/** The same with an open frame that need not be the innermost: what leaves an inner frame. */
void *sheaf__frame_own_in(sheaf_frame *frame, void *object);

/** Memory that lives as long as the innermost frame, at a multiple of 64, not cleared. NULL without
 * memory, which is latched. */
void *sheaf__frame_alloc(size_t size);
/** A copy of the text that lives as long as the frame. Without memory: "". */
const char *sheaf__frame_text(const char *text, size_t size);
/** The same for a builder, which is freed. */
const char *sheaf__frame_str(struct sheaf__str *str);

/** Keeps the first error of the innermost frame: builders call it with what they put into a failed
 * tensor. */
void sheaf__frame_latch(const sheaf_error *err);

/** Innermost frame of the thread; NULL if there is none but the root. */
sheaf_frame *sheaf__frame_current(void);
/** Makes `frame` (an open one that no other thread uses meanwhile, or NULL) the innermost of the
 * calling thread and returns the one before: a library thread that works for another. Undone the
 * same way. */
sheaf_frame *sheaf__frame_swap(sheaf_frame *frame);

#endif
