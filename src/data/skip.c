/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/stage.h"

/* All but the first elements; none for a negative count (R9.2). */

struct skip {
    struct sheaf__params params;
    int64_t count;
};

struct skip_iter {
    struct sheaf__iter base;
    int64_t left;
    struct sheaf__rows dropped;
};

/* Rows that are dropped at a time. */
#define CHUNK 256

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct skip *p = (const void *)d->params;
    (void)err;
    if (d->cardinality >= 0)
        d->cardinality = p->count < 0 || p->count > d->cardinality ? 0 : d->cardinality - p->count;
    return SHEAF_OK;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    const struct skip *p = sheaf__iter_params(base);
    (void)err;
    ((struct skip_iter *)base)->left = p->count;
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct skip_iter *it = (struct skip_iter *)base;
    if (it->left < 0)
        return SHEAF_END;
    while (it->left > 0) {
        size_t n = it->left < CHUNK ? (size_t)it->left : CHUNK;
        sheaf__rows_clear(&it->dropped);
        sheaf_status status = sheaf__iter_pull(base->inputs[0], n, &it->dropped, err);
        if (status != SHEAF_OK)
            return status;
        it->left -= (int64_t)it->dropped.count;
    }
    sheaf__rows_clear(&it->dropped);
    return sheaf__iter_pull(base->inputs[0], want, rows, err);
}

static void stop(struct sheaf__iter *base)
{
    sheaf__rows_free(&((struct skip_iter *)base)->dropped);
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
    .next = next,
    .stop = stop,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_skip(sheaf_dataset *d, int64_t count)
{
    struct skip *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_SKIP);
    if (p)
        p->count = count;
    return sheaf__dataset_new(SHEAF__STAGE_SKIP, p, &d, 1);
}
