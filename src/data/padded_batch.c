/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "data/batch.h"
#include "data/spec.h"
#include "tensor/shape.h"

#include <string.h>

/* Stacks elements of unlike sizes, each filled up to a size that all have (R9.26). */

struct padded_batch {
    struct sheaf__batch common;
    sheaf_shape *shapes; /* asked for; NULL: the input's */
    size_t shape_count;
    sheaf_element *values; /* scalars by name; counted, NULL: none */
    uint64_t reserved[4];
    sheaf_error error;
};

static void params_free(void *params)
{
    struct padded_batch *p = params;
    sheaf__free(p->shapes);
    sheaf__unref(p->values);
}

/* ---- building ---- */

static sheaf_status check_values(const struct padded_batch *p, const sheaf_element_spec *spec,
                                 sheaf_error *err)
{
    for (size_t i = 0; p->values && i < p->values->count; i++) {
        const struct sheaf__element_item *value = &p->values->items[i];
        const sheaf_tensor *t = value->tensor;
        if (t->layout != SHEAF__DENSE || t->shape.rank != 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "the value to pad \"%.60s\" with is no scalar but of shape %s",
                                value->name, SHEAF__SHAPE_TEXT(t->shape));
        size_t at = 0;
        while (spec && at < spec->count && spec->specs[at].name != value->name)
            at++;
        if (spec && at == spec->count)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "there is a value to pad \"%.60s\" with, but no such component",
                                value->name);
        if (spec && spec->specs[at].dtype != t->dtype)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "the value to pad \"%.60s\" with is %s, the component is %s",
                                value->name, sheaf_dtype_name(t->dtype),
                                sheaf_dtype_name(spec->specs[at].dtype));
    }
    return SHEAF_OK;
}

/* Whether a component of shape `from` can be padded to `to`. */
static sheaf_status check_shape(const sheaf_tensor_spec *from, const sheaf_shape *to, size_t i,
                                sheaf_error *err)
{
    if (to->rank < 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "component %zu (\"%.60s\") has no known number of axes, the shape to "
                            "pad it to must be given",
                            i, from->name);
    bool fits = from->shape.rank < 0 || from->shape.rank == to->rank;
    for (int axis = 0; fits && axis < to->rank && from->shape.rank >= 0; axis++)
        fits = to->dims[axis] < 0 || from->shape.dims[axis] <= to->dims[axis];
    if (!fits)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "component %zu (\"%.60s\") of shape %s cannot be padded to %s", i,
                            from->name, SHEAF__SHAPE_TEXT(from->shape), SHEAF__SHAPE_TEXT(*to));
    return SHEAF_OK;
}

static sheaf_status check_count(const struct padded_batch *p, size_t components, sheaf_error *err)
{
    if (!p->shapes || p->shape_count == components)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "%zu shapes to pad to for elements of %zu components", p->shape_count,
                        components);
}

/* The type of a row after padding: unknown sizes become the longest of each batch. */
static sheaf_status padded_spec(const struct padded_batch *p, const sheaf_element_spec *spec,
                                sheaf_element_spec **out, sheaf_error *err)
{
    SHEAF__TRY(check_count(p, spec->count, err));
    sheaf_element_spec *made = sheaf__spec_new(spec->specs, spec->count, spec->pattern, err);
    if (!made)
        return err->status;
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; status >= 0 && i < made->count; i++) {
        if (p->shapes)
            made->specs[i].shape = p->shapes[i];
        status = check_shape(&spec->specs[i], &made->specs[i].shape, i, err);
    }
    if (status >= 0)
        *out = made;
    else
        sheaf_element_spec_free(made);
    return status;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct padded_batch *p = (const void *)d->params;
    sheaf_element_spec *in = d->spec, *row = NULL;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    SHEAF__TRY(sheaf__reserved_check(p->reserved, err));
    SHEAF__TRY(sheaf__batch_describe(d, err));
    SHEAF__TRY(check_values(p, in, err));
    if (!in)
        return SHEAF_OK;
    SHEAF__TRY(padded_spec(p, in, &row, err));
    int64_t size = p->common.drop_remainder ? p->common.size : SHEAF_UNKNOWN_DIM;
    sheaf_status status = sheaf__spec_batched(row, size, &d->spec, err);
    sheaf_element_spec_free(row);
    sheaf_element_spec_free(in);
    return status;
}

/* ---- one batch ---- */

static const sheaf_tensor *value_of(const struct padded_batch *p, const char *name)
{
    for (size_t i = 0; p->values && i < p->values->count; i++)
        if (p->values->items[i].name == name)
            return p->values->items[i].tensor;
    return NULL;
}

