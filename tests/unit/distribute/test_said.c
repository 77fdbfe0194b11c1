/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"

#include <stdio.h>
#include <string.h>

/* What a function of the program says by sheaf_error_set(NULL, …) comes out of the call that fails because of it. */

#define SAID "the well is dry"

static sheaf_status say(void)
{
    return sheaf_error_set(NULL, SHEAF_ERR_ABORTED, "%s", SAID);
}

static void expect(sheaf_status status, const sheaf_error *err, const char *before)
{
    char whole[300];
    snprintf(whole, sizeof(whole), "%s" SAID, before);
    rig_fails(status, err, SHEAF_ERR_ABORTED, whole);
    assert_int_equal(err->status, status);
}

/* ---- pipelines ---- */

static sheaf_status map_fn(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)in;
    (void)out;
    (void)user;
    return say();
}

static sheaf_status filter_fn(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return say();
}

static sheaf_dataset *open_fn(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    say();
    return NULL;
}

static sheaf_status start_fn(void *user, void **state, sheaf_error *err)
{
    (void)state;
    (void)err;
    return user ? say() : SHEAF_OK;
}

static sheaf_status next_fn(void *state, sheaf_element *out, sheaf_error *err)
{
    (void)state;
    (void)out;
    (void)err;
    return say();
}

static sheaf_dataset *generator(bool starts)
{
    static int fails;
    const sheaf_generator g = {start_fn, next_fn, NULL, starts ? NULL : &fails};
    sheaf_element_spec *spec = sheaf_element_spec_new(
        &(sheaf_tensor_spec){.name = "", .dtype = SHEAF_INT64, .shape = SHEAF_SCALAR}, 1);
    return sheaf_dataset_from_generator(&g, spec);
}

static void first_of(sheaf_dataset *d, const char *before)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    sheaf_error err = {0};
    expect(sheaf_iterator_next(it, &e, &err), &err, before);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static sheaf_dataset *three(void)
{
    return sheaf_dataset_range(0, 3, 1);
}

static void of_stages(void **state)
{
    (void)state;
    const sheaf_map_options parallel = {.parallel = 2};
    const sheaf_interleave_options cycle = {.cycle_length = 2, .parallel = 2};
    first_of(sheaf_dataset_map(three(), map_fn, NULL, NULL),
             "stage 2 (map): the function failed: ");
    first_of(sheaf_dataset_map(three(), map_fn, NULL, &parallel),
             "stage 2 (map): the function failed: ");
    first_of(sheaf_dataset_filter(three(), filter_fn, NULL),
             "stage 2 (filter): the function failed: ");
    first_of(sheaf_dataset_interleave(three(), open_fn, NULL, NULL),
             "stage 2 (interleave): the function failed: ");
    first_of(sheaf_dataset_interleave(three(), open_fn, NULL, &cycle),
             "stage 2 (interleave): the function failed: ");
    first_of(sheaf_dataset_flat_map(three(), open_fn, NULL),
             "stage 2 (flat_map): the function failed: ");
    first_of(generator(true), "stage 1 (from_generator): the generator failed: ");
    first_of(generator(false), "stage 1 (from_generator): the start of the generator failed: ");
}

/* ---- steps ---- */

static sheaf_status merge_fn(sheaf_strategy *s, const sheaf_values *in, sheaf_values **out,
                             void *user)
{
    (void)s;
    (void)in;
    (void)out;
    (void)user;
    return say();
}

enum way { PLAIN, MERGES, ADDS_TO_IT, QUOTES_IT, GETS_OVER_IT };

static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_error err = {0};
    (void)in;
    switch (*(const enum way *)user) {
    case PLAIN:
        return say();
    case MERGES:
        sheaf_merge_call(r, merge_fn, NULL, NULL);
        return SHEAF_OK;
    case ADDS_TO_IT:
        sheaf_matmul(sheaf_float(1), sheaf_float(2));
        return sheaf_error_set(NULL, SHEAF_ERR_INVALID_ARGUMENT, "in my layer");
    case QUOTES_IT:
        sheaf_matmul(sheaf_float(1), sheaf_float(2));
        (void)sheaf_frame_status(&err);
        return sheaf_error_set(NULL, err.status, "in my layer (%s)", err.message);
    case GETS_OVER_IT:
        say();
        return sheaf_element_put(out, "", sheaf_float(1));
    }
    return SHEAF_ERR_INTERNAL;
}

static sheaf_status run(sheaf_strategy *s, enum way way, sheaf_error *err)
{
    return sheaf_run(s, step, &way, NULL, NULL, err);
}

/* With the cause that the frame has, which it need not repeat. */
static void with_a_cause(sheaf_strategy *s)
{
    sheaf_error cause = {0}, err = {0};
    char whole[2 * sizeof(cause.message)];
    SHEAF_FRAME
    {
        sheaf_matmul(sheaf_float(1), sheaf_float(2));
        assert_int_equal(sheaf_frame_status(&cause), SHEAF_ERR_INVALID_ARGUMENT);
    }
    snprintf(whole, sizeof(whole), "in my layer: %s", cause.message);
    assert_int_equal(run(s, ADDS_TO_IT, &err), cause.status);
    assert_string_equal(err.message, whole);
    snprintf(whole, sizeof(whole), "in my layer (%s)", cause.message);
    assert_int_equal(run(s, QUOTES_IT, &err), cause.status);
    assert_string_equal(err.message, whole);
}

