/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule.h"

#include "base/error.h"
#include "base/flush.h"
#include "optim/rule_run.h"
#include "tensor/half.h"

#include <math.h>
#include <string.h>

#define BLOCK 512 /* elements of a pass through the first-level cache */

sheaf_status sheaf__hyper_check(const struct sheaf__hyper *h, sheaf_error *err)
{
    if (h->rule < SHEAF__RULE_SGD || h->rule > SHEAF__RULE_FTRL)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "update rule is %u, expected %d to %d",
                            h->rule, SHEAF__RULE_SGD, SHEAF__RULE_FTRL);
    if (h->family > SHEAF_OPTIMIZER_V1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "family of the update rule is %u, expected 0 to %d", h->family,
                            SHEAF_OPTIMIZER_V1);
    const uint32_t known = SHEAF__HYPER_NESTEROV | SHEAF__HYPER_AMSGRAD | SHEAF__HYPER_CENTERED |
                           SHEAF__HYPER_KERAS3_SPARSE;
    if ((h->flags & ~known) || h->reserved)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "update rule has unknown flags 0x%x",
                            h->flags & ~known);
    if (h->step < 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "number of the update is %lld, expected 1 or more", (long long)h->step);
    const double *numbers = &h->lr;
    for (size_t i = 0; i < (sizeof(*h) - offsetof(struct sheaf__hyper, lr)) / sizeof(double); i++) {
        if (!isfinite(numbers[i]))
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "number %zu of the update rule is not finite", i);
    }
    return SHEAF_OK;
}

/* Names of slots in the order of the families. */
static const char *const slot_m[] = {"momentum", "m", "m"};
static const char *const slot_v[] = {"velocity", "v", "v"};
static const char *const slot_top[] = {"velocity_hat", "vhat", "vhat"};
static const char *const slot_rms[] = {"velocity", "rms", "rms"};
static const char *const slot_mean[] = {"average_gradient", "mg", "mg"};
static const char *const slot_sum[] = {"accumulator", "accumulator", "accum"};

/* RMSprop keeps a momentum slot. v1 always does. */
static bool has_momentum(const struct sheaf__hyper *h)
{
    return h->momentum != 0 || (h->rule == SHEAF__RULE_RMSPROP && h->family == SHEAF_OPTIMIZER_V1);
}

size_t sheaf__rule_slots(const struct sheaf__hyper *h,
                         struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS])
{
    uint32_t f = h->family;
    size_t n = 0;
    switch ((enum sheaf__rule)h->rule) {
    case SHEAF__RULE_SGD:
        if (h->momentum != 0)
            slots[n++] = (struct sheaf__rule_slot){"momentum", 0};
        break;
    case SHEAF__RULE_ADAM:
        slots[n++] = (struct sheaf__rule_slot){slot_m[f], 0};
        slots[n++] = (struct sheaf__rule_slot){slot_v[f], 0};
        if (h->flags & SHEAF__HYPER_AMSGRAD)
            slots[n++] = (struct sheaf__rule_slot){slot_top[f], 0};
        break;
    case SHEAF__RULE_ADAGRAD:
        slots[n++] = (struct sheaf__rule_slot){"accumulator", h->initial_accumulator};
        break;
    case SHEAF__RULE_RMSPROP:
        slots[n++] = (struct sheaf__rule_slot){slot_rms[f], f == SHEAF_OPTIMIZER_V1};
        if (has_momentum(h))
            slots[n++] = (struct sheaf__rule_slot){"momentum", 0};
        if (h->flags & SHEAF__HYPER_CENTERED)
            slots[n++] = (struct sheaf__rule_slot){slot_mean[f], 0};
        break;
    case SHEAF__RULE_FTRL:
        slots[n++] = (struct sheaf__rule_slot){slot_sum[f], h->initial_accumulator};
        slots[n++] = (struct sheaf__rule_slot){"linear", 0};
        break;
    }
    return n;
}

bool sheaf__rule_takes(sheaf_dtype dtype)
{
    return dtype == SHEAF_FLOAT32 || dtype == SHEAF_FLOAT64 || dtype == SHEAF_BFLOAT16;
}

