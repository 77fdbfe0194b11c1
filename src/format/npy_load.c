/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "format/npy.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <string.h>

/* Elements in memory and what their file says of them. */
struct source {
    struct sheaf__npy npy;
    const uint8_t *data; /* first element */
    void *owner;         /* of that memory: a mapped file, a buffer */
    const char *path;    /* for errors */
    sheaf_shape shape;   /* as the elements lie, row-major */
    int64_t elements;
};

/* ---- numbers ---- */

static void release_owner(void *data, void *owner)
{
    (void)data;
    sheaf__unref(owner);
}

/* The elements as they lie in the file. */
static sheaf_tensor *view(const struct source *s, size_t bytes, sheaf_error *err)
{
    struct sheaf__buffer *buffer = sheaf__buffer_wrap((void *)(uintptr_t)s->data, bytes,
                                                      release_owner, sheaf__ref(s->owner), err);
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
    if (sheaf__string_keep(t, s->owner, err) < 0) {
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

/* Code points of element `i`, without the zeros that fill it up. */
static size_t length(const struct source *s, int64_t i)
{
    const size_t first = (size_t)i * s->npy.width;
    size_t width = s->npy.width;
    while (width > 0 && code_point(s, first + width - 1) == 0)
        width--;
    return width;
}

/* Bytes of all texts in UTF-8: mostly a quarter of what the file has. */
static sheaf_status measure(const struct source *s, size_t *bytes, sheaf_error *err)
{
    uint8_t character[4];
    *bytes = 0;
    for (int64_t i = 0; i < s->elements; i++) {
        const size_t first = (size_t)i * s->npy.width, end = first + length(s, i);
        for (size_t k = first; k < end; k++) {
            const size_t size = sheaf__utf8_put(code_point(s, k), character);
            const struct sheaf__place place = {s->path, SHEAF__UNKNOWN, s->npy.offset + 4 * k};
            if (size == 0)
                return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                                       "text %lld has the code point 0x%x, which is none",
                                       (long long)i, code_point(s, k));
            *bytes += size;
        }
    }
    return SHEAF_OK;
}

/* The text of element `i` at `out`; where it ends. */
static uint8_t *put_text(const struct source *s, int64_t i, uint8_t *out)
{
    const size_t first = (size_t)i * s->npy.width, end = first + length(s, i);
    for (size_t k = first; k < end; k++)
        out += sheaf__utf8_put(code_point(s, k), out);
    return out;
}

static sheaf_tensor *texts(const struct source *s, sheaf_error *err)
{
    size_t size;
    if (measure(s, &size, err) < 0)
        return NULL;
    sheaf_tensor *t = sheaf__tensor_new(SHEAF_STRING, s->shape, NULL, err);
    if (!t || s->elements == 0)
        return t;
    struct sheaf__buffer *bytes = sheaf__buffer_new(NULL, size, err);
    uint8_t *at = bytes ? bytes->data : NULL;
    for (int64_t i = 0; bytes && i < s->elements; i++) {
        uint8_t *end = put_text(s, i, at);
        ((sheaf_bytes *)t->data)[i] = (sheaf_bytes){(const char *)at, (size_t)(end - at)};
        at = end;
    }
    if (!bytes || sheaf__string_keep(t, bytes, err) < 0) {
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

sheaf_tensor *sheaf__npy_tensor(const struct sheaf__npy *npy, const uint8_t *data, void *owner,
                                const char *path, sheaf_error *err)
{
    const sheaf_shape shape = npy->shape;
    const bool turn = npy->column_major && shape.rank > 1;
    struct source s = {.npy = *npy, .data = data, .owner = owner, .path = path, .shape = shape};
    s.elements = sheaf_shape_elements(shape);
    for (int i = 0; turn && i < shape.rank; i++)
        s.shape.dims[i] = shape.dims[shape.rank - 1 - i];
    sheaf_tensor *t = npy->kind == SHEAF__NPY_NUMBERS ? numbers(&s, err)
                      : npy->kind == SHEAF__NPY_BYTES ? byte_strings(&s, err)
                                                      : texts(&s, err);
    return t && turn ? transpose(t, err) : t;
}

sheaf_tensor *sheaf__npy_load(const char *path, sheaf_error *err)
{
    struct sheaf__map *map = NULL;
    struct sheaf__npy npy;
    if (!path) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no name of a file");
        return NULL;
    }
    if (sheaf__file_map(path, &map, err) < 0)
        return NULL;
    sheaf_tensor *t = NULL;
    if (sheaf__npy_parse(map->data, map->size, path, &npy, err) >= 0)
        t = sheaf__npy_tensor(&npy, map->data + npy.offset, map, path, err);
    sheaf__unref(map);
    return t;
}

sheaf_tensor *sheaf_npy_load(const char *path)
{
    sheaf_error err;
    return sheaf__tensor_give(sheaf__npy_load(path, &err), &err);
}
