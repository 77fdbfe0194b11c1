/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_STR_H
#define SHEAF_BASE_STR_H

/* Building text, and reading numbers from it. */

#include <sheaf/status.h>

#include <stdarg.h>

/* A string that grows, always terminated. Zeroed is "". Running out of memory is latched in
 * `failed`. */
struct sheaf__str {
    char *text; /* NULL until the first append; sheaf__str_text() is never NULL */
    size_t size;
    size_t capacity;
    bool failed;
};

void sheaf__str_free(struct sheaf__str *str);
void sheaf__str_clear(struct sheaf__str *str);
void sheaf__str_add(struct sheaf__str *str, const char *text);
void sheaf__str_bytes(struct sheaf__str *str, const char *text, size_t size);
void sheaf__str_char(struct sheaf__str *str, char c);
void sheaf__str_printf(struct sheaf__str *str, const char *format, ...) SHEAF_PRINTF(2, 3);
void sheaf__str_vprintf(struct sheaf__str *str, const char *format, va_list args)
    SHEAF_PRINTF(2, 0);
/* Appends `text` as the inside of a JSON string (without quotes), invalid UTF-8 as U+FFFD. */
void sheaf__str_json(struct sheaf__str *str, const char *text, size_t size);
bool sheaf__str_is_utf8(const char *text, size_t size);
/* Length of the character at `at`, 0: what stands there is no UTF-8 (overlong forms and surrogates are none). */
size_t sheaf__utf8_size(const char *at, size_t size);
/* The same, and its code point. */
size_t sheaf__utf8_get(const char *at, size_t size, uint32_t *point);
/* Writes the UTF-8 of a code point, at most four bytes, to `out`; returns how many, 0: it is none. */
size_t sheaf__utf8_put(uint32_t point, void *out);
const char *sheaf__str_text(const struct sheaf__str *str);
/* Gives the text to the caller (sheaf__free); NULL if it failed. The string is empty. */
char *sheaf__str_take(struct sheaf__str *str);

bool sheaf__str_starts(const char *text, const char *prefix);
bool sheaf__str_ends(const char *text, const char *suffix);
/* The whole of `text` as a decimal number; false if it is anything else or out of range.
 * Independent of the locale. */
bool sheaf__str_to_int(const char *text, int64_t *value);
bool sheaf__str_to_uint(const char *text, uint64_t *value);
bool sheaf__str_to_double(const char *text, double *value);
/* Makes `text` shorter than `room` bytes (16 at least): a name that is too long loses its middle, so
 * that what is said of it stays. The longest word first; of words alone, the middle of the text. */
void sheaf__str_shorten(char *text, size_t room);
/* Copies with a terminating zero, cutting what does not fit; returns the length of `from`. */
size_t sheaf__str_copy(char *to, size_t size, const char *from);

#endif
