/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/optimizer.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "optim/rule_class.h"
#include "optim/schedule.h"

#include <math.h>
#include <string.h>

/* Sets of rules and families. */
#define SET(rule) (1u << SHEAF__RULE_##rule)
#define SGD       SET(SGD)
#define ADAGRAD   SET(ADAGRAD)
#define RMSPROP   SET(RMSPROP)
#define FTRL      SET(FTRL)
#define ADADELTA  SET(ADADELTA)
#define MOMENTS   (SET(ADAM) | SET(ADAMAX) | SET(NADAM) | SET(LION))
#define DIVIDING  ((MOMENTS & ~SET(LION)) | ADAGRAD | RMSPROP | ADADELTA)
#define EVERY     ((1u << SHEAF__RULE_COUNT) - 1)
#define KERAS3    SHEAF__RULE_KERAS3
#define LEGACY    SHEAF__RULE_LEGACY
#define ALL       SHEAF__RULE_ALL

/* What an option may be. */
enum range {
    ANY_BOOL,
    POSITIVE,
    AT_LEAST_0,
    AT_MOST_0,
    FRACTION /* 0 <= x < 1 */,
    UNIT /* 0..1 */
};

/* Every option that is a number or a flag: which rules and families know it, and its range. */
#define OPTION(field, range, rules, families)                                    \
    {                                                                            \
#field, offsetof(sheaf_optimizer_options, field), range, rules, families \
    }
static const struct option {
    const char *name;
    size_t offset;
    enum range range;
    unsigned rules;
    unsigned families;
} options_table[] = {
    OPTION(learning_rate, POSITIVE, EVERY, ALL),
    OPTION(momentum, UNIT, SGD | RMSPROP, ALL),
    OPTION(nesterov, ANY_BOOL, SGD, ALL),
    OPTION(beta1, FRACTION, MOMENTS, ALL),
    OPTION(beta2, FRACTION, MOMENTS, ALL),
    OPTION(has_beta1, ANY_BOOL, MOMENTS, ALL),
    OPTION(has_beta2, ANY_BOOL, MOMENTS, ALL),
    OPTION(epsilon, AT_LEAST_0, DIVIDING, ALL),
    OPTION(has_epsilon, ANY_BOOL, DIVIDING, ALL),
    OPTION(amsgrad, ANY_BOOL, SET(ADAM), KERAS3 | LEGACY),
    OPTION(initial_accumulator, AT_LEAST_0, ADAGRAD | FTRL, ALL),
    OPTION(has_initial_accumulator, ANY_BOOL, ADAGRAD | FTRL, ALL),
    OPTION(rho, FRACTION, RMSPROP | ADADELTA, ALL),
    OPTION(centered, ANY_BOOL, RMSPROP, ALL),
    OPTION(l1, AT_LEAST_0, FTRL, ALL),
    OPTION(l2, AT_LEAST_0, FTRL, ALL),
    OPTION(l2_shrinkage, AT_LEAST_0, FTRL, ALL),
    OPTION(beta, AT_LEAST_0, FTRL, ALL),
    OPTION(learning_rate_power, AT_MOST_0, FTRL, ALL),
    OPTION(decay, AT_LEAST_0, EVERY, LEGACY),
    OPTION(weight_decay, AT_LEAST_0, EVERY, KERAS3),
    OPTION(clipvalue, POSITIVE, EVERY, KERAS3 | LEGACY),
    OPTION(clipnorm, POSITIVE, EVERY, KERAS3 | LEGACY),
    OPTION(global_clipnorm, POSITIVE, EVERY, KERAS3 | LEGACY),
    OPTION(keras3_sparse, ANY_BOOL, EVERY, KERAS3),
};

static const char *const family_names[] = {"keras3", "legacy", "v1"};

const char *sheaf__family_name(uint32_t family)
{
    return family_names[family];
}

static double value_of(const sheaf_optimizer_options *o, const struct option *option)
{
    const char *at = (const char *)o + option->offset;
    double number;
    if (option->range == ANY_BOOL)
        return *(const bool *)at;
    memcpy(&number, at, sizeof(number));
    return number;
}

/* What was expected of a value that does not fit, NULL if it does. 0 always fits: not given. */
static const char *misfit(enum range range, double v)
{
    if (range == ANY_BOOL || v == 0)
        return NULL;
    if (!isfinite(v))
        return "a finite number";
    switch (range) {
    case POSITIVE:
    case AT_LEAST_0:
        return v > 0 ? NULL : "0 or more";
    case AT_MOST_0:
        return v < 0 ? NULL : "0 or less";
    case FRACTION:
        return v > 0 && v < 1 ? NULL : "0 or more and less than 1";
    case UNIT:
        return v > 0 && v <= 1 ? NULL : "0 to 1";
    case ANY_BOOL:
        break;
    }
    return NULL;
}

