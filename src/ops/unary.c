/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on one tensor, element by element, and the gradients of those that need their result.
 */
#include "ops/family.h"
#include "ops/vector.h"

#include "tensor/half.h"
#include "tensor/kernel.h"

#include <sheaf/ops.h>

#include <math.h>

/* ---- functions of one number ---- */

static inline float sigmoid_f(float x)
{
    float e = expf(-fabsf(x));
    return (x < 0 ? e : 1) / (1 + e);
}
static inline double sigmoid_d(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* kernel(out, in, n) */
typedef void (*unary_kernel)(void *out, const void *in, size_t n);

#define FLOAT32(name, f32)                                      \
    static void name##_f32(void *out, const void *in, size_t n) \
    {                                                           \
        float *y = out;                                         \
        const float *v = in;                                    \
        for (size_t i = 0; i < n; i++) {                        \
            float x = v[i];                                     \
            y[i] = (f32);                                       \
        }                                                       \
    }
#define OTHER_FLOATS(name, f32, f64)                             \
    static void name##_f64(void *out, const void *in, size_t n)  \
    {                                                            \
        double *y = out;                                         \
        const double *v = in;                                    \
        for (size_t i = 0; i < n; i++) {                         \
            double x = v[i];                                     \
            y[i] = (f64);                                        \
        }                                                        \
    }                                                            \
    static void name##_bf16(void *out, const void *in, size_t n) \
    {                                                            \
        uint16_t *y = out;                                       \
        const uint16_t *v = in;                                  \
        for (size_t i = 0; i < n; i++) {                         \
            float x = sheaf__bfloat16_to_float(v[i]);            \
            y[i] = sheaf__bfloat16_of_float(f32);                \
        }                                                        \
    }
#define FLOATS(name, f32, f64) FLOAT32(name, f32) OTHER_FLOATS(name, f32, f64)
/* Integers wrap: computed without sign. */
#define INTEGERS(name, expression)                              \
    static void name##_i32(void *out, const void *in, size_t n) \
    {                                                           \
        uint32_t *y = out;                                      \
        const uint32_t *v = in;                                 \
        for (size_t i = 0; i < n; i++) {                        \
            uint32_t x = v[i];                                  \
            y[i] = (expression);                                \
        }                                                       \
    }                                                           \
    static void name##_i64(void *out, const void *in, size_t n) \
    {                                                           \
        uint64_t *y = out;                                      \
        const uint64_t *v = in;                                 \
        for (size_t i = 0; i < n; i++) {                        \
            uint64_t x = v[i];                                  \
            y[i] = (expression);                                \
        }                                                       \
    }

FLOATS(neg, -x, -x)
FLOATS(square, x *x, x *x)
FLOATS(sqrt, sqrtf(x), sqrt(x))
FLOATS(exp, expf(x), exp(x))
FLOATS(log, logf(x), log(x))
OTHER_FLOATS(relu, x < 0 ? 0 : x, x < 0 ? 0 : x)
FLOATS(sigmoid, sigmoid_f(x), sigmoid_d(x))
FLOATS(tanh, tanhf(x), tanh(x))
INTEGERS(neg, 0 - x)
INTEGERS(square, x *x)
INTEGERS(relu, x >> (8 * sizeof(x) - 1) ? 0 : x)

static void relu_f32(void *out, const void *in, size_t n)
{
    sheaf__vector()->relu(out, in, n);
}

#define FLOAT_ROW(name) \
    [SHEAF_FLOAT32] = name##_f32, [SHEAF_FLOAT64] = name##_f64, [SHEAF_BFLOAT16] = name##_bf16
#define INTEGER_ROW(name) [SHEAF_INT32] = name##_i32, [SHEAF_INT64] = name##_i64

static const unary_kernel kernels[SHEAF__OP_COUNT][SHEAF__DTYPES] = {
    [SHEAF__OP_NEG] = {FLOAT_ROW(neg), INTEGER_ROW(neg)},
    [SHEAF__OP_SQUARE] = {FLOAT_ROW(square), INTEGER_ROW(square)},
    [SHEAF__OP_SQRT] = {FLOAT_ROW(sqrt)},
    [SHEAF__OP_EXP] = {FLOAT_ROW(exp)},
    [SHEAF__OP_LOG] = {FLOAT_ROW(log)},
    [SHEAF__OP_RELU] = {FLOAT_ROW(relu), INTEGER_ROW(relu)},
    [SHEAF__OP_SIGMOID] = {FLOAT_ROW(sigmoid)},
    [SHEAF__OP_TANH] = {FLOAT_ROW(tanh)},
};

/* ---- running them ---- */

struct unary {
    unary_kernel kernel;
    uint8_t *out;
    const uint8_t *in;
    size_t size;
};

static void run_unary(size_t begin, size_t end, void *user)
{
    const struct unary *u = user;
    u->kernel(u->out + begin * u->size, u->in + begin * u->size, end - begin);
}

/* Those that call the mathematics library are worth handing over sooner. */
static size_t grain_of(enum sheaf__op_id id)
{
    bool slow = id == SHEAF__OP_EXP || id == SHEAF__OP_LOG || id == SHEAF__OP_SIGMOID ||
                id == SHEAF__OP_TANH;
    return slow ? SHEAF__GRAIN / 8 : SHEAF__GRAIN;
}

sheaf_status sheaf__compute_unary(struct sheaf__op_call *call, sheaf_error *err)
{
    enum sheaf__op_id id = sheaf__op_id_of(call->op);
    struct unary u = {kernels[id][call->dtype], sheaf__tensor_out(call->out),
                      sheaf__op_call_data(call, 0, err), sheaf_dtype_size(call->dtype)};
    if (!u.in)
        return err->status;
    sheaf__split(call->device, (size_t)sheaf_shape_elements(call->shape), grain_of(id), run_unary,
                 &u);
    return SHEAF_OK;
}

/* ---- scale ---- */

struct scale {
    void *out;
    const void *in;
    double factor, offset;
    int64_t integer_factor, integer_offset;
    sheaf_dtype dtype;
};

#define SCALE(type, compute, factor, offset)                                      \
    do {                                                                          \
        type *y = (type *)s->out;                                                 \
        const type *x = (const type *)s->in;                                      \
        for (size_t i = begin; i < end; i++)                                      \
            y[i] = (type)((compute)x[i] * (compute)(factor) + (compute)(offset)); \
    } while (0)

static void run_scale(size_t begin, size_t end, void *user)
{
    const struct scale *s = user;
    float factor = (float)s->factor, offset = (float)s->offset;
    if (s->dtype == SHEAF_FLOAT32) {
        SCALE(float, float, factor, offset);
    } else if (s->dtype == SHEAF_FLOAT64) {
        SCALE(double, double, s->factor, s->offset);
    } else if (s->dtype == SHEAF_INT32) {
        SCALE(uint32_t, uint32_t, s->integer_factor, s->integer_offset);
    } else if (s->dtype == SHEAF_INT64) {
        SCALE(uint64_t, uint64_t, s->integer_factor, s->integer_offset);
    } else {
        uint16_t *y = s->out;
        const uint16_t *x = s->in;
        for (size_t i = begin; i < end; i++)
            y[i] = sheaf__bfloat16_of_float(sheaf__bfloat16_to_float(x[i]) * factor + offset);
    }
}

/* `value` as the dtype sees it. */
static int64_t to_integer(double value, sheaf_dtype dtype)
{
    int64_t element = 0;
    if (value > INT32_MIN && value < INT32_MAX)
        return (int64_t)value; /* which all that come here have */
    sheaf__kernel_fill(&element, dtype, value, 1);
    return sheaf__kernel_integer(&element, dtype, 0);
}

static double to_float(double value, sheaf_dtype dtype)
{
    double element = 0;
    sheaf__kernel_fill(&element, dtype, value, 1);
    return sheaf__kernel_number(&element, dtype, 0);
}

sheaf_status sheaf__compute_scale(struct sheaf__op_call *call, sheaf_error *err)
{
    const double *number = call->attrs->number;
    struct scale s = {.out = sheaf__tensor_out(call->out),
                      .in = sheaf__op_call_data(call, 0, err),
                      .dtype = call->dtype};
    if (!s.in)
        return err->status;
    if (sheaf__dtype_is_integer(call->dtype)) {
        s.integer_factor = to_integer(number[0], call->dtype);
        s.integer_offset = to_integer(number[1], call->dtype);
    } else {
        s.factor = to_float(number[0], call->dtype);
        s.offset = to_float(number[1], call->dtype);
    }
    sheaf__split(call->device, (size_t)sheaf_shape_elements(call->shape), SHEAF__GRAIN, run_scale,
                 &s);
    return SHEAF_OK;
}

/* ---- cast ---- */

struct cast {
    uint8_t *out;
    const uint8_t *in;
    sheaf_dtype to, from;
    size_t to_size, from_size;
};

static void run_cast(size_t begin, size_t end, void *user)
{
    const struct cast *c = user;
    sheaf__kernel_cast(c->out + begin * c->to_size, c->to, c->in + begin * c->from_size, c->from,
                       end - begin);
}

sheaf_status sheaf__infer_cast(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_dtype from = call->in[0]->dtype, to = call->attrs->dtype;
    if (!sheaf__kernel_can_cast(to, from))
        return sheaf__op_call_error(call, err, "no conversion from %s to %s",
                                    sheaf_dtype_name(from), sheaf_dtype_name(to));
    call->dtype = to;
    return SHEAF_OK;
}

sheaf_status sheaf__compute_cast(struct sheaf__op_call *call, sheaf_error *err)
{
    struct cast c = {sheaf__tensor_out(call->out),
                     sheaf__op_call_data(call, 0, err),
                     call->dtype,
                     call->in[0]->dtype,
                     sheaf_dtype_size(call->dtype),
                     sheaf_dtype_size(call->in[0]->dtype)};
    if (!c.in)
        return err->status;
    sheaf__split(call->device, (size_t)sheaf_shape_elements(call->shape), SHEAF__GRAIN, run_cast,
                 &c);
    return SHEAF_OK;
}

/* ---- gradients from dy and the result y ---- */

struct unary_grad {
    enum sheaf__op_id id;
    sheaf_dtype dtype;
    void *out;
    const void *dy, *y;
};

#define GRADIENT(type, wide, load, store)                                   \
    do {                                                                    \
        const type *dys = (const type *)u->dy, *ys = (const type *)u->y;    \
        type *out = (type *)u->out;                                         \
        for (size_t i = begin; i < end; i++) {                              \
            wide dy = load(dys[i]), y = load(ys[i]);                        \
            wide dx = u->id == SHEAF__OP_RELU_GRAD      ? (y > 0 ? dy : 0)  \
                      : u->id == SHEAF__OP_SIGMOID_GRAD ? dy * y * (1 - y)  \
                                                        : dy * (1 - y * y); \
            out[i] = store(dx);                                             \
        }                                                                   \
    } while (0)
#define ITSELF(x) (x)

static void run_unary_grad(size_t begin, size_t end, void *user)
{
    const struct unary_grad *u = user;
    if (u->dtype == SHEAF_FLOAT32 && u->id == SHEAF__OP_RELU_GRAD)
        sheaf__vector()->relu_grad((float *)u->out + begin, (const float *)u->dy + begin,
                                   (const float *)u->y + begin, end - begin);
    else if (u->dtype == SHEAF_FLOAT32)
        GRADIENT(float, float, ITSELF, ITSELF);
    else if (u->dtype == SHEAF_FLOAT64)
        GRADIENT(double, double, ITSELF, ITSELF);
    else
        GRADIENT(uint16_t, float, sheaf__bfloat16_to_float, sheaf__bfloat16_of_float);
}

void sheaf__relu_grad(sheaf_dtype dtype, void *out, const void *dy, const void *y, size_t n)
{
    struct unary_grad u = {SHEAF__OP_RELU_GRAD, dtype, out, dy, y};
    run_unary_grad(0, n, &u);
}

sheaf_status sheaf__infer_same_shape(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *a = call->in[0], *b = call->in[1];
    if (!sheaf_shape_equal(a->shape, b->shape))
        return sheaf__op_call_error(call, err, "shapes %s and %s differ",
                                    SHEAF__SHAPE_TEXT(a->shape), SHEAF__SHAPE_TEXT(b->shape));
    return SHEAF_OK;
}

sheaf_status sheaf__compute_unary_grad(struct sheaf__op_call *call, sheaf_error *err)
{
    struct unary_grad u = {sheaf__op_id_of(call->op), call->dtype, sheaf__tensor_out(call->out),
                           sheaf__op_call_data(call, 0, err), sheaf__op_call_data(call, 1, err)};
    if (!u.dy || !u.y)
        return err->status;
    sheaf__split(call->device, (size_t)sheaf_shape_elements(call->shape), SHEAF__GRAIN,
                 run_unary_grad, &u);
    return SHEAF_OK;
}

/* ---- gradients ---- */

void sheaf__gradient_scale(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_scale(g->dy, g->attrs->number[0], 0);
}
void sheaf__gradient_neg(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_neg(g->dy);
}
void sheaf__gradient_square(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_mul(g->dy, sheaf_scale(g->in[0], 2, 0));
}
void sheaf__gradient_sqrt(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_div(sheaf_scale(g->dy, 0.5, 0), g->out);
}
void sheaf__gradient_exp(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_mul(g->dy, g->out);
}
void sheaf__gradient_log(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf_div(g->dy, g->in[0]);
}
void sheaf__gradient_relu(const struct sheaf__grad *g)
{
    g->dx[0] = g->masked ? g->dy : sheaf__op_run2(SHEAF__OP_RELU_GRAD, g->dy, g->out, NULL);
}
void sheaf__gradient_sigmoid(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf__op_run2(SHEAF__OP_SIGMOID_GRAD, g->dy, g->out, NULL);
}
void sheaf__gradient_tanh(const struct sheaf__grad *g)
{
    g->dx[0] = sheaf__op_run2(SHEAF__OP_TANH_GRAD, g->dy, g->out, NULL);
}
void sheaf__gradient_cast(const struct sheaf__grad *g)
{
    if (sheaf__dtype_is_float(g->in[0]->dtype) && sheaf__dtype_is_float(g->out->dtype))
        g->dx[0] = sheaf_cast(g->dy, g->in[0]->dtype);
}

/* d(dy · [y > 0]): nothing flows to y. */
void sheaf__gradient_relu_grad(const struct sheaf__grad *g)
{
    if (g->wanted[0])
        g->dx[0] = sheaf__op_run2(SHEAF__OP_RELU_GRAD, g->dy, g->in[1], NULL);
}

/* d(dy · y (1 - y)) */
void sheaf__gradient_sigmoid_grad(const struct sheaf__grad *g)
{
    if (g->wanted[0])
        g->dx[0] = sheaf__op_run2(SHEAF__OP_SIGMOID_GRAD, g->dy, g->in[1], NULL);
    if (g->wanted[1])
        g->dx[1] = sheaf_mul(sheaf_mul(g->dy, g->in[0]), sheaf_scale(g->in[1], -2, 1));
}

/* d(dy · (1 - y²)) */
void sheaf__gradient_tanh_grad(const struct sheaf__grad *g)
{
    if (g->wanted[0])
        g->dx[0] = sheaf__op_run2(SHEAF__OP_TANH_GRAD, g->dy, g->in[1], NULL);
    if (g->wanted[1])
        g->dx[1] = sheaf_mul(sheaf_mul(g->dy, g->in[0]), sheaf_scale(g->in[1], -2, 0));
}

/* ---- public calls ---- */

sheaf_tensor *sheaf_scale(sheaf_tensor *t, double factor, double offset)
{
    const struct sheaf__attrs attrs = {.number = {factor, offset}};
    return sheaf__op_run1(SHEAF__OP_SCALE, t, &attrs);
}
sheaf_tensor *sheaf_neg(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_NEG, t, NULL);
}
sheaf_tensor *sheaf_square(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_SQUARE, t, NULL);
}
sheaf_tensor *sheaf_sqrt(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_SQRT, t, NULL);
}
sheaf_tensor *sheaf_exp(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_EXP, t, NULL);
}
sheaf_tensor *sheaf_log(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_LOG, t, NULL);
}
sheaf_tensor *sheaf_relu(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_RELU, t, NULL);
}
sheaf_tensor *sheaf_sigmoid(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_SIGMOID, t, NULL);
}
sheaf_tensor *sheaf_tanh(sheaf_tensor *t)
{
    return sheaf__op_run1(SHEAF__OP_TANH, t, NULL);
}
sheaf_tensor *sheaf_cast(sheaf_tensor *t, sheaf_dtype dtype)
{
    const struct sheaf__attrs attrs = {.dtype = dtype};
    return sheaf__op_run1(SHEAF__OP_CAST, t, &attrs);
}
