/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_H
#define SHEAF_OPS_H

/** @file
 *  Operations on tensors, and the tape that differentiates them.
 *
 *  Every operation is a builder: it returns a tensor of the innermost frame, failed if an argument is failed or does
 *  not fit (the message names the operation and both shapes or dtypes). Operations compute on float32, bfloat16,
 *  float64, int32, int64 and bool where that makes sense, on dense tensors, and never convert dtypes by themselves.
 *  Broadcasting is NumPy's. They run on the device of the innermost SHEAF_DEVICE, else of the replica. Any thread. */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

/* Arithmetic, elementwise with broadcasting. */
SHEAF_API sheaf_tensor *sheaf_add(sheaf_tensor *a, sheaf_tensor *b);
SHEAF_API sheaf_tensor *sheaf_sub(sheaf_tensor *a, sheaf_tensor *b);
SHEAF_API sheaf_tensor *sheaf_mul(sheaf_tensor *a, sheaf_tensor *b);
/** True division: integers give float64, as in Python (R4.20). */
SHEAF_API sheaf_tensor *sheaf_div(sheaf_tensor *a, sheaf_tensor *b);
SHEAF_API sheaf_tensor *sheaf_maximum(sheaf_tensor *a, sheaf_tensor *b);
/** a == b as bool. */
SHEAF_API sheaf_tensor *sheaf_equal(sheaf_tensor *a, sheaf_tensor *b);

/** t * factor + offset with the scalars converted to the dtype of t. */
SHEAF_API sheaf_tensor *sheaf_scale(sheaf_tensor *t, double factor, double offset);

/* Elementwise functions. */
SHEAF_API sheaf_tensor *sheaf_neg(sheaf_tensor *t);
SHEAF_API sheaf_tensor *sheaf_square(sheaf_tensor *t);
SHEAF_API sheaf_tensor *sheaf_sqrt(sheaf_tensor *t);
SHEAF_API sheaf_tensor *sheaf_exp(sheaf_tensor *t);
SHEAF_API sheaf_tensor *sheaf_log(sheaf_tensor *t);
SHEAF_API sheaf_tensor *sheaf_relu(sheaf_tensor *t);
SHEAF_API sheaf_tensor *sheaf_sigmoid(sheaf_tensor *t);
SHEAF_API sheaf_tensor *sheaf_tanh(sheaf_tensor *t);
/** Converts as TensorFlow's cast: floats to integers toward zero. */
SHEAF_API sheaf_tensor *sheaf_cast(sheaf_tensor *t, sheaf_dtype dtype);

/** Matrix product (m, k) x (k, n) -> (m, n). float32, bfloat16, float64. */
SHEAF_API sheaf_tensor *sheaf_matmul(sheaf_tensor *a, sheaf_tensor *b);
/** The same with either matrix transposed first. */
SHEAF_API sheaf_tensor *sheaf_matmul_ex(sheaf_tensor *a, sheaf_tensor *b, bool transpose_a,
                                        bool transpose_b);

/** What follows a dense layer's sum. */
typedef enum sheaf_activation {
    SHEAF_ACTIVATION_NONE = 0,
    SHEAF_ACTIVATION_RELU = 1
} sheaf_activation;
/** A dense layer: activation(x (m, k) · weights (k, n) + bias (n)) in one pass over the result. */
SHEAF_API sheaf_tensor *sheaf_dense(sheaf_tensor *x, sheaf_tensor *weights, sheaf_tensor *bias,
                                    sheaf_activation activation);

/* Shapes. */
/** One size may be -1: it is computed. A view where the layout allows. */
SHEAF_API sheaf_tensor *sheaf_reshape(sheaf_tensor *t, sheaf_shape shape);
/** Joins `count` tensors along `axis` (negative: from the end). */
SHEAF_API sheaf_tensor *sheaf_concat(sheaf_tensor *const *tensors, size_t count, int axis);
SHEAF_API sheaf_tensor *sheaf_transpose(sheaf_tensor *t);

