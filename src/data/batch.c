/* SPDX-License-Identifier: Apache-2.0 */
#include "data/batch.h"

#include "base/error.h"
#include "data/spec.h"

/* Stacks elements (R9.15). Rows that come stacked are not copied at all, others once, with `parallel`
 * on several threads of the device. */

struct batch {
    struct sheaf__batch common;
    sheaf_batch_options options;
};

/* ---- in common ---- */

sheaf_status sheaf__batch_describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct sheaf__batch *p = (const void *)d->params;
    if (p->size <= 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the batch size is %lld, it must be greater than 0",
                            (long long)p->size);
    int64_t n = d->cardinality;
    if (n >= 0)
        d->cardinality = n / p->size + (n % p->size != 0 && !p->drop_remainder);
    return SHEAF_OK;
}

/* Collects the rows of one batch; SHEAF_END with fewer than its size. */
static sheaf_status collect(struct sheaf__batch_iter *it, size_t size, sheaf_error *err)
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

static sheaf_status one_batch(struct sheaf__batch_iter *it, sheaf__stack_fn stack,
                              struct sheaf__rows *rows, sheaf_error *err)
{
    const struct sheaf__batch *p = sheaf__iter_params(&it->base);
    sheaf_status status = collect(it, (size_t)p->size, err);
    if (status < 0)
        return status;
    if (it->rows.count == 0)
        return SHEAF_END;
    if (status == SHEAF_END && p->drop_remainder) {
        sheaf__account_drop(it->base.flow->account, it->rows.count);
        return SHEAF_END;
    }
    sheaf_element *e = NULL;
    SHEAF__TRY(stack(it, &e, err));
    status = sheaf__rows_put_boxed(rows, e, err);
    sheaf__unref(e);
    return status;
}

sheaf_status sheaf__batch_next(struct sheaf__batch_iter *it, size_t want, sheaf__stack_fn stack,
                               struct sheaf__rows *rows, sheaf_error *err)
{
    for (size_t i = 0; i < want; i++) {
        sheaf_status status = one_batch(it, stack, rows, err);
        if (status != SHEAF_OK)
            return status;
    }
    return SHEAF_OK;
}

sheaf_status sheaf__batch_pass(struct sheaf__iter *base, uint64_t count,
                               struct sheaf__passed *passed, sheaf_error *err)
{
    const struct sheaf__batch *p = sheaf__iter_params(base);
    const uint64_t size = (uint64_t)p->size;
    struct sheaf__passed in = {0};
    uint64_t rows;
    if (__builtin_mul_overflow(count, size, &rows))
        rows = UINT64_MAX;
    sheaf_status status = sheaf__iter_pass(base->inputs[0], rows, &in, err);
    const uint64_t whole = in.count / size, rest = in.count % size;
    const bool last = status == SHEAF_END && rest > 0 && !p->drop_remainder;
    if (status == SHEAF_END && rest > 0 && !last)
        sheaf__account_drop(base->flow->account, rest);
    passed->count += whole + last;
    passed->rows += whole * size + (last ? rest : 0);
    return last && whole + 1 == count ? SHEAF_OK : status;
}

uint64_t sheaf__batch_sure(const struct sheaf__iter *base)
{
    const struct sheaf__batch *p = sheaf__iter_params(base);
    return sheaf__iter_sure(base->inputs[0]) / (uint64_t)p->size;
}

void sheaf__batch_stop(struct sheaf__iter *base)
{
    sheaf__rows_free(&((struct sheaf__batch_iter *)base)->rows);
}

void sheaf__batch_explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct sheaf__batch *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld%s)", (long long)p->size,
                      p->drop_remainder ? ", drop_remainder" : "");
}

/* ---- the stage ---- */

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct batch *p = (const void *)d->params;
    SHEAF__TRY(sheaf__reserved_check(p->options.reserved, err));
    SHEAF__TRY(sheaf__tuner_check(p->options.parallel, err));
    SHEAF__TRY(sheaf__batch_describe(d, err));
    sheaf_element_spec *row = d->spec;
    int64_t size = p->common.drop_remainder ? p->common.size : SHEAF_UNKNOWN_DIM;
    sheaf_status status = sheaf__spec_batched(row, size, &d->spec, err);
    sheaf_element_spec_free(row);
    return status;
}

static sheaf_status stack(struct sheaf__batch_iter *it, sheaf_element **batch, sheaf_error *err)
{
    const struct batch *p = sheaf__iter_params(&it->base);
    const int parallel = p->options.parallel;
    const int threads = parallel == SHEAF_AUTOTUNE ? 0 : parallel > 0 ? parallel : 1;
    return sheaf__rows_stack(&it->rows, threads, batch, err);
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    return sheaf__batch_next((struct sheaf__batch_iter *)base, want, stack, rows, err);
}

/* R1.9. */
static int64_t batch_size(const sheaf_dataset *d)
{
    const struct batch *p = (const void *)d->params;
    return p->options.parallel != 0 ? -1 : p->common.size;
}

const struct sheaf__stage_ops sheaf__batch_ops = {
    .describe = describe,
    .iter_size = sizeof(struct sheaf__batch_iter),
    .next = next,
    .pass = sheaf__batch_pass,
    .sure = sheaf__batch_sure,
    .stop = sheaf__batch_stop,
    .batch_size = batch_size,
    .explain = sheaf__batch_explain,
};

sheaf_dataset *sheaf_dataset_batch(sheaf_dataset *d, int64_t size,
                                   const sheaf_batch_options *options)
{
    struct batch *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_BATCH);
    if (p) {
        p->options = options ? *options : (sheaf_batch_options){0};
        p->common.size = size;
        p->common.drop_remainder = p->options.drop_remainder;
    }
    return sheaf__dataset_new(SHEAF__STAGE_BATCH, p, &d, 1);
}
