/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_OP_H
#define SHEAF_OPS_OP_H

/** @file
 *  What an operation is: one row of the table in table.c {name, dtypes, infer, kernel, gradient,
 * partition rule}. Adding an operation is an id here, a row there and its functions in the file of
 * its family. */

#include "base/error.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

enum sheaf__op_id {
    /* elementwise.c, with broadcasting */
    SHEAF__OP_ADD,
    SHEAF__OP_SUB,
    SHEAF__OP_MUL,
    SHEAF__OP_DIV,
    SHEAF__OP_MAXIMUM,
    SHEAF__OP_EQUAL,
    SHEAF__OP_GREATER_EQUAL, /* 1 or 0 in the dtype of its inputs */
    /* unary.c */
    SHEAF__OP_SCALE,
    SHEAF__OP_NEG,
    SHEAF__OP_SQUARE,
    SHEAF__OP_SQRT,
    SHEAF__OP_EXP,
    SHEAF__OP_LOG,
    SHEAF__OP_RELU,
    SHEAF__OP_SIGMOID,
    SHEAF__OP_TANH,
    SHEAF__OP_CAST,
    SHEAF__OP_RELU_GRAD,    /* (dy, y) */
    SHEAF__OP_SIGMOID_GRAD, /* (dy, y) */
    SHEAF__OP_TANH_GRAD,    /* (dy, y) */
    /* matmul.c */
    SHEAF__OP_MATMUL,
    SHEAF__OP_DENSE,            /* (x, weights, bias); axis: the activation */
    SHEAF__OP_MATMUL_RELU_GRAD, /* (a, b, y): relu_grad(a b, y) */
    /* layout.c */
    SHEAF__OP_TRANSPOSE,
    SHEAF__OP_RESHAPE,
    SHEAF__OP_CONCAT,
    SHEAF__OP_SLICE,
    SHEAF__OP_PAD, /* zeros around: the gradient of a slice */
    SHEAF__OP_BROADCAST,
    /* reduce.c */
    SHEAF__OP_REDUCE_SUM,
    SHEAF__OP_REDUCE_MEAN,
    SHEAF__OP_ARGMAX,
    /* softmax.c, loss.c */
    SHEAF__OP_SOFTMAX,
    SHEAF__OP_LOG_SOFTMAX,
    SHEAF__OP_SPARSE_XENT,      /* (labels, logits); aux: softmax */
    SHEAF__OP_SPARSE_XENT_GRAD, /* (labels, softmax, dy) */
    SHEAF__OP_XENT,             /* (labels, logits); aux: softmax */
    SHEAF__OP_XENT_GRAD,        /* (labels, softmax, dy) */
    SHEAF__OP_SIGMOID_XENT,     /* (labels, logits) */
    /* gather.c */
    SHEAF__OP_GATHER,  /* (table, ids) */
    SHEAF__OP_SCATTER, /* (values, ids): rows added into zeros */
    /* constant.c */
    SHEAF__OP_FILL,
    SHEAF__OP_RANGE,
    SHEAF__OP_RANDOM_UNIFORM,
    SHEAF__OP_RANDOM_NORMAL,
    SHEAF__OP_COUNT
};

/** What an operation is told besides its inputs. Zero where an operation does not look. */
struct sheaf__attrs {
    sheaf_shape shape; /**< wanted shape; of SLICE the sizes */
    int64_t begin[SHEAF_MAX_RANK];
    double number[2]; /**< factor and offset; low and high; mean and deviation; value */
    int64_t start, step;
    uint64_t seed;
    uint32_t axes; /**< bit i: axis i */
    int32_t axis;
    sheaf_dtype dtype;
    bool keep; /**< reduced axes stay with size 1 */
    bool transpose_a, transpose_b;
};

/** One call of an operation. */
struct sheaf__op_call {
    const struct sheaf__op *op;
    sheaf_tensor *const *in;
    size_t count;
    const struct sheaf__attrs *attrs;
    struct sheaf__device *device;
    /* set by infer, which starts with input 0's */
    sheaf_dtype dtype;
    sheaf_shape shape;
    /* the kernel fills its elements; its maker is the dispatcher */
    sheaf_tensor *out;
    bool recorded; /**< a tape will follow the result */
    sheaf_tensor
        *aux; /**< what a kernel leaves for the gradient if `recorded`; one count, the tape's */
};

