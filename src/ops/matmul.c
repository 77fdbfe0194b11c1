/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/family.h"
#include "ops/gemm.h"

#include <sheaf/ops.h>

sheaf_status sheaf__infer_matmul(struct sheaf__op_call *call, sheaf_error *err)
{
    const struct sheaf__attrs *attrs = call->attrs;
    sheaf_shape a = call->in[0]->shape, b = call->in[1]->shape;
    if (a.rank != 2 || b.rank != 2)
        return sheaf__op_call_error(call, err, "shapes %s and %s (dtype %s), wanted two matrices",
                                    SHEAF__SHAPE_TEXT(a), SHEAF__SHAPE_TEXT(b),
                                    sheaf_dtype_name(call->dtype));
    if (a.dims[!attrs->transpose_a] != b.dims[attrs->transpose_b])
        return sheaf__op_call_error(
            call, err, "shapes %s%s and %s%s (dtype %s) do not fit: inner sizes %lld and %lld",
            SHEAF__SHAPE_TEXT(a), attrs->transpose_a ? " transposed" : "", SHEAF__SHAPE_TEXT(b),
            attrs->transpose_b ? " transposed" : "", sheaf_dtype_name(call->dtype),
            (long long)a.dims[!attrs->transpose_a], (long long)b.dims[attrs->transpose_b]);
    call->shape.dims[0] = a.dims[attrs->transpose_a];
    call->shape.dims[1] = b.dims[!attrs->transpose_b];
    return SHEAF_OK;
}

static struct sheaf__gemm product_of(const struct sheaf__op_call *call, sheaf_error *err)
{
    const struct sheaf__attrs *attrs = call->attrs;
    const sheaf_tensor *a = call->in[0], *b = call->in[1];
    return (struct sheaf__gemm){
        .dtype = call->dtype,
        .transpose_a = attrs->transpose_a,
        .transpose_b = attrs->transpose_b,
        .m = call->shape.dims[0],
        .n = call->shape.dims[1],
        .k = a->shape.dims[!attrs->transpose_a],
        .a = sheaf__op_call_data(call, 0, err),
        .b = sheaf__op_call_data(call, 1, err),
        .lda = a->shape.dims[1],
        .ldb = b->shape.dims[1],
        .ldc = call->shape.dims[1],
    };
}

sheaf_status sheaf__compute_matmul(struct sheaf__op_call *call, sheaf_error *err)
{
    struct sheaf__gemm g = product_of(call, err);
    if (!g.a || !g.b)
        return err->status;
    g.c = sheaf__tensor_out(call->out);
    return sheaf__gemm_run(call->device, &g, err);
}

/* The same without a result: its elements go to the sink. */
static sheaf_status compute_to_sink(struct sheaf__op_call *call, const struct sheaf__sink *sink,
                                    sheaf_error *err)
{
    call->device = sheaf__device_current(err);
    if (!call->device)
        return err->status;
    SHEAF__TRY(sheaf__infer_matmul(call, err));
    struct sheaf__gemm g = product_of(call, err);
    g.sink = sink;
    if (!g.a || !g.b)
        return err->status;
    return sheaf__gemm_run(call->device, &g, err);
}

/* op(a) op(b) as the gradient of input `k`. */
static void give_product(const struct sheaf__grad *g, size_t k, sheaf_tensor *a, sheaf_tensor *b,
                         const struct sheaf__attrs *attrs)
{
    const struct sheaf__sink *sink = k == 1 ? g->sink : NULL;
    if (k == 0 && g->mask) {
        sheaf_tensor *in[] = {a, b, g->in[0]};
        g->dx[0] = sheaf__op_run(SHEAF__OP_MATMUL_RELU_GRAD, in, 3, attrs);
        return;
    }
    if (!sink) {
        g->dx[k] = sheaf__op_run2(SHEAF__OP_MATMUL, a, b, attrs);
        return;
    }
    sheaf_error err = {0};
    struct sheaf__op_call call = {.op = sheaf__op(SHEAF__OP_MATMUL),
                                  .in = (sheaf_tensor *[]){a, b},
                                  .count = 2,
                                  .attrs = attrs,
                                  .dtype = a->dtype,
                                  .shape = a->shape};
    if (compute_to_sink(&call, sink, &err) < 0)
        g->dx[k] = sheaf__tensor_give(NULL, &err);
}

/* With A' = op(A), B' = op(B) and C = A' B': dA' = dC B'^T, dB' = A'^T dC; a transposed input gets
 * the transpose. */
