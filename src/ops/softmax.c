/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and the losses on it. Everything goes row by row over the last axis: subtract the
 * largest, so that nothing overflows; the gradient of a loss is softmax - labels (times what the
 * labels sum to), without dividing by a small probability. */
#include "ops/family.h"

#include "tensor/half.h"
#include "tensor/kernel.h"

#include <sheaf/ops.h>

#include <math.h>
#include <string.h>

/* ---- one row, in the dtype it is computed in ---- */

/* Largest element, and sum of exp(x - largest) with the exponentials in `e`. */
#define ROW(name, type, exp_fn)                                       \
    static type name(const type *x, size_t n, type *e, type *largest) \
    {                                                                 \
        type most = x[0], sum = 0;                                    \
        for (size_t i = 1; i < n; i++)                                \
            most = x[i] > most ? x[i] : most;                         \
        for (size_t i = 0; i < n; i++) {                              \
            e[i] = exp_fn(x[i] - most);                               \
            sum += e[i];                                              \
        }                                                             \
        *largest = most;                                              \
        return sum;                                                   \
    }
ROW(row_f32, float, expf)
ROW(row_f64, double, exp)

struct rows {
    enum sheaf__op_id id;
    sheaf_dtype dtype, label_dtype;
    size_t classes;
    const void *in;     /* logits, or softmax for a gradient */
    const void *labels; /* indices (sparse) or probabilities */
    const void *dy;
    void *out;
    void *aux; /* softmax for the gradient, or NULL */
};

static int64_t label_of(const struct rows *r, size_t row)
{
    return r->label_dtype == SHEAF_INT32 ? ((const int32_t *)r->labels)[row]
                                         : ((const int64_t *)r->labels)[row];
}

/* The functions below are written for float and double; bfloat16 is converted to float and back
 * around them. */
#define FORWARD(suffix, type, log_fn)                                                              \
    /* softmax, or its logarithm, of one row */                                                    \
    static void softmax_##suffix(const struct rows *r, const type *x, type *y)                     \
    {                                                                                              \
        type most, sum = row_##suffix(x, r->classes, y, &most);                                    \
        if (r->id == SHEAF__OP_SOFTMAX)                                                            \
            for (size_t i = 0; i < r->classes; i++)                                                \
                y[i] /= sum;                                                                       \
        else                                                                                       \
            for (size_t i = 0; i < r->classes; i++)                                                \
                y[i] = x[i] - most - log_fn(sum);                                                  \
    }                                                                                              \
    /* loss of one row; leaves softmax in `p` */                                                   \
    static type loss_##suffix(const struct rows *r, size_t row, const type *x, const type *labels, \
                              type *p)                                                             \
    {                                                                                              \
        type most, sum = row_##suffix(x, r->classes, p, &most), loss = 0;                          \
        for (size_t i = 0; i < r->classes; i++)                                                    \
            p[i] /= sum;                                                                           \
        if (r->id == SHEAF__OP_SPARSE_XENT)                                                        \
            return log_fn(sum) - (x[label_of(r, row)] - most);                                     \
        for (size_t i = 0; i < r->classes; i++)                                                    \
            loss += labels[i] * (log_fn(sum) - (x[i] - most));                                     \
        return loss;                                                                               \
    }                                                                                              \
    /* (softmax sum(labels) - labels) dy of one row */                                             \
    static void backward_##suffix(const struct rows *r, size_t row, const type *p,                 \
                                  const type *labels, type dy, type *dx)                           \
    {                                                                                              \
        if (r->id == SHEAF__OP_SPARSE_XENT_GRAD) {                                                 \
            size_t label = (size_t)label_of(r, row);                                               \
            for (size_t i = 0; i < r->classes; i++)                                                \
                dx[i] = (p[i] - (i == label)) * dy;                                                \
        } else {                                                                                   \
            type all = 0;                                                                          \
            for (size_t i = 0; i < r->classes; i++)                                                \
                all += labels[i];                                                                  \
            for (size_t i = 0; i < r->classes; i++)                                                \
                dx[i] = (p[i] * all - labels[i]) * dy;                                             \
        }                                                                                          \
    }                                                                                              \
    static void run_##suffix(size_t begin, size_t end, void *user)                                 \
    {                                                                                              \
        const struct rows *r = user;                                                               \
        bool backward = r->dy != NULL;                                                             \
        bool loss = r->id == SHEAF__OP_SPARSE_XENT || r->id == SHEAF__OP_XENT;                     \
        bool dense = r->id == SHEAF__OP_XENT || r->id == SHEAF__OP_XENT_GRAD;                      \
        for (size_t i = begin; i < end; i++) {                                                     \
            size_t at = i * r->classes;                                                            \
            const type *x = (const type *)r->in + at;                                              \
            const type *labels = dense ? (const type *)r->labels + at : NULL;                      \
            type *out = r->out;                                                                    \
            if (backward)                                                                          \
                backward_##suffix(r, i, x, labels, ((const type *)r->dy)[i], out + at);            \
            else if (loss)                                                                         \
                out[i] = loss_##suffix(r, i, x, labels, (type *)r->aux + at);                      \
            else                                                                                   \
                softmax_##suffix(r, x, out + at);                                                  \
        }                                                                                          \
    }

