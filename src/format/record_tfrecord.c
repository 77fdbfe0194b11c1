/* SPDX-License-Identifier: Apache-2.0 */
#include "format/record.h"
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "format/snappy.h"

#include <inttypes.h>
#include <string.h>

#define FRAME (SHEAF__RECORD_HEADER + SHEAF__RECORD_FOOTER)

void sheaf__record_header(uint64_t size, uint8_t header[SHEAF__RECORD_HEADER])
{
    sheaf__store64(header, size);
    sheaf__store32(header + 8, sheaf__crc32c_mask(sheaf__crc32c(header, 8)));
}

void sheaf__record_footer(const void *data, size_t size, uint8_t footer[SHEAF__RECORD_FOOTER])
{
    sheaf__store32(footer, sheaf__crc32c_mask(sheaf__crc32c(data, size)));
}

static uint64_t need(const struct sheaf__record_cursor *c)
{
    if (sheaf__record_cursor_left(c) < SHEAF__RECORD_HEADER)
        return SHEAF__RECORD_HEADER;
    uint64_t length = sheaf__load64(sheaf__record_cursor_at(c));
    return length > UINT64_MAX - FRAME ? UINT64_MAX : length + FRAME;
}

/* Fewer than 12 bytes are left. */
static __attribute__((cold)) sheaf_status no_header(const struct sheaf__record_cursor *c,
                                                    sheaf_error *err)
{
    size_t there = sheaf__record_cursor_left(c);
    if (c->more)
        return SHEAF_PENDING;
    if (there == 0 || c->lax)
        return SHEAF_END;
    struct sheaf__place place = sheaf__record_cursor_place(c);
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                           "truncated record: %zu of the 12 bytes of its header are missing",
                           SHEAF__RECORD_HEADER - there);
}

static __attribute__((cold)) sheaf_status bad_length(const struct sheaf__record_cursor *c,
                                                     uint32_t stored, uint32_t right,
                                                     sheaf_error *err)
{
    struct sheaf__place place = sheaf__record_cursor_place(c);
    return sheaf__error_at(
        err, SHEAF_ERR_DATA_LOSS, &place,
        "length CRC of the record is 0x%08" PRIx32 ", expected 0x%08" PRIx32 "%s", stored, right,
        c->offset ? "" : " (is this a TFRecord file, and the compression right?)");
}

static __attribute__((cold)) sheaf_status bad_data(const struct sheaf__record_cursor *c,
                                                   uint32_t stored, uint32_t right, uint64_t size,
                                                   sheaf_error *err)
{
    struct sheaf__place place = sheaf__record_cursor_place(c);
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                           "data CRC of the record is 0x%08" PRIx32 ", expected 0x%08" PRIx32
                           " for its %" PRIu64 " bytes",
                           stored, right, size);
}

static __attribute__((cold)) sheaf_status no_data(const struct sheaf__record_cursor *c,
                                                  uint64_t size, sheaf_error *err)
{
    if (c->more)
        return SHEAF_PENDING;
    struct sheaf__place place = sheaf__record_cursor_place(c);
    size_t there = sheaf__record_cursor_left(c) - SHEAF__RECORD_HEADER;
    if (size > UINT64_MAX - FRAME)
        return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                               "record of %" PRIu64 " bytes, more than any file holds", size);
    const uint64_t missing = size + SHEAF__RECORD_FOOTER - there;
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                           "truncated record: %" PRIu64 " %s missing of its %" PRIu64
                           " bytes of data and their CRC",
                           missing, missing == 1 ? "byte is" : "bytes are", size);
}

/* Checks the header at the cursor and that the whole record is there; its size goes to `*size`. The
 * header before, if its 12 bytes are the same, proves this one. */
