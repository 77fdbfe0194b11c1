/* SPDX-License-Identifier: Apache-2.0 */
#include "data/turns.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/shard.h"

/* What workers of a job read, dealt out again to others (reshard.h). */

struct turns_iter {
    struct sheaf__iter base;
    size_t at, open;           /* inputs that have not ended */
    struct sheaf__flow *flows; /* of each; all may read the same files */
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    (void)err;
    d->cardinality = 0;
    for (size_t i = 0; i < d->input_count && d->cardinality >= 0; i++) {
        const int64_t n = d->inputs[i]->cardinality;
        if (n < 0 || __builtin_add_overflow(d->cardinality, n, &d->cardinality))
            d->cardinality = SHEAF_UNKNOWN;
    }
    d->spec = d->input_count > 1 ? sheaf_element_spec_keep(d->inputs[0]->spec) : d->spec;
    return SHEAF_OK;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct turns_iter *it = (struct turns_iter *)base;
    const bool same = sheaf__shard_follows_batch(base->dataset);
    it->flows = sheaf__calloc(base->input_count, sizeof(*it->flows));
    if (!it->flows)
        return sheaf__no_memory(err, "an iterator");
    for (size_t i = 0; i < base->input_count; i++) {
        struct sheaf__flow *flow = &it->flows[i];
        *flow = *base->flow;
        sheaf__flow_branch(flow);
        SHEAF__TRY(sheaf__account_beside(base->flow->account, same, &flow->account, err));
        SHEAF__TRY(sheaf__iter_input(base, i, flow, err));
    }
    it->open = base->input_count;
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    struct turns_iter *it = (struct turns_iter *)base;
    for (size_t i = 0; it->flows && i < base->input_count; i++) {
        sheaf__iter_free(base->inputs[i]); /* before what it counts in */
        base->inputs[i] = NULL;
        if (it->flows[i].account != base->flow->account)
            sheaf__account_free(it->flows[i].account);
    }
    sheaf__free(it->flows);
}

static void advance(struct turns_iter *it)
{
    it->at = (it->at + 1) % it->base.input_count;
}

static void close_input(struct turns_iter *it, size_t i)
{
    sheaf__iter_free(it->base.inputs[i]);
    it->base.inputs[i] = NULL;
    it->open--;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct turns_iter *it = (struct turns_iter *)base;
    while (want > 0 && it->open > 0) {
        sheaf_status status = SHEAF_OK;
        if (base->inputs[it->at])
            status = sheaf__iter_pull(base->inputs[it->at], 1, rows, err);
        want -= status == SHEAF_OK && base->inputs[it->at];
        if (status == SHEAF_END)
            close_input(it, it->at);
        advance(it);
        SHEAF__TRY(status);
    }
    return want > 0 ? SHEAF_END : SHEAF_OK;
}

/* `count` of every input: none of them gives so many in all before another has. */
static sheaf_status pass_rounds(struct turns_iter *it, uint64_t count, struct sheaf__passed *passed,
                                sheaf_error *err)
{
    for (size_t i = 0; i < it->base.input_count; i++) {
        if (!it->base.inputs[i])
            continue;
        sheaf_status status = sheaf__iter_pass(it->base.inputs[i], count, passed, err);
        if (status < 0)
            return sheaf__iter_break(&it->base, err);
        if (status == SHEAF_END)
            close_input(it, i);
    }
    return SHEAF_OK;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct turns_iter *it = (struct turns_iter *)base;
    const bool in_order = sheaf__account_limits(base->flow->account);
    while (!in_order && it->open > 0 && count >= it->open) {
        const uint64_t before = passed->count;
        SHEAF__TRY(pass_rounds(it, count / it->open, passed, err));
        count -= passed->count - before;
    }
    return sheaf__iter_drop(base, count, passed, err);
}

const struct sheaf__stage_ops sheaf__turns_ops = {
    .describe = describe,
    .iter_size = sizeof(struct turns_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .stop = stop,
    .lazy = true, /* each input has a flow of its own */
};

sheaf_dataset *sheaf__turns(sheaf_dataset *const *inputs, size_t count)
{
    void *p = sheaf__params_new(sizeof(struct sheaf__params), SHEAF__STAGE_TURNS);
    return sheaf__dataset_new(SHEAF__STAGE_TURNS, p, inputs, count);
}
