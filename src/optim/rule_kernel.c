/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_kernel.h"

#include "base/cpu.h"
#include "base/independent.h"

#include <math.h>

/* How RMSprop's families differ. */
enum rmsprop_form {
    INSIDE,  /* keras3: averages are weighted, epsilon is inside the root */
    OUTSIDE, /* legacy without momentum: the same, epsilon outside */
    FUSED    /* averages are moved by their distance, epsilon is inside */
};

#define T         float
#define NAME(x)   x##_float
#define SQRT(x)   sqrtf(x)
#define POW(x, y) powf((x), (y))
#include "optim/rule_body.h"
#undef T
#undef NAME
#undef SQRT
#undef POW

#define T         double
#define NAME(x)   x##_double
#define SQRT(x)   sqrt(x)
#define POW(x, y) pow((x), (y))
#include "optim/rule_body.h"
#undef T
#undef NAME
#undef SQRT
#undef POW

/* X(target, type, isa, formula, body, arguments): the plain kernels, and those with given squares.
 */
#define PLAIN(X, target, type, isa)                                                               \
    X(target, type, isa, SGD, sgd, (k, lane, n))                                                  \
    X(target, type, isa, MOMENTUM, momentum, (k, lane, n, false))                                 \
    X(target, type, isa, NESTEROV, momentum, (k, lane, n, true))                                  \
    X(target, type, isa, MOMENTUM_V1, momentum_v1, (k, lane, n, false))                           \
    X(target, type, isa, NESTEROV_V1, momentum_v1, (k, lane, n, true))                            \
    X(target, type, isa, ADAM, adam, (k, lane, n, false, false))                                  \
    X(target, type, isa, AMSGRAD, adam, (k, lane, n, true, false))                                \
    X(target, type, isa, ADAGRAD, adagrad, (k, lane, n, false, false))                            \
    X(target, type, isa, ADAGRAD_OUTSIDE, adagrad, (k, lane, n, true, false))                     \
    X(target, type, isa, RMSPROP, rmsprop, (k, lane, n, INSIDE, false, false, false))             \
    X(target, type, isa, RMSPROP_MOMENTUM, rmsprop, (k, lane, n, INSIDE, true, false, false))     \
    X(target, type, isa, RMSPROP_CENTERED, rmsprop, (k, lane, n, INSIDE, false, true, false))     \
    X(target, type, isa, RMSPROP_CENTERED_MOMENTUM, rmsprop,                                      \
      (k, lane, n, INSIDE, true, true, false))                                                    \
    X(target, type, isa, RMSPROP_OUTSIDE, rmsprop, (k, lane, n, OUTSIDE, false, false, false))    \
    X(target, type, isa, RMSPROP_OUTSIDE_CENTERED, rmsprop,                                       \
      (k, lane, n, OUTSIDE, false, true, false))                                                  \
    X(target, type, isa, RMSPROP_FUSED, rmsprop, (k, lane, n, FUSED, true, false, false))         \
    X(target, type, isa, RMSPROP_FUSED_CENTERED, rmsprop, (k, lane, n, FUSED, true, true, false)) \
    X(target, type, isa, FTRL, ftrl, (k, lane, n, false, false))                                  \
    X(target, type, isa, FTRL_POWER, ftrl, (k, lane, n, true, false))                             \
    X(target, type, isa, ADADELTA, adadelta, (k, lane, n, false))                                 \
    X(target, type, isa, ADAMAX, adamax, (k, lane, n, false))                                     \
    X(target, type, isa, NADAM, nadam, (k, lane, n, false))                                       \
    X(target, type, isa, LION, lion, (k, lane, n))                                                \
    X(target, type, isa, DECAY, decay, (k, lane, n))
#define SQUARED(X, target, type, isa)                                                        \
    X(target, type, isa, ADAM, adam, (k, lane, n, false, true))                              \
    X(target, type, isa, AMSGRAD, adam, (k, lane, n, true, true))                            \
    X(target, type, isa, ADAGRAD, adagrad, (k, lane, n, false, true))                        \
    X(target, type, isa, RMSPROP, rmsprop, (k, lane, n, INSIDE, false, false, true))         \
    X(target, type, isa, RMSPROP_MOMENTUM, rmsprop, (k, lane, n, INSIDE, true, false, true)) \
    X(target, type, isa, RMSPROP_CENTERED, rmsprop, (k, lane, n, INSIDE, false, true, true)) \
    X(target, type, isa, RMSPROP_CENTERED_MOMENTUM, rmsprop,                                 \
      (k, lane, n, INSIDE, true, true, true))                                                \
    X(target, type, isa, FTRL, ftrl, (k, lane, n, false, true))                              \
    X(target, type, isa, FTRL_POWER, ftrl, (k, lane, n, true, true))                         \
    X(target, type, isa, ADADELTA, adadelta, (k, lane, n, true))                             \
    X(target, type, isa, ADAMAX, adamax, (k, lane, n, true))                                 \
    X(target, type, isa, NADAM, nadam, (k, lane, n, true))

#define FUNCTION(target, prefix, type, isa, formula, body, arguments)                         \
    target static void prefix##_##formula##_##type##_##isa(                                   \
        const struct sheaf__rule_constants *k, const struct sheaf__rule_lane *lane, size_t n) \
    {                                                                                         \
        body##_##type arguments;                                                              \
    }
#define PLAIN_FUNCTION(target, type, isa, formula, body, arguments) \
    FUNCTION(target, plain, type, isa, formula, body, arguments)
#define SQUARED_FUNCTION(target, type, isa, formula, body, arguments) \
    FUNCTION(target, squared, type, isa, formula, body, arguments)
#define PLAIN_ENTRY(target, type, isa, formula, body, arguments) \
    [SHEAF__FORMULA_##formula] = plain_##formula##_##type##_##isa,
#define SQUARED_ENTRY(target, type, isa, formula, body, arguments) \
    [SHEAF__FORMULA_##formula] = squared_##formula##_##type##_##isa,

/* All kernels of a type for an instruction set, and their table. */
#define KERNELS(target, type, isa)                                     \
    PLAIN(PLAIN_FUNCTION, target, type, isa)                           \
    SQUARED(SQUARED_FUNCTION, target, type, isa)                       \
    static const struct sheaf__rule_kernels kernels_##type##_##isa = { \
        .plain = {PLAIN(PLAIN_ENTRY, target, type, isa)},              \
        .squares = {SQUARED(SQUARED_ENTRY, target, type, isa)},        \
    };

#define PORTABLE
KERNELS(PORTABLE, float, base)
KERNELS(PORTABLE, double, base)
#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
KERNELS(AVX2, float, avx2)
KERNELS(AVX2, double, avx2)
#endif

const struct sheaf__rule_kernels *sheaf__rule_kernels(sheaf_dtype dtype, bool portable)
{
#if defined(__x86_64__)
    if (!portable && sheaf__cpu_features()->avx2)
        return dtype == SHEAF_FLOAT64 ? &kernels_double_avx2 : &kernels_float_avx2;
#endif
    (void)portable;
    return dtype == SHEAF_FLOAT64 ? &kernels_double_base : &kernels_float_base;
}
