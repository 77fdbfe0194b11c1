/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_KERNEL_LOOPS_H
#define SHEAF_TENSOR_KERNEL_LOOPS_H

/** @file
 *  The loops of kernel tables, named one by one where they are made: BINARY(add_f32, float, x + y).
 * TARGET, defined before this is included, is the attribute of the processor they are compiled for,
 * or nothing. */

#include "base/independent.h"
#include "tensor/half.h"
#include "tensor/kernel.h"

/* x and y are the elements; `out` is `a`, or `b`, or neither. */
#define BINARY(name, type, value)                                              \
    TARGET static void name(void *out, const void *a, const void *b, size_t n) \
    {                                                                          \
        type *to = out;                                                        \
        const type *left = a, *right = b;                                      \
        SHEAF__INDEPENDENT                                                     \
        for (size_t i = 0; i < n; i++) {                                       \
            type x = left[i], y = right[i];                                    \
            to[i] = (type)(value);                                             \
        }                                                                      \
    }
/* The same for 16-bit numbers that are computed as float and rounded back. */
#define BINARY_HALF(name, widen, narrow, value)                                \
    TARGET static void name(void *out, const void *a, const void *b, size_t n) \
    {                                                                          \
        uint16_t *to = out;                                                    \
        const uint16_t *left = a, *right = b;                                  \
        SHEAF__INDEPENDENT                                                     \
        for (size_t i = 0; i < n; i++) {                                       \
            float x = widen(left[i]), y = widen(right[i]);                     \
            to[i] = narrow(value);                                             \
        }                                                                      \
    }
/* x is the element, f the factor converted to `factor_type`. */
#define SCALE(name, type, factor_type)                                         \
    TARGET static void name(void *out, const void *a, double factor, size_t n) \
    {                                                                          \
        type *to = out;                                                        \
        const type *from = a;                                                  \
        const factor_type f = (factor_type)factor;                             \
        SHEAF__INDEPENDENT                                                     \
        for (size_t i = 0; i < n; i++)                                         \
            to[i] = (type)(from[i] * f);                                       \
    }
#define SCALE_HALF(name, widen, narrow)                                        \
    TARGET static void name(void *out, const void *a, double factor, size_t n) \
    {                                                                          \
        uint16_t *to = out;                                                    \
        const uint16_t *from = a;                                              \
        const float f = (float)factor;                                         \
        SHEAF__INDEPENDENT                                                     \
        for (size_t i = 0; i < n; i++)                                         \
            to[i] = narrow(widen(from[i]) * f);                                \
    }
#define AXPY(name, type, factor_type)                                        \
    TARGET static void name(void *y, const void *x, double factor, size_t n) \
    {                                                                        \
        type *to = y;                                                        \
        const type *from = x;                                                \
        const factor_type f = (factor_type)factor;                           \
        SHEAF__INDEPENDENT                                                   \
        for (size_t i = 0; i < n; i++)                                       \
            to[i] = (type)(to[i] + (type)(from[i] * f));                     \
    }
#define AXPY_HALF(name, widen, narrow)                                       \
    TARGET static void name(void *y, const void *x, double factor, size_t n) \
    {                                                                        \
        uint16_t *to = y;                                                    \
        const uint16_t *from = x;                                            \
        const float f = (float)factor;                                       \
        SHEAF__INDEPENDENT                                                   \
        for (size_t i = 0; i < n; i++)                                       \
            to[i] = narrow(widen(to[i]) + widen(from[i]) * f);               \
    }

/* NaN if either is. */
#define LARGER  (x > y || x != x ? x : y)
#define SMALLER (x < y || x != x ? x : y)

#endif
