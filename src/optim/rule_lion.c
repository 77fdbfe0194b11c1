/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    (void)h;
    slots[0] = (struct sheaf__rule_slot){"momentum", 0};
    return 1;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    (void)h;
    return SHEAF__FORMULA_LION;
}

static void constants(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k)
{
    k->momentum = h->beta1;
    k->rho = h->beta2;
    k->gain1 = sheaf__rule_gain(h, h->beta1, wide);
    k->gain2 = sheaf__rule_gain(h, h->beta2, wide);
}

const struct sheaf__rule_class sheaf__rule_lion = {
    .name = "lion",
    .class_name = "Lion",
    .families = SHEAF__RULE_KERAS3,
    .learning_rate = 0.001,
    .beta1 = 0.9,
    .beta2 = 0.99,
    .slots = slots,
    .formula = formula,
    .constants = constants,
};