static void of_steps(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *two = mirrored(2);
    expect(run(NULL, PLAIN, &err), &err, "the step function failed: ");
    expect(run(two, PLAIN, &err), &err, "the step function of replica 0 failed: ");
    expect(run(two, MERGES, &err), &err, "the merge function failed: ");
    rig_ok(run(two, GETS_OVER_IT, &err), &err);
    with_a_cause(NULL);
    with_a_cause(two);
    sheaf_strategy_free(two);
    sheaf_frame_clear();
}

/* ---- input ---- */

static sheaf_status value_fn(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    (void)user;
    return context->replica_id_in_sync_group == 1 ? say()
                                                  : sheaf_element_put(out, "", sheaf_float(1));
}

static sheaf_dataset *dataset_fn(const sheaf_input_context *context, void *user)
{
    (void)context;
    if (user)
        sheaf_matmul(sheaf_float(1), sheaf_float(2));
    else
        say();
    return NULL;
}

static void of_input(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_values *v;
    sheaf_strategy *two = mirrored(2);
    expect(sheaf_distribute_values_from_function(two, value_fn, NULL, &v, &err), &err,
           "the value function of replica 1 failed: ");
    for (int fails = 0; fails < 2; fails++) {
        sheaf_dist_dataset *d =
            sheaf_distribute_datasets_from_function(two, dataset_fn, fails ? &err : NULL, NULL);
        sheaf_dist_iterator *it = sheaf_iterate(d);
        sheaf_status status = sheaf_next(it, &v, &err);
        if (fails)
            rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT, "matmul");
        else
            expect(status, &err, "the dataset function of pipeline 0 failed: ");
        sheaf_dist_iterator_free(it);
        sheaf_dist_dataset_free(d);
    }
    sheaf_strategy_free(two);
    sheaf_frame_clear();
}

/* ---- variables ---- */

enum { LARGE = 1 << 20 }; /* is made in pieces, on several threads */

/* Every part from the middle on fails; the error is that of the first. */
static void fill(void *data, const sheaf_initial_part *part, uint64_t seed, const double *args)
{
    memset(data, 0, part->count * sheaf_dtype_size(part->dtype));
    (void)seed;
    if (part->first + part->count > (uint64_t)args[0])
        say();
}

static sheaf_variable *make(double first_that_fails)
{
    const sheaf_initializer init = {.fill = fill, .seed = 1, .args = {first_that_fails}};
    return sheaf_variable_init("v", SHEAF_FLOAT32, SHEAF_SHAPE(LARGE), init, NULL);
}

static sheaf_variable *creator(sheaf_variable_request *request, void *user)
{
    (void)request;
    if (user)
        say();
    return NULL;
}

static void of_variables(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_strategy *two = mirrored(2);
    sheaf_variable *v = make(LARGE);
    rig_ok(sheaf_variable_status(v, &err), &err);
    sheaf_variable_free(v);
    v = make(LARGE / 2);
    expect(sheaf_variable_status(v, &err), &err, "variable 'v': the initializer failed: ");
    sheaf_variable_free(v);
    SHEAF_SCOPE(two)
    {
        v = make(0);
    }
    expect(sheaf_variable_status(v, &err), &err, "variable 'v': the initializer failed: ");
    sheaf_variable_free(v);
    SHEAF_CREATOR(creator, &err)
    {
        v = sheaf_variable_new("v", sheaf_float(1), NULL);
    }
    expect(sheaf_variable_status(v, &err), &err, "variable 'v': its creator failed: ");
    sheaf_variable_free(v);
    SHEAF_CREATOR(creator, NULL)
    {
        v = sheaf_variable_new("v", sheaf_float(1), NULL);
    }
    rig_fails(sheaf_variable_status(v, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "variable 'v': its creator returned NULL");
    sheaf_variable_free(v);
    sheaf_strategy_free(two);
    sheaf_frame_clear();
}

/* ---- parameter servers ---- */

static sheaf_shape partition(sheaf_dtype dtype, sheaf_shape shape, const int64_t *args, void *user)
{
    (void)dtype;
    (void)args;
    (void)user;
    if (shape.dims[0] == 2)
        say();
    return SHEAF_SHAPE(2);
}

static sheaf_status train(struct rig_task *task)
{
    const sheaf_strategy_options options = {.variable_partitioner = {.fn = partition}};
    sheaf_strategy *s;
    sheaf_error err = {0};
    sheaf_variable *v, *w;
    const sheaf_status status = sheaf_strategy_new("ps", NULL, &options, &s, &task->err);
    if (status < 0)
        return status;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("v", sheaf_zeros(SHEAF_FLOAT32, SHEAF_SHAPE(2)), NULL);
        w = make(0);
    }
    RIG_CHECK(task, sheaf_variable_status(v, &err) == SHEAF_ERR_ABORTED);
    RIG_CHECK(task, strstr(err.message, "the partitioner failed: " SAID));
    RIG_CHECK(task, sheaf_variable_status(w, &err) == SHEAF_ERR_ABORTED);
    RIG_CHECK(task, strstr(err.message, "variable 'v': the initializer failed: " SAID));
    sheaf_variable_free(v);
    sheaf_variable_free(w);
    const sheaf_status joined = sheaf_strategy_join(s, 10, &task->err);
    sheaf_strategy_free(s);
    return joined;
}

static void under_parameter_servers(void **state)
{
    (void)state;
    run_cluster((struct jobs){.chief = 1, .ps = 2}, train, NULL, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(of_stages),
        rig_test(of_steps),
        rig_test(of_input),
        rig_test(of_variables),
        rig_test(under_parameter_servers),
    };
    return rig_run(tests);
}
