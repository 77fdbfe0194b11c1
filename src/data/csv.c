/* SPDX-License-Identifier: Apache-2.0 */
#include "format/csv.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/files.h"

#include <string.h>

/* Rows of CSV files (R9.36). */

struct csv {
    struct sheaf__params params;
    struct sheaf__csv_format format; /* its strings are the struct's own */
    sheaf_error error;
};

struct csv_iter {
    struct sheaf__iter base;
    struct sheaf__csv_source *source; /* NULL: between files */
};

/* ---- parameters ---- */

static void params_free(void *params)
{
    const struct sheaf__csv_format *f = &((struct csv *)params)->format;
    for (size_t i = 0; i < f->column_count; i++)
        if (f->columns[i].dtype == SHEAF_STRING)
            sheaf__free((char *)(uintptr_t)f->columns[i].otherwise.string.data);
    sheaf__free((char *)(uintptr_t)f->empty.data);
    sheaf__free(f->columns);
}

static sheaf_status copy_bytes(sheaf_bytes from, sheaf_bytes *to, sheaf_error *err)
{
    char *copy = sheaf__strndup(from.data, from.data ? from.size : 0);
    if (!copy)
        return sheaf__no_memory(err, "the options of CSV files");
    *to = (sheaf_bytes){copy, from.data ? from.size : 0};
    return SHEAF_OK;
}

static bool is_column_dtype(sheaf_dtype dtype)
{
    return dtype == SHEAF_INT32 || dtype == SHEAF_INT64 || dtype == SHEAF_FLOAT32 ||
           dtype == SHEAF_FLOAT64 || dtype == SHEAF_STRING;
}

/* Which field of a row column `i` is. */
static sheaf_status field_of(const sheaf_csv_options *o, size_t i, uint64_t *field,
                             sheaf_error *err)
{
    const int64_t least = !o->select || i == 0 ? 0 : o->select[i - 1] + 1;
    if (o->select && o->select[i] < least)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "select[%zu] is %lld, expected at least %lld: columns are selected in "
                            "their order",
                            i, (long long)o->select[i], (long long)least);
    *field = o->select ? (uint64_t)o->select[i] : i;
    return SHEAF_OK;
}

/* The name of column `i`, which no column before it has. */
static sheaf_status name_column(struct sheaf__csv_column *columns, const sheaf_csv_options *o,
                                size_t i, sheaf_error *err)
{
    const char *given = o->columns[i].name;
    const char *name = given                 ? sheaf__name(given)
                       : o->column_count > 1 ? sheaf__name_of(i)
                                             : sheaf__name("");
    if (!name)
        return sheaf__no_memory(err, "the options of CSV files");
    for (size_t k = 0; k < i; k++)
        if (columns[k].name == name)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "columns %zu and %zu are both called \"%.60s\"", k, i, name);
    columns[i].name = name;
    return SHEAF_OK;
}

static sheaf_status set_default(struct sheaf__csv_column *column, const sheaf_csv_column *from,
                                sheaf_error *err)
{
    const void *value = from->default_value;
    column->required = !value;
    if (value && from->dtype == SHEAF_STRING)
        SHEAF__TRY(copy_bytes(*(const sheaf_bytes *)value, &column->otherwise.string, err));
    else if (value)
        memcpy(&column->otherwise, value, sheaf_dtype_size(from->dtype));
    column->dtype = from->dtype;
    return SHEAF_OK;
}

static sheaf_status set_column(struct sheaf__csv_column *columns, const sheaf_csv_options *o,
                               size_t i, sheaf_error *err)
{
    const sheaf_csv_column *from = &o->columns[i];
    SHEAF__TRY(sheaf__reserved_check(from->reserved, err));
    SHEAF__TRY(field_of(o, i, &columns[i].field, err));
    SHEAF__TRY(name_column(columns, o, i, err));
    if (!is_column_dtype(from->dtype))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "column %zu is %s, expected int32, int64, float32, float64 or string",
                            i, sheaf_dtype_name(from->dtype));
    return set_default(&columns[i], from, err);
}

static sheaf_status set_format(struct csv *p, const sheaf_csv_options *o, sheaf_error *err)
{
    const char delimiter = o->delimiter ? o->delimiter : ',';
    SHEAF__TRY(sheaf__reserved_check(o->reserved, err));
    if (!o->columns || o->column_count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there are no columns");
    if (delimiter == '\n' || delimiter == '\r' || (delimiter == '"' && !o->no_quotes))
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "the delimiter is the byte 0x%02x, which ends a row or begins a quoted field",
            (unsigned char)delimiter);
    p->format = (struct sheaf__csv_format){.exact = !o->select,
                                           .header = o->header,
                                           .quotes = !o->no_quotes,
                                           .delimiter = delimiter,
                                           .compression = o->compression,
                                           .owner = p};
    const char *na = o->na_value ? o->na_value : "";
    SHEAF__TRY(copy_bytes((sheaf_bytes){na, strlen(na)}, &p->format.empty, err));
    p->format.columns = sheaf__calloc(o->column_count, sizeof(*p->format.columns));
    if (!p->format.columns)
        return sheaf__no_memory(err, "the options of CSV files");
    p->format.column_count = o->column_count;
    for (size_t i = 0; i < o->column_count; i++)
        SHEAF__TRY(set_column(p->format.columns, o, i, err));
    return SHEAF_OK;
}

