/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/mem.h"

#include <limits.h>

/* interleave and flat_map (R9.12-R9.14). */

/* Element i opens list i of `user`. */
static sheaf_dataset *open_list(const sheaf_element *in, void *user)
{
    const json_t *lists = user;
    const json_t *list =
        json_array_get(lists, (size_t)sheaf_tensor_integer(sheaf_element_get(in, NULL), 0));
    return sheaf_dataset_from_slices(sheaf_element_of(int64_of(list)));
}

/* R9.14: the order is the same however it is made. T9.15-T9.21, T9.23 are among the cases. */
static void test_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("interleave.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        json_t *inputs = json_object_get(c, "inputs"), *output = json_object_get(c, "output");
        int cycle = (int)number_at(c, "cycle", 0);
        const int calls[] = {0, 1, cycle, SHEAF_AUTOTUNE};
        for (int k = 0; k < 4; k++) {
            char what[64];
            const sheaf_interleave_options o = {.cycle_length = cycle,
                                                .block_length = (int)number_at(c, "block", 0),
                                                .parallel = calls[k]};
            snprintf(what, sizeof(what), "case %zu, parallel %d", i, calls[k]);
            sheaf_dataset *d = sheaf_dataset_range(0, (int64_t)json_array_size(inputs), 1);
            d = sheaf_dataset_interleave(d, open_list, inputs, &o);
            assert_json(elements(d), output, what);
            sheaf_dataset_free(d);
        }
        if (cycle == 1) {
            sheaf_dataset *d = sheaf_dataset_range(0, (int64_t)json_array_size(inputs), 1);
            d = sheaf_dataset_flat_map(d, open_list, inputs);
            assert_json(elements(d), output, "flat_map");
            sheaf_dataset_free(d);
        }
    }
    json_decref(root);
}

static void assert_little_memory(sheaf_dataset *d)
{
    const int64_t before = sheaf__mem_stats().live_bytes;
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        sheaf_element *e;
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        assert_true(sheaf__mem_stats().live_bytes - before < 100000);
    }
    sheaf_iterator_free(it);
}

/* Slots that no input ever fills are not gone through, and take no memory, however many the cycle has; the order is that of
 * a cycle as long as there are inputs. */
static void test_long_cycle(void **state)
{
    (void)state;
    json_t *inputs = literal("[[0, 1, 2], [10], [], [20, 21, 22, 23]]");
    for (int form = 0; form < 6; form++) {
        const int block = form % 2 + 1;
        const sheaf_interleave_options o = {
            .cycle_length = INT_MAX, .block_length = block, .parallel = form / 2};
        sheaf_dataset *d =
            sheaf_dataset_interleave(sheaf_dataset_range(0, 4, 1), open_list, inputs, &o);
        sheaf_dataset *skipped = sheaf_dataset_skip(sheaf_dataset_ref(d), 4);
        assert_elements(d, block == 1 ? "[0, 10, 20, 1, 21, 2, 22, 23]"
                                      : "[0, 1, 10, 20, 21, 2, 22, 23]");
        assert_elements(skipped, "[21, 2, 22, 23]");
        assert_little_memory(d);
        sheaf_dataset_free(skipped);
        sheaf_dataset_free(d);
    }
    json_decref(inputs);
}

enum { INPUTS = 2000, MOST = 7 };

/* Input i has i % MOST numbers from i * 10 on. */
static sheaf_dataset *open_some(const sheaf_element *in, void *user)
{
    const int64_t i = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    (void)user;
    return sheaf_dataset_range(i * 10, i * 10 + i % MOST, 1);
}

static json_t *of_many_slots(sheaf_interleave_options o)
{
    o.cycle_length = 500;
    o.block_length = 3;
    sheaf_dataset *d =
        sheaf_dataset_interleave(sheaf_dataset_range(0, INPUTS, 1), open_some, NULL, &o);
    json_t *found = elements(d);
    sheaf_dataset_free(d);
    return found;
}

