/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for any processor: the reference. */
#define TARGET
#include "tensor/kernel_loops.h"

/* Signed integers wrap, as unsigned ones do by themselves: they share add, sub, mul, scale, axpy.
 * Products of narrow numbers are computed wider, where they cannot overflow an int either. */
BINARY(add_f32, float, x + y)
BINARY(add_f64, double, x + y)
BINARY(add_i8, uint8_t, x + y)
BINARY(add_i16, uint16_t, x + y)
BINARY(add_i32, uint32_t, x + y)
BINARY(add_i64, uint64_t, x + y)
BINARY(or_bool, uint8_t, (x | y) != 0)
BINARY_HALF(add_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, x + y)
BINARY_HALF(add_f16, sheaf__float16_to_float, sheaf__float16_of_float, x + y)

BINARY(sub_f32, float, x - y)
BINARY(sub_f64, double, x - y)
BINARY(sub_i8, uint8_t, x - y)
BINARY(sub_i16, uint16_t, x - y)
BINARY(sub_i32, uint32_t, x - y)
BINARY(sub_i64, uint64_t, x - y)
BINARY_HALF(sub_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, x - y)
BINARY_HALF(sub_f16, sheaf__float16_to_float, sheaf__float16_of_float, x - y)

BINARY(mul_f32, float, x *y)
BINARY(mul_f64, double, x *y)
BINARY(mul_i8, uint8_t, x *y)
BINARY(mul_i16, uint16_t, (uint32_t)x *y)
BINARY(mul_i32, uint32_t, x *y)
BINARY(mul_i64, uint64_t, x *y)
BINARY(and_bool, uint8_t, x &&y)
BINARY_HALF(mul_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, x *y)
BINARY_HALF(mul_f16, sheaf__float16_to_float, sheaf__float16_of_float, x *y)

BINARY(max_f32, float, LARGER)
BINARY(max_f64, double, LARGER)
BINARY(max_i8, int8_t, x > y ? x : y)
BINARY(max_i16, int16_t, x > y ? x : y)
BINARY(max_i32, int32_t, x > y ? x : y)
BINARY(max_i64, int64_t, x > y ? x : y)
BINARY(max_u8, uint8_t, x > y ? x : y)
BINARY(max_u16, uint16_t, x > y ? x : y)
BINARY(max_u32, uint32_t, x > y ? x : y)
BINARY(max_u64, uint64_t, x > y ? x : y)
BINARY_HALF(max_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, LARGER)
BINARY_HALF(max_f16, sheaf__float16_to_float, sheaf__float16_of_float, LARGER)

BINARY(min_f32, float, SMALLER)
BINARY(min_f64, double, SMALLER)
BINARY(min_i8, int8_t, x < y ? x : y)
BINARY(min_i16, int16_t, x < y ? x : y)
BINARY(min_i32, int32_t, x < y ? x : y)
BINARY(min_i64, int64_t, x < y ? x : y)
BINARY(min_u8, uint8_t, x < y ? x : y)
BINARY(min_u16, uint16_t, x < y ? x : y)
BINARY(min_u32, uint32_t, x < y ? x : y)
BINARY(min_u64, uint64_t, x < y ? x : y)
BINARY_HALF(min_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, SMALLER)
BINARY_HALF(min_f16, sheaf__float16_to_float, sheaf__float16_of_float, SMALLER)

/* A factor for integers is an integer; through int64 a negative one wraps as it should. */
static uint64_t whole(double factor)
{
    return factor >= 0x1p63 ? (uint64_t)factor : (uint64_t)(int64_t)factor;
}

#define SCALE_WHOLE(name, type)                                         \
    static void name(void *out, const void *a, double factor, size_t n) \
    {                                                                   \
        type *to = out;                                                 \
        const type *from = a;                                           \
        const uint64_t f = whole(factor);                               \
        SHEAF__INDEPENDENT                                              \
        for (size_t i = 0; i < n; i++)                                  \
            to[i] = (type)(from[i] * f);                                \
    }
#define AXPY_WHOLE(name, type)                                        \
    static void name(void *y, const void *x, double factor, size_t n) \
    {                                                                 \
        type *to = y;                                                 \
        const type *from = x;                                         \
        const uint64_t f = whole(factor);                             \
        SHEAF__INDEPENDENT                                            \
        for (size_t i = 0; i < n; i++)                                \
            to[i] = (type)(to[i] + from[i] * f);                      \
    }
SCALE(scale_f32, float, float)
SCALE(scale_f64, double, double)
SCALE_WHOLE(scale_i8, uint8_t)
SCALE_WHOLE(scale_i16, uint16_t)
SCALE_WHOLE(scale_i32, uint32_t)
SCALE_WHOLE(scale_i64, uint64_t)
SCALE_HALF(scale_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float)
SCALE_HALF(scale_f16, sheaf__float16_to_float, sheaf__float16_of_float)

AXPY(axpy_f32, float, float)
AXPY(axpy_f64, double, double)
AXPY_WHOLE(axpy_i8, uint8_t)
AXPY_WHOLE(axpy_i16, uint16_t)
AXPY_WHOLE(axpy_i32, uint32_t)
AXPY_WHOLE(axpy_i64, uint64_t)
AXPY_HALF(axpy_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float)
AXPY_HALF(axpy_f16, sheaf__float16_to_float, sheaf__float16_of_float)

static void float_to_bfloat16(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sheaf__bfloat16_of_float(in[i]);
}

