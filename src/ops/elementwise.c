/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on two tensors, element by element, with broadcasting. */
#include "ops/family.h"

#include "tensor/half.h"
#include "tensor/kernel.h"

#include <sheaf/ops.h>

#include <string.h>

/* ---- kernels over equal lengths ---- */

#define DIVIDE(name, in_type, out_type)                                 \
    static void name(void *out, const void *a, const void *b, size_t n) \
    {                                                                   \
        const in_type *x = a, *y = b;                                   \
        out_type *z = out;                                              \
        for (size_t i = 0; i < n; i++)                                  \
            z[i] = (out_type)x[i] / (out_type)y[i];                     \
    }
DIVIDE(divide_f32, float, float)
DIVIDE(divide_f64, double, double)
DIVIDE(divide_i32, int32_t, double)
DIVIDE(divide_i64, int64_t, double)

static void divide_bf16(void *out, const void *a, const void *b, size_t n)
{
    const uint16_t *x = a, *y = b;
    uint16_t *z = out;
    for (size_t i = 0; i < n; i++)
        z[i] = sheaf__bfloat16_of_float(sheaf__bfloat16_to_float(x[i]) /
                                        sheaf__bfloat16_to_float(y[i]));
}

#define COMPARE(name, in_type, out_type, compare, load)                 \
    static void name(void *out, const void *a, const void *b, size_t n) \
    {                                                                   \
        const in_type *x = a, *y = b;                                   \
        out_type *z = out;                                              \
        for (size_t i = 0; i < n; i++)                                  \
            z[i] = (out_type)(load(x[i]) compare load(y[i]));           \
    }
#define ITSELF(x) (x)
COMPARE(equal_f32, float, uint8_t, ==, ITSELF)
COMPARE(equal_f64, double, uint8_t, ==, ITSELF)
COMPARE(equal_i32, int32_t, uint8_t, ==, ITSELF)
COMPARE(equal_i64, int64_t, uint8_t, ==, ITSELF)
COMPARE(equal_bool, uint8_t, uint8_t, ==, !!ITSELF)
COMPARE(equal_bf16, uint16_t, uint8_t, ==, sheaf__bfloat16_to_float)
COMPARE(greater_equal_f32, float, float, >=, ITSELF)
COMPARE(greater_equal_f64, double, double, >=, ITSELF)
COMPARE(greater_equal_i32, int32_t, int32_t, >=, ITSELF)
COMPARE(greater_equal_i64, int64_t, int64_t, >=, ITSELF)

static void greater_equal_bf16(void *out, const void *a, const void *b, size_t n)
{
    const uint16_t *x = a, *y = b;
    uint16_t *z = out;
    for (size_t i = 0; i < n; i++) {
        bool greater = sheaf__bfloat16_to_float(x[i]) >= sheaf__bfloat16_to_float(y[i]);
        z[i] = sheaf__bfloat16_of_float(greater);
    }
}

static const sheaf__kernel_binary divide[SHEAF__DTYPES] = {
    [SHEAF_FLOAT32] = divide_f32, [SHEAF_FLOAT64] = divide_f64, [SHEAF_BFLOAT16] = divide_bf16,
    [SHEAF_INT32] = divide_i32,   [SHEAF_INT64] = divide_i64,
};
static const sheaf__kernel_binary equal[SHEAF__DTYPES] = {
    [SHEAF_FLOAT32] = equal_f32, [SHEAF_FLOAT64] = equal_f64, [SHEAF_BFLOAT16] = equal_bf16,
    [SHEAF_INT32] = equal_i32,   [SHEAF_INT64] = equal_i64,   [SHEAF_BOOL] = equal_bool,
};
static const sheaf__kernel_binary greater_equal[SHEAF__DTYPES] = {
    [SHEAF_FLOAT32] = greater_equal_f32,   [SHEAF_FLOAT64] = greater_equal_f64,
    [SHEAF_BFLOAT16] = greater_equal_bf16, [SHEAF_INT32] = greater_equal_i32,
    [SHEAF_INT64] = greater_equal_i64,
};

/* ---- broadcasting ---- */

/* Both inputs as strided arrays over the result, with as few axes as possible. */
struct broadcast {
    sheaf__kernel_binary kernel;
    uint8_t *out;
    const uint8_t *a, *b;
    size_t in_size, out_size;
    int rank; /* >= 1 */
    int64_t dims[SHEAF_MAX_RANK];
    int64_t a_strides[SHEAF_MAX_RANK], b_strides[SHEAF_MAX_RANK];
    size_t inner; /* dims[rank - 1] */
};

/* Strides of a row-major `shape` seen as `out`: 0 along the axes it is repeated on. */
static void spread(sheaf_shape shape, sheaf_shape out, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = out.rank - 1, j = shape.rank - 1; i >= 0; i--, j--) {
        int64_t dim = j >= 0 ? shape.dims[j] : 1;
        strides[i] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
}

