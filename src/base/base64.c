/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void sheaf__base64_put(struct sheaf__str *str, const void *data, size_t size)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t bits = (uint32_t)at[i] << 16 | (left > 1 ? (uint32_t)at[i + 1] << 8 : 0) |
                              (left > 2 ? at[i + 2] : 0);
        const char four[] = {digits[bits >> 18], digits[bits >> 12 & 63],
                             left > 1 ? digits[bits >> 6 & 63] : '=',
                             left > 2 ? digits[bits & 63] : '='};
        sheaf__str_bytes(str, four, sizeof(four));
    }
}

void sheaf__base64_json(struct sheaf__str *str, const void *data, size_t size)
{
    const bool text = sheaf__str_is_utf8(data, size);
    sheaf__str_add(str, text ? "\"" : "{\"b64\":\"");
    if (text)
        sheaf__str_json(str, data, size);
    else
        sheaf__base64_put(str, data, size);
    sheaf__str_add(str, text ? "\"" : "\"}");
}

/* Four characters; the last ones may be padding, which `*bytes` leaves out. */
static bool get_four(const char *text, uint32_t *bits, size_t *bytes)
{
    *bits = 0;
    *bytes = text[3] != '=' ? 3 : text[2] != '=' ? 2 : 1;
    for (size_t i = 0; i < 4; i++) {
        const char *digit = i <= *bytes ? strchr(digits, text[i]) : digits;
        if (!digit || (i <= *bytes && !text[i]))
            return false;
        *bits = *bits << 6 | (uint32_t)(digit - digits);
    }
    /* What the padding leaves over must be 0: there is one text for bytes. */
    return (*bits & ((1u << 8 * (3 - *bytes)) - 1)) == 0;
}

bool sheaf__base64_get(struct sheaf__buf *buf, const char *text)
{
    const size_t size = strlen(text);
    if (size % 4 != 0)
        return false;
    for (size_t i = 0; i < size; i += 4) {
        uint32_t bits;
        size_t bytes;
        if (!get_four(text + i, &bits, &bytes) || (bytes < 3 && i + 4 < size))
            return false;
        for (size_t k = 0; k < bytes; k++)
            sheaf__buf_byte(buf, (uint8_t)(bits >> (16 - 8 * k)));
    }
    return true;
}
