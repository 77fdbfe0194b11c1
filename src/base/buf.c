/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"

#include <string.h>

void sheaf__buf_free(struct sheaf__buf *buf)
{
    sheaf__free(buf->data);
    *buf = (struct sheaf__buf){0};
}

void sheaf__buf_clear(struct sheaf__buf *buf)
{
    buf->size = 0;
    buf->failed = false;
}

bool sheaf__buf_reserve(struct sheaf__buf *buf, size_t size)
{
    size_t need;
    if (buf->failed)
        return false;
    if (sheaf__add_overflows(buf->size, size, &need) ||
        !sheaf__array_reserve(&buf->data, &buf->capacity, need, 1))
        buf->failed = true;
    return !buf->failed;
}

uint8_t *sheaf__buf_extend(struct sheaf__buf *buf, size_t size)
{
    if (!sheaf__buf_reserve(buf, size ? size : 1))
        return NULL;
    uint8_t *at = buf->data + buf->size;
    buf->size += size;
    return at;
}

void sheaf__buf_bytes(struct sheaf__buf *buf, const void *data, size_t size)
{
    uint8_t *at = sheaf__buf_extend(buf, size);
    if (at && size)
        memcpy(at, data, size);
}

void sheaf__buf_byte(struct sheaf__buf *buf, uint8_t value)
{
    sheaf__buf_bytes(buf, &value, 1);
}

void sheaf__buf_fixed32(struct sheaf__buf *buf, uint32_t value)
{
    sheaf__buf_bytes(buf, &value, sizeof(value));
}

void sheaf__buf_fixed64(struct sheaf__buf *buf, uint64_t value)
{
    sheaf__buf_bytes(buf, &value, sizeof(value));
}

size_t sheaf__varint_put(uint8_t *data, uint64_t value)
{
    size_t n = 0;
    while (value >= 0x80) {
        data[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    data[n++] = (uint8_t)value;
    return n;
}

size_t sheaf__varint_size(uint64_t value)
{
    /* Bits in use (at least one), in groups of seven. */
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (bits + 6) / 7;
}

void sheaf__buf_varint(struct sheaf__buf *buf, uint64_t value)
{
    uint8_t bytes[10];
    sheaf__buf_bytes(buf, bytes, sheaf__varint_put(bytes, value));
}

void sheaf__buf_sized(struct sheaf__buf *buf, const void *data, size_t size)
{
    sheaf__buf_varint(buf, size);
    sheaf__buf_bytes(buf, data, size);
}

sheaf_status sheaf__buf_check(const struct sheaf__buf *buf, const char *what, sheaf_error *err)
{
    return buf->failed ? sheaf__no_memory(err, what) : SHEAF_OK;
}

uint8_t *sheaf__buf_take(struct sheaf__buf *buf, size_t *size)
{
    uint8_t *data = buf->data;
    if (buf->failed) {
        sheaf__buf_free(buf);
        return NULL;
    }
    *size = buf->size;
    *buf = (struct sheaf__buf){0};
    return data;
}

/* ---- reading ---- */

struct sheaf__cursor sheaf__cursor_of(const void *data, size_t size)
{
    /* An empty range may come without an address; arithmetic on NULL is not defined. */
    const uint8_t *at = data ? data : (const uint8_t *)"";
    return (struct sheaf__cursor){.start = at, .at = at, .end = at + (data ? size : 0)};
}

static bool fail(struct sheaf__cursor *c)
{
    c->failed = true;
    return false;
}

bool sheaf__cursor_bytes(struct sheaf__cursor *c, size_t size, const uint8_t **data)
{
    if (c->failed || sheaf__cursor_left(c) < size)
        return fail(c);
    *data = c->at;
    c->at += size;
    return true;
}

bool sheaf__cursor_skip(struct sheaf__cursor *c, size_t size)
{
    const uint8_t *data;
    return sheaf__cursor_bytes(c, size, &data);
}

bool sheaf__cursor_byte(struct sheaf__cursor *c, uint8_t *value)
{
    const uint8_t *data;
    if (!sheaf__cursor_bytes(c, 1, &data))
        return false;
    *value = *data;
    return true;
}

bool sheaf__cursor_fixed32(struct sheaf__cursor *c, uint32_t *value)
{
    const uint8_t *data;
    if (!sheaf__cursor_bytes(c, sizeof(*value), &data))
        return false;
    *value = sheaf__load32(data);
    return true;
}

bool sheaf__cursor_fixed64(struct sheaf__cursor *c, uint64_t *value)
{
    const uint8_t *data;
    if (!sheaf__cursor_bytes(c, sizeof(*value), &data))
        return false;
    *value = sheaf__load64(data);
    return true;
}

bool sheaf__cursor_varint(struct sheaf__cursor *c, uint64_t *value)
{
    uint64_t v = 0;
    if (c->failed)
        return false;
    /* Most are one byte. */
    if (c->at < c->end && *c->at < 0x80) {
        *value = *c->at++;
        return true;
    }
    size_t left = sheaf__cursor_left(c);
    for (unsigned i = 0; i < 10 && i < left; i++) {
        uint8_t byte = c->at[i];
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte >= 0x80)
            continue;
        if (i == 9 && byte > 1)
            break;
        c->at += i + 1;
        *value = v;
        return true;
    }
    return fail(c);
}

bool sheaf__cursor_varint32(struct sheaf__cursor *c, uint32_t *value)
{
    const uint8_t *at = c->at;
    uint64_t v;
    if (!sheaf__cursor_varint(c, &v))
        return false;
    if (v > UINT32_MAX) {
        c->at = at;
        return fail(c);
    }
    *value = (uint32_t)v;
    return true;
}

bool sheaf__cursor_sized(struct sheaf__cursor *c, const uint8_t **data, size_t *size)
{
    const uint8_t *at = c->at;
    uint64_t n;
    if (!sheaf__cursor_varint(c, &n))
        return false;
    if (n > sheaf__cursor_left(c)) {
        c->at = at;
        return fail(c);
    }
    *size = (size_t)n;
    return sheaf__cursor_bytes(c, *size, data);
}

bool sheaf__cursor_sub(struct sheaf__cursor *c, struct sheaf__cursor *sub)
{
    const uint8_t *data;
    size_t size;
    if (!sheaf__cursor_sized(c, &data, &size))
        return false;
    *sub = sheaf__cursor_of(data, size);
    return true;
}