static sheaf_status check_options(const sheaf_optimizer_options *o, enum sheaf__rule rule,
                                  sheaf_error *err)
{
    const char *name = sheaf__rule_class(rule)->name;
    if ((unsigned)o->family > SHEAF_OPTIMIZER_V1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: family is %d, expected 0 to %d (sheaf_optimizer_family)", name,
                            (int)o->family, SHEAF_OPTIMIZER_V1);
    if (!(sheaf__rule_class(rule)->families & 1u << o->family))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s is not in family %s", name,
                            family_names[o->family]);
    for (size_t i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
        if (o->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "%s: reserved option %zu is set, expected 0", name, i);
    for (size_t i = 0; i < sizeof(options_table) / sizeof(options_table[0]); i++) {
        const struct option *option = &options_table[i];
        double v = value_of(o, option);
        if (v == 0)
            continue;
        if (!(option->rules & 1u << rule) || !(option->families & 1u << o->family))
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s knows no %s in family %s",
                                name, option->name, family_names[o->family]);
        const char *expected = misfit(option->range, v);
        if (expected)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s: %s is %g, expected %s", name,
                                option->name, v, expected);
    }
    if ((o->clipvalue > 0) + (o->clipnorm > 0) + (o->global_clipnorm > 0) > 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: found more than one of clipvalue, clipnorm and global_clipnorm",
                            name);
    if (o->schedule && o->learning_rate != 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: found both a schedule and a learning_rate", name);
    if (o->family == SHEAF_OPTIMIZER_V1 && !o->schedule && o->learning_rate == 0 &&
        rule != SHEAF__RULE_ADAM)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s of family v1 has no learning_rate, which has no default there",
                            name);
    if (o->schedule && o->schedule->latched.status < 0)
        return sheaf__error_copy(err, &o->schedule->latched);
    return SHEAF_OK;
}

static double or_default(double v, bool given, double otherwise)
{
    return v != 0 || given ? v : otherwise;
}

static uint32_t flags_of(const sheaf_optimizer_options *o)
{
    return (o->nesterov ? SHEAF__HYPER_NESTEROV : 0u) | (o->amsgrad ? SHEAF__HYPER_AMSGRAD : 0u) |
           (o->centered ? SHEAF__HYPER_CENTERED : 0u) |
           (o->keras3_sparse ? SHEAF__HYPER_KERAS3_SPARSE : 0u);
}

static struct sheaf__hyper hyper_of(const sheaf_optimizer_options *o, enum sheaf__rule rule)
{
    const struct sheaf__rule_class *c = sheaf__rule_class(rule);
    const double epsilon = o->family == SHEAF_OPTIMIZER_V1 ? c->epsilon_v1 : c->epsilon;
    return (struct sheaf__hyper){
        .rule = rule,
        .family = o->family,
        .flags = flags_of(o),
        .weight_decay = o->weight_decay,
        .momentum = o->momentum,
        .rho = or_default(o->rho, false, c->rho),
        .beta1 = or_default(o->beta1, o->has_beta1, c->beta1),
        .beta2 = or_default(o->beta2, o->has_beta2, c->beta2),
        .epsilon = or_default(o->epsilon, o->has_epsilon, epsilon),
        .initial_accumulator = or_default(o->initial_accumulator, o->has_initial_accumulator, 0.1),
        .l1 = o->l1,
        .l2 = o->l2,
        .l2_shrinkage = o->l2_shrinkage,
        .beta = o->beta,
        .learning_rate_power = or_default(o->learning_rate_power, false, -0.5),
    };
}

static void destroy(void *object)
{
    sheaf_optimizer *o = object;
    if (o->watch)
        o->watch->gone(o->watch);
    if (o->release)
        o->release(o->bound);
    sheaf__unref(o->schedule);
    sheaf__free(o->name);
    sheaf__free(o);
}

static const struct sheaf__class optimizer_class = {"optimizer", destroy};

static void set_clip(sheaf_optimizer *o, const sheaf_optimizer_options *options)
{
    o->clip = options->clipvalue > 0         ? SHEAF__CLIP_VALUE
              : options->clipnorm > 0        ? SHEAF__CLIP_NORM
              : options->global_clipnorm > 0 ? SHEAF__CLIP_GLOBAL_NORM
                                             : SHEAF__CLIP_NONE;
    o->clip_limit = options->clipvalue + options->clipnorm + options->global_clipnorm;
}

/* NULL without memory: the one error that cannot be latched. */
static sheaf_optimizer *make(enum sheaf__rule rule, const sheaf_optimizer_options *given)
{
    static const sheaf_optimizer_options none;
    const sheaf_optimizer_options *options = given ? given : &none;
    sheaf_optimizer *o = sheaf__calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    sheaf__object_init(&o->object, &optimizer_class);
    sheaf__mutex_init(&o->lock);
    o->trackable.object = o;
    o->name = sheaf__strdup(options->name ? options->name : sheaf__rule_class(rule)->class_name);
    if (!o->name)
        sheaf__no_memory(&o->latched, "an optimizer");
    else
        check_options(options, rule, &o->latched);
    if (o->latched.status < 0)
        return o;
    o->hyper = hyper_of(options, rule);
    o->learning_rate =
        or_default(options->learning_rate, false, sheaf__rule_class(rule)->learning_rate);
    o->schedule = sheaf__ref(options->schedule);
    o->decay = options->decay;
    set_clip(o, options);
    return o;
}

