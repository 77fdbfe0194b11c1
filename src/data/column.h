/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_COLUMN_H
#define SHEAF_DATA_COLUMN_H

#include "data/stage.h"

/* What stages have in common that put another tensor in the place of one component, row by row: they
 * do it for all rows of a block at once where they can. */

/* Parameters begin with this. */
struct sheaf__column {
    struct sheaf__params params;
    const char *name; /* of the component, interned; NULL: the only one */
    /* A tensor for `t`, or for rows of it: of the same first axes, row by row what it would be alone.
     * The caller's count. */
    sheaf_tensor *(*apply)(const struct sheaf__column *column, const sheaf_tensor *t,
                           sheaf_error *err);
    /* The same of types. */
    sheaf_status (*type)(const struct sheaf__column *column, sheaf_tensor_spec *spec,
                         sheaf_error *err);
    sheaf_error error; /* of making it */
};
/* Sets the name, which may be NULL. */
void sheaf__column_name(struct sheaf__column *column, const char *name);

sheaf_status sheaf__column_describe(sheaf_dataset *d, sheaf_error *err);
struct sheaf__column_iter {
    struct sheaf__iter base;
    struct sheaf__feed feed;
    const struct sheaf__block *single; /* a block that is taken row by row */
};
sheaf_status sheaf__column_start(struct sheaf__iter *base, sheaf_error *err);
sheaf_status sheaf__column_next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                                sheaf_error *err);
sheaf_status sheaf__column_pass(struct sheaf__iter *base, uint64_t count,
                                struct sheaf__passed *passed, sheaf_error *err);
uint64_t sheaf__column_sure(const struct sheaf__iter *base);
void sheaf__column_stop(struct sheaf__iter *base);

#endif