static void plan_broadcast(struct broadcast *p, sheaf_shape a, sheaf_shape b, sheaf_shape out)
{
    int64_t as[SHEAF_MAX_RANK], bs[SHEAF_MAX_RANK];
    spread(a, out, as);
    spread(b, out, bs);
    p->rank = 0;
    for (int i = 0; i < out.rank; i++) {
        if (out.dims[i] == 1)
            continue;
        int last = p->rank - 1;
        if (last >= 0 && p->a_strides[last] == as[i] * out.dims[i] &&
            p->b_strides[last] == bs[i] * out.dims[i]) {
            p->dims[last] *= out.dims[i];
        } else {
            last = p->rank++;
            p->dims[last] = out.dims[i];
        }
        p->a_strides[last] = as[i];
        p->b_strides[last] = bs[i];
    }
    if (p->rank == 0) {
        p->rank = 1;
        p->dims[0] = 1;
        p->a_strides[0] = p->b_strides[0] = 1;
    }
    p->inner = (size_t)p->dims[p->rank - 1];
}

static void repeat(uint8_t *out, const uint8_t *element, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * size, element, size);
}

/* One stretch along the inner axis. A repeated element is written out first, so that every kernel
 * sees plain arrays. */
static void run_stretch(const struct broadcast *p, uint8_t *out, const uint8_t *a, const uint8_t *b,
                        size_t n)
{
    int64_t a_stride = p->a_strides[p->rank - 1], b_stride = p->b_strides[p->rank - 1];
    if (a_stride == 1 && b_stride == 1) {
        p->kernel(out, a, b, n);
        return;
    }
    _Alignas(64) uint8_t constant[2048];
    size_t block = sizeof(constant) / p->in_size, size = p->in_size;
    bool a_constant = a_stride == 0;
    repeat(constant, a_constant ? a : b, size, n < block ? n : block);
    for (size_t i = 0; i < n; i += block) {
        size_t m = n - i < block ? n - i : block;
        const uint8_t *x = a_constant ? constant : a + i * size;
        const uint8_t *y = b_stride == 0 ? constant : b + i * size;
        p->kernel(out + i * p->out_size, x, y, m);
    }
}

/* Elements [begin, end) of the result. */
static void run_broadcast(size_t begin, size_t end, void *user)
{
    const struct broadcast *p = user;
    while (begin < end) {
        size_t row = begin / p->inner, at = begin % p->inner;
        size_t n = p->inner - at < end - begin ? p->inner - at : end - begin;
        int64_t a = (int64_t)at * p->a_strides[p->rank - 1];
        int64_t b = (int64_t)at * p->b_strides[p->rank - 1];
        for (int i = p->rank - 2; i >= 0; i--) {
            int64_t index = (int64_t)row % p->dims[i];
            row /= (size_t)p->dims[i];
            a += index * p->a_strides[i];
            b += index * p->b_strides[i];
        }
        run_stretch(p, p->out + begin * p->out_size, p->a + a * (int64_t)p->in_size,
                    p->b + b * (int64_t)p->in_size, n);
        begin += n;
    }
}

/* ---- rows of the table ---- */

sheaf_status sheaf__infer_broadcast(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *a = call->in[0], *b = call->in[1];
    if (!sheaf__shape_broadcast(a->shape, b->shape, &call->shape))
        return sheaf__op_call_error(call, err, "shapes %s and %s do not fit (dtype %s)",
                                    SHEAF__SHAPE_TEXT(a->shape), SHEAF__SHAPE_TEXT(b->shape),
                                    sheaf_dtype_name(a->dtype));
    return SHEAF_OK;
}

sheaf_status sheaf__infer_div(struct sheaf__op_call *call, sheaf_error *err)
{
    if (sheaf__dtype_is_integer(call->dtype))
        call->dtype = SHEAF_FLOAT64;
    return sheaf__infer_broadcast(call, err);
}

sheaf_status sheaf__infer_equal(struct sheaf__op_call *call, sheaf_error *err)
{
    call->dtype = SHEAF_BOOL;
    return sheaf__infer_broadcast(call, err);
}

static sheaf__kernel_binary pick(enum sheaf__op_id id, sheaf_dtype dtype)
{
    const struct sheaf__kernels *k = sheaf__kernels();
    switch (id) {
    case SHEAF__OP_ADD:
        return k->add[dtype];
    case SHEAF__OP_SUB:
        return k->sub[dtype];
    case SHEAF__OP_MUL:
        return k->mul[dtype];
    case SHEAF__OP_MAXIMUM:
        return k->max[dtype];
    case SHEAF__OP_DIV:
        return divide[dtype];
    case SHEAF__OP_EQUAL:
        return equal[dtype];
    default:
        return greater_equal[dtype];
    }
}

