/* SPDX-License-Identifier: Apache-2.0 */
#include "data/skip.h"

#include "base/error.h"
#include "data/draws.h"

/* All but the first elements; none for a negative count (R9.2). What neither a function of the
 * program nor chance has a part in is stepped over unread. */

struct skip {
    struct sheaf__params params;
    int64_t count;
    bool unread; /* in any case: they were read before */
};

struct skip_iter {
    struct sheaf__iter base;
    int64_t left;
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct skip *p = (const void *)d->params;
    (void)err;
    if (d->cardinality >= 0)
        d->cardinality = p->count < 0 || p->count > d->cardinality ? 0 : d->cardinality - p->count;
    return SHEAF_OK;
}

static size_t opens(const sheaf_dataset *d)
{
    return ((const struct skip *)(const void *)d->params)->count >= 0;
}

static bool idle(const sheaf_dataset *d)
{
    return ((const struct skip *)(const void *)d->params)->count == 0;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    const struct skip *p = sheaf__iter_params(base);
    (void)err;
    ((struct skip_iter *)base)->left = p->count;
    return SHEAF_OK;
}

/* Gets rid of the first elements in the way `pass`. */
static sheaf_status skip(struct skip_iter *it,
                         sheaf_status (*pass)(struct sheaf__iter *, uint64_t,
                                              struct sheaf__passed *, sheaf_error *),
                         sheaf_error *err)
{
    struct sheaf__passed passed = {0};
    if (it->left == 0)
        return SHEAF_OK;
    sheaf_status status = pass(it->base.inputs[0], (uint64_t)it->left, &passed, err);
    /* Behind an error TensorFlow counts anew. */
    if (status >= 0 || ((const struct skip *)sheaf__iter_params(&it->base))->unread)
        it->left -= (int64_t)passed.count;
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct skip_iter *it = (struct skip_iter *)base;
    if (it->left < 0)
        return SHEAF_END;
    const bool unread = ((const struct skip *)sheaf__iter_params(base))->unread ||
                        (!base->dataset->calls && !sheaf__draws_in(base->dataset));
    sheaf_status status = skip(it, unread ? sheaf__iter_pass : sheaf__iter_drop, err);
    return status == SHEAF_OK ? sheaf__iter_pull(base->inputs[0], want, rows, err) : status;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct skip_iter *it = (struct skip_iter *)base;
    if (it->left < 0)
        return SHEAF_END;
    sheaf_status status = skip(it, sheaf__iter_pass, err);
    return status == SHEAF_OK ? sheaf__iter_pass(base->inputs[0], count, passed, err) : status;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const int64_t left = ((const struct skip_iter *)base)->left;
    const uint64_t input = base->inputs[0] ? sheaf__iter_sure(base->inputs[0]) : 0;
    return left < 0 || (uint64_t)left > input ? 0 : input - (uint64_t)left;
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct skip *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld)", (long long)p->count);
}

const struct sheaf__stage_ops sheaf__skip_ops = {
    .describe = describe,
    .iter_size = sizeof(struct skip_iter),
    .start = start,
    .opens = opens,
    .idle = idle,
    .next = next,
    .pass = pass,
    .sure = sure,
    .explain = explain,
};

static sheaf_dataset *make(sheaf_dataset *d, int64_t count, bool unread)
{
    struct skip *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_SKIP);
    if (p) {
        p->count = count;
        p->unread = unread;
    }
    return sheaf__dataset_new(SHEAF__STAGE_SKIP, p, &d, 1);
}

sheaf_dataset *sheaf__skip_unread(sheaf_dataset *d, int64_t count)
{
    return make(d, count, true);
}

sheaf_dataset *sheaf_dataset_skip(sheaf_dataset *d, int64_t count)
{
    return make(d, count, false);
}