/* What component `i` is padded to: the sizes given, else the largest of the rows. */
static sheaf_status target_of(const struct sheaf__batch_iter *it, size_t i, sheaf_shape *target,
                              sheaf_error *err)
{
    const struct padded_batch *p = sheaf__iter_params(&it->base);
    const sheaf_element_spec *spec = it->base.dataset->spec;
    struct sheaf__row_kind kind = sheaf__block_kind(sheaf__rows_front(&it->rows), i);
    *target = kind.shape;
    for (int axis = 0; axis < target->rank; axis++)
        target->dims[axis] = SHEAF_UNKNOWN_DIM;
    if (spec)
        *target = sheaf__shape_inner(spec->specs[i].shape);
    else if (p->shapes)
        *target = p->shapes[i];
    const sheaf_shape given = *target;
    for (size_t b = it->rows.head; b < it->rows.used; b++) {
        sheaf_shape row = sheaf__block_kind(it->rows.blocks[b], i).shape;
        bool fits = row.rank == given.rank;
        for (int axis = 0; fits && axis < given.rank; axis++) {
            fits = given.dims[axis] < 0 || row.dims[axis] <= given.dims[axis];
            if (row.dims[axis] > target->dims[axis])
                target->dims[axis] = row.dims[axis];
        }
        if (!fits)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "cannot pad component %zu (\"%.60s\"): an element of shape %s does "
                                "not fit into %s",
                                i, kind.name, SHEAF__SHAPE_TEXT(row), SHEAF__SHAPE_TEXT(given));
    }
    return SHEAF_OK;
}

static sheaf_status check_component(const struct padded_batch *p,
                                    const struct sheaf__row_kind *kind, size_t i, sheaf_error *err)
{
    const sheaf_tensor *value = value_of(p, kind->name);
    if (kind->layout != SHEAF__DENSE)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "cannot pad component %zu (\"%.60s\"): it is not dense", i, kind->name);
    if (value && value->dtype != kind->dtype)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "cannot pad component %zu (\"%.60s\"), which is %s, with %s", i,
                            kind->name, sheaf_dtype_name(kind->dtype),
                            sheaf_dtype_name(value->dtype));
    return SHEAF_OK;
}

/* Whether every row has the target's sizes: nothing is to be padded. */
static bool is_full(const struct sheaf__rows *rows, size_t i, sheaf_shape target)
{
    bool full = true;
    for (size_t b = rows->head; full && b < rows->used; b++)
        full = sheaf_shape_equal(sheaf__block_kind(rows->blocks[b], i).shape, target);
    return full;
}