static void bfloat16_to_float(float *out, const uint16_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sheaf__bfloat16_to_float(in[i]);
}

static void float_to_float16(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sheaf__float16_of_float(in[i]);
}

static void float16_to_float(float *out, const uint16_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sheaf__float16_to_float(in[i]);
}

static const struct sheaf__kernels portable = {
    .add = {[SHEAF_FLOAT32] = add_f32,
            [SHEAF_FLOAT64] = add_f64,
            [SHEAF_INT8] = add_i8,
            [SHEAF_INT16] = add_i16,
            [SHEAF_INT32] = add_i32,
            [SHEAF_INT64] = add_i64,
            [SHEAF_UINT8] = add_i8,
            [SHEAF_UINT16] = add_i16,
            [SHEAF_UINT32] = add_i32,
            [SHEAF_UINT64] = add_i64,
            [SHEAF_BOOL] = or_bool,
            [SHEAF_BFLOAT16] = add_bf16,
            [SHEAF_FLOAT16] = add_f16},
    .sub = {[SHEAF_FLOAT32] = sub_f32,
            [SHEAF_FLOAT64] = sub_f64,
            [SHEAF_INT8] = sub_i8,
            [SHEAF_INT16] = sub_i16,
            [SHEAF_INT32] = sub_i32,
            [SHEAF_INT64] = sub_i64,
            [SHEAF_UINT8] = sub_i8,
            [SHEAF_UINT16] = sub_i16,
            [SHEAF_UINT32] = sub_i32,
            [SHEAF_UINT64] = sub_i64,
            [SHEAF_BFLOAT16] = sub_bf16,
            [SHEAF_FLOAT16] = sub_f16},
    .mul = {[SHEAF_FLOAT32] = mul_f32,
            [SHEAF_FLOAT64] = mul_f64,
            [SHEAF_INT8] = mul_i8,
            [SHEAF_INT16] = mul_i16,
            [SHEAF_INT32] = mul_i32,
            [SHEAF_INT64] = mul_i64,
            [SHEAF_UINT8] = mul_i8,
            [SHEAF_UINT16] = mul_i16,
            [SHEAF_UINT32] = mul_i32,
            [SHEAF_UINT64] = mul_i64,
            [SHEAF_BOOL] = and_bool,
            [SHEAF_BFLOAT16] = mul_bf16,
            [SHEAF_FLOAT16] = mul_f16},
    .max = {[SHEAF_FLOAT32] = max_f32,
            [SHEAF_FLOAT64] = max_f64,
            [SHEAF_INT8] = max_i8,
            [SHEAF_INT16] = max_i16,
            [SHEAF_INT32] = max_i32,
            [SHEAF_INT64] = max_i64,
            [SHEAF_UINT8] = max_u8,
            [SHEAF_UINT16] = max_u16,
            [SHEAF_UINT32] = max_u32,
            [SHEAF_UINT64] = max_u64,
            [SHEAF_BOOL] = or_bool,
            [SHEAF_BFLOAT16] = max_bf16,
            [SHEAF_FLOAT16] = max_f16},
    .min = {[SHEAF_FLOAT32] = min_f32,
            [SHEAF_FLOAT64] = min_f64,
            [SHEAF_INT8] = min_i8,
            [SHEAF_INT16] = min_i16,
            [SHEAF_INT32] = min_i32,
            [SHEAF_INT64] = min_i64,
            [SHEAF_UINT8] = min_u8,
            [SHEAF_UINT16] = min_u16,
            [SHEAF_UINT32] = min_u32,
            [SHEAF_UINT64] = min_u64,
            [SHEAF_BOOL] = and_bool,
            [SHEAF_BFLOAT16] = min_bf16,
            [SHEAF_FLOAT16] = min_f16},
    .scale = {[SHEAF_FLOAT32] = scale_f32,
              [SHEAF_FLOAT64] = scale_f64,
              [SHEAF_INT8] = scale_i8,
              [SHEAF_INT16] = scale_i16,
              [SHEAF_INT32] = scale_i32,
              [SHEAF_INT64] = scale_i64,
              [SHEAF_UINT8] = scale_i8,
              [SHEAF_UINT16] = scale_i16,
              [SHEAF_UINT32] = scale_i32,
              [SHEAF_UINT64] = scale_i64,
              [SHEAF_BFLOAT16] = scale_bf16,
              [SHEAF_FLOAT16] = scale_f16},
    .axpy = {[SHEAF_FLOAT32] = axpy_f32,
             [SHEAF_FLOAT64] = axpy_f64,
             [SHEAF_INT8] = axpy_i8,
             [SHEAF_INT16] = axpy_i16,
             [SHEAF_INT32] = axpy_i32,
             [SHEAF_INT64] = axpy_i64,
             [SHEAF_UINT8] = axpy_i8,
             [SHEAF_UINT16] = axpy_i16,
             [SHEAF_UINT32] = axpy_i32,
             [SHEAF_UINT64] = axpy_i64,
             [SHEAF_BFLOAT16] = axpy_bf16,
             [SHEAF_FLOAT16] = axpy_f16},
    .float_to_bfloat16 = float_to_bfloat16,
    .bfloat16_to_float = bfloat16_to_float,
    .float_to_float16 = float_to_float16,
    .float16_to_float = float16_to_float,
};

const struct sheaf__kernels *sheaf__kernels_portable(void)
{
    return &portable;
}
