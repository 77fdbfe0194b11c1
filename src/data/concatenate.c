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

/* The others when they are reached (R9.5). */
static size_t opens(const sheaf_dataset *d)
{
    (void)d;
    return 1;
}

/* Makes sure that the input at hand has an iterator. */
static sheaf_status reach(struct concatenate_iter *it, sheaf_error *err)
{
    struct sheaf__iter *base = &it->base;
    return base->inputs[it->at] ? SHEAF_OK : sheaf__iter_input(base, it->at, base->flow, err);
}

static void leave(struct concatenate_iter *it)
{
    sheaf__iter_free(it->base.inputs[it->at]);
    it->base.inputs[it->at++] = NULL;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct concatenate_iter *it = (struct concatenate_iter *)base;
    for (; it->at < base->input_count; leave(it)) {
        SHEAF__TRY(reach(it, err));
        sheaf_status status = sheaf__iter_pull(base->inputs[it->at], want, rows, err);
        if (status != SHEAF_END)
            return status;
    }
    return SHEAF_END;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct concatenate_iter *it = (struct concatenate_iter *)base;
    for (; it->at < base->input_count; leave(it)) {
        const uint64_t before = passed->count;
        SHEAF__TRY(reach(it, err));
        sheaf_status status = sheaf__iter_pass(base->inputs[it->at], count, passed, err);
        if (status != SHEAF_END)
            return status;
        count -= passed->count - before;
    }
    return SHEAF_END;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct concatenate_iter *it = (const struct concatenate_iter *)base;
    const struct sheaf__iter *input = it->at < base->input_count ? base->inputs[it->at] : NULL;
    return input ? sheaf__iter_sure(input) : 0;
}

const struct sheaf__stage_ops sheaf__concatenate_ops = {
    .describe = describe,
    .iter_size = sizeof(struct concatenate_iter),
    .next = next,
    .pass = pass,
    .sure = sure,
    .opens = opens,
};

sheaf_dataset *sheaf_dataset_concatenate(sheaf_dataset *a, sheaf_dataset *b)
{
    void *p = sheaf__params_new(sizeof(struct sheaf__params), SHEAF__STAGE_CONCATENATE);
    return sheaf__dataset_new(SHEAF__STAGE_CONCATENATE, p, (sheaf_dataset *[]){a, b}, 2);
}