static sheaf_element_spec *spec_of(const struct sheaf__csv_format *f, sheaf_error *err)
{
    sheaf_tensor_spec *specs = sheaf__alloc_array(f->column_count, sizeof(*specs));
    if (!specs) {
        sheaf__no_memory(err, "the type of a row");
        return NULL;
    }
    for (size_t i = 0; i < f->column_count; i++)
        specs[i] = (sheaf_tensor_spec){f->columns[i].name, f->columns[i].dtype, SHEAF_SCALAR};
    sheaf_element_spec *spec = sheaf__spec_new(specs, f->column_count, 0, err);
    sheaf__free(specs);
    return spec;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct csv *p = (const void *)d->params;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    SHEAF__TRY(sheaf__files_check(d, err));
    sheaf_element_spec_free(d->spec);
    d->spec = spec_of(&p->format, err);
    d->cardinality = SHEAF_UNKNOWN;
    return d->spec ? SHEAF_OK : err->status;
}

/* ---- iterating ---- */

static sheaf_status open_next(struct csv_iter *it, sheaf_error *err)
{
    const struct csv *p = sheaf__iter_params(&it->base);
    char *path = NULL;
    sheaf_status status = sheaf__files_next(it->base.inputs[0], &path, err);
    if (status == SHEAF_OK)
        status = sheaf__csv_source_open(path, &p->format, it->base.flow->maps, &it->source, err);
    sheaf__free(path);
    return status;
}

static void close_file(struct csv_iter *it)
{
    sheaf__csv_source_free(it->source);
    it->source = NULL;
}

/* Some rows of the open file. Behind a row that is wrong the file is read on; any other error ends
 * it, and the next call goes on with the next file. */
static sheaf_status read_some(struct csv_iter *it, size_t want, struct sheaf__rows *rows,
                              sheaf_error *err)
{
    struct sheaf__block *block;
    size_t room, count = 0;
    SHEAF__TRY(sheaf__rows_room(rows, it->base.dataset->spec, want, &block, &room, err));
    const uint64_t before = sheaf__csv_source_position(it->source);
    sheaf_status status = sheaf__csv_source_next(it->source, block->columns,
                                                 block->first + block->count, room, &count, err);
    if (status == SHEAF_OK)
        sheaf__rows_grow(rows, block, count);
    else if (status == SHEAF_END || sheaf__csv_source_position(it->source) == before)
        close_file(it);
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct csv_iter *it = (struct csv_iter *)base;
    const size_t before = rows->count;
    while (rows->count - before < want) {
        if (!it->source) {
            sheaf_status status = open_next(it, err);
            if (status != SHEAF_OK)
                return status;
        }
        SHEAF__TRY(read_some(it, want - (rows->count - before), rows, err));
    }
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    close_file((struct csv_iter *)base);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct sheaf__csv_format *f = &((const struct csv *)(const void *)d->params)->format;
    for (size_t i = 0; i < f->column_count; i++)
        sheaf__str_printf(text, "%s%s", i > 0 ? ", " : "(", sheaf_dtype_name(f->columns[i].dtype));
    sheaf__str_add(text, ")");
}

const struct sheaf__stage_ops sheaf__csv_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct csv_iter),
    .next = next,
    .stop = stop,
    .explain = explain,
};

static sheaf_dataset *rows_of(sheaf_dataset *names, const sheaf_csv_options *options)
{
    const sheaf_csv_options o = options ? *options : (sheaf_csv_options){0};
    struct csv *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_CSV);
    if (p)
        set_format(p, &o, &p->error);
    return sheaf__dataset_new(SHEAF__STAGE_CSV, p, &names, 1);
}

sheaf_dataset *sheaf_csv_files(const char *const *paths, size_t count,
                               const sheaf_csv_options *options)
{
    return rows_of(sheaf__files_of(SHEAF__STAGE_CSV, paths, count), options);
}

sheaf_dataset *sheaf_csv(const char *path, const sheaf_csv_options *options)
{
    return sheaf_csv_files(&path, 1, options);
}

sheaf_dataset *sheaf_open_csv(const sheaf_element *in, void *user)
{
    return rows_of(sheaf__files_of_element(SHEAF__STAGE_CSV, in), user);
}
