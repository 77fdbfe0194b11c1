/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_CALLED_H
#define SHEAF_TENSOR_CALLED_H

/* How a function of the program ended that the library called in a frame of its own. Why it failed it says by
 * sheaf_error_set(NULL, status, …), by what failed in its frame, or by its status alone. Before the call:
 * sheaf__error_listen(); behind it one of these, in the same frame and thread. `format` is what failed: "the function". */

#include <sheaf/status.h>

/* `returned`, where nothing failed. Else `err` has, and it returns the status of, what failed first in the frame, with what
 * the function said of it before that; or what it said, if that was of the status that it returned; or that alone. */
sheaf_status sheaf__called(sheaf_status returned, sheaf_error *err, const char *format, ...)
    SHEAF_PRINTF(3, 4) __attribute__((nonnull(3)));

/* Of a function without a status: SHEAF_OK, where it said nothing. */
sheaf_status sheaf__called_mute(sheaf_error *err, const char *format, ...) SHEAF_PRINTF(2, 3)
    __attribute__((nonnull(2)));

#endif
