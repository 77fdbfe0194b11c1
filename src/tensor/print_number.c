/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and strings by themselves. */
#include "tensor/print_array.h"

#include "tensor/decimal.h"
#include "tensor/kernel.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

const char *sheaf__print_word(double value)
{
    if (isnan(value))
        return "nan";
    return value > 0 ? "inf" : "-inf";
}

/* P2.3: positional between 1e-4 and 1e16, compared in double. */
static void print_float(struct sheaf__str *out, double value, sheaf_dtype dtype)
{
    if (!isfinite(value)) {
        sheaf__str_add(out, sheaf__print_word(value));
        return;
    }
    struct sheaf__decimal d = sheaf__decimal_shortest(value, dtype);
    if (signbit(value))
        sheaf__str_char(out, '-');
    if (value != 0 && (fabs(value) < 1e-4 || fabs(value) >= 1e16)) {
        sheaf__str_bytes(out, d.digits, 1);
        sheaf__str_printf(out, "%s%se%c%02d", d.count > 1 ? "." : "", d.digits + 1,
                          d.exponent < 0 ? '-' : '+', d.exponent < 0 ? -d.exponent : d.exponent);
        return;
    }
    if (d.exponent < 0) {
        sheaf__str_printf(out, "0.%.*s%s", -d.exponent - 1, "0000", d.digits);
        return;
    }
    for (int i = 0; i <= d.exponent; i++)
        sheaf__str_char(out, i < d.count ? d.digits[i] : '0');
    sheaf__str_printf(out, ".%s", d.count > d.exponent + 1 ? d.digits + d.exponent + 1 : "0");
}

/* P2.5: C's %g. */
static void print_bfloat16(struct sheaf__str *out, double value)
{
    char text[400];
    if (!isfinite(value)) {
        sheaf__str_add(out, sheaf__print_word(value));
        return;
    }
    sheaf__decimal_format(text, sizeof(text), 'g', 6, value);
    sheaf__str_add(out, text);
}

/* Python writes the parts of a complex number without a superfluous point. */
static void drop_point_zero(struct sheaf__str *out)
{
    if (out->size > 2 && !memcmp(out->text + out->size - 2, ".0", 2))
        out->text[out->size -= 2] = '\0';
}

static void print_complex(struct sheaf__str *out, sheaf_dtype dtype, const void *element)
{
    sheaf_dtype part = dtype == SHEAF_COMPLEX64 ? SHEAF_FLOAT32 : SHEAF_FLOAT64;
    double imaginary = sheaf__kernel_number(element, part, 1);
    sheaf__str_char(out, '(');
    print_float(out, sheaf__kernel_number(element, part, 0), part);
    drop_point_zero(out);
    if (!signbit(imaginary))
        sheaf__str_char(out, '+');
    print_float(out, imaginary, part);
    drop_point_zero(out);
    sheaf__str_add(out, "j)");
}

/* dtypes that nothing computes on show their bits. */
static void print_bits(struct sheaf__str *out, sheaf_dtype dtype, const void *element)
{
    uint64_t bits = 0;
    size_t size = sheaf_dtype_size(dtype);
    memcpy(&bits, element, size < sizeof(bits) ? size : sizeof(bits));
    sheaf__str_printf(out, "%llu", (unsigned long long)bits);
}

void sheaf__print_number(struct sheaf__str *out, sheaf_dtype dtype, const void *element)
{
    switch (dtype) {
    case SHEAF_STRING:
        sheaf__print_bytes(out, *(const sheaf_bytes *)element);
        break;
    case SHEAF_BOOL:
        sheaf__str_add(out, *(const uint8_t *)element ? "True" : "False");
        break;
    case SHEAF_FLOAT16:
    case SHEAF_FLOAT32:
    case SHEAF_FLOAT64:
        print_float(out, sheaf__kernel_number(element, dtype, 0), dtype);
        break;
    case SHEAF_BFLOAT16:
        print_bfloat16(out, sheaf__kernel_number(element, dtype, 0));
        break;
    case SHEAF_COMPLEX64:
    case SHEAF_COMPLEX128:
        print_complex(out, dtype, element);
        break;
    case SHEAF_UINT64:
        sheaf__str_printf(out, "%llu", (unsigned long long)*(const uint64_t *)element);
        break;
    default:
        if (sheaf__dtype_is_integer(dtype))
            sheaf__str_printf(out, "%lld", (long long)sheaf__kernel_integer(element, dtype, 0));
        else
            print_bits(out, dtype, element);
        break;
    }
}

