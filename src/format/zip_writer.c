/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/inflate.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/zip.h"

#include <string.h>

#define WINDOW    (64 << 10)
#define LARGE     0x7fffffffU /* what is more is written as ZIP64 in the directory, as Python does */
#define HEAD_SIZE 10          /* of gzip, which deflated members do without; likewise */
#define TAIL_SIZE 8

struct sheaf__zip_writer {
    struct sheaf__file *file;
    uint64_t size; /* written so far */
    struct sheaf__buf directory;
    uint64_t count;
    /* The member that is being written. */
    char *name;
    uint64_t start; /* of its header */
    uint64_t bytes, packed;
    uint32_t crc;
    struct sheaf__deflate *deflate; /* NULL: it is stored */
    uint8_t *window;                /* compressed bytes; the last TAIL_SIZE are kept back */
    size_t filled;
    size_t skip; /* bytes of gzip's head that are still to come */
};

static void end_member(struct sheaf__zip_writer *w)
{
    sheaf__deflate_free(w->deflate);
    sheaf__free(w->name);
    w->deflate = NULL;
    w->name = NULL;
}

void sheaf__zip_writer_free(struct sheaf__zip_writer *w)
{
    if (!w)
        return;
    if (w->file)
        (void)sheaf__file_close(w->file, NULL); /* drops it: it was not committed */
    end_member(w);
    sheaf__buf_free(&w->directory);
    sheaf__free(w->window);
    sheaf__free(w);
}

sheaf_status sheaf__zip_writer_open(const char *path, struct sheaf__zip_writer **writer,
                                    sheaf_error *err)
{
    struct sheaf__zip_writer *w = sheaf__calloc(1, sizeof(*w));
    if (!w)
        return sheaf__no_memory(err, "an archive");
    sheaf_status status = sheaf__file_open(path, SHEAF__FILE_REPLACE, &w->file, err);
    if (status < 0) {
        sheaf__zip_writer_free(w);
        return status;
    }
    *writer = w;
    return SHEAF_OK;
}

static sheaf_status append(struct sheaf__zip_writer *w, const void *data, size_t size,
                           sheaf_error *err)
{
    SHEAF__TRY(sheaf__file_write_at(w->file, w->size, data, size, err));
    w->size += size;
    return SHEAF_OK;
}

static void put16(struct sheaf__buf *b, unsigned value)
{
    sheaf__buf_byte(b, (uint8_t)value);
    sheaf__buf_byte(b, (uint8_t)(value >> 8));
}

/* What a member's header and its entry in the directory have in common. */
static void put_kind(struct sheaf__buf *b, const struct sheaf__zip_writer *w)
{
    bool ascii = true;
    for (const char *c = w->name; *c; c++)
        ascii &= (uint8_t)*c < 0x80;
    put16(b, 45); /* the version that knows ZIP64 */
    put16(b, ascii ? 0 : 0x800);
    put16(b, w->deflate ? 8 : 0);
    put16(b, 0);          /* midnight */
    put16(b, 1 << 5 | 1); /* of the first of January 1980 */
    sheaf__buf_fixed32(b, w->crc);
}

/* The header is written twice: to keep its place, and when it is known. */
static void put_header(struct sheaf__buf *b, const struct sheaf__zip_writer *w)
{
    sheaf__buf_bytes(b, "PK\3\4", 4);
    put_kind(b, w);
    sheaf__buf_fixed32(b, UINT32_MAX);
    sheaf__buf_fixed32(b, UINT32_MAX);
    put16(b, (unsigned)strlen(w->name));
    put16(b, 20);
    sheaf__buf_bytes(b, w->name, strlen(w->name));
    put16(b, 1); /* ZIP64 */
    put16(b, 16);
    sheaf__buf_fixed64(b, w->bytes);
    sheaf__buf_fixed64(b, w->packed);
}

static void put_entry(struct sheaf__buf *b, const struct sheaf__zip_writer *w)
{
    const bool large = w->bytes > LARGE || w->packed > LARGE, far = w->start > LARGE;
    const unsigned extra = (large ? 16U : 0) + (far ? 8U : 0);
    sheaf__buf_bytes(b, "PK\1\2", 4);
    put16(b, 45 | 3 << 8); /* written on Unix */
    put_kind(b, w);
    sheaf__buf_fixed32(b, large ? UINT32_MAX : (uint32_t)w->packed);
    sheaf__buf_fixed32(b, large ? UINT32_MAX : (uint32_t)w->bytes);
    put16(b, (unsigned)strlen(w->name));
    put16(b, extra ? extra + 4 : 0);
    put16(b, 0); /* no comment, first disk, no attributes but the permissions 0600 */
    put16(b, 0);
    put16(b, 0);
    sheaf__buf_fixed32(b, 0600U << 16);
    sheaf__buf_fixed32(b, far ? UINT32_MAX : (uint32_t)w->start);
    sheaf__buf_bytes(b, w->name, strlen(w->name));
    if (extra) {
        put16(b, 1);
        put16(b, extra);
    }
    if (large) {
        sheaf__buf_fixed64(b, w->bytes);
        sheaf__buf_fixed64(b, w->packed);
    }
    if (far)
        sheaf__buf_fixed64(b, w->start);
}

