/* SPDX-License-Identifier: Apache-2.0 */
#include "format/snappy.h"

#include "base/buf.h"

#include <string.h>

/* A block is its decoded size, then elements: literals to take over, and copies of what came before
 * (formats.md 2.4). The low two bits of an element's tag say which. */
enum { LITERAL, COPY_1, COPY_2, COPY_4 }; /* copies by the bytes of their offset */

#define STEP 16 /* bytes copied at a time where there is room for them */

/* ---- decoding ---- */

/* No element gives more than 64 bytes of output for 3 of input (a copy with a 16-bit offset). */
#define MOST_PER_BYTE 22

static size_t little_endian(const uint8_t *data, size_t bytes)
{
    size_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (size_t)data[i] << (8 * i);
    return value;
}

/* `size` bytes to `to` from `offset` bytes before it, which may overlap; nothing is written from
 * `stop` on. */
static void copy_back(uint8_t *to, size_t offset, size_t size, const uint8_t *stop)
{
    const bool room = (size_t)(stop - to) >= size + STEP;
    size_t i = 0;
    for (; i < size && (!room || (offset < STEP && i < STEP)); i++)
        to[i] = to[i - offset];
    /* What repeats after a few bytes repeats after a multiple of them, too. */
    if (i < size && offset < STEP)
        offset *= (STEP + offset - 1) / offset;
    for (; i < size; i += STEP)
        memcpy(to + i, to + i - offset, STEP);
}

struct element {
    size_t size;
    size_t offset; /* of a copy, back from the end of the output; 0: a literal */
};

/* Reads the tag of an element and what belongs to it; returns what follows. NULL: there is none. */
static inline const uint8_t *read_element(const uint8_t *in, const uint8_t *end, struct element *e)
{
    if (in == end)
        return NULL;
    const unsigned tag = *in++, kind = tag & 3, high = tag >> 2;
    const size_t extra = kind == LITERAL ? (high >= 60 ? high - 59 : 0) : kind == COPY_4 ? 4 : kind;
    if ((size_t)(end - in) < extra)
        return NULL;
    const size_t value = little_endian(in, extra);
    e->size = kind == LITERAL && extra > 0 ? value + 1 : kind == COPY_1 ? 4 + high % 8 : high + 1;
    e->offset = kind == LITERAL ? 0 : kind == COPY_1 ? value | (size_t)(tag >> 5) << 8 : value;
    return kind == LITERAL || e->offset > 0 ? in + extra : NULL;
}

/* Decodes elements until `want` bytes are there and, if they are all of a block, the input has
 * ended. */
static bool decode(const uint8_t *in, const uint8_t *end, uint8_t *out, size_t want, bool all)
{
    uint8_t *to = out, *const stop = out + want;
    while (all ? in < end : to < stop) {
        struct element e;
        if (!(in = read_element(in, end, &e)))
            return false;
        if (e.size > (size_t)(stop - to)) {
            if (all)
                return false;
            e.size = (size_t)(stop - to);
        }
        if (e.offset > (size_t)(to - out) || (e.offset == 0 && e.size > (size_t)(end - in)))
            return false;
        if (e.offset > 0) {
            copy_back(to, e.offset, e.size, stop);
        } else {
            const bool room = e.size <= STEP && end - in >= STEP && stop - to >= STEP;
            memcpy(to, in, room ? STEP : e.size);
            in += e.size;
        }
        to += e.size;
    }
    return to == stop;
}

/* Steps over the decoded size. */
static bool read_size(const uint8_t *block, size_t size, const uint8_t **elements,
                      uint32_t *decoded)
{
    struct sheaf__cursor c = sheaf__cursor_of(block, size);
    if (!sheaf__cursor_varint32(&c, decoded))
        return false;
    *elements = c.at;
    return true;
}

bool sheaf__snappy_size(const uint8_t *block, size_t size, size_t *decoded)
{
    const uint8_t *elements;
    uint32_t claimed;
    if (!read_size(block, size, &elements, &claimed) || claimed / MOST_PER_BYTE > size)
        return false;
    *decoded = claimed;
    return true;
}

