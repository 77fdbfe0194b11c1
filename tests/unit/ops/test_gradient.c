/* SPDX-License-Identifier: Apache-2.0 */
/* S223: the gradient of every operation against finite differences, first and second order. A case
 * exists for every row of the table that has a gradient; the last test proves that none is missing.
 */
#include "rig.h"

#include "ops_help.h"

#include "ops/op.h"

#include <string.h>

enum { MOST = 3 };

/* One input: its shape, and numbers in [low, high). Integer inputs are not varied. */
struct input {
    sheaf_dtype dtype;
    int rank;
    int64_t dims[3];
    double low, high;
};

struct test_case {
    enum sheaf__op_id id;
    int inputs;
    struct input in[MOST];
    struct sheaf__attrs attrs;
};

#define NO_ATTRS  \
    {             \
        .axes = 0 \
    }
#define MATRIX(r, c)                        \
    {                                       \
        SHEAF_FLOAT64, 2, {(r), (c)}, -1, 1 \
    }
#define VECTOR(n)                      \
    {                                  \
        SHEAF_FLOAT64, 1, {(n)}, -1, 1 \
    }
#define ABOVE(low)                                 \
    {                                              \
        SHEAF_FLOAT64, 2, {2, 3}, (low), (low) + 2 \
    }
#define NUMBERS(n, most)                 \
    {                                    \
        SHEAF_INT64, 1, {(n)}, 0, (most) \
    }

