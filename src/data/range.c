/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/spec.h"
#include "data/stage.h"

struct range {
    struct sheaf__params params;
    int64_t start, step;
    int64_t limit;
};

struct range_iter {
    struct sheaf__iter base;
    int64_t value;
    int64_t left;
};

/* Number of values (R9.1); the differences are taken without a sign, so that nothing overflows. */
static int64_t count(const struct range *p)
{
    uint64_t distance, step;
    if (p->step > 0 && p->start < p->limit) {
        distance = (uint64_t)p->limit - (uint64_t)p->start;
        step = (uint64_t)p->step;
    } else if (p->step < 0 && p->start > p->limit) {
        distance = (uint64_t)p->start - (uint64_t)p->limit;
        step = 0 - (uint64_t)p->step;
    } else {
        return 0;
    }
    uint64_t n = (distance - 1) / step + 1;
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct range *p = (const void *)d->params;
    if (p->step == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the step is 0");
    d->spec = sheaf__spec_of_tensor(SHEAF_INT64, SHEAF_SCALAR, err);
    d->cardinality = count(p);
    return d->spec ? SHEAF_OK : err->status;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct range_iter *it = (struct range_iter *)base;
    const struct range *p = sheaf__iter_params(base);
    (void)err;
    it->value = p->start;
    it->left = base->dataset->cardinality;
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct range_iter *it = (struct range_iter *)base;
    const struct range *p = sheaf__iter_params(base);
    if (it->left == 0)
        return SHEAF_END;
    if ((uint64_t)it->left < want)
        want = (size_t)it->left;
    struct sheaf__block *block;
    size_t room;
    SHEAF__TRY(sheaf__rows_room(rows, base->dataset->spec, want, &block, &room, err));
    int64_t *out = (int64_t *)block->columns->items[0].tensor->data + block->first + block->count;
    for (size_t i = 0; i < room; i++)
        out[i] = (int64_t)((uint64_t)it->value + i * (uint64_t)p->step);
    it->value = (int64_t)((uint64_t)it->value + room * (uint64_t)p->step);
    it->left -= (int64_t)room;
    sheaf__rows_grow(rows, block, room);
    return SHEAF_OK;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct range_iter *it = (struct range_iter *)base;
    const struct range *p = sheaf__iter_params(base);
    const uint64_t n = count < (uint64_t)it->left ? count : (uint64_t)it->left;
    (void)err;
    it->value = (int64_t)((uint64_t)it->value + n * (uint64_t)p->step);
    it->left -= (int64_t)n;
    passed->count += n;
    return n < count ? SHEAF_END : SHEAF_OK;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    return (uint64_t)((const struct range_iter *)base)->left;
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct range *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld, %lld, %lld)", (long long)p->start, (long long)p->limit,
                      (long long)p->step);
}

const struct sheaf__stage_ops sheaf__range_ops = {
    .describe = describe,
    .iter_size = sizeof(struct range_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .sure = sure,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_range(int64_t start_value, int64_t limit, int64_t step)
{
    struct range *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_RANGE);
    if (p) {
        p->start = start_value;
        p->limit = limit;
        p->step = step;
    }
    return sheaf__dataset_new(SHEAF__STAGE_RANGE, p, NULL, 0);
}
