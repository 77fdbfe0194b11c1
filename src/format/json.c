/* SPDX-License-Identifier: Apache-2.0 */
#include "format/json.h"

#include "base/error.h"
#include "base/str.h"

#include <string.h>

bool sheaf__json_fail(struct sheaf__json *j, const char *format, ...)
{
    if (j->status < 0)
        return false;
    const struct sheaf__place place = {j->path, SHEAF__UNKNOWN,
                                       j->base + (uint64_t)(j->at - j->start)};
    va_list args;
    va_start(args, format);
    j->status = sheaf__verror_at(j->err, SHEAF_ERR_DATA_LOSS, &place, format, args);
    va_end(args);
    return false;
}

void sheaf__json_begin(struct sheaf__json *j, const char *text, size_t size, const char *path,
                       uint64_t base, sheaf_error *err)
{
    *j = (struct sheaf__json){
        .start = text, .at = text, .end = text + size, .path = path, .base = base, .err = err};
    if (!sheaf__str_is_utf8(text, size))
        sheaf__json_fail(j, "the JSON is not UTF-8");
}

/* The next character that is no blank; 0 at the end. */
static char peek(struct sheaf__json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
    return j->at < j->end ? *j->at : '\0';
}

/* "expected X", with what is there instead. */
static bool unexpected(struct sheaf__json *j, const char *expected)
{
    if (peek(j) == '\0' && j->at == j->end)
        return sheaf__json_fail(j, "the JSON ends, expected %s", expected);
    const int shown = j->end - j->at < 20 ? (int)(j->end - j->at) : 20;
    return sheaf__json_fail(j, "the JSON has '%.*s', expected %s", shown, j->at, expected);
}

sheaf_status sheaf__json_end(struct sheaf__json *j)
{
    if (j->status >= 0 && (peek(j) || j->at < j->end))
        unexpected(j, "its end");
    sheaf__buf_free(&j->text);
    return j->status;
}

/* ---- objects and lists ---- */

bool sheaf__json_enter(struct sheaf__json *j, char open)
{
    if (j->status < 0)
        return false;
    if (peek(j) != open)
        return unexpected(j, open == '{' ? "an object" : "a list");
    if (j->depth == SHEAF__JSON_DEPTH)
        return sheaf__json_fail(j, "the JSON is more than %d deep", SHEAF__JSON_DEPTH);
    const uint64_t bit = UINT64_C(1) << ++j->depth;
    j->objects = open == '{' ? j->objects | bit : j->objects & ~bit;
    j->used &= ~bit;
    j->at++;
    return true;
}

bool sheaf__json_next(struct sheaf__json *j)
{
    if (j->status < 0)
        return false;
    const uint64_t bit = UINT64_C(1) << j->depth;
    const bool object = j->objects & bit, used = j->used & bit;
    const char c = peek(j);
    if (c == (object ? '}' : ']')) {
        j->at++;
        j->depth--;
        return false;
    }
    if (used && c != ',')
        return unexpected(j, object ? "',' or '}'" : "',' or ']'");
    j->at += used;
    j->used |= bit;
    return true;
}

bool sheaf__json_key(struct sheaf__json *j, sheaf_bytes *key)
{
    if (!sheaf__json_next(j) || !sheaf__json_text(j, key))
        return false;
    if (peek(j) != ':')
        return unexpected(j, "':'");
    j->at++;
    return true;
}

/* ---- strings ---- */

static bool take_hex(struct sheaf__json *j, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        const char c = j->at < j->end ? *j->at : '\0';
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return unexpected(j, "four digits after '\\u'");
        *value = *value << 4 | (uint32_t)digit;
    }
    return true;
}

/* What follows "\u": a character, perhaps of two halves. */
static bool take_unicode(struct sheaf__json *j)
{
    uint32_t point, low;
    if (!take_hex(j, &point))
        return false;
    if (point >= 0xd800 && point < 0xdc00 && j->end - j->at >= 2 && j->at[0] == '\\' &&
        j->at[1] == 'u') {
        j->at += 2;
        if (!take_hex(j, &low))
            return false;
        if (low < 0xdc00 || low >= 0xe000)
            return sheaf__json_fail(j, "the JSON has one half of a character");
        point = 0x10000 + ((point - 0xd800) << 10 | (low - 0xdc00));
    } else if (point >= 0xd800 && point < 0xe000) {
        return sheaf__json_fail(j, "the JSON has one half of a character");
    }
    char utf8[4];
    sheaf__buf_bytes(&j->text, utf8, sheaf__utf8_put(point, utf8));
    return true;
}

