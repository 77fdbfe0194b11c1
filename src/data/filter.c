/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/function.h"
#include "data/stage.h"

#include <sheaf/frame.h>

/* Drops elements (R9.21). */

struct filter {
    struct sheaf__params params;
    sheaf_filter_fn fn;
    void *user;
};

struct filter_iter {
    struct sheaf__iter base;
    struct sheaf__feed feed;
    struct sheaf__row row;
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct filter *p = (const void *)d->params;
    d->calls = true;
    d->cardinality = SHEAF_UNKNOWN;
    if (!p->fn)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no function to call");
    return SHEAF_OK;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    (void)err;
    ((struct filter_iter *)base)->feed.from = base->inputs[0];
    return SHEAF_OK;
}

/* SHEAF_OK: keep, SHEAF_END: drop. */
static sheaf_status ask(struct filter_iter *it, size_t at, sheaf_error *err)
{
    const struct filter *p = sheaf__iter_params(&it->base);
    SHEAF__TRY(sheaf__token_check(it->base.flow->token, err));
    const sheaf_element *e = sheaf__row_at(&it->row, it->feed.block, at, err);
    if (!e)
        return err->status;
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf__error_listen();
    sheaf_status status = sheaf__function_status(p->fn(e, p->user), "the function", err);
    if (status >= 0 && sheaf_frame_status(err) < 0)
        status = err->status;
    sheaf_frame_close(&frame);
    return status;
}

/* Looks at the rows of the feed's block, and appends those that stay in as few pieces as there are.
 */
static sheaf_status sieve(struct filter_iter *it, struct sheaf__rows *rows, sheaf_error *err)
{
    struct sheaf__feed *feed = &it->feed;
    size_t from = feed->at;
    sheaf_status status = SHEAF_OK;
    while (status == SHEAF_OK && feed->at < feed->block->count)
        status = ask(it, feed->at++, err);
    size_t kept = feed->at - from - (status != SHEAF_OK);
    if (kept > 0) {
        sheaf_error full;
        if (sheaf__rows_put_from(rows, feed->block, from, kept, &full) < 0)
            return sheaf__error_copy(err, &full);
    }
    return status < 0 ? status : SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct filter_iter *it = (struct filter_iter *)base;
    size_t before = rows->count;
    while (rows->count - before < want) {
        sheaf_status status = sheaf__feed_fill(&it->feed, want - (rows->count - before), err);
        if (status != SHEAF_OK)
            return status;
        SHEAF__TRY(sieve(it, rows, err));
    }
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    struct filter_iter *it = (struct filter_iter *)base;
    sheaf__row_free(&it->row);
    sheaf__feed_free(&it->feed);
}

const struct sheaf__stage_ops sheaf__filter_ops = {
    .describe = describe,
    .iter_size = sizeof(struct filter_iter),
    .start = start,
    .next = next,
    .stop = stop,
};

sheaf_dataset *sheaf_dataset_filter(sheaf_dataset *d, sheaf_filter_fn fn, void *user)
{
    struct filter *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_FILTER);
    if (p) {
        p->fn = fn;
        p->user = user;
    }
    return sheaf__dataset_new(SHEAF__STAGE_FILTER, p, &d, 1);
}
