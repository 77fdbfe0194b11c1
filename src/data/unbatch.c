/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/slicer.h"
#include "data/spec.h"

/* The rows of every element (R9.26). */

struct unbatch_iter {
    struct sheaf__iter base;
    struct sheaf__slicer slicer;
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    sheaf_element_spec *whole = d->spec;
    int64_t rows, n = d->cardinality;
    sheaf_status status = sheaf__spec_rows(whole, &d->spec, &rows, err);
    sheaf_element_spec_free(whole);
    if (n >= 0 && (rows < 0 || __builtin_mul_overflow(n, rows, &d->cardinality)))
        d->cardinality = SHEAF_UNKNOWN;
    return status;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    (void)err;
    ((struct unbatch_iter *)base)->slicer.feed.from = base->inputs[0];
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct unbatch_iter *it = (struct unbatch_iter *)base;
    sheaf_status status = sheaf__slicer_fill(&it->slicer, err);
    return status == SHEAF_OK ? sheaf__rows_move(&it->slicer.rows, want, rows, err) : status;
}

/* Rows of every element, 0: not known. */
static uint64_t rows_each(const sheaf_dataset *d)
{
    const sheaf_element_spec *in = d->inputs[0]->spec;
    const sheaf_shape *shape = in && in->count > 0 ? &in->specs[0].shape : NULL;
    return shape && shape->rank > 0 && shape->dims[0] > 0 ? (uint64_t)shape->dims[0] : 0;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct unbatch_iter *it = (struct unbatch_iter *)base;
    const uint64_t each = rows_each(base->dataset);
    const uint64_t held = it->slicer.rows.count < count ? it->slicer.rows.count : count;
    sheaf__rows_drop(&it->slicer.rows, (size_t)held);
    passed->count += held;
    count -= held;
    if (each > 0) {
        struct sheaf__passed whole = {0};
        sheaf_status status = sheaf__feed_pass(&it->slicer.feed, count / each, &whole, err);
        passed->count += whole.count * each;
        if (status != SHEAF_OK)
            return status;
        count %= each;
    }
    return sheaf__iter_drop(base, count, passed, err);
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct unbatch_iter *it = (const struct unbatch_iter *)base;
    uint64_t all;
    if (__builtin_mul_overflow(sheaf__feed_sure(&it->slicer.feed), rows_each(base->dataset), &all))
        return UINT64_MAX;
    return all + it->slicer.rows.count;
}

static void stop(struct sheaf__iter *base)
{
    sheaf__slicer_free(&((struct unbatch_iter *)base)->slicer);
}

const struct sheaf__stage_ops sheaf__unbatch_ops = {
    .describe = describe,
    .iter_size = sizeof(struct unbatch_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .sure = sure,
    .stop = stop,
};

sheaf_dataset *sheaf_dataset_unbatch(sheaf_dataset *d)
{
    void *p = sheaf__params_new(sizeof(struct sheaf__params), SHEAF__STAGE_UNBATCH);
    return sheaf__dataset_new(SHEAF__STAGE_UNBATCH, p, &d, 1);
}
