/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

#include <math.h>

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    bool keras3 = h->family == SHEAF_OPTIMIZER_KERAS3;
    slots[0] = (struct sheaf__rule_slot){keras3 ? "momentum" : "m", 0};
    slots[1] = (struct sheaf__rule_slot){keras3 ? "velocity" : "v", 0};
    slots[2] = (struct sheaf__rule_slot){keras3 ? "velocity_hat" : "vhat", 0};
    return h->flags & SHEAF__HYPER_AMSGRAD ? 3 : 2;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    return h->flags & SHEAF__HYPER_AMSGRAD ? SHEAF__FORMULA_AMSGRAD : SHEAF__FORMULA_ADAM;
}

/* The rate with both corrections in it. v1 keeps running products of the betas (R12.3). */
static double alpha_of(const struct sheaf__hyper *h, bool wide)
{
    double c1 = sheaf__rule_correction(h, h->beta1, wide);
    double c2 = sheaf__rule_correction(h, h->beta2, wide);
    if (wide)
        return h->lr * sqrt(c2) / c1;
    if (h->family == SHEAF_OPTIMIZER_V1) {
        c1 = (double)(1 - (float)h->beta1_product);
        c2 = (double)(1 - (float)h->beta2_product);
    }
    return (double)((float)h->lr * sqrtf((float)c2) / (float)c1);
}

static void constants(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k)
{
    k->alpha = alpha_of(h, wide);
    k->gain1 = sheaf__rule_gain(h, h->beta1, wide);
    k->gain2 = sheaf__rule_gain(h, h->beta2, wide);
}

static bool moves_all(const struct sheaf__hyper *h)
{
    (void)h;
    return true;
}

const struct sheaf__rule_class sheaf__rule_adam = {
    .name = "adam",
    .class_name = "Adam",
    .families = SHEAF__RULE_ALL,
    .learning_rate = 0.001,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-7,
    .epsilon_v1 = 1e-8,
    .slots = slots,
    .formula = formula,
    .constants = constants,
    .moves_all = moves_all,
};
