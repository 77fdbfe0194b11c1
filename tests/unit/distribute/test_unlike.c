/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"

#include <stdio.h>

/* Replicas whose values are not alike: whether they go together. */

/* Replica r puts `counts[r]` tensors, the last of the name "x<r>" if `counts[4]` says so. */
static sheaf_status put_some(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    const int r = context->replica_id_in_sync_group, *counts = user;
    for (int i = 0; i < counts[r]; i++) {
        char name[8] = "";
        if (counts[r] > 1 || counts[4])
            snprintf(name, sizeof(name), "x%d", counts[4] ? r : i);
        sheaf_element_put(out, name, r % 2 ? sheaf_int(i) : sheaf_float((float)i));
    }
    return SHEAF_OK;
}

static sheaf_status count_fields(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                 void *user)
{
    (void)r;
    (void)user;
    return sheaf_element_put(out, "", sheaf_long((int64_t)sheaf_element_size(in)));
}

/* R4.32, as in TensorFlow: all put tensors of the same names, which may be of any type, or none at all */
static void test_values_from_unlike_functions(void **state)
{
    (void)state;
    static const struct {
        int counts[5];
        const char *text; /* NULL: they go together */
    } cases[] = {{{0, 0, 0, 0}, NULL},
                 {{2, 2, 2, 2}, NULL},
                 {{1, 1, 2, 1}, "replica 2 has 2 tensors, replica 0 has 1"},
                 {{1, 1, 1, 0}, "replica 3 has 0 tensors, replica 0 has 1"},
                 {{0, 1, 1, 1}, "replica 1 has 1 tensors, replica 0 has 0"},
                 {{1, 1, 1, 1, true}, "tensor 0 is named 'x1' on replica 1 and 'x0' on replica 0"}};
    sheaf_strategy *s = mirrored(4);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        sheaf_error err = {0};
        sheaf_values *v = NULL, *out;
        sheaf_status status = sheaf_distribute_values_from_function(
            s, put_some, (void *)(uintptr_t)cases[c].counts, &v, &err);
        if (cases[c].text) {
            rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT, cases[c].text);
            assert_null(v);
            continue;
        }
        rig_ok(status, &err);
        assert_int_equal(sheaf_values_count(v), 4);
        rig_ok(sheaf_run(s, count_fields, NULL, v, &out, &err), &err);
        assert_int_equal(sheaf_tensor_integer(sheaf_values_get(out, 0, NULL), 0),
                         cases[c].counts[0]);
    }
    sheaf_strategy_free(s);
}

/* Element 0 opens numbers, element 1 elements of `*user` components. */
static sheaf_dataset *open_unlike(const sheaf_element *in, void *user)
{
    if (sheaf_tensor_integer(sheaf_element_at(in, 0), 0) == 0)
        return sheaf_dataset_range(0, 2, 1);
    sheaf_element *e = sheaf_element_new();
    for (int i = 0; i < *(const int *)user; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        sheaf_element_put(e, name, sheaf_float((float)i));
    }
    return sheaf_dataset_repeat(sheaf_dataset_from_tensors(e), 2);
}

static sheaf_dataset *unlike_elements(const sheaf_input_context *context, void *user)
{
    const sheaf_interleave_options two = {.cycle_length = 2};
    (void)context;
    return sheaf_dataset_interleave(sheaf_dataset_range(*(const int *)user > 2, 2, 1), open_unlike,
                                    user, &two);
}

/* What the replicas get must go together; there may be any number of components then. */
static void test_unlike_elements(void **state)
{
    (void)state;
    sheaf_strategy *s = mirrored(2);
    for (int components = 2; components <= 70; components += 68) {
        sheaf_error err = {0};
        sheaf_values *v;
        sheaf_element *sum;
        sheaf_dist_dataset *dd =
            sheaf_distribute_datasets_from_function(s, unlike_elements, &components, NULL);
        sheaf_dist_iterator *it = sheaf_iterate(dd);
        sheaf_status status = sheaf_next(it, &v, &err);
        if (components == 2) {
            rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT,
                      "replica 1 has 2 tensors, replica 0 has 1");
        } else {
            rig_ok(status, &err);
            rig_ok(sheaf_reduce(s, SHEAF_REDUCE_SUM, v, NULL, 0, &sum, &err), &err);
            assert_float_equal(sheaf_tensor_number(sheaf_element_get(sum, "69"), 0), 138, 0);
        }
        sheaf_dist_iterator_free(it);
        sheaf_dist_dataset_free(dd);
        sheaf_frame_clear();
    }
    sheaf_strategy_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_values_from_unlike_functions),
                                       rig_test(test_unlike_elements)};
    return rig_run(tests);
}
