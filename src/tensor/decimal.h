/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_DECIMAL_H
#define SHEAF_TENSOR_DECIMAL_H

/** @file
 *  Binary numbers as decimal digits, whatever the locale. */

#include <sheaf/tensor.h>

/** digits[0].digits[1]digits[2]… * 10^exponent. */
struct sheaf__decimal {
    char digits[20]; /**< without leading zero (but "0" itself) and trailing zeros */
    int count;
    int exponent;
};

/** The shortest decimal that reads back as the same value of `dtype` (P2.2): float16, float32 or
 * float64. `value` is finite, its sign is not looked at. */
struct sheaf__decimal sheaf__decimal_shortest(double value, sheaf_dtype dtype);

/** As snprintf of "%.<precision><format>" with format 'e', 'f' or 'g' in the C locale; `size` holds
 * 400 at least. */
size_t sheaf__decimal_format(char *text, size_t size, char format, int precision, double value);

/** What the text (digits, one point, an exponent; no other characters) reads as in float32 and in
 * float64. */
float sheaf__decimal_to_float(const char *text);
double sheaf__decimal_to_double(const char *text);

#endif
