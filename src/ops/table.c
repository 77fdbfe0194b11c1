/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/family.h"

#define BIT(dtype) (UINT64_C(1) << (dtype))
#define FLOATS     (BIT(SHEAF_FLOAT32) | BIT(SHEAF_FLOAT64) | BIT(SHEAF_BFLOAT16))
#define NUMBERS    (FLOATS | BIT(SHEAF_INT32) | BIT(SHEAF_INT64))
#define ALL        (NUMBERS | BIT(SHEAF_BOOL))
#define ANY        (~BIT(SHEAF_STRING)) /* what is only moved */

/* name, dtypes, inputs, how many of them have one dtype, partition rule, infer, compute, gradient
 */
#define ROW(id, text, types, count, alike, rule, infer_fn, kernel_fn, gradient_fn) \
    [SHEAF__OP_##id] = {.name = (text),                                            \
                        .dtypes = (types),                                         \
                        .inputs = (count),                                         \
                        .same = (alike),                                           \
                        .partition = SHEAF__PARTITION_##rule,                      \
                        .infer = (infer_fn),                                       \
                        .kernel = (kernel_fn),                                     \
                        .gradient = (gradient_fn)}
#define I(name) sheaf__infer_##name
#define C(name) sheaf__compute_##name
#define G(name) sheaf__gradient_##name

