/* SPDX-License-Identifier: Apache-2.0 */
#include "format/slice.h"

#include "base/error.h"

#include <string.h>

struct sheaf__slice sheaf__slice_all(sheaf_shape full)
{
    return (struct sheaf__slice){.full = full, .shape = full};
}

bool sheaf__slice_is_all(const struct sheaf__slice *s)
{
    return sheaf_shape_equal(s->full, s->shape);
}

bool sheaf__slice_equal(const struct sheaf__slice *a, const struct sheaf__slice *b)
{
    if (!sheaf_shape_equal(a->full, b->full) || !sheaf_shape_equal(a->shape, b->shape))
        return false;
    for (int32_t i = 0; i < a->full.rank; i++) {
        if (a->offset[i] != b->offset[i])
            return false;
    }
    return true;
}

bool sheaf__slice_is_valid(const struct sheaf__slice *s)
{
    if (s->full.rank != s->shape.rank || s->full.rank < 0 || s->full.rank > SHEAF_MAX_RANK)
        return false;
    for (int32_t i = 0; i < s->full.rank; i++) {
        int64_t size = s->full.dims[i];
        if (size < 0 || s->offset[i] < 0 || s->shape.dims[i] < 0 || s->offset[i] > size ||
            s->shape.dims[i] > size - s->offset[i])
            return false;
    }
    return true;
}

int64_t sheaf__slice_intersect(const struct sheaf__slice *a, const struct sheaf__slice *b,
                               struct sheaf__slice *common)
{
    struct sheaf__slice box = {.full = a->full, .shape = {.rank = a->full.rank}};
    int64_t elements = 1;
    for (int32_t i = 0; i < a->full.rank; i++) {
        int64_t end_a = a->offset[i] + a->shape.dims[i], end_b = b->offset[i] + b->shape.dims[i];
        int64_t start = a->offset[i] > b->offset[i] ? a->offset[i] : b->offset[i];
        int64_t end = end_a < end_b ? end_a : end_b;
        if (end <= start)
            return 0;
        box.offset[i] = start;
        box.shape.dims[i] = end - start;
        elements *= end - start;
    }
    if (common)
        *common = box;
    return elements;
}

/* Number in `to` of the element that stands at `place` in the tensor, without its last axis; -1 if
 * that row lies outside. */
static int64_t row_in(const struct sheaf__slice *to, const int64_t *place)
{
    int64_t at = 0;
    int32_t last = to->full.rank - 1;
    for (int32_t i = 0; i < last; i++) {
        int64_t in = place[i] - to->offset[i];
        if (in < 0 || in >= to->shape.dims[i])
            return -1;
        at = at * to->shape.dims[i] + in;
    }
    return at * to->shape.dims[last];
}

/* Copies a part of one row: `count` elements from element `column` of the row on. */
static void scatter_row(const struct sheaf__slice_copy *copy, const int64_t *place, int64_t column,
                        int64_t count, const uint8_t *data)
{
    const struct sheaf__slice *to = copy->to;
    int32_t last = to->full.rank - 1;
    int64_t row = row_in(to, place);
    if (row < 0)
        return;
    int64_t start = copy->from->offset[last] + column - to->offset[last];
    int64_t skip = start < 0 ? -start : 0;
    int64_t end = start + count < to->shape.dims[last] ? start + count : to->shape.dims[last];
    if (start + skip >= end)
        return;
    memcpy((uint8_t *)copy->out + (size_t)(row + start + skip) * copy->width,
           data + (size_t)skip * copy->width, (size_t)(end - start - skip) * copy->width);
}

