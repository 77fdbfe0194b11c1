/* SPDX-License-Identifier: Apache-2.0 */
#include "data/column.h"

#include "base/error.h"
#include "data/locate.h"

void sheaf__column_name(struct sheaf__column *column, const char *name)
{
    column->name = name ? sheaf__name(name) : NULL;
    if (name && !column->name)
        sheaf__no_memory(&column->error, "the name of a component");
}

static sheaf_status missing(const struct sheaf__column *p, size_t components, sheaf_error *err)
{
    if (!p->name)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "an element has %zu components, which one is meant must be said",
                            components);
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "none of an element's %zu components is named \"%.60s\"", components,
                        p->name);
}

/* ---- types ---- */

sheaf_status sheaf__column_describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct sheaf__column *p = (const void *)d->params;
    sheaf_element_spec *in = d->spec;
    size_t at = 0;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    if (!in)
        return SHEAF_OK;
    while (at < in->count && p->name && in->specs[at].name != p->name)
        at++;
    if (at == in->count || (!p->name && in->count != 1))
        return missing(p, in->count, err);
    d->spec = sheaf__spec_new(in->specs, in->count, in->pattern, err);
    sheaf_element_spec_free(in);
    return d->spec ? p->type(p, &d->spec->specs[at], err) : err->status;
}

/* ---- elements ---- */

static sheaf_status find(const struct sheaf__column *p, const sheaf_element *e, size_t *at,
                         sheaf_error *err)
{
    for (*at = 0; *at < e->count; ++*at)
        if (p->name ? e->items[*at].name == p->name : e->count == 1)
            return SHEAF_OK;
    return missing(p, e->count, err);
}

/* `e` with another tensor in place `at`; the caller's count. */
static sheaf_element *replaced(const sheaf_element *e, size_t at, sheaf_tensor *t, sheaf_error *err)
{
    sheaf_element *out = sheaf__element_copy(e, err);
    if (out) {
        sheaf__unref(out->items[at].tensor);
        out->items[at].tensor = sheaf__ref(t);
    }
    return out;
}

/* `count` rows of the feed's stacked block at once. SHEAF_PENDING: they do not go together. */
static sheaf_status apply_block(struct sheaf__column_iter *it, size_t count,
                                struct sheaf__rows *rows, sheaf_error *err)
{
    const struct sheaf__column *p = sheaf__iter_params(&it->base);
    const struct sheaf__block *block = it->feed.block;
    sheaf_error why;
    size_t at;
    SHEAF__TRY(find(p, block->columns, &at, err));
    sheaf_element *part =
        sheaf__element_rows(block->columns, block->first + it->feed.at, count, err);
    sheaf_tensor *t = part ? p->apply(p, part->items[at].tensor, &why) : NULL;
    sheaf_element *e = t ? replaced(part, at, t, err) : NULL;
    sheaf_status status = !part || (t && !e) ? err->status : SHEAF_PENDING;
    if (e)
        status = sheaf__rows_put_slices(rows, e, 0, count, err);
    sheaf__unref(part);
    sheaf__unref(t);
    sheaf__unref(e);
    return status;
}

/* The first `count` strings of `t`, whatever its shape. */
static bool can_apply(const struct sheaf__column *p, const sheaf_tensor *t, int64_t count)
{
    sheaf_error ignored;
    const size_t offset = (size_t)((char *)t->data - (char *)t->buffer->data);
    sheaf_tensor *part =
        sheaf__tensor_over(t->dtype, SHEAF_SHAPE(count), t->buffer, offset, &ignored);
    sheaf_tensor *out = part ? p->apply(p, part, &ignored) : NULL;
    const bool done = out;
    sheaf__unref(part);
    sheaf__unref(out);
    return done;
}

/* The strings of a tensor of any layout. */
static const sheaf_tensor *strings_of(const sheaf_tensor *t)
{
    while (t->layout == SHEAF__SPARSE || t->layout == SHEAF__RAGGED)
        t = t->parts[t->layout == SHEAF__SPARSE ? SHEAF__VALUES : SHEAF__RAGGED_VALUES];
    return t;
}

/* The error is about the string that was one too many. */
static void locate(const struct sheaf__iter *it, const sheaf_tensor *t, sheaf_error *err)
{
    t = strings_of(t);
    int64_t good = 0, bad = sheaf_shape_elements(t->shape);
    if (t->dtype != SHEAF_STRING || t->layout != SHEAF__DENSE || bad <= 0 || !t->buffer)
        return;
    while (bad - good > 1) {
        const int64_t middle = good + (bad - good) / 2;
        if (can_apply(sheaf__iter_params(it), t, middle))
            good = middle;
        else
            bad = middle;
    }
    sheaf__locate(it, t, ((const sheaf_bytes *)t->data)[good], err);
}

static sheaf_status apply_row(struct sheaf__column_iter *it, struct sheaf__rows *rows,
                              sheaf_error *err)
{
    const struct sheaf__column *p = sheaf__iter_params(&it->base);
    sheaf_element *in = sheaf__block_element(it->feed.block, it->feed.at++, err), *e = NULL;
    size_t at = 0;
    sheaf_status status = in ? find(p, in, &at, err) : err->status;
    sheaf_tensor *t = status >= 0 ? p->apply(p, in->items[at].tensor, err) : NULL;
    if (t)
        e = replaced(in, at, t, err);
    else if (status >= 0 && err->status == SHEAF_ERR_INVALID_ARGUMENT)
        locate(&it->base, in->items[at].tensor, err);
    if (status >= 0)
        status = e ? sheaf__rows_put(rows, e, err) : err->status;
    sheaf__unref(in);
    sheaf__unref(t);
    sheaf__unref(e);
    return status;
}

/* ---- the iterator ---- */

sheaf_status sheaf__column_start(struct sheaf__iter *base, sheaf_error *err)
{
    (void)err;
    ((struct sheaf__column_iter *)base)->feed.from = base->inputs[0];
    return SHEAF_OK;
}

sheaf_status sheaf__column_next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                                sheaf_error *err)
{
    struct sheaf__column_iter *it = (struct sheaf__column_iter *)base;
    sheaf_status status = sheaf__feed_fill(&it->feed, want, err);
    if (status != SHEAF_OK)
        return status;
    const struct sheaf__block *block = it->feed.block;
    size_t left = sheaf__feed_left(&it->feed), count = left < want ? left : want;
    if (count > 1 && !block->boxed && block != it->single) {
        status = apply_block(it, count, rows, err);
        if (status == SHEAF_PENDING)
            it->single = block;
        else if (status == SHEAF_OK)
            it->feed.at += count;
        if (status != SHEAF_PENDING)
            return status;
    }
    for (size_t i = 0; i < count; i++)
        SHEAF__TRY(apply_row(it, rows, err));
    return SHEAF_OK;
}

sheaf_status sheaf__column_pass(struct sheaf__iter *base, uint64_t count,
                                struct sheaf__passed *passed, sheaf_error *err)
{
    return sheaf__feed_pass(&((struct sheaf__column_iter *)base)->feed, count, passed, err);
}

uint64_t sheaf__column_sure(const struct sheaf__iter *base)
{
    return sheaf__feed_sure(&((const struct sheaf__column_iter *)base)->feed);
}

void sheaf__column_stop(struct sheaf__iter *base)
{
    sheaf__feed_free(&((struct sheaf__column_iter *)base)->feed);
}
