/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch_say.h"

#include <stdarg.h>
#include <stdio.h>

void sheaf__launch_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("sheaf run: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
