/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that move elements without changing them. */
#include "ops/family.h"

#include "tensor/kernel.h"

#include <sheaf/ops.h>

#include <string.h>

/* ---- reshape ---- */

sheaf_status sheaf__infer_reshape(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *t = call->in[0];
    sheaf_shape shape = call->attrs->shape;
    int64_t have = sheaf_tensor_elements(t), known = 1;
    int unknown = -1;
    bool fits = shape.rank >= 0 && shape.rank <= SHEAF_MAX_RANK;
    for (int i = 0; fits && i < shape.rank; i++) {
        if (shape.dims[i] == SHEAF_UNKNOWN_DIM && unknown < 0)
            unknown = i;
        else
            fits =
                fits && shape.dims[i] >= 0 && !__builtin_mul_overflow(known, shape.dims[i], &known);
    }
    if (fits && unknown >= 0) {
        fits = known > 0 && have % known == 0;
        shape.dims[unknown] = fits ? have / known : 0;
    } else {
        fits = fits && known == have;
    }
    if (!fits)
        return sheaf__op_call_error(call, err, "%lld elements of shape %s do not fit shape %s",
                                    (long long)have, SHEAF__SHAPE_TEXT(t->shape),
                                    SHEAF__SHAPE_TEXT(call->attrs->shape));
    call->shape = shape;
    return SHEAF_OK;
}

/* A view; a tensor with gaps is copied. */
sheaf_status sheaf__compute_reshape(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_tensor *t = call->in[0];
    if (t->contiguous) {
        call->out = sheaf__tensor_view(t, call->shape, NULL, 0, err);
        return call->out ? SHEAF_OK : err->status;
    }
    sheaf_tensor *copy = sheaf__tensor_new(call->dtype, call->shape, t->device, err);
    if (!copy)
        return err->status;
    sheaf_status status = sheaf__tensor_copy_out(t, sheaf__tensor_out(copy), err);
    if (status < 0)
        sheaf__unref(copy);
    else
        call->out = copy;
    return status;
}

void sheaf__gradient_reshape(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_reshape(g->dy, g->in[0]->shape);
}

/* ---- transpose: the order of all axes turned round ---- */

sheaf_status sheaf__infer_transpose(struct sheaf__op_call *call, sheaf_error *err)
{
    (void)err;
    sheaf_shape in = call->in[0]->shape;
    for (int i = 0; i < in.rank; i++)
        call->shape.dims[i] = in.dims[in.rank - 1 - i];
    return SHEAF_OK;
}

sheaf_status sheaf__compute_transpose(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *t = call->in[0];
    int64_t strides[SHEAF_MAX_RANK], turned[SHEAF_MAX_RANK];
    const void *in = sheaf__op_call_data(call, 0, err);
    if (!in)
        return err->status;
    sheaf__shape_strides(t->shape, strides);
    for (int i = 0; i < t->shape.rank; i++)
        turned[i] = strides[t->shape.rank - 1 - i];
    sheaf__kernel_gather(sheaf__tensor_out(call->out), in, sheaf_dtype_size(call->dtype),
                         call->shape, turned);
    return SHEAF_OK;
}

void sheaf__gradient_transpose(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_transpose(g->dy);
}

/* ---- broadcast to a shape ---- */

sheaf_status sheaf__infer_broadcast_to(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_shape in = call->in[0]->shape, out;
    if (!sheaf__shape_broadcast(in, call->attrs->shape, &out) ||
        !sheaf_shape_equal(out, call->attrs->shape))
        return sheaf__op_call_error(call, err, "shape %s does not spread to %s",
                                    SHEAF__SHAPE_TEXT(in), SHEAF__SHAPE_TEXT(call->attrs->shape));
    call->shape = out;
    return SHEAF_OK;
}

