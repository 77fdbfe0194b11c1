/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/schedule.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static void destroy(void *object)
{
    sheaf_schedule *s = object;
    sheaf__free(s->values);
    sheaf__free(s);
}

static const struct sheaf__class schedule_class = {"schedule", destroy};

static double at_nothing(const sheaf_schedule *s, double step)
{
    (void)s;
    (void)step;
    return NAN;
}

static void destroy_nothing(void *object)
{
    (void)object;
}

static const struct sheaf__class nothing_class = {"schedule", destroy_nothing};

/* What a maker returns without memory. */
static sheaf_schedule *nothing(void)
{
    static sheaf_schedule none = {
        .object = {.refs = 1, .cls = &nothing_class},
        .name = "nothing",
        .at = at_nothing,
        .latched = {.status = SHEAF_ERR_RESOURCE_EXHAUSTED,
                    .offset = SHEAF__UNKNOWN,
                    .record = SHEAF__UNKNOWN,
                    .message = "not enough memory for a schedule"},
    };
    return sheaf__ref(&none);
}

static sheaf_schedule *make(const char *name, double (*at)(const sheaf_schedule *s, double step),
                            size_t boundaries)
{
    sheaf_schedule *s = sheaf__calloc(1, sizeof(*s) + boundaries * sizeof(s->boundaries[0]));
    if (!s)
        return nothing();
    sheaf__object_init(&s->object, &schedule_class);
    s->name = name;
    s->at = at;
    return s;
}

/* All schedules but the piecewise one. */
static sheaf_schedule *check(sheaf_schedule *s)
{
    if (s->latched.status < 0)
        return s;
    if (!(s->decay_steps > 0) || !isfinite(s->decay_steps))
        sheaf__error(&s->latched, SHEAF_ERR_INVALID_ARGUMENT,
                     "%s schedule: decay_steps is %g, expected more than 0", s->name,
                     s->decay_steps);
    else if (!isfinite(s->initial) || !isfinite(s->rate) || !isfinite(s->end))
        sheaf__error(&s->latched, SHEAF_ERR_INVALID_ARGUMENT, "%s schedule: a number is not finite",
                     s->name);
    return s;
}

static double progress(const sheaf_schedule *s, double step)
{
    double p = step / s->decay_steps;
    return s->staircase ? floor(p) : p;
}

static double at_exponential(const sheaf_schedule *s, double step)
{
    return s->initial * pow(s->rate, progress(s, step));
}

static double at_inverse_time(const sheaf_schedule *s, double step)
{
    return s->initial / (1 + s->rate * progress(s, step));
}

/* `rate` is alpha. */
static double at_cosine(const sheaf_schedule *s, double step)
{
    double top = s->initial;
    if (s->warmup_steps > 0) {
        if (step < s->warmup_steps)
            return s->initial + (s->warmup_target - s->initial) * step / s->warmup_steps;
        step -= s->warmup_steps;
        top = s->warmup_target;
    }
    double done = fmin(step, s->decay_steps) / s->decay_steps;
    double cosine = 0.5 * (1 + cos(M_PI * done));
    return top * ((1 - s->rate) * cosine + s->rate);
}

static double at_polynomial(const sheaf_schedule *s, double step)
{
    double length = s->decay_steps;
    if (s->cycle)
        length *= step > 0 ? ceil(step / length) : 1;
    double done = fmin(step, length) / length;
    return (s->initial - s->end) * pow(1 - done, s->power) + s->end;
}

static double at_piecewise(const sheaf_schedule *s, double step)
{
    size_t i = 0;
    while (i < s->count && step > (double)s->boundaries[i])
        i++;
    return s->values[i];
}

sheaf_schedule *sheaf_schedule_exponential(double initial, double decay_steps, double decay_rate,
                                           bool staircase)
{
    sheaf_schedule *s = make("exponential", at_exponential, 0);
    if (s->latched.status < 0)
        return s;
    s->initial = initial;
    s->decay_steps = decay_steps;
    s->rate = decay_rate;
    s->staircase = staircase;
    return check(s);
}

sheaf_schedule *sheaf_schedule_inverse_time(double initial, double decay_steps, double decay_rate,
                                            bool staircase)
{
    sheaf_schedule *s = make("inverse time", at_inverse_time, 0);
    if (s->latched.status < 0)
        return s;
    s->initial = initial;
    s->decay_steps = decay_steps;
    s->rate = decay_rate;
    s->staircase = staircase;
    return check(s);
}

sheaf_schedule *sheaf_schedule_cosine(double initial, double decay_steps, double alpha,
                                      double warmup_steps, double warmup_target)
{
    sheaf_schedule *s = make("cosine", at_cosine, 0);
    if (s->latched.status < 0)
        return s;
    s->initial = initial;
    s->decay_steps = decay_steps;
    s->rate = alpha;
    s->warmup_steps = warmup_steps;
    s->warmup_target = warmup_target;
    return check(s);
}

sheaf_schedule *sheaf_schedule_polynomial(double initial, double decay_steps, double end,
                                          double power, bool cycle)
{
    sheaf_schedule *s = make("polynomial", at_polynomial, 0);
    if (s->latched.status < 0)
        return s;
    s->initial = initial;
    s->decay_steps = decay_steps;
    s->end = end;
    s->power = power;
    s->cycle = cycle;
    return check(s);
}

sheaf_schedule *sheaf_schedule_piecewise(const int64_t *boundaries, const double *values,
                                         size_t boundary_count)
{
    sheaf_schedule *s = make("piecewise", at_piecewise, boundary_count);
    if (s->latched.status < 0)
        return s;
    if (!values || (!boundaries && boundary_count)) {
        sheaf__error(&s->latched, SHEAF_ERR_INVALID_ARGUMENT, "piecewise schedule: %s are NULL",
                     values ? "the boundaries" : "the values");
        return s;
    }
    s->values = sheaf__memdup(values, (boundary_count + 1) * sizeof(*values));
    if (!s->values) {
        sheaf__unref(s);
        return nothing();
    }
    s->count = boundary_count;
    for (size_t i = 0; i < boundary_count; i++) {
        s->boundaries[i] = boundaries[i];
        if (i && boundaries[i] <= boundaries[i - 1] && s->latched.status == 0)
            sheaf__error(&s->latched, SHEAF_ERR_INVALID_ARGUMENT,
                         "piecewise schedule: boundary %zu is %lld, expected more than %lld", i,
                         (long long)boundaries[i], (long long)boundaries[i - 1]);
    }
    return s;
}

double sheaf_schedule_at(const sheaf_schedule *s, int64_t step)
{
    return s && s->latched.status == 0 ? s->at(s, step > 0 ? (double)step : 0) : NAN;
}

void sheaf_schedule_free(sheaf_schedule *s)
{
    sheaf__unref(s);
}
