/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_RULE_KERNEL_H
#define SHEAF_OPTIM_RULE_KERNEL_H

/* The loops of the rules: one for every formula, in float and double, for this processor. */

#include "optim/rule.h"

/* Constants of one step, already rounded to the type the rule computes in. */
struct sheaf__rule_constants {
    double lr;
    double decay; /* weight decay */
    double momentum;
    double alpha; /* Adam: the rate with both corrections in it, Adamax: with that of beta1 */
    double gain1; /* 1 - beta1 */
    double gain2; /* 1 - beta2, or 1 - rho */
    double rho;   /* Adamax, Lion: beta2; Lion's beta1 is `momentum` */
    double epsilon;
    double l1;
    double l2_twice; /* Ftrl: 2 (l2 + beta / (2 lr)) */
    double shrink_twice;
    double power; /* Ftrl: minus learning_rate_power */
    double ahead; /* Nadam: weights of the moment and of the gradient, 1 - beta2^t */
    double now;
    double correction;
};

/* Memory of `n` elements; `from` and `to` are the same or apart. */
struct sheaf__rule_lane {
    const void *from;
    void *to;
    void *slots[SHEAF__RULE_SLOTS];
    const void *gradient;
    const void *squares; /* instead of the gradient's own (Adamax: sizes); NULL: none */
};

typedef void (*sheaf__rule_kernel)(const struct sheaf__rule_constants *k,
                                   const struct sheaf__rule_lane *lane, size_t n);

enum sheaf__rule_formula {
    SHEAF__FORMULA_SGD,
    SHEAF__FORMULA_MOMENTUM,
    SHEAF__FORMULA_NESTEROV,
    SHEAF__FORMULA_MOMENTUM_V1,
    SHEAF__FORMULA_NESTEROV_V1,
    SHEAF__FORMULA_ADAM,
    SHEAF__FORMULA_AMSGRAD,
    SHEAF__FORMULA_ADAGRAD,         /* epsilon inside the root */
    SHEAF__FORMULA_ADAGRAD_OUTSIDE, /* and outside of it */
    SHEAF__FORMULA_RMSPROP,
    SHEAF__FORMULA_RMSPROP_MOMENTUM,
    SHEAF__FORMULA_RMSPROP_CENTERED,
    SHEAF__FORMULA_RMSPROP_CENTERED_MOMENTUM,
    SHEAF__FORMULA_RMSPROP_OUTSIDE, /* legacy without momentum: epsilon outside the root */
    SHEAF__FORMULA_RMSPROP_OUTSIDE_CENTERED,
    SHEAF__FORMULA_RMSPROP_FUSED, /* v1, legacy with momentum: v += (1 - rho) (g g - v) */
    SHEAF__FORMULA_RMSPROP_FUSED_CENTERED,
    SHEAF__FORMULA_FTRL,
    SHEAF__FORMULA_FTRL_POWER, /* any power but -0.5 */
    SHEAF__FORMULA_ADADELTA,
    SHEAF__FORMULA_ADAMAX,
    SHEAF__FORMULA_NADAM,
    SHEAF__FORMULA_LION,
    SHEAF__FORMULA_DECAY, /* weight decay alone */
    SHEAF__FORMULAS
};

struct sheaf__rule_kernels {
    sheaf__rule_kernel plain[SHEAF__FORMULAS];
    sheaf__rule_kernel squares[SHEAF__FORMULAS]; /* with lane->squares; NULL: they do not matter */
};

/* For SHEAF_FLOAT32 or SHEAF_FLOAT64. `portable`: those for every x86-64, which give the same bits.
 */
const struct sheaf__rule_kernels *sheaf__rule_kernels(sheaf_dtype dtype, bool portable);

#endif
