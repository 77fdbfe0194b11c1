/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/cache.h"
#include "format/element_wire.h"
#include "format/record.h"

#include <stdio.h>
#include <string.h>

#define MAGIC "sheaf cache 1\n"
/* Every record's data begin so many bytes after a multiple of SHEAF__ELEMENT_ALIGN. */
#define PHASE SHEAF__RECORD_HEADER
/* Size of the last record with its frame. */
#define LAST SHEAF__ELEMENT_ALIGN

/* ---- writing ---- */

struct sheaf__cache_writer {
    char *path;
    sheaf_record_writer *file;
    struct sheaf__buf record;
    uint64_t bytes, records, rows;
};

static sheaf_status put_record(struct sheaf__cache_writer *w, sheaf_error *err)
{
    size_t framed = SHEAF__RECORD_HEADER + w->record.size + SHEAF__RECORD_FOOTER;
    size_t pad = (SHEAF__ELEMENT_ALIGN - framed % SHEAF__ELEMENT_ALIGN) % SHEAF__ELEMENT_ALIGN;
    uint8_t *zeros = sheaf__buf_extend(&w->record, pad);
    if (zeros)
        memset(zeros, 0, pad);
    SHEAF__TRY(sheaf__buf_check(&w->record, "a record of a cache", err));
    const sheaf_bytes data = {(const char *)w->record.data, w->record.size};
    SHEAF__TRY(sheaf_record_writer_put(w->file, data, err));
    w->bytes += framed + pad;
    w->records++;
    return SHEAF_OK;
}

/* Tells of what a process that died left beside the file, and deletes it (T42). */
static void sweep(const char *path)
{
    size_t count;
    sheaf_error ignored;
    if (sheaf__file_sweep(path, &count, &ignored) >= 0 && count > 0)
        sheaf__log(
            SHEAF_LOG_WARN,
            "cache %s: deleted %zu incomplete file%s of processes that ended while they made it",
            path, count, count == 1 ? "" : "s");
}

static sheaf_status start_file(struct sheaf__cache_writer *w, const char *what, sheaf_error *err)
{
    if (!w->path)
        return sheaf__no_memory(err, "a cache");
    sweep(w->path);
    SHEAF__TRY(sheaf__record_writer_open(w->path, SHEAF_COMPRESSION_NONE, SHEAF__FILE_REPLACE,
                                         &w->file, err));
    sheaf__buf_bytes(&w->record, MAGIC, strlen(MAGIC));
    sheaf__buf_sized(&w->record, what, strlen(what));
    return put_record(w, err);
}

sheaf_status sheaf__cache_writer_open(const char *path, const char *what,
                                      struct sheaf__cache_writer **writer, sheaf_error *err)
{
    struct sheaf__cache_writer *w = sheaf__calloc(1, sizeof(*w));
    if (!w)
        return sheaf__no_memory(err, "a cache");
    w->path = sheaf__strdup(path);
    sheaf_status status = start_file(w, what, err);
    if (status < 0)
        sheaf__cache_writer_drop(w);
    else
        *writer = w;
    return status;
}

static sheaf_status put_block(struct sheaf__cache_writer *w, const struct sheaf__block *block,
                              sheaf_error *err)
{
    sheaf_element *e = block->boxed
                           ? sheaf__ref(block->columns)
                           : sheaf__element_rows(block->columns, block->first, block->count, err);
    if (!e)
        return err->status;
    sheaf__buf_clear(&w->record);
    sheaf__buf_byte(&w->record, block->boxed ? 'B' : 'S');
    sheaf__buf_varint(&w->record, block->count);
    sheaf_status status = sheaf__element_wire_put(&w->record, 0, PHASE, e, err);
    sheaf__unref(e);
    if (status >= 0)
        status = put_record(w, err);
    w->rows += block->count;
    return status;
}

sheaf_status sheaf__cache_writer_put(struct sheaf__cache_writer *w, struct sheaf__rows *rows,
                                     uint64_t *bytes, sheaf_error *err)
{
    struct sheaf__block *block;
    sheaf_status status = SHEAF_OK;
    while (status >= 0 && (block = sheaf__rows_pop(rows)) != NULL) {
        status = put_block(w, block, err);
        sheaf__block_unref(block);
    }
    sheaf__rows_clear(rows);
    *bytes = w->bytes;
    return status;
}

static void free_writer(struct sheaf__cache_writer *w)
{
    sheaf__buf_free(&w->record);
    sheaf__free(w->path);
    sheaf__free(w);
}

sheaf_status sheaf__cache_writer_commit(struct sheaf__cache_writer *w, sheaf_error *err)
{
    sheaf__buf_clear(&w->record);
    sheaf__buf_byte(&w->record, 'E');
    sheaf__buf_fixed64(&w->record, w->rows);
    sheaf__buf_fixed64(&w->record, w->records);
    sheaf_status status = put_record(w, err);
    if (status < 0 || sheaf__file_exists(w->path)) {
        sheaf__cache_writer_drop(w);
        return status;
    }
    status = sheaf__record_writer_commit(w->file, err);
    free_writer(w);
    return status;
}

