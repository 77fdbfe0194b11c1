/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers' options and defaults, schedules, clipping (tf-semantics 12.2). Expected:
 * tests/golden/optim/optimizers.json. */
#include "rig.h"

#include "optim/clip.h"
#include "optim/optimizer.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static json_t *golden(void)
{
    json_error_t fault;
    json_t *root = json_load_file(rig_golden("optim/optimizers.json"), 0, &fault);
    if (!root)
        fail_msg("%s", fault.text);
    return root;
}

static sheaf_schedule *schedule_of(const char *text)
{
    if (strcmp(text, "ExponentialDecay(0.1, 10, 0.5)") == 0)
        return sheaf_schedule_exponential(0.1, 10, 0.5, false);
    if (strcmp(text, "ExponentialDecay(0.1, 10, 0.5, staircase)") == 0)
        return sheaf_schedule_exponential(0.1, 10, 0.5, true);
    if (strcmp(text, "PiecewiseConstantDecay([5, 10], [1, 0.5, 0.1])") == 0)
        return sheaf_schedule_piecewise((int64_t[]){5, 10}, (double[]){1, 0.5, 0.1}, 2);
    if (strcmp(text, "PolynomialDecay(0.1, 20, 0.01, power 1)") == 0)
        return sheaf_schedule_polynomial(0.1, 20, 0.01, 1, false);
    if (strcmp(text, "PolynomialDecay(0.1, 10, 0.01, power 2, cycle)") == 0)
        return sheaf_schedule_polynomial(0.1, 10, 0.01, 2, true);
    if (strcmp(text, "InverseTimeDecay(0.1, 10, 0.5)") == 0)
        return sheaf_schedule_inverse_time(0.1, 10, 0.5, false);
    if (strcmp(text, "InverseTimeDecay(0.1, 10, 0.5, staircase)") == 0)
        return sheaf_schedule_inverse_time(0.1, 10, 0.5, true);
    if (strcmp(text, "CosineDecay(0.1, 20, alpha 0.1)") == 0)
        return sheaf_schedule_cosine(0.1, 20, 0.1, 0, 0);
    if (strcmp(text, "CosineDecay(0.01, 20, warmup_target 0.1, warmup_steps 5)") == 0)
        return sheaf_schedule_cosine(0.01, 20, 0, 5, 0.1);
    return NULL; /* CosineDecayRestarts is not offered */
}

static void schedules_are_keras(void **state)
{
    (void)state;
    json_t *root = golden();
    size_t i, k;
    json_t *c, *step;
    int checked = 0;
    json_array_foreach(json_object_get(root, "schedules"), i, c)
    {
        const char *name = json_string_value(json_object_get(c, "schedule"));
        sheaf_schedule *s = schedule_of(name);
        if (!s)
            continue;
        json_array_foreach(json_object_get(c, "steps"), k, step)
        {
            double got = sheaf_schedule_at(s, json_integer_value(step));
            double want = json_number_value(json_array_get(json_object_get(c, "values"), k));
            if (!(fabs(got - want) <= 1e-6 * fabs(want)))
                fail_msg("%s at %lld: %.9g, expected %.9g", name,
                         (long long)json_integer_value(step), got, want);
        }
        sheaf_schedule_free(s);
        checked++;
    }
    assert_int_equal(checked, 9);
    json_decref(root);
}

