/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/shape.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

sheaf_shape sheaf_shape_of(int rank, const int64_t *dims)
{
    sheaf_shape shape = {.rank = rank};
    if (rank < 0 || rank > SHEAF_MAX_RANK || (rank > 0 && !dims))
        shape.rank = SHEAF_UNKNOWN_RANK;
    else if (rank > 0)
        memcpy(shape.dims, dims, (size_t)rank * sizeof(*dims));
    return shape;
}

int64_t sheaf_shape_elements(sheaf_shape shape)
{
    if (shape.rank < 0 || shape.rank > SHEAF_MAX_RANK)
        return -1;
    int64_t elements = 1;
    bool too_many = false, none = false;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 0)
            return -1;
        none |= shape.dims[i] == 0;
        too_many |= __builtin_mul_overflow(elements, shape.dims[i], &elements);
    }
    /* A size of 0 makes any product 0, however large the others are. */
    return none ? 0 : too_many ? -1 : elements;
}

bool sheaf_shape_equal(sheaf_shape a, sheaf_shape b)
{
    if (a.rank != b.rank || a.rank > SHEAF_MAX_RANK)
        return false;
    for (int i = 0; i < a.rank; i++)
        if (a.dims[i] != b.dims[i])
            return false;
    return true;
}

size_t sheaf_shape_format(sheaf_shape shape, char *text, size_t size)
{
    char all[SHEAF_MAX_RANK * 22 + 4];
    size_t n = 0;
    if (shape.rank < 0 || shape.rank > SHEAF_MAX_RANK)
        n = (size_t)snprintf(all, sizeof(all), "<unknown>");
    else {
        all[n++] = '(';
        for (int i = 0; i < shape.rank; i++) {
            const char *between = i ? ", " : "";
            if (shape.dims[i] < 0)
                n += (size_t)snprintf(all + n, sizeof(all) - n, "%sNone", between);
            else
                n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%lld", between,
                                      (long long)shape.dims[i]);
        }
        n += (size_t)snprintf(all + n, sizeof(all) - n, shape.rank == 1 ? ",)" : ")");
    }
    if (size) {
        size_t copied = n < size ? n : size - 1;
        memcpy(text, all, copied);
        text[copied] = '\0';
    }
    return n;
}

struct sheaf__shape_text sheaf__shape_text(sheaf_shape shape)
{
    struct sheaf__shape_text text;
    sheaf_shape_format(shape, text.text, sizeof(text.text));
    return text;
}

sheaf_status sheaf__shape_bytes(sheaf_dtype dtype, sheaf_shape shape, int64_t *elements,
                                size_t *bytes, sheaf_error *err)
{
    size_t size = sheaf_dtype_size(dtype);
    if (!size)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "dtype %d has no bytes", (int)dtype);
    int64_t count = sheaf_shape_elements(shape);
    size_t total;
    if (count < 0 || __builtin_mul_overflow((size_t)count, size, &total) || total > SIZE_MAX / 4)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "shape %s has no size in bytes: an axis is unknown or the product too large",
            SHEAF__SHAPE_TEXT(shape));
    *elements = count;
    *bytes = total;
    return SHEAF_OK;
}

void sheaf__shape_strides(sheaf_shape shape, int64_t strides[SHEAF_MAX_RANK])
{
    int64_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        /* With a size of 0 nothing is reached through the others. */
        if (__builtin_mul_overflow(stride, shape.dims[i], &stride))
            stride = 0;
    }
}

bool sheaf__shape_fits(sheaf_shape spec, sheaf_shape shape)
{
    if (spec.rank == SHEAF_UNKNOWN_RANK)
        return true;
    if (spec.rank != shape.rank)
        return false;
    for (int i = 0; i < spec.rank; i++)
        if (spec.dims[i] >= 0 && spec.dims[i] != shape.dims[i])
            return false;
    return true;
}

bool sheaf__shape_broadcast(sheaf_shape a, sheaf_shape b, sheaf_shape *out)
{
    sheaf_shape result = {.rank = a.rank > b.rank ? a.rank : b.rank};
    for (int i = 1; i <= result.rank; i++) {
        int64_t x = i <= a.rank ? a.dims[a.rank - i] : 1;
        int64_t y = i <= b.rank ? b.dims[b.rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        result.dims[result.rank - i] = x == 1 ? y : x;
    }
    *out = result;
    return true;
}

sheaf_shape sheaf__shape_prepend(sheaf_shape shape, int64_t size)
{
    sheaf_shape result = {.rank = SHEAF_UNKNOWN_RANK};
    if (shape.rank < 0 || shape.rank >= SHEAF_MAX_RANK)
        return result;
    result.rank = shape.rank + 1;
    result.dims[0] = size;
    memcpy(result.dims + 1, shape.dims, (size_t)shape.rank * sizeof(shape.dims[0]));
    return result;
}

sheaf_shape sheaf__shape_inner(sheaf_shape shape)
{
    if (shape.rank < 1)
        return (sheaf_shape){.rank = SHEAF_UNKNOWN_RANK};
    return sheaf_shape_of(shape.rank - 1, shape.dims + 1);
}
