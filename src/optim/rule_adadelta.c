/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    bool keras3 = h->family == SHEAF_OPTIMIZER_KERAS3;
    slots[0] = (struct sheaf__rule_slot){keras3 ? "accumulated_grad" : "accum_grad", 0};
    slots[1] = (struct sheaf__rule_slot){keras3 ? "accumulated_delta_var" : "accum_var", 0};
    return 2;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    (void)h;
    return SHEAF__FORMULA_ADADELTA;
}

static void constants(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k)
{
    k->gain2 = sheaf__rule_gain(h, h->rho, wide);
}

const struct sheaf__rule_class sheaf__rule_adadelta = {
    .name = "adadelta",
    .class_name = "Adadelta",
    .families = SHEAF__RULE_KERAS3 | SHEAF__RULE_LEGACY,
    .learning_rate = 0.001,
    .rho = 0.95,
    .epsilon = 1e-7,
    .slots = slots,
    .formula = formula,
    .constants = constants,
};
