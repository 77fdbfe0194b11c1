/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_class.h"

/* v1 always keeps a momentum slot. */
static bool has_momentum(const struct sheaf__hyper *h)
{
    return h->momentum != 0 || h->family == SHEAF_OPTIMIZER_V1;
}

static size_t slots(const struct sheaf__hyper *h, struct sheaf__rule_slot *slots)
{
    bool keras3 = h->family == SHEAF_OPTIMIZER_KERAS3, v1 = h->family == SHEAF_OPTIMIZER_V1;
    size_t n = 0;
    slots[n++] = (struct sheaf__rule_slot){keras3 ? "velocity" : "rms", v1};
    if (has_momentum(h))
        slots[n++] = (struct sheaf__rule_slot){"momentum", 0};
    if (h->flags & SHEAF__HYPER_CENTERED)
        slots[n++] = (struct sheaf__rule_slot){keras3 ? "average_gradient" : "mg", 0};
    return n;
}

static enum sheaf__rule_formula formula(const struct sheaf__hyper *h)
{
    bool centered = h->flags & SHEAF__HYPER_CENTERED, momentum = has_momentum(h);
    if (h->family == SHEAF_OPTIMIZER_KERAS3) {
        if (centered)
            return momentum ? SHEAF__FORMULA_RMSPROP_CENTERED_MOMENTUM
                            : SHEAF__FORMULA_RMSPROP_CENTERED;
        return momentum ? SHEAF__FORMULA_RMSPROP_MOMENTUM : SHEAF__FORMULA_RMSPROP;
    }
    if (!momentum)
        return centered ? SHEAF__FORMULA_RMSPROP_OUTSIDE_CENTERED : SHEAF__FORMULA_RMSPROP_OUTSIDE;
    return centered ? SHEAF__FORMULA_RMSPROP_FUSED_CENTERED : SHEAF__FORMULA_RMSPROP_FUSED;
}

static void constants(const struct sheaf__hyper *h, bool wide, struct sheaf__rule_constants *k)
{
    k->gain2 = sheaf__rule_gain(h, h->rho, wide);
}

static bool moves_all(const struct sheaf__hyper *h)
{
    return h->family == SHEAF_OPTIMIZER_LEGACY && h->momentum == 0;
}

const struct sheaf__rule_class sheaf__rule_rmsprop = {
    .name = "rmsprop",
    .class_name = "RMSprop",
    .families = SHEAF__RULE_ALL,
    .learning_rate = 0.001,
    .rho = 0.9,
    .epsilon = 1e-7,
    .epsilon_v1 = 1e-10,
    .slots = slots,
    .formula = formula,
    .constants = constants,
    .moves_all = moves_all,
};