static inline sheaf_status look(const struct sheaf__record_cursor *c, const uint8_t **proven,
                                size_t *size, sheaf_error *err)
{
    if (sheaf__record_cursor_left(c) < SHEAF__RECORD_HEADER)
        return no_header(c, err);
    const uint8_t *header = sheaf__record_cursor_at(c);
    if (!*proven || memcmp(*proven, header, SHEAF__RECORD_HEADER) != 0) {
        uint32_t right = sheaf__crc32c_mask(sheaf__crc32c(header, 8));
        uint32_t stored = sheaf__load32(header + 8);
        if (right != stored)
            return bad_length(c, stored, right, err);
        *proven = header;
    }
    uint64_t length = sheaf__load64(header);
    size_t there = sheaf__record_cursor_left(c) - SHEAF__RECORD_HEADER;
    if (there < SHEAF__RECORD_FOOTER || length > there - SHEAF__RECORD_FOOTER)
        return no_data(c, length, err);
    *size = (size_t)length;
    return SHEAF_OK;
}

static inline void step(struct sheaf__record_cursor *c, size_t size)
{
    c->offset += size + FRAME;
    c->record++;
}

static sheaf_status next(struct sheaf__record_cursor *c, sheaf_bytes *records, size_t capacity,
                         size_t *count, sheaf_error *err)
{
    const uint8_t *proven = NULL;
    size_t n = 0;
    sheaf_status status = SHEAF_OK;
    while (n < capacity) {
        size_t size = 0;
        /* An error behind good records is found again, and told, by the next call. */
        status = look(c, &proven, &size, n ? NULL : err);
        if (status != SHEAF_OK)
            break;
        const uint8_t *data = sheaf__record_cursor_at(c) + SHEAF__RECORD_HEADER;
        if (!c->skip_check) {
            uint32_t right = sheaf__crc32c_mask(sheaf__crc32c(data, size));
            uint32_t stored = sheaf__load32(data + size);
            if (__builtin_expect(right != stored, 0)) {
                if (n)
                    break;
                status = bad_data(c, stored, right, size, err);
                step(c, size);
                break;
            }
        }
        records[n++] = (sheaf_bytes){(const char *)data, size};
        step(c, size);
    }
    *count = n;
    return n ? SHEAF_OK : status;
}

static sheaf_status skip(struct sheaf__record_cursor *c, uint64_t count, uint64_t *skipped,
                         sheaf_error *err)
{
    const uint8_t *proven = NULL;
    uint64_t n = 0;
    sheaf_status status = SHEAF_OK;
    while (n < count) {
        size_t size = 0;
        status = look(c, &proven, &size, n ? NULL : err);
        if (status != SHEAF_OK)
            break;
        step(c, size);
        n++;
    }
    *skipped = n;
    return n ? SHEAF_OK : status;
}

/* Whether the CRC of a record's length fits: no file starts so by chance. */
static bool is_header(const uint8_t *head)
{
    return sheaf__load32(head + 8) == sheaf__crc32c_mask(sheaf__crc32c(head, 8));
}

/* Compression by the first bytes. What begins like gzip or zlib may be the length of a record, and
 * of Snappy nothing tells but what comes out. */
static sheaf_compression sniff(const uint8_t *head, size_t size)
{
    uint8_t unpacked[SHEAF__RECORD_HEADER];
    if (size >= SHEAF__RECORD_HEADER && is_header(head))
        return SHEAF_COMPRESSION_NONE;
    if (size >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return SHEAF_COMPRESSION_GZIP;
    if (size >= 2 && head[0] == 0x78 &&
        (head[1] == 0x01 || head[1] == 0x5e || head[1] == 0x9c || head[1] == 0xda))
        return SHEAF_COMPRESSION_ZLIB;
    if (size > 4 && sheaf__snappy_peek(head + 4, size - 4, unpacked, sizeof(unpacked)) &&
        is_header(unpacked))
        return SHEAF_COMPRESSION_SNAPPY;
    return SHEAF_COMPRESSION_NONE;
}

const struct sheaf__framing sheaf__framing_tfrecord = {
    .next = next,
    .skip = skip,
    .need = need,
    .sniff = sniff,
};
