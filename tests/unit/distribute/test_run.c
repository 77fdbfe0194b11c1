/* SPDX-License-Identifier: Apache-2.0 */

/* Running steps: S12, S30, S81-S87, S94, S99, R4.1-R4.18, T4.7-T4.9. */

#include "helpers.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

static sheaf_status twice(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    _Atomic int *calls = user;
    (void)r;
    if (calls)
        atomic_fetch_add(calls, 1);
    return sheaf_element_put(out, "", sheaf_scale(only(in), 2, 0));
}

/* S81, S85, S99: once per replica, without a scope open; bare with one replica */
static void test_S81_runs_on_every_replica(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out;
    _Atomic int calls = 0;
    sheaf_strategy *s = mirrored(4);
    rig_ok(sheaf_run(s, twice, &calls, sheaf_values_tensor(sheaf_float(3)), &out, &err), &err);
    assert_int_equal(calls, 4);
    assert_int_equal(sheaf_values_count(out), 4);
    for (int r = 0; r < 4; r++)
        assert_floats(sheaf_values_get(out, r, NULL), 6);
    sheaf_strategy_free(s);
    s = strategy("one");
    rig_ok(sheaf_run(s, twice, NULL, sheaf_values_tensor(sheaf_float(3)), &out, &err), &err);
    assert_false(sheaf_values_is_per_replica(out));
    sheaf_strategy_free(s);
}

/* Waits, within reason, until all replicas are in their step at once. */
static sheaf_status together(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    _Atomic int *inside = user;
    const time_t limit = time(NULL) + 20;
    (void)in;
    (void)out;
    atomic_fetch_add(inside, 1);
    while (atomic_load(inside) < sheaf_replica_count(r))
        if (time(NULL) > limit)
            return SHEAF_ERR_DEADLINE;
    return SHEAF_OK;
}

/* S81: in parallel: no replica has to end before another begins */
static void test_S81_in_parallel(void **state)
{
    (void)state;
    sheaf_error err = {0};
    _Atomic int inside = 0;
    sheaf_strategy *s = mirrored(4);
    rig_ok(sheaf_run(s, together, &inside, NULL, NULL, &err), &err);
    sheaf_strategy_free(s);
}

static sheaf_status echo(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)r;
    (void)user;
    for (size_t i = 0; i < sheaf_element_size(in); i++)
        sheaf_element_put(out, sheaf_element_name(in, i), sheaf_element_at(in, i));
    return SHEAF_OK;
}

/* S44, S82: each replica gets its own component, the very tensors, under every name and nested ones too; what is not
 * distributed goes to all as it is */
static void test_S82_components(void **state)
{
    (void)state;
    static const char *const names[] = {"x", "user.age", "user.height"};
    sheaf_error err = {0};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(2);
    sheaf_tensor *own[2][3], *shared = sheaf_float(7);
    sheaf_element *parts[2];
    for (int r = 0; r < 2; r++) {
        parts[r] = sheaf_element_new();
        for (int k = 0; k < 3; k++) {
            own[r][k] = sheaf_range(r, r + k + 1, 1);
            sheaf_element_put(parts[r], names[k], own[r][k]);
        }
        sheaf_element_put(parts[r], "rate", shared);
    }
    rig_ok(sheaf_run(s, echo, NULL, sheaf_values_per_replica(parts, 2), &out, &err), &err);
    for (int r = 0; r < 2; r++) {
        for (int k = 0; k < 3; k++)
            assert_ptr_equal(sheaf_tensor_data(sheaf_values_get(out, r, names[k])),
                             sheaf_tensor_data(own[r][k]));
        assert_ptr_equal(sheaf_tensor_data(sheaf_values_get(out, r, "rate")),
                         sheaf_tensor_data(shared));
    }
    rig_ok(sheaf_run(s, echo, NULL, sheaf_values_tensor(shared), &out, &err), &err);
    assert_false(sheaf_values_is_per_replica(out)); /* R4.17: the same object on all */
    sheaf_strategy_free(s);
}

