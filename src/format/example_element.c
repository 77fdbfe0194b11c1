/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "format/example_parse.h"
#include "tensor/element.h"
#include "tensor/frame.h"
#include "tensor/strings.h"

#include <string.h>

/* What a batch is parsed into. */
struct batch {
    const struct sheaf__example_parser *parser;
    const struct sheaf__example_input *input;
    struct sheaf__example_column *columns; /* one a plan */
    sheaf_tensor **fixed;                  /* tensors of the fixed columns, NULL for others */
    sheaf_error *err;
};

/* Address of columns that have no memory. */
static uint8_t nothing[16];

/* Shape of what a FIXED feature gives: (examples,) + [steps] + its sizes. */
static sheaf_shape fixed_shape(const struct batch *b, const sheaf_feature *f, int64_t steps)
{
    int64_t dims[1 + 4];
    int rank = 0;
    if (!b->input->single)
        dims[rank++] = (int64_t)b->input->count;
    for (int axis = 0; axis < f->rank; axis++)
        dims[rank++] = f->dims[axis] == SHEAF_UNKNOWN_DIM ? steps : f->dims[axis];
    return sheaf_shape_of(rank, dims);
}

static sheaf_status prepare(struct batch *b)
{
    size_t count = b->input->count;
    for (size_t i = 0; i < b->parser->count; i++) {
        const struct sheaf__example_plan *plan = &b->parser->plans[i];
        struct sheaf__example_column *col = &b->columns[i];
        col->plan = plan;
        col->values = nothing;
        if (plan->fixed) {
            b->fixed[i] = sheaf__tensor_new(plan->feature.dtype, fixed_shape(b, &plan->feature, 0),
                                            NULL, b->err);
            if (!b->fixed[i])
                return b->err->status;
            if (sheaf__tensor_out(b->fixed[i]))
                col->values = sheaf__tensor_out(b->fixed[i]);
        } else {
            col->lengths = sheaf__alloc_array(count ? count : 1, sizeof(*col->lengths));
            if (!col->lengths)
                return sheaf__no_memory(b->err, "a column of examples");
        }
    }
    return SHEAF_OK;
}

static void release(struct batch *b)
{
    for (size_t i = 0; i < b->parser->count; i++) {
        sheaf__unref(b->columns[i].buffer);
        sheaf__free(b->columns[i].lengths);
        sheaf__unref(b->fixed[i]);
    }
    sheaf__free(b->columns);
    sheaf__free(b->fixed);
}

/* The strings of `t` become copies of their own. */
static sheaf_status copy_strings(sheaf_tensor *t, sheaf_error *err)
{
    sheaf_bytes *strings = sheaf__tensor_out(t);
    size_t count = (size_t)sheaf_shape_elements(t->shape), total = 0;
    for (size_t i = 0; i < count; i++)
        total += strings[i].size;
    if (total == 0)
        return SHEAF_OK;
    struct sheaf__buffer *bytes = sheaf__buffer_new(NULL, total, err);
    if (!bytes)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    char *at = bytes->data;
    for (size_t i = 0; i < count; i++) {
        if (strings[i].size)
            memcpy(at, strings[i].data, strings[i].size);
        strings[i].data = at;
        at += strings[i].size;
    }
    sheaf_status status = sheaf__string_keep(t, bytes, err);
    sheaf__unref(bytes);
    return status;
}

/* Sees to it that the bytes live as long as the string tensor `t` of new views. */
static sheaf_status keep_strings(const struct batch *b, sheaf_tensor *t)
{
    const struct sheaf__example_input *in = b->input;
    if (t->dtype != SHEAF_STRING || !t->buffer)
        return SHEAF_OK;
    if (!in->like && in->owner_count == 0)
        return copy_strings(t, b->err);
    if (in->like)
        SHEAF__TRY(sheaf__string_keep_like(t, in->like, b->err));
    for (size_t i = 0; i < in->owner_count; i++)
        SHEAF__TRY(sheaf__string_keep(t, in->owners[i], b->err));
    /* Defaults belong to the parser. */
    return sheaf__string_keep(t, (void *)(uintptr_t)b->parser, b->err);
}

/* The values of a growing column as a tensor of one axis, in the memory they were parsed into. */
static sheaf_tensor *values_of(const struct batch *b, struct sheaf__example_column *col)
{
    const struct sheaf__example_plan *plan = col->plan;
    sheaf_shape shape = SHEAF_SHAPE((int64_t)col->start);
    if (col->start == 0)
        return sheaf__tensor_new(plan->feature.dtype, shape, NULL, b->err);
    atomic_store_explicit((_Atomic size_t *)(uintptr_t)&plan->hint, col->start + col->start / 8,
                          memory_order_relaxed);
    sheaf_tensor *t = sheaf__tensor_over(plan->feature.dtype, shape, col->buffer, 0, b->err);
    if (t && keep_strings(b, t) < 0) {
        sheaf__unref(t);
        return NULL;
    }
    return t;
}

static int64_t longest(const struct batch *b, const struct sheaf__example_column *col)
{
    int64_t most = 0;
    for (size_t i = 0; i < b->input->count; i++) {
        if (col->lengths[i] > most)
            most = col->lengths[i];
    }
    return most;
}

