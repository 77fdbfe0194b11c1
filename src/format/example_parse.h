/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_EXAMPLE_PARSE_H
#define SHEAF_FORMAT_EXAMPLE_PARSE_H

/* The parser from the inside: plans of features (example_parser.c), the walk over the bytes
 * (example_walk.c), and the tensors around the columns (example_element.c). */

#include "base/object.h"
#include "format/example.h"
#include "tensor/tensor.h"

#include <stdatomic.h>

/* What a Feature holds; the numbers are its fields. */
enum sheaf__example_kind {
    SHEAF__EXAMPLE_NONE = 0,
    SHEAF__EXAMPLE_BYTES = 1,
    SHEAF__EXAMPLE_FLOAT = 2,
    SHEAF__EXAMPLE_INT64 = 3
};

/* One feature, ready to be matched. */
struct sheaf__example_plan {
    sheaf_feature feature; /* key, name and default_value are copies */
    size_t key_size;
    enum sheaf__example_kind kind;
    size_t item;         /* bytes of a value in the column */
    bool fixed;          /* every example has `row` values */
    bool padded;         /* FIXED with an unknown first size: multiples of `row` values */
    size_t row;          /* values of one example, or of one step along the unknown size */
    void *defaults;      /* `row` values, or one to pad with; NULL: none */
    _Atomic size_t hint; /* values a growing column had last time */
};

struct sheaf__example_parser {
    struct sheaf__object object;
    struct sheaf__example_plan *plans;
    size_t count;
    uint32_t *table; /* hash of a key -> number of its plan + 1 */
    size_t table_size;
};

/* Number of the plan for a key, -1 if nobody asked for it. */
int sheaf__example_find(const struct sheaf__example_parser *parser, const void *key, size_t size);

/* Where the values of one feature go. A fixed column has its memory from the start; others grow. */
struct sheaf__example_column {
    const struct sheaf__example_plan *plan;
    uint8_t *values;
    struct sheaf__buffer *buffer;  /* of a growing column; NULL: none yet */
    size_t capacity;               /* of a growing column, in values */
    int64_t *lengths;              /* of a growing column: values of every example */
    size_t start;                  /* values of the examples before */
    size_t found;                  /* values of this example, also those that found no room */
    size_t seen;                   /* number + 1 of the last example that had the key */
    enum sheaf__example_kind kind; /* of this example */
};

/* Parses the messages into the columns, one per plan. */
sheaf_status sheaf__example_walk(const struct sheaf__example_parser *parser,
                                 struct sheaf__example_column *columns,
                                 const sheaf_bytes *serialized, size_t count, sheaf_error *err);

#endif
