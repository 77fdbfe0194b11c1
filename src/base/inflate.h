/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_INFLATE_H
#define SHEAF_BASE_INFLATE_H

/* GZIP (RFC 1952) and ZLIB (RFC 1950) as streams, both ways. One stream by one thread at a time. */

#include <sheaf/status.h>

enum sheaf__zip {
    SHEAF__ZIP_GZIP,
    SHEAF__ZIP_ZLIB,
    SHEAF__ZIP_DEFLATE, /* bare, read as one of gzip that its caller makes of it: errors do not speak of gzip */
};

/* Decompression. Several gzip members after each other read as one, as gunzip does; zlib streams
 * too. */
struct sheaf__inflate;
struct sheaf__deflate;

sheaf_status sheaf__inflate_new(enum sheaf__zip kind, struct sheaf__inflate **z, sheaf_error *err);
void sheaf__inflate_free(struct sheaf__inflate *z);
/* Input and output as windows that the call moves on. */
struct sheaf__zip_io {
    const uint8_t *in;
    size_t in_size;
    uint8_t *out;
    size_t out_size;
};
/* Goes on until the output is full, the input is empty or a member ends with no input after it:
 * SHEAF_END then (more input may start another member), SHEAF_OK before. SHEAF_ERR_DATA_LOSS: says
 * what is wrong and at which byte of the compressed input. */
sheaf_status sheaf__inflate_next(struct sheaf__inflate *z, struct sheaf__zip_io *io,
                                 sheaf_error *err);
/* True between members: the input may end here. Otherwise it is truncated. */
bool sheaf__inflate_at_end(const struct sheaf__inflate *z);
/* Back to the state of a new stream. */
void sheaf__inflate_reset(struct sheaf__inflate *z);

/* Compression. `level` 0 (fastest) to 3. */
sheaf_status sheaf__deflate_new(enum sheaf__zip kind, int level, struct sheaf__deflate **z,
                                sheaf_error *err);
void sheaf__deflate_free(struct sheaf__deflate *z);
/* Takes all input as far as the output has room; with `finish`, SHEAF_END when the last byte is
 * out. Call again with more room while it returns SHEAF_OK and input is left or `finish` is set. */
sheaf_status sheaf__deflate_next(struct sheaf__deflate *z, struct sheaf__zip_io *io, bool finish,
                                 sheaf_error *err);

/* CRC-32 as gzip and ZIP have it: goes on from `crc`, 0 at the start. */
uint32_t sheaf__crc32_extend(uint32_t crc, const void *data, size_t size);

#endif
