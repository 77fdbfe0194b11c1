/* SPDX-License-Identifier: Apache-2.0 */
#include "format/csv.h"

#include <string.h>

enum { OTHER, ENDS, QUOTE }; /* classes */

void sheaf__csv_classify(const struct sheaf__csv_format *format, struct sheaf__csv_classes *classes)
{
    memset(classes, OTHER, sizeof(*classes));
    classes->of['"'] = format->quotes ? QUOTE : OTHER;
    classes->of['\r'] = classes->of['\n'] = ENDS;
    classes->of[(unsigned char)format->delimiter] = ENDS;
}

struct scan {
    const struct sheaf__csv_format *format;
    const struct sheaf__csv_classes *classes;
    const char *at, *end;
    bool more;
    struct sheaf__csv_row *row;
};

/* What a field ended with. */
enum end { END_OF_FIELD, END_OF_ROW, END_OF_TEXT };

static unsigned char class_at(const struct scan *s)
{
    return s->classes->of[(unsigned char)*s->at];
}

static void note(struct scan *s, const char *wrong)
{
    if (s->row->wrong)
        return;
    s->row->wrong = wrong;
    s->row->wrong_field = s->row->fields;
}

/* At the end of the text: that of the row, unless more is to come. */
static enum end text_over(const struct scan *s)
{
    return s->more ? END_OF_TEXT : END_OF_ROW;
}

/* Steps over a delimiter, LF, CR or CRLF. */
static enum end take_end(struct scan *s)
{
    const char c = *s->at++;
    if (c == s->format->delimiter)
        return END_OF_FIELD;
    if (c == '\n')
        return END_OF_ROW;
    if (s->at == s->end)
        return text_over(s);
    s->at += *s->at == '\n';
    return END_OF_ROW;
}

static enum end take_plain(struct scan *s, struct sheaf__csv_field *field)
{
    const uint8_t *const class_of = s->classes->of;
    const char *at = s->at;
    for (; at < s->end; at++) {
        const uint8_t class = class_of[(unsigned char)*at];
        if (class == ENDS)
            break;
        if (class == QUOTE)
            note(s, "has a quote inside, but none around it");
    }
    *field = (struct sheaf__csv_field){s->at, (size_t)(at - s->at), false};
    s->at = at;
    return s->at < s->end ? take_end(s) : text_over(s);
}

static void count_line_ends(struct scan *s, const struct sheaf__csv_field *field)
{
    const char *at = field->text, *const end = field->text + field->size;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        s->row->line_ends++;
        at++;
    }
}

/* A closing quote is followed by the end of the field. If it is not, TensorFlow reads on to one that
 * is, and so do we: what is a row and what is not must not depend on who reads. */
static enum end take_quoted(struct scan *s, struct sheaf__csv_field *field)
{
    field->text = ++s->at;
    field->doubled = false;
    const char *quote;
    while ((quote = memchr(s->at, '"', (size_t)(s->end - s->at)))) {
        s->at = quote + 1;
        field->size = (size_t)(quote - field->text);
        if (s->at < s->end && class_at(s) != ENDS) {
            if (*s->at == '"')
                field->doubled = true;
            else
                note(s, "goes on behind its closing quote");
            s->at++;
            continue;
        }
        count_line_ends(s, field);
        return s->at < s->end ? take_end(s) : text_over(s);
    }
    s->at = s->end;
    note(s, "has no closing quote before the end of the file");
    return text_over(s);
}

sheaf_status sheaf__csv_split(const struct sheaf__csv_format *format,
                              const struct sheaf__csv_classes *classes, sheaf_bytes text, bool more,
                              struct sheaf__csv_field *fields, struct sheaf__csv_row *row)
{
    struct scan s = {format, classes, text.data, text.data + text.size, more, row};
    size_t column = 0;
    enum end end = END_OF_FIELD;
    *row = (struct sheaf__csv_row){0};
    while (end == END_OF_FIELD) {
        struct sheaf__csv_field field;
        if (s.at < s.end && class_at(&s) == QUOTE)
            end = take_quoted(&s, &field);
        else
            end = take_plain(&s, &field);
        if (column < format->column_count && format->columns[column].field == row->fields)
            fields[column++] = field;
        row->fields++;
    }
    row->size = (size_t)(s.at - text.data);
    return end == END_OF_TEXT ? SHEAF_PENDING : SHEAF_OK;
}
