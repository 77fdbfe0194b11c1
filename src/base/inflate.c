/* SPDX-License-Identifier: Apache-2.0 */
#include "base/inflate.h"

#include "base/error.h"
#include "base/mem.h"

#include <inttypes.h>
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <string.h>

/* ISA-L's windows are 32 bits wide, and its pointers have no const though it only reads. */
static uint32_t window(size_t size)
{
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static uint8_t *readable(const uint8_t *data)
{
    return (uint8_t *)(uintptr_t)data;
}

/* ---- decompression ---- */

struct sheaf__inflate {
    struct inflate_state state;
    enum sheaf__zip kind;
    uint64_t consumed; /* compressed bytes so far */
    bool between;      /* no member is open */
    /* Bytes that ISA-L had taken in when a member ended, which belong to the next one. */
    uint8_t carry[8];
    size_t carry_size;
    /* Headers are read here: when one comes in pieces, ISA-L 2.30 misses zlib's preset dictionary and
     * forgets gzip's flags. */
    uint8_t header[10];
    size_t header_size;
    int part;           /* of gzip's optional parts, the one that is being read */
    uint32_t part_read; /* bytes of it that were read */
};

/* gzip's optional parts in their order (RFC 1952, 2.3.1). */
enum { GZIP_EXTRA_SIZE, GZIP_EXTRA, GZIP_NAME, GZIP_COMMENT, GZIP_CRC, GZIP_PARTS };

static void start_member(struct sheaf__inflate *z)
{
    isal_inflate_init(&z->state);
    z->state.crc_flag = z->kind == SHEAF__ZIP_ZLIB ? ISAL_ZLIB_NO_HDR_VER : ISAL_GZIP_NO_HDR_VER;
    z->header_size = 0;
    z->part = 0;
    z->part_read = 0;
    z->between = true;
}

/* Saves what is left in the bit buffer after the trailer of a member, and in front of what was
 * carried. */
static void end_member(struct sheaf__inflate *z, size_t unread)
{
    size_t size = (size_t)(z->state.read_in_length > 0 ? z->state.read_in_length : 0) / 8;
    uint64_t bits = z->state.read_in;
    memmove(z->carry + size, z->carry + z->carry_size - unread, unread);
    for (size_t i = 0; i < size; i++, bits >>= 8)
        z->carry[i] = (uint8_t)bits;
    z->carry_size = size + unread;
    start_member(z);
}

sheaf_status sheaf__inflate_new(enum sheaf__zip kind, struct sheaf__inflate **z, sheaf_error *err)
{
    struct sheaf__inflate *made = sheaf__alloc(sizeof(*made));
    if (!made)
        return sheaf__no_memory(err, "decompression");
    made->kind = kind;
    sheaf__inflate_reset(made);
    *z = made;
    return SHEAF_OK;
}

void sheaf__inflate_free(struct sheaf__inflate *z)
{
    sheaf__free(z);
}

void sheaf__inflate_reset(struct sheaf__inflate *z)
{
    z->consumed = 0;
    z->carry_size = 0;
    start_member(z);
}

bool sheaf__inflate_at_end(const struct sheaf__inflate *z)
{
    return z->between && z->carry_size == 0;
}

static sheaf_status bad_data(const struct sheaf__inflate *z, int code, sheaf_error *err)
{
    static const char *const names[] = {"gzip", "zlib", "deflate"};
    const char *what = "the data are damaged";
    if (code == ISAL_INVALID_WRAPPER)
        what = "the header is none";
    else if (code == ISAL_UNSUPPORTED_METHOD)
        what = "the header names an unknown method";
    else if (code == ISAL_INCORRECT_CHECKSUM)
        what = "the checksum does not fit the data";
    else if (code == ISAL_NEED_DICT)
        what = "the stream needs a preset dictionary";
    /* A bare stream's head is its caller's, and as short as gzip allows. */
    const uint64_t head = z->kind == SHEAF__ZIP_DEFLATE ? 10 : 0;
    const uint64_t at = z->consumed > head ? z->consumed - head : 0;
    struct sheaf__place where = {NULL, SHEAF__UNKNOWN, at};
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &where,
                           "bad %s stream: %s, near compressed byte %" PRIu64, names[z->kind], what,
                           at);
}

