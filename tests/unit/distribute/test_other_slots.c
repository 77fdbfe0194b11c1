/* SPDX-License-Identifier: Apache-2.0 */

/* S96, formats.md 5.2: what TensorFlow's optimizers before Keras 3 have saved, restored into ours: after one step more the
 * variables are TensorFlow's (golden/checkpoint/make/slots.py). */

#include "helpers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { W = 4, B = 2, STEPS = 3 };

struct program {
    sheaf_variable *v[2];
    sheaf_optimizer *o;
    sheaf_checkpoint *c;
};

struct named {
    const char *file; /* in golden/checkpoint/slots */
    const char *rule;
    sheaf_optimizer_options options;
};

#define LEGACY .family = SHEAF_OPTIMIZER_LEGACY
#define V1     .family = SHEAF_OPTIMIZER_V1, .learning_rate = 0.0625

/* The numbers of legacy optimizers are in the file, too, so that those given here are none of theirs. */
static const struct named cases[] = {
    {"legacy-sgd", "sgd", {LEGACY, .momentum = 0.5}},
    {"legacy-sgd-plain", "sgd", {LEGACY}},
    {"legacy-adam", "adam", {LEGACY}},
    {"legacy-adam-amsgrad", "adam", {LEGACY, .amsgrad = true}},
    {"legacy-adagrad", "adagrad", {LEGACY}},
    {"legacy-rmsprop", "rmsprop", {LEGACY}},
    {"legacy-rmsprop-centered", "rmsprop", {LEGACY, .momentum = 0.25, .centered = true}},
    {"legacy-ftrl", "ftrl", {LEGACY}},
    {"legacy-adadelta", "adadelta", {LEGACY}},
    {"legacy-adamax", "adamax", {LEGACY}},
    {"v1-momentum", "sgd", {V1, .momentum = 0.75}},
    {"v1-adam", "adam", {V1}},
    {"v1-adagrad", "adagrad", {V1}},
    {"v1-rmsprop", "rmsprop", {V1, .momentum = 0.5}},
    {"v1-rmsprop-centered", "rmsprop", {V1, .momentum = 0.5, .centered = true}},
    {"v1-ftrl", "ftrl", {V1}},
    {"saver-momentum", "sgd", {V1, .momentum = 0.75, .name = "own"}},
    {"saver-adam", "adam", {V1}},
    {"saver-adagrad", "adagrad", {V1}},
    {"saver-rmsprop", "rmsprop", {V1, .momentum = 0.5}},
    {"saver-rmsprop-centered", "rmsprop", {V1, .momentum = 0.5, .centered = true}},
    {"saver-ftrl", "ftrl", {V1}},
    {"saver-legacy-adam",
     "adam",
     {LEGACY, .learning_rate = 0.0625, .beta1 = 0.8, .beta2 = 0.95, .decay = 0.25}},
};

static struct program start(const struct named *n)
{
    const float zeros[W] = {0};
    struct program p = {.o = sheaf_optimizer_named(n->rule, &n->options),
                        .c = sheaf_checkpoint_new()};
    p.v[0] = sheaf_variable_new("w", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(W), zeros), NULL);
    p.v[1] = sheaf_variable_new("b", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(B), zeros), NULL);
    sheaf_checkpoint_add_variables(p.c, p.v, 2);
    sheaf_checkpoint_add_optimizer(p.c, "optimizer", p.o);
    return p;
}

static void end(struct program *p)
{
    sheaf_checkpoint_free(p->c);
    sheaf_optimizer_free(p->o);
    sheaf_variable_free(p->v[0]);
    sheaf_variable_free(p->v[1]);
}

static const char *path_of(const struct named *n)
{
    char name[128];
    snprintf(name, sizeof(name), "checkpoint/slots/%s", n->file);
    return rig_golden(name);
}

/* Step STEPS + 1, with gradients that grow, so that slots that begin anew give other values. */
static void step(struct program *p, float part)
{
    sheaf_error err = {0};
    float w[W] = {0.5f, -1.25f, 2, -0.75f}, b[B] = {1.5f, -0.125f};
    for (int i = 0; i < W; i++)
        w[i] *= part * (STEPS + 1);
    for (int i = 0; i < B; i++)
        b[i] *= part * (STEPS + 1);
    sheaf_tensor *g[] = {sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(W), w),
                         sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(B), b)};
    rig_ok(sheaf_optimizer_apply(p->o, p->v, g, 2, &err), &err);
}