sheaf_status sheaf__compute_broadcast_to(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_shape in = call->in[0]->shape, out = call->shape;
    int64_t strides[SHEAF_MAX_RANK], spread[SHEAF_MAX_RANK];
    const void *data = sheaf__op_call_data(call, 0, err);
    if (!data)
        return err->status;
    sheaf__shape_strides(in, strides);
    for (int i = 0; i < out.rank; i++) {
        int from = i - (out.rank - in.rank);
        spread[i] = from < 0 || in.dims[from] == 1 ? 0 : strides[from];
    }
    sheaf__kernel_gather(sheaf__tensor_out(call->out), data, sheaf_dtype_size(call->dtype), out,
                         spread);
    return SHEAF_OK;
}

void sheaf__gradient_broadcast_to(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf__sum_to(g->dy, g->in[0]->shape);
}

/* ---- boxes: the part of an array that begins at `begin` ---- */

struct box {
    uint8_t *whole;
    uint8_t *part;
    size_t size;
    sheaf_shape whole_shape, part_shape;
    const int64_t *begin;
};

/* Copies row by row between the whole and the packed part. */
static void copy_box(const struct box *b, bool out_of_whole)
{
    int rank = b->part_shape.rank;
    int64_t strides[SHEAF_MAX_RANK];
    sheaf__shape_strides(b->whole_shape, strides);
    size_t row = rank ? (size_t)b->part_shape.dims[rank - 1] * b->size : b->size;
    int64_t rows = 1;
    for (int i = 0; i + 1 < rank; i++)
        rows *= b->part_shape.dims[i];
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = rank ? b->begin[rank - 1] : 0, rest = r;
        for (int i = rank - 2; i >= 0; i--) {
            at += (b->begin[i] + rest % b->part_shape.dims[i]) * strides[i];
            rest /= b->part_shape.dims[i];
        }
        uint8_t *whole = b->whole + (size_t)at * b->size, *part = b->part + (size_t)r * row;
        memcpy(out_of_whole ? part : whole, out_of_whole ? whole : part, row);
    }
}

/* ---- slice and its gradient ---- */

static sheaf_status check_box(struct sheaf__op_call *call, sheaf_shape whole, sheaf_shape part,
                              sheaf_error *err)
{
    bool fits = whole.rank == part.rank;
    for (int i = 0; fits && i < whole.rank; i++)
        fits = call->attrs->begin[i] >= 0 && part.dims[i] >= 0 &&
               call->attrs->begin[i] + part.dims[i] <= whole.dims[i];
    if (!fits)
        return sheaf__op_call_error(call, err, "a part of shape %s is not inside shape %s",
                                    SHEAF__SHAPE_TEXT(part), SHEAF__SHAPE_TEXT(whole));
    return SHEAF_OK;
}

sheaf_status sheaf__infer_slice(struct sheaf__op_call *call, sheaf_error *err)
{
    call->shape = call->attrs->shape;
    return check_box(call, call->in[0]->shape, call->shape, err);
}

sheaf_status sheaf__compute_slice(struct sheaf__op_call *call, sheaf_error *err)
{
    const void *in = sheaf__op_call_data(call, 0, err);
    if (!in)
        return err->status;
    const struct box b = {(uint8_t *)(uintptr_t)in,
                          sheaf__tensor_out(call->out),
                          sheaf_dtype_size(call->dtype),
                          call->in[0]->shape,
                          call->shape,
                          call->attrs->begin};
    copy_box(&b, true);
    return SHEAF_OK;
}

void sheaf__gradient_slice(const struct sheaf__grad *g)
{
    struct sheaf__attrs attrs = *g->attrs;
    attrs.shape = g->in[0]->shape;
    g->dx[0] = sheaf__op_run1(SHEAF__OP_PAD, g->dy, &attrs);
}

sheaf_status sheaf__infer_pad(struct sheaf__op_call *call, sheaf_error *err)
{
    call->shape = call->attrs->shape;
    return check_box(call, call->shape, call->in[0]->shape, err);
}

