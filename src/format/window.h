/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_WINDOW_H
#define SHEAF_FORMAT_WINDOW_H

/* A file as one stream of bytes, whatever it is: mapped; or, where it is compressed or cannot be
 * mapped (a network file system, a pipe), read in counted chunks.
 *
 * What is at hand is a window of the stream. A reader walks it, and asks for more from the first
 * byte that it still needs on. A file that has lost bytes by then is an error, SHEAF_ERR_DATA_LOSS.
 * One thread at a time. */

#include "base/file_maps.h"

#include <sheaf/record.h>

#define SHEAF__WINDOW_HEAD 64 /* bytes that tell how a file is compressed */

/* For reading only. */
struct sheaf__window {
    const uint8_t *data; /* bytes from stream offset `base` on */
    size_t size;
    uint64_t base;
    bool more;                   /* the stream may go on behind them */
    struct sheaf__object *owner; /* of these bytes: sheaf__ref() it for longer than the next call */
    char *path;
};

struct sheaf__window_options {
    sheaf_compression compression;
    /* What AUTO is, by the first bytes of a file; NULL: not compressed. */
    sheaf_compression (*sniff)(const uint8_t *head, size_t size);
    size_t chunk; /* reads in chunks of so many bytes even what could be mapped; 0: as is best */
    bool lax;     /* a compressed stream may end where TensorFlow does not mind */
    struct sheaf__file_maps
        *maps; /* where a mapped file's is kept, and may be found; NULL: nowhere */
};

/* A sniff for text: none starts like a gzip file. What starts like a zlib stream may be text: "x^2". */
sheaf_compression sheaf__window_sniff_text(const uint8_t *head, size_t size);

sheaf_status sheaf__window_open(const char *path, const struct sheaf__window_options *options,
                                struct sheaf__window **window, sheaf_error *err);
void sheaf__window_free(struct sheaf__window *s);
/* Drops the bytes before offset `from` (within the window or at its end) and reads on. Call it while
 * `more`, until it is false or there is enough; `need` is how many bytes the reader knows to want,
 * at least 1. An error is one of the file, at the end of what could be read, and stays. */
sheaf_status sheaf__window_more(struct sheaf__window *s, uint64_t from, uint64_t need,
                                sheaf_error *err);
/* A window at `offset`, which may be empty: anywhere in a plain file, only at 0 in a compressed
 * one. SHEAF_ERR_DATA_LOSS: the file ends before. FAILED_PRECONDITION: a pipe, of which
 * more than its first bytes was read. */
sheaf_status sheaf__window_seek(struct sheaf__window *s, uint64_t offset, sheaf_error *err);
/* Bytes of the whole stream; SHEAF__UNKNOWN of a compressed one and of a pipe. */
sheaf_status sheaf__window_total(struct sheaf__window *s, uint64_t *size, sheaf_error *err);
/* The first byte of the window begins record `record`: for sheaf__window_origin(). */
void sheaf__window_count(struct sheaf__window *s, uint64_t record);
/* Where bytes came from that an owner keeps. */
struct sheaf__origin {
    const char *path;
    const uint8_t
        *data; /* a piece of the file, from stream offset `base` on, where `record` begins */
    size_t size;
    uint64_t base, record;
};
/* False: it is no window's owner, or does not keep that address. */
bool sheaf__window_origin(const struct sheaf__object *owner, const void *address,
                          struct sheaf__origin *origin);
/* Whether only reading from the start on leads to an offset. */
bool sheaf__window_is_compressed(const struct sheaf__window *s);

#endif
