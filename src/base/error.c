/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include "base/context.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* One line of characters: a message may carry a file name or a peer's text with anything in it. */
static void flatten(char *text)
{
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        n = sheaf__utf8_size(text, left);
        if (!n)
            *text = '?';
        else if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
        n += !n;
    }
}

/* What does not fit is left out of the middle of a name, not of the reason behind it. */
static void SHEAF_PRINTF(3, 0) compose(char *text, size_t size, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int whole = vsnprintf(text, size, format, args);
    char *room = whole >= (int)size ? sheaf__vprintf(format, again) : NULL;
    if (room) {
        sheaf__str_shorten(room, size);
        sheaf__str_copy(text, size, room);
        sheaf__free(room);
    }
    va_end(again);
    flatten(text);
}

static void clear(sheaf_error *err, sheaf_status status)
{
    *err = (sheaf_error){
        .status = status, .peer.index = -1, .offset = SHEAF__UNKNOWN, .record = SHEAF__UNKNOWN};
    err->origin = sheaf__context_task(sheaf__context());
}

sheaf_status sheaf__verror(sheaf_error *err, sheaf_status status, const char *format, va_list args)
{
    if (!err)
        return status;
    /* The arguments may point into the error that is being replaced. */
    char message[sizeof(err->message)] = "";
    if (format)
        compose(message, sizeof(message), format, args);
    clear(err, status);
    memcpy(err->message, message, sizeof(message));
    return status;
}

sheaf_status sheaf__error(sheaf_error *err, sheaf_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sheaf__verror(err, status, format, args);
    va_end(args);
    return status;
}

/* A path that is too long keeps its end, which tells files apart. */
static void set_file(sheaf_error *err, const char *file)
{
    size_t size = strlen(file);
    if (size < sizeof(err->file))
        memcpy(err->file, file, size + 1);
    else
        snprintf(err->file, sizeof(err->file), "...%s", file + size - (sizeof(err->file) - 4));
    flatten(err->file);
}

sheaf_status sheaf__error_at(sheaf_error *err, sheaf_status status,
                             const struct sheaf__place *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sheaf__verror_at(err, status, where, format, args);
    va_end(args);
    return status;
}

sheaf_status sheaf__verror_at(sheaf_error *err, sheaf_status status,
                              const struct sheaf__place *where, const char *format, va_list args)
{
    sheaf__verror(err, status, format, args);
    if (!err)
        return status;
    if (where->file)
        set_file(err, where->file);
    err->record = where->record;
    err->offset = where->offset;
    return status;
}

sheaf_status sheaf__errno_status(int code)
{
    switch (code) {
    case ENOENT:
    case ENOTDIR:
        return SHEAF_ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return SHEAF_ERR_PERMISSION;
    case EEXIST:
        return SHEAF_ERR_ALREADY_EXISTS;
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    default:
        return SHEAF_ERR_IO;
    }
}

sheaf_status sheaf__errno_error(sheaf_error *err, int code, const char *file, const char *op)
{
    char text[96];
    struct sheaf__place where = {file, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    /* GNU strerror_r: the text, perhaps in the buffer; "No such file" becomes "no such file". */
    const char *said = strerror_r(code, text, sizeof(text));
    char first = said[0] >= 'A' && said[0] <= 'Z' ? (char)(said[0] + 32) : said[0];
    return sheaf__error_at(err, sheaf__errno_status(code), &where, "cannot %s: %c%s", op, first,
                           first ? said + 1 : "");
}

sheaf_status sheaf__no_memory(sheaf_error *err, const char *what)
{
    return sheaf__error(err, SHEAF_ERR_RESOURCE_EXHAUSTED, "not enough memory for %s", what);
}

void sheaf__error_set_peer(sheaf_error *err, const char *job, int32_t index)
{
    if (!err)
        return;
    sheaf__str_copy(err->peer.job, sizeof(err->peer.job), job);
    err->peer.index = index;
}

bool sheaf__error_unpack(sheaf_error *err, const void *data, size_t size)
{
    sheaf_error e;
    if (size != sizeof(e))
        return false;
    memcpy(&e, data, sizeof(e));
    if (e.status >= 0)
        return false;
    e.message[sizeof(e.message) - 1] = '\0';
    e.file[sizeof(e.file) - 1] = '\0';
    e.origin.job[sizeof(e.origin.job) - 1] = '\0';
    e.peer.job[sizeof(e.peer.job) - 1] = '\0';
    flatten(e.message);
    flatten(e.file);
    *err = e;
    return true;
}

void sheaf__error_prefix(sheaf_error *err, const char *format, ...)
{
    if (!err)
        return;
    char before[sizeof(err->message)];
    char whole[2 * sizeof(err->message) + 4];
    va_list args;
    va_start(args, format);
    compose(before, sizeof(before), format, args);
    va_end(args);
    snprintf(whole, sizeof(whole), "%s: %s", before, err->message);
    sheaf__str_shorten(whole, sizeof(err->message));
    sheaf__str_copy(err->message, sizeof(err->message), whole);
}

void sheaf__error_suffix(sheaf_error *err, const char *format, ...)
{
    enum { LEAST = 40 }; /* less of it would say nothing */
    const size_t used = err ? strlen(err->message) + 1 : 0;
    if (!err || used + LEAST > sizeof(err->message))
        return;
    va_list args;
    err->message[used - 1] = ' ';
    va_start(args, format);
    compose(err->message + used, sizeof(err->message) - used, format, args);
    va_end(args);
}

void sheaf__error_keep_first(sheaf_error *first, const sheaf_error *err)
{
    if (first->status >= 0 && err->status < 0)
        *first = *err;
}

sheaf_status sheaf__error_copy(sheaf_error *err, const sheaf_error *kept)
{
    if (err && kept->status < 0)
        *err = *kept;
    return kept->status;
}
