/* SPDX-License-Identifier: Apache-2.0 */
#include "data/rebatch.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/rewrite.h"
#include "data/slicer.h"
#include "data/spec.h"

/* Parts are views; only one that reaches over the end of an input batch is copied. */

struct rebatch {
    struct sheaf__params params;
    int64_t *sizes;
    size_t count;
    bool drop_remainder;
};

struct rebatch_iter {
    struct sheaf__iter base;
    struct sheaf__slicer slicer;
    struct sheaf__rows part;
    size_t at; /* in the sizes */
    bool ended;
    sheaf_element *empty; /* counted; made when first needed */
};

static void params_free(void *params)
{
    sheaf__free(((struct rebatch *)params)->sizes);
}

/* The size that all parts have, or unknown (R1.41). */
static int64_t static_size(const struct rebatch *p, const sheaf_element_spec *in)
{
    bool divides = p->drop_remainder;
    for (size_t i = 1; i < p->count; i++)
        if (p->sizes[i] != p->sizes[0])
            return SHEAF_UNKNOWN_DIM;
    for (size_t i = 0; !divides && i < in->count; i++) {
        const sheaf_shape *shape = &in->specs[i].shape;
        divides = p->sizes[0] > 0 && shape->rank > 0 && shape->dims[0] >= 0 &&
                  shape->dims[0] % p->sizes[0] == 0;
    }
    return divides ? p->sizes[0] : SHEAF_UNKNOWN_DIM;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct rebatch *p = (const void *)d->params;
    d->cardinality = SHEAF_UNKNOWN;
    if (!p->sizes)
        return sheaf__no_memory(err, "a rebatch");
    if (p->count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the list of batch sizes is empty");
    for (size_t i = 0; i < p->count; i++)
        if (p->sizes[i] < 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "batch size %zu is %lld", i,
                                (long long)p->sizes[i]);
    if (!d->spec)
        return SHEAF_OK;
    sheaf_element_spec *in = d->spec, *row;
    int64_t size;
    SHEAF__TRY(sheaf__spec_rows(in, &row, &size, err)); /* a check (R1.7) */
    sheaf_element_spec_free(row);
    sheaf_status status = sheaf__spec_resized(in, static_size(p, in), &d->spec, err);
    sheaf_element_spec_free(in);
    return status;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    (void)err;
    ((struct rebatch_iter *)base)->slicer.feed.from = base->inputs[0];
    return SHEAF_OK;
}

/* A batch of no rows of the input's type (R1.16). */
static sheaf_element *empty_of(const sheaf_element_spec *spec, const sheaf_element *like,
                               sheaf_error *err)
{
    sheaf_element_spec *zero = NULL;
    if (spec && sheaf__spec_resized(spec, 0, &zero, err) < 0)
        return NULL;
    for (size_t i = 0; zero && i < zero->count; i++)
        if (zero->specs[i].shape.rank < 0)
            zero->specs[i].shape = SHEAF_SHAPE(0);
    sheaf_element *e = sheaf__spec_dummy(zero, spec ? NULL : like);
    sheaf_element_spec_free(zero);
    if (!e)
        sheaf__no_memory(err, "an empty batch");
    return e;
}

/* Puts an empty batch. Without a spec its type is that of the input's next element. */
static sheaf_status put_empty(struct rebatch_iter *it, struct sheaf__rows *rows, sheaf_error *err)
{
    const sheaf_element_spec *spec = it->base.dataset->inputs[0]->spec;
    if (!it->empty && !spec) {
        sheaf_status status = sheaf__slicer_fill(&it->slicer, err);
        if (status != SHEAF_OK)
            return status;
    }
    if (!it->empty) {
        const struct sheaf__block *block = sheaf__rows_front(&it->slicer.rows);
        it->empty = empty_of(spec, block ? block->columns : NULL, err);
        if (!it->empty)
            return err->status;
    }
    return sheaf__rows_put_boxed(rows, it->empty, err);
}

/* Collects `size` rows; fewer at the end. */
static sheaf_status collect(struct rebatch_iter *it, size_t size, sheaf_error *err)
{
    while (it->part.count < size) {
        sheaf_status status = sheaf__slicer_fill(&it->slicer, err);
        it->ended = status == SHEAF_END;
        if (status != SHEAF_OK)
            return status;
        SHEAF__TRY(sheaf__rows_move(&it->slicer.rows, size - it->part.count, &it->part, err));
    }
    return SHEAF_OK;
}

static sheaf_status one_part(struct rebatch_iter *it, struct sheaf__rows *rows, sheaf_error *err)
{
    const struct rebatch *p = sheaf__iter_params(&it->base);
    size_t size = (size_t)p->sizes[it->at];
    if (it->ended)
        return SHEAF_END;
    if (size > 0)
        SHEAF__TRY(collect(it, size, err));
    if (it->ended && (it->part.count == 0 || p->drop_remainder))
        return SHEAF_END;
    it->at = (it->at + 1) % p->count;
    if (size == 0)
        return put_empty(it, rows, err);
    sheaf_element *e = NULL;
    sheaf_status status = sheaf__rows_stack(&it->part, &e, err);
    sheaf__rows_clear(&it->part);
    if (status >= 0)
        status = sheaf__rows_put_boxed(rows, e, err);
    sheaf__unref(e);
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    for (size_t i = 0; i < want; i++) {
        sheaf_status status = one_part((struct rebatch_iter *)base, rows, err);
        if (status != SHEAF_OK)
            return status;
    }
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    struct rebatch_iter *it = (struct rebatch_iter *)base;
    sheaf__slicer_free(&it->slicer);
    sheaf__rows_free(&it->part);
    sheaf__unref(it->empty);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct rebatch *p = (const void *)d->params;
    for (size_t i = 0; i < p->count; i++)
        sheaf__str_printf(text, "%s%lld", i == 0 ? "(" : ", ", (long long)p->sizes[i]);
    sheaf__str_add(text, ")");
}

const struct sheaf__stage_ops sheaf__rebatch_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct rebatch_iter),
    .start = start,
    .next = next,
    .stop = stop,
    .explain = explain,
};

sheaf_dataset *sheaf__rebatch(sheaf_dataset *d, const int64_t *sizes, size_t count,
                              bool drop_remainder)
{
    struct rebatch *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_REBATCH);
    if (p) {
        p->sizes = sheaf__memdup(sizes, count * sizeof(*sizes));
        p->count = count;
        p->drop_remainder = drop_remainder;
    }
    return sheaf__dataset_new(SHEAF__STAGE_REBATCH, p, &d, 1);
}
