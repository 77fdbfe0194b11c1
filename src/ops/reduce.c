/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, means and argmax along axes. Sums have one order whatever the number of threads: blocks of
 * a fixed size, whose sums are added one after the other in double where the elements are floats.
 */
#include "ops/family.h"

#include "tensor/half.h"
#include "tensor/heap.h"
#include "tensor/kernel.h"

#include <sheaf/ops.h>

#include <float.h>
#include <string.h>

/* ---- shapes ---- */

static sheaf_shape reduced(sheaf_shape in, uint32_t axes, bool keep)
{
    sheaf_shape out = {0};
    for (int i = 0; i < in.rank; i++) {
        if (!(axes >> i & 1))
            out.dims[out.rank++] = in.dims[i];
        else if (keep)
            out.dims[out.rank++] = 1;
    }
    return out;
}

sheaf_status sheaf__infer_reduce(struct sheaf__op_call *call, sheaf_error *err)
{
    (void)err;
    call->shape = reduced(call->in[0]->shape, call->attrs->axes, call->attrs->keep);
    return SHEAF_OK;
}

/* ---- sums of one stretch and of columns ---- */

enum { LANES = 16, BLOCK = 1024, COLUMN_BLOCK = 128, ROW_BLOCK = 64 };

/* Floats: LANES sums side by side within a block, then in double from block to block. */
#define STRETCH_FLOAT(name, type, wide, load)                                    \
    static double name(const type *x, size_t n)                                  \
    {                                                                            \
        double total = 0;                                                        \
        for (size_t i = 0; i < n; i += BLOCK) {                                  \
            size_t m = n - i < BLOCK ? n - i : BLOCK, whole = m / LANES * LANES; \
            wide lane[LANES] = {0};                                              \
            for (size_t j = 0; j < whole; j += LANES)                            \
                for (size_t l = 0; l < LANES; l++)                               \
                    lane[l] += load(x[i + j + l]);                               \
            for (size_t j = whole; j < m; j++)                                   \
                lane[j - whole] += load(x[i + j]);                               \
            double sum = 0;                                                      \
            for (size_t l = 0; l < LANES; l++)                                   \
                sum += lane[l];                                                  \
            total += sum;                                                        \
        }                                                                        \
        return total;                                                            \
    }
#define ITSELF(x) (x)
STRETCH_FLOAT(stretch_f32, float, float, ITSELF)
STRETCH_FLOAT(stretch_f64, double, double, ITSELF)
STRETCH_FLOAT(stretch_bf16, uint16_t, float, sheaf__bfloat16_to_float)

/* A reduction seen as (outer, middle, inner), of which the middle goes away. */
struct reduce {
    sheaf_dtype dtype;
    size_t outer, middle, inner;
    const void *in;
    void *out;
    double divisor; /* 0: a sum */
};

static double finish(const struct reduce *r, double sum)
{
    return r->divisor > 0 ? sum / r->divisor : sum;
}

/* Results [begin, end) where the middle is innermost. */
static void reduce_rows(size_t begin, size_t end, void *user)
{
    const struct reduce *r = user;
    for (size_t o = begin; o < end; o++) {
        size_t at = o * r->middle, n = r->middle;
        if (r->dtype == SHEAF_FLOAT32) {
            ((float *)r->out)[o] = (float)finish(r, stretch_f32((const float *)r->in + at, n));
        } else if (r->dtype == SHEAF_FLOAT64) {
            ((double *)r->out)[o] = finish(r, stretch_f64((const double *)r->in + at, n));
        } else if (r->dtype == SHEAF_BFLOAT16) {
            double sum = stretch_bf16((const uint16_t *)r->in + at, n);
            ((uint16_t *)r->out)[o] = sheaf__bfloat16_of_float((float)finish(r, sum));
        } else if (r->dtype == SHEAF_INT32) {
            uint32_t sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += ((const uint32_t *)r->in)[at + i];
            ((uint32_t *)r->out)[o] = sum;
        } else {
            uint64_t sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += ((const uint64_t *)r->in)[at + i];
            ((uint64_t *)r->out)[o] = sum;
        }
    }
}

/* Sums of up to COLUMN_BLOCK columns, in blocks of rows, which are added to the total one by one.
 */
static void reduce_block_f32(const struct reduce *r, const float *in, float *out, size_t columns)
{
    sheaf__kernel_binary add = sheaf__kernels()->add[SHEAF_FLOAT32];
    double total[COLUMN_BLOCK] = {0};
    for (size_t i = 0; i < r->middle; i += ROW_BLOCK) {
        size_t rows = r->middle - i < ROW_BLOCK ? r->middle - i : ROW_BLOCK;
        _Alignas(64) float sum[COLUMN_BLOCK];
        memcpy(sum, in + i * r->inner, columns * sizeof(float));
        for (size_t k = 1; k < rows; k++)
            add(sum, sum, in + (i + k) * r->inner, columns);
        for (size_t j = 0; j < columns; j++)
            total[j] += sum[j];
    }
    for (size_t j = 0; j < columns; j++)
        out[j] = (float)finish(r, total[j]);
}

