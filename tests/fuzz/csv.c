/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a CSV file: mapped, and read in chunks of few bytes, one row a call or several, the same comes out as from
 * a reader that looks at one byte after the other, and wrong rows are wrong to both. The first byte says what the columns
 * are and how the file is read. */
#include "target.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/number.h"
#include "format/csv.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS 4
#define ROWS    5 /* a call */

/* ---- what must come out ---- */

/* One thing after the other: a value as its text, or a wrong row as WRONG. */
struct text {
    char *bytes;
    size_t size, capacity;
};
#define WRONG "\001wrong"

static void add(struct text *t, const char *bytes, size_t size)
{
    if (size > t->capacity - t->size) {
        t->capacity = 2 * (t->capacity + size);
        t->bytes = realloc(t->bytes, t->capacity);
        must(t->bytes);
    }
    if (size)
        memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

static void add_value(struct text *t, const char *bytes, size_t size)
{
    add(t, (char *)&size, sizeof(size));
    add(t, bytes, size);
}

struct reader {
    const struct sheaf__csv_format *f;
    const char *at, *end;
    struct text field; /* the last one read */
    bool wrong;
};

static bool is_delimiter(const struct reader *r)
{
    return *r->at == r->f->delimiter;
}

static bool is_line_end(const struct reader *r)
{
    return *r->at == '\n' || *r->at == '\r';
}

/* Steps over a line end, as one that is CRLF. */
static void step_line(struct reader *r)
{
    if (*r->at++ == '\r' && r->at < r->end && *r->at == '\n')
        r->at++;
}

/* Whether a field ends here, and if so, steps over its end: 1 a field, 2 a row. */
static int field_ends(struct reader *r)
{
    if (r->at == r->end)
        return 2;
    if (is_delimiter(r)) {
        r->at++;
        return 1;
    }
    if (!is_line_end(r))
        return 0;
    step_line(r);
    return 2;
}

static int read_quoted(struct reader *r)
{
    for (r->at++; r->at < r->end;) {
        const char c = *r->at++;
        if (c != '"') {
            add(&r->field, &c, 1);
            continue;
        }
        int ends = field_ends(r);
        if (ends > 0)
            return ends;
        r->wrong = r->wrong || *r->at != '"';
        add(&r->field, r->at++, 1);
    }
    r->wrong = true;
    return 2;
}

static int read_field(struct reader *r)
{
    int ends;
    r->field.size = 0;
    if (r->f->quotes && r->at < r->end && *r->at == '"')
        return read_quoted(r);
    while ((ends = field_ends(r)) == 0) {
        r->wrong = r->wrong || (r->f->quotes && *r->at == '"');
        add(&r->field, r->at++, 1);
    }
    return ends;
}

/* The value of the field just read, or nothing if it is wrong. */
static void take_field(struct reader *r, const struct sheaf__csv_column *column, struct text *row)
{
    int64_t number = 0;
    const char *text = r->field.bytes;
    size_t size = r->field.size;
    bool empty =
        size == 0 || (size == r->f->empty.size && memcmp(text, r->f->empty.data, size) == 0);
    r->wrong = r->wrong || (empty && column->required);
    if (column->dtype == SHEAF_STRING) {
        if (empty)
            add_value(row, column->otherwise.string.data, column->otherwise.string.size);
        else
            add_value(row, text, size);
        return;
    }
    if (empty)
        number = column->otherwise.int64;
    else if (!sheaf__number_int(text, size, INT64_MIN, INT64_MAX, &number))
        r->wrong = true;
    add_value(row, (char *)&number, sizeof(number));
}

static void read_row(struct reader *r, const struct sheaf__csv_format *f, struct text *out)
{
    struct text row = {0};
    size_t fields = 0, taken = 0,
           needed = f->column_count ? f->columns[f->column_count - 1].field + 1 : 0;
    int ends;
    r->wrong = false;
    do {
        ends = read_field(r);
        if (taken < f->column_count && f->columns[taken].field == fields)
            take_field(r, &f->columns[taken++], &row);
        fields++;
    } while (ends == 1);
    r->wrong = r->wrong || (f->column_count && (fields < needed || (f->exact && fields > needed)));
    if (r->wrong)
        add(out, WRONG, sizeof(WRONG));
    else
        add(out, row.bytes, row.size);
    free(row.bytes);
}

static bool only_blank_line_left(const struct reader *r)
{
    const size_t left = (size_t)(r->end - r->at);
    return (left == 1 && is_line_end(r)) || (left == 2 && memcmp(r->at, "\r\n", 2) == 0);
}

static struct text expect(const struct sheaf__csv_format *f, const uint8_t *data, size_t size)
{
    struct reader r = {.f = f, .at = (const char *)data, .end = (const char *)data + size};
    struct text out = {0};
    if (size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        r.at += 3;
    if (f->header) {
        struct sheaf__csv_format none = *f;
        none.column_count = 0;
        if (r.at == r.end)
            add(&out, WRONG, sizeof(WRONG));
        else
            read_row(&r, &none, &out);
    }
    while (r.at < r.end) {
        if (f->columns[f->column_count - 1].field > 0 && only_blank_line_left(&r))
            break;
        read_row(&r, f, &out);
    }
    free(r.field.bytes);
    return out;
}

/* ---- what comes out ---- */

static sheaf_element *columns_of(const struct sheaf__csv_format *f)
{
    sheaf_element *e = sheaf__element_new(NULL);
    must(e);
    for (size_t i = 0; i < f->column_count; i++) {
        sheaf_tensor *t = sheaf__tensor_new(f->columns[i].dtype, SHEAF_SHAPE(ROWS), NULL, NULL);
        must(t && sheaf__element_add(e, sheaf__name_of(i), t, NULL) == SHEAF_OK);
        sheaf__unref(t);
    }
    return e;
}

static void add_row(struct text *out, const sheaf_element *e, size_t row)
{
    for (size_t i = 0; i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        if (t->dtype == SHEAF_INT64) {
            add_value(out, (const char *)((const int64_t *)t->data + row), sizeof(int64_t));
        } else {
            const sheaf_bytes *text = (const sheaf_bytes *)t->data + row;
            add_value(out, text->data, text->size);
        }
    }
}

static void check(const struct sheaf__csv_format *f, size_t rows, const struct text *expected)
{
    struct sheaf__csv_source *s;
    struct text out = {0};
    must(sheaf__csv_source_open("/rows", f, NULL, &s, NULL) == SHEAF_OK);
    for (;;) {
        sheaf_element *e = columns_of(f);
        sheaf_error err = {0};
        size_t count;
        sheaf_status status = sheaf__csv_source_next(s, e, 0, rows, &count, &err);
        must(status != SHEAF_OK || (count > 0 && count <= rows));
        for (size_t i = 0; status == SHEAF_OK && i < count; i++)
            add_row(&out, e, i);
        if (status < 0) {
            must(status == SHEAF_ERR_INVALID_ARGUMENT && err.message[0]);
            add(&out, WRONG, sizeof(WRONG));
        }
        sheaf__unref(e);
        if (status == SHEAF_END)
            break;
    }
    must(out.size == expected->size &&
         (out.size == 0 || memcmp(out.bytes, expected->bytes, out.size) == 0));
    free(out.bytes);
    sheaf__csv_source_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const unsigned kind = data[0];
    struct sheaf__csv_column columns[COLUMNS];
    struct sheaf__csv_format f = {.columns = columns,
                                  .column_count = 1 + (kind & 3),
                                  .exact = !(kind & 32),
                                  .header = kind & 4,
                                  .quotes = !(kind & 8),
                                  .delimiter = kind & 16 ? ';' : ',',
                                  .empty = {"NA", 2},
                                  .compression = SHEAF_COMPRESSION_NONE};
    for (size_t i = 0; i < f.column_count; i++)
        columns[i] = (struct sheaf__csv_column){.name = "",
                                                .dtype = SHEAF_STRING,
                                                .field = kind & 32 ? 2 * i + 1 : i,
                                                .required = !(kind & 64),
                                                .otherwise.string = {"none", 4}};
    if (kind & 128) {
        columns[0].dtype = SHEAF_INT64;
        columns[0].otherwise.int64 = 17;
    }
    files_in_memory(NULL);
    must(sheaf__file_replace("/rows", data + 1, size - 1, NULL) == SHEAF_OK);
    struct text expected = expect(&f, data + 1, size - 1);
    check(&f, 1, &expected);
    check(&f, ROWS, &expected);
    f.chunk = 1;
    check(&f, ROWS, &expected);
    f.chunk = 6;
    check(&f, 2, &expected);
    free(expected.bytes);
    return 0;
}
