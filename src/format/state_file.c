/* SPDX-License-Identifier: Apache-2.0 */
#include "format/state_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZE_LIMIT (64 << 20)

void sheaf__state_file_free(struct sheaf__state_file *s)
{
    sheaf__free(s->latest);
    sheaf__strings_clear(&s->paths);
    sheaf__free(s->times);
    *s = (struct sheaf__state_file){0};
}

static bool add_time(struct sheaf__state_file *s, double time)
{
    if (!sheaf__array_reserve(&s->times, &s->time_capacity, s->time_count + 1, sizeof(*s->times)))
        return false;
    s->times[s->time_count++] = time;
    return true;
}

bool sheaf__state_file_add(struct sheaf__state_file *s, const char *path, double time)
{
    if (!sheaf__strings_add(&s->paths, path))
        return false;
    while (s->time_count < s->paths.count) {
        if (!add_time(s, time))
            return false;
    }
    return true;
}

bool sheaf__state_file_insert(struct sheaf__state_file *s, size_t at, const char *path, double time)
{
    if (!sheaf__state_file_add(s, path, time))
        return false;
    const size_t last = s->paths.count - 1;
    char *added = s->paths.items[last];
    memmove(s->paths.items + at + 1, s->paths.items + at, (last - at) * sizeof(*s->paths.items));
    memmove(s->times + at + 1, s->times + at, (last - at) * sizeof(*s->times));
    s->paths.items[at] = added;
    s->times[at] = time;
    return true;
}

bool sheaf__state_file_add_latest(struct sheaf__state_file *s, const char *path, double time)
{
    char *latest = sheaf__strdup(path);
    if (!latest || !sheaf__state_file_add(s, path, time)) {
        sheaf__free(latest);
        return false;
    }
    sheaf__free(s->latest);
    s->latest = latest;
    return true;
}

void sheaf__state_file_drop(struct sheaf__state_file *s, size_t i)
{
    sheaf__free(s->paths.items[i]);
    memmove(s->paths.items + i, s->paths.items + i + 1,
            (s->paths.count - i - 1) * sizeof(*s->paths.items));
    s->paths.count--;
    if (i < s->time_count) {
        memmove(s->times + i, s->times + i + 1, (s->time_count - i - 1) * sizeof(*s->times));
        s->time_count--;
    }
}

/* Parsing: protocol buffer text of one flat message. */

struct parser {
    const char *text;
    size_t size;
    size_t at;
    const char *file;
    sheaf_error *err;
};

static sheaf_status bad(const struct parser *p, const char *what)
{
    struct sheaf__place place = {p->file, SHEAF__UNKNOWN, p->at};
    return sheaf__error_at(p->err, SHEAF_ERR_DATA_LOSS, &place, "%s", what);
}

static sheaf_status no_memory(const struct parser *p)
{
    return sheaf__no_memory(p->err, "the state of a checkpoint directory");
}