void sheaf__cache_writer_drop(struct sheaf__cache_writer *w)
{
    if (!w)
        return;
    (void)!sheaf_record_writer_close(w->file, false, NULL);
    free_writer(w);
}

/* ---- reading ---- */

struct sheaf__cache_reader {
    char *path;
    struct sheaf__record_source *file;
    sheaf_element *element; /* counted; rows at … count - 1 of it are left, or itself */
    size_t at, count;
    bool boxed;
    uint64_t records, rows;
    bool ended;
};

/* The data of the next record; SHEAF_END at the end of the file. */
static sheaf_status next_record(struct sheaf__cache_reader *r, struct sheaf__cursor *c,
                                struct sheaf__object **owner, sheaf_error *err)
{
    sheaf_bytes record;
    size_t count;
    sheaf_status status = sheaf__record_source_next(r->file, &record, 1, &count, owner, err);
    if (status == SHEAF_OK)
        *c = sheaf__cursor_of(record.data, record.size);
    return status;
}

static __attribute__((cold)) sheaf_status damaged(const struct sheaf__cache_reader *r,
                                                  const char *why, sheaf_error *err)
{
    const struct sheaf__place place = {r->path, r->records, SHEAF__UNKNOWN};
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place, "the cache is damaged: %s", why);
}

/* Whether the file ends with a record that says so. */
static sheaf_status check_end(const char *path, bool *whole, sheaf_error *err)
{
    struct sheaf__file *file = NULL;
    uint8_t bytes[LAST];
    uint64_t size = 0;
    size_t got = 0, count;
    sheaf_bytes record;
    sheaf_error ignored;
    SHEAF__TRY(sheaf__file_open(path, SHEAF__FILE_READ, &file, err));
    sheaf_status status = sheaf__file_size(file, &size, err);
    if (status >= 0 && size >= LAST)
        status = sheaf__file_read_at(file, size - LAST, bytes, LAST, &got, err);
    sheaf__file_close(file, NULL);
    struct sheaf__record_cursor c = {.data = bytes, .size = got};
    *whole = status >= 0 && got == LAST &&
             sheaf__framing_tfrecord.next(&c, &record, 1, &count, &ignored) == SHEAF_OK &&
             c.offset == LAST && record.data[0] == 'E';
    return status;
}

/* A line of what a pipeline is, in a message: stages come first, then the components of an element. `other`: what it
 * should be, or is. */
static const char *line_text(char text[160], sheaf_bytes line, sheaf_bytes other)
{
    const int size = line.size < 120 ? (int)line.size : 120;
    if (line.size == 0)
        snprintf(text, 160, "missing");
    else if (line.data[0] != '"')
        snprintf(text, 160, "\"%.*s\"", size, line.data);
    else if (other.size > 0 && other.data[0] != '"')
        snprintf(text, 160, "the end of the stages");
    else
        snprintf(text, 160, "the component %.*s", size, line.data);
    return text;
}

/* The line that begins at `at`, without its end; behind the last one it has no bytes. */
static sheaf_bytes line_at(sheaf_bytes text, size_t at)
{
    if (at >= text.size)
        return (sheaf_bytes){"", 0};
    const char *end = memchr(text.data + at, '\n', text.size - at);
    return (sheaf_bytes){text.data + at, end ? (size_t)(end - text.data) - at : text.size - at};
}

/* The first line in which what was found is not what was expected. */
static sheaf_status differs(sheaf_bytes found, sheaf_bytes expected,
                            const struct sheaf__place *place, sheaf_error *err)
{
    char one[160], two[160];
    sheaf_bytes a = line_at(found, 0), b = line_at(expected, 0);
    int line = 1;
    for (size_t at = 0; a.size > 0 && a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
         line++) {
        at += a.size + 1;
        a = line_at(found, at);
        b = line_at(expected, at);
    }
    return sheaf__error_at(err, SHEAF_ERR_FAILED_PRECONDITION, place,
                           "the cache is of another pipeline, of which line %d is %s, expected %s; "
                           "delete it or choose another file",
                           line, line_text(one, a, b), line_text(two, b, a));
}

