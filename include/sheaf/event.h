/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_EVENT_H
#define SHEAF_EVENT_H

/** @file
 *  Event files for TensorBoard. One thread at a time per writer. */

#include <sheaf/status.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_event_writer sheaf_event_writer;

/** Creates a new file events.out.tfevents.… in `directory` (made if missing). Two writers never share a file (T64). */
SHEAF_CHECKED sheaf_status sheaf_event_writer_open(const char *directory,
                                                   sheaf_event_writer **writer, sheaf_error *err);
/** A scalar of `tag` at `step`, stamped with the wall time. */
SHEAF_CHECKED sheaf_status sheaf_event_scalar(sheaf_event_writer *writer, const char *tag,
                                              int64_t step, double value, sheaf_error *err);
/** Hands what was written to the operating system, so that TensorBoard sees it. */
SHEAF_CHECKED sheaf_status sheaf_event_writer_flush(sheaf_event_writer *writer, sheaf_error *err);
/** Flushes, closes and frees, also on failure. A file without any event is deleted. NULL is fine. */
SHEAF_API sheaf_status sheaf_event_writer_close(sheaf_event_writer *writer, sheaf_error *err);

SHEAF_END_DECLS

#endif
