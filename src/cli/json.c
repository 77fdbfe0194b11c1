/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Length of the UTF-8 character at `s`, 0 if there is none (overlong forms and surrogates
 * included). */
static size_t character(const uint8_t *s, size_t left)
{
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

void sheaf__json_text(const char *text)
{
    const uint8_t *s = (const uint8_t *)text;
    const size_t size = strlen(text);
    putchar('"');
    for (size_t i = 0, n; i < size; i += n) {
        n = character(s + i, size - i);
        if (n == 0) {
            n = 1;
            fputs("\\ufffd", stdout);
        } else if (s[i] < 0x20 || s[i] == 0x7f) {
            printf("\\u%04x", s[i]);
        } else {
            if (s[i] == '"' || s[i] == '\\')
                putchar('\\');
            fwrite(s + i, 1, n, stdout);
        }
    }
    putchar('"');
}
