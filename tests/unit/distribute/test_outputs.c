/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <sheaf/sheaf.h>

#include <string.h>

/* A place for a result is written on success only, whichever allocation fails; and after a success there is something in it. */

static char sentinel;

/* What the caller had in the place of a result, and what the call left there. */
static sheaf_status check(sheaf_status status, const void *place)
{
    const char *out;
    memcpy(&out, place, sizeof(out));
    if (status == SHEAF_OK)
        assert_true(out && out != &sentinel);
    else
        assert_ptr_equal(out, &sentinel);
    return status;
}

#define GET(out, call) (out = (void *)&sentinel, check((call), &(out)))

static sheaf_status put_one(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    (void)context;
    (void)user;
    return sheaf_element_put(out, "", sheaf_float(1));
}

static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)r;
    (void)in;
    (void)user;
    return sheaf_element_put(out, "", sheaf_float(2));
}

static sheaf_status run_steps(sheaf_strategy *s, sheaf_error *err)
{
    sheaf_values *v, *result;
    sheaf_element *sum;
    sheaf_status status = GET(v, sheaf_distribute_values_from_function(s, put_one, NULL, &v, err));
    if (status >= 0)
        status = GET(result, sheaf_run(s, step, NULL, v, &result, err));
    if (status >= 0)
        status = GET(sum, sheaf_reduce(s, SHEAF_REDUCE_SUM, result, NULL, 0, &sum, err));
    if (status >= 0)
        status = GET(sum, sheaf_gather_values(s, v, 0, &sum, err));
    /* A scalar has no axis to be joined along. */
    return status == SHEAF_ERR_INVALID_ARGUMENT ? SHEAF_OK : status;
}

static sheaf_status read_input(sheaf_strategy *s, sheaf_error *err)
{
    sheaf_dist_dataset *d = sheaf_distribute_dataset(
        s, sheaf_dataset_batch(sheaf_dataset_range(0, 8, 1), 2, NULL), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_values *v;
    sheaf_optional *o;
    sheaf_status status = GET(v, sheaf_next(it, &v, err));
    if (status >= 0)
        status = GET(v, sheaf_get_next(it, &v, err));
    if (status >= 0)
        status = GET(o, sheaf_get_next_as_optional(it, &o, err));
    if (status >= 0)
        status = GET(v, sheaf_optional_value(o, &v, err));
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    return status;
}

static sheaf_status read_dataset(sheaf_strategy *s, sheaf_error *err)
{
    sheaf_dataset *d = sheaf_dataset_range(0, 3, 1);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    sheaf_status status = SHEAF_OK;
    (void)s;
    while (status == SHEAF_OK)
        status = GET(e, sheaf_iterator_next(it, &e, err));
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    return status < 0 ? status : SHEAF_OK;
}

static sheaf_status read_files(sheaf_strategy *s, sheaf_error *err)
{
    static const char checkpoint[] = SHEAF_TEST_GOLDEN "/checkpoint/ps/sharded-1";
    static const char npz[] = SHEAF_TEST_GOLDEN "/npy/stored.npz";
    sheaf_bundle *b;
    sheaf_bundle_entry entry;
    sheaf_tensor_file *f;
    sheaf_tensor_file_entry first;
    sheaf_tensor *t;
    (void)s;
    sheaf_status status = GET(b, sheaf_bundle_open(checkpoint, &b, err));
    if (status < 0)
        return status;
    assert_int_equal(sheaf_bundle_get(b, 0, &entry), SHEAF_OK);
    status = GET(t, sheaf_bundle_read(b, entry.key, &t, err));
    sheaf_bundle_free(b);
    if (status < 0)
        return status;
    status = GET(f, sheaf_tensor_file_open(npz, &f, err));
    if (status < 0)
        return status;
    assert_int_equal(sheaf_tensor_file_get(f, 0, &first), SHEAF_OK);
    status = GET(t, sheaf_tensor_file_read(f, first.name, &t, err));
    sheaf_tensor_file_free(f);
    return status;
}

struct attempt {
    sheaf_status (*make)(sheaf_strategy *s, sheaf_error *err);
    int depth; /* so many objects are in the frame before: one depth makes the last one need a larger table */
};

/* In a context of its own, so that what pools keep goes with it. */
static sheaf_status attempt(void *user, sheaf_error *err)
{
    const struct attempt *a = user;
    sheaf_context *context;
    sheaf_strategy *s = NULL;
    static const char *const nothing[] = {NULL};
    const sheaf_context_options options = {.environment = nothing};
    sheaf_status status = GET(context, sheaf_context_new(&options, &context, err));
    if (status < 0)
        return status;
    sheaf_context *before = sheaf_context_enter(context);
    SHEAF_FRAME
    {
        status = GET(s, sheaf_strategy_new("one", NULL, NULL, &s, err));
        for (int i = 0; i < a->depth && status >= 0; i++)
            status = sheaf_tensor_status(sheaf_float(0), err);
        if (status >= 0)
            status = a->make(s, err);
        if (s != (void *)&sentinel)
            sheaf_strategy_free(s);
    }
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

static void set_on_success_only(void **state)
{
    (void)state;
    sheaf_status (*const makers[])(sheaf_strategy * s, sheaf_error * err) = {
        run_steps, read_input, read_dataset, read_files};
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
        for (int depth = 44; depth < 60; depth++)
            assert_true(rig_fail_allocations(attempt, &(struct attempt){makers[i], depth}) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(set_on_success_only),
    };
    return rig_run(tests);
}