static sheaf_status plain_numbers(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                  void *user)
{
    (void)in;
    (void)user;
    sheaf_element_put(out, "same", sheaf_plain(sheaf_int(5)));
    return sheaf_element_put(out, "other", sheaf_plain(sheaf_int(sheaf_replica_id(r))));
}

/* R4.17: equal plain numbers are one value, others a PerReplica */
static void test_R4_17_plain_numbers(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(2);
    rig_ok(sheaf_run(s, plain_numbers, NULL, NULL, &out, &err), &err);
    assert_string_equal(sheaf_values_str(out),
                        "{'same': 5, 'other': PerReplica:{\n  0: 0,\n  1: 1\n}}");
    sheaf_strategy_free(s);
}

static sheaf_status contexts(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                             void *user)
{
    (void)in;
    (void)user;
    const bool right =
        sheaf_replica_context() == r && !sheaf_in_cross_replica_context() && sheaf_has_strategy() &&
        sheaf_strategy_current() == sheaf_replica_strategy(r) && sheaf_replica_count(r) == 2;
    return sheaf_element_put(out, "", sheaf_plain(sheaf_int(right ? sheaf_replica_id(r) : -1)));
}

/* S83, S89, S90, R4.1-R4.3 */
static void test_S83_contexts(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(2);
    assert_false(sheaf_has_strategy());
    assert_false(sheaf_in_cross_replica_context());
    assert_non_null(sheaf_replica_context());
    assert_int_equal(sheaf_replica_id(sheaf_replica_context()), 0);
    assert_int_equal(sheaf_strategy_num_replicas(NULL), 1);
    SHEAF_SCOPE(s)
    {
        assert_true(sheaf_in_cross_replica_context());
        assert_ptr_equal(sheaf_strategy_current(), s);
        assert_null(sheaf_replica_context());
    }
    assert_false(sheaf_has_strategy());
    rig_ok(sheaf_run(s, contexts, NULL, NULL, &out, &err), &err);
    assert_int_equal(sheaf_tensor_integer(sheaf_values_get(out, 0, NULL), 0), 0);
    assert_int_equal(sheaf_tensor_integer(sheaf_values_get(out, 1, NULL), 0), 1);
    sheaf_strategy_free(s);
}

static sheaf_status all_reduce_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                    void *user)
{
    (void)in;
    (void)user;
    sheaf_tensor *mine = sheaf_float((float)sheaf_replica_id(r) + 1);
    sheaf_element_put(out, "sum", sheaf_all_reduce(r, SHEAF_REDUCE_SUM, mine));
    return sheaf_element_put(out, "mean", sheaf_all_reduce(r, SHEAF_REDUCE_MEAN, mine));
}

/* S83, T4.8 */
static void test_T4_8_all_reduce(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(2);
    rig_ok(sheaf_run(s, all_reduce_step, NULL, NULL, &out, &err), &err);
    for (int r = 0; r < 2; r++) {
        assert_floats(sheaf_values_get(out, r, "sum"), 3);
        assert_floats(sheaf_values_get(out, r, "mean"), 1.5);
    }
    sheaf_strategy_free(s);
}

static sheaf_status all_gather_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                    void *user)
{
    (void)user;
    const float weights[] = {10, 20, 30};
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *mine = only(in);
    sheaf_tape_watch(tape, mine);
    sheaf_tensor *all = sheaf_all_gather(r, mine, 0);
    sheaf_tensor *w = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), weights);
    sheaf_element_put(out, "all", all);
    return sheaf_element_put(out, "gradient",
                             sheaf_tape_gradient(tape, sheaf_sum(sheaf_mul(all, w)), mine));
}

