/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/stage.h"

/* One dataset after the other (R9.21). */

struct concatenate_iter {
    struct sheaf__iter base;
    size_t at;
};

static int64_t sum(int64_t a, int64_t b)
{
    int64_t n;
    if (a == SHEAF_INFINITE || b == SHEAF_INFINITE)
        return SHEAF_INFINITE;
    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &n))
        return SHEAF_UNKNOWN;
    return n;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const sheaf_dataset *a = d->inputs[0], *b = d->inputs[1];
    d->cardinality = sum(a->cardinality, b->cardinality);
    if (!a->spec || !b->spec)
        return SHEAF_OK;
    d->spec = sheaf__spec_merge(a->spec, b->spec, err);
    return d->spec ? SHEAF_OK : err->status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct concatenate_iter *it = (struct concatenate_iter *)base;
    for (; it->at < base->input_count; it->at++) {
        struct sheaf__iter **input = &base->inputs[it->at];
        if (!*input)
            SHEAF__TRY(sheaf__iter_make(base->dataset->inputs[it->at], base->flow, input, err));
        sheaf_status status = sheaf__iter_pull(*input, want, rows, err);
        if (status != SHEAF_END)
            return status;
        sheaf__iter_free(*input);
        *input = NULL;
    }
    return SHEAF_END;
}

const struct sheaf__stage_ops sheaf__concatenate_ops = {
    .describe = describe,
    .iter_size = sizeof(struct concatenate_iter),
    .next = next,
    .lazy = true, /* the second one takes its seeds when it is reached (R9.5) */
};

sheaf_dataset *sheaf_dataset_concatenate(sheaf_dataset *a, sheaf_dataset *b)
{
    void *p = sheaf__params_new(sizeof(struct sheaf__params), SHEAF__STAGE_CONCATENATE);
    return sheaf__dataset_new(SHEAF__STAGE_CONCATENATE, p, (sheaf_dataset *[]){a, b}, 2);
}
