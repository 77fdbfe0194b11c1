/* SPDX-License-Identifier: Apache-2.0 */

/* Mirrored and sync-on-read variables: S13, S88-S98, R4.4-R4.6, R5.1-R5.22, T5.1-T5.4. */

#include "helpers.h"

#include "base/clock.h"
#include "base/thread.h"

#include <string.h>

static sheaf_variable *variable(sheaf_strategy *s, sheaf_tensor *initial,
                                sheaf_aggregation aggregation,
                                sheaf_synchronization synchronization)
{
    const sheaf_variable_options options = {.aggregation = aggregation,
                                            .synchronization = synchronization};
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("v", initial, &options);
    }
    return v;
}

static double copy_number(sheaf_variable *v, int i)
{
    return sheaf_tensor_number(sheaf_value(sheaf_variable_copy(v, i)), 0);
}

/* What a replica adds: the literal 1.0, or its id + 1 as a tensor. */
struct add {
    sheaf_variable *v;
    bool literal;
};

static sheaf_status add_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    const struct add *a = user;
    sheaf_error err = {0};
    (void)in;
    (void)out;
    sheaf_tensor *value =
        a->literal ? sheaf_plain(sheaf_float(1)) : sheaf_float((float)sheaf_replica_id(r) + 1);
    sheaf_status status = sheaf_assign_add(a->v, value, &err);
    return status < 0 ? sheaf_tensor_status(sheaf_failed(&err), NULL) : SHEAF_OK;
}

/* Adds on two replicas to a variable of 1.0: the status, and what the copies are then. */
static sheaf_status add_on_two(sheaf_aggregation aggregation, bool literal, double copies[2])
{
    sheaf_error err = {0};
    sheaf_strategy *s = strategy("mirrored");
    sheaf_variable *v = variable(s, sheaf_float(1), aggregation, SHEAF_SYNCHRONIZATION_AUTO);
    struct add a = {v, literal};
    sheaf_status status = sheaf_run(s, add_step, &a, NULL, NULL, &err);
    copies[0] = copy_number(v, 0);
    copies[1] = copy_number(v, 1);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
    return status;
}

static void expect_add(sheaf_aggregation aggregation, bool literal, double first, double second)
{
    double copies[2];
    assert_int_equal(add_on_two(aggregation, literal, copies), SHEAF_OK);
    assert_true(copies[0] == first);
    assert_true(copies[1] == second);
}

/* T5.1, T5.2, R5.9, R5.10 */
static void test_T5_1_aggregated_writes(void **state)
{
    (void)state;
    sheaf_error err = {0};
    double copies[2];
    rig_ok(sheaf_devices_configure(2, &err), &err);
    assert_int_equal(add_on_two(SHEAF_AGGREGATION_SUM, true, copies), SHEAF_ERR_INVALID_ARGUMENT);
    expect_add(SHEAF_AGGREGATION_MEAN, true, 2, 2);
    expect_add(SHEAF_AGGREGATION_ONLY_FIRST_REPLICA, true, 2, 2);
    expect_add(SHEAF_AGGREGATION_NONE, true, 2, 2);
    expect_add(SHEAF_AGGREGATION_SUM, false, 4, 4);
    expect_add(SHEAF_AGGREGATION_MEAN, false, 2.5, 2.5);
    expect_add(SHEAF_AGGREGATION_ONLY_FIRST_REPLICA, false, 2, 2);
    expect_add(SHEAF_AGGREGATION_NONE, false, 2, 3);
}

/* S92, R5.4: a copy on every replica, of one value */
static void test_S92_copies(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(3);
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_init("r", SHEAF_FLOAT32, SHEAF_SHAPE(4), sheaf_init_normal(0, 1, 0),
                                NULL);
    }
    assert_int_equal(sheaf_variable_copies(v), 3);
    const float *first = sheaf_tensor_data(sheaf_value(sheaf_variable_copy(v, 0)));
    for (int i = 1; i < 3; i++) {
        sheaf_variable *copy = sheaf_variable_copy(v, i);
        assert_memory_equal(sheaf_tensor_data(sheaf_value(copy)), first, 4 * sizeof(float));
        assert_string_equal(sheaf_variable_device(copy), sheaf_strategy_worker_device(s, i));
    }
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

static sheaf_status read_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                              void *user)
{
    (void)r;
    (void)in;
    return sheaf_element_put(out, "", sheaf_value(user));
}

