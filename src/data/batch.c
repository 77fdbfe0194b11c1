/* SPDX-License-Identifier: Apache-2.0 */
#include "data/batch.h"

#include "base/error.h"
#include "data/spec.h"

/* Stacks elements (R9.15). With `parallel` the same; only rebatching takes it for another (R1.9).
 */

struct batch {
    struct sheaf__params params;
    int64_t size;
    sheaf_batch_options options;
};

struct batch_iter {
    struct sheaf__iter base;
    struct sheaf__rows rows;
};

static int64_t cardinality(int64_t n, const struct batch *p)
{
    if (n < 0)
        return n;
    return n / p->size + (n % p->size != 0 && !p->options.drop_remainder);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct batch *p = (const void *)d->params;
    SHEAF__TRY(sheaf__reserved_check(p->options.reserved, err));
    if (p->size <= 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the batch size is %lld, it must be greater than 0",
                            (long long)p->size);
    sheaf_element_spec *row = d->spec;
    int64_t size = p->options.drop_remainder ? p->size : SHEAF_UNKNOWN_DIM;
    sheaf_status status = sheaf__spec_batched(row, size, &d->spec, err);
    sheaf_element_spec_free(row);
    d->cardinality = cardinality(d->cardinality, p);
    return status;
}

/* Collects the rows of one batch; SHEAF_END with fewer than its size. */
static sheaf_status collect(struct batch_iter *it, size_t size, sheaf_error *err)
{
    sheaf__rows_clear(&it->rows);
    it->rows.reserve = size;
    while (it->rows.count < size) {
        sheaf_status status =
            sheaf__iter_pull(it->base.inputs[0], size - it->rows.count, &it->rows, err);
        if (status != SHEAF_OK)
            return status;
    }
    return SHEAF_OK;
}

static sheaf_status one_batch(struct batch_iter *it, struct sheaf__rows *rows, sheaf_error *err)
{
    const struct batch *p = sheaf__iter_params(&it->base);
    sheaf_status status = collect(it, (size_t)p->size, err);
    if (status < 0)
        return status;
    if (it->rows.count == 0 || (status == SHEAF_END && p->options.drop_remainder))
        return SHEAF_END;
    sheaf_element *e = NULL;
    SHEAF__TRY(sheaf__rows_stack(&it->rows, &e, err));
    status = sheaf__rows_put_boxed(rows, e, err);
    sheaf__unref(e);
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct batch_iter *it = (struct batch_iter *)base;
    for (size_t i = 0; i < want; i++) {
        sheaf_status status = one_batch(it, rows, err);
        if (status != SHEAF_OK)
            return status;
    }
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    sheaf__rows_free(&((struct batch_iter *)base)->rows);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct batch *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld%s)", (long long)p->size,
                      p->options.drop_remainder ? ", drop_remainder" : "");
}

const struct sheaf__stage_ops sheaf__batch_ops = {
    .describe = describe,
    .iter_size = sizeof(struct batch_iter),
    .next = next,
    .stop = stop,
    .explain = explain,
};

int64_t sheaf__batch_size(const sheaf_dataset *d)
{
    const struct batch *p = (const void *)d->params;
    return p->options.parallel != 0 ? -1 : p->size;
}

sheaf_dataset *sheaf_dataset_batch(sheaf_dataset *d, int64_t size,
                                   const sheaf_batch_options *options)
{
    struct batch *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_BATCH);
    if (p) {
        p->size = size;
        p->options = options ? *options : (sheaf_batch_options){0};
    }
    return sheaf__dataset_new(SHEAF__STAGE_BATCH, p, &d, 1);
}
