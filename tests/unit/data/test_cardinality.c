/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "data/split_batch.h"

/* R9.1, R9.2, T9.1, T2.2. */

static sheaf_status same(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}
static sheaf_status keep(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return SHEAF_OK;
}
static sheaf_dataset *open_self(const sheaf_element *in, void *user)
{
    (void)user;
    return sheaf_dataset_from_tensors(sheaf_element_of(sheaf_element_get(in, NULL)));
}

static sheaf_dataset *infinite(void)
{
    return sheaf_dataset_repeat(sheaf_dataset_range(0, 3, 1), -1);
}
static sheaf_dataset *unknown(void)
{
    return sheaf_dataset_filter(sheaf_dataset_range(0, 5, 1), keep, NULL);
}
static sheaf_dataset *input(const char *name)
{
    if (strcmp(name, "infinite") == 0)
        return infinite();
    if (strcmp(name, "unknown") == 0)
        return unknown();
    return sheaf_dataset_range(0, atoi(name), 1);
}

static sheaf_dataset *batched(sheaf_dataset *d, int64_t size, bool drop)
{
    return sheaf_dataset_batch(d, size, &(sheaf_batch_options){.drop_remainder = drop});
}
static sheaf_dataset *zipped(sheaf_dataset *a, sheaf_dataset *b)
{
    return sheaf_dataset_zip((sheaf_dataset *[]){a, b}, 2);
}

/* The op of that name in the golden; NULL (d freed) for those of stages that are not there. */
static sheaf_dataset *apply(const char *op, sheaf_dataset *d)
{
    const sheaf_map_options two = {.parallel = 2};
    const sheaf_interleave_options cycle = {.cycle_length = 1},
                                   parallel = {.cycle_length = 1, .parallel = 1};
    const sheaf_dataset_options none = {0};
    int n;
#define CASE(text, result)     \
    if (strcmp(op, text) == 0) \
        return (result);
    CASE("map", sheaf_dataset_map(d, same, NULL, NULL))
    CASE("map, parallel", sheaf_dataset_map(d, same, NULL, &two))
    CASE("filter", sheaf_dataset_filter(d, keep, NULL))
    CASE("flat_map", sheaf_dataset_flat_map(d, open_self, NULL))
    CASE("interleave", sheaf_dataset_interleave(d, open_self, NULL, &cycle))
    CASE("interleave, parallel", sheaf_dataset_interleave(d, open_self, NULL, &parallel))
    CASE("prefetch", sheaf_dataset_prefetch(d, 1))
    CASE("cache", sheaf_dataset_cache(d, NULL))
    CASE("shuffle", sheaf_dataset_shuffle(d, 3, NULL))
    CASE("with_options", sheaf_dataset_with_options(d, &none))
    CASE("batch(2)", batched(d, 2, false))
    CASE("batch(2, drop)", batched(d, 2, true))
    CASE("batch(7)", batched(d, 7, false))
    CASE("batch(7, drop)", batched(d, 7, true))
    CASE("padded_batch(2)", sheaf_dataset_padded_batch(d, 2, NULL))
    CASE("unbatch of batch(2)", sheaf_dataset_unbatch(batched(d, 2, false)))
    CASE("unbatch of batch(2, drop)", sheaf_dataset_unbatch(batched(d, 2, true)))
    CASE("rebatch(1) of batch(2)",
         sheaf_dataset_rebatch(batched(d, 2, false), (const int64_t[]){1}, 1, false))
    CASE("legacy rebatch 2 of batch(2)", sheaf__split_batch(batched(d, 2, false), 2))
    CASE("repeat", sheaf_dataset_repeat(d, -1))
    CASE("enumerate", sheaf_dataset_enumerate(d, 0))
    CASE("zip with 5", zipped(d, sheaf_dataset_range(0, 5, 1)))
    CASE("zip with 2", zipped(d, sheaf_dataset_range(0, 2, 1)))
    CASE("zip with infinite", zipped(d, infinite()))
    CASE("zip with unknown", zipped(d, unknown()))
    CASE("concatenate 5", sheaf_dataset_concatenate(d, sheaf_dataset_range(0, 5, 1)))
    CASE("concatenate infinite", sheaf_dataset_concatenate(d, infinite()))
    CASE("concatenate unknown", sheaf_dataset_concatenate(d, unknown()))
#undef CASE
    if (sscanf(op, "shard(3, %d)", &n) == 1)
        return sheaf_dataset_shard(d, 3, n);
    if (sscanf(op, "repeat(%d)", &n) == 1)
        return sheaf_dataset_repeat(d, n);
    if (sscanf(op, "take(%d)", &n) == 1)
        return sheaf_dataset_take(d, n);
    if (sscanf(op, "skip(%d)", &n) == 1)
        return sheaf_dataset_skip(d, n);
    sheaf_dataset_free(d);
    return NULL;
}

