/* SPDX-License-Identifier: Apache-2.0 */
#include "format/snappy.h"

#include "base/buf.h"

#include <string.h>

/* No element gives more than 64 bytes of output for 3 of input (a copy with a 16-bit offset). */
#define MOST_PER_BYTE 22

bool sheaf__snappy_size(const uint8_t *block, size_t size, size_t *decoded)
{
    struct sheaf__cursor c = sheaf__cursor_of(block, size);
    uint32_t claimed;
    if (!sheaf__cursor_varint32(&c, &claimed) || claimed / MOST_PER_BYTE > size)
        return false;
    *decoded = claimed;
    return true;
}

/* One element: a literal to take from the input, or a copy of earlier output. */
struct element {
    bool literal;
    size_t size;
    size_t offset; /* of a copy, back from the end of the output */
};

static bool read_little_endian(struct sheaf__cursor *c, unsigned bytes, size_t *value)
{
    const uint8_t *data;
    if (!sheaf__cursor_bytes(c, bytes, &data))
        return false;
    *value = 0;
    for (unsigned i = 0; i < bytes; i++)
        *value |= (size_t)data[i] << (8 * i);
    return true;
}

static bool read_element(struct sheaf__cursor *c, struct element *e)
{
    uint8_t tag;
    if (!sheaf__cursor_byte(c, &tag))
        return false;
    unsigned kind = tag & 3, high = tag >> 2;
    e->literal = kind == 0;
    e->size = high + 1;
    if (e->literal) {
        if (high >= 60) {
            if (!read_little_endian(c, high - 59, &e->size))
                return false;
            e->size++;
        }
        return true;
    }
    if (kind == 1) {
        e->size = 4 + (high & 7);
        if (!read_little_endian(c, 1, &e->offset))
            return false;
        e->offset |= (size_t)(tag >> 5) << 8;
        return true;
    }
    return read_little_endian(c, kind == 2 ? 2 : 4, &e->offset);
}

bool sheaf__snappy_decode(const uint8_t *block, size_t size, uint8_t *out, size_t decoded)
{
    struct sheaf__cursor c = sheaf__cursor_of(block, size);
    uint32_t claimed;
    if (!sheaf__cursor_varint32(&c, &claimed) || claimed != decoded)
        return false;
    size_t done = 0;
    while (sheaf__cursor_left(&c)) {
        struct element e;
        if (!read_element(&c, &e) || e.size > decoded - done)
            return false;
        if (e.literal) {
            const uint8_t *from;
            if (!sheaf__cursor_bytes(&c, e.size, &from))
                return false;
            memcpy(out + done, from, e.size);
        } else {
            if (e.offset == 0 || e.offset > done)
                return false;
            /* Byte by byte: a copy may overlap its own output. */
            for (size_t i = 0; i < e.size; i++)
                out[done + i] = out[done + i - e.offset];
        }
        done += e.size;
    }
    return done == decoded;
}
