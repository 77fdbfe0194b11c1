/* SPDX-License-Identifier: Apache-2.0 */
#include "data/split_batch.h"
#include "base/error.h"
#include "data/join.h"
#include "data/spec.h"

/* Parts of one size, the last ones smaller or empty; each component is cut by its own rows (R1.20).
 */

struct split_batch {
    struct sheaf__params params;
    int64_t parts;
};

struct split_batch_iter {
    struct sheaf__iter base;
    struct sheaf__feed feed;
    sheaf_element *whole; /* counted */
    int64_t part;         /* of it that is next */
};

/* R1.42. */
static int64_t static_size(const sheaf_shape *shape, int64_t parts)
{
    return shape->dims[0] >= 0 && shape->dims[0] % parts == 0 ? shape->dims[0] / parts
                                                              : SHEAF_UNKNOWN_DIM;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct split_batch *p = (const void *)d->params;
    d->cardinality = SHEAF_UNKNOWN;
    if (p->parts < 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the number of parts is %lld, it must be greater than 0",
                            (long long)p->parts);
    if (!d->spec)
        return SHEAF_OK;
    sheaf_element_spec *in = d->spec;
    sheaf_status status = sheaf__spec_resized(in, SHEAF_UNKNOWN_DIM, &d->spec, err);
    for (size_t i = 0; status >= 0 && i < in->count; i++) {
        if (in->specs[i].shape.rank == 0)
            status = sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                  "component %zu (\"%.60s\") is a scalar: the elements must be "
                                  "batched before they can be distributed",
                                  i, in->specs[i].name);
        else if (in->specs[i].shape.rank > 0)
            d->spec->specs[i].shape.dims[0] = static_size(&in->specs[i].shape, p->parts);
    }
    sheaf_element_spec_free(in);
    return status;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    (void)err;
    ((struct split_batch_iter *)base)->feed.from = base->inputs[0];
    return SHEAF_OK;
}

static void close_whole(struct split_batch_iter *it)
{
    sheaf__unref(it->whole);
    it->whole = NULL;
}

/* Part `it->part` of every component. */
static sheaf_element *cut(const struct split_batch_iter *it, int64_t parts, sheaf_error *err)
{
    sheaf_element *out = sheaf__element_new(err);
    if (!out)
        return NULL;
    out->pattern = it->whole->pattern;
    for (size_t i = 0; i < it->whole->count; i++) {
        sheaf_tensor *whole = it->whole->items[i].tensor;
        int64_t n = sheaf__rows_in(whole), step = (n + parts - 1) / parts;
        int64_t begin = it->part * step < n ? it->part * step : n;
        int64_t end = begin + step < n ? begin + step : n;
        sheaf_tensor *t = NULL;
        if (n < 0)
            sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                         "component %zu (\"%.60s\") is a scalar: the elements must be batched "
                         "before they can be distributed",
                         i, it->whole->items[i].name);
        else
            t = sheaf__tensor_slice(whole, begin, end, err);
        sheaf_status status =
            t ? sheaf__element_add(out, it->whole->items[i].name, t, err) : err->status;
        sheaf__unref(t);
        if (status < 0) {
            sheaf__unref(out);
            return NULL;
        }
    }
    return out;
}

static sheaf_status one_part(struct split_batch_iter *it, struct sheaf__rows *rows,
                             sheaf_error *err)
{
    const struct split_batch *p = sheaf__iter_params(&it->base);
    if (!it->whole) {
        sheaf_status status = sheaf__feed_fill(&it->feed, 1, err);
        if (status != SHEAF_OK)
            return status;
        it->whole = sheaf__block_element(it->feed.block, it->feed.at++, err);
        it->part = 0;
        if (!it->whole)
            return err->status;
    }
    sheaf_element *e = cut(it, p->parts, err);
    sheaf_status status = e ? sheaf__rows_put_boxed(rows, e, err) : err->status;
    sheaf__unref(e);
    if (!e || ++it->part == p->parts)
        close_whole(it);
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    for (size_t i = 0; i < want; i++) {
        sheaf_status status = one_part((struct split_batch_iter *)base, rows, err);
        if (status != SHEAF_OK)
            return status;
    }
    return SHEAF_OK;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct split_batch_iter *it = (struct split_batch_iter *)base;
    const uint64_t parts = (uint64_t)((const struct split_batch *)sheaf__iter_params(base))->parts;
    const uint64_t held = it->whole ? parts - (uint64_t)it->part : 0;
    struct sheaf__passed whole = {0};
    if (count < held)
        return sheaf__iter_drop(base, count, passed, err);
    close_whole(it);
    passed->count += held;
    sheaf_status status = sheaf__feed_pass(&it->feed, (count - held) / parts, &whole, err);
    passed->count += whole.count * parts;
    return status == SHEAF_OK ? sheaf__iter_drop(base, (count - held) % parts, passed, err)
                              : status;
}

static void stop(struct sheaf__iter *base)
{
    struct split_batch_iter *it = (struct split_batch_iter *)base;
    close_whole(it);
    sheaf__feed_free(&it->feed);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct split_batch *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld)", (long long)p->parts);
}

const struct sheaf__stage_ops sheaf__split_batch_ops = {
    .describe = describe,
    .iter_size = sizeof(struct split_batch_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .stop = stop,
    .explain = explain,
};

sheaf_dataset *sheaf__split_batch(sheaf_dataset *d, int64_t parts)
{
    struct split_batch *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_SPLIT_BATCH);
    if (p)
        p->parts = parts;
    return sheaf__dataset_new(SHEAF__STAGE_SPLIT_BATCH, p, &d, 1);
}