/* Threads fill hundreds of slots as one would. */
static void test_many_slots(void **state)
{
    (void)state;
    json_t *expected = of_many_slots((sheaf_interleave_options){0});
    for (int parallel = SHEAF_AUTOTUNE; parallel < 4; parallel += 2)
        assert_json(of_many_slots((sheaf_interleave_options){.parallel = parallel}), expected,
                    "many slots");
    json_decref(expected);
    json_t *found = of_many_slots((sheaf_interleave_options){.parallel = 2, .unordered = true});
    int given[INPUTS] = {0};
    size_t i, all = 0;
    json_t *value;
    json_array_foreach(found, i, value)
    {
        const int64_t n = json_integer_value(value);
        assert_int_equal(n % 10, given[n / 10]++);
    }
    for (i = 0; i < INPUTS; i++)
        all += (size_t)given[i] == i % MOST;
    assert_int_equal(all, INPUTS);
    json_decref(found);
}

enum { ROWS = 20000 };

static sheaf_dataset *open_rows(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return sheaf_dataset_range(0, ROWS, 1);
}

/* Rows that come in turn are of one block, as those of one dataset are. */
static void test_a_row_is_no_block(void **state)
{
    (void)state;
    const sheaf_interleave_options o = {.cycle_length = 4, .parallel = 2};
    sheaf_dataset *d = sheaf_dataset_interleave(sheaf_dataset_range(0, 4, 1), open_rows, NULL, &o);
    d = sheaf_dataset_batch(d, 500, NULL);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    const uint64_t before = sheaf__mem_stats().allocations;
    sheaf_error err = {0};
    sheaf_element *e;
    int64_t rows = 0;
    SHEAF_EACH_ELEMENT(e, it, &err)
    {
        rows += sheaf_tensor_shape(sheaf_element_at(e, 0)).dims[0];
    }
    assert_int_equal(rows, 4 * ROWS);
    assert_true(sheaf__mem_stats().allocations - before < 4 * ROWS / 2);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* Any order, but all elements, those of an input in its own order. */
static void test_unordered_gives_all(void **state)
{
    (void)state;
    json_t *inputs = literal("[[0, 1, 2], [10, 11], [], [20, 21, 22, 23], [30]]");
    const sheaf_interleave_options o = {.cycle_length = 3, .parallel = 2, .unordered = true};
    sheaf_dataset *d =
        sheaf_dataset_interleave(sheaf_dataset_range(0, 5, 1), open_list, inputs, &o);
    json_t *found = elements(d), *value;
    size_t i;
    int64_t last[4] = {-1, 9, 19, 29};
    json_array_foreach(found, i, value)
    {
        int64_t n = json_integer_value(value);
        assert_int_equal(n, last[n / 10] + 1);
        last[n / 10] = n;
    }
    assert_int_equal(json_array_size(found), 10);
    json_decref(found);
    json_decref(inputs);
    sheaf_dataset_free(d);
}

static void test_bad_options(void **state)
{
    (void)state;
    json_t *inputs = literal("[[1]]");
    const sheaf_interleave_options bad[] = {
        {.cycle_length = -2},
        {.cycle_length = 1, .block_length = -1},
        {.cycle_length = 1, .parallel = 2},
        {.parallel = -2},
        {.reserved = {0, 0, 1, 0}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_first_fails(
            sheaf_dataset_interleave(sheaf_dataset_range(0, 1, 1), open_list, inputs, &bad[i]),
            SHEAF_ERR_INVALID_ARGUMENT, "stage 2 (interleave): ");
    json_decref(inputs);
}

/* The second input fails in its middle, the third cannot be opened. */
static sheaf_status fail_once(void *state, sheaf_element *out, sheaf_error *err)
{
    int *at = state;
    if (++*at == 2)
        return sheaf_error_set(err, SHEAF_ERR_IO, "the well is dry");
    return *at > 3 ? SHEAF_END : sheaf_element_put(out, "", sheaf_long(*at));
}
static sheaf_status new_count(void *user, void **state, sheaf_error *err)
{
    (void)user;
    (void)err;
    *state = calloc(1, sizeof(int));
    return SHEAF_OK;
}
static sheaf_dataset *open_failing(const sheaf_element *in, void *user)
{
    const sheaf_generator g = {new_count, fail_once, free, NULL};
    (void)user;
    int64_t i = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    if (i == 2)
        return NULL;
    if (i != 1)
        return sheaf_dataset_range(10 * i, 10 * i + 2, 1);
    return sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, SHEAF_SCALAR));
}

/* Errors come in their place, name both stages, and reading goes on behind them. */
static void test_errors_come_in_their_place(void **state)
{
    (void)state;
    for (int parallel = 0; parallel <= 2; parallel++) {
        const sheaf_interleave_options o = {.cycle_length = 2, .parallel = parallel};
        sheaf_dataset *d =
            sheaf_dataset_interleave(sheaf_dataset_range(0, 4, 1), open_failing, NULL, &o);
        json_t *expected = literal("[0, 1, 1, {\"status\": \"IO\"}, 3, {\"status\": "
                                   "\"InvalidArgument\"}, 30, 31]");
        assert_json(elements(d), expected, "errors");
        json_decref(expected);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_error err = {0};
        sheaf_element *e;
        for (int i = 0; i < 3; i++)
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_IO,
                  "stage 2 (interleave): stage 1 (from_generator): the well is dry");
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "stage 2 (interleave): the function gave no dataset");
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

/* R9.1. */
static void test_spec_and_cardinality(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        const sheaf_interleave_options o = {.cycle_length = 1,
                                            .spec = spec_of(SHEAF_INT64, SHEAF_SCALAR)};
        sheaf_dataset *d =
            sheaf_dataset_interleave(sheaf_dataset_range(0, 4, 1), open_failing, NULL, &o);
        assert_int_equal(sheaf_dataset_cardinality(d), SHEAF_UNKNOWN);
        assert_true(sheaf_element_spec_equal(sheaf_dataset_element_spec(d), o.spec));
        sheaf_dataset_free(d);
        d = sheaf_dataset_flat_map(sheaf_dataset_range(0, 4, 1), open_failing, NULL);
        assert_null(sheaf_dataset_element_spec(d));
        sheaf_dataset_free(d);
    }
}

