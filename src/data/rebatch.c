/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/join.h"
#include "data/rewrite.h"
#include "data/spec.h"
#include "data/stage.h"

#include <string.h>

/* Parts are views; only one that reaches over the end of an input batch is copied. */

struct rebatch {
    struct sheaf__params params;
    int64_t *sizes;
    size_t count;
    bool drop_remainder;
    sheaf_error error;
};

/* Rows of an input batch that go into a part. */
struct piece {
    sheaf_element *batch; /* counted */
    int64_t begin, end;
};

struct rebatch_iter {
    struct sheaf__iter base;
    struct sheaf__feed feed;
    struct piece rest; /* of the batch at hand */
    struct piece *pieces;
    size_t piece_count, piece_capacity;
    int64_t collected; /* rows in the pieces */
    size_t at;         /* in the sizes */
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
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
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
    ((struct rebatch_iter *)base)->feed.from = base->inputs[0];
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

static void drop_rest(struct rebatch_iter *it)
{
    sheaf__unref(it->rest.batch);
    it->rest = (struct piece){0};
}

static void drop_pieces(struct rebatch_iter *it)
{
    for (size_t i = 0; i < it->piece_count; i++)
        sheaf__unref(it->pieces[i].batch);
    it->piece_count = 0;
    it->collected = 0;
}

/* All components have the same number of rows (R1.17). */
static sheaf_status count_rows(const sheaf_element *e, int64_t *rows, sheaf_error *err)
{
    *rows = 0;
    for (size_t i = 0; i < e->count; i++) {
        int64_t n = sheaf__rows_in(e->items[i].tensor);
        if (n < 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "component %zu (\"%.60s\") is a scalar: the elements must be "
                                "batched before they can be distributed",
                                i, e->items[i].name);
        if (i > 0 && n != *rows)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "component %zu (\"%.60s\") has %lld rows, component 0 has %lld", i,
                                e->items[i].name, (long long)n, (long long)*rows);
        *rows = n;
    }
    return SHEAF_OK;
}

/* Makes sure that rows of an input batch are left. */
static sheaf_status fill(struct rebatch_iter *it, sheaf_error *err)
{
    while (it->rest.begin == it->rest.end) {
        drop_rest(it);
        sheaf_status status = sheaf__feed_fill(&it->feed, 1, err);
        if (status != SHEAF_OK)
            return status;
        it->rest.batch = sheaf__block_element(it->feed.block, it->feed.at++, err);
        if (!it->rest.batch)
            return err->status;
        SHEAF__TRY(count_rows(it->rest.batch, &it->rest.end, err));
    }
    return SHEAF_OK;
}

/* Puts an empty batch. Without a spec its type is that of the input's last element, else of its next. */
static sheaf_status put_empty(struct rebatch_iter *it, struct sheaf__rows *rows, sheaf_error *err)
{
    const sheaf_element_spec *spec = it->base.dataset->inputs[0]->spec;
    if (!it->empty && !spec && !it->rest.batch) {
        sheaf_status status = fill(it, err);
        if (status != SHEAF_OK)
            return status;
    }
    if (!it->empty) {
        it->empty = empty_of(spec, it->rest.batch, err);
        if (!it->empty)
            return err->status;
    }
    return sheaf__rows_put_boxed(rows, it->empty, err);
}

/* Collects rows up to `size`; fewer at the end. */
static sheaf_status collect(struct rebatch_iter *it, int64_t size, sheaf_error *err)
{
    while (it->collected < size) {
        sheaf_status status = fill(it, err);
        it->ended = status == SHEAF_END;
        if (status != SHEAF_OK)
            return status;
        if (!sheaf__array_reserve((void **)&it->pieces, &it->piece_capacity, it->piece_count + 1,
                                  sizeof(*it->pieces)))
            return sheaf__no_memory(err, "a rebatch");
        int64_t left = it->rest.end - it->rest.begin, want = size - it->collected;
        int64_t n = left < want ? left : want;
        it->pieces[it->piece_count++] =
            (struct piece){sheaf__ref(it->rest.batch), it->rest.begin, it->rest.begin + n};
        it->rest.begin += n;
        it->collected += n;
    }
    return SHEAF_OK;
}