/* T4.9, S223: all_gather and its gradient */
static void test_T4_9_all_gather(void **state)
{
    (void)state;
    sheaf_error err = {0};
    const float data[] = {1, 2, 3};
    static const int counts[] = {2, 1};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(2);
    rig_ok(sheaf_run(s, all_gather_step, NULL, floats(data, counts, 2), &out, &err), &err);
    assert_floats(sheaf_values_get(out, 0, "all"), 1, 2, 3);
    assert_floats(sheaf_values_get(out, 1, "all"), 1, 2, 3);
    assert_floats(sheaf_values_get(out, 0, "gradient"), 20, 40);
    assert_floats(sheaf_values_get(out, 1, "gradient"), 60);
    sheaf_strategy_free(s);
}

static sheaf_status all_reduce_gradient_step(sheaf_replica *r, const sheaf_element *in,
                                             sheaf_element *out, void *user)
{
    (void)in;
    (void)user;
    sheaf_tape *tape = sheaf_tape_start();
    sheaf_tensor *mine = sheaf_float((float)sheaf_replica_id(r) + 1);
    sheaf_tape_watch(tape, mine);
    sheaf_tensor *y = sheaf_square(sheaf_all_reduce(r, SHEAF_REDUCE_SUM, mine));
    return sheaf_element_put(out, "", sheaf_tape_gradient(tape, y, mine));
}

/* S223, R4.37: d/dx of the sum of both replicas' (x0 + x1)^2 is 2 * 2 * (x0 + x1) */
static void test_R4_37_all_reduce_gradient(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(2);
    rig_ok(sheaf_run(s, all_reduce_gradient_step, NULL, NULL, &out, &err), &err);
    assert_floats(sheaf_values_get(out, 0, NULL), 12);
    assert_floats(sheaf_values_get(out, 1, NULL), 12);
    sheaf_strategy_free(s);
}

static sheaf_status merge_fn(sheaf_strategy *s, const sheaf_values *in, sheaf_values **out,
                             void *user)
{
    sheaf_element *sum;
    _Atomic int *calls = user;
    atomic_fetch_add(calls, 1);
    if (!sheaf_in_cross_replica_context())
        return SHEAF_ERR_INTERNAL;
    sheaf_status status = sheaf_reduce(s, SHEAF_REDUCE_SUM, in, NULL, 0, &sum, NULL);
    if (status >= 0)
        *out = sheaf_values_of(sum);
    return status;
}

static sheaf_status merge_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    (void)in;
    sheaf_element *mine = sheaf_element_of(sheaf_float((float)sheaf_replica_id(r) + 1));
    return sheaf_element_put(out, "", only(sheaf_merge_call(r, merge_fn, user, mine)));
}

/* R4.36 */
static void test_R4_36_merge_call(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out;
    _Atomic int calls = 0;
    sheaf_strategy *s = mirrored(3);
    rig_ok(sheaf_run(s, merge_step, &calls, NULL, &out, &err), &err);
    assert_int_equal(calls, 1);
    assert_floats(sheaf_values_get(out, 2, NULL), 6);
    sheaf_strategy_free(s);
}

static sheaf_status uneven_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                void *user)
{
    (void)in;
    if (sheaf_replica_id(r) == 0)
        return SHEAF_OK;
    return sheaf_element_put(
        out, "", only(sheaf_merge_call(r, merge_fn, user, sheaf_element_of(sheaf_float(1)))));
}

