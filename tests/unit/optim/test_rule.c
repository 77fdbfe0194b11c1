/* SPDX-License-Identifier: Apache-2.0 */
/* Update rules against TensorFlow's trajectories (tf-semantics 12.2). Expected:
 * tests/golden/optim/optimizers.json. */
#include "rig.h"

#include "base/mem.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "optim/rule_kernel.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#define MOST 16 /* elements of a variable in the file */

static json_t *golden(void)
{
    json_error_t fault;
    json_t *root = json_load_file(rig_golden("optim/optimizers.json"), 0, &fault);
    if (!root)
        fail_msg("%s", fault.text);
    return root;
}

/* All numbers of a nested list. Returns how many. */
static size_t numbers(const json_t *v, float *out)
{
    if (!json_is_array(v)) {
        *out = (float)json_number_value(v);
        return 1;
    }
    size_t i, n = 0;
    const json_t *one;
    json_array_foreach(v, i, one) n += numbers(one, out + n);
    return n;
}

/* One variable on its way through the steps. */
struct run {
    float value[MOST];
    float slots[SHEAF__RULE_SLOTS][MOST];
    size_t count;
    struct sheaf__update update;
};

static void run_start(struct run *r, const json_t *initial, const struct sheaf__hyper *h)
{
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    r->count = numbers(initial, r->value);
    r->update = (struct sheaf__update){.dtype = SHEAF_FLOAT32, .from = r->value, .to = r->value};
    size_t n = sheaf__rule_slots(h, slots);
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < r->count; i++)
            r->slots[s][i] = (float)slots[s].fill;
        r->update.slots[s] = r->slots[s];
    }
}

static double option(const json_t *arguments, const char *name)
{
    return json_number_value(json_object_get(arguments, name));
}

/* The optimizer of a case. */
static sheaf_optimizer *make(const json_t *c)
{
    static const struct {
        const char *start, *rule;
    } rules[] = {{"SGD", "sgd"},           {"GradientDescent", "sgd"}, {"Momentum", "sgd"},
                 {"AdamO", "adam"},        {"AdamW", "adam"},          {"Adagrad", "adagrad"},
                 {"RMSprop", "rmsprop"},   {"RMSProp", "rmsprop"},     {"Ftrl", "ftrl"},
                 {"Adadelta", "adadelta"}, {"Adamax", "adamax"},       {"Nadam", "nadam"},
                 {"Lion", "lion"}};
    const char *name = json_string_value(json_object_get(c, "optimizer"));
    const char *api = json_string_value(json_object_get(c, "api"));
    const json_t *a = json_object_get(c, "arguments");
    const char *rule = strcmp(name, "Adam") == 0 ? "adam" : NULL;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (strncmp(name, rules[i].start, strlen(rules[i].start)) == 0)
            rule = rules[i].rule;
    }
    assert_non_null(rule);
    bool adamw = strcmp(name, "AdamW") == 0;
    sheaf_optimizer_options o = {
        .family = strcmp(api, "keras3") == 0   ? SHEAF_OPTIMIZER_KERAS3
                  : strcmp(api, "legacy") == 0 ? SHEAF_OPTIMIZER_LEGACY
                                               : SHEAF_OPTIMIZER_V1,
        .learning_rate = option(a, "learning_rate"),
        .momentum = option(a, "momentum"),
        .nesterov = json_is_true(json_object_get(a, "nesterov")) ||
                    json_is_true(json_object_get(a, "use_nesterov")),
        .beta1 = option(a, "beta_1"),
        .beta2 = option(a, "beta_2"),
        .epsilon = option(a, "epsilon"),
        .amsgrad = json_is_true(json_object_get(a, "amsgrad")),
        .initial_accumulator = option(a, "initial_accumulator_value"),
        .rho = option(a, "rho"),
        .centered = json_is_true(json_object_get(a, "centered")),
        .l1 = option(a, "l1_regularization_strength"),
        .l2 = option(a, "l2_regularization_strength"),
        .l2_shrinkage = option(a, "l2_shrinkage_regularization_strength"),
        .beta = option(a, "beta"),
        .learning_rate_power = option(a, "learning_rate_power"),
        .decay = option(a, "decay"),
        .weight_decay =
            adamw && !json_object_get(a, "weight_decay") ? 0.004 : option(a, "weight_decay"),
        .clipvalue = option(a, "clipvalue"),
        .clipnorm = option(a, "clipnorm"),
        .global_clipnorm = option(a, "global_clipnorm"),
    };
    o.keras3_sparse = o.family == SHEAF_OPTIMIZER_KERAS3;
    sheaf_optimizer *made = sheaf_optimizer_named(rule, &o);
    sheaf_error err = {0};
    rig_ok(sheaf__optimizer_check(made, &err), &err);
    return made;
}

