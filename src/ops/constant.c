/* SPDX-License-Identifier: Apache-2.0 */
/* Operations without inputs. */
#include "ops/family.h"
#include "ops/initializer.h"
#include "ops/stateful.h"

#include "tensor/kernel.h"

#include <sheaf/ops.h>

sheaf_status sheaf__infer_fill(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_dtype dtype = call->attrs->dtype;
    if (!sheaf__kernel_can_cast(dtype, SHEAF_FLOAT64))
        return sheaf__op_call_error(call, err, "no numbers of dtype %s", sheaf_dtype_name(dtype));
    call->dtype = dtype;
    call->shape = call->attrs->shape;
    int64_t elements;
    size_t bytes;
    return sheaf__shape_bytes(dtype, call->shape, &elements, &bytes, err);
}

sheaf_status sheaf__compute_fill(struct sheaf__op_call *call, sheaf_error *err)
{
    (void)err;
    sheaf__kernel_fill(sheaf__tensor_out(call->out), call->dtype, call->attrs->number[0],
                       (size_t)sheaf_shape_elements(call->shape));
    return SHEAF_OK;
}

sheaf_status sheaf__infer_range(struct sheaf__op_call *call, sheaf_error *err)
{
    int64_t start = call->attrs->start, step = call->attrs->step,
            limit = call->attrs->shape.dims[0];
    if (step == 0)
        return sheaf__op_call_error(call, err, "step 0");
    /* The distance fits an unsigned number whatever the ends. */
    bool empty = step > 0 ? start >= limit : start <= limit;
    uint64_t distance =
        step > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    call->dtype = SHEAF_INT64;
    call->shape = SHEAF_SHAPE(empty ? 0 : (int64_t)((distance - 1) / stride + 1));
    return SHEAF_OK;
}

sheaf_status sheaf__compute_range(struct sheaf__op_call *call, sheaf_error *err)
{
    (void)err;
    int64_t *out = sheaf__tensor_out(call->out);
    /* All that are wanted fit; a step from the last one may not, and wraps. */
    uint64_t next = (uint64_t)call->attrs->start;
    for (int64_t i = 0; i < call->shape.dims[0]; i++, next += (uint64_t)call->attrs->step)
        out[i] = (int64_t)next;
    return SHEAF_OK;
}

/* Its seed is 0 if none was given. */
static sheaf_initializer random_of_call(const struct sheaf__op_call *call)
{
    const double *number = call->attrs->number;
    const bool normal = sheaf__op_id_of(call->op) == SHEAF__OP_RANDOM_NORMAL;
    return (normal ? sheaf_init_normal : sheaf_init_uniform)(number[0], number[1],
                                                             call->attrs->seed);
}

sheaf_status sheaf__infer_random(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_dtype dtype = call->attrs->dtype;
    const sheaf_initializer random = random_of_call(call);
    if (sheaf__initializer_check(&random, dtype, err) < 0) {
        sheaf__error_prefix(err, "%s", call->op->name);
        return SHEAF_ERR_INVALID_ARGUMENT;
    }
    return sheaf__infer_fill(call, err);
}

sheaf_status sheaf__compute_random(struct sheaf__op_call *call, sheaf_error *err)
{
    sheaf_initializer random = random_of_call(call);
    if (!random.seed)
        random.seed = sheaf__initializer_seed();
    const sheaf_initial_part all = {call->dtype, call->shape, 0,
                                    (uint64_t)sheaf_shape_elements(call->shape)};
    return sheaf__initializer_run(&random, call->device, sheaf__tensor_out(call->out), &all, err);
}

/* ---- public calls ---- */

sheaf_tensor *sheaf_fill(sheaf_dtype dtype, sheaf_shape shape, double value)
{
    const struct sheaf__attrs attrs = {.dtype = dtype, .shape = shape, .number = {value}};
    return sheaf__op_run(SHEAF__OP_FILL, NULL, 0, &attrs);
}
sheaf_tensor *sheaf_zeros(sheaf_dtype dtype, sheaf_shape shape)
{
    return sheaf_fill(dtype, shape, 0);
}
sheaf_tensor *sheaf_ones(sheaf_dtype dtype, sheaf_shape shape)
{
    return sheaf_fill(dtype, shape, 1);
}
sheaf_tensor *sheaf_range(int64_t start, int64_t limit, int64_t step)
{
    const struct sheaf__attrs attrs = {
        .start = start, .step = step, .shape = sheaf_shape_of(1, &limit)};
    return sheaf__op_run(SHEAF__OP_RANGE, NULL, 0, &attrs);
}

static sheaf_tensor *random_of(enum sheaf__op_id id, const struct sheaf__attrs *attrs)
{
    if (attrs->seed == 0)
        sheaf__stateful_called("a random operation without a seed");
    return sheaf__op_run(id, NULL, 0, attrs);
}
sheaf_tensor *sheaf_random_uniform(sheaf_dtype dtype, sheaf_shape shape, double low, double high,
                                   uint64_t seed)
{
    const struct sheaf__attrs attrs = {
        .dtype = dtype, .shape = shape, .number = {low, high}, .seed = seed};
    return random_of(SHEAF__OP_RANDOM_UNIFORM, &attrs);
}
sheaf_tensor *sheaf_random_normal(sheaf_dtype dtype, sheaf_shape shape, double mean,
                                  double deviation, uint64_t seed)
{
    const struct sheaf__attrs attrs = {
        .dtype = dtype, .shape = shape, .number = {mean, deviation}, .seed = seed};
    return random_of(SHEAF__OP_RANDOM_NORMAL, &attrs);
}
