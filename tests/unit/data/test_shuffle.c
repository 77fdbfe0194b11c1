/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "tensor/heap.h"

static sheaf_dataset *shuffled(int64_t n, int64_t buffer, int64_t seed, bool reshuffle)
{
    const sheaf_shuffle_options o = {.seed = seed, .has_seed = true, .no_reshuffle = !reshuffle};
    return sheaf_dataset_shuffle(sheaf_dataset_range(0, n, 1), buffer, &o);
}

/* R9.3-R9.11, T9.9-T9.14, T9.24 and all else that TensorFlow was asked (S192). Cases with the same
 * global seed share a context, those without one come first. */
static void test_golden_orders(void **state)
{
    (void)state;
    json_t *root = golden_load("shuffle.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        const json_t *global = json_object_get(c, "global_seed");
        if (json_is_integer(global))
            sheaf_set_seed(json_integer_value(global));
        sheaf_dataset *d =
            shuffled(number_at(c, "n", 0), number_at(c, "buffer", 0), number_at(c, "seed", 0),
                     json_is_true(json_object_get(c, "reshuffle")));
        if (number_at(c, "repeat", 1) != 1)
            d = sheaf_dataset_repeat(d, number_at(c, "repeat", 1));
        const json_t *epochs = json_object_get(c, "epochs");
        for (size_t k = 0; k < json_array_size(epochs); k++) {
            char what[64];
            snprintf(what, sizeof(what), "case %zu, epoch %zu", i, k);
            assert_json(elements(d), json_array_get(epochs, k), what);
        }
        sheaf_dataset_free(d);
    }
    json_decref(root);
}

