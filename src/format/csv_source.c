/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"
#include "base/counter.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/number.h"
#include "format/csv.h"
#include "format/window.h"
#include "tensor/strings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where the next row is. */
struct place {
    uint64_t offset; /* in the stream */
    uint64_t row;    /* its number; the header is none */
    uint64_t line;   /* in the file, from 1 as editors count */
};

struct sheaf__csv_source {
    const struct sheaf__csv_format *format;
    struct sheaf__csv_classes classes;
    struct sheaf__window *window;
    struct place at;
    bool started; /* what comes before the rows is behind */
    struct sheaf__csv_field *fields;
    struct sheaf__string_room room; /* strings that are not as the file has them */
    struct sheaf__counter *bytes, *records;
};

sheaf_status sheaf__csv_source_open(const char *path, const struct sheaf__csv_format *format,
                                    struct sheaf__file_maps *maps,
                                    struct sheaf__csv_source **source, sheaf_error *err)
{
    const struct sheaf__window_options o = {.compression = format->compression,
                                            .sniff = sheaf__window_sniff_text,
                                            .chunk = format->chunk,
                                            .maps = maps};
    struct sheaf__csv_source *s = sheaf__calloc(1, sizeof(*s));
    if (s)
        s->fields = sheaf__alloc_array(format->column_count, sizeof(*s->fields));
    if (!s || !s->fields) {
        sheaf__free(s);
        return sheaf__no_memory(err, "reading rows");
    }
    s->format = format;
    s->at.line = 1;
    s->bytes = sheaf__counter_get(sheaf__context(), "record.bytes");
    s->records = sheaf__counter_get(sheaf__context(), "record.count");
    sheaf__csv_classify(format, &s->classes);
    sheaf_status status = sheaf__window_open(path, &o, &s->window, err);
    if (status < 0)
        sheaf__csv_source_free(s);
    else
        *source = s;
    return status;
}

void sheaf__csv_source_free(struct sheaf__csv_source *s)
{
    if (!s)
        return;
    sheaf__string_room_free(&s->room);
    sheaf__window_free(s->window);
    sheaf__free(s->fields);
    sheaf__free(s);
}

uint64_t sheaf__csv_source_position(const struct sheaf__csv_source *s)
{
    return s->at.offset;
}

/* ---- finding rows ---- */

static sheaf_bytes text_left(const struct sheaf__csv_source *s)
{
    const size_t used = (size_t)(s->at.offset - s->window->base);
    return (sheaf_bytes){(const char *)s->window->data + used, s->window->size - used};
}

static void step(struct sheaf__csv_source *s, const struct sheaf__csv_row *row)
{
    s->at.offset += row->size;
    s->at.line += row->line_ends + 1;
}

static sheaf_status error_in_row(const struct sheaf__csv_source *s, sheaf_error *err,
                                 const char *format, ...) SHEAF_PRINTF(3, 4);
static __attribute__((cold)) sheaf_status error_in_row(const struct sheaf__csv_source *s,
                                                       sheaf_error *err, const char *format, ...)
{
    const struct sheaf__place place = {s->window->path, s->at.row, s->at.offset};
    va_list args;
    va_start(args, format);
    sheaf__verror(err, SHEAF_ERR_INVALID_ARGUMENT, format, args);
    va_end(args);
    if (err)
        sheaf__error_at(err, err->status, &place, "line %" PRIu64 ": %s", s->at.line, err->message);
    return SHEAF_ERR_INVALID_ARGUMENT;
}

/* A last line of nothing is no row where a row has several fields (T35), though it is a wrong one to
 * TensorFlow. */
static bool is_last_blank(const struct sheaf__csv_source *s, sheaf_bytes text)
{
    const size_t end = text.data[0] == '\n'   ? 1
                       : text.data[0] != '\r' ? 0
                                              : 1 + (text.size > 1 && text.data[1] == '\n');
    return end == text.size && s->format->columns[s->format->column_count - 1].field > 0;
}

/* Splits the next row. SHEAF_END: there is none; SHEAF_PENDING: it is not whole yet. */
static sheaf_status look(struct sheaf__csv_source *s, struct sheaf__csv_row *row)
{
    const sheaf_bytes text = text_left(s);
    if (text.size == 0 || is_last_blank(s, text))
        return s->window->more ? SHEAF_PENDING : SHEAF_END;
    return sheaf__csv_split(s->format, &s->classes, text, s->window->more, s->fields, row);
}