sheaf_status sheaf__compute_binary(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *a = call->in[0], *b = call->in[1];
    struct broadcast p = {
        .kernel = pick(sheaf__op_id_of(call->op), a->dtype),
        .out = sheaf__tensor_out(call->out),
        .a = sheaf__op_call_data(call, 0, err),
        .b = sheaf__op_call_data(call, 1, err),
        .in_size = sheaf_dtype_size(a->dtype),
        .out_size = sheaf_dtype_size(call->dtype),
    };
    if (!p.a || !p.b)
        return err->status;
    plan_broadcast(&p, a->shape, b->shape, call->shape);
    sheaf__split(call->device, (size_t)sheaf_shape_elements(call->shape), SHEAF__GRAIN,
                 run_broadcast, &p);
    return SHEAF_OK;
}

/* ---- gradients ---- */

sheaf_tensor *sheaf__sum_to(sheaf_tensor *t, sheaf_shape shape)
{
    if (!sheaf__tensor_ok(t) || sheaf_shape_equal(t->shape, shape))
        return t;
    struct sheaf__attrs attrs = {.keep = true, .shape = shape};
    int ahead = t->shape.rank - shape.rank;
    for (int i = 0; i < t->shape.rank; i++)
        if (i < ahead || (shape.dims[i - ahead] == 1 && t->shape.dims[i] != 1))
            attrs.axes |= 1u << i;
    t = sheaf__op_run1(SHEAF__OP_REDUCE_SUM, t, &attrs);
    return ahead ? sheaf__op_run1(SHEAF__OP_RESHAPE, t, &attrs) : t;
}

void sheaf__gradient_add(const struct sheaf__grad *g)
{
    for (int i = 0; i < 2; i++)
        if (g->wanted[i])
            g->dx[i] = sheaf__sum_to(g->dy, g->in[i]->shape);
}

void sheaf__gradient_sub(const struct sheaf__grad *g)
{
    if (g->wanted[0])
        g->dx[0] = sheaf__sum_to(g->dy, g->in[0]->shape);
    if (g->wanted[1])
        g->dx[1] = sheaf__sum_to(sheaf_neg(g->dy), g->in[1]->shape);
}

void sheaf__gradient_mul(const struct sheaf__grad *g)
{
    for (int i = 0; i < 2; i++)
        if (g->wanted[i])
            g->dx[i] = sheaf__sum_to(sheaf_mul(g->dy, g->in[1 - i]), g->in[i]->shape);
}

void sheaf__gradient_div(const struct sheaf__grad *g)
{
    if (!sheaf__dtype_is_float(g->in[0]->dtype))
        return;
    sheaf_tensor *da = sheaf_div(g->dy, g->in[1]);
    if (g->wanted[0])
        g->dx[0] = sheaf__sum_to(da, g->in[0]->shape);
    if (g->wanted[1]) {
        sheaf_tensor *ratio = sheaf_div(g->in[0], g->in[1]);
        g->dx[1] = sheaf__sum_to(sheaf_neg(sheaf_mul(da, ratio)), g->in[1]->shape);
    }
}

/* Equal elements give everything to the first input, as in TensorFlow. */
void sheaf__gradient_maximum(const struct sheaf__grad *g)
{
    sheaf_tensor *first = sheaf__op_run2(SHEAF__OP_GREATER_EQUAL, g->in[0], g->in[1], NULL);
    if (g->wanted[0])
        g->dx[0] = sheaf__sum_to(sheaf_mul(g->dy, first), g->in[0]->shape);
    if (g->wanted[1])
        g->dx[1] = sheaf__sum_to(sheaf_mul(g->dy, sheaf_scale(first, -1, 1)), g->in[1]->shape);
}

/* ---- public calls ---- */

sheaf_tensor *sheaf_add(sheaf_tensor *a, sheaf_tensor *b)
{
    return sheaf__op_run2(SHEAF__OP_ADD, a, b, NULL);
}
sheaf_tensor *sheaf_sub(sheaf_tensor *a, sheaf_tensor *b)
{
    return sheaf__op_run2(SHEAF__OP_SUB, a, b, NULL);
}
sheaf_tensor *sheaf_mul(sheaf_tensor *a, sheaf_tensor *b)
{
    return sheaf__op_run2(SHEAF__OP_MUL, a, b, NULL);
}
sheaf_tensor *sheaf_div(sheaf_tensor *a, sheaf_tensor *b)
{
    return sheaf__op_run2(SHEAF__OP_DIV, a, b, NULL);
}
sheaf_tensor *sheaf_maximum(sheaf_tensor *a, sheaf_tensor *b)
{
    return sheaf__op_run2(SHEAF__OP_MAXIMUM, a, b, NULL);
}
sheaf_tensor *sheaf_equal(sheaf_tensor *a, sheaf_tensor *b)
{
    return sheaf__op_run2(SHEAF__OP_EQUAL, a, b, NULL);
}
