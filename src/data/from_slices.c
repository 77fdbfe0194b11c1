/* SPDX-License-Identifier: Apache-2.0 */
#include "data/from_slices.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/slicer.h"
#include "data/spec.h"

/* The rows of tensors (R9.24): views of them. */

struct from_slices {
    struct sheaf__params params;
    sheaf_element *slices; /* counted */
    size_t rows;
    sheaf_error error;
};

struct from_slices_iter {
    struct sheaf__iter base;
    size_t at;
};

static void params_free(void *params)
{
    sheaf__unref(((struct from_slices *)params)->slices);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct from_slices *p = (const void *)d->params;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    sheaf_element_spec *whole = sheaf__spec_of(p->slices, err);
    int64_t rows;
    sheaf_status status = whole ? sheaf__spec_rows(whole, &d->spec, &rows, err) : err->status;
    sheaf_element_spec_free(whole);
    d->cardinality = (int64_t)p->rows;
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct from_slices_iter *it = (struct from_slices_iter *)base;
    const struct from_slices *p = sheaf__iter_params(base);
    if (it->at == p->rows)
        return SHEAF_END;
    if (want > p->rows - it->at)
        want = p->rows - it->at;
    SHEAF__TRY(sheaf__rows_put_slices(rows, p->slices, it->at, want, err));
    it->at += want;
    return SHEAF_OK;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct from_slices *p = sheaf__iter_params(base);
    return p->rows - ((const struct from_slices_iter *)base)->at;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    const uint64_t left = sure(base), n = count < left ? count : left;
    (void)err;
    ((struct from_slices_iter *)base)->at += (size_t)n;
    passed->count += n;
    return n < count ? SHEAF_END : SHEAF_OK;
}

const struct sheaf__stage_ops sheaf__from_slices_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct from_slices_iter),
    .next = next,
    .pass = pass,
    .sure = sure,
};

static sheaf_status prepare(struct from_slices *p, sheaf_element *e, sheaf_error *err)
{
    if (!e)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no element");
    SHEAF__TRY(sheaf__element_status(e, err));
    return sheaf__sliceable(e, &p->slices, &p->rows, err);
}

sheaf_dataset *sheaf_dataset_from_slices(sheaf_element *e)
{
    struct from_slices *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_FROM_SLICES);
    if (p)
        prepare(p, e, &p->error);
    return sheaf__dataset_new(SHEAF__STAGE_FROM_SLICES, p, NULL, 0);
}

static sheaf_status prepare_strings(struct from_slices *p, const char *const *strings, size_t count,
                                    sheaf_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!strings || !strings[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "name %zu of a file is NULL", i);
    sheaf_bytes *views = sheaf__alloc_array(count, sizeof(*views));
    if (!views)
        return sheaf__no_memory(err, "names of files");
    for (size_t i = 0; i < count; i++)
        views[i] = (sheaf_bytes){strings[i], __builtin_strlen(strings[i])};
    sheaf_tensor *t = sheaf__string_copy(SHEAF_SHAPE((int64_t)count), views, err);
    sheaf__free(views);
    sheaf_element *e = t ? sheaf__element_new(err) : NULL;
    sheaf_status status = e ? sheaf__element_add(e, sheaf__name(""), t, err) : err->status;
    if (status >= 0)
        status = sheaf__sliceable(e, &p->slices, &p->rows, err);
    sheaf__unref(t);
    sheaf__unref(e);
    return status;
}

sheaf_dataset *sheaf__from_strings(enum sheaf__stage_id id, const char *const *strings,
                                   size_t count)
{
    struct from_slices *p = sheaf__params_new(sizeof(*p), id);
    if (p)
        prepare_strings(p, strings, count, &p->error);
    return sheaf__dataset_new(id, p, NULL, 0);
}