/* S98, R5.11: written outside the scope, every copy changes; and S97: a variable made outside is plain, and reading it in
 * a step is counted */
static void test_S98_outside_the_scope(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *v =
        variable(s, sheaf_float(1), SHEAF_AGGREGATION_NONE, SHEAF_SYNCHRONIZATION_AUTO);
    rig_ok(sheaf_assign(v, sheaf_float(5), &err), &err);
    assert_true(copy_number(v, 0) == 5 && copy_number(v, 1) == 5);
    sheaf_variable *plain = sheaf_variable_new("p", sheaf_float(1), NULL);
    assert_int_equal(sheaf_variable_copies(plain), 1);
    struct add a = {plain, false};
    assert_int_equal(sheaf_counter("variable.read.unscoped"), 0);
    rig_ok(sheaf_run(s, add_step, &a, NULL, NULL, &err), &err);
    assert_true(sheaf_tensor_number(sheaf_value(plain), 0) == 4);
    rig_ok(sheaf_run(s, read_step, plain, NULL, NULL, &err), &err);
    rig_ok(sheaf_run(s, read_step, v, NULL, NULL, &err), &err);
    assert_int_equal(sheaf_counter("variable.read.unscoped"),
                     2); /* one a replica, the plain one's */
    sheaf_variable_free(plain);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

/* T5.3, R5.18, R5.19: SUM is shared out when assigned, summed when read */
static void test_T5_3_sync_on_read_sum(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *v =
        variable(s, sheaf_float(0), SHEAF_AGGREGATION_SUM, SHEAF_SYNCHRONIZATION_ON_READ);
    assert_false(sheaf_variable_trainable(v)); /* R5.2 */
    rig_ok(sheaf_assign(v, sheaf_float(10), &err), &err);
    assert_true(copy_number(v, 0) == 5 && copy_number(v, 1) == 5);
    assert_floats(sheaf_value(v), 10);
    rig_fails(sheaf_assign_add(v, sheaf_float(1), &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "SUM"); /* R5.20 */
    sheaf_variable_free(v);
    v = variable(s, sheaf_int(0), SHEAF_AGGREGATION_SUM, SHEAF_SYNCHRONIZATION_ON_READ);
    rig_ok(sheaf_assign(v, sheaf_int(5), &err), &err);
    assert_true(copy_number(v, 0) == 2 && copy_number(v, 1) == 2);
    assert_int_equal(sheaf_tensor_integer(sheaf_value(v), 0), 4);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

/* T5.4, R5.17, R5.20 */
static void test_T5_4_sync_on_read_mean(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *v =
        variable(s, sheaf_float(0), SHEAF_AGGREGATION_MEAN, SHEAF_SYNCHRONIZATION_ON_READ);
    struct add a = {v, false};
    rig_ok(sheaf_run(s, add_step, &a, NULL, NULL, &err), &err); /* each its own: 1 and 2 */
    assert_floats(sheaf_value(v), 1.5);
    rig_ok(sheaf_assign_add(v, sheaf_float(1), &err), &err);
    assert_true(copy_number(v, 0) == 2 && copy_number(v, 1) == 3);
    assert_floats(sheaf_value(v), 2.5);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

/* R5.2, R5.3, R5.18: combinations that have no meaning */
static void test_R5_2_refused(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *v =
        variable(s, sheaf_float(0), SHEAF_AGGREGATION_NONE, SHEAF_SYNCHRONIZATION_NONE);
    rig_fails(sheaf_variable_status(v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "synchronization NONE");
    sheaf_variable_free(v);
    v = variable(s, sheaf_int(0), SHEAF_AGGREGATION_MEAN, SHEAF_SYNCHRONIZATION_AUTO);
    rig_fails(sheaf_variable_status(v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "int32");
    sheaf_variable_free(v);
    v = variable(s, sheaf_float(0), SHEAF_AGGREGATION_NONE, SHEAF_SYNCHRONIZATION_ON_READ);
    rig_fails(sheaf_tensor_status(sheaf_value(v), &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "NONE");
    sheaf_variable_free(v);
    sheaf_frame_clear();
    sheaf_strategy_free(s);
}

/* S88: the printed text */
static void test_S88_text(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new(NULL, sheaf_float(1), NULL);
    }
    assert_string_equal(
        sheaf_variable_str(v),
        "MirroredVariable:{\n"
        "  0: <tf.Variable 'Variable:0' shape=() dtype=float32, numpy=1.0>,\n"
        "  1: <tf.Variable 'Variable/replica_1:0' shape=() dtype=float32, numpy=1.0>\n"
        "}");
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

static int leave_early(sheaf_strategy *s)
{
    SHEAF_SCOPE(s)
    {
        return sheaf_has_strategy();
    }
    return -1;
}

struct elsewhere {
    sheaf_strategy *mine;
    bool had_none, entered;
};

static void look_elsewhere(void *user)
{
    struct elsewhere *e = user;
    e->had_none = !sheaf_has_strategy() && sheaf_replica_context();
    SHEAF_SCOPE(e->mine)
    {
        e->entered = sheaf_strategy_current() == e->mine;
    }
}

/* S89: each thread has its own current strategy */
static void test_S89_per_thread(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2), *other = strategy("one");
    struct elsewhere e = {.mine = other};
    struct sheaf__thread *thread = NULL;
    SHEAF_SCOPE(s)
    {
        rig_ok(sheaf__thread_start("other", look_elsewhere, &e, NULL, &thread, &err), &err);
        rig_ok(sheaf__thread_join(thread, sheaf__clock_deadline(30), &err), &err);
        assert_ptr_equal(sheaf_strategy_current(), s);
    }
    assert_true(e.had_none && e.entered);
    sheaf_strategy_free(other);
    sheaf_strategy_free(s);
}

/* S88, S89, R4.5, R4.6: leaving early, entering again, mixing */
static void test_S89_scopes(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *s = mirrored(2), *t = strategy("one");
    assert_int_equal(leave_early(s), 1);
    assert_false(sheaf_has_strategy());
    int entered = 0;
    SHEAF_SCOPE(s)
    {
        SHEAF_SCOPE(s)
        {
            entered++;
        }
        SHEAF_FRAME
        {
            SHEAF_SCOPE(t)
            {
                entered += 10;
            }
            rig_fails(sheaf_frame_status(&err), &err, SHEAF_ERR_FAILED_PRECONDITION, "mixed");
        }
    }
    assert_int_equal(entered, 1);
    sheaf_strategy_free(s);
    sheaf_strategy_free(t);
}

static sheaf_variable *rename_hook(sheaf_variable_request *request, void *user)
{
    char *order = user;
    strcat(order, "i");
    request->name = "renamed";
    return sheaf_variable_create_next(request);
}

static sheaf_variable *outer_hook(sheaf_variable_request *request, void *user)
{
    strcat(user, "o");
    return sheaf_variable_create_next(request);
}

/* S91: hooks see every variable, innermost first, and the strategy comes after those inside its scope */
static void test_S91_creators(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *v = NULL;
    char order[8] = "";
    SHEAF_SCOPE(s)
    {
        SHEAF_CREATOR(outer_hook, order)
        {
            SHEAF_CREATOR(rename_hook, order)
            {
                v = sheaf_variable_new("v", sheaf_float(1), NULL);
            }
        }
    }
    assert_string_equal(order, "io");
    assert_string_equal(sheaf_variable_name(v), "renamed");
    assert_int_equal(sheaf_variable_copies(v), 2);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

/* S13: a device scope decides where operations run, not where variables live */
static void test_S13_device_scope(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(2);
    sheaf_variable *v = NULL;
    const char *device = NULL;
    SHEAF_SCOPE(s)
    {
        SHEAF_DEVICE("CPU:1")
        {
            v = sheaf_variable_new("v", sheaf_float(1), NULL);
            device = sheaf_tensor_device(sheaf_add(sheaf_float(1), sheaf_float(2)));
        }
    }
    assert_non_null(strstr(device, "CPU:1"));
    assert_non_null(strstr(sheaf_variable_device(v), "CPU:0"));
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_T5_1_aggregated_writes),
        rig_test(test_S92_copies),
        rig_test(test_S98_outside_the_scope),
        rig_test(test_T5_3_sync_on_read_sum),
        rig_test(test_T5_4_sync_on_read_mean),
        rig_test(test_R5_2_refused),
        rig_test(test_S88_text),
        rig_test(test_S89_scopes),
        rig_test(test_S89_per_thread),
        rig_test(test_S91_creators),
        rig_test(test_S13_device_scope),
    };
    return rig_run(tests);
}