static void bad_schedules_fail_the_optimizer(void **state)
{
    (void)state;
    sheaf_schedule *s[] = {
        sheaf_schedule_exponential(0.1, 0, 0.5, false),
        sheaf_schedule_cosine(0.1, -1, 0, 0, 0),
        sheaf_schedule_polynomial(NAN, 10, 0, 1, false),
        sheaf_schedule_piecewise((int64_t[]){5, 5}, (double[]){1, 2, 3}, 2),
    };
    static const char *const messages[] = {"decay_steps is 0", "decay_steps is -1", "not finite",
                                           "boundary 1 is 5, expected more than 5"};
    for (size_t i = 0; i < 4; i++) {
        sheaf_error err = {0};
        assert_true(isnan(sheaf_schedule_at(s[i], 0)));
        sheaf_optimizer *o = sheaf_sgd(&(sheaf_optimizer_options){.schedule = s[i]});
        rig_fails(sheaf__optimizer_check(o, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, messages[i]);
        sheaf_optimizer_free(o);
        sheaf_schedule_free(s[i]);
    }
    sheaf_schedule_free(NULL);
}

/* The optimizer has a count of its own; the rate is that of the next step. */
static void a_schedule_sets_the_rate(void **state)
{
    (void)state;
    sheaf_schedule *s = sheaf_schedule_piecewise((int64_t[]){1}, (double[]){1, 0.5}, 1);
    sheaf_optimizer *o = sheaf_sgd(&(sheaf_optimizer_options){.schedule = s});
    sheaf_schedule_free(s);
    assert_true(sheaf_optimizer_learning_rate(o) == 1);
    assert_int_equal(sheaf_optimizer_iterations(o), 0);
    assert_true(sheaf__optimizer_hyper(o, 2).lr == 1);
    assert_true(sheaf__optimizer_hyper(o, 3).lr == 0.5);
    o->iterations = 2;
    assert_true(sheaf_optimizer_learning_rate(o) == 0.5);
    assert_int_equal(sheaf_optimizer_iterations(o), 2);
    sheaf_optimizer_free(o);
}

static void defaults_are_kerass(void **state)
{
    (void)state;
    static const struct {
        const char *name, *rule;
    } ours[] = {{"SGD", "sgd"},         {"Adam", "adam"},   {"Adagrad", "adagrad"},
                {"RMSprop", "rmsprop"}, {"Ftrl", "ftrl"},   {"Adadelta", "adadelta"},
                {"Adamax", "adamax"},   {"Nadam", "nadam"}, {"Lion", "lion"}};
    json_t *root = golden();
    size_t i;
    json_t *d;
    int checked = 0;
    json_array_foreach(json_object_get(root, "defaults"), i, d)
    {
        for (size_t k = 0; k < sizeof(ours) / sizeof(ours[0]); k++) {
            if (strcmp(ours[k].name, json_string_value(json_object_get(d, "optimizer"))) != 0)
                continue;
            bool legacy = strcmp(json_string_value(json_object_get(d, "api")), "legacy") == 0;
            sheaf_optimizer *o = sheaf_optimizer_named(
                ours[k].rule,
                &(sheaf_optimizer_options){.family = legacy ? SHEAF_OPTIMIZER_LEGACY
                                                            : SHEAF_OPTIMIZER_KERAS3});
            const struct {
                const char *name;
                double value;
            } values[] = {{"learning_rate", o->learning_rate},
                          {"momentum", o->hyper.momentum},
                          {"beta_1", o->hyper.beta1},
                          {"beta_2", o->hyper.beta2},
                          {"epsilon", o->hyper.epsilon},
                          {"rho", o->hyper.rho},
                          {"initial_accumulator_value", o->hyper.initial_accumulator},
                          {"learning_rate_power", o->hyper.learning_rate_power},
                          {"l1_regularization_strength", o->hyper.l1},
                          {"l2_regularization_strength", o->hyper.l2},
                          {"l2_shrinkage_regularization_strength", o->hyper.l2_shrinkage},
                          {"beta", o->hyper.beta},
                          {"decay", o->decay}};
            assert_string_equal(o->name, ours[k].name);
            for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
                const json_t *want = json_object_get(d, values[v].name);
                if (json_is_number(want) && json_number_value(want) != values[v].value)
                    fail_msg("%s: %s is %g", ours[k].name, values[v].name, values[v].value);
            }
            sheaf_optimizer_free(o);
            checked++;
        }
    }
    assert_int_equal(checked, 16);
    json_decref(root);
}