/* Clips the gradients of one step as the optimizer says. */
static void clip(const sheaf_optimizer *o, float gradients[][MOST], const size_t *counts, size_t n)
{
    double all = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = sheaf__clip_sum_squares(SHEAF_FLOAT32, gradients[i], counts[i]);
        all += sum;
        if (o->clip == SHEAF__CLIP_VALUE)
            sheaf__clip_value(SHEAF_FLOAT32, gradients[i], gradients[i], counts[i], o->clip_limit);
        if (o->clip == SHEAF__CLIP_NORM)
            sheaf__clip_scale(SHEAF_FLOAT32, gradients[i], gradients[i], counts[i],
                              sheaf__clip_factor(sqrt(sum), o->clip_limit));
    }
    for (size_t i = 0; i < n && o->clip == SHEAF__CLIP_GLOBAL_NORM; i++)
        sheaf__clip_scale(SHEAF_FLOAT32, gradients[i], gradients[i], counts[i],
                          sheaf__clip_factor(sqrt(all), o->clip_limit));
}

/* 1e-6 as the README of the file says: relative, and absolute for what is below 1. */
static void compare(const float *got, const json_t *want, const char *what, const char *name)
{
    float right[MOST];
    size_t n = numbers(want, right);
    for (size_t i = 0; i < n; i++) {
        float scale = fmaxf(1, fabsf(right[i]));
        if (!(fabsf(got[i] - right[i]) <= 1e-6f * scale))
            fail_msg("%s: %s, element %zu is %.9g, expected %.9g", name, what, i, (double)got[i],
                     (double)right[i]);
    }
}

static const char *describe(const json_t *c)
{
    static char text[300];
    char *arguments = json_dumps(json_object_get(c, "arguments"), JSON_COMPACT);
    snprintf(text, sizeof(text), "%s %s %s %s", json_string_value(json_object_get(c, "api")),
             json_string_value(json_object_get(c, "optimizer")), arguments,
             json_string_value(json_object_get(c, "gradients")));
    free(arguments);
    return text;
}

/* Slots at the end; keras3 lists those of the last variable, the others all as "0/m". */
static void compare_slots(const json_t *c, const struct sheaf__hyper *h, struct run *runs,
                          size_t count, const char *name)
{
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    size_t n = sheaf__rule_slots(h, slots), compared = 0;
    json_t *want = json_object_get(c, "slots_at_end"), *momenta;
    const char *path;
    bool keras3 = h->family == SHEAF_OPTIMIZER_KERAS3;
    for (size_t v = 0; v < count; v++) {
        for (size_t s = 0; s < n; s++) {
            char key[64];
            if (keras3)
                snprintf(key, sizeof(key), "Variable_0_%s", slots[s].name);
            else
                snprintf(key, sizeof(key), "%zu/%s", v, slots[s].name);
            const json_t *value = json_object_get(want, key);
            assert_non_null(value);
            if (keras3 && v + 1 < count)
                continue;
            compare(runs[v].slots[s], value, key, name);
            compared++;
        }
    }
    json_object_foreach(want, path, momenta)
    {
        if (strncmp(path, "variable", 8) == 0) { /* Nadam's, of no variable */
            float product = (float)h->beta1_product;
            compare(&product, momenta, path, name);
            compared++;
        }
    }
    assert_int_equal(compared, json_object_size(want));
}

