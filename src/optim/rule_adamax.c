/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    bool keras3 = h->family == SHEAF_OPTIMIZER_KERAS3;
    slots[0] = (struct sheaf__rule_slot){keras3 ? "momentum" : "m", 0};
    slots[1] = (struct sheaf__rule_slot){keras3 ? "norm" : "v", 0};
    return 2;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    (void)h;
    return SHEAF__FORMULA_ADAMAX;
}

static void constants(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k)
{
    k->alpha = h->lr / sheaf__rule_correction(h, h->beta1, wide);
    k->gain1 = sheaf__rule_gain(h, h->beta1, wide);
    k->rho = h->beta2;
}

const struct sheaf__rule_class sheaf__rule_adamax = {
    .name = "adamax",
    .class_name = "Adamax",
    .families = SHEAF__RULE_KERAS3 | SHEAF__RULE_LEGACY,
    .learning_rate = 0.001,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-7,
    .by_size = true,
    .slots = slots,
    .formula = formula,
    .constants = constants,
};