#define COLUMNS(type, wide, load, store)                \
    do {                                                \
        const type *in = (const type *)r->in + at;      \
        wide total[COLUMN_BLOCK] = {0};                 \
        for (size_t i = 0; i < r->middle; i++)          \
            for (size_t j = 0; j < columns; j++)        \
                total[j] += load(in[i * r->inner + j]); \
        for (size_t j = 0; j < columns; j++)            \
            ((type *)r->out)[to + j] = store(total[j]); \
    } while (0)
#define FINISHED(x)      finish(r, x)
#define FINISHED_BF16(x) sheaf__bfloat16_of_float((float)finish(r, x))

static void reduce_block(const struct reduce *r, size_t outer, size_t column, size_t columns)
{
    size_t at = outer * r->middle * r->inner + column, to = outer * r->inner + column;
    if (r->dtype == SHEAF_FLOAT32)
        reduce_block_f32(r, (const float *)r->in + at, (float *)r->out + to, columns);
    else if (r->dtype == SHEAF_FLOAT64)
        COLUMNS(double, double, ITSELF, FINISHED);
    else if (r->dtype == SHEAF_BFLOAT16)
        COLUMNS(uint16_t, double, sheaf__bfloat16_to_float, FINISHED_BF16);
    else if (r->dtype == SHEAF_INT32)
        COLUMNS(uint32_t, uint32_t, ITSELF, ITSELF);
    else
        COLUMNS(uint64_t, uint64_t, ITSELF, ITSELF);
}

/* Column blocks [begin, end), counted over all outer indices. */
static void reduce_columns(size_t begin, size_t end, void *user)
{
    const struct reduce *r = user;
    size_t across = (r->inner + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
    for (size_t i = begin; i < end; i++) {
        size_t column = i % across * COLUMN_BLOCK;
        size_t left = r->inner - column;
        reduce_block(r, i / across, column, left < COLUMN_BLOCK ? left : COLUMN_BLOCK);
    }
}

static void run_reduce(struct sheaf__device *device, struct reduce *r)
{
    if (r->inner == 1) {
        size_t grain = SHEAF__GRAIN / (r->middle ? r->middle : 1);
        sheaf__split(device, r->outer, grain, reduce_rows, r);
        return;
    }
    size_t width = r->inner < COLUMN_BLOCK ? r->inner : COLUMN_BLOCK;
    size_t work = width * (r->middle ? r->middle : 1);
    size_t blocks = r->outer * ((r->inner + COLUMN_BLOCK - 1) / COLUMN_BLOCK);
    sheaf__split(device, blocks, SHEAF__GRAIN / work, reduce_columns, r);
}

/* ---- several groups of axes: one after the other, from the last ---- */

struct groups {
    int count;
    size_t size[SHEAF_MAX_RANK];
    bool gone[SHEAF_MAX_RANK];
};

/* Neighbouring axes of one kind together; axes of size 1 are of any kind. */
static struct groups group(sheaf_shape shape, uint32_t axes)
{
    struct groups g = {0};
    for (int i = 0; i < shape.rank; i++) {
        bool gone = axes >> i & 1;
        if (shape.dims[i] == 1)
            continue;
        if (g.count == 0 || g.gone[g.count - 1] != gone) {
            g.size[g.count] = 1;
            g.gone[g.count++] = gone;
        }
        g.size[g.count - 1] *= (size_t)shape.dims[i];
    }
    return g;
}

/* Number of the last group that goes away, -1 if there is none. */
static int last_gone(const struct groups *g)
{
    for (int i = g->count - 1; i >= 0; i--)
        if (g->gone[i])
            return i;
    return -1;
}

static void set_sizes(struct reduce *r, const struct groups *g, int at)
{
    r->outer = r->inner = 1;
    r->middle = at < 0 ? 1 : g->size[at];
    for (int i = 0; i < at; i++)
        r->outer *= g->size[i];
    for (int i = at + 1; i < g->count; i++)
        r->inner *= g->size[i];
}

static void remove_group(struct groups *g, int at)
{
    for (int i = at; i + 1 < g->count; i++) {
        g->size[i] = g->size[i + 1];
        g->gone[i] = g->gone[i + 1];
    }
    g->count--;
}

/* All groups but the first that goes are summed into scratch memory, which is one tensor a pass. */
static sheaf_status reduce_all(struct sheaf__op_call *call, struct reduce *r, struct groups *g,
                               sheaf_error *err)
{
    sheaf_tensor *scratch = NULL;
    double divisor = r->divisor;
    void *out = r->out;
    sheaf_status status = SHEAF_OK;
    for (int at = last_gone(g);; at = last_gone(g)) {
        set_sizes(r, g, at);
        if (at >= 0)
            remove_group(g, at);
        sheaf_tensor *next = NULL;
        r->out = out;
        r->divisor = divisor;
        if (last_gone(g) >= 0) {
            int64_t size = (int64_t)(r->outer * r->inner);
            next = sheaf__tensor_new(call->dtype, SHEAF_SHAPE(size), call->device, err);
            if (!next) {
                status = err->status;
                break;
            }
            r->out = sheaf__tensor_out(next);
            r->divisor = 0;
        }
        run_reduce(call->device, r);
        sheaf__unref(scratch);
        scratch = next;
        if (!next)
            break;
        r->in = r->out;
    }
    sheaf__unref(scratch);
    return status;
}

/* The mean of integers is truncated, as in TensorFlow. */
static void divide_integers(const struct sheaf__op_call *call, int64_t divisor)
{
    int64_t n = sheaf_shape_elements(call->shape);
    void *out = sheaf__tensor_out(call->out);
    for (int64_t i = 0; i < n && divisor > 0; i++) {
        if (call->dtype == SHEAF_INT32)
            ((int32_t *)out)[i] = (int32_t)(((int32_t *)out)[i] / divisor);
        else
            ((int64_t *)out)[i] /= divisor;
    }
}

static int64_t reduced_count(const struct sheaf__op_call *call)
{
    sheaf_shape shape = call->in[0]->shape;
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++)
        if (call->attrs->axes >> i & 1)
            count *= shape.dims[i];
    return count;
}

