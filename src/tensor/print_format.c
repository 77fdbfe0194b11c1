/* SPDX-License-Identifier: Apache-2.0 */
/* The one format of an array's elements (P3). */
#include "tensor/print_array.h"

#include "tensor/decimal.h"
#include "tensor/half.h"
#include "tensor/kernel.h"
#include "tensor/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRECISION 8 /* most decimals in an array */

static bool is_aligned_float(sheaf_dtype dtype)
{
    return dtype == SHEAF_FLOAT16 || dtype == SHEAF_FLOAT32 || dtype == SHEAF_FLOAT64;
}

/* A number split at its point. */
struct parts {
    char whole[320]; /* sign included */
    char fraction[48];
};

/* Splits "12.5e+03" or "12.5"; returns what follows the 'e', else NULL. */
static const char *split(const char *text, struct parts *out)
{
    size_t n = strcspn(text, ".e");
    memcpy(out->whole, text, n);
    out->whole[n] = '\0';
    out->fraction[0] = '\0';
    text += n;
    if (*text == '.') {
        n = strcspn(++text, "e");
        memcpy(out->fraction, text, n);
        out->fraction[n] = '\0';
        text += n;
    }
    return *text == 'e' ? text + 1 : NULL;
}

static void drop_zeros(char *fraction)
{
    size_t n = strlen(fraction);
    while (n && fraction[n - 1] == '0')
        fraction[--n] = '\0';
}

/* P3.4 */
static void positional(double value, sheaf_dtype dtype, struct parts *out)
{
    char text[400];
    struct sheaf__decimal d = sheaf__decimal_shortest(value, dtype);
    int decimals = d.count - 1 - d.exponent;
    /* More than 8 decimals: the exact value rounded. None: the exact integer. Between: the shortest
     * digits are what so many decimals of the exact value give, but for ties and powers of two. */
    if (value == 0 || decimals <= 0 || decimals > PRECISION) {
        sheaf__decimal_format(text, sizeof(text), 'f', decimals > PRECISION ? PRECISION : 0, value);
        split(text, out);
        drop_zeros(out->fraction);
        return;
    }
    const char *sign = signbit(value) ? "-" : "";
    int whole = d.exponent + 1;
    if (whole > 0) {
        snprintf(out->whole, sizeof(out->whole), "%s%.*s", sign, whole, d.digits);
        snprintf(out->fraction, sizeof(out->fraction), "%s", d.digits + whole);
    } else {
        snprintf(out->whole, sizeof(out->whole), "%s0", sign);
        snprintf(out->fraction, sizeof(out->fraction), "%.*s%s", -whole, "00000000", d.digits);
    }
}

/* Digits after the point and digits of the exponent that a number needs in scientific form (P3.5).
 */
static void measure_scientific(double value, sheaf_dtype dtype, int *decimals, int *exponent)
{
    struct sheaf__decimal d = sheaf__decimal_shortest(value, dtype);
    int power = d.exponent;
    *decimals = d.count - 1;
    if (*decimals > PRECISION) {
        char text[64];
        struct parts parts;
        sheaf__decimal_format(text, sizeof(text), 'e', PRECISION, value);
        power = (int)strtol(split(text, &parts), NULL, 10);
        drop_zeros(parts.fraction);
        *decimals = (int)strlen(parts.fraction);
    }
    *exponent = abs(power) > 99 ? 3 : 2;
}

/* ---- the survey of what will be shown ---- */

struct survey {
    struct sheaf__array_format format;
    double largest, smallest; /* of the finite ones that are not 0 */
    bool sized;               /* there are such */
    int longest_word;         /* of nan, inf, -inf; 0: none */
};

static void survey_range(const void *element, void *user)
{
    struct survey *s = user;
    double value = sheaf__kernel_number(element, s->format.dtype, 0);
    if (!isfinite(value)) {
        int length = (int)strlen(sheaf__print_word(value));
        s->longest_word = length > s->longest_word ? length : s->longest_word;
        return;
    }
    double size = fabs(value);
    if (size == 0)
        return;
    if (!s->sized || size > s->largest)
        s->largest = size;
    if (!s->sized || size < s->smallest)
        s->smallest = size;
    s->sized = true;
}

static void widen(int *width, int to)
{
    if (to > *width)
        *width = to;
}

