/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LONGEST_LINE = 1 << 20, /* a longer one is passed on in pieces */
    HOLD_MS = 1000,
    READS_AT_ONCE = 16, /* so that one task does not keep the others waiting */
};

static void show(struct sheaf__relay *r, const char *text, size_t size)
{
    fputs(r->prefix, r->to);
    fwrite(text, 1, size, r->to);
    fputc('\n', r->to);
}

static void drop_held(struct sheaf__relay *r)
{
    if (r->held && !r->held_shown)
        show(r, r->held, r->held_size);
    free(r->held);
    r->held = NULL;
}

/* A whole line without its end. */
static void take_line(struct sheaf__relay *r, const char *text, size_t size, int64_t now_ms)
{
    if (size && text[size - 1] == '\r')
        size--;
    if (r->holds) {
        drop_held(r);
        r->held = malloc(size + 1);
        r->held_size = size;
        if (r->held)
            memcpy(r->held, text, size);
        r->held_shown = false;
        r->held_until = now_ms + HOLD_MS;
    }
    const bool repeats = r->said && sheaf__said_before(r->said, r, text, size);
    if (!repeats && (!r->holds || !r->held))
        show(r, text, size);
}

static bool keep(struct sheaf__relay *r, const char *text, size_t size)
{
    if (r->size + size > r->capacity) {
        size_t capacity = (r->size + size) * 2;
        char *line = realloc(r->line, capacity);
        if (!line)
            return false;
        r->line = line;
        r->capacity = capacity;
    }
    memcpy(r->line + r->size, text, size);
    r->size += size;
    return true;
}

static void take(struct sheaf__relay *r, const char *text, size_t size, int64_t now_ms)
{
    const char *end;
    while (size && (end = memchr(text, '\n', size))) {
        size_t part = (size_t)(end - text);
        if (r->size == 0) {
            take_line(r, text, part, now_ms);
        } else if (keep(r, text, part)) {
            take_line(r, r->line, r->size, now_ms);
            r->size = 0;
        }
        text = end + 1;
        size -= part + 1;
    }
    if (size && (!keep(r, text, size) || r->size > LONGEST_LINE)) {
        take_line(r, r->line, r->size, now_ms);
        r->size = 0;
    }
}

bool sheaf__relay_read(struct sheaf__relay *relay, int64_t now_ms)
{
    char data[16384];
    ssize_t got = 1;
    for (int i = 0; i < READS_AT_ONCE && got > 0; i++) {
        got = read(relay->fd, data, sizeof(data));
        if (got > 0)
            take(relay, data, (size_t)got, now_ms);
    }
    const bool open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    fflush(relay->to);
    return open;
}

int64_t sheaf__relay_tick(struct sheaf__relay *relay, int64_t now_ms)
{
    if (!relay->held || relay->held_shown)
        return -1;
    if (now_ms < relay->held_until)
        return relay->held_until - now_ms;
    show(relay, relay->held, relay->held_size);
    fflush(relay->to);
    relay->held_shown = true;
    return -1;
}

void sheaf__relay_end(struct sheaf__relay *relay, int64_t now_ms)
{
    if (relay->fd < 0)
        return;
    sheaf__relay_read(relay, now_ms);
    if (relay->size)
        take_line(relay, relay->line, relay->size, now_ms);
    relay->size = 0;
    fflush(relay->to);
    close(relay->fd);
    relay->fd = -1;
}

void sheaf__relay_finish(struct sheaf__relay *relay, bool result)
{
    if (relay->held && !relay->held_shown && (relay->to != stdout || !result))
        show(relay, relay->held, relay->held_size);
    if (relay->held && result) {
        fwrite(relay->held, 1, relay->held_size, stdout);
        putchar('\n');
    }
    fflush(relay->to);
    fflush(stdout);
    free(relay->line);
    free(relay->held);
    relay->line = relay->held = NULL;
}
