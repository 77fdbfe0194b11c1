/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_BUF_H
#define SHEAF_BASE_BUF_H

/* Bytes being written and bytes being read. */

#include <sheaf/status.h>

/* A buffer that grows. Zeroed is empty. Running out of memory is latched: writes after it are
 * nothing, and the writer asks `failed` (or sheaf__buf_check) once at the end. */
struct sheaf__buf {
    uint8_t *data;
    size_t size;
    size_t capacity;
    bool failed;
};

void sheaf__buf_free(struct sheaf__buf *buf);  /* empty and usable again */
void sheaf__buf_clear(struct sheaf__buf *buf); /* keeps the memory, forgets the failure */
/* Room for `size` more bytes. */
bool sheaf__buf_reserve(struct sheaf__buf *buf, size_t size);
/* Appends `size` bytes that the caller fills; NULL if failed. Valid until the next call. */
uint8_t *sheaf__buf_extend(struct sheaf__buf *buf, size_t size);
void sheaf__buf_bytes(struct sheaf__buf *buf, const void *data, size_t size);
void sheaf__buf_byte(struct sheaf__buf *buf, uint8_t value);
/* Little endian. */
void sheaf__buf_fixed32(struct sheaf__buf *buf, uint32_t value);
void sheaf__buf_fixed64(struct sheaf__buf *buf, uint64_t value);
void sheaf__buf_varint(struct sheaf__buf *buf, uint64_t value);
/* A varint of the size, then the bytes. */
void sheaf__buf_sized(struct sheaf__buf *buf, const void *data, size_t size);
/* SHEAF_OK or "not enough memory for <what>". */
sheaf_status sheaf__buf_check(const struct sheaf__buf *buf, const char *what, sheaf_error *err);
/* Gives the memory to the caller (sheaf__free), the buffer is empty. NULL if it failed or nothing
 * was written. */
uint8_t *sheaf__buf_take(struct sheaf__buf *buf, size_t *size);

size_t sheaf__varint_size(uint64_t value);
/* Writes at most 10 bytes, returns how many. */
size_t sheaf__varint_put(uint8_t *data, uint64_t value);

/* A reader that cannot pass its end. A read that does not fit or is malformed returns false,
 * latches `failed` and leaves `at` where it was; later reads return false. */
struct sheaf__cursor {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

struct sheaf__cursor sheaf__cursor_of(const void *data, size_t size);
static inline size_t sheaf__cursor_left(const struct sheaf__cursor *c)
{
    return (size_t)(c->end - c->at);
}
static inline size_t sheaf__cursor_offset(const struct sheaf__cursor *c)
{
    return (size_t)(c->at - c->start);
}
bool sheaf__cursor_byte(struct sheaf__cursor *c, uint8_t *value);
bool sheaf__cursor_fixed32(struct sheaf__cursor *c, uint32_t *value);
bool sheaf__cursor_fixed64(struct sheaf__cursor *c, uint64_t *value);
/* At most 10 bytes, and the tenth at most 1. */
bool sheaf__cursor_varint(struct sheaf__cursor *c, uint64_t *value);
/* The same for values that must fit 32 bits. */
bool sheaf__cursor_varint32(struct sheaf__cursor *c, uint32_t *value);
/* A view of the next `size` bytes. */
bool sheaf__cursor_bytes(struct sheaf__cursor *c, size_t size, const uint8_t **data);
bool sheaf__cursor_skip(struct sheaf__cursor *c, size_t size);
/* A varint of the size, then a view of so many bytes. */
bool sheaf__cursor_sized(struct sheaf__cursor *c, const uint8_t **data, size_t *size);
/* The same as a cursor over them. */
bool sheaf__cursor_sub(struct sheaf__cursor *c, struct sheaf__cursor *sub);

/* Little endian at any address. */
static inline uint32_t sheaf__load32(const void *data)
{
    uint32_t v;
    __builtin_memcpy(&v, data, sizeof(v));
    return v;
}
static inline uint64_t sheaf__load64(const void *data)
{
    uint64_t v;
    __builtin_memcpy(&v, data, sizeof(v));
    return v;
}
static inline void sheaf__store32(void *data, uint32_t value)
{
    __builtin_memcpy(data, &value, sizeof(value));
}
static inline void sheaf__store64(void *data, uint64_t value)
{
    __builtin_memcpy(data, &value, sizeof(value));
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little endian machines only");

#endif