static void follow_dense(const json_t *root, const json_t *c, sheaf_optimizer *o, bool split)
{
    static const char *const names[] = {"w", "b"};
    const json_t *initial = json_object_get(root, "variables");
    const json_t *steps = json_object_get(root, "dense_gradients"), *step;
    struct run runs[2];
    struct sheaf__hyper h;
    size_t t;
    for (int v = 0; v < 2; v++)
        run_start(&runs[v], json_object_get(initial, names[v]), &o->hyper);
    json_array_foreach(steps, t, step)
    {
        float gradients[2][MOST];
        size_t counts[2];
        h = sheaf__optimizer_hyper(o, (int64_t)t + 1);
        for (int v = 0; v < 2; v++)
            counts[v] = numbers(json_object_get(step, names[v]), gradients[v]);
        clip(o, gradients, counts, 2);
        for (int v = 0; v < 2; v++) {
            size_t cut = split ? counts[v] / 2 : counts[v];
            sheaf__rule_apply(&h, &runs[v].update, gradients[v], 0, cut);
            sheaf__rule_apply(&h, &runs[v].update, gradients[v], cut, counts[v]);
            compare(
                runs[v].value,
                json_array_get(json_array_get(json_object_get(c, "after_each_step"), t), (size_t)v),
                names[v], describe(c));
        }
    }
    compare_slots(c, &h, runs, 2, describe(c));
}

static void follow_sparse(const json_t *root, const json_t *c, sheaf_optimizer *o, bool split)
{
    const json_t *steps = json_object_get(root, "sparse_gradients"), *step;
    struct sheaf__hyper h;
    struct run run;
    size_t t, i;
    run_start(&run, json_object_get(json_object_get(root, "variables"), "e"), &o->hyper);
    json_array_foreach(steps, t, step)
    {
        float values[1][MOST];
        int64_t ids[MOST];
        const json_t *id;
        sheaf_error err = {0};
        h = sheaf__optimizer_hyper(o, (int64_t)t + 1);
        json_array_foreach(json_object_get(step, "indices"), i, id) ids[i] = json_integer_value(id);
        size_t count = numbers(json_object_get(step, "values"), values[0]);
        clip(o, values, &count, 1);
        struct sheaf__rule_rows rows = {
            .ids = ids, .values = values[0], .count = i, .width = 2, .rows = 5};
        struct sheaf__rule_merged merged;
        rig_ok(sheaf__rule_merge(&h, SHEAF_FLOAT32, &rows, &merged, &err), &err);
        int64_t cut = split ? 2 : 5;
        sheaf__rule_apply_rows(&h, &run.update, &merged.rows, 0, cut);
        sheaf__rule_apply_rows(&h, &run.update, &merged.rows, cut, 5);
        sheaf__rule_merged_free(&merged);
        compare(run.value, json_array_get(json_object_get(c, "after_each_step"), t), "e",
                describe(c));
    }
    compare_slots(c, &h, &run, 1, describe(c));
}

/* Every case of our rules, whole and in two chunks. R12.3, R12.4. */
static void trajectories_are_tensorflows(void **state)
{
    (void)state;
    json_t *root = golden();
    size_t i;
    json_t *c;
    int followed = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        bool dense = strcmp(json_string_value(json_object_get(c, "gradients")), "dense") == 0;
        for (int split = 0; split < 2; split++) {
            sheaf_optimizer *o = make(c);
            (dense ? follow_dense : follow_sparse)(root, c, o, split);
            sheaf_optimizer_free(o);
            followed++;
        }
    }
    assert_int_equal(followed, 2 * 148);
    json_decref(root);
}

