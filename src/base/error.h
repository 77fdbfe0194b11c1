/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_ERROR_H
#define SHEAF_BASE_ERROR_H

/* Filling a sheaf_error, once, where the cause is known. Every function here accepts err == NULL
 * and returns the status it was given, so that `return sheaf__error(err, …)` is the whole of it.
 * The origin is the task of the current context (sheaf__context_set_task()). Messages: lower case,
 * no final dot, what was found and what was expected. Any thread. */

#include <sheaf/status.h>

#include <stdarg.h>
#include <stddef.h>

#define SHEAF__UNKNOWN UINT64_MAX /* offset or record not known */

/* The only macro that returns: the status of `expr` if it failed. */
#define SHEAF__TRY(expr)                         \
    do {                                         \
        sheaf_status sheaf__try_status = (expr); \
        if (sheaf__try_status < 0)               \
            return sheaf__try_status;            \
    } while (0)

sheaf_status sheaf__error(sheaf_error *err, sheaf_status status, const char *format, ...)
    SHEAF_PRINTF(3, 4) __attribute__((cold));
sheaf_status sheaf__verror(sheaf_error *err, sheaf_status status, const char *format, va_list args)
    SHEAF_PRINTF(3, 0) __attribute__((cold));

/* Where in a file: `file` may be NULL, record and offset SHEAF__UNKNOWN. A long path keeps its end.
 */
struct sheaf__place {
    const char *file;
    uint64_t record;
    uint64_t offset;
};
sheaf_status sheaf__error_at(sheaf_error *err, sheaf_status status,
                             const struct sheaf__place *where, const char *format, ...)
    SHEAF_PRINTF(4, 5) __attribute__((cold));
sheaf_status sheaf__verror_at(sheaf_error *err, sheaf_status status,
                              const struct sheaf__place *where, const char *format, va_list args)
    SHEAF_PRINTF(4, 0) __attribute__((cold));

/* What the system said: status chosen from `code` (an errno value), file and message "cannot <op>:
 * <text of code>". */
sheaf_status sheaf__errno_error(sheaf_error *err, int code, const char *file, const char *op)
    __attribute__((cold));
/* The status alone that belongs to an errno value: ENOENT is NOT_FOUND, EACCES and EROFS
 * PERMISSION, EEXIST ALREADY_EXISTS, ENOMEM and ENOSPC RESOURCE_EXHAUSTED, all else IO. */
sheaf_status sheaf__errno_status(int code);

/* "not enough memory for <what>"; RESOURCE_EXHAUSTED. */
sheaf_status sheaf__no_memory(sheaf_error *err, const char *what) __attribute__((cold));

/* A task in a message, which takes its job and index. */
#define SHEAF__TASK "/job:%s/task:%d"

/* What a function of the program, which is given no error, said last by sheaf_error_set(NULL, …) since this thread listened:
 * whether it said anything. It is said once. Who calls such a function uses tensor/called.h. */
void sheaf__error_listen(void);
bool sheaf__error_heard(sheaf_error *err);

/* Names the task whom the error concerns, after it was filled. */
void sheaf__error_set_peer(sheaf_error *err, const char *job, int32_t index);
/* Puts "<text>: " before the message: who passes an error on adds what it was doing. Never changes
 * anything else. */
void sheaf__error_prefix(sheaf_error *err, const char *format, ...) SHEAF_PRINTF(2, 3);

/* The same behind the message, "<message> <text>", as far as there is room for it. */
void sheaf__error_suffix(sheaf_error *err, const char *format, ...) SHEAF_PRINTF(2, 3);

/* An error that another task sent as it is: `size` bytes at `data`. Its texts end where they should. False, and nothing is
 * written, if that is no error. */
bool sheaf__error_unpack(sheaf_error *err, const void *data, size_t size);

/* A first error that is kept: copies `*err` into `*first` if `first` holds none yet. */
void sheaf__error_keep_first(sheaf_error *first, const sheaf_error *err);
/* Copies a kept error out, if it is one and err is not NULL; returns kept->status. */
sheaf_status sheaf__error_copy(sheaf_error *err, const sheaf_error *kept);

#endif
