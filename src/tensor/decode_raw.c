/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/decode_raw.h"

#include "base/error.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <string.h>

/* A string from this size on is viewed rather than copied. */
#define VIEW_BYTES 4096

static bool is_number(sheaf_dtype dtype)
{
    return dtype == SHEAF_BOOL || dtype == SHEAF_COMPLEX64 || dtype == SHEAF_COMPLEX128 ||
           sheaf__dtype_is_float(dtype) || sheaf__dtype_is_integer(dtype);
}

sheaf_status sheaf__decode_raw_check(sheaf_dtype dtype, const sheaf_decode_raw_options *options,
                                     sheaf_error *err)
{
    if (!is_number(dtype))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "raw bytes cannot be decoded as %s, expected a number or bool",
                            sheaf_dtype_name(dtype));
    for (size_t i = 0; i < sizeof(options->reserved) / sizeof(options->reserved[0]); i++)
        if (options->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "reserved option %zu of decode_raw is set, expected 0", i);
    int64_t size = (int64_t)sheaf_dtype_size(dtype);
    if (options->fixed_length < 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "fixed_length is %lld, expected 0 or more",
                            (long long)options->fixed_length);
    if (options->fixed_length % size != 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "fixed_length is %lld, expected a multiple of %lld, the size of %s",
                            (long long)options->fixed_length, (long long)size,
                            sheaf_dtype_name(dtype));
    return SHEAF_OK;
}

/* Bytes of every string that are decoded. */
static sheaf_status length_of(const sheaf_bytes *strings, int64_t count, sheaf_dtype dtype,
                              const sheaf_decode_raw_options *options, size_t *length,
                              sheaf_error *err)
{
    size_t item = sheaf_dtype_size(dtype);
    *length = options->fixed_length > 0 ? (size_t)options->fixed_length
              : count > 0               ? strings[0].size
                                        : 0;
    if (options->fixed_length > 0)
        return SHEAF_OK;
    for (int64_t i = 1; i < count; i++)
        if (strings[i].size != *length)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "string %lld has %zu bytes and string 0 has %zu, expected all to "
                                "have the same size",
                                (long long)i, strings[i].size, *length);
    if (*length % item != 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%zu bytes are no multiple of %zu, the size of %s", *length, item,
                            sheaf_dtype_name(dtype));
    return SHEAF_OK;
}

static void copy(sheaf_tensor *t, const sheaf_bytes *strings, int64_t count, size_t length)
{
    char *to = t->data;
    for (int64_t i = 0; length > 0 && i < count; i++, to += length) {
        size_t n = strings[i].size < length ? strings[i].size : length;
        if (n > 0)
            memcpy(to, strings[i].data, n);
        memset(to + n, 0, length - n);
    }
}

/* The bytes of one string as they lie. */
static sheaf_tensor *view(const sheaf_tensor *from, sheaf_bytes string, sheaf_dtype dtype,
                          sheaf_shape shape, sheaf_error *err)
{
    struct sheaf__buffer *buffer =
        sheaf__buffer_wrap((void *)(uintptr_t)string.data, string.size, NULL, NULL, err);
    sheaf_tensor *t = buffer ? sheaf__tensor_over(dtype, shape, buffer, 0, err) : NULL;
    if (t && sheaf__string_keep_like(t, from, err) < 0) {
        sheaf__unref(t);
        t = NULL;
    }
    sheaf__unref(buffer);
    return t;
}

sheaf_tensor *sheaf__decode_raw(const sheaf_tensor *from, sheaf_dtype dtype,
                                const sheaf_decode_raw_options *options, sheaf_error *err)
{
    if (from->dtype != SHEAF_STRING || from->layout != SHEAF__DENSE ||
        from->shape.rank >= SHEAF_MAX_RANK) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                     "decode_raw of %s of shape %s, expected dense strings of less than %d axes",
                     sheaf_dtype_name(from->dtype), SHEAF__SHAPE_TEXT(from->shape), SHEAF_MAX_RANK);
        return NULL;
    }
    const sheaf_bytes *strings = sheaf__tensor_host(from, err);
    int64_t count = sheaf_shape_elements(from->shape);
    size_t length, item = sheaf_dtype_size(dtype), unit = sheaf__dtype_unit(dtype);
    if (!strings || length_of(strings, count, dtype, options, &length, err) < 0)
        return NULL;
    sheaf_shape shape = from->shape;
    shape.dims[shape.rank++] = (int64_t)(length / item);
    bool swaps = options->big_endian && unit > 1;
    if (count == 1 && length >= VIEW_BYTES && strings[0].size >= length && !swaps &&
        dtype != SHEAF_BOOL && (uintptr_t)strings[0].data % unit == 0)
        return view(from, strings[0], dtype, shape, err);
    sheaf_tensor *t = sheaf__tensor_new(dtype, shape, NULL, err);
    if (!t)
        return NULL;
    copy(t, strings, count, length);
    if (swaps)
        sheaf__dtype_swap(dtype, t->data, (size_t)count * length);
    if (dtype == SHEAF_BOOL)
        for (bool *v = t->data, *end = v + (size_t)count * length; v < end; v++)
            *v = *(const uint8_t *)v != 0;
    return t;
}

sheaf_tensor *sheaf_decode_raw(sheaf_tensor *strings, sheaf_dtype dtype,
                               const sheaf_decode_raw_options *options)
{
    static const sheaf_decode_raw_options plain;
    const sheaf_decode_raw_options *o = options ? options : &plain;
    sheaf_tensor *bad = sheaf__tensor_first_failed(&strings, 1);
    sheaf_error err;
    if (bad)
        return bad;
    sheaf_tensor *t = NULL;
    if (sheaf__decode_raw_check(dtype, o, &err) >= 0)
        t = sheaf__decode_raw(strings, dtype, o, &err);
    return sheaf__tensor_give(t, &err);
}