static bool take_escape(struct sheaf__json *j)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char c = j->at < j->end ? *j->at : '\0';
    const char *found = c ? strchr(escapes, c) : NULL;
    if (!found && c != 'u')
        return unexpected(j, "an escape like '\\n'");
    j->at++;
    if (!found)
        return take_unicode(j);
    sheaf__buf_byte(&j->text, (uint8_t)meant[found - escapes]);
    return true;
}

/* The rest of a string from its first escape on, into `text`; `start` is where it began. */
static bool take_escaped(struct sheaf__json *j, const char *start, sheaf_bytes *text)
{
    sheaf__buf_clear(&j->text);
    sheaf__buf_bytes(&j->text, start, (size_t)(j->at - start));
    while (j->at < j->end && *j->at != '"' && (uint8_t)*j->at >= 0x20) {
        if (*j->at != '\\') {
            sheaf__buf_byte(&j->text, (uint8_t)*j->at++);
            continue;
        }
        j->at++;
        if (!take_escape(j))
            return false;
    }
    if (j->text.failed) {
        j->status = sheaf__buf_check(&j->text, "a string of JSON", j->err);
        return false;
    }
    *text = (sheaf_bytes){(const char *)j->text.data, j->text.size};
    return true;
}

bool sheaf__json_text(struct sheaf__json *j, sheaf_bytes *text)
{
    if (j->status < 0)
        return false;
    if (peek(j) != '"')
        return unexpected(j, "a string");
    const char *start = ++j->at;
    while (j->at < j->end && *j->at != '"' && *j->at != '\\' && (uint8_t)*j->at >= 0x20)
        j->at++;
    *text = (sheaf_bytes){start, (size_t)(j->at - start)};
    if (j->at < j->end && *j->at == '\\' && !take_escaped(j, start, text))
        return false;
    if (j->at == j->end || *j->at != '"')
        return sheaf__json_fail(j, "the JSON has a string without an end");
    j->at++;
    return true;
}

/* ---- numbers and the rest ---- */

static size_t pass_digits(struct sheaf__json *j)
{
    const char *start = j->at;
    while (j->at < j->end && *j->at >= '0' && *j->at <= '9')
        j->at++;
    return (size_t)(j->at - start);
}

static bool pass_if(struct sheaf__json *j, const char *any)
{
    const bool there = j->at < j->end && *j->at && strchr(any, *j->at);
    j->at += there;
    return there;
}

static bool pass_number(struct sheaf__json *j)
{
    pass_if(j, "-");
    const char *start = j->at;
    const size_t digits = pass_digits(j);
    bool right = digits == 1 || (digits && *start != '0');
    if (right && pass_if(j, "."))
        right = pass_digits(j) > 0;
    if (right && pass_if(j, "eE")) {
        pass_if(j, "+-");
        right = pass_digits(j) > 0;
    }
    return right || unexpected(j, "a number");
}

bool sheaf__json_uint(struct sheaf__json *j, uint64_t *value)
{
    if (j->status < 0)
        return false;
    peek(j);
    const char *start = j->at;
    bool over = false;
    *value = 0;
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++)
        over |= __builtin_mul_overflow(*value, 10, value) ||
                __builtin_add_overflow(*value, (uint64_t)(*j->at - '0'), value);
    const bool whole = j->at == j->end || !strchr(".eE", *j->at) || !*j->at;
    if (j->at == start || over || !whole || (*start == '0' && j->at - start > 1)) {
        j->at = start;
        return unexpected(j, "a whole number from 0 on");
    }
    return true;
}

static bool pass_word(struct sheaf__json *j)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        const size_t size = strlen(words[i]);
        if ((size_t)(j->end - j->at) >= size && memcmp(j->at, words[i], size) == 0) {
            j->at += size;
            return true;
        }
    }
    return unexpected(j, "a value");
}

bool sheaf__json_skip(struct sheaf__json *j)
{
    sheaf_bytes text;
    if (j->status < 0)
        return false;
    const char c = peek(j);
    if (c == '"')
        return sheaf__json_text(j, &text);
    if (c == '-' || (c >= '0' && c <= '9'))
        return pass_number(j);
    if (c != '{' && c != '[')
        return pass_word(j);
    /* no deeper than SHEAF__JSON_DEPTH */
    sheaf__json_enter(j, c);
    while (c == '{' ? sheaf__json_key(j, &text) : sheaf__json_next(j))
        sheaf__json_skip(j);
    return j->status >= 0;
}
