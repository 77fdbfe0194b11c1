/* SPDX-License-Identifier: Apache-2.0 */
#include "data/shard.h"

#include "base/error.h"

/* Every count-th element (R2.27). */

#define CHUNK 4096

struct shard {
    struct sheaf__params params;
    int64_t count, index;
    const char *what; /* of an auto-shard: what there must be enough of; static */
};

struct shard_iter {
    struct sheaf__iter base;
    struct sheaf__feed feed;
    int64_t skip; /* rows before the next that is kept */
    bool counted; /* there are enough */
    bool failed;
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct shard *p = (const void *)d->params;
    if (p->count == SHEAF_SHARD_HINT)
        return SHEAF_OK;
    if (p->count < 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the number of shards is %lld, it must be greater than 0",
                            (long long)p->count);
    if (p->index < 0 || p->index >= p->count)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the index is %lld, it must be between 0 and %lld", (long long)p->index,
                            (long long)p->count - 1);
    if (d->cardinality >= 0)
        d->cardinality = d->cardinality / p->count + (p->index < d->cardinality % p->count);
    return SHEAF_OK;
}

static bool idle(const sheaf_dataset *d)
{
    return ((const struct shard *)(const void *)d->params)->count == 1;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct shard_iter *it = (struct shard_iter *)base;
    const struct shard *p = sheaf__iter_params(base);
    if (p->count == SHEAF_SHARD_HINT)
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "the shard hint was not replaced: the dataset is not distributed, or "
                            "its autoshard policy is not HINT");
    it->feed.from = base->inputs[0];
    it->skip = p->index;
    it->counted = !p->what;
    return SHEAF_OK;
}

/* Reads ahead until there is an element for every worker. */
static sheaf_status count_first(struct shard_iter *it, const struct shard *p, sheaf_error *err)
{
    struct sheaf__rows *rows = &it->feed.rows;
    while (rows->count < (size_t)p->count) {
        sheaf_status status =
            sheaf__iter_pull(it->base.inputs[0], (size_t)p->count - rows->count, rows, err);
        if (status < 0)
            return status;
        if (status == SHEAF_END)
            break;
    }
    it->counted = true;
    if (rows->count == 0 || rows->count >= (size_t)p->count)
        return SHEAF_OK;
    it->failed = true;
    return sheaf__error(
        err, SHEAF_ERR_INVALID_ARGUMENT,
        "cannot shard by %s: only %zu %s%s for %lld workers; use more %ss, or the autoshard policy "
        "DATA or OFF",
        p->what, rows->count, p->what, rows->count == 1 ? "" : "s", (long long)p->count, p->what);
}

/* Rows to pull for `want` that are kept, and no more. */
static size_t demand(const struct shard_iter *it, const struct shard *p, size_t want)
{
    size_t most = (CHUNK - (size_t)(it->skip < CHUNK ? it->skip : CHUNK)) / (size_t)p->count + 1;
    size_t kept = want < most ? want : most;
    size_t n = (size_t)it->skip + (kept - 1) * (size_t)p->count + 1;
    return n < CHUNK ? n : CHUNK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct shard_iter *it = (struct shard_iter *)base;
    const struct shard *p = sheaf__iter_params(base);
    if (it->failed)
        return SHEAF_END;
    if (!it->counted)
        SHEAF__TRY(count_first(it, p, err));
    for (size_t i = 0; i < want;) {
        sheaf_status status = sheaf__feed_fill(&it->feed, demand(it, p, want - i), err);
        if (status != SHEAF_OK)
            return status;
        size_t left = sheaf__feed_left(&it->feed);
        if ((uint64_t)it->skip >= left) {
            it->skip -= (int64_t)left;
            it->feed.at += left;
            continue;
        }
        it->feed.at += (size_t)it->skip;
        it->skip = p->count - 1;
        SHEAF__TRY(sheaf__rows_put_from(rows, it->feed.block, it->feed.at++, 1, err));
        i++;
    }
    return SHEAF_OK;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct shard_iter *it = (struct shard_iter *)base;
    const struct shard *p = sheaf__iter_params(base);
    const uint64_t step = (uint64_t)p->count, skip = (uint64_t)it->skip;
    struct sheaf__passed in = {0};
    uint64_t all;
    if (it->failed)
        return SHEAF_END;
    if (__builtin_mul_overflow(count - 1, step, &all) ||
        __builtin_add_overflow(all, skip + 1, &all))
        all = UINT64_MAX;
    it->counted = true; /* who saw elements of it saw that there are enough */
    sheaf_status status = sheaf__feed_pass(&it->feed, all, &in, err);
    if (in.count <= skip) {
        it->skip -= (int64_t)in.count;
        return status;
    }
    const uint64_t behind = in.count - skip - 1; /* the first that is kept */
    passed->count += behind / step + 1;
    it->skip = (int64_t)(step - 1 - behind % step);
    return status;
}

static void stop(struct sheaf__iter *base)
{
    sheaf__feed_free(&((struct shard_iter *)base)->feed);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct shard *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld, %lld)", (long long)p->count, (long long)p->index);
}

const struct sheaf__stage_ops sheaf__shard_ops = {
    .describe = describe,
    .iter_size = sizeof(struct shard_iter),
    .start = start,
    .idle = idle,
    .next = next,
    .pass = pass,
    .stop = stop,
    .explain = explain,
};

bool sheaf__shard_is_hint(const sheaf_dataset *d)
{
    const struct shard *p = (const void *)d->params;
    return sheaf__dataset_is(d, SHEAF__STAGE_SHARD) && p->count == SHEAF_SHARD_HINT;
}

static bool has_batch(const sheaf_dataset *d)
{
    bool found = d->stage->ops->batch_size != NULL;
    for (size_t i = 0; i < d->input_count && !found; i++)
        found = has_batch(d->inputs[i]);
    return found;
}

bool sheaf__shard_follows_batch(const sheaf_dataset *d)
{
    const struct shard *p = (const void *)d->params;
    bool found = sheaf__dataset_is(d, SHEAF__STAGE_SHARD) && p->what && has_batch(d);
    for (size_t i = 0; i < d->input_count && !found; i++)
        found = sheaf__shard_follows_batch(d->inputs[i]);
    return found;
}

sheaf_dataset *sheaf__shard_for_worker(sheaf_dataset *d, int64_t count, int64_t index,
                                       const char *what)
{
    struct shard *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_SHARD);
    if (p) {
        p->count = count;
        p->index = index;
        p->what = what;
    }
    return sheaf__dataset_new(SHEAF__STAGE_SHARD, p, &d, 1);
}

sheaf_dataset *sheaf_dataset_shard(sheaf_dataset *d, int64_t count, int64_t index)
{
    return sheaf__shard_for_worker(d, count, index, NULL);
}
