/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_WIRE_H
#define SHEAF_FORMAT_WIRE_H

/* Protobuf's wire format (formats.md 1.2) on top of base/buf.h: fields one after the other, and
 * writing them. */

#include "base/buf.h"

enum sheaf__wire_type {
    SHEAF__WIRE_VARINT = 0,
    SHEAF__WIRE_FIXED64 = 1,
    SHEAF__WIRE_BYTES = 2,
    SHEAF__WIRE_FIXED32 = 5
};

/* One field of a message. Which member holds the value is said by `type`. */
struct sheaf__wire_field {
    uint32_t number;
    enum sheaf__wire_type type;
    union {
        uint64_t value; /* VARINT, FIXED64, FIXED32 */
        struct {
            const uint8_t *data;
            size_t size;
        } bytes;
    };
};

/* The next field; false at the end of the message and at bytes that are none (a cut value, group,
 * field number 0): then `c->failed` is set. */
bool sheaf__wire_next(struct sheaf__cursor *c, struct sheaf__wire_field *field);
/* The same for callers that go through millions of messages: `*at` moves on, false at the end or,
 * with `*at` set to NULL, at bytes that are no field. */
static inline bool sheaf__wire_step(const uint8_t **at, const uint8_t *end,
                                    struct sheaf__wire_field *field);

/* A varint that may not fit; the short ones inline. NULL: none there. */
const uint8_t *sheaf__wire_varint_slow(const uint8_t *at, const uint8_t *end, uint64_t *value);
static inline const uint8_t *sheaf__wire_varint(const uint8_t *at, const uint8_t *end,
                                                uint64_t *value)
{
    if (__builtin_expect(at < end && *at < 0x80, 1)) {
        *value = *at;
        return at + 1;
    }
    if (end - at >= 2 && at[1] < 0x80) {
        *value = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
        return at + 2;
    }
    return sheaf__wire_varint_slow(at, end, value);
}

/* Of 8 bytes, a bit for each that ends a varint. */
static inline uint64_t sheaf__wire_ends(uint64_t bytes)
{
    return (~bytes >> 7 & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56;
}
/* The varint that the first `size` (1 to 8) of 8 bytes are. */
static inline uint64_t sheaf__wire_join(uint64_t bytes, size_t size)
{
    uint64_t v = bytes & ~UINT64_C(0) >> (64 - 8 * size) & UINT64_C(0x7f7f7f7f7f7f7f7f);
    v = (v & UINT64_C(0x007f007f007f007f)) | (v & UINT64_C(0x7f007f007f007f00)) >> 1;
    v = (v & UINT64_C(0x00003fff00003fff)) | (v & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (v & UINT64_C(0x000000000fffffff)) | (v & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* A field that is not of BYTES. Returns where it ends, or NULL. */
const uint8_t *sheaf__wire_scalar(const uint8_t *at, const uint8_t *end,
                                  struct sheaf__wire_field *field);

static inline bool sheaf__wire_step(const uint8_t **at, const uint8_t *end,
                                    struct sheaf__wire_field *field)
{
    if (*at == end)
        return false;
    uint64_t tag, size;
    const uint8_t *p = sheaf__wire_varint(*at, end, &tag);
    if (!p || tag >> 3 == 0 || tag > UINT32_MAX)
        goto none;
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum sheaf__wire_type)(tag & 7);
    if (__builtin_expect(field->type != SHEAF__WIRE_BYTES, 0)) {
        *at = sheaf__wire_scalar(p, end, field);
        return *at != NULL;
    }
    p = sheaf__wire_varint(p, end, &size);
    if (!p || size > (uint64_t)(end - p))
        goto none;
    field->bytes.data = p;
    field->bytes.size = (size_t)size;
    *at = p + size;
    return true;
none:
    *at = NULL;
    return false;
}

/* Writing. A field is written even if its value is the default: who wants it left out leaves it
 * out. */
static inline void sheaf__wire_put_tag(struct sheaf__buf *buf, uint32_t number,
                                       enum sheaf__wire_type type)
{
    sheaf__buf_varint(buf, (uint64_t)number << 3 | (unsigned)type);
}
void sheaf__wire_put_varint(struct sheaf__buf *buf, uint32_t number, uint64_t value);
void sheaf__wire_put_fixed64(struct sheaf__buf *buf, uint32_t number, uint64_t value);
void sheaf__wire_put_double(struct sheaf__buf *buf, uint32_t number, double value);
void sheaf__wire_put_float(struct sheaf__buf *buf, uint32_t number, float value);
void sheaf__wire_put_bytes(struct sheaf__buf *buf, uint32_t number, const void *data, size_t size);
void sheaf__wire_put_text(struct sheaf__buf *buf, uint32_t number, const char *text);

#endif
