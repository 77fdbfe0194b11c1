/* SPDX-License-Identifier: Apache-2.0 */
#include "format/wire.h"

#include <string.h>

const uint8_t *sheaf__wire_varint_slow(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70 && at < end; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1)
            return NULL;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = v;
            return at;
        }
    }
    return NULL;
}

const uint8_t *sheaf__wire_scalar(const uint8_t *at, const uint8_t *end,
                                  struct sheaf__wire_field *field)
{
    switch (field->type) {
    case SHEAF__WIRE_VARINT:
        return sheaf__wire_varint(at, end, &field->value);
    case SHEAF__WIRE_FIXED64:
        if (end - at < 8)
            return NULL;
        field->value = sheaf__load64(at);
        return at + 8;
    case SHEAF__WIRE_FIXED32:
        if (end - at < 4)
            return NULL;
        field->value = sheaf__load32(at);
        return at + 4;
    case SHEAF__WIRE_BYTES:
        break;
    }
    return NULL; /* groups, and what is no type at all */
}

bool sheaf__wire_next(struct sheaf__cursor *c, struct sheaf__wire_field *field)
{
    if (c->failed)
        return false;
    const uint8_t *at = c->at;
    if (sheaf__wire_step(&at, c->end, field)) {
        c->at = at;
        return true;
    }
    c->failed = !at;
    return false;
}

void sheaf__wire_put_varint(struct sheaf__buf *buf, uint32_t number, uint64_t value)
{
    sheaf__wire_put_tag(buf, number, SHEAF__WIRE_VARINT);
    sheaf__buf_varint(buf, value);
}

void sheaf__wire_put_fixed64(struct sheaf__buf *buf, uint32_t number, uint64_t value)
{
    sheaf__wire_put_tag(buf, number, SHEAF__WIRE_FIXED64);
    sheaf__buf_fixed64(buf, value);
}

void sheaf__wire_put_double(struct sheaf__buf *buf, uint32_t number, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    sheaf__wire_put_fixed64(buf, number, bits);
}

void sheaf__wire_put_float(struct sheaf__buf *buf, uint32_t number, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    sheaf__wire_put_tag(buf, number, SHEAF__WIRE_FIXED32);
    sheaf__buf_fixed32(buf, bits);
}

void sheaf__wire_put_bytes(struct sheaf__buf *buf, uint32_t number, const void *data, size_t size)
{
    sheaf__wire_put_tag(buf, number, SHEAF__WIRE_BYTES);
    sheaf__buf_sized(buf, data, size);
}

void sheaf__wire_put_text(struct sheaf__buf *buf, uint32_t number, const char *text)
{
    sheaf__wire_put_bytes(buf, number, text, strlen(text));
}