/* More text from the next row on; twice as much as was not enough. */
static sheaf_status read_more(struct sheaf__csv_source *s, sheaf_error *err)
{
    sheaf_status status =
        sheaf__window_more(s->window, s->at.offset, 2 * (uint64_t)text_left(s).size + 3, err);
    if (status < 0 && err) {
        const struct sheaf__place place = {s->window->path, s->at.row, s->at.offset};
        sheaf__error_at(err, status, &place, "%s", err->message);
    }
    return status;
}

/* ---- before the rows ---- */

static sheaf_status skip_mark(struct sheaf__csv_source *s, sheaf_error *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which some programs put first */
    while (text_left(s).size < 3 && s->window->more)
        SHEAF__TRY(read_more(s, err));
    if (text_left(s).size >= 3 && memcmp(text_left(s).data, mark, 3) == 0)
        s->at.offset = 3;
    return SHEAF_OK;
}

static sheaf_status skip_header(struct sheaf__csv_source *s, sheaf_error *err)
{
    struct sheaf__csv_format header = *s->format;
    struct sheaf__csv_row row;
    header.column_count = 0;
    while (sheaf__csv_split(&header, &s->classes, text_left(s), s->window->more, NULL, &row) ==
           SHEAF_PENDING)
        SHEAF__TRY(read_more(s, err));
    if (row.size == 0)
        return error_in_row(s, err, "the file is empty, expected a header");
    sheaf_status status = SHEAF_OK;
    if (row.wrong)
        status =
            error_in_row(s, err, "field %" PRIu64 " of the header %s", row.wrong_field, row.wrong);
    step(s, &row);
    return status;
}

/* A wrong header is told once, and the rows follow, as in TensorFlow. */
static sheaf_status start(struct sheaf__csv_source *s, sheaf_error *err)
{
    if (s->at.offset == 0)
        SHEAF__TRY(skip_mark(s, err));
    sheaf_status status = s->format->header ? skip_header(s, err) : SHEAF_OK;
    s->started = status >= 0 || status == SHEAF_ERR_INVALID_ARGUMENT;
    return status;
}

/* ---- values ---- */

static bool is_empty(const struct sheaf__csv_format *format, const struct sheaf__csv_field *field)
{
    return field->size == 0 || (field->size == format->empty.size &&
                                memcmp(field->text, format->empty.data, field->size) == 0);
}

/* The field with single quotes where it has double ones. */
static sheaf_status undouble(struct sheaf__csv_source *s, struct sheaf__csv_field *field,
                             sheaf_error *err)
{
    char *text = sheaf__string_room_alloc(&s->room, field->size, err);
    if (!text)
        return err ? err->status : SHEAF_ERR_RESOURCE_EXHAUSTED;
    size_t n = 0;
    for (size_t i = 0; i < field->size; i++) {
        text[n++] = field->text[i];
        i += field->text[i] == '"';
    }
    *field = (struct sheaf__csv_field){text, n, false};
    return SHEAF_OK;
}

/* Writes the value of a field; false if it has none of the dtype. */
static bool put_value(const struct sheaf__csv_field *f, sheaf_dtype dtype, void *data, size_t at)
{
    int64_t integer;
    switch (dtype) {
    case SHEAF_INT32:
        if (!sheaf__number_int(f->text, f->size, INT32_MIN, INT32_MAX, &integer))
            return false;
        ((int32_t *)data)[at] = (int32_t)integer;
        return true;
    case SHEAF_INT64:
        return sheaf__number_int(f->text, f->size, INT64_MIN, INT64_MAX, (int64_t *)data + at);
    case SHEAF_FLOAT32:
        return sheaf__number_float(f->text, f->size, (float *)data + at);
    case SHEAF_FLOAT64:
        return sheaf__number_double(f->text, f->size, (double *)data + at);
    default:
        ((sheaf_bytes *)data)[at] = (sheaf_bytes){f->text, f->size};
        return true;
    }
}

/* "field 2 (price)", as messages call it. */
static const char *name_field(const struct sheaf__csv_column *column, char text[100])
{
    if (*column->name)
        snprintf(text, 100, "field %" PRIu64 " (%.60s)", column->field, column->name);
    else
        snprintf(text, 100, "field %" PRIu64, column->field);
    return text;
}