static void clipping_is_tensorflows(void **state)
{
    (void)state;
    json_t *root = golden();
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(root, "clip"), i, c)
    {
        double limit = json_number_value(json_object_get(c, "clip_norm"));
        float t[2][2] = {{3, 4}, {12, 0}};
        bool global = json_object_get(c, "global_norm") != NULL;
        double sum = sheaf__clip_sum_squares(SHEAF_FLOAT32, t[0], 2);
        if (global)
            sum += sheaf__clip_sum_squares(SHEAF_FLOAT32, t[1], 2);
        double factor = sheaf__clip_factor(sqrt(sum), limit);
        for (int k = 0; k <= global; k++)
            sheaf__clip_scale(SHEAF_FLOAT32, t[k], t[k], 2, factor);
        const json_t *result = json_object_get(c, "result");
        const json_t *first = global ? json_array_get(result, 0) : result;
        for (size_t k = 0; k < 2; k++)
            assert_true(fabs((double)t[0][k] - json_number_value(json_array_get(first, k))) <=
                        1e-6);
    }
    assert_int_equal(i, 7);
    float values[] = {-2, -0.5f, 0, 3, NAN}, clipped[5];
    sheaf__clip_value(SHEAF_FLOAT32, clipped, values, 5, 1);
    assert_true(clipped[0] == -1 && clipped[1] == -0.5f && clipped[3] == 1 && isnan(clipped[4]));
    double wide[] = {-2, 0.5};
    sheaf__clip_value(SHEAF_FLOAT64, wide, wide, 2, 1);
    assert_true(wide[0] == -1 && wide[1] == 0.5);
    uint16_t halves[] = {0x4000, 0xbf00}; /* 2, -0.5 */
    sheaf__clip_value(SHEAF_BFLOAT16, halves, halves, 2, 1);
    assert_true(halves[0] == 0x3f80 && halves[1] == 0xbf00);
    assert_true(isnan(sheaf__clip_factor(NAN, 1)));
    json_decref(root);
}

static void sums_of_squares(void **state)
{
    (void)state;
    enum { N = 10007 };
    static float f[N];
    static double d[N];
    static uint16_t h[N];
    double want = 0;
    for (int i = 0; i < N; i++) {
        f[i] = (float)(i % 16) - 8;
        d[i] = (double)f[i];
        uint32_t bits;
        memcpy(&bits, &f[i], 4);
        h[i] = (uint16_t)(bits >> 16);
        want += d[i] * d[i];
    }
    assert_true(sheaf__clip_sum_squares(SHEAF_FLOAT32, f, N) == want);
    assert_true(sheaf__clip_sum_squares(SHEAF_FLOAT64, d, N) == want);
    assert_true(sheaf__clip_sum_squares(SHEAF_BFLOAT16, h, N) == want);
    assert_true(sheaf__clip_sum_squares(SHEAF_FLOAT32, f, 0) == 0);
}

