/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/column.h"
#include "format/vocabulary.h"

/* Words of a component as indices, or indices as words (R10.26, R10.27). */

struct lookup {
    struct sheaf__column column;
    sheaf_vocabulary *vocabulary; /* counted */
};

static void params_free(void *params)
{
    sheaf_vocabulary_free(((struct lookup *)params)->vocabulary);
}

static sheaf_tensor *apply(const struct sheaf__column *column, const sheaf_tensor *t,
                           sheaf_error *err)
{
    return sheaf__lookup(((const struct lookup *)column)->vocabulary, t, err);
}

static sheaf_status type(const struct sheaf__column *column, sheaf_tensor_spec *spec,
                         sheaf_error *err)
{
    const struct sheaf_vocabulary *v = ((const struct lookup *)column)->vocabulary;
    bool strings = !v->integers && !v->invert;
    if (strings ? spec->dtype != SHEAF_STRING
                : spec->dtype != SHEAF_INT64 && spec->dtype != SHEAF_INT32)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "component \"%.60s\" is %s, expected %s", spec->name,
                            sheaf_dtype_name(spec->dtype), strings ? "strings" : "int32 or int64");
    spec->dtype = v->invert ? sheaf__vocabulary_dtype(v) : SHEAF_INT64;
    return SHEAF_OK;
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct lookup *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld%s)", (long long)sheaf_vocabulary_size(p->vocabulary),
                      p->vocabulary->invert ? ", inverse" : "");
}

const struct sheaf__stage_ops sheaf__lookup_ops = {
    .describe = sheaf__column_describe,
    .params_free = params_free,
    .iter_size = sizeof(struct sheaf__column_iter),
    .start = sheaf__column_start,
    .next = sheaf__column_next,
    .pass = sheaf__column_pass,
    .sure = sheaf__column_sure,
    .stop = sheaf__column_stop,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_lookup(sheaf_dataset *d, const char *name,
                                    sheaf_vocabulary *vocabulary)
{
    struct lookup *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_LOOKUP);
    if (p) {
        p->column.apply = apply;
        p->column.type = type;
        p->vocabulary = sheaf_vocabulary_ref(vocabulary);
        sheaf__column_name(&p->column, name);
        if (!vocabulary)
            sheaf__error(&p->column.error, SHEAF_ERR_INVALID_ARGUMENT, "the vocabulary is NULL");
    }
    return sheaf__dataset_new(SHEAF__STAGE_LOOKUP, p, &d, 1);
}