static sheaf_status check_text(const struct sheaf__cache_reader *r, struct sheaf__cursor *c,
                               const char *what, sheaf_error *err)
{
    const sheaf_bytes expected = {what, strlen(what)};
    const uint8_t *magic, *text;
    size_t size;
    const struct sheaf__place place = {r->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    if (!sheaf__cursor_bytes(c, strlen(MAGIC), &magic) ||
        memcmp(magic, MAGIC, strlen(MAGIC)) != 0 || !sheaf__cursor_sized(c, &text, &size))
        return sheaf__error_at(err, SHEAF_ERR_FAILED_PRECONDITION, &place,
                               "the file for the cache is there, but no cache: expected none or "
                               "one that this version made");
    if (size == expected.size && memcmp(text, what, size) == 0)
        return SHEAF_OK;
    return differs((sheaf_bytes){(const char *)text, size}, expected, &place, err);
}

static sheaf_status open_file(struct sheaf__cache_reader *r, const char *what, sheaf_error *err)
{
    const struct sheaf__record_options options = {.compression = SHEAF_COMPRESSION_NONE};
    struct sheaf__cursor c = sheaf__cursor_of("", 0);
    struct sheaf__object *owner;
    bool whole;
    if (!r->path)
        return sheaf__no_memory(err, "a cache");
    if (!sheaf__file_exists(r->path))
        return SHEAF_END;
    SHEAF__TRY(sheaf__record_source_open(r->path, &options, &r->file, err));
    sheaf_status status = next_record(r, &c, &owner, err);
    if (status < 0 && status != SHEAF_ERR_DATA_LOSS)
        return status;
    if (status != SHEAF_END)
        SHEAF__TRY(check_text(r, &c, what, err));
    SHEAF__TRY(check_end(r->path, &whole, err));
    if (!whole) {
        sheaf__log(SHEAF_LOG_WARN, "cache %s: incomplete, it is discarded", r->path);
        status = sheaf__file_unlink(r->path, err);
        return status < 0 && status != SHEAF_ERR_NOT_FOUND ? status : SHEAF_END;
    }
    r->records = 1;
    return SHEAF_OK;
}

sheaf_status sheaf__cache_reader_open(const char *path, const char *what,
                                      struct sheaf__cache_reader **reader, sheaf_error *err)
{
    struct sheaf__cache_reader *r = sheaf__calloc(1, sizeof(*r));
    if (!r)
        return sheaf__no_memory(err, "a cache");
    r->path = sheaf__strdup(path);
    sheaf_status status = open_file(r, what, err);
    if (status == SHEAF_OK)
        *reader = r;
    else
        sheaf__cache_reader_free(r);
    return status;
}

static sheaf_status read_end(struct sheaf__cache_reader *r, struct sheaf__cursor *c,
                             sheaf_error *err)
{
    uint64_t rows, records;
    r->ended = true;
    if (!sheaf__cursor_fixed64(c, &rows) || !sheaf__cursor_fixed64(c, &records) ||
        rows != r->rows || records != r->records)
        return damaged(r, "there are more or fewer elements than were written", err);
    return SHEAF_END;
}

/* Whether the element is what `kind` and the number of rows say. */
static bool holds(const sheaf_element *e, uint8_t kind, uint64_t rows)
{
    bool right = e->count > 0;
    for (size_t i = 0; right && kind == 'S' && i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        right = t->layout == SHEAF__DENSE && t->shape.rank > 0 && !t->plain &&
                (uint64_t)t->shape.dims[0] == rows;
    }
    return right && (kind == 'S' || (kind == 'B' && rows == 1));
}

/* Takes up the element of the next record. */
static sheaf_status read_record(struct sheaf__cache_reader *r, sheaf_error *err)
{
    struct sheaf__cursor c;
    struct sheaf__object *owner;
    uint8_t kind;
    uint64_t rows;
    sheaf_status status = next_record(r, &c, &owner, err);
    if (status == SHEAF_END)
        return damaged(r, "it ends too early", err);
    if (status < 0)
        return status;
    if (!sheaf__cursor_byte(&c, &kind))
        return damaged(r, "a record is empty", err);
    if (kind == 'E')
        return read_end(r, &c, err);
    r->records++;
    sheaf_element *e = NULL;
    if (!sheaf__cursor_varint(&c, &rows))
        return damaged(r, "a record has no number of rows", err);
    status = sheaf__element_wire_get(&c, PHASE, owner, &e, err);
    if (status == SHEAF_ERR_DATA_LOSS)
        return damaged(r, "a record is no element", err);
    if (status >= 0 && !holds(e, kind, rows))
        status = damaged(r, "a record has other rows than it says", err);
    if (status < 0) {
        sheaf__unref(e);
        return status;
    }
    sheaf__unref(r->element);
    r->element = e;
    r->at = 0;
    r->count = (size_t)rows;
    r->boxed = kind == 'B';
    r->rows += rows;
    return SHEAF_OK;
}

sheaf_status sheaf__cache_reader_next(struct sheaf__cache_reader *r, size_t want,
                                      struct sheaf__rows *rows, sheaf_error *err)
{
    while (r->at == r->count) {
        sheaf_status status = r->ended ? SHEAF_END : read_record(r, err);
        if (status != SHEAF_OK)
            return status;
    }
    size_t left = r->count - r->at, n = left < want ? left : want;
    SHEAF__TRY(r->boxed ? sheaf__rows_put_boxed(rows, r->element, err)
                        : sheaf__rows_put_slices(rows, r->element, r->at, n, err));
    r->at += n;
    return SHEAF_OK;
}

void sheaf__cache_reader_free(struct sheaf__cache_reader *r)
{
    if (!r)
        return;
    sheaf__record_source_free(r->file);
    sheaf__unref(r->element);
    sheaf__free(r->path);
    sheaf__free(r);
}