/* R12.4, T12.3: Adagrad at rate 0.1, row 0 twice with 1.0. */
static void t12_3_repeated_rows(void **state)
{
    (void)state;
    static const struct {
        sheaf_optimizer_family family;
        bool to_the_letter;
        float sum;
    } cases[] = {{SHEAF_OPTIMIZER_LEGACY, false, 4.1f},
                 {SHEAF_OPTIMIZER_KERAS3, true, 2.1f},
                 {SHEAF_OPTIMIZER_KERAS3, false, 4.1f}};
    for (size_t i = 0; i < 3; i++) {
        sheaf_optimizer *o =
            sheaf_adagrad(&(sheaf_optimizer_options){.learning_rate = 0.1,
                                                     .family = cases[i].family,
                                                     .keras3_sparse = cases[i].to_the_letter});
        struct sheaf__hyper h = sheaf__optimizer_hyper(o, 1);
        float value[3] = {1, 2, 3}, sum[3] = {0.1f, 0.1f, 0.1f};
        struct sheaf__update u = {SHEAF_FLOAT32, value, value, {sum}};
        struct sheaf__rule_rows rows = {
            .ids = (int64_t[]){0, 0}, .values = (float[]){1, 1}, .count = 2, .width = 1, .rows = 3};
        struct sheaf__rule_merged merged;
        sheaf_error err = {0};
        rig_ok(sheaf__rule_merge(&h, SHEAF_FLOAT32, &rows, &merged, &err), &err);
        sheaf__rule_apply_rows(&h, &u, &merged.rows, 0, 3);
        sheaf__rule_merged_free(&merged);
        assert_true(fabsf(sum[0] - cases[i].sum) < 1e-6f);
        assert_true(sum[1] == 0.1f && value[1] == 2);
        sheaf_optimizer_free(o);
    }
}

/* Which rows without a gradient move, with Adam (R12.4). */
static void rows_without_a_gradient(void **state)
{
    (void)state;
    static const struct {
        sheaf_optimizer_options options;
        bool all;
    } cases[] = {{{.family = SHEAF_OPTIMIZER_KERAS3}, false},
                 {{.family = SHEAF_OPTIMIZER_KERAS3, .keras3_sparse = true}, true},
                 {{.family = SHEAF_OPTIMIZER_LEGACY}, true},
                 {{.family = SHEAF_OPTIMIZER_V1}, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sheaf_optimizer *o = sheaf_adam(&cases[i].options);
        struct sheaf__hyper h = sheaf__optimizer_hyper(o, 1);
        float from[4] = {1, 2, 3, 4}, to[4] = {9, 9, 9, 9};
        float m[4] = {1, 1, 1, 1}, v[4] = {1, 1, 1, 1};
        struct sheaf__update u = {SHEAF_FLOAT32, from, to, {m, v}};
        struct sheaf__rule_rows rows = {
            .ids = (int64_t[]){2}, .values = (float[]){1}, .count = 1, .width = 1, .rows = 4};
        sheaf__rule_apply_rows(&h, &u, &rows, 0, 4);
        assert_true(to[2] != 3);
        for (int row = 0; row < 4; row++) {
            if (row != 2)
                assert_int_equal(to[row] != from[row], cases[i].all);
            if (row != 2)
                assert_int_equal(m[row] != 1, cases[i].all);
        }
        sheaf_optimizer_free(o);
    }
}

/* ---- properties ---- */

enum { N = 1003 };

static float next_float(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return (float)(int32_t)*random / 2147483648.0f;
}

static const sheaf_optimizer_options *all_options(size_t i, const char **rule)
{
    static const struct {
        const char *rule;
        sheaf_optimizer_options options;
    } all[] = {
        {"sgd", {0}},
        {"sgd", {.momentum = 0.9, .weight_decay = 0.1}},
        {"sgd", {.momentum = 0.9, .nesterov = true}},
        {"sgd", {.momentum = 0.9, .nesterov = true, .family = 2, .learning_rate = 0.1}},
        {"sgd", {.momentum = 0.9, .family = 2, .learning_rate = 0.1}},
        {"adam", {0}},
        {"adam", {.amsgrad = true, .weight_decay = 0.01}},
        {"adam", {.family = 2}},
        {"adagrad", {0}},
        {"adagrad", {.family = 1}},
        {"rmsprop", {0}},
        {"rmsprop", {.momentum = 0.5}},
        {"rmsprop", {.centered = true}},
        {"rmsprop", {.centered = true, .momentum = 0.5}},
        {"rmsprop", {.family = 1}},
        {"rmsprop", {.family = 1, .centered = true}},
        {"rmsprop", {.family = 1, .momentum = 0.5}},
        {"rmsprop", {.family = 2, .centered = true, .learning_rate = 0.1}},
        {"ftrl", {.l1 = 0.01}},
        {"ftrl", {.learning_rate_power = -0.3}},
        {"adadelta", {0}},
        {"adamax", {.weight_decay = 0.01}},
        {"nadam", {0}},
        {"lion", {0}},
    };
    if (i >= sizeof(all) / sizeof(all[0]))
        return NULL;
    *rule = all[i].rule;
    return &all[i].options;
}

/* However the elements are cut, and whether `to` is `from`: the same bits. */
static void chunks_do_not_matter(void **state)
{
    (void)state;
    static const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64, SHEAF_BFLOAT16};
    const char *rule;
    const sheaf_optimizer_options *options;
    for (size_t i = 0; (options = all_options(i, &rule)); i++) {
        for (size_t d = 0; d < 3; d++) {
            size_t size = sheaf_dtype_size(dtypes[d]), bytes = N * size;
            static double whole[5][N], parts[5][N], to[N], gradient[N];
            uint32_t random = 7;
            for (size_t k = 0; k < bytes / 2; k++) {
                /* Values around 1 in each dtype: the exponent is in the upper half of its bytes. */
                float f = 1 + next_float(&random) / 2;
                double w = (double)f;
                if (dtypes[d] == SHEAF_FLOAT64 && k < N) {
                    ((double *)gradient)[k] = w - 1;
                    for (int b = 0; b < 4; b++)
                        whole[b][k] = w;
                } else if (dtypes[d] == SHEAF_FLOAT32 && k < N) {
                    ((float *)gradient)[k] = f - 1;
                    for (int b = 0; b < 4; b++)
                        ((float *)whole[b])[k] = f;
                } else if (k < N) {
                    uint16_t half = (uint16_t)(0x3f00 + (random >> 25));
                    ((uint16_t *)gradient)[k] = half;
                    for (int b = 0; b < 4; b++)
                        ((uint16_t *)whole[b])[k] = half;
                }
            }
            memcpy(parts, whole, sizeof(whole));
            sheaf_optimizer *o = sheaf_optimizer_named(rule, options);
            struct sheaf__hyper h = sheaf__optimizer_hyper(o, 3);
            struct sheaf__update a = {
                dtypes[d], whole[0], whole[0], {whole[1], whole[2], whole[3]}};
            struct sheaf__update b = {dtypes[d], parts[0], to, {parts[1], parts[2], parts[3]}};
            sheaf__rule_apply(&h, &a, gradient, 0, N);
            for (size_t at = 0, n = 1; at < N; at += n, n = n % 61 + 1)
                sheaf__rule_apply(&h, &b, gradient, at, at + n < N ? at + n : N);
            assert_memory_equal(whole[0], to, bytes);
            for (int s = 1; s < 4; s++)
                assert_memory_equal(whole[s], parts[s], bytes);
            sheaf_optimizer_free(o);
        }
    }
    assert_int_equal(sheaf__rule_takes(SHEAF_INT32), 0);
}