sheaf_optimizer *sheaf_sgd(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_SGD, options);
}

sheaf_optimizer *sheaf_adam(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_ADAM, options);
}

sheaf_optimizer *sheaf_adagrad(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_ADAGRAD, options);
}

sheaf_optimizer *sheaf_rmsprop(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_RMSPROP, options);
}

sheaf_optimizer *sheaf_ftrl(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_FTRL, options);
}

sheaf_optimizer *sheaf_adadelta(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_ADADELTA, options);
}

sheaf_optimizer *sheaf_adamax(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_ADAMAX, options);
}

sheaf_optimizer *sheaf_nadam(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_NADAM, options);
}

sheaf_optimizer *sheaf_lion(const sheaf_optimizer_options *options)
{
    return make(SHEAF__RULE_LION, options);
}

sheaf_optimizer *sheaf_optimizer_named(const char *rule, const sheaf_optimizer_options *options)
{
    for (unsigned i = 1; rule && i < SHEAF__RULE_COUNT; i++) {
        if (strcmp(rule, sheaf__rule_class(i)->name) == 0)
            return make((enum sheaf__rule)i, options);
    }
    sheaf_optimizer_options o = options ? *options : (sheaf_optimizer_options){0};
    if (rule && strcmp(rule, "momentum") == 0) {
        o.momentum = or_default(o.momentum, false, 0.9);
        return make(SHEAF__RULE_SGD, &o);
    }
    sheaf_optimizer *none = make(SHEAF__RULE_SGD, NULL);
    struct sheaf__str names = {0};
    for (unsigned i = 1; i < SHEAF__RULE_COUNT; i++)
        sheaf__str_printf(&names, ", %s", sheaf__rule_class(i)->name);
    if (none)
        sheaf__error(&none->latched, SHEAF_ERR_INVALID_ARGUMENT,
                     "optimizer is \"%s\", expected one of momentum%s", rule ? rule : "",
                     sheaf__str_text(&names));
    sheaf__str_free(&names);
    return none;
}

void sheaf_optimizer_free(sheaf_optimizer *o)
{
    sheaf__unref(o);
}

sheaf_status sheaf__optimizer_check(const sheaf_optimizer *o, sheaf_error *err)
{
    if (!o)
        return sheaf__no_memory(err, "an optimizer");
    return o->latched.status < 0 ? sheaf__error_copy(err, &o->latched) : SHEAF_OK;
}

static double rate_at(const sheaf_optimizer *o, int64_t step)
{
    double rate = o->schedule ? sheaf_schedule_at(o->schedule, step - 1) : o->learning_rate;
    return o->decay > 0 ? rate / (1 + o->decay * (double)(step - 1)) : rate;
}

/* The products of one step more. v1 multiplies in float32; other powers round differently. */
static void multiply(sheaf_optimizer *o, const struct sheaf__hyper *h, int64_t step)
{
    if (h->rule == SHEAF__RULE_NADAM) {
        o->beta1_product *= sheaf__rule_nadam_momentum(h->beta1, step);
        return;
    }
    o->beta1_product = (double)((float)o->beta1_product * (float)h->beta1);
    o->beta2_product = (double)((float)o->beta2_product * (float)h->beta2);
}

static void set_products(sheaf_optimizer *o, struct sheaf__hyper *h)
{
    sheaf__mutex_lock(&o->lock);
    if (o->product_step < 1 || o->product_step > h->step) {
        o->product_step = 0;
        o->beta1_product = o->beta2_product = 1;
    }
    while (o->product_step < h->step) {
        double was1 = o->beta1_product, was2 = o->beta2_product;
        multiply(o, h, ++o->product_step);
        /* In the end rounding keeps both as they are, at 0 or the least numbers there are. */
        if (o->beta1_product == was1 && o->beta2_product == was2)
            break;
    }
    o->product_step = h->step;
    h->beta1_product = o->beta1_product;
    h->beta2_product = o->beta2_product;
    sheaf__mutex_unlock(&o->lock);
}

struct sheaf__hyper sheaf__optimizer_hyper(sheaf_optimizer *o, int64_t step)
{
    struct sheaf__hyper h = o->hyper;
    h.step = step;
    h.lr = rate_at(o, step);
    if (h.rule == SHEAF__RULE_NADAM ||
        (h.rule == SHEAF__RULE_ADAM && h.family == SHEAF_OPTIMIZER_V1))
        set_products(o, &h);
    return h;
}

int64_t sheaf_optimizer_iterations(const sheaf_optimizer *o)
{
    if (!o || !o->count)
        return o ? o->iterations : 0;
    return o->count((sheaf_optimizer *)(uintptr_t)o); /* whose own number follows */
}

double sheaf_optimizer_learning_rate(const sheaf_optimizer *o)
{
    return o && o->latched.status == 0 ? rate_at(o, sheaf_optimizer_iterations(o) + 1) : NAN;
}