/* VAR: indices (row, position), values, shape (rows, longest); of a single one (position), (n). */
static sheaf_tensor *sparse_of(const struct batch *b, struct sheaf__example_column *col)
{
    bool single = b->input->single;
    sheaf_tensor *values = values_of(b, col), *result = NULL;
    sheaf_tensor *indices = sheaf__tensor_new(
        SHEAF_INT64, SHEAF_SHAPE((int64_t)col->start, single ? 1 : 2), NULL, b->err);
    if (values && indices) {
        int64_t *out = sheaf__tensor_out(indices);
        for (size_t row = 0; row < b->input->count; row++) {
            for (int64_t k = 0; k < col->lengths[row]; k++) {
                if (!single)
                    *out++ = (int64_t)row;
                *out++ = k;
            }
        }
        sheaf_shape shape = single ? SHEAF_SHAPE((int64_t)col->start)
                                   : SHEAF_SHAPE((int64_t)b->input->count, longest(b, col));
        result = sheaf__tensor_sparse(indices, values, shape, b->err);
    }
    sheaf__unref(values);
    sheaf__unref(indices);
    return result;
}

/* RAGGED: values and row splits; of a single one the values alone. */
static sheaf_tensor *ragged_of(const struct batch *b, struct sheaf__example_column *col)
{
    sheaf_tensor *values = values_of(b, col), *result = NULL;
    if (b->input->single)
        return values;
    sheaf_tensor *splits =
        sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE((int64_t)b->input->count + 1), NULL, b->err);
    if (values && splits) {
        int64_t *out = sheaf__tensor_out(splits);
        out[0] = 0;
        for (size_t row = 0; row < b->input->count; row++)
            out[row + 1] = out[row] + col->lengths[row];
        result = sheaf__tensor_ragged(values, splits, b->err);
    }
    sheaf__unref(values);
    sheaf__unref(splits);
    return result;
}

/* FIXED with an unknown first size: rows filled up to the longest with the default, 0 or "". */
static sheaf_tensor *padded_of(const struct batch *b, struct sheaf__example_column *col)
{
    const struct sheaf__example_plan *plan = col->plan;
    static const uint8_t zero[sizeof(sheaf_bytes)];
    const void *pad = plan->defaults ? plan->defaults : zero;
    size_t item = plan->item, width = (size_t)longest(b, col);
    sheaf_tensor *t = sheaf__tensor_new(
        plan->feature.dtype, fixed_shape(b, &plan->feature, (int64_t)(width / plan->row)), NULL,
        b->err);
    if (!t || width == 0)
        return t;
    uint8_t *out = sheaf__tensor_out(t);
    const uint8_t *from = col->values;
    for (size_t row = 0; row < b->input->count; row++) {
        size_t n = (size_t)col->lengths[row];
        if (n)
            memcpy(out, from, n * item);
        for (size_t k = n; k < width; k++)
            memcpy(out + k * item, pad, item);
        from += n * item;
        out += width * item;
    }
    if (keep_strings(b, t) < 0) {
        sheaf__unref(t);
        return NULL;
    }
    return t;
}

/* The tensor of feature `i`, the caller's; NULL with b->err. */
static sheaf_tensor *tensor_of(struct batch *b, size_t i)
{
    struct sheaf__example_column *col = &b->columns[i];
    if (!col->plan->fixed) {
        if (col->plan->feature.kind == SHEAF_FEATURE_VAR)
            return sparse_of(b, col);
        return col->plan->padded ? padded_of(b, col) : ragged_of(b, col);
    }
    if (keep_strings(b, b->fixed[i]) < 0)
        return NULL;
    sheaf_tensor *t = b->fixed[i];
    b->fixed[i] = NULL;
    return t;
}

static sheaf_status build(struct batch *b, sheaf_element *e)
{
    e->pattern = '{';
    for (size_t i = 0; i < b->parser->count; i++) {
        sheaf_tensor *t = tensor_of(b, i);
        if (!t)
            return b->err->status;
        sheaf_status status = sheaf__element_add(e, b->parser->plans[i].feature.name, t, b->err);
        sheaf__unref(t);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__example_parser_run(const struct sheaf__example_parser *parser,
                                       const struct sheaf__example_input *input,
                                       sheaf_element **element, sheaf_error *err)
{
    sheaf_error own = {0};
    struct batch b = {.parser = parser, .input = input, .err = err ? err : &own};
    b.columns = sheaf__calloc(parser->count, sizeof(*b.columns));
    b.fixed = sheaf__calloc(parser->count, sizeof(*b.fixed));
    if (!b.columns || !b.fixed) {
        sheaf__free(b.columns);
        sheaf__free(b.fixed);
        return sheaf__no_memory(err, "a batch of examples");
    }
    sheaf_element *e = NULL;
    sheaf_status status = prepare(&b);
    if (status >= 0)
        status = sheaf__example_walk(parser, b.columns, input->serialized, input->count, b.err);
    if (status >= 0) {
        e = sheaf__element_new(b.err);
        status = e ? build(&b, e) : b.err->status;
    }
    release(&b);
    if (status < 0) {
        sheaf__unref(e);
        return status;
    }
    e = sheaf__frame_own(e);
    if (!e)
        return sheaf__no_memory(err, "a batch of examples");
    *element = e;
    return SHEAF_OK;
}

sheaf_status sheaf_example_parse(const sheaf_bytes *serialized, size_t count,
                                 const sheaf_feature *features, size_t feature_count,
                                 sheaf_element **element, sheaf_error *err)
{
    struct sheaf__example_parser *parser = NULL;
    SHEAF__TRY(sheaf__strings_check(serialized, count, "example", err));
    SHEAF__TRY(sheaf__example_parser_new(features, feature_count, &parser, err));
    struct sheaf__example_input input = {.serialized = serialized, .count = count};
    sheaf_status status = sheaf__example_parser_run(parser, &input, element, err);
    sheaf__example_parser_free(parser);
    return status;
}