static enum sheaf__rule_formula formula_of_rmsprop(const struct sheaf__hyper *h)
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

static enum sheaf__rule_formula formula_of(const struct sheaf__hyper *h)
{
    bool nesterov = h->flags & SHEAF__HYPER_NESTEROV;
    switch ((enum sheaf__rule)h->rule) {
    case SHEAF__RULE_SGD:
        if (h->momentum == 0)
            return SHEAF__FORMULA_SGD;
        if (h->family == SHEAF_OPTIMIZER_V1)
            return nesterov ? SHEAF__FORMULA_NESTEROV_V1 : SHEAF__FORMULA_MOMENTUM_V1;
        return nesterov ? SHEAF__FORMULA_NESTEROV : SHEAF__FORMULA_MOMENTUM;
    case SHEAF__RULE_ADAM:
        return h->flags & SHEAF__HYPER_AMSGRAD ? SHEAF__FORMULA_AMSGRAD : SHEAF__FORMULA_ADAM;
    case SHEAF__RULE_ADAGRAD:
        return h->family == SHEAF_OPTIMIZER_KERAS3 ? SHEAF__FORMULA_ADAGRAD
                                                   : SHEAF__FORMULA_ADAGRAD_OUTSIDE;
    case SHEAF__RULE_RMSPROP:
        return formula_of_rmsprop(h);
    case SHEAF__RULE_FTRL:
        break;
    }
    return h->learning_rate_power == -0.5 ? SHEAF__FORMULA_FTRL : SHEAF__FORMULA_FTRL_POWER;
}

/* 1 - beta. Keras 3 subtracts in double and rounds, the others subtract the rounded (R12.3). */
static double gain_of(const struct sheaf__hyper *h, double beta, bool wide)
{
    if (wide)
        return 1 - beta;
    return h->family == SHEAF_OPTIMIZER_KERAS3 ? (double)(float)(1 - beta)
                                               : (double)(1 - (float)beta);
}

static double alpha_of(const struct sheaf__hyper *h, bool wide)
{
    if (wide) {
        double p1 = pow(h->beta1, (double)h->step), p2 = pow(h->beta2, (double)h->step);
        return h->lr * sqrt(1 - p2) / (1 - p1);
    }
    float p1 = powf((float)h->beta1, (float)h->step);
    float p2 = powf((float)h->beta2, (float)h->step);
    if (h->family == SHEAF_OPTIMIZER_V1) {
        p1 = (float)h->beta1_product;
        p2 = (float)h->beta2_product;
    }
    return (double)((float)h->lr * sqrtf(1 - p2) / (1 - p1));
}

static struct sheaf__rule_constants constants_of(const struct sheaf__hyper *h, bool wide)
{
    struct sheaf__rule_constants k = {
        .lr = h->lr,
        .decay = h->weight_decay,
        .momentum = h->momentum,
        .rho = h->rho,
        .epsilon = h->epsilon,
        .l1 = h->l1,
        .shrink_twice = 2 * h->l2_shrinkage,
        .power = -h->learning_rate_power,
    };
    if (h->rule == SHEAF__RULE_ADAM) {
        k.alpha = alpha_of(h, wide);
        k.gain1 = gain_of(h, h->beta1, wide);
        k.gain2 = gain_of(h, h->beta2, wide);
    } else if (h->rule == SHEAF__RULE_RMSPROP) {
        k.gain2 = gain_of(h, h->rho, wide);
    } else if (h->rule == SHEAF__RULE_FTRL) {
        k.l2_twice = 2 * (h->l2 + (h->lr > 0 ? h->beta / (2 * h->lr) : 0));
    } else if (h->rule == SHEAF__RULE_ADAGRAD && h->family == SHEAF_OPTIMIZER_V1) {
        k.epsilon = 0;
    }
    return k;
}