static void survey_width(const void *element, void *user)
{
    struct survey *s = user;
    struct sheaf__array_format *f = &s->format;
    double value = sheaf__kernel_number(element, f->dtype, 0);
    if (!isfinite(value))
        return;
    if (f->scientific) {
        int decimals, exponent;
        measure_scientific(value, f->dtype, &decimals, &exponent);
        widen(&f->left, signbit(value) ? 2 : 1);
        widen(&f->decimals, decimals);
        widen(&f->exponent, exponent);
        return;
    }
    struct parts parts;
    positional(value, f->dtype, &parts);
    widen(&f->left, (int)strlen(parts.whole));
    widen(&f->right, (int)strlen(parts.fraction));
}

static void survey_integer(const void *element, void *user)
{
    struct survey *s = user;
    struct sheaf__str text = {0};
    sheaf__print_number(&text, s->format.dtype, element);
    widen(&s->format.left, (int)text.size);
    sheaf__str_free(&text);
}

/* The quotient in the dtype itself. */
static double quotient(double a, double b, sheaf_dtype dtype)
{
    if (dtype == SHEAF_FLOAT32)
        return (double)((float)(a / b));
    if (dtype == SHEAF_FLOAT16)
        return (double)sheaf__float16_to_float(sheaf__float16_of_double(a / b));
    return a / b;
}

static struct sheaf__array_format survey_floats(const struct sheaf__array *a, bool summary)
{
    struct survey s = {.format.dtype = a->dtype};
    sheaf__array_visit(a, summary, survey_range, &s);
    s.format.scientific = s.sized && (s.largest >= 1e8 || s.smallest < 1e-4 ||
                                      quotient(s.largest, s.smallest, a->dtype) > 1000);
    sheaf__array_visit(a, summary, survey_width, &s);
    if (s.format.scientific)
        s.format.right = s.format.decimals + 2 + s.format.exponent;
    widen(&s.format.left, s.longest_word ? s.longest_word - s.format.right - 1 : 0);
    return s.format;
}

struct sheaf__array_format sheaf__array_format_of(const struct sheaf__array *a, bool summary)
{
    struct survey s = {.format.dtype = a->dtype};
    if (is_aligned_float(a->dtype))
        return survey_floats(a, summary);
    if (a->dtype == SHEAF_BOOL)
        s.format.left = 5;
    else if (a->dtype != SHEAF_STRING && a->dtype != SHEAF_BFLOAT16)
        sheaf__array_visit(a, summary, survey_integer, &s);
    return s.format;
}

/* ---- writing ---- */

static void write_scientific(struct sheaf__str *out, const struct sheaf__array_format *f,
                             double value)
{
    char text[64];
    struct parts parts;
    /* Decimals beyond those that identify the value come from its exact expansion. */
    sheaf__decimal_format(text, sizeof(text), 'e', f->decimals, value);
    const char *power = split(text, &parts);
    sheaf__str_printf(out, "%*s.%se%c", f->left, parts.whole, parts.fraction, *power);
    for (int i = (int)strlen(power + 1); i < f->exponent; i++)
        sheaf__str_char(out, '0');
    sheaf__str_add(out, power + 1);
}

static void write_float(struct sheaf__str *out, const struct sheaf__array_format *f, double value)
{
    if (!isfinite(value)) {
        sheaf__str_printf(out, "%*s", f->left + f->right + 1, sheaf__print_word(value));
        return;
    }
    if (f->scientific) {
        write_scientific(out, f, value);
        return;
    }
    struct parts parts;
    positional(value, f->dtype, &parts);
    sheaf__str_printf(out, "%*s.%-*s", f->left, parts.whole, f->right, parts.fraction);
}

void sheaf__array_element(struct sheaf__str *out, const struct sheaf__array_format *format,
                          const void *element)
{
    if (is_aligned_float(format->dtype)) {
        write_float(out, format, sheaf__kernel_number(element, format->dtype, 0));
        return;
    }
    struct sheaf__str text = {0};
    sheaf__print_number(&text, format->dtype, element);
    for (size_t i = text.size; i < (size_t)format->left; i++)
        sheaf__str_char(out, ' ');
    sheaf__str_bytes(out, sheaf__str_text(&text), text.size);
    out->failed |= text.failed;
    sheaf__str_free(&text);
}
