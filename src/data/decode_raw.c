/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/decode_raw.h"

#include "base/error.h"
#include "data/column.h"
#include "tensor/shape.h"

/* Bytes of a component as numbers (R9.37). */

struct decode_raw {
    struct sheaf__column column;
    sheaf_dtype dtype;
    sheaf_decode_raw_options options;
};

static sheaf_tensor *apply(const struct sheaf__column *column, const sheaf_tensor *t,
                           sheaf_error *err)
{
    const struct decode_raw *p = (const struct decode_raw *)column;
    return sheaf__decode_raw(t, p->dtype, &p->options, err);
}

static sheaf_status type(const struct sheaf__column *column, sheaf_tensor_spec *spec,
                         sheaf_error *err)
{
    const struct decode_raw *p = (const struct decode_raw *)column;
    if (spec->dtype != SHEAF_STRING || spec->shape.rank >= SHEAF_MAX_RANK)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "component \"%.60s\" is %s of shape %s, expected strings of less than "
                            "%d axes",
                            spec->name, sheaf_dtype_name(spec->dtype),
                            SHEAF__SHAPE_TEXT(spec->shape), SHEAF_MAX_RANK);
    int64_t size = (int64_t)sheaf_dtype_size(p->dtype), bytes = p->options.fixed_length;
    spec->dtype = p->dtype;
    if (spec->shape.rank >= 0)
        spec->shape.dims[spec->shape.rank++] = bytes > 0 ? bytes / size : SHEAF_UNKNOWN_DIM;
    return SHEAF_OK;
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct decode_raw *p = (const void *)d->params;
    sheaf__str_printf(text, "(%s)", sheaf_dtype_name(p->dtype));
}

const struct sheaf__stage_ops sheaf__decode_raw_ops = {
    .describe = sheaf__column_describe,
    .iter_size = sizeof(struct sheaf__column_iter),
    .start = sheaf__column_start,
    .next = sheaf__column_next,
    .pass = sheaf__column_pass,
    .sure = sheaf__column_sure,
    .stop = sheaf__column_stop,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_decode_raw(sheaf_dataset *d, const char *name, sheaf_dtype dtype,
                                        const sheaf_decode_raw_options *options)
{
    struct decode_raw *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_DECODE_RAW);
    if (p) {
        p->column.apply = apply;
        p->column.type = type;
        p->dtype = dtype;
        p->options = options ? *options : (sheaf_decode_raw_options){0};
        sheaf__column_name(&p->column, name);
        if (p->column.error.status >= 0)
            sheaf__decode_raw_check(dtype, &p->options, &p->column.error);
    }
    return sheaf__dataset_new(SHEAF__STAGE_DECODE_RAW, p, &d, 1);
}