/* Component `i` of the part. */
static sheaf_tensor *component(const struct rebatch_iter *it, size_t i, sheaf_error *err)
{
    sheaf_tensor *out = NULL;
    sheaf_tensor **parts = sheaf__calloc(it->piece_count, sizeof(*parts));
    size_t done = 0;
    if (!parts) {
        sheaf__no_memory(err, "a rebatch");
        return NULL;
    }
    while (done < it->piece_count) {
        const struct piece *p = &it->pieces[done];
        sheaf_tensor *t = i < p->batch->count ? p->batch->items[i].tensor : NULL;
        if (!t)
            sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                         "a batch has %zu components, the one before had more", p->batch->count);
        parts[done] = t ? sheaf__tensor_slice(t, p->begin, p->end, err) : NULL;
        if (!parts[done])
            break;
        done++;
    }
    if (done == it->piece_count)
        out = done == 1 ? sheaf__ref(parts[0]) : sheaf__join(parts, done, err);
    while (done > 0)
        sheaf__unref(parts[--done]);
    sheaf__free(parts);
    return out;
}

static sheaf_element *part_of_pieces(const struct rebatch_iter *it, sheaf_error *err)
{
    const sheaf_element *like = it->pieces[0].batch;
    sheaf_element *out = sheaf__element_new(err);
    if (!out)
        return NULL;
    out->pattern = like->pattern;
    for (size_t i = 0; i < like->count; i++) {
        sheaf_tensor *t = component(it, i, err);
        sheaf_status status =
            t ? sheaf__element_add(out, like->items[i].name, t, err) : err->status;
        sheaf__unref(t);
        if (status < 0) {
            sheaf__unref(out);
            return NULL;
        }
    }
    return out;
}

static sheaf_status one_part(struct rebatch_iter *it, struct sheaf__rows *rows, sheaf_error *err)
{
    const struct rebatch *p = sheaf__iter_params(&it->base);
    int64_t size = p->sizes[it->at];
    if (it->ended)
        return SHEAF_END;
    if (size > 0)
        SHEAF__TRY(collect(it, size, err));
    if (it->ended && (it->collected == 0 || p->drop_remainder)) {
        sheaf__account_drop(it->base.flow->account, (uint64_t)it->collected);
        return SHEAF_END;
    }
    it->at = (it->at + 1) % p->count;
    if (size == 0)
        return put_empty(it, rows, err);
    sheaf_element *e = part_of_pieces(it, err);
    sheaf_status status = e ? sheaf__rows_put_boxed(rows, e, err) : err->status;
    sheaf__unref(e);
    drop_pieces(it);
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

/* ---- stepping over ---- */

/* Whether batches that are stepped over are counted by rows (SHEAF__COUNTS_ROWS). */
static bool counts_rows(const sheaf_dataset *d)
{
    const struct sheaf__stage_ops *ops = d->stage->ops;
    if (!ops->pass || ops->batch_size)
        return true;
    return (d->stage->traits & SHEAF__COUNTS_ROWS) && counts_rows(d->inputs[0]);
}

static uint64_t rows_of_all(const struct rebatch *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->count; i++)
        sum += (uint64_t)p->sizes[i];
    return sum;
}

/* Rows of the next `count` parts. */
static uint64_t rows_needed(const struct rebatch_iter *it, uint64_t count)
{
    const struct rebatch *p = sheaf__iter_params(&it->base);
    uint64_t rows;
    if (__builtin_mul_overflow(count / p->count, rows_of_all(p), &rows))
        return UINT64_MAX;
    for (size_t i = 0; i < count % p->count; i++)
        if (__builtin_add_overflow(rows, (uint64_t)p->sizes[(it->at + i) % p->count], &rows))
            return UINT64_MAX;
    return rows;
}

/* Parts that the last `rows` rows of the input make; they are too few for all that were wanted. */
static uint64_t last_parts(const struct rebatch_iter *it, uint64_t rows)
{
    const struct rebatch *p = sheaf__iter_params(&it->base);
    const uint64_t all = rows_of_all(p);
    uint64_t parts = rows / all * p->count;
    rows %= all;
    for (size_t at = it->at;; at = (at + 1) % p->count, parts++) {
        if ((uint64_t)p->sizes[at] > rows) {
            if (p->drop_remainder)
                sheaf__account_drop(it->base.flow->account, rows);
            return parts + (rows > 0 && !p->drop_remainder);
        }
        rows -= (uint64_t)p->sizes[at];
    }
}