static void read_next(const char *file, double next[W + B])
{
    char line[512], name[64];
    FILE *f = fopen(rig_golden("checkpoint/slots/next.txt"), "r");
    assert_non_null(f);
    do {
        assert_non_null(fgets(line, sizeof(line), f));
        assert_int_equal(sscanf(line, "%63s %la %la %la %la %la %la", name, &next[0], &next[1],
                                &next[2], &next[3], &next[4], &next[5]),
                         1 + W + B);
    } while (strcmp(name, file) != 0);
    fclose(f);
}

/* Rounding may differ in the last place: kernels of TensorFlow's fuse a product and a sum. */
static void assert_values(const struct program *p, const struct named *n, double most)
{
    double next[W + B];
    read_next(n->file, next);
    for (int i = 0; i < W + B; i++) {
        const int of_b = i >= W;
        const double value = sheaf_tensor_number(sheaf_value(p->v[of_b]), of_b ? i - W : i);
        if (fabs(value - next[i]) > most * (1 + fabs(next[i])))
            fail_msg("%s: element %d is %a, expected %a", n->file, i, value, next[i]);
    }
}

/* The steps are in all files but those of v1 without Adam, which the log says. */
static void assert_steps(const struct program *p, const struct named *n, bool told)
{
    const bool v1 = !strncmp(n->file, "v1", 2);
    const bool counts = !v1 || !strcmp(n->rule, "adam");
    assert_int_equal(sheaf_optimizer_iterations(p->o), counts ? STEPS : 0);
    const char *log = rig_log_take();
    const bool no_rate = v1 || !strncmp(n->file, "saver", 5);
    assert_int_equal(strstr(log, "'optimizer/_variables/0'") != NULL, told && !counts);
    assert_int_equal(strstr(log, "'optimizer/_variables/1'") != NULL, told && no_rate);
}

static void check_consumed(const struct program *p, const struct named *n)
{
    sheaf_error err = {0};
    sheaf_status status = sheaf_checkpoint_assert_consumed(p->c, &err);
    if (status < 0)
        print_error("%s:\n", n->file);
    rig_ok(status, &err);
}

/* The optimizer was built before the restore. */
static void test_S96_slots_of_other_optimizers(void **state)
{
    (void)state;
    sheaf_error err = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct program p = start(&cases[i]);
        rig_ok(sheaf_optimizer_build(p.o, p.v, 2, &err), &err);
        rig_ok(sheaf_checkpoint_restore(p.c, path_of(&cases[i]), &err), &err);
        assert_steps(&p, &cases[i], true);
        check_consumed(&p, &cases[i]);
        step(&p, 1);
        assert_values(&p, &cases[i], 2e-7);
        end(&p);
    }
}

/* It is built by its first step: the numbers are there at once, the slots then. */
static void test_S96_slots_of_other_optimizers_later(void **state)
{
    (void)state;
    sheaf_error err = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct program p = start(&cases[i]);
        rig_ok(sheaf_checkpoint_restore(p.c, path_of(&cases[i]), &err), &err);
        assert_steps(&p, &cases[i], false);
        rig_ok(sheaf_optimizer_build(p.o, p.v, 2, &err), &err);
        assert_steps(&p, &cases[i], true);
        check_consumed(&p, &cases[i]);
        step(&p, 1);
        assert_values(&p, &cases[i], 2e-7);
        end(&p);
    }
}

static sheaf_status step_half(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                              void *user)
{
    (void)r;
    (void)in;
    (void)out;
    struct program *p = user;
    step(p, 0.5f);
    return SHEAF_OK;
}

/* Two replicas, each with half of the gradients: all copies have their slots. */
static void test_S96_slots_of_other_optimizers_mirrored(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct program p = {0};
        SHEAF_SCOPE(s)
        {
            p = start(&cases[i]);
            rig_ok(sheaf_optimizer_build(p.o, p.v, 2, &err), &err);
        }
        rig_ok(sheaf_checkpoint_restore(p.c, path_of(&cases[i]), &err), &err);
        assert_steps(&p, &cases[i], true);
        check_consumed(&p, &cases[i]);
        rig_ok(sheaf_run(s, step_half, &p, NULL, NULL, &err), &err);
        assert_values(&p, &cases[i], 2e-7);
        end(&p);
    }
    sheaf_strategy_free(s);
}