static const struct test_case cases[] = {
    {SHEAF__OP_ADD, 2, {MATRIX(2, 3), VECTOR(3)}, NO_ATTRS},
    {SHEAF__OP_SUB, 2, {VECTOR(3), MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_MUL, 2, {MATRIX(2, 3), MATRIX(2, 1)}, NO_ATTRS},
    {SHEAF__OP_MUL, 2, {MATRIX(2, 3), {SHEAF_FLOAT64, 0, {0}, -1, 1}}, NO_ATTRS},
    {SHEAF__OP_DIV, 2, {MATRIX(2, 3), ABOVE(1)}, NO_ATTRS},
    {SHEAF__OP_MAXIMUM, 2, {MATRIX(2, 3), VECTOR(3)}, NO_ATTRS},
    {SHEAF__OP_SCALE, 1, {MATRIX(2, 3)}, {.number = {-3, 2}}},
    {SHEAF__OP_NEG, 1, {MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_SQUARE, 1, {MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_SQRT, 1, {ABOVE(1)}, NO_ATTRS},
    {SHEAF__OP_EXP, 1, {MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_LOG, 1, {ABOVE(1)}, NO_ATTRS},
    {SHEAF__OP_RELU, 1, {MATRIX(4, 5)}, NO_ATTRS},
    {SHEAF__OP_SIGMOID, 1, {MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_TANH, 1, {MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_CAST, 1, {MATRIX(2, 3)}, {.dtype = SHEAF_FLOAT64}},
    {SHEAF__OP_RELU_GRAD, 2, {MATRIX(2, 3), MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_SIGMOID_GRAD, 2, {MATRIX(2, 3), MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_TANH_GRAD, 2, {MATRIX(2, 3), MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_MATMUL, 2, {MATRIX(2, 3), MATRIX(3, 4)}, NO_ATTRS},
    {SHEAF__OP_MATMUL, 2, {MATRIX(3, 2), MATRIX(3, 4)}, {.transpose_a = true}},
    {SHEAF__OP_MATMUL, 2, {MATRIX(2, 3), MATRIX(4, 3)}, {.transpose_b = true}},
    {SHEAF__OP_MATMUL, 2, {MATRIX(3, 2), MATRIX(4, 3)}, {.transpose_a = true, .transpose_b = true}},
    {SHEAF__OP_DENSE, 3, {MATRIX(2, 3), MATRIX(3, 4), VECTOR(4)}, NO_ATTRS},
    {SHEAF__OP_DENSE, 3, {MATRIX(4, 3), MATRIX(3, 5), VECTOR(5)}, {.axis = 1}},
    {SHEAF__OP_MATMUL_RELU_GRAD, 3, {MATRIX(2, 3), MATRIX(3, 4), MATRIX(2, 4)}, NO_ATTRS},
    {SHEAF__OP_TRANSPOSE, 1, {MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_RESHAPE, 1, {MATRIX(2, 3)}, {.shape = {.rank = 1, .dims = {6}}}},
    {SHEAF__OP_CONCAT, 3, {MATRIX(2, 3), MATRIX(2, 1), MATRIX(2, 2)}, {.axis = 1}},
    {SHEAF__OP_SLICE, 1, {MATRIX(3, 4)}, {.shape = {.rank = 2, .dims = {2, 2}}, .begin = {1, 2}}},
    {SHEAF__OP_PAD, 1, {MATRIX(2, 2)}, {.shape = {.rank = 2, .dims = {3, 4}}, .begin = {1, 1}}},
    {SHEAF__OP_BROADCAST, 1, {MATRIX(1, 3)}, {.shape = {.rank = 3, .dims = {2, 4, 3}}}},
    {SHEAF__OP_REDUCE_SUM, 1, {{SHEAF_FLOAT64, 3, {2, 3, 4}, -1, 1}}, {.axes = 5}},
    {SHEAF__OP_REDUCE_SUM, 1, {MATRIX(2, 3)}, {.axes = 2, .keep = true}},
    {SHEAF__OP_REDUCE_MEAN, 1, {MATRIX(2, 3)}, {.axes = 1}},
    {SHEAF__OP_REDUCE_MEAN, 1, {MATRIX(2, 3)}, {.axes = 3}},
    {SHEAF__OP_SOFTMAX, 1, {MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_LOG_SOFTMAX, 1, {MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_SPARSE_XENT, 2, {NUMBERS(3, 4), MATRIX(3, 4)}, NO_ATTRS},
    {SHEAF__OP_SPARSE_XENT_GRAD, 3, {NUMBERS(3, 4), MATRIX(3, 4), VECTOR(3)}, NO_ATTRS},
    {SHEAF__OP_XENT, 2, {{SHEAF_FLOAT64, 2, {2, 3}, 0, 1}, MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_XENT_GRAD, 3, {MATRIX(2, 3), MATRIX(2, 3), VECTOR(2)}, NO_ATTRS},
    {SHEAF__OP_SIGMOID_XENT, 2, {{SHEAF_FLOAT64, 2, {2, 3}, 0, 1}, MATRIX(2, 3)}, NO_ATTRS},
    {SHEAF__OP_GATHER, 2, {MATRIX(4, 3), NUMBERS(5, 4)}, NO_ATTRS},
    {SHEAF__OP_SCATTER, 2, {MATRIX(5, 3), NUMBERS(5, 4)}, {.shape = {.rank = 2, .dims = {4, 3}}}},
};

static sheaf_tensor *draw(const struct input *in, uint64_t seed)
{
    sheaf_shape shape = sheaf_shape_of(in->rank, in->dims);
    sheaf_tensor *t = sheaf_random_uniform(SHEAF_FLOAT64, shape, in->low, in->high, seed);
    return in->dtype == SHEAF_FLOAT64 ? t : sheaf_cast(t, in->dtype);
}

/* A copy of `t` with element `i` moved by `by`. */
static sheaf_tensor *moved(sheaf_tensor *t, int64_t i, double by)
{
    sheaf_tensor *copy =
        sheaf_tensor_new(SHEAF_FLOAT64, sheaf_tensor_shape(t), sheaf_tensor_data(t));
    ((double *)(uintptr_t)sheaf_tensor_data(copy))[i] += by;
    return copy;
}

/* sum(op(in) · weights): a number that depends on every element of the result in its own way. */
static sheaf_tensor *weighted(const struct test_case *c, sheaf_tensor **in)
{
    sheaf_tensor *out = sheaf__op_run(c->id, in, (size_t)c->inputs, &c->attrs);
    return sheaf_sum(
        sheaf_mul(out, sheaf_random_uniform(SHEAF_FLOAT64, sheaf_tensor_shape(out), -1, 1, 99)));
}

/* A number made of the first gradient with respect to input `k`, whose own gradient is of second
 * order. */
static sheaf_tensor *of_gradient(const struct test_case *c, sheaf_tensor **in, int k)
{
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tape_watch(tape, in[k]);
    sheaf_tensor *g = sheaf_tape_gradient(tape, weighted(c, in), in[k]);
    return sheaf_sum(
        sheaf_mul(g, sheaf_random_uniform(SHEAF_FLOAT64, sheaf_tensor_shape(g), -1, 1, 77)));
}

static sheaf_tensor *value(const struct test_case *c, sheaf_tensor **in, int order)
{
    return order == 1 ? weighted(c, in) : of_gradient(c, in, order - 2);
}

/* order 1: the gradient; order 2 + k: the gradient of the gradient with respect to input k. */
static void check(const struct test_case *c, int input, int order)
{
    const double h = 1e-5;
    sheaf_tensor *in[MOST], *other[MOST];
    for (int i = 0; i < c->inputs; i++)
        in[i] = draw(&c->in[i], (uint64_t)(11 + i));
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tape_watch(tape, in[input]);
    sheaf_tensor *gradient = sheaf_tape_gradient(tape, value(c, in, order), in[input]);
    sheaf_error err = {0};
    rig_ok(sheaf_tensor_status(gradient, &err), &err);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(gradient), sheaf_tensor_shape(in[input])));
    for (int64_t i = 0; i < sheaf_tensor_elements(in[input]); i++) {
        memcpy(other, in, sizeof(in));
        other[input] = moved(in[input], i, h);
        double up = sheaf_tensor_number(value(c, other, order), 0);
        other[input] = moved(in[input], i, -h);
        double down = sheaf_tensor_number(value(c, other, order), 0);
        double wanted = (up - down) / (2 * h), got = sheaf_tensor_number(gradient, i);
        if (!(fabs(got - wanted) <= 1e-7 * (1 + fabs(wanted))))
            fail_msg("%s, input %d, element %d, order %d: %.10g, finite difference %.10g",
                     sheaf__op(c->id)->name, input, (int)i, order, got, wanted);
    }
}

static void first_gradients_match_differences_S223(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int k = 0; k < cases[i].inputs; k++)
            if (cases[i].in[k].dtype == SHEAF_FLOAT64)
                SHEAF_FRAME
    check(&cases[i], k, 1);
}

static void second_gradients_match_differences_S223(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int k = 0; k < cases[i].inputs; k++)
            for (int l = 0; l < cases[i].inputs; l++)
                if (cases[i].in[k].dtype == SHEAF_FLOAT64 && cases[i].in[l].dtype == SHEAF_FLOAT64)
                    SHEAF_FRAME
    check(&cases[i], k, 2 + l);
}

static void every_gradient_has_a_case_S223(void **state)
{
    (void)state;
    for (int id = 0; id < SHEAF__OP_COUNT; id++) {
        bool found = !sheaf__op(id)->gradient;
        assert_non_null(sheaf__op(id)->name);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            found = found || cases[i].id == (enum sheaf__op_id)id;
        if (!found)
            fail_msg("%s has a gradient and no case", sheaf__op(id)->name);
    }
}

/* The same rules in the other dtypes: against the gradient in float64. */
static void gradients_of_other_dtypes_agree(void **state)
{
    (void)state;
    const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_BFLOAT16};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int d = 0; d < 2; d++)
            SHEAF_FRAME
            {
                const struct test_case *c = &cases[i];
                int k = c->in[0].dtype == SHEAF_FLOAT64 ? 0 : c->id == SHEAF__OP_CAST ? 0 : 1;
                sheaf_tensor *wide[MOST], *narrow[MOST];
                for (int j = 0; j < c->inputs; j++) {
                    bool exact = c->in[j].dtype != SHEAF_FLOAT64;
                    narrow[j] = draw(&c->in[j], (uint64_t)(11 + j));
                    narrow[j] = exact ? narrow[j] : sheaf_cast(narrow[j], dtypes[d]);
                    wide[j] = exact ? narrow[j] : sheaf_cast(narrow[j], SHEAF_FLOAT64);
                }
                struct sheaf__attrs attrs = c->attrs;
                attrs.dtype = dtypes[d];
                sheaf_tape *tape = sheaf_tape_start();
                sheaf_tape_watch(tape, narrow[k]);
                sheaf_tensor *y = sheaf__op_run(c->id, narrow, (size_t)c->inputs, &attrs);
                sheaf_tensor *g = sheaf_tape_gradient(tape, y, narrow[k]);
                tape = sheaf_tape_start();
                sheaf_tape_watch(tape, wide[k]);
                y = sheaf__op_run(c->id, wide, (size_t)c->inputs, &c->attrs);
                sheaf_tensor *w = sheaf_tape_gradient(tape, y, wide[k]);
                assert_int_equal(sheaf_tensor_dtype(g), dtypes[d]);
                for (int64_t e = 0; e < sheaf_tensor_elements(w); e++) {
                    double want = sheaf_tensor_number(w, e), got = sheaf_tensor_number(g, e);
                    double limit = d == 0 ? 2e-6 : 5e-2;
                    if (!(fabs(got - want) <= limit * (1 + fabs(want))))
                        fail_msg("%s in %s: %g, in float64 %g", sheaf__op(c->id)->name,
                                 sheaf_dtype_name(dtypes[d]), got, want);
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(first_gradients_match_differences_S223),
        rig_test(second_gradients_match_differences_S223),
        rig_test(every_gradient_has_a_case_S223),
        rig_test(gradients_of_other_dtypes_agree),
    };
    return rig_run(tests);
}