FORWARD(f32, float, logf)
FORWARD(f64, double, log)

static void run_rows(struct sheaf__device *device, struct rows *r, size_t rows)
{
    size_t work = r->classes * (r->dy ? 1 : 8);
    sheaf__split(device, rows, SHEAF__GRAIN / work + 1,
                 r->dtype == SHEAF_FLOAT64 ? run_f64 : run_f32, r);
}

/* ---- bfloat16 through float ---- */

/* A float copy of `count` bfloat16 numbers, one count for the caller. */
static sheaf_tensor *widen(const struct sheaf__op_call *call, const void *in, sheaf_shape shape,
                           sheaf_error *err)
{
    sheaf_tensor *t = sheaf__tensor_new(SHEAF_FLOAT32, shape, call->device, err);
    if (t && in)
        sheaf__kernel_cast(sheaf__tensor_out(t), SHEAF_FLOAT32, in, SHEAF_BFLOAT16,
                           (size_t)sheaf_shape_elements(shape));
    return t;
}

static sheaf_status run_bf16(struct sheaf__op_call *call, struct rows *r, size_t rows,
                             sheaf_shape full, sheaf_error *err)
{
    bool dense = r->id == SHEAF__OP_XENT || r->id == SHEAF__OP_XENT_GRAD;
    sheaf_shape column = SHEAF_SHAPE((int64_t)rows);
    struct rows wide = *r;
    sheaf_tensor *in = widen(call, r->in, full, err);
    sheaf_tensor *labels = dense ? widen(call, r->labels, full, err) : NULL;
    sheaf_tensor *dy = r->dy ? widen(call, r->dy, column, err) : NULL;
    sheaf_tensor *out = widen(call, NULL, call->shape, err);
    sheaf_tensor *aux = r->aux ? widen(call, NULL, full, err) : NULL;
    sheaf_status status = SHEAF_OK;
    if (!in || (dense && !labels) || (r->dy && !dy) || !out || (r->aux && !aux)) {
        status = err->status;
    } else {
        wide.dtype = SHEAF_FLOAT32;
        wide.in = in->data;
        wide.labels = dense ? labels->data : r->labels;
        wide.dy = dy ? dy->data : NULL;
        wide.out = sheaf__tensor_out(out);
        wide.aux = aux ? sheaf__tensor_out(aux) : NULL;
        run_rows(call->device, &wide, rows);
        sheaf__kernel_cast(r->out, SHEAF_BFLOAT16, wide.out, SHEAF_FLOAT32,
                           (size_t)sheaf_shape_elements(call->shape));
        if (aux)
            sheaf__kernel_cast(r->aux, SHEAF_BFLOAT16, wide.aux, SHEAF_FLOAT32,
                               (size_t)sheaf_shape_elements(full));
    }
    sheaf__unref(in);
    sheaf__unref(labels);
    sheaf__unref(dy);
    sheaf__unref(out);
    sheaf__unref(aux);
    return status;
}