static void bad_options_are_latched(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        sheaf_optimizer_options options;
        const char *message;
    } cases[] = {
        {"sgd", {.rho = 0.9}, "sgd knows no rho in family keras3"},
        {"adam", {.momentum = 0.9}, "adam knows no momentum"},
        {"adam",
         {.amsgrad = true, .family = SHEAF_OPTIMIZER_V1},
         "adam knows no amsgrad in family v1"},
        {"sgd", {.decay = 0.1}, "sgd knows no decay in family keras3"},
        {"sgd", {.weight_decay = 0.1, .family = SHEAF_OPTIMIZER_LEGACY}, "no weight_decay"},
        {"adam", {.keras3_sparse = true, .family = SHEAF_OPTIMIZER_LEGACY}, "no keras3_sparse"},
        {"sgd", {.learning_rate = -1}, "learning_rate is -1, expected 0 or more"},
        {"sgd", {.learning_rate = NAN}, "learning_rate is nan, expected a finite number"},
        {"sgd", {.momentum = 1.5}, "momentum is 1.5, expected 0 to 1"},
        {"adam", {.beta1 = 1}, "beta1 is 1, expected 0 or more and less than 1"},
        {"ftrl", {.learning_rate_power = 0.5}, "learning_rate_power is 0.5, expected 0 or less"},
        {"sgd", {.clipnorm = 1, .clipvalue = 1}, "more than one of clipvalue"},
        {"sgd", {.family = SHEAF_OPTIMIZER_V1}, "no learning_rate"},
        {"sgd", {.family = (sheaf_optimizer_family)7}, "family is 7"},
        {"lion", {.family = SHEAF_OPTIMIZER_LEGACY}, "lion is not in family legacy"},
        {"adadelta", {.family = SHEAF_OPTIMIZER_V1, .learning_rate = 1}, "not in family v1"},
        {"lion", {.epsilon = 1e-3}, "lion knows no epsilon"},
        {"lamb",
         {0},
         "optimizer is \"lamb\", expected one of momentum, sgd, adam, adagrad, rmsprop, ftrl, "
         "adadelta, adamax, nadam, lion"},
        {NULL, {0}, "optimizer is \"\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sheaf_error err = {0};
        sheaf_optimizer *o = sheaf_optimizer_named(cases[i].rule, &cases[i].options);
        rig_fails(sheaf__optimizer_check(o, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  cases[i].message);
        assert_true(isnan(sheaf_optimizer_learning_rate(o)));
        sheaf_optimizer_free(o);
    }
    sheaf_error err = {0};
    rig_fails(sheaf__optimizer_check(NULL, &err), &err, SHEAF_ERR_RESOURCE_EXHAUSTED, "");
}

static void names_and_zeros(void **state)
{
    (void)state;
    sheaf_optimizer *o = sheaf_optimizer_named("momentum", NULL);
    assert_true(o->hyper.momentum == 0.9 && o->hyper.rule == SHEAF__RULE_SGD);
    sheaf_optimizer_free(o);
    o = sheaf_adam(
        &(sheaf_optimizer_options){.name = "mine", .has_beta1 = true, .has_epsilon = true});
    assert_string_equal(o->name, "mine");
    assert_true(o->hyper.beta1 == 0 && o->hyper.beta2 == 0.999 && o->hyper.epsilon == 0);
    sheaf_optimizer_free(o);
    o = sheaf_adagrad(&(sheaf_optimizer_options){.has_initial_accumulator = true});
    assert_true(o->hyper.initial_accumulator == 0);
    sheaf_optimizer_free(o);
    sheaf_optimizer_free(NULL);
}

/* R12.3: v1's running products, in whatever order steps are asked for. */
static void v1_products(void **state)
{
    (void)state;
    sheaf_optimizer *o = sheaf_adam(&(sheaf_optimizer_options){.family = SHEAF_OPTIMIZER_V1});
    float p = 1;
    for (int t = 1; t <= 1000; t++) {
        p *= 0.999f;
        assert_true(sheaf__optimizer_hyper(o, t).beta2_product == (double)p);
    }
    assert_true(sheaf__optimizer_hyper(o, 1).beta1_product == (double)0.9f);
    assert_true(sheaf__optimizer_hyper(o, 1000).beta2_product == (double)p);
    /* A restored job may be far on: the products stand still long before. */
    assert_true(sheaf__optimizer_hyper(o, INT64_MAX).beta2_product < 1e-40);
    sheaf_optimizer_free(o);
}

/* What came from another process is looked at before it is used. */
static void hypers_from_outside_are_checked(void **state)
{
    (void)state;
    sheaf_optimizer *o = sheaf_adam(NULL);
    sheaf_error err = {0};
    struct sheaf__hyper good = sheaf__optimizer_hyper(o, 1), h = good;
    sheaf_optimizer_free(o);
    rig_ok(sheaf__hyper_check(&h, &err), &err);
    h.rule = 10;
    rig_fails(sheaf__hyper_check(&h, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "rule is 10, expected 1 to 9");
    h.rule = 9; /* Lion */
    h.family = SHEAF_OPTIMIZER_LEGACY;
    rig_fails(sheaf__hyper_check(&h, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "family of the update rule lion is 1, which does not have it");
    h = good;
    h.family = 3;
    rig_fails(sheaf__hyper_check(&h, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "is 3");
    h = good;
    h.flags = 16;
    rig_fails(sheaf__hyper_check(&h, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "flags 0x10");
    h = good;
    h.step = 0;
    rig_fails(sheaf__hyper_check(&h, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "is 0");
    h = good;
    h.learning_rate_power = INFINITY;
    rig_fails(sheaf__hyper_check(&h, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "not finite");
}

static sheaf_status make_all(void *user, sheaf_error *err)
{
    (void)user;
    sheaf_schedule *s = sheaf_schedule_piecewise((int64_t[]){5}, (double[]){1, 0.5}, 1);
    sheaf_optimizer *o = sheaf_adam(&(sheaf_optimizer_options){.schedule = s});
    sheaf_status status = sheaf__optimizer_check(o, err);
    sheaf_optimizer_free(o);
    sheaf_schedule_free(s);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_int_equal(rig_fail_allocations(make_all, NULL), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(schedules_are_keras),
        rig_test(bad_schedules_fail_the_optimizer),
        rig_test(a_schedule_sets_the_rate),
        rig_test(defaults_are_kerass),
        rig_test(clipping_is_tensorflows),
        rig_test(sums_of_squares),
        rig_test(bad_options_are_latched),
        rig_test(names_and_zeros),
        rig_test(v1_products),
        rig_test(hypers_from_outside_are_checked),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