sheaf_status sheaf__compute_reduce(struct sheaf__op_call *call, sheaf_error *err)
{
    bool mean = sheaf__op_id_of(call->op) == SHEAF__OP_REDUCE_MEAN;
    int64_t count = reduced_count(call);
    struct reduce r = {
        .dtype = call->dtype,
        .in = sheaf__op_call_data(call, 0, err),
        .out = sheaf__tensor_out(call->out),
        .divisor = mean && sheaf__dtype_is_float(call->dtype) ? (double)count : 0,
    };
    if (!r.in)
        return err->status;
    if (count == 0) { /* a sum of nothing; its mean is not a number */
        double value = r.divisor == 0 && mean && sheaf__dtype_is_float(call->dtype)
                           ? (double)__builtin_nanf("")
                           : 0;
        sheaf__kernel_fill(r.out, call->dtype, value, (size_t)sheaf_shape_elements(call->shape));
        return SHEAF_OK;
    }
    struct groups g = group(call->in[0]->shape, call->attrs->axes);
    SHEAF__TRY(reduce_all(call, &r, &g, err));
    if (mean && sheaf__dtype_is_integer(call->dtype))
        divide_integers(call, count);
    return SHEAF_OK;
}

/* ---- argmax ---- */

struct argmax {
    sheaf_dtype dtype;
    const void *in;
    int64_t *out;
    size_t size, inner;
};

/* A NaN is no larger than the least number, as in TensorFlow. */
#define LARGEST(type, number, load, least)              \
    do {                                                \
        const type *x = (const type *)a->in + first;    \
        number most = (least);                          \
        for (size_t k = 0; k < a->size; k++) {          \
            const number value = load(x[k * a->inner]); \
            if (value > most) {                         \
                most = value;                           \
                best = k;                               \
            }                                           \
        }                                               \
    } while (0)

static void run_argmax(size_t begin, size_t end, void *user)
{
    const struct argmax *a = user;
    for (size_t i = begin; i < end; i++) {
        size_t first = i / a->inner * a->size * a->inner + i % a->inner, best = 0;
        if (a->dtype == SHEAF_FLOAT32)
            LARGEST(float, float, ITSELF, -FLT_MAX);
        else if (a->dtype == SHEAF_FLOAT64)
            LARGEST(double, double, ITSELF, -DBL_MAX);
        else if (a->dtype == SHEAF_BFLOAT16)
            LARGEST(uint16_t, float, sheaf__bfloat16_to_float, -FLT_MAX);
        else if (a->dtype == SHEAF_INT32)
            LARGEST(int32_t, int32_t, ITSELF, INT32_MIN);
        else
            LARGEST(int64_t, int64_t, ITSELF, INT64_MIN);
        a->out[i] = (int64_t)best;
    }
}