/* R4.14: all replicas must make the same calls */
static void test_R4_14_uneven_calls(void **state)
{
    (void)state;
    sheaf_error err = {0};
    _Atomic int calls = 0;
    sheaf_strategy *s = mirrored(2);
    rig_fails(sheaf_run(s, uneven_step, &calls, NULL, NULL, &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, "merge_call");
    rig_ok(sheaf_run(s, echo, NULL, NULL, NULL, &err),
           &err); /* the strategy is usable afterwards */
    sheaf_strategy_free(s);
}

static sheaf_status fails_on_one(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                 void *user)
{
    (void)in;
    (void)user;
    if (sheaf_replica_id(r) == 1) {
        const sheaf_error mine = {.status = SHEAF_ERR_DATA_LOSS, .message = "bad on purpose"};
        return sheaf_element_put(out, "", sheaf_failed(&mine));
    }
    return sheaf_element_put(out, "", sheaf_all_reduce(r, SHEAF_REDUCE_SUM, sheaf_float(1)));
}

/* R4.16: the first replica to fail cancels the step; its error is reported, not the cancellation of those who wait for it */
static void test_R4_16_errors(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(3);
    for (int i = 0; i < 3; i++)
        rig_fails(sheaf_run(s, fails_on_one, NULL, NULL, &out, &err), &err, SHEAF_ERR_DATA_LOSS,
                  "bad on purpose");
    rig_ok(sheaf_run(s, all_reduce_step, NULL, NULL, &out, &err), &err);
    assert_floats(sheaf_values_get(out, 0, "sum"), 6);
    sheaf_strategy_free(s);
}

static sheaf_status runs_inside(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                void *user)
{
    (void)in;
    (void)out;
    return sheaf_run(sheaf_replica_strategy(r), echo, NULL, NULL, NULL, user) < 0
               ? SHEAF_OK
               : SHEAF_ERR_INTERNAL;
}

/* R4.5, R4.11 */
static void test_R4_11_misuse(void **state)
{
    (void)state;
    sheaf_error err = {0}, inside = {0};
    sheaf_strategy *s = mirrored(1), *t = strategy("one");
    rig_ok(sheaf_run(s, runs_inside, &inside, NULL, NULL, &err), &err);
    assert_int_equal(inside.status, SHEAF_ERR_FAILED_PRECONDITION);
    SHEAF_SCOPE(t)
    {
        rig_fails(sheaf_run(s, echo, NULL, NULL, NULL, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
                  "mixed");
    }
    sheaf_strategy_free(s);
    sheaf_strategy_free(t);
}

static sheaf_status rows_step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                              void *user)
{
    (void)r;
    (void)user;
    return sheaf_element_put(out, "", sheaf_sum(only(in)));
}

/* S30, S53: traced once per signature, partial batches included; a given signature refuses what does not fit */
static void test_S30_compiled_step(void **state)
{
    (void)state;
    sheaf_error err = {0};
    const float data[] = {1, 2, 3, 4, 5, 6};
    static const int even[] = {2, 2}, uneven[] = {3, 1};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(2);
    sheaf_step *step = sheaf_step_new(rows_step, NULL, NULL);
    assert_int_equal(sheaf_step_traces(step), 0);
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf_run_step(s, step, floats(data, i ? uneven : even, 2), &out, &err), &err);
    assert_int_equal(sheaf_step_traces(step), 1);
    assert_floats(sheaf_values_get(out, 0, NULL), 6);
    sheaf_values *other = sheaf_values_tensor(sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(2, 3)));
    for (int i = 0; i < 2; i++)
        rig_ok(sheaf_run_step(s, step, other, &out, &err), &err);
    assert_int_equal(sheaf_step_traces(step), 2);
    sheaf_step_free(step);

    const sheaf_tensor_spec ints = {.dtype = SHEAF_INT32, .shape = SHEAF_SHAPE(SHEAF_UNKNOWN_DIM)};
    step = sheaf_step_new(rows_step, NULL, sheaf_element_spec_new(&ints, 1));
    rig_fails(sheaf_run_step(s, step, floats(data, even, 2), &out, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "float32");
    sheaf_step_free(step);
    sheaf_strategy_free(s);
}

/* The first replica waits for the others, which are busy until it has given up. */
static sheaf_status only_first_reduces(sheaf_replica *r, const sheaf_element *in,
                                       sheaf_element *out, void *user)
{
    _Atomic int *given_up = user;
    const time_t limit = time(NULL) + 20;
    (void)in;
    while (sheaf_replica_id(r) > 0 && !atomic_load(given_up))
        if (time(NULL) > limit)
            return SHEAF_ERR_INTERNAL;
    if (sheaf_replica_id(r) > 0)
        return SHEAF_OK;
    sheaf_element_put(out, "", sheaf_all_reduce(r, SHEAF_REDUCE_SUM, sheaf_float(1)));
    atomic_store(given_up, 1);
    return SHEAF_OK;
}