/* The character at hand, 0 at the end. */
static char look(const struct parser *p)
{
    return p->at < p->size ? p->text[p->at] : 0;
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static void skip_blanks(struct parser *p)
{
    while (is_one_of(look(p), " \t\n\r\f\v#")) {
        if (look(p) == '#') {
            while (p->at < p->size && look(p) != '\n')
                p->at++;
        } else {
            p->at++;
        }
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static int digit_of(char c, int base)
{
    int value = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
    return value < base ? value : -1;
}

/* Up to `most` digits of a character code; false if there is none. */
static bool take_code(struct parser *p, int base, int most, struct sheaf__str *out)
{
    int value = 0, count = 0, digit;
    while (count < most && (digit = digit_of(look(p), base)) >= 0) {
        value = value * base + digit;
        p->at++;
        count++;
    }
    sheaf__str_char(out, (char)value);
    return count > 0 && value < 256;
}

static bool take_escape(struct parser *p, struct sheaf__str *out)
{
    static const char names[] = "abfnrtv\\'\"?", codes[] = "\a\b\f\n\r\t\v\\'\"?";
    char c = look(p);
    if (digit_of(c, 8) >= 0)
        return take_code(p, 8, 3, out);
    const char *name = c ? strchr(names, c) : NULL;
    if (!name && c != 'x' && c != 'X')
        return false;
    p->at++;
    if (!name)
        return take_code(p, 16, 2, out);
    sheaf__str_char(out, codes[name - names]);
    return true;
}

/* One or more quoted strings side by side, joined. */
static sheaf_status take_string(struct parser *p, struct sheaf__str *out)
{
    if (!is_one_of(look(p), "\"'"))
        return bad(p, "expected a string");
    while (is_one_of(look(p), "\"'")) {
        char quote = look(p);
        p->at++;
        while (look(p) != quote) {
            char c = look(p);
            if (p->at == p->size || c == '\n' || c == 0)
                return bad(p, "a string does not end");
            p->at++;
            if (c != '\\')
                sheaf__str_char(out, c);
            else if (!take_escape(p, out))
                return bad(p, "unknown escape in a string");
        }
        p->at++;
        skip_blanks(p);
    }
    return out->failed ? no_memory(p) : SHEAF_OK;
}

static sheaf_status take_number(struct parser *p, double *value)
{
    char word[64];
    size_t size = 0;
    while (size < sizeof(word) - 1 && (is_word(look(p)) || is_one_of(look(p), "+-.")))
        word[size++] = p->text[p->at++];
    if (size > 1 && is_one_of(word[size - 1], "fF"))
        size--;
    word[size] = 0;
    if (!sheaf__str_to_double(word, value))
        return bad(p, "expected a number");
    return SHEAF_OK;
}

enum field { LATEST, PATHS, TIMES, PRESERVED, FIELDS };
static const char *const field_names[FIELDS] = {
    "model_checkpoint_path",
    "all_model_checkpoint_paths",
    "all_model_checkpoint_timestamps",
    "last_preserved_timestamp",
};

static sheaf_status take_field_name(struct parser *p, enum field *field)
{
    size_t start = p->at;
    while (is_word(look(p)))
        p->at++;
    for (int i = 0; i < FIELDS; i++) {
        if (strlen(field_names[i]) == p->at - start &&
            !memcmp(field_names[i], p->text + start, p->at - start)) {
            *field = (enum field)i;
            return SHEAF_OK;
        }
    }
    p->at = start;
    return bad(p, "unknown field in the state of a checkpoint directory");
}

static sheaf_status take_value(struct parser *p, enum field field, struct sheaf__state_file *s)
{
    double number;
    if (field == TIMES || field == PRESERVED) {
        SHEAF__TRY(take_number(p, &number));
        if (field == TIMES)
            return add_time(s, number) ? SHEAF_OK : no_memory(p);
        s->last_preserved = number;
        s->has_last_preserved = true;
        return SHEAF_OK;
    }
    struct sheaf__str text = {0};
    sheaf_status status = take_string(p, &text);
    if (status < 0) {
        sheaf__str_free(&text);
        return status;
    }
    char *taken = text.text ? sheaf__str_take(&text) : sheaf__strdup("");
    if (!taken)
        return no_memory(p);
    if (field == PATHS)
        return sheaf__strings_take(&s->paths, taken) ? SHEAF_OK : no_memory(p);
    sheaf__free(s->latest); /* the last one counts */
    s->latest = taken;
    return SHEAF_OK;
}

/* Values in brackets, for the repeated fields. */
static sheaf_status take_list(struct parser *p, enum field field, struct sheaf__state_file *s)
{
    if (field != PATHS && field != TIMES)
        return bad(p, "a list where one value belongs");
    p->at++;
    skip_blanks(p);
    while (look(p) != ']') {
        SHEAF__TRY(take_value(p, field, s));
        skip_blanks(p);
        if (look(p) == ',') {
            p->at++;
            skip_blanks(p);
            if (look(p) == ']')
                return bad(p, "expected a value after ','");
        } else if (look(p) != ']') {
            return bad(p, "expected ',' or ']'");
        }
    }
    p->at++;
    return SHEAF_OK;
}

static sheaf_status take_field(struct parser *p, struct sheaf__state_file *s)
{
    enum field field = FIELDS;
    SHEAF__TRY(take_field_name(p, &field));
    skip_blanks(p);
    if (look(p) != ':')
        return bad(p, "expected ':'");
    p->at++;
    skip_blanks(p);
    SHEAF__TRY(look(p) == '[' ? take_list(p, field, s) : take_value(p, field, s));
    skip_blanks(p);
    if (is_one_of(look(p), ",;"))
        p->at++;
    skip_blanks(p);
    return SHEAF_OK;
}

sheaf_status sheaf__state_file_parse(struct sheaf__state_file *s, const char *text, size_t size,
                                     const char *file, sheaf_error *err)
{
    struct parser p = {text, size, 0, file, err};
    sheaf_status status = SHEAF_OK;
    *s = (struct sheaf__state_file){0};
    skip_blanks(&p);
    while (status >= 0 && p.at < p.size)
        status = take_field(&p, s);
    if (status >= 0 && !s->latest)
        status = bad(&p, "no model_checkpoint_path");
    if (status < 0)
        sheaf__state_file_free(s);
    return status;
}

static char *path_of(const char *directory)
{
    return sheaf__path_join(directory, "checkpoint");
}

sheaf_status sheaf__state_file_read(struct sheaf__state_file *s, const char *directory,
                                    sheaf_error *err)
{
    char *path = path_of(directory), *text = NULL;
    size_t size = 0;
    sheaf_status status = path ? sheaf__file_read_all(path, SIZE_LIMIT, &text, &size, err)
                               : sheaf__no_memory(err, "the name of a file");
    if (status >= 0)
        status = sheaf__state_file_parse(s, text, size, path, err);
    sheaf__free(text);
    sheaf__free(path);
    return status;
}

/* Escaped as TensorFlow has always read it: octal for all that is not plain ASCII. */
static void put_path(struct sheaf__str *out, enum field field, const char *path)
{
    sheaf__str_printf(out, "%s: \"", field_names[field]);
    for (const char *c = path; *c; c++) {
        static const char special[] = "\n\r\t\"'\\", letters[] = "nrt\"'\\";
        const char *at = strchr(special, *c);
        if (at) {
            sheaf__str_char(out, '\\');
            sheaf__str_char(out, letters[at - special]);
        } else if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) {
            sheaf__str_printf(out, "\\%03o", (unsigned)(unsigned char)*c);
        } else {
            sheaf__str_char(out, *c);
        }
    }
    sheaf__str_add(out, "\"\n");
}

/* Seconds with up to seven decimals, which is all that a double of this size has; no locale enters.
 */
static void put_time(struct sheaf__str *out, enum field field, double time)
{
    if (!(fabs(time) < 9e11)) /* nothing that a clock says */
        time = 0;
    int64_t ticks = llrint(fabs(time) * 1e7);
    char decimals[9] = "";
    if (ticks % 10000000) {
        snprintf(decimals, sizeof(decimals), ".%07" PRId64, ticks % 10000000);
        for (size_t n = strlen(decimals); n > 0 && decimals[n - 1] == '0'; n--)
            decimals[n - 1] = 0;
    }
    sheaf__str_printf(out, "%s: %s%" PRId64 "%s\n", field_names[field], time < 0 ? "-" : "",
                      ticks / 10000000, decimals);
}

sheaf_status sheaf__state_file_write(const struct sheaf__state_file *s, const char *directory,
                                     sheaf_status (*before)(void *user, sheaf_error *err),
                                     void *user, sheaf_error *err)
{
    struct sheaf__str out = {0};
    put_path(&out, LATEST, s->latest);
    for (size_t i = 0; i < s->paths.count; i++)
        put_path(&out, PATHS, s->paths.items[i]);
    for (size_t i = 0; i < s->time_count; i++)
        put_time(&out, TIMES, s->times[i]);
    if (s->has_last_preserved)
        put_time(&out, PRESERVED, s->last_preserved);
    char *path = path_of(directory);
    sheaf_status status = out.failed || !path
                              ? sheaf__no_memory(err, "the state of a checkpoint directory")
                              : sheaf__file_replace_if(path, out.text, out.size, before, user, err);
    sheaf__free(path);
    sheaf__str_free(&out);
    return status;
}