static const struct sheaf__op table[SHEAF__OP_COUNT] = {
    ROW(ADD, "add", NUMBERS, 2, 2, ANY, I(broadcast), C(binary), G(add)),
    ROW(SUB, "sub", NUMBERS, 2, 2, ANY, I(broadcast), C(binary), G(sub)),
    ROW(MUL, "mul", NUMBERS, 2, 2, ANY, I(broadcast), C(binary), G(mul)),
    ROW(DIV, "div", NUMBERS, 2, 2, ANY, I(div), C(binary), G(div)),
    ROW(MAXIMUM, "maximum", NUMBERS, 2, 2, ANY, I(broadcast), C(binary), G(maximum)),
    ROW(EQUAL, "equal", ALL, 2, 2, ANY, I(equal), C(binary), NULL),
    ROW(GREATER_EQUAL, "greater_equal", NUMBERS, 2, 2, ANY, I(broadcast), C(binary), NULL),

    ROW(SCALE, "scale", NUMBERS, 1, 1, ANY, NULL, C(scale), G(scale)),
    ROW(NEG, "neg", NUMBERS, 1, 1, ANY, NULL, C(unary), G(neg)),
    ROW(SQUARE, "square", NUMBERS, 1, 1, ANY, NULL, C(unary), G(square)),
    ROW(SQRT, "sqrt", FLOATS, 1, 1, ANY, NULL, C(unary), G(sqrt)),
    ROW(EXP, "exp", FLOATS, 1, 1, ANY, NULL, C(unary), G(exp)),
    ROW(LOG, "log", FLOATS, 1, 1, ANY, NULL, C(unary), G(log)),
    ROW(RELU, "relu", NUMBERS, 1, 1, ANY, NULL, C(unary), G(relu)),
    ROW(SIGMOID, "sigmoid", FLOATS, 1, 1, ANY, NULL, C(unary), G(sigmoid)),
    ROW(TANH, "tanh", FLOATS, 1, 1, ANY, NULL, C(unary), G(tanh)),
    ROW(CAST, "cast", ANY, 1, 1, ANY, I(cast), C(cast), G(cast)),
    ROW(RELU_GRAD, "relu_grad", FLOATS, 2, 2, ANY, I(same_shape), C(unary_grad), G(relu_grad)),
    ROW(SIGMOID_GRAD, "sigmoid_grad", FLOATS, 2, 2, ANY, I(same_shape), C(unary_grad),
        G(sigmoid_grad)),
    ROW(TANH_GRAD, "tanh_grad", FLOATS, 2, 2, ANY, I(same_shape), C(unary_grad), G(tanh_grad)),

    ROW(MATMUL, "matmul", FLOATS, 2, 2, MATMUL, I(matmul), C(matmul), G(matmul)),
    ROW(DENSE, "dense", FLOATS, 3, 3, MATMUL, I(dense), C(dense), G(dense)),
    ROW(MATMUL_RELU_GRAD, "matmul_relu_grad", FLOATS, 3, 3, MATMUL, I(matmul_relu_grad),
        C(matmul_relu_grad), G(matmul_relu_grad)),

    ROW(TRANSPOSE, "transpose", ANY, 1, 1, GATHER, I(transpose), C(transpose), G(transpose)),
    [SHEAF__OP_RESHAPE] = {.name = "reshape",
                           .dtypes = ~UINT64_C(0),
                           .inputs = 1,
                           .same = 1,
                           .view = true,
                           .partition = SHEAF__PARTITION_GATHER,
                           .infer = I(reshape),
                           .kernel = C(reshape),
                           .gradient = G(reshape)},
    ROW(CONCAT, "concat", ANY, -1, -1, GATHER, I(concat), C(concat), G(concat)),
    ROW(SLICE, "slice", ANY, 1, 1, GATHER, I(slice), C(slice), G(slice)),
    ROW(PAD, "pad", ANY, 1, 1, GATHER, I(pad), C(pad), G(pad)),
    ROW(BROADCAST, "broadcast", ANY, 1, 1, GATHER, I(broadcast_to), C(broadcast_to),
        G(broadcast_to)),

    ROW(REDUCE_SUM, "reduce_sum", NUMBERS, 1, 1, GATHER, I(reduce), C(reduce), G(reduce_sum)),
    ROW(REDUCE_MEAN, "reduce_mean", NUMBERS, 1, 1, GATHER, I(reduce), C(reduce), G(reduce_mean)),
    ROW(ARGMAX, "argmax", NUMBERS, 1, 1, GATHER, I(argmax), C(argmax), NULL),

    ROW(SOFTMAX, "softmax", FLOATS, 1, 1, ROWS, I(softmax), C(softmax), G(softmax)),
    ROW(LOG_SOFTMAX, "log_softmax", FLOATS, 1, 1, ROWS, I(softmax), C(softmax), G(log_softmax)),
    ROW(SPARSE_XENT, "sparse_softmax_cross_entropy", FLOATS, 2, 0, ROWS, I(sparse_xent),
        C(sparse_xent), G(sparse_xent)),
    ROW(SPARSE_XENT_GRAD, "sparse_softmax_cross_entropy_grad", FLOATS, 3, 0, ROWS, I(xent_grad),
        C(xent_grad), G(xent_grad)),
    ROW(XENT, "softmax_cross_entropy", FLOATS, 2, 2, ROWS, I(xent), C(xent), G(xent)),
    ROW(XENT_GRAD, "softmax_cross_entropy_grad", FLOATS, 3, 3, ROWS, I(xent_grad), C(xent_grad),
        G(xent_grad)),
    ROW(SIGMOID_XENT, "sigmoid_cross_entropy", FLOATS, 2, 2, ANY, I(same_shape), C(sigmoid_xent),
        G(sigmoid_xent)),

    ROW(GATHER, "gather", ANY, 2, 1, GATHER, I(gather), C(gather), G(gather)),
    ROW(SCATTER, "scatter", NUMBERS, 2, 1, GATHER, I(scatter), C(scatter), G(scatter)),

    ROW(FILL, "fill", ANY, 0, 0, ANY, I(fill), C(fill), NULL),
    ROW(RANGE, "range", ANY, 0, 0, GATHER, I(range), C(range), NULL),
    ROW(RANDOM_UNIFORM, "random_uniform", FLOATS, 0, 0, GATHER, I(random), C(random), NULL),
    ROW(RANDOM_NORMAL, "random_normal", FLOATS, 0, 0, GATHER, I(random), C(random), NULL),
};

const struct sheaf__op *sheaf__op(enum sheaf__op_id id)
{
    return &table[id];
}

enum sheaf__op_id sheaf__op_id_of(const struct sheaf__op *op)
{
    return (enum sheaf__op_id)(op - table);
}
