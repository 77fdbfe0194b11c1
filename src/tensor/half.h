/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_HALF_H
#define SHEAF_TENSOR_HALF_H

/** @file
 *  bfloat16 and float16 numbers. To the shorter type they round to nearest, ties to even; NaN stays
 * NaN (quiet). */

#include <stdint.h>

static inline float sheaf__float_of_bits(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}
static inline uint32_t sheaf__bits_of_float(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float sheaf__bfloat16_to_float(uint16_t value)
{
    return sheaf__float_of_bits((uint32_t)value << 16);
}
static inline uint16_t sheaf__bfloat16_of_float(float value)
{
    uint32_t bits = sheaf__bits_of_float(value);
    uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    uint32_t nan = (bits >> 16) | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded >> 16);
}

float sheaf__float16_to_float(uint16_t value);
uint16_t sheaf__float16_of_float(float value);
/** From double in one rounding. */
uint16_t sheaf__float16_of_double(double value);

#endif
