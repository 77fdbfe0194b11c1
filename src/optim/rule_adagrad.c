/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    slots[0] = (struct sheaf__rule_slot){"accumulator", h->initial_accumulator};
    return 1;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    return h->family == SHEAF_OPTIMIZER_KERAS3 ? SHEAF__FORMULA_ADAGRAD
                                               : SHEAF__FORMULA_ADAGRAD_OUTSIDE;
}

static void constants(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k)
{
    (void)wide;
    if (h->family == SHEAF_OPTIMIZER_V1)
        k->epsilon = 0;
}

const struct sheaf__rule_class sheaf__rule_adagrad = {
    .name = "adagrad",
    .class_name = "Adagrad",
    .families = SHEAF__RULE_ALL,
    .learning_rate = 0.001,
    .epsilon = 1e-7,
    .epsilon_v1 = 1e-8,
    .slots = slots,
    .formula = formula,
    .constants = constants,
};
