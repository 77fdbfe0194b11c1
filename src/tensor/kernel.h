/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_KERNEL_H
#define SHEAF_TENSOR_KERNEL_H

/** @file
 *  Element-wise kernels over plain host memory: what collectives, parameter servers, pipelines and
 * operations share.
 *
 *  The table holds portable kernels; those for wider processors replace them at first use and give
 * the same bits. Each element is computed by itself, so any split over threads gives the same
 * result. Entries are NULL for dtypes that do not compute (strings, float8, 4-bit). `out` may be
 * `a` or `b` itself, but not overlap them otherwise. */

#include "tensor/shape.h"

typedef void (*sheaf__kernel_binary)(void *out, const void *a, const void *b, size_t n);
typedef void (*sheaf__kernel_scale)(void *out, const void *a, double factor, size_t n);
typedef void (*sheaf__kernel_axpy)(void *y, const void *x, double factor, size_t n);

struct sheaf__kernels {
    sheaf__kernel_binary
        add[SHEAF__DTYPES]; /**< a + b; integers wrap; bool: or; bf16, f16 rounded once */
    sheaf__kernel_binary sub[SHEAF__DTYPES];
    sheaf__kernel_binary mul[SHEAF__DTYPES]; /**< bool: and */
    sheaf__kernel_binary max[SHEAF__DTYPES]; /**< NaN if either is */
    sheaf__kernel_binary min[SHEAF__DTYPES];
    sheaf__kernel_scale scale[SHEAF__DTYPES]; /**< a * factor, the factor converted to the dtype
                                                 (float for bf16, f16) */
    sheaf__kernel_axpy axpy[SHEAF__DTYPES];   /**< y + factor * x, rounded twice */
    void (*float_to_bfloat16)(uint16_t *out, const float *in, size_t n);
    void (*bfloat16_to_float)(float *out, const uint16_t *in, size_t n);
    void (*float_to_float16)(uint16_t *out, const float *in, size_t n);
    void (*float16_to_float)(float *out, const uint16_t *in, size_t n);
};

/** The table for this processor. Static storage. */
const struct sheaf__kernels *sheaf__kernels(void);
/** The portable one: what the others are checked against. */
const struct sheaf__kernels *sheaf__kernels_portable(void);

/** Whether numbers can be converted from one dtype to the other by sheaf__kernel_cast(). */
bool sheaf__kernel_can_cast(sheaf_dtype to, sheaf_dtype from);
/** Converts as TensorFlow's cast: floats to integers toward zero (out of range and NaN: as x86
 * does, the least value), anything to bool by != 0, complex to real by dropping the imaginary part.
 */
void sheaf__kernel_cast(void *out, sheaf_dtype to, const void *in, sheaf_dtype from, size_t n);

/** `n` elements of the number `value`, converted to the dtype. */
void sheaf__kernel_fill(void *out, sheaf_dtype dtype, double value, size_t n);
/** Copies a strided array (strides in elements of `size` bytes) to row-major `out`. */
void sheaf__kernel_gather(void *out, const void *in, size_t size, sheaf_shape shape,
                          const int64_t *strides);
/** Element `i` of an array as a number and as an integer (floats truncated, out of range clamped;
 * NaN 0). */
double sheaf__kernel_number(const void *data, sheaf_dtype dtype, int64_t i);
int64_t sheaf__kernel_integer(const void *data, sheaf_dtype dtype, int64_t i);

#endif