static void test_golden_ops(void **state)
{
    (void)state;
    static const char *const inputs[] = {"5", "0", "infinite", "unknown"};
    json_t *root = golden_load("cardinality.json"), *c;
    size_t i, checked = 0;
    json_array_foreach(json_object_get(root, "ops"), i, c)
    {
        for (size_t k = 0; k < 4; k++) {
            sheaf_dataset *d = apply(text_at(c, "op"), input(inputs[k]));
            if (!d)
                continue;
            if (sheaf_dataset_cardinality(d) != number_at(c, inputs[k], 0))
                fail_msg("%s of %s: found %d", text_at(c, "op"), inputs[k],
                         (int)sheaf_dataset_cardinality(d));
            sheaf_dataset_free(d);
            checked++;
        }
    }
    assert_int_equal(checked, 4 * 43);
    json_decref(root);
}

/* Any negative count is for ever, everything, or nothing left, as TensorFlow has it (R9.2). The cardinality of a take below
 * -2 is the count itself there, which means nothing. */
static void test_negative_counts(void **state)
{
    (void)state;
    static const struct {
        const char *input;
        int64_t take, skip, repeat;
    } rows[] = {{"5", SHEAF_UNKNOWN, 0, SHEAF_INFINITE},
                {"0", SHEAF_UNKNOWN, 0, 0},
                {"infinite", SHEAF_UNKNOWN, SHEAF_INFINITE, SHEAF_INFINITE},
                {"unknown", SHEAF_UNKNOWN, SHEAF_UNKNOWN, SHEAF_INFINITE}};
    for (size_t i = 0; i < 4; i++)
        for (int64_t count = -7; count < -1; count++) {
            sheaf_dataset *take = sheaf_dataset_take(input(rows[i].input), count),
                          *skip = sheaf_dataset_skip(input(rows[i].input), count),
                          *repeat = sheaf_dataset_repeat(input(rows[i].input), count);
            assert_int_equal(sheaf_dataset_cardinality(take), rows[i].take);
            assert_int_equal(sheaf_dataset_cardinality(skip), rows[i].skip);
            assert_int_equal(sheaf_dataset_cardinality(repeat), rows[i].repeat);
            sheaf_dataset_free(take);
            assert_gives(skip, "[]");
            sheaf_dataset_free(repeat);
        }
    assert_gives(sheaf_dataset_take(input("5"), -7), "[0, 1, 2, 3, 4]");
    assert_gives(sheaf_dataset_take(sheaf_dataset_take(infinite(), -7), 5), "[0, 1, 2, 0, 1]");
    assert_gives(sheaf_dataset_take(sheaf_dataset_repeat(input("5"), -7), 7),
                 "[0, 1, 2, 3, 4, 0, 1]");
}

static void test_golden_ranges(void **state)
{
    (void)state;
    json_t *root = golden_load("cardinality.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "ranges"), i, c)
    {
        const json_t *a = json_object_get(c, "range");
        int64_t first = json_integer_value(json_array_get(a, 0));
        bool one = json_array_size(a) == 1;
        sheaf_dataset *d = sheaf_dataset_range(
            one ? 0 : first, one ? first : json_integer_value(json_array_get(a, 1)),
            json_array_size(a) == 3 ? json_integer_value(json_array_get(a, 2)) : 1);
        assert_int_equal(sheaf_dataset_cardinality(d), number_at(c, "cardinality", 0));
        assert_json(elements(d), json_object_get(c, "elements"), "range");
        sheaf_dataset_free(d);
    }
    json_decref(root);
}

/* Nothing overflows at the ends of the numbers. */
static void test_extreme_ranges(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_range(INT64_MIN, INT64_MAX, 1);
    assert_int_equal(sheaf_dataset_cardinality(d), INT64_MAX);
    sheaf_dataset_free(d);
    assert_gives(sheaf_dataset_range(INT64_MAX - 2, INT64_MAX, 2), "[9223372036854775805]");
    assert_gives(sheaf_dataset_range(INT64_MIN + 2, INT64_MIN, INT64_MIN),
                 "[-9223372036854775806]");
    assert_first_fails(sheaf_dataset_range(0, 3, 0), SHEAF_ERR_INVALID_ARGUMENT, "the step is 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_golden_ops),
        rig_test(test_negative_counts),
        rig_test(test_golden_ranges),
        rig_test(test_extreme_ranges),
    };
    return rig_run(tests);
}
