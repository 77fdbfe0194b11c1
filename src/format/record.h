/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_RECORD_H
#define SHEAF_FORMAT_RECORD_H

/* Records of a file for the library: many a call, as views.
 *
 * How records lie in the bytes is a framing: TFRecord's (formats.md 2), lines of text, fixed size. A
 * cursor walks bytes in memory by one. sheaf__record_source reads a file, whatever it is (see
 * format/window.h). Both hand out blocks of views that one owner keeps alive. */

#include "base/error.h"
#include "base/file_maps.h"

#include <sheaf/record.h>

#define SHEAF__RECORD_HEADER 12 /* length and its CRC */
#define SHEAF__RECORD_FOOTER 4  /* CRC of the data */

/* Writes the 12 bytes before `size` bytes of data, and the 4 bytes after them. */
void sheaf__record_header(uint64_t size, uint8_t header[SHEAF__RECORD_HEADER]);
void sheaf__record_footer(const void *data, size_t size, uint8_t footer[SHEAF__RECORD_FOOTER]);

struct sheaf__record_cursor;

/* What a framing does with a cursor. */
struct sheaf__framing {
    /* Up to `capacity` records as views into the data; `*count` is how many. SHEAF_OK with at least
     * one; SHEAF_END (no record left) and SHEAF_PENDING (`more` is set and the next record is not
     * whole) with none. Errors come alone, after the good records before them: what was found, what
     * was expected, file, number of the record, offset. */
    sheaf_status (*next)(struct sheaf__record_cursor *c, sheaf_bytes *records, size_t capacity,
                         size_t *count, sheaf_error *err);
    /* Steps over up to `count` records without a look at their data; `*skipped` is how many. As
     * above. */
    sheaf_status (*skip)(struct sheaf__record_cursor *c, uint64_t count, uint64_t *skipped,
                         sheaf_error *err);
    /* Bytes that the next record needs in all, or as many as tell how many. For SHEAF_PENDING. */
    uint64_t (*need)(const struct sheaf__record_cursor *c);
    /* How a file is compressed, by its first bytes; NULL: they do not tell. */
    sheaf_compression (*sniff)(const uint8_t *head, size_t size);
    /* Whether a file of `total` bytes can hold records; NULL: any can. */
    sheaf_status (*check)(const struct sheaf__record_cursor *c, uint64_t total, sheaf_error *err);
};

/* Length, CRC, data, CRC. After a bad CRC of the data the cursor stands behind that record; after any
 * other error it stays. */
extern const struct sheaf__framing sheaf__framing_tfrecord;
/* Lines, as TensorFlow's text lines (R9.34): they end at LF, a last one may lack it, every CR is
 * dropped. */
extern const struct sheaf__framing sheaf__framing_lines;
/* Records of one size between a header and a footer (R9.35). */
extern const struct sheaf__framing sheaf__framing_fixed;

struct sheaf__fixed {
    uint64_t size;           /* of a record, at least 1 */
    uint64_t header, footer; /* bytes before the first and after the last record */
};

/* Bytes with records. Set the fields and start. */
struct sheaf__record_cursor {
    const uint8_t *data; /* bytes from stream offset `base` on */
    size_t size;
    uint64_t base;
    uint64_t offset; /* of the next record in the stream */
    uint64_t record; /* its number */
    const char *path;
    bool more;       /* the stream goes on after `size`: what is cut is not yet an error */
    bool lax;        /* TFRecord: 1..11 bytes after the last record are an end, as in TensorFlow */
    bool skip_check; /* TFRecord: the CRC of the data is not computed */
    struct sheaf__fixed fixed; /* of fixed size */
    struct sheaf__object
        *copy; /* lines: counted; owner of the views of the last call, if not the data's */
};

static inline const uint8_t *sheaf__record_cursor_at(const struct sheaf__record_cursor *c)
{
    return c->data + (c->offset - c->base);
}
static inline size_t sheaf__record_cursor_left(const struct sheaf__record_cursor *c)
{
    return c->size - (size_t)(c->offset - c->base);
}
static inline struct sheaf__place sheaf__record_cursor_place(const struct sheaf__record_cursor *c)
{
    return (struct sheaf__place){c->path, c->record, c->offset};
}

struct sheaf__record_source;

struct sheaf__record_options {
    const struct sheaf__framing *framing; /* NULL: TFRecord */
    sheaf_compression compression;        /* AUTO: by the first bytes */
    bool lax;                             /* as above; each use is counted ("record.partial") */
    bool skip_check;
    size_t chunk; /* reads in chunks of so many bytes even what could be mapped; 0: as is best */
    struct sheaf__fixed fixed;
    struct sheaf__file_maps *maps; /* as in sheaf__window_options */
};

/* Opens a file; `options` may be NULL. One thread at a time. */
sheaf_status sheaf__record_source_open(const char *path,
                                       const struct sheaf__record_options *options,
                                       struct sheaf__record_source **source, sheaf_error *err);
void sheaf__record_source_free(struct sheaf__record_source *s);
/* The next block: as the framing's next, never SHEAF_PENDING. `*owner` keeps the views
 * alive: borrowed until the next call, sheaf__ref() it for longer. */
sheaf_status sheaf__record_source_next(struct sheaf__record_source *s, sheaf_bytes *records,
                                       size_t capacity, size_t *count, struct sheaf__object **owner,
                                       sheaf_error *err);
sheaf_status sheaf__record_source_skip(struct sheaf__record_source *s, uint64_t count,
                                       uint64_t *skipped, sheaf_error *err);
/* Number of the next record, and its offset in the uncompressed stream. */
uint64_t sheaf__record_source_position(const struct sheaf__record_source *s, uint64_t *offset);
/* Bytes of the stream from the next record on. Nothing can be read after that. */
uint64_t sheaf__record_source_rest(struct sheaf__record_source *s);
/* Goes to a position that was given out before: at once in a plain file, by reading from the start
 * in a compressed one. SHEAF_ERR_DATA_LOSS: the stream ends before. */
sheaf_status sheaf__record_source_seek(struct sheaf__record_source *s, uint64_t record,
                                       uint64_t offset, sheaf_error *err);

/* As sheaf_record_writer_open(), in a file opened in `mode` (CREATE, NEW or REPLACE). */
sheaf_status sheaf__record_writer_open(const char *path, sheaf_compression compression,
                                       enum sheaf__file_mode mode, sheaf_record_writer **writer,
                                       sheaf_error *err);
/* Hands all whole records to the operating system. Plain files only. */
sheaf_status sheaf__record_writer_flush(sheaf_record_writer *w, sheaf_error *err);

/* For REPLACE: as sheaf_record_writer_close(), and puts the file in place, durably; close alone drops
 * it. */
sheaf_status sheaf__record_writer_commit(sheaf_record_writer *w, sheaf_error *err);

#endif