static sheaf_status write_header(struct sheaf__zip_writer *w, sheaf_error *err)
{
    struct sheaf__buf header = {0};
    put_header(&header, w);
    sheaf_status status = sheaf__buf_check(&header, "an archive", err);
    if (status >= 0)
        status = sheaf__file_write_at(w->file, w->start, header.data, header.size, err);
    if (status >= 0 && w->size == w->start)
        w->size += header.size;
    sheaf__buf_free(&header);
    return status;
}

sheaf_status sheaf__zip_writer_begin(struct sheaf__zip_writer *w, const char *name, bool deflate,
                                     sheaf_error *err)
{
    end_member(w);
    if (strlen(name) > UINT16_MAX || !sheaf__str_is_utf8(name, strlen(name)))
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "'%.60s' cannot name a member of an archive: it is longer than 65535 bytes "
            "or not UTF-8",
            name);
    if (deflate) {
        SHEAF__TRY(sheaf__deflate_new(SHEAF__ZIP_GZIP, 3, &w->deflate, err));
        if (!w->window && !(w->window = sheaf__alloc(WINDOW)))
            return sheaf__no_memory(err, "an archive");
    }
    w->name = sheaf__strdup(name);
    if (!w->name)
        return sheaf__no_memory(err, "an archive");
    w->start = w->size;
    w->bytes = w->packed = 0;
    w->crc = 0;
    w->filled = 0;
    w->skip = HEAD_SIZE;
    return write_header(w, err);
}

/* Writes what was compressed, but for the last bytes, which may be gzip's tail. */
static sheaf_status flush(struct sheaf__zip_writer *w, sheaf_error *err)
{
    if (w->filled <= TAIL_SIZE)
        return SHEAF_OK;
    const size_t ready = w->filled - TAIL_SIZE;
    const size_t skip = ready < w->skip ? ready : w->skip;
    SHEAF__TRY(append(w, w->window + skip, ready - skip, err));
    w->skip -= skip;
    w->packed += ready - skip;
    memmove(w->window, w->window + ready, TAIL_SIZE);
    w->filled = TAIL_SIZE;
    return SHEAF_OK;
}

static sheaf_status put_deflated(struct sheaf__zip_writer *w, const void *data, size_t size,
                                 bool finish, sheaf_error *err)
{
    struct sheaf__zip_io io = {.in = data, .in_size = size};
    for (;;) {
        io.out = w->window + w->filled;
        io.out_size = WINDOW - w->filled;
        const sheaf_status status = sheaf__deflate_next(w->deflate, &io, finish, err);
        if (status < 0)
            return status;
        w->filled = WINDOW - io.out_size;
        SHEAF__TRY(flush(w, err));
        if (status == SHEAF_END || (!finish && io.in_size == 0))
            return SHEAF_OK;
    }
}

sheaf_status sheaf__zip_writer_put(struct sheaf__zip_writer *w, const void *data, size_t size,
                                   sheaf_error *err)
{
    w->crc = sheaf__crc32_extend(w->crc, data, size);
    w->bytes += size;
    if (w->deflate)
        return put_deflated(w, data, size, false, err);
    w->packed += size;
    return append(w, data, size, err);
}

sheaf_status sheaf__zip_writer_end(struct sheaf__zip_writer *w, sheaf_error *err)
{
    if (w->deflate)
        SHEAF__TRY(put_deflated(w, "", 0, true, err));
    SHEAF__TRY(write_header(w, err));
    put_entry(&w->directory, w);
    w->count++;
    end_member(w);
    return SHEAF_OK;
}

/* The end of the directory. */
static void put_end(struct sheaf__buf *b, const struct sheaf__zip_writer *w)
{
    const uint64_t size = b->size;
    const bool large = w->count > UINT16_MAX || size > LARGE || w->size > LARGE;
    if (large) {
        sheaf__buf_bytes(b, "PK\6\6", 4);
        sheaf__buf_fixed64(b, 44);
        put16(b, 45);
        put16(b, 45);
        sheaf__buf_fixed64(b, 0);
        sheaf__buf_fixed64(b, w->count);
        sheaf__buf_fixed64(b, w->count);
        sheaf__buf_fixed64(b, size);
        sheaf__buf_fixed64(b, w->size);
        sheaf__buf_bytes(b, "PK\6\7", 4);
        sheaf__buf_fixed32(b, 0);
        sheaf__buf_fixed64(b, w->size + size);
        sheaf__buf_fixed32(b, 1);
    }
    sheaf__buf_bytes(b, "PK\5\6", 4);
    sheaf__buf_fixed32(b, 0);
    put16(b, w->count > UINT16_MAX ? UINT16_MAX : (unsigned)w->count);
    put16(b, w->count > UINT16_MAX ? UINT16_MAX : (unsigned)w->count);
    sheaf__buf_fixed32(b, size > UINT32_MAX ? UINT32_MAX : (uint32_t)size);
    sheaf__buf_fixed32(b, w->size > UINT32_MAX ? UINT32_MAX : (uint32_t)w->size);
    put16(b, 0);
}

sheaf_status sheaf__zip_writer_finish(struct sheaf__zip_writer *w, sheaf_error *err)
{
    put_end(&w->directory, w);
    sheaf_status status = sheaf__buf_check(&w->directory, "the directory of an archive", err);
    if (status >= 0)
        status = append(w, w->directory.data, w->directory.size, err);
    if (status >= 0) {
        status = sheaf__file_commit(w->file, err);
        w->file = NULL;
    }
    sheaf__zip_writer_free(w);
    return status;
}
