/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/stage.h"

/* One element. */

struct from_tensors {
    struct sheaf__params params;
    sheaf_element *element; /* counted */
};

struct from_tensors_iter {
    struct sheaf__iter base;
    bool done;
};

static void params_free(void *params)
{
    sheaf__unref(((struct from_tensors *)params)->element);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct from_tensors *p = (const void *)d->params;
    if (!p->element)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no element");
    SHEAF__TRY(sheaf__element_status(p->element, err));
    d->spec = sheaf__spec_of(p->element, err);
    d->cardinality = 1;
    return d->spec ? SHEAF_OK : err->status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct from_tensors_iter *it = (struct from_tensors_iter *)base;
    const struct from_tensors *p = sheaf__iter_params(base);
    (void)want;
    if (it->done)
        return SHEAF_END;
    it->done = true;
    return sheaf__rows_put(rows, p->element, err);
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct from_tensors_iter *it = (struct from_tensors_iter *)base;
    const uint64_t n = !it->done;
    (void)err;
    it->done = true;
    passed->count += n;
    return n < count ? SHEAF_END : SHEAF_OK;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    return !((const struct from_tensors_iter *)base)->done;
}

const struct sheaf__stage_ops sheaf__from_tensors_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct from_tensors_iter),
    .next = next,
    .pass = pass,
    .sure = sure,
};

sheaf_dataset *sheaf_dataset_from_tensors(sheaf_element *e)
{
    struct from_tensors *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_FROM_TENSORS);
    if (p)
        p->element = sheaf__ref(e);
    return sheaf__dataset_new(SHEAF__STAGE_FROM_TENSORS, p, NULL, 0);
}