/* The wide kernels give the bits of the portable ones. */
static void wide_kernels_give_the_same_bits(void **state)
{
    (void)state;
    const struct sheaf__rule_constants k = {.lr = 0.01,
                                            .decay = 0.1,
                                            .momentum = 0.9,
                                            .alpha = 0.0123,
                                            .gain1 = 0.1,
                                            .gain2 = 0.001,
                                            .rho = 0.9,
                                            .epsilon = 1e-7,
                                            .l1 = 0.01,
                                            .l2_twice = 0.1,
                                            .shrink_twice = 0.1,
                                            .power = 0.3,
                                            .ahead = 0.8,
                                            .now = 0.2,
                                            .correction = 0.03};
    for (int wide = 0; wide < 2; wide++) {
        sheaf_dtype dtype = wide ? SHEAF_FLOAT64 : SHEAF_FLOAT32;
        const struct sheaf__rule_kernels *fast = sheaf__rule_kernels(dtype, false);
        const struct sheaf__rule_kernels *plain = sheaf__rule_kernels(dtype, true);
        for (int f = 0; f < 2 * SHEAF__FORMULAS; f++) {
            static double one[6][N], other[6][N];
            uint32_t random = (uint32_t)f;
            for (size_t i = 0; i < 6 * N; i++) {
                float v = next_float(&random) + (i < N ? 0 : 1.5f);
                if (wide)
                    one[i / N][i % N] = (double)v + 1e-12;
                else
                    ((float *)one[i / N])[i % N] = v;
            }
            memcpy(other, one, sizeof(one));
            struct sheaf__rule_lane a = {one[0], one[0], {one[1], one[2], one[3]}, one[4], one[5]};
            struct sheaf__rule_lane b = {
                other[0], other[0], {other[1], other[2], other[3]}, other[4], other[5]};
            bool squares = f >= SHEAF__FORMULAS;
            sheaf__rule_kernel x = squares ? fast->squares[f - SHEAF__FORMULAS] : fast->plain[f];
            sheaf__rule_kernel y = squares ? plain->squares[f - SHEAF__FORMULAS] : plain->plain[f];
            assert_int_equal(!x, !y);
            assert_true(x || squares);
            if (!x)
                continue;
            x(&k, &a, N);
            y(&k, &b, N);
            assert_memory_equal(one, other, sizeof(one));
        }
    }
}

