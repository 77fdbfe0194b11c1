/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/shape.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[SHEAF__DTYPES] = {
    [SHEAF_FLOAT32] = {"float32", 4},
    [SHEAF_FLOAT64] = {"float64", 8},
    [SHEAF_INT32] = {"int32", 4},
    [SHEAF_UINT8] = {"uint8", 1},
    [SHEAF_INT16] = {"int16", 2},
    [SHEAF_INT8] = {"int8", 1},
    [SHEAF_STRING] = {"string", sizeof(sheaf_bytes)},
    [SHEAF_COMPLEX64] = {"complex64", 8},
    [SHEAF_INT64] = {"int64", 8},
    [SHEAF_BOOL] = {"bool", 1},
    [SHEAF_QINT8] = {"qint8", 1},
    [SHEAF_QUINT8] = {"quint8", 1},
    [SHEAF_QINT32] = {"qint32", 4},
    [SHEAF_BFLOAT16] = {"bfloat16", 2},
    [SHEAF_QINT16] = {"qint16", 2},
    [SHEAF_QUINT16] = {"quint16", 2},
    [SHEAF_UINT16] = {"uint16", 2},
    [SHEAF_COMPLEX128] = {"complex128", 16},
    [SHEAF_FLOAT16] = {"float16", 2},
    [SHEAF_UINT32] = {"uint32", 4},
    [SHEAF_UINT64] = {"uint64", 8},
    [SHEAF_FLOAT8_E5M2] = {"float8_e5m2", 1},
    [SHEAF_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1},
    [SHEAF_FLOAT8_E4M3FNUZ] = {"float8_e4m3fnuz", 1},
    [SHEAF_FLOAT8_E4M3B11FNUZ] = {"float8_e4m3b11fnuz", 1},
    [SHEAF_FLOAT8_E5M2FNUZ] = {"float8_e5m2fnuz", 1},
    /* One element a byte in memory and on disk, as TensorFlow has it. */
    [SHEAF_INT4] = {"int4", 1},
    [SHEAF_UINT4] = {"uint4", 1},
    [SHEAF_INT2] = {"int2", 1},
    [SHEAF_UINT2] = {"uint2", 1},
    [SHEAF_FLOAT4_E2M1FN] = {"float4_e2m1fn", 1},
};
_Static_assert(sizeof(sheaf_bytes) == 16, "the size that tensor.h promises");

static bool is_known(sheaf_dtype dtype)
{
    return (unsigned)dtype < SHEAF__DTYPES && dtypes[dtype].name;
}

size_t sheaf_dtype_size(sheaf_dtype dtype)
{
    return is_known(dtype) ? dtypes[dtype].size : 0;
}

const char *sheaf_dtype_name(sheaf_dtype dtype)
{
    return is_known(dtype) ? dtypes[dtype].name : "invalid";
}

sheaf_dtype sheaf_dtype_named(const char *name)
{
    for (int i = 1; i < SHEAF__DTYPES && name; i++)
        if (dtypes[i].name && !strcmp(dtypes[i].name, name))
            return (sheaf_dtype)i;
    return SHEAF_INVALID_DTYPE;
}

size_t sheaf__dtype_unit(sheaf_dtype dtype)
{
    bool pair = dtype == SHEAF_COMPLEX64 || dtype == SHEAF_COMPLEX128;
    return sheaf_dtype_size(dtype) / (pair ? 2 : 1);
}

void sheaf__dtype_swap(sheaf_dtype dtype, void *elements, size_t size)
{
    const size_t unit = sheaf__dtype_unit(dtype);
    if (unit == 2)
        for (uint16_t *v = elements, *end = v + size / 2; v < end; v++)
            *v = __builtin_bswap16(*v);
    else if (unit == 4)
        for (uint32_t *v = elements, *end = v + size / 4; v < end; v++)
            *v = __builtin_bswap32(*v);
    else if (unit == 8)
        for (uint64_t *v = elements, *end = v + size / 8; v < end; v++)
            *v = __builtin_bswap64(*v);
}

bool sheaf__dtype_is_float(sheaf_dtype dtype)
{
    return dtype == SHEAF_FLOAT32 || dtype == SHEAF_FLOAT64 || dtype == SHEAF_BFLOAT16 ||
           dtype == SHEAF_FLOAT16;
}

bool sheaf__dtype_is_integer(sheaf_dtype dtype)
{
    switch (dtype) {
    case SHEAF_INT8:
    case SHEAF_INT16:
    case SHEAF_INT32:
    case SHEAF_INT64:
    case SHEAF_UINT8:
    case SHEAF_UINT16:
    case SHEAF_UINT32:
    case SHEAF_UINT64:
        return true;
    default:
        return false;
    }
}