static sheaf_status run_call(struct sheaf__op_call *call, struct rows *r, sheaf_shape full,
                             sheaf_error *err)
{
    r->id = sheaf__op_id_of(call->op);
    r->dtype = call->dtype;
    r->out = sheaf__tensor_out(call->out);
    r->classes = full.rank ? (size_t)full.dims[full.rank - 1] : 1;
    size_t rows = r->classes ? (size_t)sheaf_shape_elements(full) / r->classes : 0;
    if (call->dtype == SHEAF_BFLOAT16)
        return run_bf16(call, r, rows, full, err);
    run_rows(call->device, r, rows);
    return SHEAF_OK;
}

/* ---- softmax and its logarithm ---- */

sheaf_status sheaf__infer_softmax(struct sheaf__op_call *call, sheaf_error *err)
{
    if (call->shape.rank < 1)
        return sheaf__op_call_error(call, err, "shape (), wanted at least one axis");
    return SHEAF_OK;
}

sheaf_status sheaf__compute_softmax(struct sheaf__op_call *call, sheaf_error *err)
{
    struct rows r = {.in = sheaf__op_call_data(call, 0, err)};
    return r.in ? run_call(call, &r, call->shape, err) : err->status;
}

/* Sum over the last axis, which stays with size 1. */
static sheaf_tensor *sum_rows(sheaf_tensor *t)
{
    struct sheaf__attrs attrs = {.keep = true};
    if (sheaf__tensor_ok(t))
        attrs.axes = 1u << (t->shape.rank - 1);
    return sheaf__op_run1(SHEAF__OP_REDUCE_SUM, t, &attrs);
}

/* p (dy - sum(dy p)) */
void sheaf__gradient_softmax(const struct sheaf__grad *g)
{
    sheaf_tensor *weighted = sum_rows(sheaf_mul(g->dy, g->out));
    g->dx[0] = sheaf_mul(sheaf_sub(g->dy, weighted), g->out);
}

/* dy - softmax sum(dy) */
void sheaf__gradient_log_softmax(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_sub(g->dy, sheaf_mul(sheaf_exp(g->out), sum_rows(g->dy)));
}

/* ---- cross entropy with class numbers ---- */

