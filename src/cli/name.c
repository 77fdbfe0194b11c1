/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/name.h"

#include <stdbool.h>
#include <stdio.h>

/* Bytes of the character at `at` that are printed otherwise: of ASCII, and of the second set of controls, U+0080 to U+009F, in
 * UTF-8. 0: it is no such character. */
static int unprintable(const unsigned char *at)
{
    if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
        return 2;
    return at[0] < 0x20 || at[0] == 0x7f || at[0] == '\\';
}

static int walk(const char *name, bool print)
{
    const unsigned char *at = (const unsigned char *)name;
    int size = 0;
    while (*at) {
        const int escaped = unprintable(at);
        char text[8] = {(char)*at, '\0'};
        if (*at == '\\')
            size += snprintf(text, sizeof(text), "\\\\");
        else if (escaped)
            size += snprintf(text, sizeof(text), "\\x%02x", at[escaped - 1]);
        else
            size++;
        if (print)
            fputs(text, stdout);
        at += escaped ? escaped : 1;
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