/* S87: options of a run: none is fine, an unknown field is refused, a deadline is kept */
static void test_S87_run_options(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *out;
    sheaf_strategy *s = mirrored(2);
    sheaf_values *in = sheaf_values_tensor(sheaf_float(3));
    rig_ok(sheaf_run_with(s, twice, NULL, in, NULL, &out, &err), &err);
    rig_ok(sheaf_run_with(s, twice, NULL, in, &(sheaf_run_options){0}, &out, &err), &err);
    assert_floats(sheaf_values_get(out, 1, NULL), 6);
    rig_fails(
        sheaf_run_with(s, twice, NULL, in, &(sheaf_run_options){.reserved = {0, 7}}, &out, &err),
        &err, SHEAF_ERR_INVALID_ARGUMENT, "reserved field 1 is 7");
    rig_fails(sheaf_run_with(s, twice, NULL, in, &(sheaf_run_options){.deadline = -1}, &out, &err),
              &err, SHEAF_ERR_INVALID_ARGUMENT, "-1");
    _Atomic int given_up = 0;
    rig_fails(sheaf_run_with(s, only_first_reduces, &given_up, NULL,
                             &(sheaf_run_options){.deadline = 0.2}, &out, &err),
              &err, SHEAF_ERR_DEADLINE, "waited too long for all_reduce");
    sheaf_strategy_free(s);
}

/* S12, R4.3: a step gives the same with no strategy, one device, one replica and four; what belongs into a step is
 * refused outside of one */
static void test_S12_any_number_of_devices(void **state)
{
    (void)state;
    static const char *const names[] = {"default", "one", "mirrored", "mirrored"};
    static const char *const devices[][5] = {
        {NULL}, {"CPU:0"}, {"CPU:0"}, {"CPU:0", "CPU:1", "CPU:2", "CPU:3"}};
    sheaf_error err = {0};
    sheaf_values *out;
    rig_ok(sheaf_devices_configure(4, &err), &err);
    for (int i = 0; i < 4; i++) {
        _Atomic int calls = 0;
        sheaf_strategy *s = NULL;
        const sheaf_strategy_options options = {.devices = devices[i]};
        rig_ok(sheaf_strategy_new(names[i], NULL, i ? &options : NULL, &s, &err), &err);
        rig_ok(sheaf_run(s, twice, &calls, sheaf_values_tensor(sheaf_float(3)), &out, &err), &err);
        assert_int_equal(calls, i == 3 ? 4 : 1);
        for (int r = 0; r < calls; r++)
            assert_floats(sheaf_values_get(out, r, NULL), 6);
        if (i > 0) {
            SHEAF_SCOPE(s)
            SHEAF_FRAME
            {
                sheaf_tensor *t =
                    sheaf_all_reduce(sheaf_replica_context(), SHEAF_REDUCE_SUM, sheaf_float(1));
                rig_fails(sheaf_tensor_status(t, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
                          "outside a replica step");
            }
            err = (sheaf_error){0};
        }
        sheaf_strategy_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S81_runs_on_every_replica),
        rig_test(test_S81_in_parallel),
        rig_test(test_S82_components),
        rig_test(test_R4_17_plain_numbers),
        rig_test(test_S83_contexts),
        rig_test(test_T4_8_all_reduce),
        rig_test(test_T4_9_all_gather),
        rig_test(test_R4_37_all_reduce_gradient),
        rig_test(test_R4_36_merge_call),
        rig_test(test_R4_14_uneven_calls),
        rig_test(test_R4_16_errors),
        rig_test(test_R4_11_misuse),
        rig_test(test_S30_compiled_step),
        rig_test(test_S12_any_number_of_devices),
        rig_test(test_S87_run_options),
    };
    return rig_run(tests);
}
