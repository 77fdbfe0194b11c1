/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/stage.h"

/* The first elements; all of them for a negative count (R9.2). */

struct take {
    struct sheaf__params params;
    int64_t count;
};

struct take_iter {
    struct sheaf__iter base;
    int64_t left; /* negative: no limit */
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct take *p = (const void *)d->params;
    int64_t n = d->cardinality;
    (void)err;
    if (n == SHEAF_UNKNOWN || p->count < -1)
        d->cardinality = SHEAF_UNKNOWN;
    else if (p->count >= 0 && (n == SHEAF_INFINITE || n > p->count))
        d->cardinality = p->count;
    return SHEAF_OK;
}

static size_t opens(const sheaf_dataset *d)
{
    return ((const struct take *)(const void *)d->params)->count != 0;
}

static bool idle(const sheaf_dataset *d)
{
    return ((const struct take *)(const void *)d->params)->count < 0;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    const struct take *p = sheaf__iter_params(base);
    (void)err;
    ((struct take_iter *)base)->left = p->count;
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct take_iter *it = (struct take_iter *)base;
    if (it->left == 0)
        return SHEAF_END;
    if (it->left > 0 && (uint64_t)it->left < want)
        want = (size_t)it->left;
    size_t before = rows->count;
    sheaf_status status = sheaf__iter_pull(base->inputs[0], want, rows, err);
    if (it->left > 0)
        it->left -= (int64_t)(rows->count - before);
    return status;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct take_iter *it = (struct take_iter *)base;
    if (it->left == 0)
        return SHEAF_END;
    const bool limited = it->left >= 0 && (uint64_t)it->left < count;
    const uint64_t before = passed->count;
    sheaf_status status =
        sheaf__iter_pass(base->inputs[0], limited ? (uint64_t)it->left : count, passed, err);
    if (it->left > 0)
        it->left -= (int64_t)(passed->count - before);
    return status == SHEAF_OK && limited ? SHEAF_END : status;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const int64_t left = ((const struct take_iter *)base)->left;
    const uint64_t input = base->inputs[0] ? sheaf__iter_sure(base->inputs[0]) : 0;
    return left >= 0 && (uint64_t)left < input ? (uint64_t)left : input;
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct take *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld)", (long long)p->count);
}

const struct sheaf__stage_ops sheaf__take_ops = {
    .describe = describe,
    .iter_size = sizeof(struct take_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .sure = sure,
    .opens = opens,
    .idle = idle,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_take(sheaf_dataset *d, int64_t count)
{
    struct take *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_TAKE);
    if (p)
        p->count = count;
    return sheaf__dataset_new(SHEAF__STAGE_TAKE, p, &d, 1);
}
