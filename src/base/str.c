/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include "base/array.h"
#include "base/mem.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sheaf__str_free(struct sheaf__str *str)
{
    sheaf__free(str->text);
    *str = (struct sheaf__str){0};
}

void sheaf__str_clear(struct sheaf__str *str)
{
    str->size = 0;
    str->failed = false;
    if (str->text)
        str->text[0] = '\0';
}

/* Room for `size` more bytes and the zero. */
static bool reserve(struct sheaf__str *str, size_t size)
{
    size_t need;
    if (str->failed)
        return false;
    if (sheaf__add_overflows(str->size, size, &need) || sheaf__add_overflows(need, 1, &need) ||
        !sheaf__array_reserve(&str->text, &str->capacity, need, 1))
        str->failed = true;
    return !str->failed;
}

void sheaf__str_bytes(struct sheaf__str *str, const char *text, size_t size)
{
    if (!reserve(str, size))
        return;
    if (size)
        memcpy(str->text + str->size, text, size);
    str->size += size;
    str->text[str->size] = '\0';
}

void sheaf__str_add(struct sheaf__str *str, const char *text)
{
    sheaf__str_bytes(str, text, strlen(text));
}

void sheaf__str_char(struct sheaf__str *str, char c)
{
    sheaf__str_bytes(str, &c, 1);
}

void sheaf__str_vprintf(struct sheaf__str *str, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (size < 0) {
        str->failed = true;
        return;
    }
    if (!reserve(str, (size_t)size))
        return;
    vsnprintf(str->text + str->size, (size_t)size + 1, format, args);
    str->size += (size_t)size;
}

void sheaf__str_printf(struct sheaf__str *str, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sheaf__str_vprintf(str, format, args);
    va_end(args);
}

size_t sheaf__utf8_size(const char *at, size_t size)
{
    const unsigned char *text = (const unsigned char *)at;
    static const struct {
        unsigned char first, last, low, high;
        size_t length;
    } forms[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                 {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
                 {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
                 {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    if (text[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (text[0] < forms[i].first || text[0] > forms[i].last)
            continue;
        if (size < forms[i].length || text[1] < forms[i].low || text[1] > forms[i].high)
            return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if (text[k] < 0x80 || text[k] > 0xbf)
                return 0;
        return forms[i].length;
    }
    return 0;
}

size_t sheaf__utf8_get(const char *at, size_t size, uint32_t *point)
{
    static const uint8_t own[] = {0, 0x7f, 0x1f, 0x0f, 7}; /* bits of the first byte, by length */
    const size_t n = sheaf__utf8_size(at, size);
    *point = n ? (uint8_t)at[0] & own[n] : 0;
    for (size_t i = 1; i < n; i++)
        *point = *point << 6 | ((uint8_t)at[i] & 0x3f);
    return n;
}

void sheaf__str_json(struct sheaf__str *str, const char *text, size_t size)
{
    const unsigned char *t = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        size_t n = sheaf__utf8_size(text + i, size - i);
        if (n == 0) {
            sheaf__str_add(str, "\\ufffd");
            i++;
            continue;
        }
        if (t[i] == '"' || t[i] == '\\')
            sheaf__str_printf(str, "\\%c", t[i]);
        else if (t[i] == '\n')
            sheaf__str_add(str, "\\n");
        else if (t[i] < 0x20)
            sheaf__str_printf(str, "\\u%04x", t[i]);
        else
            sheaf__str_bytes(str, text + i, n);
        i += n;
    }
}

bool sheaf__str_is_utf8(const char *text, size_t size)
{
    for (size_t i = 0, n; i < size; i += n)
        if ((n = sheaf__utf8_size(text + i, size - i)) == 0)
            return false;
    return true;
}

size_t sheaf__utf8_put(uint32_t point, void *out)
{
    uint8_t *bytes = out;
    if (point < 0x80) {
        bytes[0] = (uint8_t)point;
        return 1;
    }
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    const size_t more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const uint8_t marks[] = {0, 0xc0, 0xe0, 0xf0};
    bytes[0] = (uint8_t)(marks[more] | point >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        bytes[i] = (uint8_t)(0x80 | (point >> (6 * (more - i)) & 0x3f));
    return 1 + more;
}

const char *sheaf__str_text(const struct sheaf__str *str)
{
    return str->text ? str->text : "";
}

char *sheaf__str_take(struct sheaf__str *str)
{
    if (!str->text)
        reserve(str, 0);
    if (str->failed) {
        sheaf__str_free(str);
        return NULL;
    }
    char *text = str->text;
    text[str->size] = '\0';
    *str = (struct sheaf__str){0};
    return text;
}

bool sheaf__str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool sheaf__str_ends(const char *text, const char *suffix)
{
    size_t n = strlen(text);
    size_t m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

bool sheaf__str_to_uint(const char *text, uint64_t *value)
{
    uint64_t v = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
            return false;
    }
    *value = v;
    return true;
}

bool sheaf__str_to_int(const char *text, int64_t *value)
{
    uint64_t v;
    bool negative = text[0] == '-';
    if (!sheaf__str_to_uint(text + negative, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool sheaf__str_to_double(const char *text, double *value)
{
    /* strtod would take leading space, hexadecimal, and the locale's decimal point. */
    if (!*text || strspn(text, "0123456789+-.eEinfaINFA") != strlen(text))
        return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return false;
    char *end;
    errno = 0;
    double v = strtod_l(text, &end, c);
    freelocale(c);
    if (*end || (errno == ERANGE && (v > 1 || v < -1)))
        return false;
    *value = v;
    return true;
}

/* Length and place of the longest word. */
static size_t longest_word(char *text, char **word)
{
    size_t longest = 0;
    for (char *at = text; *at; at += strspn(at, " ")) {
        const size_t size = strcspn(at, " ");
        if (size > longest) {
            longest = size;
            *word = at;
        }
        at += size;
    }
    return longest;
}

static bool is_inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Puts dots for the middle of `size` bytes, of which `kept` are left besides. */
static void cut_middle(char *text, size_t size, size_t kept)
{
    size_t head = kept - kept / 2, tail = size - kept / 2;
    while (head > 0 && is_inside_character(text[head]))
        head--;
    while (tail < size && is_inside_character(text[tail]))
        tail++;
    memcpy(text + head, "...", 3);
    memmove(text + head + 3, text + tail, strlen(text + tail) + 1);
}

void sheaf__str_shorten(char *text, size_t room)
{
    enum { DOTS = 3, LEAST = 40 }; /* what is left of a word tells what it was */
    for (size_t size; (size = strlen(text)) >= room;) {
        const size_t excess = size - room + 1 + DOTS;
        char *word = text;
        size_t length = longest_word(text, &word);
        if (length > LEAST + DOTS)
            cut_middle(word, length, length > excess + LEAST ? length - excess : LEAST);
        else
            cut_middle(text, size, size - excess);
    }
}

size_t sheaf__str_copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    if (size) {
        size_t n = length < size ? length : size - 1;
        memcpy(to, from, n);
        to[n] = '\0';
    }
    return length;
}
