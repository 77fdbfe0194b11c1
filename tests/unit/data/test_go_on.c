/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

/* An element that is an error comes once, in its place, and behind it comes what TensorFlow gives
 * (tests/golden/input/errors.json): R2.27, R9.2, R9.13. */

static bool has(const json_t *numbers, int64_t x)
{
    const json_t *number;
    size_t i;
    json_array_foreach(numbers, i, number)
    {
        if (json_integer_value(number) == x)
            return true;
    }
    return false;
}

static sheaf_status give(const sheaf_element *in, sheaf_element *out, void *bad)
{
    sheaf_tensor *x = sheaf_element_get(in, NULL);
    return has(bad, sheaf_tensor_integer(x, 0)) ? SHEAF_ERR_INVALID_ARGUMENT
                                                : sheaf_element_put(out, "", x);
}

/* The numbers of a range; those of `bad`, which lives as long, are errors. */
static sheaf_dataset *range_with(int64_t from, int64_t to, json_t *bad)
{
    return sheaf_dataset_map(sheaf_dataset_range(from, to, 1), give, bad, NULL);
}

static json_t *number_or_error(const sheaf_element *e)
{
    return json_integer(sheaf_tensor_integer(sheaf_element_get(e, NULL), 0));
}

/* All that comes is what TensorFlow gives, null for an error. Uses up `d`. */
static void check(sheaf_dataset *d, const json_t *c)
{
    json_t *found = elements_by(d, number_or_error), *value;
    char *text = json_dumps(c, 0);
    size_t i;
    json_array_foreach(found, i, value)
    {
        if (json_is_object(value))
            json_array_set_new(found, i, json_null());
    }
    assert_json(found, json_object_get(c, "output"), text);
    free(text);
    sheaf_dataset_free(d);
}

static sheaf_dataset *apply(const char *op, const json_t *args, sheaf_dataset *d)
{
    int64_t a[3] = {0};
    for (size_t i = 0; i < json_array_size(args); i++)
        a[i] = json_integer_value(json_array_get(args, i));
    const sheaf_shuffle_options seed = {.seed = a[1]};
    if (strcmp(op, "skip") == 0)
        return sheaf_dataset_skip(d, a[0]);
    if (strcmp(op, "shard") == 0)
        return sheaf_dataset_shard(d, a[0], a[1]);
    if (strcmp(op, "skip, shard") == 0)
        return sheaf_dataset_shard(sheaf_dataset_skip(d, a[0]), a[1], a[2]);
    if (strcmp(op, "take") == 0)
        return sheaf_dataset_take(d, a[0]);
    if (strcmp(op, "prefetch") == 0)
        return sheaf_dataset_prefetch(d, a[0]);
    if (strcmp(op, "repeat") == 0)
        return sheaf_dataset_repeat(d, a[0]);
    if (strcmp(op, "shuffle") == 0)
        return sheaf_dataset_shuffle(d, a[0], &seed);
    if (strcmp(op, "concatenate") == 0)
        return sheaf_dataset_concatenate(d, sheaf_dataset_range(100, 100 + a[0], 1));
    assert_string_equal(op, "cache");
    return sheaf_dataset_cache(d, NULL);
}

/* One element a pull, as a program asks, and many, as a batch behind does. */
static void test_stages(void **state)
{
    (void)state;
    json_t *root = golden_load("errors.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "stages"), i, c)
    {
        sheaf_dataset *d = range_with(0, number_at(c, "n", 0), json_object_get(c, "bad"));
        check(apply(text_at(c, "op"), json_object_get(c, "args"), d), c);
        d = range_with(0, number_at(c, "n", 0), json_object_get(c, "bad"));
        d = apply(text_at(c, "op"), json_object_get(c, "args"), d);
        check(sheaf_dataset_prefetch(d, 30), c);
        rig_log_take(); /* a cache says that it keeps no pass with errors */
    }
    assert_int_equal(i, 75);
    json_decref(root);
}

/* Behind an error every element is still one of exactly one shard, so that workers that divide the data do not lose
 * any or see it twice. (In TensorFlow that holds for two shards only.) */
static void test_shards_with_errors(void **state)
{
    enum { N = 40 };
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 100; round++) {
        json_t *bad = json_array();
        int seen[N] = {0};
        for (int i = 0; i < round % 7; i++) {
            random = random * 1664525 + 1013904223;
            json_array_append_new(bad, json_integer(random % N));
        }
        const int64_t shards = 3 + round % 4;
        for (int64_t k = 0; k < shards; k++) {
            sheaf_dataset *d = sheaf_dataset_shard(range_with(0, N, bad), shards, k);
            json_t *found = elements_by(d, number_or_error), *value;
            size_t i;
            json_array_foreach(found, i, value)
            {
                if (json_is_integer(value))
                    seen[json_integer_value(value)]++;
            }
            json_decref(found);
            sheaf_dataset_free(d);
        }
        for (int i = 0; i < N; i++)
            assert_int_equal(seen[i], !has(bad, i));
        json_decref(bad);
    }
}

static sheaf_dataset *open_numbers(const sheaf_element *in, void *user)
{
    const json_t *c = user;
    const int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    if (has(json_object_get(c, "bad_opens"), x))
        return NULL;
    return range_with(10 * x, 10 * x + number_at(c, "each", 0), json_object_get(c, "bad"));
}

static void test_interleaves(void **state)
{
    (void)state;
    json_t *root = golden_load("errors.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "interleaves"), i, c)
    {
        const sheaf_interleave_options o = {.cycle_length = (int)number_at(c, "cycle", 0),
                                            .block_length = (int)number_at(c, "block", 0),
                                            .parallel = (int)number_at(c, "threads", 0)};
        sheaf_dataset *d =
            range_with(0, number_at(c, "inputs", 0), json_object_get(c, "bad_inputs"));
        check(sheaf_dataset_interleave(d, open_numbers, c, &o), c);
    }
    assert_int_equal(i, 100);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_stages), rig_test(test_shards_with_errors),
                                       rig_test(test_interleaves)};
    return rig_run(tests);
}
