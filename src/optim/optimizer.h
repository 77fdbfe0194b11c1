/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_OPTIMIZER_H
#define SHEAF_OPTIM_OPTIMIZER_H

/* Inside of an optimizer. optim/ makes it and knows rates and rules; distribute/ applies it to
 * variables, counts the steps and makes the trackable. */

#include "base/object.h"
#include "base/str.h"
#include "base/thread.h"
#include "optim/rule.h"
#include "tensor/trackable.h"

enum sheaf__clip_kind {
    SHEAF__CLIP_NONE,
    SHEAF__CLIP_VALUE,
    SHEAF__CLIP_NORM,       /* each gradient by its norm */
    SHEAF__CLIP_GLOBAL_NORM /* all by the norm of all together */
};

/* Numbers of an optimizer that checkpoints hold, ours or TensorFlow's other ones. */
enum sheaf__optimizer_number {
    SHEAF__NUMBER_ITERATION,
    SHEAF__NUMBER_LEARNING_RATE,
    SHEAF__NUMBER_MOMENTA, /* Nadam's product of them, which Keras keeps as the last of the list */
    SHEAF__NUMBER_BETA1_POWER, /* v1's running products, for the next step */
    SHEAF__NUMBER_BETA2_POWER,
    SHEAF__NUMBER_DECAY,
    SHEAF__NUMBER_MOMENTUM,
    SHEAF__NUMBER_RHO,
    SHEAF__NUMBER_BETA1,
    SHEAF__NUMBER_BETA2,
    SHEAF__NUMBER_L1,
    SHEAF__NUMBER_L2,
    SHEAF__NUMBER_BETA,
    SHEAF__NUMBER_POWER, /* learning_rate_power */
    SHEAF__NUMBER_COUNT
};

struct sheaf_optimizer {
    struct sheaf__object object;
    char *name;
    struct sheaf__hyper hyper; /* without step, lr and products */
    double learning_rate;      /* without a schedule; written by a restore only */
    sheaf_schedule *schedule;  /* NULL: learning_rate */
    double decay;
    enum sheaf__clip_kind clip;
    double clip_limit;
    _Atomic int64_t iterations; /* steps applied so far, as this process knows */
    sheaf_error latched;        /* error of its making; status 0: none */

    /* distribute/'s own: what it binds to the optimizer, freed by `release` with the last count. */
    void *bound;
    void (*release)(void *bound);
    /* Steps applied so far, where others have a share in them; NULL: `iterations`. */
    int64_t (*count)(sheaf_optimizer *o);
    sheaf_trackable trackable; /* its class is set by distribute/ */
    struct sheaf__number {
        sheaf_trackable trackable; /* the same */
        sheaf_optimizer *optimizer;
    } numbers[SHEAF__NUMBER_COUNT];
    struct sheaf__trackable_watch *watch; /* who gives values to what is bound; or NULL */
    _Atomic bool told_unused;             /* that variables got no gradient */

    struct sheaf__mutex lock; /* running products up to step `product_step` (rule.h) */
    int64_t product_step;
    double beta1_product, beta2_product;
};

/* Appends all that its updates depend on, a fact a line, in the same order for all: "rule adam",
 * "learning_rate 0.001", … */
void sheaf__optimizer_describe(const sheaf_optimizer *o, struct sheaf__str *out);
/* SHEAF_OK or the latched error. NULL is one, too. */
sheaf_status sheaf__optimizer_check(const sheaf_optimizer *o, sheaf_error *err);
/* What the update number `step` (from 1) needs. Any thread. */
struct sheaf__hyper sheaf__optimizer_hyper(sheaf_optimizer *o, int64_t step);

#endif