bool sheaf__snappy_decode(const uint8_t *block, size_t size, uint8_t *out, size_t decoded)
{
    const uint8_t *elements;
    uint32_t claimed;
    return read_size(block, size, &elements, &claimed) && claimed == decoded &&
           decode(elements, block + size, out, decoded, true);
}

bool sheaf__snappy_peek(const uint8_t *block, size_t size, uint8_t *out, size_t want)
{
    const uint8_t *elements;
    uint32_t claimed;
    return read_size(block, size, &elements, &claimed) && claimed >= want &&
           decode(elements, block + size, out, want, false);
}

/* ---- encoding ---- */

/* Offsets fit 16 bits, and so does the table, if copies do not leave a piece of the input. */
#define PIECE    (1 << 16)
#define SHORTEST 4  /* bytes that a copy is worth it for */
#define LONGEST  64 /* of one copy */

size_t sheaf__snappy_bound(size_t size)
{
    return 32 + size + size / 6;
}

static uint8_t *put_literal(uint8_t *out, const uint8_t *from, size_t size)
{
    if (size == 0)
        return out;
    const size_t less = size - 1, extra = less < 60 ? 0 : less < 256 ? 1 : 2;
    *out++ = (uint8_t)((extra > 0 ? 59 + extra : less) << 2 | LITERAL);
    for (size_t i = 0; i < extra; i++)
        *out++ = (uint8_t)(less >> (8 * i));
    memcpy(out, from, size);
    return out + size;
}

static uint8_t *put_copy(uint8_t *out, size_t offset, size_t size)
{
    while (size > 0) {
        /* What is left must not be too short for a copy by one byte. */
        size_t part = size <= LONGEST             ? size
                      : size < LONGEST + SHORTEST ? LONGEST - SHORTEST
                                                  : LONGEST;
        if (part < 12 && offset < 2048) {
            *out++ = (uint8_t)((offset >> 8) << 5 | (part - SHORTEST) << 2 | COPY_1);
            *out++ = (uint8_t)offset;
        } else {
            *out++ = (uint8_t)((part - 1) << 2 | COPY_2);
            *out++ = (uint8_t)offset;
            *out++ = (uint8_t)(offset >> 8);
        }
        size -= part;
    }
    return out;
}

static unsigned slot_of(uint32_t four)
{
    return (four * 0x1e35a7bdu) >> 18; /* 14 bits: SHEAF__SNAPPY_TABLE slots */
}

/* How many bytes are the same from both on. */
static size_t same(const uint8_t *a, const uint8_t *b, const uint8_t *b_end)
{
    const uint8_t *start = b;
    while (b_end - b >= 8 && sheaf__load64(a) == sheaf__load64(b)) {
        a += 8;
        b += 8;
    }
    while (b < b_end && *a == *b) {
        a++;
        b++;
    }
    return (size_t)(b - start);
}

/* Looks for each four bytes in what came before; the longer nothing is found, the larger the
 * steps. */
static uint8_t *encode_piece(const uint8_t *data, size_t size, uint8_t *out, uint16_t *table)
{
    const uint8_t *const end = data + size, *done = data, *at = data + 1;
    size_t misses = 32;
    memset(table, 0, SHEAF__SNAPPY_TABLE * sizeof(*table));
    while (size >= SHORTEST && at <= end - SHORTEST) {
        const uint32_t four = sheaf__load32(at);
        const unsigned slot = slot_of(four);
        const uint8_t *before = data + table[slot];
        table[slot] = (uint16_t)(at - data);
        if (sheaf__load32(before) != four) {
            at += misses++ / 32;
            continue;
        }
        const size_t length = SHORTEST + same(before + SHORTEST, at + SHORTEST, end);
        out = put_literal(out, done, (size_t)(at - done));
        out = put_copy(out, (size_t)(at - before), length);
        at += length;
        done = at;
        misses = 32;
    }
    return put_literal(out, done, (size_t)(end - done));
}

size_t sheaf__snappy_encode(const uint8_t *data, size_t size, uint8_t *out,
                            uint16_t table[SHEAF__SNAPPY_TABLE])
{
    uint8_t *to = out + sheaf__varint_put(out, size);
    for (size_t at = 0; at < size; at += PIECE)
        to = encode_piece(data + at, size - at < PIECE ? size - at : PIECE, to, table);
    return (size_t)(to - out);
}
