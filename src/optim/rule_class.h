/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_RULE_CLASS_H
#define SHEAF_OPTIM_RULE_CLASS_H

/* What a rule says of itself: a file each, named by the table of rules.h. */

#include "optim/rule_kernel.h"

/* Sets of families. */
#define SHEAF__RULE_KERAS3 (1u << SHEAF_OPTIMIZER_KERAS3)
#define SHEAF__RULE_LEGACY (1u << SHEAF_OPTIMIZER_LEGACY)
#define SHEAF__RULE_V1     (1u << SHEAF_OPTIMIZER_V1)
#define SHEAF__RULE_ALL    (SHEAF__RULE_KERAS3 | SHEAF__RULE_LEGACY | SHEAF__RULE_V1)

struct sheaf__rule_class {
    const char *name;       /* for sheaf_optimizer_named() */
    const char *class_name; /* Keras's, the default name of an optimizer */
    unsigned families;      /* those that have it */
    /* Default values, 0 of what the rule does not use. */
    double learning_rate, beta1, beta2, rho;
    double epsilon, epsilon_v1;
    /* Repeated rows are measured by the sum of their sizes, not of their squares (R12.4). */
    bool by_size;
    size_t (*slots)(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots);
    enum sheaf__rule_formula (*formula)(const struct sheaf__hyper *h);
    /* Of its own numbers; `wide`: computed in double. NULL: it has none. */
    void (*constants)(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k);
    /* Whether v1 and legacy change rows that have no gradient. NULL: no. */
    bool (*moves_all)(const struct sheaf__hyper *h);
};

/* "keras3" of SHEAF_OPTIMIZER_KERAS3. */
const char *sheaf__family_name(uint32_t family);
/* NULL: there is no such rule. */
const struct sheaf__rule_class *sheaf__rule_class(uint32_t rule);

/* 1 - beta. Keras 3 subtracts in double and rounds, the others subtract the rounded (R12.3). */
double sheaf__rule_gain(const struct sheaf__hyper *h, double beta, bool wide);
/* 1 - beta^step, with a power of the rounded beta. */
double sheaf__rule_correction(const struct sheaf__hyper *h, double beta, bool wide);

#endif
