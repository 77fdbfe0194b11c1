/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

#include <math.h>

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    (void)h;
    slots[0] = (struct sheaf__rule_slot){"momentum", 0};
    slots[1] = (struct sheaf__rule_slot){"velocity", 0};
    return 2;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    (void)h;
    return SHEAF__FORMULA_NADAM;
}

double sheaf__rule_nadam_momentum(double beta1, int64_t step)
{
    return beta1 * (1 - 0.5 * pow(0.96, (double)step));
}

/* Its gains are differences of the rounded betas, unlike those of Keras 3's other rules. */
static void constants(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k)
{
    const double now = sheaf__rule_nadam_momentum(h->beta1, h->step);
    const double next = sheaf__rule_nadam_momentum(h->beta1, h->step + 1);
    k->gain1 = wide ? 1 - h->beta1 : (double)(1 - (float)h->beta1);
    k->gain2 = wide ? 1 - h->beta2 : (double)(1 - (float)h->beta2);
    k->ahead = next / (1 - h->beta1_product * next);
    k->now = (1 - now) / (1 - h->beta1_product);
    k->correction = sheaf__rule_correction(h, h->beta2, wide);
}

const struct sheaf__rule_class sheaf__rule_nadam = {
    .name = "nadam",
    .class_name = "Nadam",
    .families = SHEAF__RULE_KERAS3,
    .learning_rate = 0.001,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-7,
    .slots = slots,
    .formula = formula,
    .constants = constants,
};
