/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_RECORD_H
#define SHEAF_RECORD_H

/** @file
 *  TFRecord files: length, CRC, data, CRC (formats.md). One thread at a time per reader or writer. */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

typedef enum sheaf_compression {
    SHEAF_COMPRESSION_AUTO = 0, /**< reader: by the first bytes; writer: none */
    SHEAF_COMPRESSION_NONE = 1,
    SHEAF_COMPRESSION_GZIP = 2,
    SHEAF_COMPRESSION_ZLIB = 3,
    SHEAF_COMPRESSION_SNAPPY = 4 /**< TensorFlow's: blocks behind their sizes */
} sheaf_compression;

typedef struct sheaf_record_reader sheaf_record_reader;
typedef struct sheaf_record_writer sheaf_record_writer;

/** Opens `path`. SHEAF_ERR_NOT_FOUND, SHEAF_ERR_IO: names the file. An empty file has no records. */
SHEAF_CHECKED sheaf_status sheaf_record_reader_open(const char *path, sheaf_compression compression,
                                                    sheaf_record_reader **reader, sheaf_error *err);
/** The next record, both CRCs checked; the bytes stay valid until the next call. SHEAF_END after the last.
 *  SHEAF_ERR_DATA_LOSS: names file, record number, offset and which CRC, or how many bytes are missing of a truncated
 *  record; after a bad CRC of the data the next call goes on with the next record, after a bad length it repeats. */
SHEAF_CHECKED sheaf_status sheaf_record_reader_next(sheaf_record_reader *reader,
                                                    sheaf_bytes *record, sheaf_error *err);
/** Number of the record that the next call reads, and its offset in the (uncompressed) stream. */
SHEAF_API uint64_t sheaf_record_reader_position(const sheaf_record_reader *reader,
                                                uint64_t *offset);
SHEAF_API void sheaf_record_reader_free(sheaf_record_reader *reader);

/** Creates or replaces `path`. */
SHEAF_CHECKED sheaf_status sheaf_record_writer_open(const char *path, sheaf_compression compression,
                                                    sheaf_record_writer **writer, sheaf_error *err);
SHEAF_CHECKED sheaf_status sheaf_record_writer_put(sheaf_record_writer *writer, sheaf_bytes record,
                                                   sheaf_error *err);
/** Flushes, syncs when asked, closes and frees, also on failure. */
SHEAF_CHECKED sheaf_status sheaf_record_writer_close(sheaf_record_writer *writer, bool sync,
                                                     sheaf_error *err);

SHEAF_END_DECLS

#endif