/* Keras 3's Adam has the same slots under other names. */
static void slots_of_another_family(void **state)
{
    (void)state;
    sheaf_error err = {0};
    static const struct named n = {"legacy-adam-amsgrad", "adam", {.amsgrad = true}};
    struct program p = start(&n);
    rig_ok(sheaf_optimizer_build(p.o, p.v, 2, &err), &err);
    rig_ok(sheaf_checkpoint_restore(p.c, path_of(&n), &err), &err);
    assert_true(sheaf_optimizer_learning_rate(p.o) == 0.0625);
    check_consumed(&p, &n);
    step(&p, 1);
    assert_values(&p, &n, 1e-6); /* R12.3 */
    end(&p);
}

/* v1 sums gradients where the others sum steps: its momentum is not theirs (tf-semantics 12.2). What has no rule here, or no
 * slot, is named as well. */
static void what_is_not_theirs_is_said(void **state)
{
    (void)state;
    static const struct {
        struct named n;
        const char *missing, *left;
    } others[] = {
        {{"v1-momentum", "sgd", {.momentum = 0.75}},
         "no value for object 'optimizer/_variables/2'",
         NULL},
        {{"legacy-sgd", "sgd", {V1, .momentum = 0.75}},
         "no value for object 'optimizer/_variables/2'",
         NULL},
        {{"legacy-adam", "adam", {LEGACY, .amsgrad = true}},
         "no value for object 'optimizer/_variables/4'",
         NULL},
        {{"saver-momentum", "adam", {V1}}, "no value for object 'optimizer/_variables/2'", NULL},
        {{"legacy-sgd", "sgd", {LEGACY}}, NULL, "'w/.OPTIMIZER_SLOT/optimizer/momentum'"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        sheaf_error err = {0};
        struct program p = start(&others[i].n);
        rig_ok(sheaf_optimizer_build(p.o, p.v, 2, &err), &err);
        if (others[i].missing) {
            rig_fails(sheaf_checkpoint_restore(p.c, path_of(&others[i].n), &err), &err,
                      SHEAF_ERR_NOT_FOUND, others[i].missing);
        } else {
            rig_ok(sheaf_checkpoint_restore(p.c, path_of(&others[i].n), &err), &err);
            rig_fails(sheaf_checkpoint_assert_consumed(p.c, &err), &err,
                      SHEAF_ERR_FAILED_PRECONDITION, others[i].left);
        }
        end(&p);
        (void)rig_log_take(); /* what is left is said there, too */
    }
}

/* A file of names has nothing of an optimizer, or of another one: of one that is built later that is told. */
static void names_without_slots_are_told(void **state)
{
    (void)state;
    sheaf_error err = {0};
    static const struct named n = {"saver-momentum", "adam", {V1}};
    struct program p = start(&n);
    rig_ok(sheaf_checkpoint_restore(p.c, path_of(&n), &err), &err);
    rig_ok(sheaf_optimizer_build(p.o, p.v, 2, &err), &err);
    assert_non_null(strstr(rig_log_take(), "has no value for 'optimizer/_variables/1', "
                                           "'optimizer/_variables/2'"));
    rig_fails(sheaf_checkpoint_assert_existing_objects_matched(p.c, &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, "'optimizer/_variables/2'");
    end(&p);
    assert_non_null(strstr(rig_log_take(), "'w/Momentum'"));
}

/* What the file has more of is counted: one momentum, or two. */
static void what_is_left_out_is_counted(void **state)
{
    (void)state;
    static const struct named with = {"", "sgd", {.momentum = 0.5}}, without = {"", "sgd", {0}};
    static const char *const said[] = {"1 value of 'optimizer/_variables' is left out (",
                                       "2 values of 'optimizer/_variables' are left out ("};
    for (size_t count = 1; count <= 2; count++) {
        sheaf_error err = {0};
        struct program saved = start(&with), restored = start(&without);
        rig_ok(sheaf_optimizer_build(saved.o, saved.v, count, &err), &err);
        rig_ok(sheaf_checkpoint_write(saved.c, rig_path("x"), NULL, &err), &err);
        rig_ok(sheaf_optimizer_build(restored.o, restored.v, count, &err), &err);
        rig_ok(sheaf_checkpoint_restore(restored.c, rig_path("x"), &err), &err);
        assert_non_null(strstr(rig_log_take(), said[count - 1]));
        end(&saved);
        end(&restored);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S96_slots_of_other_optimizers),
        rig_test(test_S96_slots_of_other_optimizers_later),
        rig_test(test_S96_slots_of_other_optimizers_mirrored),
        rig_test(slots_of_another_family),
        rig_test(what_is_not_theirs_is_said),
        rig_test(names_without_slots_are_told),
        rig_test(what_is_left_out_is_counted),
    };
    return rig_run(tests);
}
