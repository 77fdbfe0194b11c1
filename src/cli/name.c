/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/name.h"

#include "cli/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Of ASCII, and of the second set of controls, U+0080 to U+009F, in UTF-8. */
static bool is_control(const unsigned char *at)
{
    return *at < 0x20 || *at == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
}

static int walk(const char *name, bool print)
{
    size_t left = strlen(name);
    int size = 0;
    for (size_t n; left; name += n, left -= n) {
        char text[8];
        n = sheaf__utf8_character(name, left);
        const bool escaped = n == 0 || is_control((const unsigned char *)name);
        n += n == 0;
        if (*name == '\\')
            snprintf(text, sizeof(text), "\\\\");
        else if (escaped)
            snprintf(text, sizeof(text), "\\x%02x", (unsigned char)name[n - 1]);
        else
            snprintf(text, sizeof(text), "%.*s", (int)n, name);
        size += escaped || *name == '\\' ? (int)strlen(text) : 1;
        if (print)
            fputs(text, stdout);
    }
    return size;
}

int sheaf__name_print(const char *name)
{
    return walk(name, true);
}

int sheaf__name_size(const char *name)
{
    return walk(name, false);
}