static void put_default(const struct sheaf__csv_column *column, void *data, size_t at)
{
    const size_t size = sheaf_dtype_size(column->dtype);
    memcpy((char *)data + at * size, &column->otherwise, size);
}

static sheaf_status put_field(struct sheaf__csv_source *s, const struct sheaf__csv_column *column,
                              struct sheaf__csv_field *field, void *data, size_t at,
                              sheaf_error *err)
{
    if (field->doubled)
        SHEAF__TRY(undouble(s, field, err));
    const bool empty = is_empty(s->format, field);
    char name[100];
    if (empty && column->required)
        return error_in_row(s, err, "%s is empty, expected %s: it has no default",
                            name_field(column, name), sheaf_dtype_name(column->dtype));
    if (empty)
        put_default(column, data, at);
    else if (!put_value(field, column->dtype, data, at))
        return error_in_row(s, err, "%s is \"%.*s\", expected %s", name_field(column, name),
                            field->size < 60 ? (int)field->size : 60, field->text,
                            sheaf_dtype_name(column->dtype));
    return SHEAF_OK;
}

/* ---- rows ---- */

static sheaf_status check_row(const struct sheaf__csv_source *s, const struct sheaf__csv_row *row,
                              sheaf_error *err)
{
    const uint64_t least = s->format->columns[s->format->column_count - 1].field + 1;
    if (row->wrong)
        return error_in_row(s, err, "field %" PRIu64 " %s", row->wrong_field, row->wrong);
    if (row->fields < least || (s->format->exact && row->fields > least))
        return error_in_row(s, err, "the row has %" PRIu64 " fields, expected %s%" PRIu64,
                            row->fields, s->format->exact ? "" : "at least ", least);
    return SHEAF_OK;
}

static sheaf_status put_row(struct sheaf__csv_source *s, const struct sheaf__csv_row *row,
                            const sheaf_element *columns, size_t at, sheaf_error *err)
{
    SHEAF__TRY(check_row(s, row, err));
    for (size_t i = 0; i < s->format->column_count; i++)
        SHEAF__TRY(put_field(s, &s->format->columns[i], &s->fields[i],
                             columns->items[i].tensor->data, at, err));
    return SHEAF_OK;
}

/* Rows that are there; an error only if it comes first. */
static sheaf_status put_rows(struct sheaf__csv_source *s, const sheaf_element *columns,
                             size_t first, size_t capacity, size_t *count, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    size_t n = 0;
    while (n < capacity) {
        struct sheaf__csv_row row;
        status = look(s, &row);
        if (status == SHEAF_OK)
            status = put_row(s, &row, columns, first + n, n > 0 ? NULL : err);
        if (status == SHEAF_OK || (n == 0 && status == SHEAF_ERR_INVALID_ARGUMENT)) {
            step(s, &row);
            s->at.row++;
        }
        if (status != SHEAF_OK)
            break;
        n++;
    }
    *count = n;
    return n > 0 ? SHEAF_OK : status;
}

/* Lets the strings that were handed out live as long as their columns. */
static sheaf_status keep(struct sheaf__csv_source *s, const sheaf_element *columns,
                         sheaf_error *err)
{
    for (size_t i = 0; i < columns->count; i++) {
        sheaf_tensor *t = columns->items[i].tensor;
        if (t->dtype != SHEAF_STRING)
            continue;
        SHEAF__TRY(sheaf__string_keep(t, s->window->owner, err));
        SHEAF__TRY(sheaf__string_keep(t, s->format->owner, err));
        SHEAF__TRY(sheaf__string_room_keep(&s->room, t, err));
    }
    return SHEAF_OK;
}

sheaf_status sheaf__csv_source_next(struct sheaf__csv_source *s, sheaf_element *columns,
                                    size_t first, size_t capacity, size_t *count, sheaf_error *err)
{
    *count = 0;
    if (!s->started)
        SHEAF__TRY(start(s, err));
    const struct place before = s->at;
    sheaf_status status;
    while ((status = put_rows(s, columns, first, capacity, count, err)) == SHEAF_PENDING)
        SHEAF__TRY(read_more(s, err));
    if (status == SHEAF_OK)
        status = keep(s, columns, err);
    if (status < 0 && *count > 0)
        s->at = before;
    sheaf__string_room_free(&s->room);
    sheaf__counter_add(s->bytes, s->at.offset - before.offset);
    sheaf__counter_add(s->records, s->at.row - before.row);
    return status;
}
