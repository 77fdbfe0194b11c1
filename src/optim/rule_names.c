/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule_names.h"

#include <string.h>

static const struct {
    enum sheaf__rule rule;
    const char *keras3, *legacy, *v1;
    int number;
} table[] = {
    {SHEAF__RULE_SGD, "momentum", "momentum", "momentum", 0},
    {SHEAF__RULE_ADAM, "momentum", "m", "m", 0},
    {SHEAF__RULE_ADAM, "velocity", "v", "v", 1},
    {SHEAF__RULE_ADAM, "velocity_hat", "vhat", NULL, 0},
    {SHEAF__RULE_ADAGRAD, "accumulator", "accumulator", "accumulator", 0},
    {SHEAF__RULE_RMSPROP, "velocity", "rms", "rms", 0},
    {SHEAF__RULE_RMSPROP, "momentum", "momentum", "momentum", 1},
    {SHEAF__RULE_RMSPROP, "average_gradient", "mg", "mg", 1},
    {SHEAF__RULE_FTRL, "accumulator", "accumulator", "accum", 0},
    {SHEAF__RULE_FTRL, "linear", "linear", "linear", 1},
    {SHEAF__RULE_ADADELTA, "accumulated_grad", "accum_grad", "accum", 0},
    {SHEAF__RULE_ADADELTA, "accumulated_delta_var", "accum_var", "accum_update", 1},
    {SHEAF__RULE_ADAMAX, "momentum", "m", NULL, 0},
    {SHEAF__RULE_ADAMAX, "norm", "v", NULL, 0},
};

static bool is(const char *name, const char *slot)
{
    return name && !strcmp(name, slot);
}

struct sheaf__rule_names sheaf__rule_names(const struct sheaf__hyper *h, const char *slot)
{
    struct sheaf__rule_names names = {0};
    const bool v1 = h->family == SHEAF_OPTIMIZER_V1;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const char *own = h->family == SHEAF_OPTIMIZER_KERAS3   ? table[i].keras3
                          : h->family == SHEAF_OPTIMIZER_LEGACY ? table[i].legacy
                                                                : table[i].v1;
        if (h->rule == (uint32_t)table[i].rule && is(own, slot))
            names = (struct sheaf__rule_names){table[i].legacy, table[i].v1, table[i].number};
    }
    /* v1's momentum sums gradients, the others' the steps (tf-semantics 12.2). */
    if (h->rule == SHEAF__RULE_SGD && v1)
        names.legacy = NULL;
    else if (h->rule == SHEAF__RULE_SGD)
        names.v1 = NULL;
    /* The average gradient of a centered one was made before the momentum. */
    if (h->flags & SHEAF__HYPER_CENTERED && is(names.v1, "momentum"))
        names.number++;
    return names;
}

const char *sheaf__rule_v1_name(const struct sheaf__hyper *h)
{
    static const char *const names[SHEAF__RULE_COUNT] = {
        [SHEAF__RULE_SGD] = "Momentum",    [SHEAF__RULE_ADAM] = "Adam",
        [SHEAF__RULE_ADAGRAD] = "Adagrad", [SHEAF__RULE_RMSPROP] = "RMSProp",
        [SHEAF__RULE_FTRL] = "Ftrl",       [SHEAF__RULE_ADADELTA] = "Adadelta",
    };
    return names[h->rule];
}