static uint8_t next_byte(struct sheaf__inflate *z, struct sheaf__zip_io *io)
{
    z->consumed++;
    if (z->carry_size > 0) {
        uint8_t byte = z->carry[0];
        memmove(z->carry, z->carry + 1, --z->carry_size);
        return byte;
    }
    io->in_size--;
    return *io->in++;
}

/* The two bytes before a zlib stream (RFC 1950, 2.2); ISAL_END_INPUT if they are not here yet. */
static int read_zlib_header(struct sheaf__inflate *z, struct sheaf__zip_io *io)
{
    while (z->header_size < 2) {
        if (z->carry_size + io->in_size == 0)
            return ISAL_END_INPUT;
        z->header[z->header_size++] = next_byte(z, io);
    }
    if ((z->header[0] * 256 + z->header[1]) % 31 != 0)
        return ISAL_INVALID_WRAPPER;
    if ((z->header[0] & 15) != 8 || z->header[0] >> 4 > 7)
        return ISAL_UNSUPPORTED_METHOD;
    return z->header[1] & 32 ? ISAL_NEED_DICT : ISAL_DECOMP_OK;
}

static bool has_input(const struct sheaf__inflate *z, const struct sheaf__zip_io *io)
{
    return z->carry_size + io->in_size > 0;
}

/* The ten bytes that every gzip member begins with. */
static int read_gzip_start(struct sheaf__inflate *z, struct sheaf__zip_io *io)
{
    static const uint8_t begin[] = {0x1f, 0x8b, 8};
    while (z->header_size < 10) {
        if (!has_input(z, io))
            return ISAL_END_INPUT;
        const size_t i = z->header_size++;
        z->header[i] = next_byte(z, io);
        if (i < sizeof(begin) && z->header[i] != begin[i])
            return i == 2 ? ISAL_UNSUPPORTED_METHOD : ISAL_INVALID_WRAPPER;
    }
    return z->header[3] & 0xe0 ? ISAL_INVALID_WRAPPER : ISAL_DECOMP_OK;
}

/* Bytes of an optional part that has a size; 0 for texts, which end with a zero. */
static uint32_t part_size(const struct sheaf__inflate *z)
{
    if (z->part == GZIP_EXTRA)
        return z->header[8] | (uint32_t)z->header[9] << 8;
    return z->part == GZIP_EXTRA_SIZE || z->part == GZIP_CRC ? 2 : 0;
}

static bool has_part(const struct sheaf__inflate *z)
{
    static const uint8_t flags[GZIP_PARTS] = {4, 4, 8, 16, 2};
    return z->header[3] & flags[z->part] && (z->part != GZIP_EXTRA || part_size(z) > 0);
}

/* What may follow them; the size of the extra part is kept in the last two bytes of the header. */
static int read_gzip_header(struct sheaf__inflate *z, struct sheaf__zip_io *io)
{
    int code = read_gzip_start(z, io);
    while (code == ISAL_DECOMP_OK && z->part < GZIP_PARTS) {
        if (!has_part(z)) {
            z->part++;
            continue;
        }
        if (!has_input(z, io))
            return ISAL_END_INPUT;
        const uint8_t byte = next_byte(z, io);
        if (z->part == GZIP_EXTRA_SIZE)
            z->header[8 + z->part_read] = byte;
        z->part_read++;
        const bool text = z->part == GZIP_NAME || z->part == GZIP_COMMENT;
        if (text ? byte == 0 : z->part_read == part_size(z)) {
            z->part_read = 0;
            z->part++;
        }
    }
    return code;
}

/* True while the header of the member is not complete. */
static bool in_header(const struct sheaf__inflate *z)
{
    return z->kind == SHEAF__ZIP_ZLIB ? z->header_size < 2
                                      : z->header_size < 10 || z->part < GZIP_PARTS;
}

