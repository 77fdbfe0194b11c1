/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "format/record.h"
#include "format/snappy.h"

#include <string.h>

#define BUFFER (256 * 1024)
#define LEVEL  2 /* of 0 (fastest) to 3 */

struct sheaf_record_writer {
    struct sheaf__file *file;
    struct sheaf__deflate *deflate; /* of GZIP and ZLIB */
    struct sheaf__snap *snap;       /* of SNAPPY */
    size_t used;                    /* bytes of `buffer` to write */
    sheaf_error failed;             /* the first failure: everything after it fails with it */
    uint8_t buffer[BUFFER];
};

static sheaf_status fail(sheaf_record_writer *w, const sheaf_error *cause, sheaf_error *err)
{
    sheaf__error_keep_first(&w->failed, cause);
    return sheaf__error_copy(err, &w->failed);
}

static sheaf_status write_out(sheaf_record_writer *w, sheaf_error *err)
{
    sheaf_error cause = {0};
    size_t used = w->used;
    w->used = 0;
    if (used && sheaf__file_write(w->file, w->buffer, used, &cause) < 0)
        return fail(w, &cause, err);
    return SHEAF_OK;
}

static sheaf_status put_plain(sheaf_record_writer *w, const void *data, size_t size,
                              sheaf_error *err)
{
    if (size > BUFFER - w->used)
        SHEAF__TRY(write_out(w, err));
    if (size > BUFFER) {
        sheaf_error cause = {0};
        if (sheaf__file_write(w->file, data, size, &cause) < 0)
            return fail(w, &cause, err);
        return SHEAF_OK;
    }
    if (size)
        memcpy(w->buffer + w->used, data, size);
    w->used += size;
    return SHEAF_OK;
}

static bool is_compressed(const sheaf_record_writer *w)
{
    return w->deflate || w->snap;
}

static sheaf_status pack(sheaf_record_writer *w, struct sheaf__zip_io *io, bool finish,
                         sheaf_error *err)
{
    return w->snap ? sheaf__snap_next(w->snap, io, finish)
                   : sheaf__deflate_next(w->deflate, io, finish, err);
}

/* Feeds the compressor; with `finish` until its last byte is out. */
static sheaf_status put_packed(sheaf_record_writer *w, const void *data, size_t size, bool finish,
                               sheaf_error *err)
{
    struct sheaf__zip_io io = {.in = data, .in_size = size};
    for (;;) {
        io.out = w->buffer + w->used;
        io.out_size = BUFFER - w->used;
        sheaf_error cause = {0};
        sheaf_status status = pack(w, &io, finish, &cause);
        if (status < 0)
            return fail(w, &cause, err);
        w->used = BUFFER - io.out_size;
        if (w->used == BUFFER)
            SHEAF__TRY(write_out(w, err));
        if (finish ? status == SHEAF_END : io.in_size == 0)
            return SHEAF_OK;
    }
}

static sheaf_status put(sheaf_record_writer *w, const void *data, size_t size, sheaf_error *err)
{
    return is_compressed(w) ? put_packed(w, data, size, false, err) : put_plain(w, data, size, err);
}

static void free_writer(sheaf_record_writer *w)
{
    sheaf__deflate_free(w->deflate);
    sheaf__snap_free(w->snap);
    sheaf__free(w);
}

static sheaf_status open_packer(sheaf_record_writer *w, sheaf_compression compression,
                                sheaf_error *err)
{
    if (compression < SHEAF_COMPRESSION_GZIP)
        return SHEAF_OK;
    if (compression == SHEAF_COMPRESSION_SNAPPY)
        return sheaf__snap_new(&w->snap, err);
    return sheaf__deflate_new(compression == SHEAF_COMPRESSION_GZIP ? SHEAF__ZIP_GZIP
                                                                    : SHEAF__ZIP_ZLIB,
                              LEVEL, &w->deflate, err);
}

sheaf_status sheaf__record_writer_open(const char *path, sheaf_compression compression,
                                       enum sheaf__file_mode mode, sheaf_record_writer **writer,
                                       sheaf_error *err)
{
    if (!path)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "no name of a file of records");
    if ((unsigned)compression > SHEAF_COMPRESSION_SNAPPY)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "compression is %d, expected 0 to %d (sheaf_compression)",
                            (int)compression, SHEAF_COMPRESSION_SNAPPY);
    sheaf_record_writer *w = sheaf__alloc(sizeof(*w));
    if (!w)
        return sheaf__no_memory(err, "writing records");
    memset(w, 0, offsetof(sheaf_record_writer, buffer));
    sheaf_status status = open_packer(w, compression, err);
    if (status >= 0)
        status = sheaf__file_open(path, mode, &w->file, err);
    if (status < 0) {
        free_writer(w);
        return status;
    }
    *writer = w;
    return SHEAF_OK;
}

sheaf_status sheaf_record_writer_open(const char *path, sheaf_compression compression,
                                      sheaf_record_writer **writer, sheaf_error *err)
{
    return sheaf__record_writer_open(path, compression, SHEAF__FILE_CREATE, writer, err);
}

sheaf_status sheaf_record_writer_put(sheaf_record_writer *w, sheaf_bytes record, sheaf_error *err)
{
    uint8_t header[SHEAF__RECORD_HEADER], footer[SHEAF__RECORD_FOOTER];
    if (!w || (!record.data && record.size))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the %s is NULL",
                            w ? "record" : "record writer");
    if (w->failed.status < 0)
        return sheaf__error_copy(err, &w->failed);
    sheaf__record_header(record.size, header);
    sheaf__record_footer(record.data, record.size, footer);
    /* A plain record that fits is handed over in one piece: others read the file meanwhile. */
    if (!is_compressed(w) && record.size + sizeof(header) + sizeof(footer) > BUFFER - w->used)
        SHEAF__TRY(write_out(w, err));
    SHEAF__TRY(put(w, header, sizeof(header), err));
    SHEAF__TRY(put(w, record.data, record.size, err));
    return put(w, footer, sizeof(footer), err);
}

sheaf_status sheaf__record_writer_flush(sheaf_record_writer *w, sheaf_error *err)
{
    if (w->failed.status < 0)
        return sheaf__error_copy(err, &w->failed);
    return write_out(w, err);
}

/* Everything that is still here goes to the file. */
static sheaf_status finish(sheaf_record_writer *w, sheaf_error *err)
{
    if (w->failed.status < 0)
        return sheaf__error_copy(err, &w->failed);
    if (is_compressed(w))
        SHEAF__TRY(put_packed(w, NULL, 0, true, err));
    return write_out(w, err);
}

sheaf_status sheaf__record_writer_commit(sheaf_record_writer *w, sheaf_error *err)
{
    sheaf_status status = finish(w, err);
    if (status >= 0)
        status = sheaf__file_commit(w->file, err);
    else
        sheaf__file_close(w->file, NULL);
    free_writer(w);
    return status;
}

sheaf_status sheaf_record_writer_close(sheaf_record_writer *w, bool sync, sheaf_error *err)
{
    if (!w)
        return SHEAF_OK;
    sheaf_status status = finish(w, err);
    if (status >= 0 && sync)
        status = sheaf__file_sync(w->file, err);
    sheaf_error ignored;
    sheaf_status closed = sheaf__file_close(w->file, status < 0 ? &ignored : err);
    free_writer(w);
    return status < 0 ? status : closed;
}
