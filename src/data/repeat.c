/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/draws.h"

/* Starts the input again at its end (R9.16). */

struct repeat {
    struct sheaf__params params;
    int64_t count; /* negative: for ever */
};

struct repeat_iter {
    struct sheaf__iter base;
    int64_t round;
    bool some; /* rows in this round */
    bool ended;
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct repeat *p = (const void *)d->params;
    int64_t n = d->cardinality, product;
    (void)err;
    if (p->count == 0 || n == 0)
        d->cardinality = 0;
    else if (p->count < 0)
        d->cardinality = SHEAF_INFINITE;
    else if (n > 0)
        d->cardinality = __builtin_mul_overflow(n, p->count, &product) ? SHEAF_UNKNOWN : product;
    return SHEAF_OK;
}

static size_t opens(const sheaf_dataset *d)
{
    return ((const struct repeat *)(const void *)d->params)->count != 0;
}

static bool idle(const sheaf_dataset *d)
{
    return ((const struct repeat *)(const void *)d->params)->count == 1;
}

/* TensorFlow begins a round more than it gives, and does not read it. It does not where it makes one
 * stage of a shuffle and its repeat, or takes the repeat out (R9.5, R9.7). */
static bool begins_another(const sheaf_dataset *d)
{
    const struct repeat *p = (const void *)d->params;
    const sheaf_dataset *in = d->inputs[0];
    while (in->stage->ops->idle && in->stage->ops->idle(in))
        in = in->inputs[0];
    return p->count > 1 && !in->stage->ops->draws;
}

/* Begins the next round, or says that there is none. */
static sheaf_status again(struct repeat_iter *it, sheaf_error *err)
{
    const struct repeat *p = sheaf__iter_params(&it->base);
    bool more = p->count < 0 ? it->some : ++it->round < p->count;
    it->some = false;
    it->ended = !more;
    sheaf__iter_free(it->base.inputs[0]);
    it->base.inputs[0] = NULL;
    if (!more && begins_another(it->base.dataset))
        sheaf__draws_drop(it->base.dataset->inputs[0], it->base.flow);
    if (!more)
        return SHEAF_END;
    return sheaf__iter_input(&it->base, 0, it->base.flow, err);
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct repeat_iter *it = (struct repeat_iter *)base;
    if (it->ended || !base->inputs[0])
        return SHEAF_END;
    for (;;) {
        sheaf_status status = sheaf__iter_pull(base->inputs[0], want, rows, err);
        if (status == SHEAF_OK)
            it->some = true;
        if (status != SHEAF_END)
            return status;
        status = again(it, err);
        if (status != SHEAF_OK)
            return status;
    }
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct repeat_iter *it = (struct repeat_iter *)base;
    sheaf_status status = it->ended || !base->inputs[0] ? SHEAF_END : SHEAF_OK;
    while (status == SHEAF_OK) {
        const uint64_t before = passed->count;
        status = sheaf__iter_pass(base->inputs[0], count, passed, err);
        count -= passed->count - before;
        it->some = it->some || passed->count > before;
        if (status != SHEAF_END)
            return status;
        status = again(it, err);
    }
    return status;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    return base->inputs[0] ? sheaf__iter_sure(base->inputs[0]) : 0;
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct repeat *p = (const void *)d->params;
    if (p->count >= 0)
        sheaf__str_printf(text, "(%lld)", (long long)p->count);
}

const struct sheaf__stage_ops sheaf__repeat_ops = {
    .describe = describe,
    .iter_size = sizeof(struct repeat_iter),
    .next = next,
    .pass = pass,
    .sure = sure,
    .opens = opens,
    .idle = idle,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_repeat(sheaf_dataset *d, int64_t count)
{
    struct repeat *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_REPEAT);
    if (p)
        p->count = count;
    return sheaf__dataset_new(SHEAF__STAGE_REPEAT, p, &d, 1);
}
