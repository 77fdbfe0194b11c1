/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer in words, for workers to compare: one fact a line, always in the same order. */
#include "optim/optimizer.h"
#include "optim/rule_class.h"
#include "optim/schedule.h"
#include "tensor/print.h"

#include <stddef.h>

/* Numbers of the rule; those that it does not use are the same everywhere. */
static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
#define NUMBER(field)                                \
    {                                                \
#field, offsetof(struct sheaf__hyper, field) \
    }
    NUMBER(weight_decay), NUMBER(momentum),     NUMBER(rho),
    NUMBER(beta1),        NUMBER(beta2),        NUMBER(epsilon),
    NUMBER(l1),           NUMBER(l2),           NUMBER(initial_accumulator),
    NUMBER(beta),         NUMBER(l2_shrinkage), NUMBER(learning_rate_power),
#undef NUMBER
};

static const struct {
    const char *name;
    uint32_t flag;
} flags[] = {
    {"nesterov", SHEAF__HYPER_NESTEROV},
    {"amsgrad", SHEAF__HYPER_AMSGRAD},
    {"centered", SHEAF__HYPER_CENTERED},
    {"keras3_sparse", SHEAF__HYPER_KERAS3_SPARSE},
};

static const char *const clips[] = {
    [SHEAF__CLIP_VALUE] = "clipvalue",
    [SHEAF__CLIP_NORM] = "clipnorm",
    [SHEAF__CLIP_GLOBAL_NORM] = "global_clipnorm",
};

static void add(struct sheaf__str *out, const char *name, double value)
{
    sheaf__str_printf(out, "%s ", name);
    sheaf__print_number(out, SHEAF_FLOAT64, &value);
    sheaf__str_char(out, '\n');
}

static void add_schedule(struct sheaf__str *out, const sheaf_schedule *s)
{
    sheaf__str_printf(out, "schedule %s\n", s->name);
    add(out, "schedule's boundaries", (double)s->count);
    for (size_t i = 0; i < s->count; i++)
        add(out, "schedule's boundary", (double)s->boundaries[i]);
    for (size_t i = 0; s->values && i <= s->count; i++)
        add(out, "schedule's value", s->values[i]);
    add(out, "schedule's initial rate", s->initial);
    add(out, "schedule's decay_steps", s->decay_steps);
    add(out, "schedule's decay rate or alpha", s->rate);
    add(out, "schedule's end", s->end);
    add(out, "schedule's power", s->power);
    add(out, "schedule's warmup_steps", s->warmup_steps);
    add(out, "schedule's warmup_target", s->warmup_target);
    add(out, "schedule's staircase", s->staircase);
    add(out, "schedule's cycle", s->cycle);
}

void sheaf__optimizer_describe(const sheaf_optimizer *o, struct sheaf__str *out)
{
    const struct sheaf__hyper *h = &o->hyper;
    sheaf__str_printf(out, "rule %s\nfamily %s\n", sheaf__rule_class(h->rule)->name,
                      sheaf__family_name(h->family));
    if (o->schedule)
        add_schedule(out, o->schedule);
    else
        add(out, "learning_rate", o->learning_rate);
    add(out, "decay", o->decay);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        add(out, numbers[i].name, *(const double *)((const char *)h + numbers[i].offset));
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        add(out, flags[i].name, (h->flags & flags[i].flag) != 0);
    if (o->clip == SHEAF__CLIP_NONE)
        sheaf__str_add(out, "no clipping\n");
    else
        add(out, clips[o->clip], o->clip_limit);
}