void sheaf__rule_run_init(struct sheaf__rule_run *run, const struct sheaf__hyper *h,
                          const struct sheaf__update *u)
{
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    bool wide = u->dtype == SHEAF_FLOAT64;
    run->update = u;
    run->slots = sheaf__rule_slots(h, slots);
    run->size = sheaf_dtype_size(u->dtype);
    run->constants = constants_of(h, wide);
    const struct sheaf__rule_kernels *kernels = sheaf__rule_kernels(u->dtype, false);
    enum sheaf__rule_formula formula = formula_of(h);
    run->kernel = kernels->plain[formula];
    run->with_squares = kernels->squares[formula];
    run->decay = h->weight_decay != 0 ? kernels->plain[SHEAF__FORMULA_DECAY] : NULL;
}

/* `n` elements of a lane of float or double. */
static void run_lane(const struct sheaf__rule_run *run, const struct sheaf__rule_lane *lane,
                     size_t n)
{
    const struct sheaf__rule_constants *k = &run->constants;
    struct sheaf__rule_lane l = *lane;
    if (run->decay) {
        run->decay(k, &l, n);
        l.from = l.to;
    }
    if (l.squares && run->with_squares)
        run->with_squares(k, &l, n);
    else
        run->kernel(k, &l, n);
}

static void widen(float *out, const void *in, size_t n)
{
    const uint16_t *halves = in;
    for (size_t i = 0; i < n; i++)
        out[i] = sheaf__bfloat16_to_float(halves[i]);
}

static void narrow(void *out, const float *in, size_t n)
{
    uint16_t *halves = out;
    for (size_t i = 0; i < n; i++)
        halves[i] = sheaf__bfloat16_of_float(in[i]);
}

/* The same of bfloat16, in float; `n` is at most BLOCK. */
static void run_half(const struct sheaf__rule_run *run, const struct sheaf__rule_lane *lane,
                     size_t n)
{
    float value[BLOCK], gradient[BLOCK], squares[BLOCK], slots[SHEAF__RULE_SLOTS][BLOCK];
    struct sheaf__rule_lane wide = {.from = value, .to = value, .gradient = gradient};
    widen(value, lane->from, n);
    widen(gradient, lane->gradient, n);
    if (lane->squares) {
        widen(squares, lane->squares, n);
        wide.squares = squares;
    }
    for (size_t s = 0; s < run->slots; s++) {
        widen(slots[s], lane->slots[s], n);
        wide.slots[s] = slots[s];
    }
    run_lane(run, &wide, n);
    narrow(lane->to, value, n);
    for (size_t s = 0; s < run->slots; s++)
        narrow(lane->slots[s], slots[s], n);
}

void sheaf__rule_run_span(const struct sheaf__rule_run *run, size_t first, const void *gradient,
                          const void *squares, size_t n)
{
    const struct sheaf__update *u = run->update;
    bool half = u->dtype == SHEAF_BFLOAT16;
    /* With two passes a block stays in the cache between them. */
    size_t most = half || run->decay ? BLOCK : n;
    struct sheaf__flush flush = sheaf__flush_begin();
    for (size_t done = 0; done < n; done += most) {
        size_t count = n - done < most ? n - done : most;
        size_t at = (first + done) * run->size;
        struct sheaf__rule_lane lane = {
            .from = (const char *)u->from + at,
            .to = (char *)u->to + at,
            .gradient = (const char *)gradient + done * run->size,
            .squares = squares ? (const char *)squares + done * run->size : NULL,
        };
        for (size_t s = 0; s < run->slots; s++)
            lane.slots[s] = (char *)u->slots[s] + at;
        if (half)
            run_half(run, &lane, count);
        else
            run_lane(run, &lane, count);
    }
    sheaf__flush_end(flush);
}

void sheaf__rule_apply(const struct sheaf__hyper *h, const struct sheaf__update *u,
                       const void *gradient, size_t begin, size_t end)
{
    struct sheaf__rule_run run;
    if (begin >= end)
        return;
    sheaf__rule_run_init(&run, h, u);
    sheaf__rule_run_span(&run, begin, (const char *)gradient + begin * run.size, NULL, end - begin);
}