/* Reductions. `axes` NULL reduces all; a negative axis counts from the end. */
SHEAF_API sheaf_tensor *sheaf_reduce_sum(sheaf_tensor *t, const int *axes, size_t count);
SHEAF_API sheaf_tensor *sheaf_reduce_mean(sheaf_tensor *t, const int *axes, size_t count);
/** Index of the largest element along `axis`, the first of equal ones; NaNs are passed over, as in TensorFlow. int64. */
SHEAF_API sheaf_tensor *sheaf_argmax(sheaf_tensor *t, int axis);
/** Mean of all elements / sum of all elements. */
SHEAF_API sheaf_tensor *sheaf_mean(sheaf_tensor *t);
SHEAF_API sheaf_tensor *sheaf_sum(sheaf_tensor *t);

/* Losses, one value per example (row). */
SHEAF_API sheaf_tensor *sheaf_softmax(sheaf_tensor *logits);
/** labels: int32 or int64 (n); logits (n, classes) -> (n). A label outside the classes fails, naming row and label. */
SHEAF_API sheaf_tensor *sheaf_sparse_softmax_cross_entropy(sheaf_tensor *labels,
                                                           sheaf_tensor *logits);
/** labels: probabilities like logits (n, classes) -> (n). */
SHEAF_API sheaf_tensor *sheaf_softmax_cross_entropy(sheaf_tensor *labels, sheaf_tensor *logits);
/** labels and logits of one shape -> that shape. */
SHEAF_API sheaf_tensor *sheaf_sigmoid_cross_entropy(sheaf_tensor *labels, sheaf_tensor *logits);

/** Rows `ids` (int32 or int64, any shape) of `table` (rows, …) -> ids' shape + (…). Its gradient is sparse: rows and
 *  values. An id out of range fails, naming it. For a variable use sheaf_embedding_lookup (variable.h). */
SHEAF_API sheaf_tensor *sheaf_gather(sheaf_tensor *table, sheaf_tensor *ids);

/* Constants. */
SHEAF_API sheaf_tensor *sheaf_zeros(sheaf_dtype dtype, sheaf_shape shape);
SHEAF_API sheaf_tensor *sheaf_ones(sheaf_dtype dtype, sheaf_shape shape);
SHEAF_API sheaf_tensor *sheaf_fill(sheaf_dtype dtype, sheaf_shape shape, double value);
/** limit integers start, start + step, … below `limit` (int64). */
SHEAF_API sheaf_tensor *sheaf_range(int64_t start, int64_t limit, int64_t step);
/** Uniform in [low, high), from Philox with `seed` (0: the next seed of the context). Fails if low is above high, or one of
 *  them, or their difference, is not finite in the dtype; low equal to high gives low. */
SHEAF_API sheaf_tensor *sheaf_random_uniform(sheaf_dtype dtype, sheaf_shape shape, double low,
                                             double high, uint64_t seed);
/** The same of a normal distribution. Fails if mean or deviation is not finite, or the deviation negative. */
SHEAF_API sheaf_tensor *sheaf_random_normal(sheaf_dtype dtype, sheaf_shape shape, double mean,
                                            double deviation, uint64_t seed);

/* Gradients. */

typedef struct sheaf_tape sheaf_tape;

/** Starts recording the operations of the calling thread. Reads of trainable variables and watched tensors are followed.
 *  The tape belongs to the innermost frame; it stops when a gradient was taken (unless persistent). Tapes nest. */
SHEAF_API sheaf_tape *sheaf_tape_start(void);
/** The same, for several gradients. */
SHEAF_API sheaf_tape *sheaf_tape_start_persistent(void);
/** Follows `t`, too. */
SHEAF_API void sheaf_tape_watch(sheaf_tape *tape, sheaf_tensor *t);
/** d sum(target) / d source; zeros of its shape if target does not depend on it. A sparse gradient comes dense. */
SHEAF_API sheaf_tensor *sheaf_tape_gradient(sheaf_tape *tape, sheaf_tensor *target,
                                            sheaf_tensor *source);

SHEAF_END_DECLS

#endif
