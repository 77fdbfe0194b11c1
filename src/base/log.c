/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/context_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The default sink. One write a line, so that lines of several processes do not mix. */
static void write_line(sheaf_log_level level, const char *line)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    char text[1280];
    int saved = errno;
    int n = snprintf(text, sizeof(text), "sheaf: %s: %s\n", names[level], line);
    size_t size = n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1;
    text[size - 1] = '\n';
    for (size_t done = 0; done < size;) {
        ssize_t w = write(STDERR_FILENO, text + done, size - done);
        if (w < 0 && errno != EINTR)
            break; /* nobody is left to be told */
        done += w > 0 ? (size_t)w : 0;
    }
    errno = saved;
}

static void SHEAF_PRINTF(2, 0) emit(sheaf_log_level level, const char *format, va_list args)
{
    sheaf_context *context = sheaf__context();
    char line[1200];
    vsnprintf(line, sizeof(line), format, args);
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    if (context->log)
        context->log(level, line, context->log_user);
    else
        write_line(level, line);
}

bool sheaf__log_wants(sheaf_log_level level)
{
    return (int)level <= sheaf__context()->log_level;
}

void sheaf__log(sheaf_log_level level, const char *format, ...)
{
    if (!sheaf__log_wants(level))
        return;
    va_list args;
    va_start(args, format);
    emit(level, format, args);
    va_end(args);
}

/* Counts a line of `key`; true while there were at most `limit`. Without memory to count it is not
 * written. */
static bool below_limit(sheaf_context *context, uint32_t limit, const char *key)
{
    sheaf__mutex_lock(&context->log_lock);
    uintptr_t count = (uintptr_t)sheaf__strmap_get(&context->log_counts, key);
    bool below =
        count < limit && sheaf__strmap_set(&context->log_counts, key, (void *)(count + 1), NULL);
    sheaf__mutex_unlock(&context->log_lock);
    return below;
}

void sheaf__log_limited(sheaf_log_level level, uint32_t limit, const char *key, const char *format,
                        ...)
{
    if (!sheaf__log_wants(level) || !below_limit(sheaf__context(), limit, key))
        return;
    va_list args;
    va_start(args, format);
    emit(level, format, args);
    va_end(args);
}

void sheaf__log_free(sheaf_context *context)
{
    sheaf__strmap_clear(&context->log_counts, NULL);
}