void sheaf__gradient_matmul(const struct sheaf__grad *g)
{
    bool ta = g->attrs->transpose_a, tb = g->attrs->transpose_b;
    sheaf_tensor *a = g->in[0], *b = g->in[1], *dy = g->dy;
    const struct sheaf__attrs da = {.transpose_a = ta && tb, .transpose_b = ta || !tb};
    const struct sheaf__attrs db = {.transpose_a = tb || !ta, .transpose_b = ta && tb};
    if (g->wanted[0])
        give_product(g, 0, ta ? b : dy, ta ? dy : b, &da);
    if (g->wanted[1])
        give_product(g, 1, tb ? dy : a, tb ? a : dy, &db);
}

/* ---- dense layers ---- */

sheaf_status sheaf__infer_dense(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_shape bias = call->in[2]->shape;
    int32_t activation = call->attrs->axis;
    SHEAF__TRY(sheaf__infer_matmul(call, err));
    if (bias.rank != 1 || bias.dims[0] != call->shape.dims[1])
        return sheaf__op_call_error(call, err, "bias of shape %s (dtype %s), wanted (%lld,)",
                                    SHEAF__SHAPE_TEXT(bias), sheaf_dtype_name(call->dtype),
                                    (long long)call->shape.dims[1]);
    if (activation != SHEAF_ACTIVATION_NONE && activation != SHEAF_ACTIVATION_RELU)
        return sheaf__op_call_error(call, err, "activation %d, wanted 0 or 1", activation);
    return SHEAF_OK;
}

sheaf_status sheaf__compute_dense(struct sheaf__op_call *call, sheaf_error *err)
{
    struct sheaf__gemm g = product_of(call, err);
    g.c = sheaf__tensor_out(call->out);
    g.bias = sheaf__op_call_data(call, 2, err);
    g.relu = call->attrs->axis == SHEAF_ACTIVATION_RELU;
    if (!g.a || !g.b || !g.bias)
        return err->status;
    return sheaf__gemm_run(call->device, &g, err);
}

void sheaf__gradient_dense(const struct sheaf__grad *g)
{
    struct sheaf__grad product = *g;
    if (g->attrs->axis == SHEAF_ACTIVATION_RELU && !g->masked)
        product.dy = sheaf__op_run2(SHEAF__OP_RELU_GRAD, g->dy, g->out, NULL);
    if (sheaf__tensor_ok(product.dy))
        sheaf__gradient_matmul(&product);
    if (g->wanted[2])
        g->dx[2] = sheaf__sum_to(product.dy, g->in[2]->shape);
}

sheaf_tensor *sheaf_dense(sheaf_tensor *x, sheaf_tensor *weights, sheaf_tensor *bias,
                          sheaf_activation activation)
{
    const struct sheaf__attrs attrs = {.axis = (int32_t)activation};
    return sheaf__op_run(SHEAF__OP_DENSE, (sheaf_tensor *[]){x, weights, bias}, 3, &attrs);
}

/* ---- what flows into a layer after a relu ---- */

sheaf_status sheaf__infer_matmul_relu_grad(struct sheaf__op_call *call, sheaf_error *err)
{
    SHEAF__TRY(sheaf__infer_matmul(call, err));
    if (!sheaf_shape_equal(call->in[2]->shape, call->shape))
        return sheaf__op_call_error(call, err, "shapes %s of the product and %s differ",
                                    SHEAF__SHAPE_TEXT(call->shape),
                                    SHEAF__SHAPE_TEXT(call->in[2]->shape));
    return SHEAF_OK;
}

sheaf_status sheaf__compute_matmul_relu_grad(struct sheaf__op_call *call, sheaf_error *err)
{
    struct sheaf__gemm g = product_of(call, err);
    g.c = sheaf__tensor_out(call->out);
    g.mask = sheaf__op_call_data(call, 2, err);
    if (!g.a || !g.b || !g.mask)
        return err->status;
    return sheaf__gemm_run(call->device, &g, err);
}

/* Nothing flows to y. */
void sheaf__gradient_matmul_relu_grad(const struct sheaf__grad *g)
{
    struct sheaf__grad product = *g;
    product.dy = sheaf__op_run2(SHEAF__OP_RELU_GRAD, g->dy, g->in[2], NULL);
    if (sheaf__tensor_ok(product.dy))
        sheaf__gradient_matmul(&product);
}

/* ---- public products ---- */

sheaf_tensor *sheaf_matmul(sheaf_tensor *a, sheaf_tensor *b)
{
    return sheaf__op_run2(SHEAF__OP_MATMUL, a, b, NULL);
}

sheaf_tensor *sheaf_matmul_ex(sheaf_tensor *a, sheaf_tensor *b, bool transpose_a, bool transpose_b)
{
    const struct sheaf__attrs attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    return sheaf__op_run2(SHEAF__OP_MATMUL, a, b, &attrs);
}