/* R9.8, T9.25: without a seed of their own, datasets take numbers in the order they are made. */
static void test_golden_only_global_seed(void **state)
{
    (void)state;
    json_t *root = golden_load("shuffle.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "only_global_seed"), i, c)
    {
        sheaf_set_seed(number_at(c, "global_seed", 0));
        const json_t *all = json_object_get(c, "first_epoch_of_each_dataset");
        for (size_t k = 0; k < json_array_size(all); k++) {
            sheaf_dataset *d = sheaf_dataset_shuffle(
                sheaf_dataset_range(0, number_at(c, "n", 0), 1), number_at(c, "buffer", 0), NULL);
            assert_json(elements(d), json_array_get(all, k), "only a global seed");
            sheaf_dataset_free(d);
        }
    }
    json_decref(root);
}

static sheaf_dataset *four_shuffled(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return shuffled(4, 4, 7, true);
}

static void assert_composition(const json_t *root, size_t i, sheaf_dataset *d)
{
    const json_t *c = json_array_get(json_object_get(root, "compositions_global_seed_3"), i);
    assert_json(elements(d), json_object_get(c, "elements"), text_at(c, "what"));
    sheaf_dataset_free(d);
}

/* R9.5: whose seeds come when. */
static void test_golden_compositions(void **state)
{
    (void)state;
    json_t *root = golden_load("shuffle.json");
    sheaf_set_seed(3);
    sheaf_dataset *s = shuffled(6, 6, 5, true);
    assert_composition(root, 0, sheaf_dataset_zip((sheaf_dataset *[]){sheaf_dataset_ref(s), s}, 2));
    s = shuffled(6, 6, 5, true);
    assert_composition(root, 1, sheaf_dataset_concatenate(sheaf_dataset_ref(s), s));
    assert_composition(root, 2,
                       sheaf_dataset_flat_map(sheaf_dataset_range(0, 3, 1), four_shuffled, NULL));
    s = sheaf_dataset_cache(shuffled(4, 4, 7, true), NULL);
    assert_composition(root, 3, sheaf_dataset_repeat(s, 3));
    const sheaf_shuffle_options nine = {.seed = 9};
    s = sheaf_dataset_shuffle(shuffled(5, 3, 2, true), 4, &nine);
    assert_composition(root, 4, sheaf_dataset_repeat(s, 2));
    s = sheaf_dataset_take(shuffled(6, 3, 2, true), 4);
    assert_composition(root, 5, sheaf_dataset_repeat(s, 3));
    json_decref(root);
}

/* The stage of a letter; `s` is what is shuffled. */
static sheaf_dataset *stage(sheaf_dataset *d, char letter, int64_t n, sheaf_dataset *s)
{
    const sheaf_shuffle_options other = {.seed = 2};
    const sheaf_dataset_options none = {0};
    switch (letter) {
    case 'r':
        return sheaf_dataset_repeat(d, n);
    case 't':
        return sheaf_dataset_take(d, n);
    case 's':
        return sheaf_dataset_skip(d, n);
    case 'p':
        return sheaf_dataset_prefetch(d, n);
    case 'h':
        return sheaf_dataset_shard(d, n, 0);
    case 'b':
        return sheaf_dataset_batch(d, n, NULL);
    case 'f':
        return sheaf_dataset_shuffle(d, n, &other);
    case 'o':
        return sheaf_dataset_with_options(d, &none);
    case 'm':
        return sheaf_dataset_cache(d, NULL);
    case 'z':
        return sheaf_dataset_zip((sheaf_dataset *[]){d, sheaf_dataset_range(0, n, 1)}, 2);
    case 'c':
        return sheaf_dataset_concatenate(d, sheaf_dataset_ref(s));
    default:
        return sheaf_dataset_concatenate(sheaf_dataset_range(0, n, 1), d);
    }
}

/* Uses up nothing. */
static sheaf_dataset *staged(sheaf_dataset *s, const char *stages)
{
    sheaf_dataset *d = sheaf_dataset_ref(s);
    for (; *stages; stages += strcspn(stages, " "), stages += *stages == ' ')
        d = stage(d, *stages, atoll(stages + 1), s);
    return d;
}

/* So many seeds were taken: the pass number of a new dataset that gives this order. */
static int passes_before(json_t *order)
{
    sheaf_dataset *d = shuffled(10, 10, 1, true);
    int found = -1;
    for (int k = 0; k < 12 && found < 0; k++) {
        json_t *other = elements(d);
        found = json_equal(other, order) ? k : -1;
        json_decref(other);
    }
    json_decref(order);
    sheaf_dataset_free(d);
    return found;
}

/* R9.5, R9.7: how many seeds a pass over stages behind a shuffle takes of it, as TensorFlow 2.21 does:
 * a repeat begins a round more than it gives, unless it is made one with the shuffle. */
static void test_R9_5_seeds_of_a_pass(void **state)
{
    (void)state;
    static const struct {
        const char *stages;
        int draws;
    } cases[] = {
        {"r3", 3},       {"r1", 1},        {"t5 r1", 1},    {"t5 r3", 4},      {"t-1 r3", 3},
        {"s0 r3", 3},    {"p0 r3", 4},     {"p2 r3", 4},    {"h1 r3", 3},      {"o r3", 4},
        {"r2 r2", 5},    {"r1 r2", 2},     {"t5 r2 r2", 7}, {"t5 r-1 t12", 3}, {"t5 r-1 t5", 1},
        {"r-1 t20", 2},  {"r-1 t12", 2},   {"f10", 1},      {"f10 r2", 2},     {"f10 t5 r2", 2},
        {"m r2", 1},     {"c r2", 5},      {"+3 r2", 2},    {"t5 f10 r2", 2},  {"z3 r2", 3},
        {"t5 r0", 0},    {"t0 r3", 0},     {"t0 r-1", 0},   {"s20 r3", 4},     {"t5 r3 t0", 0},
        {"s-1 r2", 0},   {"b3 r2", 3},     {"h2 r2", 3},    {"t5 r3 t15", 3},  {"t5 r3 t16", 4},
        {"t5 r3 s2", 4}, {"t5 r3 s99", 4},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        sheaf_dataset *s = shuffled(10, 10, 1, true);
        sheaf_dataset *d = staged(s, cases[i].stages);
        json_decref(elements(d));
        const int draws = passes_before(elements(s));
        if (draws != cases[i].draws)
            fail_msg("%s: %d draws, expected %d", cases[i].stages, draws, cases[i].draws);
        sheaf_dataset_free(d);
        sheaf_dataset_free(s);
    }
}

static void test_bad_buffer_sizes(void **state)
{
    (void)state;
    const int64_t bad[] = {0, -1, -3};
    for (size_t i = 0; i < 3; i++)
        assert_first_fails(sheaf_dataset_shuffle(sheaf_dataset_range(0, 3, 1), bad[i], NULL),
                           SHEAF_ERR_INVALID_ARGUMENT, "buffer_size");
}

/* S192, R9.10: an element comes at most buffer - 1 places early; buffer 1 changes nothing. */
static void test_displacement(void **state)
{
    (void)state;
    for (int64_t buffer = 1; buffer <= 40; buffer += 13) {
        sheaf_dataset *d = shuffled(500, buffer, 3, true);
        json_t *list = elements(d), *value;
        size_t i;
        json_array_foreach(list, i, value)
        {
            assert_true(json_integer_value(value) < (int64_t)i + buffer);
            if (buffer == 1)
                assert_int_equal(json_integer_value(value), i);
        }
        json_decref(list);
        sheaf_dataset_free(d);
    }
}

/* The row in memory of its own. */
static sheaf_status copied(const sheaf_element *in, sheaf_element *out, void *user)
{
    char bytes[1024];
    (void)user;
    memcpy(bytes, sheaf_tensor_data(sheaf_element_get(in, "1")), sizeof(bytes));
    return sheaf_element_put(out, "", sheaf_tensor_new(SHEAF_UINT8, SHEAF_SHAPE(1024), bytes));
}

/* What is allocated while a shuffle of rows of 1 KiB has filled its buffer, less what is without it. */
static int64_t bytes_of_buffer(int64_t buffer)
{
    static const char row[1024];
    sheaf_error err = {0};
    sheaf_element *e;
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    {
        sheaf_tensor *t = sheaf_tensor_new(SHEAF_UINT8, SHEAF_SHAPE(1024), row);
        d = sheaf_dataset_repeat(sheaf_dataset_from_tensors(sheaf_element_of(t)), -1);
        d = sheaf_dataset_enumerate(sheaf_dataset_batch(d, 1, NULL), 0);
    }
    d = sheaf_dataset_map(d, copied, NULL, NULL);
    d = sheaf_dataset_shuffle(d, buffer, NULL);
    const int64_t before = (int64_t)sheaf__heap_stats(sheaf__heap_current(&err)).live_bytes;
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    const int64_t bytes = (int64_t)sheaf__heap_stats(sheaf__heap_current(&err)).live_bytes - before;
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    sheaf_frame_clear();
    return bytes;
}

/* S192: memory grows with the buffer, and with nothing else */
static void test_S192_memory_of_the_buffer(void **state)
{
    (void)state;
    const int64_t small = bytes_of_buffer(500), large = bytes_of_buffer(5000);
    assert_true(small >= 500 * 1024 && small < 2 * 500 * 1024);
    assert_true(large >= 5000 * 1024 && large < 2 * 5000 * 1024);
}

/* Unseeded shuffles differ, and in every epoch. */
static void test_unseeded_orders_differ(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 100, 1), 100, NULL);
    json_t *a = elements(d), *b = elements(d);
    assert_false(same_json(a, b));
    json_decref(a);
    json_decref(b);
    sheaf_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_golden_orders),
        rig_test(test_golden_only_global_seed),
        rig_test(test_golden_compositions),
        rig_test(test_R9_5_seeds_of_a_pass),
        rig_test(test_bad_buffer_sizes),
        rig_test(test_displacement),
        rig_test(test_S192_memory_of_the_buffer),
        rig_test(test_unseeded_orders_differ),
    };
    return rig_run(tests);
}
