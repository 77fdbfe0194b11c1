/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_SNAPPY_H
#define SHEAF_FORMAT_SNAPPY_H

/* Raw Snappy blocks (formats.md 2.4), and files of them as TensorFlow makes them (2.3): before each
 * block its size in four bytes, high byte first. Any thread; a stream by one at a time. */

#include "base/inflate.h"

/* The size that a block claims to have when decoded; false if it has no such field, or if the block
 * is too short for it by any coding, so that it is safe to allocate. */
bool sheaf__snappy_size(const uint8_t *block, size_t size, size_t *decoded);
/* Decodes into exactly `decoded` bytes; false if the block is corrupt. */
bool sheaf__snappy_decode(const uint8_t *block, size_t size, uint8_t *out, size_t decoded);
/* The first `want` decoded bytes of a block of which the end may be missing; false if it is no such
 * block or has fewer. */
bool sheaf__snappy_peek(const uint8_t *block, size_t size, uint8_t *out, size_t want);

/* Most bytes that a block of `size` bytes takes. */
size_t sheaf__snappy_bound(size_t size);
/* Encodes into `out` (of sheaf__snappy_bound() bytes), returns how many. `table` is room to work
 * in. */
#define SHEAF__SNAPPY_TABLE (1 << 14)
size_t sheaf__snappy_encode(const uint8_t *data, size_t size, uint8_t *out,
                            uint16_t table[SHEAF__SNAPPY_TABLE]);

/* A file of blocks, read and written through windows as base/inflate.h does. */
struct sheaf__unsnap;
struct sheaf__snap;

sheaf_status sheaf__unsnap_new(struct sheaf__unsnap **z, sheaf_error *err);
void sheaf__unsnap_free(struct sheaf__unsnap *z);
/* As sheaf__inflate_next(): SHEAF_END between blocks, SHEAF_OK within one. */
sheaf_status sheaf__unsnap_next(struct sheaf__unsnap *z, struct sheaf__zip_io *io,
                                sheaf_error *err);
bool sheaf__unsnap_at_end(const struct sheaf__unsnap *z);
/* Within the size before a block, where a file must not end, but TensorFlow does not mind. */
bool sheaf__unsnap_at_size(const struct sheaf__unsnap *z);
void sheaf__unsnap_reset(struct sheaf__unsnap *z);

/* Blocks of at most 256 KiB of data, the most that TensorFlow reads. */
sheaf_status sheaf__snap_new(struct sheaf__snap **z, sheaf_error *err);
void sheaf__snap_free(struct sheaf__snap *z);
/* As sheaf__deflate_next(). */
sheaf_status sheaf__snap_next(struct sheaf__snap *z, struct sheaf__zip_io *io, bool finish);

#endif
