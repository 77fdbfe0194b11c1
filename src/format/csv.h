/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_CSV_H
#define SHEAF_FORMAT_CSV_H

/* CSV files as TensorFlow reads them (R9.36), straight into columns. */

#include "base/file_maps.h"
#include "tensor/element.h"

#include <sheaf/record.h>

/* What a field becomes. */
struct sheaf__csv_column {
    const char *name;  /* for messages */
    sheaf_dtype dtype; /* SHEAF_INT32, SHEAF_INT64, SHEAF_FLOAT32, SHEAF_FLOAT64 or SHEAF_STRING */
    uint64_t field;    /* its number in a row, from 0; they increase from column to column */
    bool required;     /* an empty field is an error; else it is */
    union {
        int32_t int32;
        int64_t int64;
        float float32;
        double float64;
        sheaf_bytes string;
    } otherwise;
};

struct sheaf__csv_format {
    struct sheaf__csv_column *columns;
    size_t column_count;
    bool exact;        /* more fields than these are an error */
    bool header;       /* the first row of a file is none */
    bool quotes;       /* fields may be quoted */
    char delimiter;    /* of fields */
    sheaf_bytes empty; /* what stands for an empty field, besides nothing */
    sheaf_compression compression;
    size_t chunk; /* as in sheaf__window_options */
    void *owner;  /* counted object that the strings above live in */
};

/* ---- rows ---- */

struct sheaf__csv_field {
    const char *text; /* between its quotes */
    size_t size;
    bool doubled; /* it has quotes inside, written twice */
};

struct sheaf__csv_row {
    size_t size;        /* bytes, with its end */
    uint64_t fields;    /* that it has */
    uint64_t line_ends; /* inside of quotes */
    const char *wrong;  /* what is wrong with its quotes; NULL: nothing */
    uint64_t wrong_field;
};

/* What a byte may end or begin; made once for a format. */
struct sheaf__csv_classes {
    uint8_t of[256];
};
void sheaf__csv_classify(const struct sheaf__csv_format *format,
                         struct sheaf__csv_classes *classes);

/* Splits the row that starts at `text`. `fields` (of `format->column_count`) gets those that the
 * columns want, as far as the row has them. SHEAF_PENDING: `more` is to come, and the row may not
 * end here. */
sheaf_status sheaf__csv_split(const struct sheaf__csv_format *format,
                              const struct sheaf__csv_classes *classes, sheaf_bytes text, bool more,
                              struct sheaf__csv_field *fields, struct sheaf__csv_row *row);

/* ---- files ---- */

struct sheaf__csv_source;

/* `format` lives as long as the source; `maps` is as in sheaf__window_options. One thread at a time. */
sheaf_status sheaf__csv_source_open(const char *path, const struct sheaf__csv_format *format,
                                    struct sheaf__file_maps *maps,
                                    struct sheaf__csv_source **source, sheaf_error *err);
void sheaf__csv_source_free(struct sheaf__csv_source *s);
/* Up to `capacity` rows into rows `first` on of the tensors of `columns`, which are as the format's
 * columns; `*count` is how many, at least one with SHEAF_OK. SHEAF_END behind the last. Errors come
 * alone, after the good rows before them; they name file, number of the row, offset, line and
 * field. Behind a row that is wrong (SHEAF_ERR_INVALID_ARGUMENT) the next call goes on. */
sheaf_status sheaf__csv_source_next(struct sheaf__csv_source *s, sheaf_element *columns,
                                    size_t first, size_t capacity, size_t *count, sheaf_error *err);
/* Offset of the next row in the uncompressed stream. */
uint64_t sheaf__csv_source_position(const struct sheaf__csv_source *s);

#endif