sheaf_status sheaf__compute_pad(struct sheaf__op_call *call, sheaf_error *err)
{
    const void *in = sheaf__op_call_data(call, 0, err);
    if (!in)
        return err->status;
    memset(sheaf__tensor_out(call->out), 0, sheaf__tensor_size(call->out));
    if (sheaf_tensor_elements(call->in[0]) == 0)
        return SHEAF_OK;
    const struct box b = {sheaf__tensor_out(call->out),
                          (uint8_t *)(uintptr_t)in,
                          sheaf_dtype_size(call->dtype),
                          call->shape,
                          call->in[0]->shape,
                          call->attrs->begin};
    copy_box(&b, false);
    return SHEAF_OK;
}

void sheaf__gradient_pad(const struct sheaf__grad *g)
{
    struct sheaf__attrs attrs = *g->attrs;
    attrs.shape = g->in[0]->shape;
    g->dx[0] = sheaf__op_run1(SHEAF__OP_SLICE, g->dy, &attrs);
}

/* ---- concat ---- */

sheaf_status sheaf__infer_concat(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_shape first = call->in[0]->shape;
    int32_t axis;
    if (!sheaf__axis(call->attrs->axis, first.rank, &axis))
        return sheaf__op_call_error(call, err, "axis %d of shape %s", call->attrs->axis,
                                    SHEAF__SHAPE_TEXT(first));
    int64_t size = 0;
    for (size_t i = 0; i < call->count; i++) {
        sheaf_shape shape = call->in[i]->shape;
        bool fits = shape.rank == first.rank;
        size += fits ? shape.dims[axis] : 0;
        if (fits)
            shape.dims[axis] = first.dims[axis];
        if (!fits || !sheaf_shape_equal(shape, first))
            return sheaf__op_call_error(
                call, err, "shapes %s and %s (input %zu) differ beyond axis %d",
                SHEAF__SHAPE_TEXT(first), SHEAF__SHAPE_TEXT(call->in[i]->shape), i, axis);
    }
    call->shape.dims[axis] = size;
    return SHEAF_OK;
}

sheaf_status sheaf__compute_concat(struct sheaf__op_call *call, sheaf_error *err)
{
    int32_t axis = 0;
    sheaf__axis(call->attrs->axis, call->shape.rank, &axis);
    int64_t begin[SHEAF_MAX_RANK] = {0};
    for (size_t i = 0; i < call->count; i++) {
        const void *in = sheaf__op_call_data(call, i, err);
        if (!in)
            return err->status;
        const struct box b = {sheaf__tensor_out(call->out),
                              (uint8_t *)(uintptr_t)in,
                              sheaf_dtype_size(call->dtype),
                              call->shape,
                              call->in[i]->shape,
                              begin};
        if (sheaf_tensor_elements(call->in[i]) > 0)
            copy_box(&b, false);
        begin[axis] += call->in[i]->shape.dims[axis];
    }
    return SHEAF_OK;
}

void sheaf__gradient_concat(const struct sheaf__grad *g)
{
    int32_t axis = 0;
    sheaf__axis(g->attrs->axis, g->out->shape.rank, &axis);
    struct sheaf__attrs attrs = {0};
    for (size_t i = 0; i < g->count; i++) {
        attrs.shape = g->in[i]->shape;
        if (g->wanted[i])
            g->dx[i] = sheaf__op_run1(SHEAF__OP_SLICE, g->dy, &attrs);
        attrs.begin[axis] += attrs.shape.dims[axis];
    }
}

/* ---- public calls ---- */

sheaf_tensor *sheaf_reshape(sheaf_tensor *t, sheaf_shape shape)
{
    const struct sheaf__attrs attrs = {.shape = shape};
    return sheaf__op_run1(SHEAF__OP_RESHAPE, t, &attrs);
}
sheaf_tensor *sheaf_concat(sheaf_tensor *const *tensors, size_t count, int axis)
{
    const struct sheaf__attrs attrs = {.axis = axis};
    return sheaf__op_run(SHEAF__OP_CONCAT, tensors, tensors ? count : 0, &attrs);
}
sheaf_tensor *sheaf_transpose(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_TRANSPOSE, t, NULL);
}
