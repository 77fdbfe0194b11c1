/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/utf8.h"

#include <stdint.h>

size_t sheaf__utf8_character(const char *text, size_t left)
{
    const uint8_t *s = (const uint8_t *)text;
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] < 0x80)
        return 1;
    size_t size = s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;
    if (size == 0 || size > left || s[0] >= 0xf8)
        return 0;
    uint32_t code = s[0] & (0xffU >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    return code >= LEAST[size] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? size : 0;
}