/* Whether there are parts of no rows: those of an unknown type need a batch to be like. */
static bool makes_empty(const struct rebatch *p)
{
    bool found = false;
    for (size_t i = 0; i < p->count; i++)
        found = found || p->sizes[i] == 0;
    return found;
}

/* Rows that every batch of the input has; 0: not known. */
static uint64_t fixed_rows(const sheaf_dataset *input)
{
    const sheaf_element_spec *spec = input->spec;
    const sheaf_shape *shape = spec && spec->count > 0 ? &spec->specs[0].shape : NULL;
    return shape && shape->rank > 0 && shape->dims[0] > 0 ? (uint64_t)shape->dims[0] : 0;
}

/* Steps over up to `rows` rows; `*done` is how many. Whole batches are passed as long as the next
 * ones, which have at most `most` rows each, cannot reach beyond. */
static sheaf_status pass_rows(struct rebatch_iter *it, uint64_t rows, uint64_t most, uint64_t *done,
                              sheaf_error *err)
{
    const uint64_t fixed = fixed_rows(it->base.dataset->inputs[0]);
    sheaf_status status = SHEAF_OK;
    *done = (uint64_t)(it->rest.end - it->rest.begin);
    if (*done < rows)
        drop_rest(it);
    else
        *done = 0;
    while (status == SHEAF_OK && rows - *done >= most) {
        struct sheaf__passed batches = {0};
        status = sheaf__feed_pass(&it->feed, (rows - *done) / most, &batches, err);
        *done += fixed ? batches.count * fixed : batches.rows;
    }
    while (status == SHEAF_OK && *done < rows && (status = fill(it, err)) == SHEAF_OK) {
        const uint64_t left = (uint64_t)(it->rest.end - it->rest.begin), want = rows - *done;
        const uint64_t n = left < want ? left : want;
        it->rest.begin += (int64_t)n;
        *done += n;
    }
    return status;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct rebatch_iter *it = (struct rebatch_iter *)base;
    const struct rebatch *p = sheaf__iter_params(base);
    const sheaf_dataset *input = base->dataset->inputs[0];
    const int64_t most = sheaf__batch_size_of(input);
    uint64_t done = 0;
    if (it->ended)
        return SHEAF_END;
    if (most < 1 || it->collected > 0 || (!fixed_rows(input) && !counts_rows(input)) ||
        (!input->spec && makes_empty(p)))
        return sheaf__iter_drop(base, count, passed, err);
    sheaf_status status = pass_rows(it, rows_needed(it, count), (uint64_t)most, &done, err);
    if (status < 0)
        return sheaf__iter_break(base, err);
    it->ended = status == SHEAF_END;
    const uint64_t parts = it->ended ? last_parts(it, done) : count;
    it->at = (it->at + parts % p->count) % p->count;
    passed->count += parts;
    return parts < count ? SHEAF_END : SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    struct rebatch_iter *it = (struct rebatch_iter *)base;
    drop_rest(it);
    drop_pieces(it);
    sheaf__free(it->pieces);
    sheaf__feed_free(&it->feed);
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
    .pass = pass,
    .stop = stop,
    .explain = explain,
};

static sheaf_status take_sizes(struct rebatch *p, const int64_t *sizes, size_t count,
                               sheaf_error *err)
{
    if (count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the list of batch sizes is empty");
    if (!sizes)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the list of %zu batch sizes is NULL",
                            count);
    p->sizes = sheaf__alloc_array(count, sizeof(*sizes));
    if (!p->sizes)
        return sheaf__no_memory(err, "a rebatch");
    memcpy(p->sizes, sizes, count * sizeof(*sizes));
    p->count = count;
    return SHEAF_OK;
}

sheaf_dataset *sheaf_dataset_rebatch(sheaf_dataset *d, const int64_t *sizes, size_t count,
                                     bool drop_remainder)
{
    struct rebatch *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_REBATCH);
    if (p) {
        p->drop_remainder = drop_remainder;
        take_sizes(p, sizes, count, &p->error);
    }
    return sheaf__dataset_new(SHEAF__STAGE_REBATCH, p, &d, 1);
}
