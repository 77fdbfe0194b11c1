/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_FAMILY_H
#define SHEAF_OPS_FAMILY_H

/** @file
 *  Functions of the operations' rows, and what gradients share. For the table and the families
 * only. */

#include "ops/op.h"

#define SHEAF__INFER(name) \
    sheaf_status sheaf__infer_##name(struct sheaf__op_call *call, sheaf_error *err)
#define SHEAF__COMPUTE(name) \
    sheaf_status sheaf__compute_##name(struct sheaf__op_call *call, sheaf_error *err)
#define SHEAF__GRADIENT(name) void sheaf__gradient_##name(const struct sheaf__grad *g)

/* elementwise.c */
SHEAF__INFER(broadcast);
SHEAF__INFER(div);
SHEAF__INFER(equal);
SHEAF__COMPUTE(binary);
SHEAF__GRADIENT(add);
SHEAF__GRADIENT(sub);
SHEAF__GRADIENT(mul);
SHEAF__GRADIENT(div);
SHEAF__GRADIENT(maximum);
/** Sums what broadcasting repeated, so that a gradient has the shape of its input. */
sheaf_tensor *sheaf__sum_to(sheaf_tensor *t, sheaf_shape shape);

/* unary.c */
SHEAF__INFER(cast);
SHEAF__INFER(same_shape);
SHEAF__COMPUTE(unary);
SHEAF__COMPUTE(scale);
SHEAF__COMPUTE(cast);
SHEAF__COMPUTE(unary_grad);
SHEAF__GRADIENT(scale);
SHEAF__GRADIENT(neg);
SHEAF__GRADIENT(square);
SHEAF__GRADIENT(sqrt);
SHEAF__GRADIENT(exp);
SHEAF__GRADIENT(log);
SHEAF__GRADIENT(relu);
SHEAF__GRADIENT(sigmoid);
SHEAF__GRADIENT(tanh);
SHEAF__GRADIENT(cast);
SHEAF__GRADIENT(relu_grad);
SHEAF__GRADIENT(sigmoid_grad);
SHEAF__GRADIENT(tanh_grad);
/** dy where y > 0, else 0; `out` may be `dy`. Of the dtypes that are float. */
void sheaf__relu_grad(sheaf_dtype dtype, void *out, const void *dy, const void *y, size_t n);

/* matmul.c */
SHEAF__INFER(matmul);
SHEAF__COMPUTE(matmul);
SHEAF__GRADIENT(matmul);
SHEAF__INFER(dense);
SHEAF__COMPUTE(dense);
SHEAF__GRADIENT(dense);
SHEAF__INFER(matmul_relu_grad);
SHEAF__COMPUTE(matmul_relu_grad);
SHEAF__GRADIENT(matmul_relu_grad);

/* layout.c */
SHEAF__INFER(reshape);
SHEAF__INFER(transpose);
SHEAF__INFER(broadcast_to);
SHEAF__INFER(slice);
SHEAF__INFER(pad);
SHEAF__INFER(concat);
SHEAF__COMPUTE(reshape);
SHEAF__COMPUTE(transpose);
SHEAF__COMPUTE(broadcast_to);
SHEAF__COMPUTE(slice);
SHEAF__COMPUTE(pad);
SHEAF__COMPUTE(concat);
SHEAF__GRADIENT(reshape);
SHEAF__GRADIENT(transpose);
SHEAF__GRADIENT(broadcast_to);
SHEAF__GRADIENT(slice);
SHEAF__GRADIENT(pad);
SHEAF__GRADIENT(concat);

/* reduce.c */
SHEAF__INFER(reduce);
SHEAF__INFER(argmax);
SHEAF__COMPUTE(reduce);
SHEAF__COMPUTE(argmax);
SHEAF__GRADIENT(reduce_sum);
SHEAF__GRADIENT(reduce_mean);

/* softmax.c */
SHEAF__INFER(softmax);
SHEAF__INFER(sparse_xent);
SHEAF__INFER(xent);
SHEAF__INFER(xent_grad);
SHEAF__COMPUTE(softmax);
SHEAF__COMPUTE(sparse_xent);
SHEAF__COMPUTE(xent);
SHEAF__COMPUTE(xent_grad);
SHEAF__COMPUTE(sigmoid_xent);
SHEAF__GRADIENT(softmax);
SHEAF__GRADIENT(log_softmax);
SHEAF__GRADIENT(sparse_xent);
SHEAF__GRADIENT(xent);
SHEAF__GRADIENT(xent_grad);
SHEAF__GRADIENT(sigmoid_xent);

/* gather.c */
SHEAF__INFER(gather);
SHEAF__INFER(scatter);
SHEAF__COMPUTE(gather);
SHEAF__COMPUTE(scatter);
SHEAF__GRADIENT(gather);
SHEAF__GRADIENT(scatter);
/** Gradient of a table of which the rows `ids` were read and got `dy`: rows; dense and recorded if
 * somebody differentiates it. */
sheaf_tensor *sheaf__gather_rows(sheaf_tensor *dy, sheaf_tensor *ids, sheaf_shape table,
                                 bool watched);

/* constant.c */
SHEAF__INFER(fill);
SHEAF__INFER(range);
SHEAF__INFER(random);
SHEAF__COMPUTE(fill);
SHEAF__COMPUTE(range);
SHEAF__COMPUTE(random);

#endif
