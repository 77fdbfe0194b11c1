/* SPDX-License-Identifier: Apache-2.0 */
#include "distribute/bind_number.h"

#include "ops/mode.h"
#include "ops/variable.h"
#include "optim/rule_class.h"
#include "tensor/element.h"

#include <math.h>

static enum sheaf__optimizer_number kind_of(const struct sheaf__number *n)
{
    return (enum sheaf__optimizer_number)(n - n->optimizer->numbers);
}

static bool number_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    static const char *const names[SHEAF__NUMBER_COUNT] = {
        [SHEAF__NUMBER_ITERATION] = "iteration",
        [SHEAF__NUMBER_LEARNING_RATE] = "learning_rate",
        [SHEAF__NUMBER_MOMENTA] = "variable",
    };
    const struct sheaf__number *n = t->object;
    const enum sheaf__optimizer_number kind = kind_of(n);
    if (i > 0)
        return false;
    *out = (struct sheaf__saveable){.attribute = "VARIABLE_VALUE",
                                    .full_name = names[kind],
                                    .dtype = kind == SHEAF__NUMBER_ITERATION ? SHEAF_INT64
                                                                             : SHEAF_FLOAT32,
                                    .shape = SHEAF_SCALAR,
                                    .full = SHEAF_SCALAR,
                                    .group = sheaf__bound_group(n->optimizer)};
    return true;
}

/* In a step that has been applied, the variable does not have it yet. */
static bool is_behind(const sheaf_optimizer *o, int64_t counted)
{
    return sheaf__mode_current()->kind == SHEAF__MODE_REPLICA && counted < o->iterations;
}

int64_t sheaf__bind_count(sheaf_optimizer *o)
{
    sheaf_variable *counter = sheaf__bound_iterations(o);
    SHEAF_FRAME
    {
        sheaf_tensor *now = counter->cls->read(counter);
        const int64_t counted = sheaf_tensor_integer(now, 0);
        if (sheaf_tensor_status(now, NULL) >= 0 && !is_behind(o, counted))
            atomic_store(&o->iterations, counted);
    }
    return atomic_load(&o->iterations);
}

static sheaf_tensor *number_read(sheaf_trackable *t, size_t i)
{
    const struct sheaf__number *n = t->object;
    sheaf_optimizer *o = n->optimizer;
    const int64_t steps = sheaf_optimizer_iterations(o);
    (void)i;
    if (kind_of(n) == SHEAF__NUMBER_ITERATION)
        return sheaf_long(steps);
    if (kind_of(n) == SHEAF__NUMBER_MOMENTA)
        return sheaf_float(steps ? (float)sheaf__optimizer_hyper(o, steps).beta1_product : 1);
    return sheaf_float((float)sheaf_optimizer_learning_rate(o));
}

/* The steps after which v1's running product of `beta`, which is one factor ahead, is `power`. One that
 * has run out says the fewest. */
static int64_t steps_of_power(float beta, float power)
{
    float product = beta, before = 2;
    int64_t steps = 0;
    while (product > power && product != before) {
        before = product;
        product *= beta;
        steps++;
    }
    return steps;
}

/* What rounds to the value of the file stays: it is the same number, which the file has rounded. */
static void set_number(double *to, double value)
{
    if ((float)*to != (float)value)
        *to = value;
}

static void write_hyper(sheaf_optimizer *o, enum sheaf__optimizer_number kind, double value)
{
    struct sheaf__hyper *h = &o->hyper;
    double *const fields[SHEAF__NUMBER_COUNT] = {
        [SHEAF__NUMBER_DECAY] = &o->decay,
        [SHEAF__NUMBER_MOMENTUM] = &h->momentum,
        [SHEAF__NUMBER_RHO] = &h->rho,
        [SHEAF__NUMBER_BETA1] = &h->beta1,
        [SHEAF__NUMBER_BETA2] = &h->beta2,
        [SHEAF__NUMBER_L1] = &h->l1,
        [SHEAF__NUMBER_L2] = &h->l2,
        [SHEAF__NUMBER_BETA] = &h->beta,
        [SHEAF__NUMBER_POWER] = &h->learning_rate_power,
    };
    const bool slots = kind != SHEAF__NUMBER_MOMENTUM || (h->momentum != 0) == (value != 0);
    if (slots && isfinite(value)) /* with or without momentum: that is the program's */
        set_number(fields[kind], value);
    o->product_step = 0; /* of other betas, perhaps */
}

static sheaf_status number_write(sheaf_trackable *t, size_t i, sheaf_tensor *value,
                                 sheaf_error *err)
{
    struct sheaf__number *n = t->object;
    sheaf_optimizer *o = n->optimizer;
    const enum sheaf__optimizer_number kind = kind_of(n);
    (void)i;
    (void)err;
    if (kind == SHEAF__NUMBER_ITERATION)
        atomic_store(&o->iterations, sheaf_tensor_integer(value, 0));
    else if (kind == SHEAF__NUMBER_LEARNING_RATE && !o->schedule)
        o->learning_rate = sheaf_tensor_number(value, 0);
    else if (kind == SHEAF__NUMBER_BETA2_POWER)
        atomic_store(&o->iterations,
                     steps_of_power((float)o->hyper.beta2, (float)sheaf_tensor_number(value, 0)));
    else if (kind >= SHEAF__NUMBER_DECAY)
        write_hyper(o, kind, sheaf_tensor_number(value, 0));
    return SHEAF_OK; /* the momenta and the power of beta1 follow from the steps */
}

static const struct sheaf__trackable_class number_class = {
    .saveable = number_saveable, .read = number_read, .write = number_write};

void sheaf__bind_numbers(sheaf_optimizer *o)
{
    for (int i = 0; i < SHEAF__NUMBER_COUNT; i++)
        o->numbers[i] = (struct sheaf__number){{&number_class, &o->numbers[i]}, o};
}