/* ---- strings ---- */

/* P4.5 */
static char quote_of(const char *data, size_t size)
{
    bool single = size && memchr(data, '\'', size);
    return single && !memchr(data, '"', size) ? '"' : '\'';
}

static void print_escaped(struct sheaf__str *out, unsigned char c, char quote)
{
    if (c == '\n')
        sheaf__str_add(out, "\\n");
    else if (c == '\r')
        sheaf__str_add(out, "\\r");
    else if (c == '\t')
        sheaf__str_add(out, "\\t");
    else if (c == '\\' || c == (unsigned char)quote)
        sheaf__str_printf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
        sheaf__str_printf(out, "\\x%02x", c);
    else
        sheaf__str_char(out, (char)c);
}

void sheaf__print_bytes(struct sheaf__str *out, sheaf_bytes bytes)
{
    char quote = quote_of(bytes.data, bytes.size);
    sheaf__str_printf(out, "b%c", quote);
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        if (c >= 0x80)
            sheaf__str_printf(out, "\\x%02x", c);
        else
            print_escaped(out, c, quote);
    }
    sheaf__str_char(out, quote);
}

void sheaf__print_quoted(struct sheaf__str *out, const char *text)
{
    size_t size = strlen(text);
    char quote = quote_of(text, size);
    sheaf__str_char(out, quote);
    for (size_t i = 0; i < size; i++)
        print_escaped(out, (unsigned char)text[i], quote);
    sheaf__str_char(out, quote);
}

/* ---- tf.print (P7.4, P7.5) ---- */

static void print_tf_float(struct sheaf__str *out, double value, sheaf_dtype dtype)
{
    char text[400];
    if (!isfinite(value)) {
        sheaf__str_add(out, sheaf__print_word(value));
        return;
    }
    bool wide = dtype == SHEAF_FLOAT64;
    sheaf__decimal_format(text, sizeof(text), 'g', wide ? 15 : 6, value);
    bool same = wide ? sheaf__decimal_to_double(text) == value
                     : sheaf__decimal_to_float(text) == (float)value;
    if (!same)
        sheaf__decimal_format(text, sizeof(text), 'g', wide ? 17 : 9, value);
    sheaf__str_add(out, text);
}

static void print_tf_string(struct sheaf__str *out, sheaf_bytes bytes)
{
    sheaf__str_char(out, '"');
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        if (c == '\n')
            sheaf__str_add(out, "\\n");
        else if (c == '\r')
            sheaf__str_add(out, "\\r");
        else if (c == '\t')
            sheaf__str_add(out, "\\t");
        else if (c == '"' || c == '\'' || c == '\\')
            sheaf__str_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            sheaf__str_printf(out, "\\%03o", c);
        else
            sheaf__str_char(out, (char)c);
    }
    sheaf__str_char(out, '"');
}

void sheaf__print_tf_element(struct sheaf__str *out, sheaf_dtype dtype, const void *element,
                             bool alone)
{
    if (dtype == SHEAF_STRING && alone)
        sheaf__str_bytes(out, ((const sheaf_bytes *)element)->data,
                         ((const sheaf_bytes *)element)->size);
    else if (dtype == SHEAF_STRING)
        print_tf_string(out, *(const sheaf_bytes *)element);
    else if (dtype == SHEAF_BOOL)
        sheaf__str_char(out, *(const uint8_t *)element ? '1' : '0');
    else if (sheaf__dtype_is_float(dtype))
        print_tf_float(out, sheaf__kernel_number(element, dtype, 0), dtype);
    else
        sheaf__print_number(out, dtype, element);
}