/** One step backward through an operation. */
struct sheaf__grad {
    const struct sheaf__op *op;
    sheaf_tensor *const *in;
    size_t count;
    const struct sheaf__attrs *attrs;
    sheaf_tensor *out, *aux;
    sheaf_tensor *dy;   /**< gradient of `out`, dense */
    const bool *wanted; /**< by input */
    sheaf_tensor **dx;  /**< by input, of the frame; NULL: none */
    bool watched;       /**< another tape follows this step: use recorded operations only */
    bool masked;        /**< of a relu: dy is 0 already where `out` is not positive */
    bool mask;          /**< of a product: make dx[0] so, as a relu made input 0 */
    /** Of a product: where the gradient of input 1 goes instead of dx; NULL: nowhere. */
    const struct sheaf__sink *sink;
};

/** How an operation on parts of its inputs over several devices gives the parts of its result. */
enum sheaf__partition {
    SHEAF__PARTITION_GATHER, /**< no rule: inputs are brought together first */
    SHEAF__PARTITION_ANY,    /**< elementwise: any split that all inputs share */
    SHEAF__PARTITION_ROWS,   /**< axis 0 of the first input and of the result */
    SHEAF__PARTITION_MATMUL  /**< rows of a or columns of b; a split of the inner axis sums */
};

struct sheaf__op {
    const char *name;
    uint64_t dtypes; /**< bit i: dtype i is accepted in every input that `same` covers */
    int8_t inputs;   /**< -1: one or more */
    int8_t same;     /**< the first `same` inputs have one dtype, of `dtypes` (-1: all) */
    bool view;       /**< the kernel makes `out` itself, sharing memory */
    enum sheaf__partition partition;
    /** Checks and sets dtype and shape of the result. NULL: those of input 0. */
    sheaf_status (*infer)(struct sheaf__op_call *call, sheaf_error *err);
    sheaf_status (*kernel)(struct sheaf__op_call *call, sheaf_error *err);
    /** NULL: not differentiable; what depends on it counts as constant. */
    void (*gradient)(const struct sheaf__grad *g);
};

/** The row of an operation. */
const struct sheaf__op *sheaf__op(enum sheaf__op_id id);
enum sheaf__op_id sheaf__op_id_of(const struct sheaf__op *op);

/** Runs an operation now: checks, infers, allocates, computes on the current device, records on the
 * thread's tapes. Returns a tensor of the frame, failed if something did not fit. */
sheaf_tensor *sheaf__op_run(enum sheaf__op_id id, sheaf_tensor *const *in, size_t count,
                            const struct sheaf__attrs *attrs);
sheaf_tensor *sheaf__op_run1(enum sheaf__op_id id, sheaf_tensor *a,
                             const struct sheaf__attrs *attrs);
sheaf_tensor *sheaf__op_run2(enum sheaf__op_id id, sheaf_tensor *a, sheaf_tensor *b,
                             const struct sheaf__attrs *attrs);

/* ---- for kernels ---- */

/** Elements of input `i`, row-major on the host; NULL with `err`. */
static inline const void *sheaf__op_call_data(const struct sheaf__op_call *call, size_t i,
                                              sheaf_error *err)
{
    const sheaf_tensor *t = call->in[i];
    return t->contiguous && t->data && t->device->cls->host_memory ? t->data
                                                                   : sheaf__tensor_host(t, err);
}
/** Refuses a table's shape and ids that no rows can be taken by; `who` begins the message. */
sheaf_status sheaf__gather_check(sheaf_shape table, const sheaf_tensor *ids, const char *who,
                                 sheaf_error *err);
/** A message that begins with the operation's name. */
sheaf_status sheaf__op_call_error(const struct sheaf__op_call *call, sheaf_error *err,
                                  const char *format, ...) SHEAF_PRINTF(3, 4) __attribute__((cold));

/** Elements a thread takes at a time: enough to outweigh handing over, never dependent on the
 * number of threads. */
#define SHEAF__GRAIN 16384
/** Calls fn(begin, end, user) over 0..n in pieces of `grain` on the device's threads. */
void sheaf__split(struct sheaf__device *device, size_t n, size_t grain,
                  void (*fn)(size_t begin, size_t end, void *user), void *user);

/** Axis from the user: negative counts from the end. False if out of range. */
bool sheaf__axis(int axis, int rank, int32_t *out);

#endif