static void rows_merge_in_order(void **state)
{
    (void)state;
    enum { COUNT = 5000, ROWS = 700, WIDTH = 3 };
    static int64_t ids[COUNT];
    static float values[COUNT][WIDTH], want[ROWS][WIDTH];
    uint32_t random = 3;
    sheaf_error err = {0};
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = (int64_t)(fabsf(next_float(&random)) * ROWS + (float)(i % 7)) % ROWS;
        for (size_t k = 0; k < WIDTH; k++) {
            values[i][k] = next_float(&random);
            want[ids[i]][k] += values[i][k];
        }
    }
    struct sheaf__hyper h = {.rule = SHEAF__RULE_SGD};
    struct sheaf__rule_rows rows = {
        .ids = ids, .values = values, .count = COUNT, .width = WIDTH, .rows = ROWS};
    struct sheaf__rule_merged merged;
    rig_ok(sheaf__rule_merge(&h, SHEAF_FLOAT32, &rows, &merged, &err), &err);
    for (size_t i = 0; i < merged.rows.count; i++) {
        assert_true(i == 0 || merged.rows.ids[i] > merged.rows.ids[i - 1]);
        assert_memory_equal((const float *)merged.rows.values + i * WIDTH, want[merged.rows.ids[i]],
                            sizeof(want[0]));
    }
    sheaf__rule_merged_free(&merged);
    ids[4321] = ROWS;
    rig_fails(sheaf__rule_merge(&h, SHEAF_FLOAT32, &rows, &merged, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT,
              "row 700, number 4321 of the gradient, is outside of the 700 rows");
    ids[4321] = -1;
    rig_fails(sheaf__rule_merge(&h, SHEAF_FLOAT32, &rows, &merged, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "row -1");
    /* Rows that are in order already are not copied; no rows at all are fine. */
    rows = (struct sheaf__rule_rows){
        .ids = (int64_t[]){1, 5}, .values = values, .count = 2, .width = WIDTH, .rows = ROWS};
    rig_ok(sheaf__rule_merge(&h, SHEAF_FLOAT32, &rows, &merged, &err), &err);
    assert_ptr_equal(merged.rows.values, values);
    sheaf__rule_merged_free(&merged);
    rows.count = 0;
    rig_ok(sheaf__rule_merge(&h, SHEAF_FLOAT32, &rows, &merged, &err), &err);
    assert_int_equal(merged.rows.count, 0);
}

static sheaf_status merge_some(void *user, sheaf_error *err)
{
    (void)user;
    struct sheaf__hyper h = {.rule = SHEAF__RULE_ADAM, .flags = SHEAF__HYPER_KERAS3_SPARSE};
    struct sheaf__rule_rows rows = {.ids = (int64_t[]){3, 1, 3},
                                    .values = (float[]){1, 2, 3},
                                    .count = 3,
                                    .width = 1,
                                    .rows = 4};
    struct sheaf__rule_merged merged;
    sheaf_status status = sheaf__rule_merge(&h, SHEAF_FLOAT32, &rows, &merged, err);
    if (status >= 0)
        sheaf__rule_merged_free(&merged);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_int_equal(rig_fail_allocations(merge_some, NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(trajectories_are_tensorflows),    rig_test(t12_3_repeated_rows),
        rig_test(rows_without_a_gradient),         rig_test(chunks_do_not_matter),
        rig_test(wide_kernels_give_the_same_bits), rig_test(rows_merge_in_order),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
