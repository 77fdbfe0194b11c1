/* SPDX-License-Identifier: Apache-2.0 */

/* Where the optimizers of tf.keras.optimizers.legacy and tf.compat.v1.train keep in a checkpoint what ours keeps as Keras 3
 * (formats.md 5.2): numbers as children, values of slots beside the variables. A file of tf.compat.v1.train.Saver, which knows
 * names only, has v1's slots as "w/Adam", "w/Adam_1", and the legacy ones as "Adam/w/m". */

#include "distribute/bind_number.h"
#include "ops/variable.h"
#include "optim/rule_names.h"
#include "tensor/frame.h"

#define SET(rule) (1u << SHEAF__RULE_##rule)
#define EVERY     (~0u)
#define BETAS     (SET(ADAM) | SET(ADAMAX))
#define LEGACY    "iter" /* what every legacy optimizer has and none of v1 */

/* Numbers of legacy optimizers, by the rules that have them. */
static const struct {
    enum sheaf__optimizer_number number;
    const char *name;
    unsigned rules;
} legacy[] = {
    {SHEAF__NUMBER_ITERATION, "iter", EVERY},
    {SHEAF__NUMBER_LEARNING_RATE, "learning_rate", EVERY},
    {SHEAF__NUMBER_DECAY, "decay", EVERY},
    {SHEAF__NUMBER_MOMENTUM, "momentum", SET(SGD) | SET(RMSPROP)},
    {SHEAF__NUMBER_RHO, "rho", SET(RMSPROP) | SET(ADADELTA)},
    {SHEAF__NUMBER_BETA1, "beta_1", BETAS},
    {SHEAF__NUMBER_BETA2, "beta_2", BETAS},
    {SHEAF__NUMBER_L1, "l1_regularization_strength", SET(FTRL)},
    {SHEAF__NUMBER_L2, "l2_regularization_strength", SET(FTRL)},
    {SHEAF__NUMBER_BETA, "beta", SET(FTRL)},
    {SHEAF__NUMBER_POWER, "learning_rate_power", SET(FTRL)},
};
enum {
    LEGACY_COUNT = sizeof(legacy) / sizeof(legacy[0]),
    OTHER_COUNT = 5,
    FIRST_SLOT = LEGACY_COUNT + OTHER_COUNT + 1
};
enum { LEGACY_SLOT, V1_SLOT, V1_NAMED, WAYS }; /* the last: v1's, as the optimizer is called */

/* "Adam/iter". */
static const char *join(const char *a, const char *b, const char *c)
{
    struct sheaf__str key = {0};
    sheaf__str_printf(&key, "%s/%s%s%s", a, b, *c ? "/" : "", c);
    return sheaf__frame_str(&key);
}

static sheaf_trackable *number(sheaf_optimizer *o, enum sheaf__optimizer_number which)
{
    sheaf_variable *counter = sheaf__bound_iterations(o);
    return which == SHEAF__NUMBER_ITERATION && counter ? &counter->trackable
                                                       : &o->numbers[which].trackable;
}

static void legacy_number(sheaf_optimizer *o, size_t i, struct sheaf__elsewhere *out)
{
    const bool scheduled = o->schedule && legacy[i].number == SHEAF__NUMBER_LEARNING_RATE;
    if (!(legacy[i].rules >> o->hyper.rule & 1) || scheduled)
        return;
    *out = (struct sheaf__elsewhere){.value = number(o, legacy[i].number),
                                     .name = legacy[i].name,
                                     .key = join(o->name, legacy[i].name, ""),
                                     .with = LEGACY};
}

/* What v1 has, and the numbers of Keras 3 of one that is not bound, whose list is not there yet. */
static void other_number(sheaf_optimizer *o, size_t i, struct sheaf__elsewhere *out)
{
    sheaf_trackable *steps = number(o, SHEAF__NUMBER_ITERATION);
    sheaf_trackable *rate = number(o, SHEAF__NUMBER_LEARNING_RATE);
    const bool bound = sheaf__is_bound(o), counted = sheaf__bound_iterations(o) != NULL;
    const bool adam = o->hyper.rule == SHEAF__RULE_ADAM && !counted;
    const struct sheaf__elsewhere all[OTHER_COUNT] = {
        {.value = bound ? NULL : steps, .name = "_variables/0"},
        {.value = bound || o->schedule ? NULL : rate, .name = "_variables/1"},
        {.value = steps,
         .key = "global_step",
         .without = LEGACY,
         .lack = counted ? SHEAF__LACK_FAILS : SHEAF__LACK_TOLD},
        {.value = adam ? &o->numbers[SHEAF__NUMBER_BETA1_POWER].trackable : NULL,
         .name = "beta1_power",
         .key = "beta1_power",
         .without = LEGACY},
        {.value = adam ? &o->numbers[SHEAF__NUMBER_BETA2_POWER].trackable : NULL,
         .name = "beta2_power",
         .key = "beta2_power",
         .without = LEGACY,
         .instead = steps},
    };
    *out = all[i];
}

/* v1 has no rate in its files, legacy ones none of a schedule's. */
static void no_rate(sheaf_optimizer *o, struct sheaf__elsewhere *out)
{
    sheaf_trackable *rate = number(o, SHEAF__NUMBER_LEARNING_RATE);
    *out = (struct sheaf__elsewhere){.value = rate,
                                     .lack = o->schedule ? SHEAF__LACK_FINE : SHEAF__LACK_TOLD};
}

static void slot_elsewhere(sheaf_optimizer *o, size_t i, struct sheaf__elsewhere *out)
{
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    const size_t count = sheaf__rule_slots(&o->hyper, slots), slot = i / WAYS, way = i % WAYS;
    sheaf_variable *v = sheaf__bound_variable(o, slot / count);
    const struct sheaf__rule_names names = sheaf__rule_names(&o->hyper, slots[slot % count].name);
    const char *name = way == LEGACY_SLOT ? names.legacy : names.v1;
    if (!name)
        return;
    *out = (struct sheaf__elsewhere){
        .value = sheaf__bound_slot(o, slot), .variable = &v->trackable, .name = name};
    if (way == LEGACY_SLOT) {
        out->with = LEGACY;
        out->key = join(o->name, v->name, name);
        return;
    }
    struct sheaf__str key = {0};
    sheaf__str_printf(&key, "%s/%s", v->name,
                      way == V1_NAMED ? o->name : sheaf__rule_v1_name(&o->hyper));
    if (names.number)
        sheaf__str_printf(&key, "_%d", names.number);
    out->key = sheaf__frame_str(&key);
    out->without = LEGACY;
}

bool sheaf__bind_elsewhere(sheaf_trackable *t, size_t i, struct sheaf__elsewhere *out)
{
    sheaf_optimizer *o = t->object;
    *out = (struct sheaf__elsewhere){0};
    if (i < LEGACY_COUNT)
        legacy_number(o, i, out);
    else if (i < LEGACY_COUNT + OTHER_COUNT)
        other_number(o, i - LEGACY_COUNT, out);
    else if (i == FIRST_SLOT - 1)
        no_rate(o, out);
    else if (sheaf__bound_slot(o, (i - FIRST_SLOT) / WAYS))
        slot_elsewhere(o, i - FIRST_SLOT, out);
    else
        return false;
    return true;
}
