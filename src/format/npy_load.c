/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/file.h"
#include "format/npy.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <string.h>

/* A file and what it says of itself. */
struct source {
    struct sheaf__map *map;
    struct sheaf__npy npy;
    const uint8_t *data; /* first element */
    sheaf_shape shape;   /* as the elements lie, row-major */
    int64_t elements;
};

/* ---- numbers ---- */

static void release_map(void *data, void *map)
{
    (void)data;
    sheaf__unref(map);
}

/* The elements as they lie in the file. */
static sheaf_tensor *view(const struct source *s, size_t bytes, sheaf_error *err)
{
    struct sheaf__buffer *buffer =
        sheaf__buffer_wrap((void *)(uintptr_t)s->data, bytes, release_map, sheaf__ref(s->map), err);
    sheaf_tensor *t = buffer ? sheaf__tensor_over(s->npy.dtype, s->shape, buffer, 0, err) : NULL;
    sheaf__unref(buffer);
    return t;
}

static bool are_booleans(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] > 1)
            return false;
    return true;
}

static sheaf_tensor *numbers(const struct source *s, sheaf_error *err)
{
    const sheaf_dtype dtype = s->npy.dtype;
    const size_t unit = sheaf__dtype_unit(dtype),
                 bytes = (size_t)s->elements * sheaf_dtype_size(dtype);
    const bool swapped = s->npy.big_endian && unit > 1, aligned = (uintptr_t)s->data % unit == 0;
    const bool truths = dtype != SHEAF_BOOL || are_booleans(s->data, bytes);
    if (!swapped && aligned && truths)
        return view(s, bytes, err);
    sheaf_tensor *t = sheaf__tensor_new(dtype, s->shape, NULL, err);
    if (!t || bytes == 0)
        return t;
    memcpy(t->data, s->data, bytes);
    if (swapped)
        sheaf__dtype_swap(dtype, t->data, bytes);
    for (size_t i = 0; !truths && i < bytes; i++)
        ((uint8_t *)t->data)[i] = s->data[i] != 0;
    return t;
}

/* ---- strings ---- */

/* Views of the file without the zeros that fill them up. */
static sheaf_tensor *byte_strings(const struct source *s, sheaf_error *err)
{
    const size_t width = s->npy.width;
    sheaf_tensor *t = sheaf__tensor_new(SHEAF_STRING, s->shape, NULL, err);
    if (!t || s->elements == 0)
        return t;
    sheaf_bytes *out = t->data;
    for (int64_t i = 0; i < s->elements; i++) {
        const char *text = (const char *)s->data + (size_t)i * width;
        size_t size = width;
        while (size > 0 && text[size - 1] == '\0')
            size--;
        out[i] = (sheaf_bytes){text, size};
    }
    if (sheaf__string_keep(t, s->map, err) < 0) {
        sheaf__unref(t);
        t = NULL;
    }
    return t;
}

static uint32_t code_point(const struct source *s, size_t i)
{
    uint32_t point;
    memcpy(&point, s->data + 4 * i, sizeof(point));
    return s->npy.big_endian ? __builtin_bswap32(point) : point;
}

/* Writes the UTF-8 of a code point, at most four bytes; returns how many, 0: it is none. */
static size_t put_utf8(uint32_t point, uint8_t *out)
{
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    const size_t more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const uint8_t marks[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (uint8_t)(marks[more] | point >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        out[i] = (uint8_t)(0x80 | (point >> (6 * (more - i)) & 0x3f));
    return 1 + more;
}

/* The text of element `i` at `out`; where it ends, NULL if it is none. */
static uint8_t *put_text(const struct source *s, int64_t i, uint8_t *out, sheaf_error *err)
{
    const size_t first = (size_t)i * s->npy.width;
    size_t width = s->npy.width;
    while (width > 0 && code_point(s, first + width - 1) == 0)
        width--;
    for (size_t k = first; k < first + width; k++) {
        const size_t size = put_utf8(code_point(s, k), out);
        if (size == 0) {
            const struct sheaf__place place = {s->map->path, SHEAF__UNKNOWN, s->npy.offset + 4 * k};
            sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                            "text %lld has the code point 0x%x, which is none", (long long)i,
                            code_point(s, k));
            return NULL;
        }
        out += size;
    }
    return out;
}

static sheaf_tensor *texts(const struct source *s, sheaf_error *err)
{
    sheaf_tensor *t = sheaf__tensor_new(SHEAF_STRING, s->shape, NULL, err);
    if (!t || s->elements == 0)
        return t;
    struct sheaf__buffer *bytes =
        sheaf__buffer_new(NULL, (size_t)s->elements * s->npy.width * 4, err);
    uint8_t *at = bytes ? bytes->data : NULL;
    for (int64_t i = 0; at && i < s->elements; i++) {
        uint8_t *end = put_text(s, i, at, err);
        ((sheaf_bytes *)t->data)[i] = (sheaf_bytes){(const char *)at, end ? (size_t)(end - at) : 0};
        at = end;
    }
    if (!at || sheaf__string_keep(t, bytes, err) < 0) {
        sheaf__unref(t);
        t = NULL;
    }
    sheaf__unref(bytes);
    return t;
}

/* ---- arrays ---- */

/* Turns the axes of a tensor around: a column-major array lies as a row-major one with its axes in
 * the other order. Uses up `t`. */
static sheaf_tensor *transpose(sheaf_tensor *t, sheaf_error *err)
{
    sheaf_shape shape = t->shape;
    int64_t strides[SHEAF_MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        shape.dims[i] = t->shape.dims[shape.rank - 1 - i];
        strides[i] = t->strides[shape.rank - 1 - i];
    }
    sheaf_tensor *turned = sheaf__tensor_view(t, shape, strides, 0, err);
    sheaf__unref(t);
    return turned;
}

static sheaf_tensor *load(struct source *s, sheaf_error *err)
{
    const sheaf_shape shape = s->npy.shape;
    const bool turn = s->npy.column_major && shape.rank > 1;
    s->data = s->map->data + s->npy.offset;
    s->elements = sheaf_shape_elements(shape);
    s->shape = shape;
    for (int i = 0; turn && i < shape.rank; i++)
        s->shape.dims[i] = shape.dims[shape.rank - 1 - i];
    sheaf_tensor *t = s->npy.kind == SHEAF__NPY_NUMBERS ? numbers(s, err)
                      : s->npy.kind == SHEAF__NPY_BYTES ? byte_strings(s, err)
                                                        : texts(s, err);
    return t && turn ? transpose(t, err) : t;
}

sheaf_tensor *sheaf__npy_load(const char *path, sheaf_error *err)
{
    struct source s = {0};
    if (!path) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no name of a file");
        return NULL;
    }
    if (sheaf__file_map(path, &s.map, err) < 0)
        return NULL;
    sheaf_tensor *t = NULL;
    if (sheaf__npy_parse(s.map->data, s.map->size, path, &s.npy, err) >= 0)
        t = load(&s, err);
    sheaf__unref(s.map);
    return t;
}

sheaf_tensor *sheaf_npy_load(const char *path)
{
    sheaf_error err;
    return sheaf__tensor_give(sheaf__npy_load(path, &err), &err);
}
