/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    slots[0] = (struct sheaf__rule_slot){"momentum", 0};
    return h->momentum != 0;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    bool nesterov = h->flags & SHEAF__HYPER_NESTEROV;
    if (h->momentum == 0)
        return SHEAF__FORMULA_SGD;
    if (h->family == SHEAF_OPTIMIZER_V1)
        return nesterov ? SHEAF__FORMULA_NESTEROV_V1 : SHEAF__FORMULA_MOMENTUM_V1;
    return nesterov ? SHEAF__FORMULA_NESTEROV : SHEAF__FORMULA_MOMENTUM;
}

const struct sheaf__rule_class sheaf__rule_sgd = {
    .name = "sgd",
    .class_name = "SGD",
    .families = SHEAF__RULE_ALL,
    .learning_rate = 0.01,
    .slots = slots,
    .formula = formula,
};