void sheaf__slice_scatter(const struct sheaf__slice_copy *copy, int64_t first, int64_t count,
                          const void *data)
{
    const struct sheaf__slice *from = copy->from;
    int32_t last = from->full.rank - 1;
    const uint8_t *bytes = data;
    if (last < 0) {
        memcpy(copy->out, data, (size_t)count * copy->width);
        return;
    }
    int64_t place[SHEAF_MAX_RANK] = {0};
    int64_t row = first / from->shape.dims[last], column = first % from->shape.dims[last];
    for (int32_t i = last - 1; i >= 0; i--) {
        place[i] = from->offset[i] + row % from->shape.dims[i];
        row /= from->shape.dims[i];
    }
    while (count > 0) {
        int64_t room = from->shape.dims[last] - column;
        int64_t part = count < room ? count : room;
        scatter_row(copy, place, column, part, bytes);
        bytes += (size_t)part * copy->width;
        count -= part;
        column = 0;
        for (int32_t i = last - 1; i >= 0; i--) {
            if (++place[i] < from->offset[i] + from->shape.dims[i])
                break;
            place[i] = from->offset[i];
        }
    }
}

void sheaf__slice_spell(const struct sheaf__slice *s, struct sheaf__extent *extents)
{
    for (int32_t i = 0; i < s->full.rank; i++)
        extents[i] = (struct sheaf__extent){s->offset[i], s->shape.dims[i]};
}

bool sheaf__slice_from(sheaf_shape full, const struct sheaf__extent *extents,
                       struct sheaf__slice *s)
{
    *s = sheaf__slice_all(full);
    for (int32_t i = 0; i < full.rank; i++) {
        if (extents[i].length == SHEAF__WHOLE_AXIS)
            continue;
        if (extents[i].length <= 0)
            return false;
        s->offset[i] = extents[i].start;
        s->shape.dims[i] = extents[i].length;
    }
    return sheaf__slice_is_valid(s);
}

/* Ordered code of a signed number: the more bytes, the farther from 0; bytes compare as numbers do.
 */
static void put_signed(struct sheaf__buf *key, int64_t value)
{
    uint64_t magnitude = (uint64_t)(value < 0 ? ~value : value);
    if (magnitude < 64) {
        sheaf__buf_byte(key, (uint8_t)(0x80 ^ (uint8_t)value));
        return;
    }
    static const uint8_t headers[11][2] = {
        [2] = {0xc0}, [3] = {0xe0}, [4] = {0xf0},       [5] = {0xf8},        [6] = {0xfc},
        [7] = {0xfe}, [8] = {0xff}, [9] = {0xff, 0x80}, [10] = {0xff, 0xc0},
    };
    unsigned bits = 64 - (unsigned)__builtin_clzll(magnitude);
    unsigned size = bits / 7 + 1;
    uint8_t code[10];
    memset(code, value < 0 ? 0xff : 0, 2);
    for (unsigned i = 0; i < 8; i++)
        code[2 + i] = (uint8_t)((uint64_t)value >> (56 - 8 * i));
    uint8_t *start = code + sizeof(code) - size;
    start[0] ^= headers[size][0];
    start[1] ^= headers[size][1];
    sheaf__buf_bytes(key, start, size);
}

void sheaf__slice_key(struct sheaf__buf *key, const void *name, size_t name_size,
                      const struct sheaf__extent *extents, int rank)
{
    const uint8_t *bytes = name;
    sheaf__buf_byte(key, 0);
    for (size_t i = 0; i < name_size; i++) {
        sheaf__buf_byte(key, bytes[i]);
        if (bytes[i] == 0x00)
            sheaf__buf_byte(key, 0xff);
        else if (bytes[i] == 0xff)
            sheaf__buf_byte(key, 0x00);
    }
    sheaf__buf_bytes(key, "\0\1", 2);
    if (rank > 0) {
        sheaf__buf_byte(key, 1); /* bytes of the rank, which is below 256 */
        sheaf__buf_byte(key, (uint8_t)rank);
    } else {
        sheaf__buf_byte(key, 0);
    }
    for (int i = 0; i < rank; i++) {
        put_signed(key, extents[i].start);
        put_signed(key, extents[i].length);
    }
}