static sheaf_status check_labels(const struct sheaf__op_call *call, const struct rows *r,
                                 size_t rows, sheaf_error *err)
{
    for (size_t i = 0; i < rows; i++) {
        int64_t label = label_of(r, i);
        if (label < 0 || label >= (int64_t)r->classes)
            return sheaf__op_call_error(call, err,
                                        "label %lld of row %zu is not one of the %zu classes",
                                        (long long)label, i, r->classes);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__infer_sparse_xent(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *labels = call->in[0], *logits = call->in[1];
    bool integer = labels->dtype == SHEAF_INT32 || labels->dtype == SHEAF_INT64;
    bool floating = call->op->dtypes >> logits->dtype & 1;
    bool fits = labels->shape.rank == 1 && logits->shape.rank == 2 &&
                labels->shape.dims[0] == logits->shape.dims[0];
    if (!integer || !floating || !fits)
        return sheaf__op_call_error(
            call, err,
            "labels %s of shape %s and logits %s of shape %s, wanted int32 or int64 (n) and floats "
            "(n, classes)",
            sheaf_dtype_name(labels->dtype), SHEAF__SHAPE_TEXT(labels->shape),
            sheaf_dtype_name(logits->dtype), SHEAF__SHAPE_TEXT(logits->shape));
    call->dtype = logits->dtype;
    call->shape = labels->shape;
    return SHEAF_OK;
}

/* The softmax is computed on the way and kept for the gradient; without a tape it is scratch. */
static sheaf_status compute_loss(struct sheaf__op_call *call, struct rows *r, sheaf_error *err)
{
    sheaf_shape full = call->in[1]->shape;
    call->aux = sheaf__tensor_new(call->dtype, full, call->device, err);
    if (!call->aux)
        return err->status;
    r->aux = sheaf__tensor_out(call->aux);
    return run_call(call, r, full, err);
}

sheaf_status sheaf__compute_sparse_xent(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_shape full = call->in[1]->shape;
    struct rows r = {.label_dtype = call->in[0]->dtype,
                     .labels = sheaf__op_call_data(call, 0, err),
                     .in = sheaf__op_call_data(call, 1, err),
                     .classes = (size_t)full.dims[1]};
    if (!r.in || !r.labels)
        return err->status;
    SHEAF__TRY(check_labels(call, &r, (size_t)full.dims[0], err));
    return compute_loss(call, &r, err);
}

/* dy as a column, against (n, classes). */
static sheaf_tensor *column(sheaf_tensor *dy)
{
    return sheaf__tensor_ok(dy) ? sheaf_reshape(dy, SHEAF_SHAPE(dy->shape.dims[0], 1)) : dy;
}

/* If somebody differentiates the gradient, the softmax must be one that tapes know. Where nothing
 * was computed (an empty batch, a plan without a run) the logits stand for their softmax. */
static sheaf_tensor *softmax_of(const struct sheaf__grad *g)
{
    if (g->watched)
        return sheaf_softmax(g->in[1]);
    return g->aux ? g->aux : g->in[1];
}

void sheaf__gradient_sparse_xent(const struct sheaf__grad *g)
{
    if (!g->wanted[1])
        return;
    sheaf_tensor *in[] = {g->in[0], softmax_of(g), g->dy};
    g->dx[1] = sheaf__op_run(SHEAF__OP_SPARSE_XENT_GRAD, in, 3, NULL);
}

sheaf_status sheaf__infer_xent_grad(struct sheaf__op_call *call, sheaf_error *err)
{
    (void)err;
    call->dtype = call->in[1]->dtype;
    call->shape = call->in[1]->shape;
    return SHEAF_OK;
}

sheaf_status sheaf__compute_xent_grad(struct sheaf__op_call *call, sheaf_error *err)
{
    struct rows r = {.label_dtype = call->in[0]->dtype,
                     .labels = sheaf__op_call_data(call, 0, err),
                     .in = sheaf__op_call_data(call, 1, err),
                     .dy = sheaf__op_call_data(call, 2, err)};
    if (!r.in || !r.labels || !r.dy)
        return err->status;
    return run_call(call, &r, call->shape, err);
}

/* dx = (p sum(labels) - labels) dy; with class numbers the sum is 1. */
void sheaf__gradient_xent_grad(const struct sheaf__grad *g)
{
    bool sparse = sheaf__op_id_of(g->op) == SHEAF__OP_SPARSE_XENT_GRAD;
    sheaf_tensor *labels = g->in[0], *p = g->in[1], *dy = g->in[2];
    if (g->wanted[0] && !sparse)
        g->dx[0] = sheaf_mul(sheaf_sub(sum_rows(sheaf_mul(g->dy, p)), g->dy), column(dy));
    if (g->wanted[1]) {
        sheaf_tensor *dp = sheaf_mul(g->dy, column(dy));
        g->dx[1] = sparse ? dp : sheaf_mul(dp, sum_rows(labels));
    }
    if (g->wanted[2]) {
        const struct sheaf__attrs one = {.dtype = dy->dtype, .shape = dy->shape, .number = {1}};
        sheaf_tensor *in[] = {labels, p, sheaf__op_run(SHEAF__OP_FILL, NULL, 0, &one)};
        sheaf_tensor *difference = sheaf__op_run(sheaf__op_id_of(g->op), in, 3, NULL);
        g->dx[2] = sheaf_reshape(sum_rows(sheaf_mul(g->dy, difference)), dy->shape);
    }
}

/* ---- cross entropy with probabilities ---- */

sheaf_status sheaf__infer_xent(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *labels = call->in[0], *logits = call->in[1];
    if (logits->shape.rank != 2 || !sheaf_shape_equal(labels->shape, logits->shape))
        return sheaf__op_call_error(
            call, err, "labels of shape %s and logits of shape %s, wanted both (n, classes)",
            SHEAF__SHAPE_TEXT(labels->shape), SHEAF__SHAPE_TEXT(logits->shape));
    call->shape = SHEAF_SHAPE(logits->shape.dims[0]);
    return SHEAF_OK;
}

sheaf_status sheaf__compute_xent(struct sheaf__op_call *call, sheaf_error *err)
{
    struct rows r = {.labels = sheaf__op_call_data(call, 0, err),
                     .in = sheaf__op_call_data(call, 1, err)};
    if (!r.in || !r.labels)
        return err->status;
    if (call->in[1]->shape.dims[1] == 0) {
        memset(sheaf__tensor_out(call->out), 0, sheaf__tensor_size(call->out));
        return SHEAF_OK;
    }
    return compute_loss(call, &r, err);
}

void sheaf__gradient_xent(const struct sheaf__grad *g)
{
    if (g->wanted[0])
        g->dx[0] = sheaf_neg(
            sheaf_mul(column(g->dy), sheaf__op_run1(SHEAF__OP_LOG_SOFTMAX, g->in[1], NULL)));
    if (g->wanted[1]) {
        sheaf_tensor *in[] = {g->in[0], softmax_of(g), g->dy};
        g->dx[1] = sheaf__op_run(SHEAF__OP_XENT_GRAD, in, 3, NULL);
    }
}

/* ---- sigmoid cross entropy: max(x, 0) - x z + log(1 + exp(-|x|)) ---- */

struct sigmoid_xent {
    sheaf_dtype dtype;
    const void *labels, *logits;
    void *out;
};

#define SIGMOID_XENT(type, wide, load, store, exp_fn, log1p_fn, abs_fn)                  \
    do {                                                                                 \
        const type *z = (const type *)s->labels, *x = (const type *)s->logits;           \
        type *y = (type *)s->out;                                                        \
        for (size_t i = begin; i < end; i++) {                                           \
            wide v = load(x[i]);                                                         \
            wide loss = (v > 0 ? v : 0) - v * load(z[i]) + log1p_fn(exp_fn(-abs_fn(v))); \
            y[i] = store(loss);                                                          \
        }                                                                                \
    } while (0)
#define ITSELF(x) (x)

static void run_sigmoid_xent(size_t begin, size_t end, void *user)
{
    const struct sigmoid_xent *s = user;
    if (s->dtype == SHEAF_FLOAT32)
        SIGMOID_XENT(float, float, ITSELF, ITSELF, expf, log1pf, fabsf);
    else if (s->dtype == SHEAF_FLOAT64)
        SIGMOID_XENT(double, double, ITSELF, ITSELF, exp, log1p, fabs);
    else
        SIGMOID_XENT(uint16_t, float, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float, expf,
                     log1pf, fabsf);
}

sheaf_status sheaf__compute_sigmoid_xent(struct sheaf__op_call *call, sheaf_error *err)
{
    struct sigmoid_xent s = {call->dtype, sheaf__op_call_data(call, 0, err),
                             sheaf__op_call_data(call, 1, err), sheaf__tensor_out(call->out)};
    if (!s.labels || !s.logits)
        return err->status;
    sheaf__split(call->device, (size_t)sheaf_shape_elements(call->shape), SHEAF__GRAIN / 8,
                 run_sigmoid_xent, &s);
    return SHEAF_OK;
}

void sheaf__gradient_sigmoid_xent(const struct sheaf__grad *g)
{
    if (g->wanted[0])
        g->dx[0] = sheaf_neg(sheaf_mul(g->dy, g->in[1]));
    if (g->wanted[1])
        g->dx[1] = sheaf_mul(g->dy, sheaf_sub(sheaf_sigmoid(g->in[1]), g->in[0]));
}

/* ---- public calls ---- */

sheaf_tensor *sheaf_softmax(sheaf_tensor *logits)
{
    return sheaf__op_run1(SHEAF__OP_SOFTMAX, logits, NULL);
}
sheaf_tensor *sheaf_sparse_softmax_cross_entropy(sheaf_tensor *labels, sheaf_tensor *logits)
{
    return sheaf__op_run2(SHEAF__OP_SPARSE_XENT, labels, logits, NULL);
}
sheaf_tensor *sheaf_softmax_cross_entropy(sheaf_tensor *labels, sheaf_tensor *logits)
{
    return sheaf__op_run2(SHEAF__OP_XENT, labels, logits, NULL);
}
sheaf_tensor *sheaf_sigmoid_cross_entropy(sheaf_tensor *labels, sheaf_tensor *logits)
{
    return sheaf__op_run2(SHEAF__OP_SIGMOID_XENT, labels, logits, NULL);
}
