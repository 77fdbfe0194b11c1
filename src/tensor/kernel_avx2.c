/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for processors with AVX2 and F16C. Where the portable loops are bound by memory already
 * (integers, double) they stay. */
#include "tensor/kernel_table.h"

#ifdef __x86_64__

#define TARGET __attribute__((target("avx2,f16c")))
#include "tensor/kernel_loops.h"

#include <immintrin.h>

BINARY(add_f32, float, x + y)
BINARY(sub_f32, float, x - y)
BINARY(mul_f32, float, x *y)
BINARY(max_f32, float, LARGER)
BINARY(min_f32, float, SMALLER)
SCALE(scale_f32, float, float)
AXPY(axpy_f32, float, float)

BINARY_HALF(add_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, x + y)
BINARY_HALF(sub_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, x - y)
BINARY_HALF(mul_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, x *y)
SCALE_HALF(scale_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float)
AXPY_HALF(axpy_bf16, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float)

TARGET static void float_to_bfloat16(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sheaf__bfloat16_of_float(in[i]);
}

TARGET static void bfloat16_to_float(float *out, const uint16_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sheaf__bfloat16_to_float(in[i]);
}

TARGET static void float_to_float16(uint16_t *out, const float *in, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i narrow = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(out + i), narrow);
    }
    for (; i < n; i++)
        out[i] = sheaf__float16_of_float(in[i]);
}

TARGET static void float16_to_float(float *out, const uint16_t *in, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i narrow = _mm_loadu_si128((const __m128i *)(const void *)(in + i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(narrow));
    }
    for (; i < n; i++)
        out[i] = sheaf__float16_to_float(in[i]);
}

void sheaf__kernels_avx2(struct sheaf__kernels *table)
{
    table->add[SHEAF_FLOAT32] = add_f32;
    table->sub[SHEAF_FLOAT32] = sub_f32;
    table->mul[SHEAF_FLOAT32] = mul_f32;
    table->max[SHEAF_FLOAT32] = max_f32;
    table->min[SHEAF_FLOAT32] = min_f32;
    table->scale[SHEAF_FLOAT32] = scale_f32;
    table->axpy[SHEAF_FLOAT32] = axpy_f32;
    table->add[SHEAF_BFLOAT16] = add_bf16;
    table->sub[SHEAF_BFLOAT16] = sub_bf16;
    table->mul[SHEAF_BFLOAT16] = mul_bf16;
    table->scale[SHEAF_BFLOAT16] = scale_bf16;
    table->axpy[SHEAF_BFLOAT16] = axpy_bf16;
    table->float_to_bfloat16 = float_to_bfloat16;
    table->bfloat16_to_float = bfloat16_to_float;
    table->float_to_float16 = float_to_float16;
    table->float16_to_float = float16_to_float;
}

#else

void sheaf__kernels_avx2(struct sheaf__kernels *table)
{
    (void)table;
}

#endif
