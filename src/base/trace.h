/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_TRACE_H
#define SHEAF_BASE_TRACE_H

/* Spans for a time line (SHEAF_TRACE names the file; Chrome's JSON). Off, a span costs one load.
 * Any thread. */

#include <sheaf/context.h>

struct sheaf__span {
    const char *name; /* NULL: not traced */
    int64_t start;
};

/* `name` is static text such as "ps.push". */
struct sheaf__span sheaf__trace_start(const char *name);
void sheaf__trace_end(const struct sheaf__span *span);
/* From here to the end of the block, however it is left. */
#define SHEAF__TRACE(name)                                                      \
    struct sheaf__span trace_span_ __attribute__((cleanup(sheaf__trace_end))) = \
        sheaf__trace_start(name)

/* Writes what was traced so far to the file of the context, in a task of a cluster to that name and
 * ".worker-0"; nothing if tracing is off. Done by itself when the context is freed, for the process
 * default at exit; the log then says what went wrong. */
sheaf_status sheaf__trace_write(sheaf_context *context, sheaf_error *err);

#endif
