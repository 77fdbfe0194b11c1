/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json.h"

#include "cli/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

void sheaf__json_text(const char *text)
{
    const uint8_t *s = (const uint8_t *)text;
    const size_t size = strlen(text);
    putchar('"');
    for (size_t i = 0, n; i < size; i += n) {
        n = sheaf__utf8_character(text + i, size - i);
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
