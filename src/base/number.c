/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <float.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Text between its blanks. */
struct text {
    const char *at, *end;
};

static struct text strip(const char *text, size_t size)
{
    struct text t = {text, text + size};
    while (t.at < t.end && is_blank(*t.at))
        t.at++;
    while (t.at < t.end && is_blank(t.end[-1]))
        t.end--;
    return t;
}

/* Steps over a sign; whether it is a minus. */
static bool take_sign(struct text *t)
{
    const bool minus = t->at < t->end && *t->at == '-';
    if (minus || (t->at < t->end && *t->at == '+'))
        t->at++;
    return minus;
}

bool sheaf__number_int(const char *text, size_t size, int64_t min, int64_t max, int64_t *value)
{
    struct text t = strip(text, size);
    const bool minus = take_sign(&t);
    uint64_t v = 0;
    if (t.at == t.end)
        return false;
    for (; t.at < t.end; t.at++)
        if (!is_digit(*t.at) || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*t.at - '0'), &v))
            return false;
    if (v > (uint64_t)INT64_MAX + minus)
        return false;
    *value = minus ? (int64_t)(0 - v) : (int64_t)v;
    return *value >= min && *value <= max;
}

/* ---- fractions ---- */

/* strtod() is slow; what most numbers look like goes another way. Up to 19 digits are an integer of
 * 64 bits, and so are powers of ten up to 27, but for their factors of two: in a long double of 64
 * bits one multiplication or division makes the number, rounded once. It is then rounded to fewer
 * bits, which is right unless the bits that are cut off are at the middle, give or take one. */
#define DIGITS  19
#define LARGEST 27
#define LONGEST 2048 /* bytes of a number */

struct decimal {
    uint64_t digits;
    int64_t power; /* of ten */
    bool minus;
};

/* Adds digits to the number; `count` grows by how many, leading zeros left out. */
static bool take_digits(struct text *t, struct decimal *d, int *count)
{
    const char *start = t->at;
    for (; t->at < t->end && is_digit(*t->at); t->at++) {
        d->digits = d->digits * 10 + (uint64_t)(*t->at - '0');
        *count += *count > 0 || d->digits > 0;
    }
    return t->at > start;
}

static bool take_exponent(struct text *t, struct decimal *d)
{
    int64_t power = 0;
    int count = 0;
    t->at++;
    const bool minus = take_sign(t);
    for (; t->at < t->end && is_digit(*t->at) && count < 5; t->at++, count++)
        power = power * 10 + (*t->at - '0');
    d->power += minus ? -power : power;
    return count > 0;
}

/* False: the text is none, or one for strtod(). */
static bool take_decimal(struct text t, struct decimal *d)
{
    int count = 0;
    *d = (struct decimal){.minus = take_sign(&t)};
    bool any = take_digits(&t, d, &count);
    if (t.at < t.end && *t.at == '.') {
        const char *fraction = ++t.at;
        any = take_digits(&t, d, &count) || any;
        d->power = fraction - t.at;
    }
    if (any && t.at < t.end && (*t.at == 'e' || *t.at == 'E'))
        any = take_exponent(&t, d);
    return any && t.at == t.end && count <= DIGITS;
}

/* The number, if it can be rounded to `bits`. */
static bool make(const struct decimal *d, int bits, long double *value)
{
#if LDBL_MANT_DIG == 64
    static const long double powers[LARGEST + 1] = {
        1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
        1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
        1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    if (d->power < -LARGEST || d->power > LARGEST)
        return false;
    const long double v = d->power < 0 ? (long double)d->digits / powers[-d->power]
                                       : (long double)d->digits * powers[d->power];
    uint64_t mantissa;
    memcpy(&mantissa, &v, sizeof(mantissa));
    const uint64_t middle = UINT64_C(1) << (63 - bits), cut = mantissa & (2 * middle - 1);
    *value = d->minus ? -v : v;
    return cut + 1 < middle || cut > middle + 1;
#else
    (void)d, (void)bits, (void)value;
    return false;
#endif
}

/* What strtod() takes: hexadecimal, infinities and the like, and what needs more digits. */
static bool take_any(struct text t, float *f, double *d)
{
    char copy[LONGEST + 1], *end;
    const size_t size = (size_t)(t.end - t.at);
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (size == 0 || size > LONGEST || !c)
        return false;
    memcpy(copy, t.at, size);
    copy[size] = '\0';
    if (f)
        *f = strtof_l(copy, &end, c);
    else
        *d = strtod_l(copy, &end, c);
    freelocale(c);
    return end == copy + size;
}

bool sheaf__number_float(const char *text, size_t size, float *value)
{
    const struct text t = strip(text, size);
    struct decimal d;
    long double v;
    if (!take_decimal(t, &d) || !make(&d, FLT_MANT_DIG, &v))
        return take_any(t, value, NULL);
    *value = (float)v;
    return true;
}

bool sheaf__number_double(const char *text, size_t size, double *value)
{
    const struct text t = strip(text, size);
    struct decimal d;
    long double v;
    if (!take_decimal(t, &d) || !make(&d, DBL_MANT_DIG, &v))
        return take_any(t, NULL, value);
    *value = (double)v;
    return true;
}
