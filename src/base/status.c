/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"
#include "base/error.h"
#include "base/farewell.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(sheaf_error) == 512, "errors cross processes as they are");

static const struct {
    sheaf_status status;
    const char *name;
} names[] = {
    {SHEAF_OK, "OK"},
    {SHEAF_END, "End"},
    {SHEAF_PENDING, "Pending"},
    {SHEAF_ERR_INVALID_ARGUMENT, "InvalidArgumentError"},
    {SHEAF_ERR_OUT_OF_RANGE, "OutOfRangeError"},
    {SHEAF_ERR_NOT_FOUND, "NotFoundError"},
    {SHEAF_ERR_ALREADY_EXISTS, "AlreadyExistsError"},
    {SHEAF_ERR_FAILED_PRECONDITION, "FailedPreconditionError"},
    {SHEAF_ERR_UNIMPLEMENTED, "UnimplementedError"},
    {SHEAF_ERR_DATA_LOSS, "DataLossError"},
    {SHEAF_ERR_IO, "IOError"},
    {SHEAF_ERR_PERMISSION, "PermissionDeniedError"},
    {SHEAF_ERR_RESOURCE_EXHAUSTED, "ResourceExhaustedError"},
    {SHEAF_ERR_CANCELLED, "CancelledError"},
    {SHEAF_ERR_ABORTED, "AbortedError"},
    {SHEAF_ERR_DEADLINE, "DeadlineExceededError"},
    {SHEAF_ERR_INTERNAL, "InternalError"},
    {SHEAF_ERR_UNAVAILABLE, "UnavailableError"},
    {SHEAF_ERR_UNAUTHENTICATED, "UnauthenticatedError"},
    {SHEAF_ERR_INCOMPATIBLE, "IncompatibleError"},
    {SHEAF_ERR_TEAM_LOST, "TeamLostError"},
    {SHEAF_ERR_TEAM_MISMATCH, "TeamMismatchError"},
};

const char *sheaf_status_name(sheaf_status status)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].status == status)
            return names[i].name;
    return status < 0 ? "UnknownError" : "Unknown";
}

/* A function that is given no error has none to fill: who called it looks here. */
static _Thread_local sheaf_error said;

void sheaf__error_listen(void)
{
    said.status = SHEAF_OK;
}

bool sheaf__error_heard(sheaf_error *err)
{
    if (said.status >= 0)
        return false;
    *err = said;
    said.status = SHEAF_OK;
    return true;
}

sheaf_status sheaf_error_set(sheaf_error *err, sheaf_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sheaf__verror(err ? err : &said, status, format, args);
    va_end(args);
    return status;
}

/* The text of an error in pieces: each writes what fits and counts all of it. */
struct out {
    char *text;
    size_t size;
    size_t length;
};

static void SHEAF_PRINTF(2, 3) put(struct out *out, const char *format, ...)
{
    va_list args;
    size_t room = out->length < out->size ? out->size - out->length : 0;
    va_start(args, format);
    int n = vsnprintf(room ? out->text + out->length : NULL, room, format, args);
    va_end(args);
    if (n > 0)
        out->length += (size_t)n;
}

size_t sheaf_error_format(const sheaf_error *err, char *text, size_t size)
{
    struct out out = {.text = text, .size = size};
    if (size)
        text[0] = '\0';
    if (!err)
        return 0;
    if (err->origin.job[0])
        put(&out, "%.*s:%" PRId32 ": ", (int)sizeof(err->origin.job), err->origin.job,
            err->origin.index);
    put(&out, "%.*s", (int)sizeof(err->message),
        err->message[0] ? err->message : sheaf_status_name(err->status));
    const char *open = " (";
    if (err->file[0]) {
        put(&out, "%sfile %.*s", open, (int)sizeof(err->file), err->file);
        open = ", ";
    }
    if (err->record != SHEAF__UNKNOWN && (err->file[0] || err->record)) {
        put(&out, "%srecord %" PRIu64, open, err->record);
        open = ", ";
    }
    if (err->offset != SHEAF__UNKNOWN && (err->file[0] || err->offset)) {
        put(&out, "%soffset %" PRIu64, open, err->offset);
        open = ", ";
    }
    if (open[0] == ',')
        put(&out, ")");
    return out.length;
}

int sheaf_error_exit(const sheaf_error *err)
{
    char text[1024];
    if (!err || err->status >= 0)
        return 0;
    sheaf_error_format(err, text, sizeof(text));
    fprintf(stderr, "%s\n", text);
    sheaf__farewell_say(sheaf__context(), err);
    return 1;
}
