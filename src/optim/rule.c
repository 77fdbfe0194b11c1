/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/rule.h"

#include "base/error.h"
#include "base/flush.h"
#include "optim/rule_class.h"
#include "optim/rule_run.h"
#include "tensor/half.h"

#include <math.h>
#include <string.h>

#define BLOCK 512 /* elements of a pass through the first-level cache */

#define DECLARE(id, name) extern const struct sheaf__rule_class sheaf__rule_##name;
SHEAF__RULE_TABLE(DECLARE)
#undef DECLARE

static const struct sheaf__rule_class *const rules[] = {
#define ENTRY(id, name) [SHEAF__RULE_##id] = &sheaf__rule_##name,
    SHEAF__RULE_TABLE(ENTRY)
#undef ENTRY
};

const struct sheaf__rule_class *sheaf__rule_class(uint32_t rule)
{
    return rule < SHEAF__RULE_COUNT ? rules[rule] : NULL;
}

sheaf_status sheaf__hyper_check(const struct sheaf__hyper *h, sheaf_error *err)
{
    const struct sheaf__rule_class *rule = sheaf__rule_class(h->rule);
    if (!rule)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "update rule is %u, expected 1 to %d",
                            h->rule, SHEAF__RULE_COUNT - 1);
    if (h->family > SHEAF_OPTIMIZER_V1 || !(rule->families & 1u << h->family))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "family of the update rule %s is %u, which does not have it",
                            rule->name, h->family);
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

size_t sheaf__rule_slots(const struct sheaf__hyper *h,
                         struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS])
{
    return sheaf__rule_class(h->rule)->slots(h, slots);
}

bool sheaf__rule_takes(sheaf_dtype dtype)
{
    return dtype == SHEAF_FLOAT32 || dtype == SHEAF_FLOAT64 || dtype == SHEAF_BFLOAT16;
}

double sheaf__rule_gain(const struct sheaf__hyper *h, double beta, bool wide)
{
    if (wide)
        return 1 - beta;
    return h->family == SHEAF_OPTIMIZER_KERAS3 ? (double)(float)(1 - beta)
                                               : (double)(1 - (float)beta);
}

double sheaf__rule_correction(const struct sheaf__hyper *h, double beta, bool wide)
{
    return wide ? 1 - pow(beta, (double)h->step) : (double)(1 - powf((float)beta, (float)h->step));
}

static struct sheaf__rule_constants constants_of(const struct sheaf__hyper *h, bool wide)
{
    const struct sheaf__rule_class *rule = sheaf__rule_class(h->rule);
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
    if (rule->constants)
        rule->constants(h, wide, &k);
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
    enum sheaf__rule_formula formula = sheaf__rule_class(h->rule)->formula(h);
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
