/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_UTF8_H
#define SHEAF_CLI_UTF8_H

/* UTF-8 for the command, which does not see the library's own (base/str.h). */

#include <stddef.h>

/* Length of the UTF-8 character at `s`, of which `left` bytes are there, 0 if there is none (overlong forms and surrogates
 * included). */
size_t sheaf__utf8_character(const char *s, size_t left);

#endif