/* `count` times the item at `value`, or zeros for NULL. */
static void fill(char *to, const void *value, size_t item, size_t count)
{
    size_t bytes = item * count, done = item;
    if (bytes == 0)
        return;
    if (!value) {
        memset(to, 0, bytes);
        return;
    }
    memcpy(to, value, item);
    for (; done < bytes; done *= 2)
        memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

/* Copies row-major elements into the corner at index 0 of a larger array. */
static void place(char *to, sheaf_shape to_shape, const char *from, sheaf_shape shape, size_t item)
{
    if (shape.rank == 0) {
        memcpy(to, from, item);
        return;
    }
    sheaf_shape to_inner = sheaf__shape_inner(to_shape), inner = sheaf__shape_inner(shape);
    size_t to_step = (size_t)sheaf_shape_elements(to_inner) * item;
    size_t step = (size_t)sheaf_shape_elements(inner) * item;
    size_t n = (size_t)shape.dims[0];
    if (step == 0 || n == 0)
        return;
    if (to_step == step) {
        memcpy(to, from, n * step);
        return;
    }
    for (size_t i = 0; i < n; i++)
        place(to + i * to_step, to_inner, from + i * step, inner, item);
}

/* Component `i` of all rows of a block, each in its own `target`; `to` moves on. */
static sheaf_status place_block(const struct sheaf__block *block, size_t i, sheaf_tensor *out,
                                char **to, sheaf_error *err)
{
    const sheaf_tensor *t = block->columns->items[i].tensor;
    const sheaf_shape shape = sheaf__block_kind(block, i).shape;
    const sheaf_shape target = sheaf__shape_inner(out->shape);
    const size_t item = sheaf_dtype_size(out->dtype);
    const size_t size = (size_t)sheaf_shape_elements(shape) * item;
    const char *from = sheaf__tensor_host(t, err);
    if (!from)
        return err->status;
    if (t->dtype == SHEAF_STRING)
        SHEAF__TRY(sheaf__string_keep_like(out, t, err));
    from += block->first * size;
    for (size_t k = 0; k < block->count; k++) {
        place(*to, target, from + k * size, shape, item);
        *to += (size_t)sheaf_shape_elements(target) * item;
    }
    return SHEAF_OK;
}

static sheaf_tensor *pad_component(const struct sheaf__batch_iter *it, size_t i, sheaf_shape target,
                                   sheaf_error *err)
{
    struct sheaf__row_kind kind = sheaf__block_kind(sheaf__rows_front(&it->rows), i);
    const sheaf_tensor *value = value_of(sheaf__iter_params(&it->base), kind.name);
    sheaf_tensor *out = sheaf__tensor_new(
        kind.dtype, sheaf__shape_prepend(target, (int64_t)it->rows.count), NULL, err);
    if (!out)
        return NULL;
    const void *item = value ? sheaf__tensor_host(value, err) : NULL;
    sheaf_status status = value && !item ? err->status : SHEAF_OK;
    if (status >= 0 && !is_full(&it->rows, i, target))
        fill(out->data, item, sheaf_dtype_size(kind.dtype),
             (size_t)sheaf_shape_elements(out->shape));
    if (status >= 0 && value && kind.dtype == SHEAF_STRING)
        status = sheaf__string_keep_like(out, value, err);
    char *to = out->data;
    for (size_t b = it->rows.head; status >= 0 && b < it->rows.used; b++)
        status = place_block(it->rows.blocks[b], i, out, &to, err);
    if (status >= 0)
        return out;
    sheaf__unref(out);
    return NULL;
}

/* Adds component `i` of the batch. */
static sheaf_status add_component(const struct sheaf__batch_iter *it, size_t i,
                                  sheaf_element *batch, sheaf_error *err)
{
    struct sheaf__row_kind kind = sheaf__block_kind(sheaf__rows_front(&it->rows), i);
    sheaf_shape target;
    SHEAF__TRY(check_component(sheaf__iter_params(&it->base), &kind, i, err));
    SHEAF__TRY(target_of(it, i, &target, err));
    sheaf_tensor *t = pad_component(it, i, target, err);
    sheaf_status status = t ? sheaf__element_add(batch, kind.name, t, err) : err->status;
    sheaf__unref(t);
    return status;
}

static sheaf_status stack(struct sheaf__batch_iter *it, sheaf_element **batch, sheaf_error *err)
{
    SHEAF__TRY(sheaf__rows_check(&it->rows, true, err));
    const sheaf_element *first = sheaf__rows_front(&it->rows)->columns;
    SHEAF__TRY(check_count(sheaf__iter_params(&it->base), first->count, err));
    sheaf_element *out = sheaf__element_new(err);
    if (!out)
        return err->status;
    out->pattern = first->pattern;
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; status >= 0 && i < first->count; i++)
        status = add_component(it, i, out, err);
    if (status < 0) {
        sheaf__unref(out);
        return status;
    }
    *batch = out;
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    return sheaf__batch_next((struct sheaf__batch_iter *)base, want, stack, rows, err);
}

static int64_t batch_size(const sheaf_dataset *d)
{
    return ((const struct sheaf__batch *)(const void *)d->params)->size;
}

const struct sheaf__stage_ops sheaf__padded_batch_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct sheaf__batch_iter),
    .next = next,
    .pass = sheaf__batch_pass,
    .sure = sheaf__batch_sure,
    .stop = sheaf__batch_stop,
    .batch_size = batch_size,
    .explain = sheaf__batch_explain,
};

/* Takes over what the options point to. */
static sheaf_status take_options(struct padded_batch *p, const sheaf_padded_batch_options *options,
                                 sheaf_error *err)
{
    p->common.drop_remainder = options->drop_remainder;
    memcpy(p->reserved, options->reserved, sizeof(p->reserved));
    if (options->shapes) {
        p->shapes = sheaf__memdup(options->shapes, options->shape_count * sizeof(*p->shapes));
        p->shape_count = options->shape_count;
        if (!p->shapes)
            return sheaf__no_memory(err, "the shapes of a padded batch");
    }
    if (!options->values)
        return SHEAF_OK;
    SHEAF__TRY(sheaf__element_status(options->values, err));
    p->values = sheaf__element_copy(options->values, err);
    return p->values ? SHEAF_OK : err->status;
}

sheaf_dataset *sheaf_dataset_padded_batch(sheaf_dataset *d, int64_t size,
                                          const sheaf_padded_batch_options *options)
{
    struct padded_batch *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_PADDED_BATCH);
    if (p) {
        p->common.size = size;
        if (options)
            take_options(p, options, &p->error);
    }
    return sheaf__dataset_new(SHEAF__STAGE_PADDED_BATCH, p, &d, 1);
}
