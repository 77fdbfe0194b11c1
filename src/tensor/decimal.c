/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/decimal.h"

#include "tensor/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the C library prints is rounded exactly, and what it reads, too; only its decimal point
 * depends on the locale. So numbers are read without a point, and printed ones get theirs back. */

size_t sheaf__decimal_format(char *text, size_t size, char format, int precision, double value)
{
    char pattern[] = {'%', '.', '*', format, '\0'};
    char local[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(local, sizeof(local), pattern, precision, value);
#pragma GCC diagnostic pop
    size_t n = 0;
    bool in_point = false;
    for (const char *c = local; *c && n + 1 < size; c++) {
        bool plain = (*c >= '0' && *c <= '9') || strchr("+-einfa", *c);
        if (plain)
            text[n++] = *c;
        else if (!in_point)
            text[n++] = '.';
        in_point = !plain;
    }
    text[n] = '\0';
    return n;
}

/* "1.25e+02" into the whole number 125 and the exponent of its last digit, as text without a point.
 */
static void without_point(const char *text, char *out, size_t size)
{
    size_t n = 0;
    int exponent = 0;
    bool fraction = false;
    for (; *text && *text != 'e' && n + 16 < size; text++) {
        if (*text == '.') {
            fraction = true;
            continue;
        }
        out[n++] = *text;
        exponent -= fraction;
    }
    if (*text == 'e')
        exponent += (int)strtol(text + 1, NULL, 10);
    snprintf(out + n, size - n, "e%d", exponent);
}

float sheaf__decimal_to_float(const char *text)
{
    char plain[512];
    without_point(text, plain, sizeof(plain));
    return strtof(plain, NULL);
}

double sheaf__decimal_to_double(const char *text)
{
    char plain[512];
    without_point(text, plain, sizeof(plain));
    return strtod(plain, NULL);
}

static bool reads_back(uint64_t number, int exponent, double value, sheaf_dtype dtype)
{
    char text[40];
    snprintf(text, sizeof(text), "%llue%d", (unsigned long long)number, exponent);
    if (dtype == SHEAF_FLOAT32)
        return strtof(text, NULL) == (float)value;
    if (dtype == SHEAF_FLOAT16)
        return sheaf__float16_to_float(sheaf__float16_of_double(strtod(text, NULL))) ==
               (float)value;
    return strtod(text, NULL) == value;
}

/* number * 10^exponent as digits. */
static struct sheaf__decimal digits_of(uint64_t number, int exponent)
{
    struct sheaf__decimal d = {0};
    d.count = snprintf(d.digits, sizeof(d.digits), "%llu", (unsigned long long)number);
    d.exponent = exponent + d.count - 1;
    while (d.count > 1 && d.digits[d.count - 1] == '0')
        d.digits[--d.count] = '\0';
    return d;
}

struct sheaf__decimal sheaf__decimal_shortest(double value, sheaf_dtype dtype)
{
    value = fabs(value);
    if (value == 0)
        return (struct sheaf__decimal){.digits = "0", .count = 1};
    for (int precision = 0; precision < 17; precision++) {
        char text[64];
        sheaf__decimal_format(text, sizeof(text), 'e', precision, value);
        uint64_t nearest = 0;
        const char *c = text;
        for (; *c != 'e'; c++)
            if (*c != '.')
                nearest = nearest * 10 + (uint64_t)(*c - '0');
        int exponent = (int)strtol(c + 1, NULL, 10) - precision;
        /* At a power of two the numbers below lie closer: the nearest decimal may be one of them
         * while its upper neighbour still reads back. */
        for (uint64_t number = nearest; number <= nearest + 1; number++)
            if (reads_back(number, exponent, value, dtype))
                return digits_of(number, exponent);
    }
    /* Seventeen digits tell every double apart; this is not reached. */
    return digits_of((uint64_t)value, 0);
}
