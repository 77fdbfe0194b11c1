/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    bool v1 = h->family == SHEAF_OPTIMIZER_V1;
    slots[0] = (struct sheaf__rule_slot){v1 ? "accum" : "accumulator", h->initial_accumulator};
    slots[1] = (struct sheaf__rule_slot){"linear", 0};
    return 2;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    return h->learning_rate_power == -0.5 ? SHEAF__FORMULA_FTRL : SHEAF__FORMULA_FTRL_POWER;
}

static void constants(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k)
{
    (void)wide;
    k->l2_twice = 2 * (h->l2 + (h->lr > 0 ? h->beta / (2 * h->lr) : 0));
}

const struct sheaf__rule_class sheaf__rule_ftrl = {
    .name = "ftrl",
    .class_name = "Ftrl",
    .families = SHEAF__RULE_ALL,
    .learning_rate = 0.001,
    .slots = slots,
    .formula = formula,
    .constants = constants,
};