sheaf_status sheaf__infer_argmax(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_shape in = call->in[0]->shape;
    int32_t axis;
    if (!sheaf__axis(call->attrs->axis, in.rank, &axis))
        return sheaf__op_call_error(call, err, "axis %d of shape %s", call->attrs->axis,
                                    SHEAF__SHAPE_TEXT(in));
    if (in.dims[axis] == 0)
        return sheaf__op_call_error(call, err, "axis %d of shape %s is empty", axis,
                                    SHEAF__SHAPE_TEXT(in));
    call->dtype = SHEAF_INT64;
    call->shape = reduced(in, 1u << axis, false);
    return SHEAF_OK;
}

sheaf_status sheaf__compute_argmax(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_shape in = call->in[0]->shape;
    int32_t axis = 0;
    sheaf__axis(call->attrs->axis, in.rank, &axis);
    struct argmax a = {call->in[0]->dtype, sheaf__op_call_data(call, 0, err),
                       sheaf__tensor_out(call->out), (size_t)in.dims[axis], 1};
    if (!a.in)
        return err->status;
    for (int i = axis + 1; i < in.rank; i++)
        a.inner *= (size_t)in.dims[i];
    sheaf__split(call->device, (size_t)sheaf_shape_elements(call->shape), SHEAF__GRAIN / a.size,
                 run_argmax, &a);
    return SHEAF_OK;
}

/* ---- gradients ---- */

/* dy with the reduced axes back as 1, over the shape of the input. */
static sheaf_tensor *unreduce(const struct sheaf__grad *g)
{
    struct sheaf__attrs attrs = {.shape = reduced(g->in[0]->shape, g->attrs->axes, true)};
    sheaf_tensor *dy = g->dy;
    if (!sheaf_shape_equal(dy->shape, attrs.shape))
        dy = sheaf__op_run1(SHEAF__OP_RESHAPE, dy, &attrs);
    attrs.shape = g->in[0]->shape;
    return sheaf__op_run1(SHEAF__OP_BROADCAST, dy, &attrs);
}

void sheaf__gradient_reduce_sum(const struct sheaf__grad *g)
{
    g->dx[0] = unreduce(g);
}

void sheaf__gradient_reduce_mean(const struct sheaf__grad *g)
{
    int64_t in = sheaf_tensor_elements(g->in[0]), out = sheaf_tensor_elements(g->out);
    if (!sheaf__dtype_is_float(g->out->dtype))
        return;
    /* Also of nothing: a replica without data takes part in the sums of the others. */
    const struct sheaf__attrs count = {.dtype = g->out->dtype,
                                       .number = {in ? (double)in / (double)out : 1}};
    sheaf_tensor *divisor = sheaf__op_run(SHEAF__OP_FILL, NULL, 0, &count);
    struct sheaf__grad scaled = *g;
    scaled.dy = sheaf_div(g->dy, divisor);
    if (sheaf__tensor_ok(scaled.dy))
        g->dx[0] = unreduce(&scaled);
    else
        g->dx[0] = scaled.dy;
}

/* ---- public calls ---- */

static sheaf_tensor *reduce(enum sheaf__op_id id, sheaf_tensor *t, const int *axes, size_t count)
{
    struct sheaf__attrs attrs = {0};
    if (!sheaf__tensor_ok(t))
        return sheaf__op_run1(id, t, &attrs);
    if (!axes)
        attrs.axes = (1u << t->shape.rank) - 1;
    for (size_t i = 0; axes && i < count; i++) {
        int32_t axis;
        if (!sheaf__axis(axes[i], t->shape.rank, &axis))
            return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "%s: axis %d of shape %s",
                                      sheaf__op(id)->name, axes[i], SHEAF__SHAPE_TEXT(t->shape));
        if (attrs.axes >> axis & 1)
            return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                      "%s: axis %d is given twice, shape %s", sheaf__op(id)->name,
                                      axes[i], SHEAF__SHAPE_TEXT(t->shape));
        attrs.axes |= 1u << axis;
    }
    return sheaf__op_run1(id, t, &attrs);
}

sheaf_tensor *sheaf_reduce_sum(sheaf_tensor *t, const int *axes, size_t count)
{
    return reduce(SHEAF__OP_REDUCE_SUM, t, axes, count);
}
sheaf_tensor *sheaf_reduce_mean(sheaf_tensor *t, const int *axes, size_t count)
{
    return reduce(SHEAF__OP_REDUCE_MEAN, t, axes, count);
}
sheaf_tensor *sheaf_sum(sheaf_tensor *t)
{
    return reduce(SHEAF__OP_REDUCE_SUM, t, NULL, 0);
}
sheaf_tensor *sheaf_mean(sheaf_tensor *t)
{
    return reduce(SHEAF__OP_REDUCE_MEAN, t, NULL, 0);
}
sheaf_tensor *sheaf_argmax(sheaf_tensor *t, int axis)
{
    const struct sheaf__attrs attrs = {.axis = axis};
    return sheaf__op_run1(SHEAF__OP_ARGMAX, t, &attrs);
}
