/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_OPS_HELP_H
#define SHEAF_TEST_OPS_HELP_H

/* What the tests of operations share. Include rig.h first. */

#include <sheaf/sheaf.h>

#include <math.h>

/* A tensor of the frame from the numbers that follow its shape. */
#define F32(shape, ...) sheaf_tensor_new(SHEAF_FLOAT32, (shape), (const float[]){__VA_ARGS__})
#define F64(shape, ...) sheaf_tensor_new(SHEAF_FLOAT64, (shape), (const double[]){__VA_ARGS__})
#define I32(shape, ...) sheaf_tensor_new(SHEAF_INT32, (shape), (const int32_t[]){__VA_ARGS__})
#define I64(shape, ...) sheaf_tensor_new(SHEAF_INT64, (shape), (const int64_t[]){__VA_ARGS__})

/* The tensor is good, of that dtype, and holds these numbers (within `limit`, relative beyond 1).
 */
static inline void expect_numbers(sheaf_tensor *t, sheaf_dtype dtype, sheaf_shape shape,
                                  const double *wanted, double limit)
{
    sheaf_error err = {0};
    rig_ok(sheaf_tensor_status(t, &err), &err);
    assert_int_equal(sheaf_tensor_dtype(t), dtype);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(t), shape));
    for (int64_t i = 0; i < sheaf_tensor_elements(t); i++) {
        double got = sheaf_tensor_number(t, i), scale = fabs(wanted[i]) > 1 ? fabs(wanted[i]) : 1;
        if (isnan(wanted[i]) ? !isnan(got)
                             : !(fabs(got - wanted[i]) <= limit * scale) && got != wanted[i])
            fail_msg("element %d is %.17g, expected %.17g", (int)i, got, wanted[i]);
    }
}
#define EXPECT(t, dtype, shape, ...) \
    expect_numbers((t), (dtype), (shape), (const double[]){__VA_ARGS__}, 1e-6)

/* The tensor failed with INVALID_ARGUMENT and a message that contains `part`. */
static inline void expect_failed(sheaf_tensor *t, const char *part)
{
    sheaf_error err = {0};
    rig_fails(sheaf_tensor_status(t, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, part);
}

/* For rig_fail_allocations(): runs `fn` under a context of its own, so that what pools keep goes
 * with it. */
static inline sheaf_status in_own_context(sheaf_status (*fn)(sheaf_error *err), sheaf_error *err)
{
    static const char *const nothing[] = {NULL};
    sheaf_context *context = NULL;
    const sheaf_context_options options = {.environment = nothing};
    sheaf_status status = sheaf_context_new(&options, &context, err);
    if (status < 0)
        return status;
    sheaf_context *before = sheaf_context_enter(context);
    SHEAF_FRAME status = fn(err);
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

#endif
