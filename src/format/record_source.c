/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"
#include "base/counter.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "format/record.h"
#include "format/window.h"

#define COUNTED (64 * 1024) /* bytes read before they are counted */

/* A cursor that walks a window of the file. */
struct sheaf__record_source {
    struct sheaf__record_cursor cursor;
    const struct sheaf__framing *framing;
    struct sheaf__window *window;
    bool partial_told;
    struct sheaf__counter *bytes, *records;
    uint64_t counted_offset, counted_record; /* what the counters know of */
};

/* Shows the cursor the window as it is now. */
static void look_again(struct sheaf__record_source *s)
{
    s->cursor.data = s->window->data;
    s->cursor.size = s->window->size;
    s->cursor.base = s->window->base;
    s->cursor.more = s->window->more;
}

/* Starts at the first record of the open file. */
static sheaf_status start(struct sheaf__record_source *s, const struct sheaf__record_options *o,
                          sheaf_error *err)
{
    s->cursor = (struct sheaf__record_cursor){
        .path = s->window->path, .lax = o->lax, .skip_check = o->skip_check, .fixed = o->fixed};
    look_again(s);
    uint64_t total;
    SHEAF__TRY(sheaf__window_total(s->window, &total, err));
    if (s->framing->check && total != SHEAF__UNKNOWN)
        return s->framing->check(&s->cursor, total, err);
    return SHEAF_OK;
}

sheaf_status sheaf__record_source_open(const char *path,
                                       const struct sheaf__record_options *options,
                                       struct sheaf__record_source **source, sheaf_error *err)
{
    struct sheaf__record_options o = options ? *options : (struct sheaf__record_options){0};
    struct sheaf__record_source *s = sheaf__calloc(1, sizeof(*s));
    if (!s)
        return sheaf__no_memory(err, "reading records");
    s->framing = o.framing ? o.framing : &sheaf__framing_tfrecord;
    s->bytes = sheaf__counter_get(sheaf__context(), "record.bytes");
    s->records = sheaf__counter_get(sheaf__context(), "record.count");
    const struct sheaf__window_options wo = {.compression = o.compression,
                                             .sniff = s->framing->sniff,
                                             .chunk = o.chunk,
                                             .lax = o.lax,
                                             .maps = o.maps};
    sheaf_status status = sheaf__window_open(path, &wo, &s->window, err);
    if (status >= 0)
        status = start(s, &o, err);
    if (status < 0)
        sheaf__record_source_free(s);
    else
        *source = s;
    return status;
}

/* What the cursor passed since the last time was not read. */
static void forget_way(struct sheaf__record_source *s)
{
    s->counted_offset = s->cursor.offset;
    s->counted_record = s->cursor.record;
}

/* Adds what was read since the last time to the counters, which all readers share. */
static void count_read(struct sheaf__record_source *s)
{
    sheaf__counter_add(s->bytes, s->cursor.offset - s->counted_offset);
    sheaf__counter_add(s->records, s->cursor.record - s->counted_record);
    forget_way(s);
}

void sheaf__record_source_free(struct sheaf__record_source *s)
{
    if (!s)
        return;
    count_read(s);
    sheaf__unref(s->cursor.copy);
    sheaf__window_free(s->window);
    sheaf__free(s);
}

/* The cursor wants more bytes. SHEAF_OK: it has some, or knows that there are none. */
static sheaf_status go_on(struct sheaf__record_source *s, sheaf_error *err)
{
    sheaf_error cause = {0};
    const struct sheaf__place place = sheaf__record_cursor_place(&s->cursor);
    sheaf_status status =
        sheaf__window_more(s->window, s->cursor.offset, s->framing->need(&s->cursor), &cause);
    sheaf__window_count(s->window, s->cursor.record);
    look_again(s);
    return status < 0 ? sheaf__error_at(err, status, &place, "%s", cause.message) : SHEAF_OK;
}

/* Counts and tells once what `lax` lets pass. */
static void note_partial(struct sheaf__record_source *s)
{
    const struct sheaf__record_cursor *c = &s->cursor;
    size_t partial = sheaf__record_cursor_left(c);
    if (!partial || s->partial_told)
        return;
    s->partial_told = true;
    sheaf__count("record.partial", 1);
    sheaf__log(SHEAF_LOG_WARN, "%s: %zu bytes after the last record are ignored", c->path, partial);
}