/* Input 1 gives strings. */
static sheaf_status strings_next(void *state, sheaf_element *out, sheaf_error *err)
{
    int *at = state;
    (void)err;
    return ++*at > 2 ? SHEAF_END : sheaf_element_put(out, "", sheaf_string("s"));
}
static sheaf_status as_it_is(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}
static sheaf_dataset *open_strings(const sheaf_element *in, void *user)
{
    const sheaf_generator g = {new_count, strings_next, free, NULL};
    const int64_t i = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    if (i != 1)
        return sheaf_dataset_range(10 * i, 10 * i + 2, 1);
    sheaf_dataset *d = sheaf_dataset_from_generator(&g, spec_of(SHEAF_STRING, SHEAF_SCALAR));
    return user ? sheaf_dataset_map(d, as_it_is, NULL, NULL) : d;
}

/* The type that was declared is that of all elements (R9.13), whether the input knows its own or
 * not. */
static void test_the_declared_spec_holds(void **state)
{
    (void)state;
    char mapped;
    for (int parallel = 0; parallel <= 4; parallel++) {
        SHEAF_FRAME
        {
            const sheaf_interleave_options o = {.cycle_length = 2,
                                                .parallel = parallel / 2,
                                                .spec = spec_of(SHEAF_INT64, SHEAF_SCALAR)};
            sheaf_dataset *d = sheaf_dataset_interleave(sheaf_dataset_range(0, 3, 1), open_strings,
                                                        parallel % 2 ? &mapped : NULL, &o);
            /* In threads an error takes its source's turn. */
            json_t *expected =
                literal(parallel < 2 ? "[0, {\"status\": \"InvalidArgument\"}, "
                                       "{\"status\": \"InvalidArgument\"}, 1, 20, 21]"
                                     : "[0, {\"status\": \"InvalidArgument\"}, 1, "
                                       "{\"status\": \"InvalidArgument\"}, 20, 21]");
            assert_json(elements(d), expected, "a type that is not the declared one");
            json_decref(expected);
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            sheaf_error err = {0};
            sheaf_element *e;
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                      "stage 2 (interleave): ");
            sheaf_iterator_free(it);
            sheaf_dataset_free(d);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_golden),
        rig_test(test_long_cycle),
        rig_test(test_many_slots),
        rig_test(test_a_row_is_no_block),
        rig_test(test_unordered_gives_all),
        rig_test(test_bad_options),
        rig_test(test_errors_come_in_their_place),
        rig_test(test_spec_and_cardinality),
        rig_test(test_the_declared_spec_holds),
    };
    return rig_run(tests);
}
