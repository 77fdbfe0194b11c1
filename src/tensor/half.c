/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/half.h"

/* Integer arithmetic throughout: the same on every processor, and no flag of the floating-point
 * unit (flush to zero, rounding) changes it. */

float sheaf__float16_to_float(uint16_t value)
{
    uint32_t sign = (uint32_t)(value & 0x8000) << 16;
    uint32_t exponent = (value >> 10) & 0x1f;
    uint32_t fraction = value & 0x3ff;
    if (exponent == 0x1f) /* infinity, NaN (made quiet) */
        return sheaf__float_of_bits(sign | 0x7f800000 | (fraction ? 0x400000 : 0) | fraction << 13);
    if (exponent)
        return sheaf__float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    if (!fraction)
        return sheaf__float_of_bits(sign);
    /* Subnormal: fraction * 2^-24, which is a normal float. */
    int shift = __builtin_clz(fraction) - 21;
    return sheaf__float_of_bits(sign | (uint32_t)(113 - shift) << 23 |
                                ((fraction << shift) & 0x3ff) << 13);
}

/* Rounds `bits` (52 bits of fraction, as double) to float16: to nearest, ties to even. */
uint16_t sheaf__float16_of_double(double value)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    uint16_t sign = (uint16_t)((bits >> 48) & 0x8000);
    int exponent = (int)((bits >> 52) & 0x7ff) - 1023;
    uint64_t fraction = bits & 0xfffffffffffff;
    if (exponent == 1024)
        return (uint16_t)(sign | 0x7c00 | (fraction ? 0x200 | (fraction >> 42) : 0));
    if (exponent > 15)
        return (uint16_t)(sign | 0x7c00);
    if (exponent < -25)
        return sign;
    /* The result's unit is 2^(exponent-10), at least 2^-24. */
    uint64_t whole = fraction | 0x10000000000000;
    int drop = 42 + (exponent < -14 ? -14 - exponent : 0);
    uint64_t kept = whole >> drop;
    uint64_t rest = whole & ((UINT64_C(1) << drop) - 1);
    uint64_t half = UINT64_C(1) << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    /* `kept` holds the leading 1 of normal numbers; a carry out of it raises the exponent by
     * itself. */
    uint64_t base = exponent < -14 ? 0 : (uint64_t)(exponent + 14) << 10;
    return (uint16_t)(sign | (base + kept));
}

uint16_t sheaf__float16_of_float(float value)
{
    return sheaf__float16_of_double((double)value);
}