/* One call of ISA-L: the carried bytes first, then the caller's window. */
static int step(struct sheaf__inflate *z, struct sheaf__zip_io *io)
{
    struct inflate_state *s = &z->state;
    bool carried = z->carry_size > 0;
    uint32_t in = carried ? (uint32_t)z->carry_size : window(io->in_size);
    uint32_t out = window(io->out_size);
    s->next_in = carried ? z->carry : readable(io->in);
    s->avail_in = in;
    s->next_out = io->out;
    s->avail_out = out;
    int code = isal_inflate(s);
    size_t used = in - s->avail_in;
    z->consumed += used;
    if (!carried) {
        io->in += used;
        io->in_size -= used;
    }
    io->out += out - s->avail_out;
    io->out_size -= out - s->avail_out;
    size_t unread = carried ? s->avail_in : 0;
    if (s->block_state == ISAL_BLOCK_FINISH && code == ISAL_DECOMP_OK) {
        end_member(z, unread);
        z->consumed -= z->carry_size - unread;
    } else if (carried) {
        memmove(z->carry, z->carry + used, unread);
        z->carry_size = unread;
    }
    return code;
}

sheaf_status sheaf__inflate_next(struct sheaf__inflate *z, struct sheaf__zip_io *io,
                                 sheaf_error *err)
{
    for (;;) {
        if (z->between && z->carry_size + io->in_size == 0)
            return SHEAF_END;
        z->between = false;
        int code = ISAL_DECOMP_OK;
        if (in_header(z))
            code = z->kind == SHEAF__ZIP_ZLIB ? read_zlib_header(z, io) : read_gzip_header(z, io);
        if (code == ISAL_DECOMP_OK)
            code = step(z, io);
        if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT)
            return bad_data(z, code, err);
        if (!z->between && (io->out_size == 0 || z->carry_size + io->in_size == 0))
            return SHEAF_OK;
    }
}

/* ---- compression ---- */

struct sheaf__deflate {
    struct isal_zstream stream;
    uint8_t *level_buffer;
};

sheaf_status sheaf__deflate_new(enum sheaf__zip kind, int level, struct sheaf__deflate **z,
                                sheaf_error *err)
{
    static const uint32_t sizes[] = {ISAL_DEF_LVL0_DEFAULT, ISAL_DEF_LVL1_DEFAULT,
                                     ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT};
    if (level < 0 || level > 3)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "compression level %d, expected 0 to 3", level);
    struct sheaf__deflate *made = sheaf__alloc(sizeof(*made));
    uint8_t *buffer = sheaf__alloc(sizes[level]);
    if (!made || !buffer) {
        sheaf__free(made);
        sheaf__free(buffer);
        return sheaf__no_memory(err, "compression");
    }
    isal_deflate_init(&made->stream);
    made->stream.level = (uint32_t)level;
    made->stream.level_buf = buffer;
    made->stream.level_buf_size = sizes[level];
    made->stream.gzip_flag = kind == SHEAF__ZIP_GZIP ? IGZIP_GZIP : IGZIP_ZLIB;
    made->level_buffer = buffer;
    *z = made;
    return SHEAF_OK;
}

void sheaf__deflate_free(struct sheaf__deflate *z)
{
    if (!z)
        return;
    sheaf__free(z->level_buffer);
    sheaf__free(z);
}

sheaf_status sheaf__deflate_next(struct sheaf__deflate *z, struct sheaf__zip_io *io, bool finish,
                                 sheaf_error *err)
{
    struct isal_zstream *s = &z->stream;
    for (;;) {
        uint32_t in = window(io->in_size);
        uint32_t out = window(io->out_size);
        s->next_in = readable(io->in);
        s->avail_in = in;
        s->next_out = io->out;
        s->avail_out = out;
        s->end_of_stream = finish && in == io->in_size;
        int code = isal_deflate(s);
        io->in += in - s->avail_in;
        io->in_size -= in - s->avail_in;
        io->out += out - s->avail_out;
        io->out_size -= out - s->avail_out;
        if (code != COMP_OK)
            return sheaf__error(err, SHEAF_ERR_INTERNAL, "compression failed with code %d", code);
        if (s->internal_state.state == ZSTATE_END)
            return SHEAF_END;
        if (io->out_size == 0 || (io->in_size == 0 && !finish))
            return SHEAF_OK;
    }
}

uint32_t sheaf__crc32_extend(uint32_t crc, const void *data, size_t size)
{
    return size ? crc32_gzip_refl(crc, readable(data), size) : crc;
}