sheaf_status sheaf__record_source_next(struct sheaf__record_source *s, sheaf_bytes *records,
                                       size_t capacity, size_t *count, struct sheaf__object **owner,
                                       sheaf_error *err)
{
    sheaf_status status;
    for (;;) {
        status = s->framing->next(&s->cursor, records, capacity, count, err);
        if (status != SHEAF_PENDING)
            break;
        SHEAF__TRY(go_on(s, err));
    }
    if (s->cursor.offset - s->counted_offset >= COUNTED || status != SHEAF_OK)
        count_read(s);
    if (status == SHEAF_END && s->cursor.lax)
        note_partial(s);
    if (status != SHEAF_OK)
        return status;
    *owner = s->cursor.copy ? s->cursor.copy : s->window->owner;
    return SHEAF_OK;
}

static sheaf_status skip(struct sheaf__record_source *s, uint64_t count, uint64_t *skipped,
                         sheaf_error *err)
{
    uint64_t n = 0;
    *skipped = 0;
    while (*skipped < count) {
        sheaf_status status = s->framing->skip(&s->cursor, count - *skipped, &n, err);
        if (status == SHEAF_PENDING)
            status = go_on(s, err);
        if (status < 0 || status == SHEAF_END)
            return status;
        *skipped += n;
        n = 0;
    }
    return SHEAF_OK;
}

sheaf_status sheaf__record_source_skip(struct sheaf__record_source *s, uint64_t count,
                                       uint64_t *skipped, sheaf_error *err)
{
    count_read(s);
    sheaf_status status = skip(s, count, skipped, err);
    forget_way(s);
    return status;
}

uint64_t sheaf__record_source_position(const struct sheaf__record_source *s, uint64_t *offset)
{
    if (offset)
        *offset = s->cursor.offset;
    return s->cursor.record;
}

uint64_t sheaf__record_source_rest(struct sheaf__record_source *s)
{
    struct sheaf__window *w = s->window;
    sheaf_error ignored;
    uint64_t total = SHEAF__UNKNOWN;
    if (sheaf__window_total(w, &total, &ignored) >= 0 && total != SHEAF__UNKNOWN)
        return total > s->cursor.offset ? total - s->cursor.offset : 0;
    while (w->more && sheaf__window_more(w, w->base + w->size, 1, &ignored) >= 0)
        continue;
    return w->base + w->size - s->cursor.offset;
}

static sheaf_status seek_window(struct sheaf__record_source *s, uint64_t record, uint64_t offset,
                                sheaf_error *err)
{
    sheaf_status status = sheaf__window_seek(s->window, offset, err);
    if (status < 0 && err)
        err->record = record;
    if (status < 0)
        return status;
    s->cursor.offset = offset;
    s->cursor.record = record;
    look_again(s);
    return SHEAF_OK;
}

/* A compressed file: decompressed up to there, from the start if need be. */
static sheaf_status walk(struct sheaf__record_source *s, uint64_t record, uint64_t offset,
                         sheaf_error *err)
{
    if (offset < s->cursor.offset || record < s->cursor.record)
        SHEAF__TRY(seek_window(s, 0, 0, err));
    uint64_t skipped = 0;
    sheaf_status status = skip(s, record - s->cursor.record, &skipped, err);
    if (status < 0)
        return status;
    if (s->cursor.record != record || s->cursor.offset != offset) {
        struct sheaf__place place = {s->cursor.path, record, offset};
        return sheaf__error_at(
            err, SHEAF_ERR_DATA_LOSS, &place, "no such position: record %llu starts at byte %llu",
            (unsigned long long)s->cursor.record, (unsigned long long)s->cursor.offset);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__record_source_seek(struct sheaf__record_source *s, uint64_t record,
                                       uint64_t offset, sheaf_error *err)
{
    count_read(s);
    sheaf_status status = sheaf__window_is_compressed(s->window)
                              ? walk(s, record, offset, err)
                              : seek_window(s, record, offset, err);
    forget_way(s);
    return status;
}
