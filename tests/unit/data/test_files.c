/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/mem.h"

/* list_files (R9.23). */

static void make_files(const json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        sheaf_error err = {0};
        const char *path = rig_path(json_string_value(json_array_get(names, i)));
        rig_ok(sheaf__file_replace(path, "", 0, &err), &err);
    }
}

static json_t *name_json(const sheaf_element *e)
{
    sheaf_bytes b = sheaf_tensor_bytes(sheaf_element_at(e, 0), 0);
    char path[512];
    snprintf(path, sizeof(path), "%.*s", (int)b.size, b.data);
    return json_string(sheaf__path_name(path));
}

static void check(const json_t *c)
{
    const json_t *patterns = json_object_get(c, "patterns");
    const sheaf_list_files_options o = {.seed = number_at(c, "seed", 0),
                                        .no_shuffle = json_is_false(json_object_get(c, "shuffle"))};
    sheaf_set_seed(5);
    const char *paths[2];
    const size_t count = json_array_size(patterns);
    for (size_t i = 0; i < count; i++)
        paths[i] = rig_path(json_string_value(json_array_get(patterns, i)));
    sheaf_dataset *d =
        count == 1 ? sheaf_list_files(paths[0], &o) : sheaf_list_files_patterns(paths, count, &o);
    if (json_object_get(c, "error")) {
        assert_first_fails(d, SHEAF_ERR_INVALID_ARGUMENT,
                           "stage 1 (list_files): no files matched pattern");
        return;
    }
    const json_t *epochs = json_object_get(c, "epochs");
    assert_int_equal(sheaf_dataset_cardinality(d), json_array_size(json_array_get(epochs, 0)));
    for (size_t k = 0; k < json_array_size(epochs); k++)
        assert_json(elements_by(d, name_json), json_array_get(epochs, k),
                    json_string_value(json_array_get(patterns, 0)));
    sheaf_dataset_free(d);
}

static void test_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("files.json"), *c;
    size_t i, checked = 0;
    make_files(json_object_get(root, "list_files_existing"));
    json_array_foreach(json_object_get(root, "list_files_global_seed_5"), i, c)
    {
        check(c);
        checked++;
    }
    assert_int_equal(checked, 9);
    json_decref(root);
}

/* Uses up `d`. */
static void assert_names(sheaf_dataset *d, const char *names)
{
    json_t *expected = literal(names);
    assert_json(elements_by(d, name_json), expected, names);
    json_decref(expected);
    sheaf_dataset_free(d);
}

/* A directory is no pattern, whatever its name; what a pattern begins with stays below it. */
static void test_directory(void **state)
{
    (void)state;
    static const char *const names[] = {"d[1]*?\\/a-1", "d[1]*?\\/a-2", "d1xx/a-3",
                                        "d[1]*?\\/b/a-4"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        sheaf_error err = {0};
        char *directory = sheaf__path_directory(rig_path(names[i]));
        rig_ok(sheaf__file_mkdir(directory, 0, &err), &err);
        rig_ok(sheaf__file_replace(rig_path(names[i]), "", 0, &err), &err);
        sheaf__free(directory);
    }
    char directory[512];
    snprintf(directory, sizeof(directory), "%s", rig_path("d[1]*?\\"));
    sheaf_list_files_options o = {.no_shuffle = true, .directory = directory};
    assert_names(sheaf_list_files("a-*", &o), "[\"a-1\", \"a-2\"]");
    assert_names(sheaf_list_files("/*/a-?", &o), "[\"a-4\"]");
    char expected[700];
    snprintf(expected, sizeof(expected), "no files matched pattern \"%s/c-*\"", directory);
    assert_first_fails(sheaf_list_files("c-*", &o), SHEAF_ERR_INVALID_ARGUMENT, expected);
    o.directory = "";
    assert_names(sheaf_list_files(rig_path("d1*/a-*"), &o), "[\"a-3\"]");
    /* A backslash takes the meaning away in a pattern, too. */
    assert_names(sheaf_list_files(rig_path("d\\[1]\\*\\?\\\\/a-1"), &o), "[\"a-1\"]");
}

/* S191: list_files, shard, repeat, shuffle, interleave, map, as the document writes it: over the
 * workers every record comes once a repetition; so it does whatever the order (S54, S193). */
static sheaf_status to_number(const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_bytes b = sheaf_tensor_bytes(sheaf_element_get(in, NULL), 0);
    char digits[32];
    (void)user;
    snprintf(digits, sizeof(digits), "%.*s", (int)b.size, b.data);
    return sheaf_element_put(out, "", sheaf_long(strtoll(digits, NULL, 10)));
}

static sheaf_dataset *documents_pipeline(int workers, int worker, int repeats)
{
    const sheaf_list_files_options sorted = {.no_shuffle = true};
    const sheaf_interleave_options cycle = {.cycle_length = 2, .block_length = 1, .parallel = 2};
    const sheaf_map_options two = {.parallel = 2};
    const sheaf_shuffle_options seed = {.seed = 11};
    sheaf_dataset *d = sheaf_list_files(rig_golden("input/tfrecord/a*.tfrecord"), &sorted);
    d = sheaf_dataset_repeat(sheaf_dataset_shard(d, workers, worker), repeats);
    d = sheaf_dataset_shuffle(d, 8, &seed);
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &cycle);
    return sheaf_dataset_map(d, to_number, NULL, &two);
}

static void test_the_documents_pipeline(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 3; workers++) {
        int seen[28] = {0};
        for (int w = 0; w < workers; w++) {
            sheaf_dataset *d = documents_pipeline(workers, w, 2);
            json_t *found = elements(d), *value;
            size_t i;
            json_array_foreach(found, i, value) seen[json_integer_value(value)]++;
            json_decref(found);
            sheaf_dataset_free(d);
        }
        for (int i = 0; i < 28; i++)
            assert_int_equal(seen[i], 2);
    }
}

/* ---- sets of files ---- */

static void put(const char *name)
{
    sheaf_error err;
    rig_ok(sheaf__file_replace(rig_path(name), "x", 1, &err), &err);
}

static void expect_set(const char *pattern, bool complete, const char *missing, int64_t count)
{
    const sheaf_list_files_options o = {.complete = complete};
    sheaf_dataset *d = sheaf_list_files(rig_path(pattern), &o);
    if (missing) {
        assert_first_fails(d, SHEAF_ERR_NOT_FOUND, missing);
        return;
    }
    assert_int_equal(sheaf_dataset_cardinality(d), count);
    sheaf_dataset_free(d);
}

/* Of a set all files must be there, if that is asked for; other names are of none. */
static void test_complete_sets(void **state)
{
    (void)state;
    static const char *const there[] = {"a-00000-of-00003.r",
                                        "a-00002-of-00003.r",
                                        "a-1-of-b.r",
                                        "b-0-of-2",
                                        "b-1-of-2",
                                        "b-x",
                                        "b-00000-of-00001.r",
                                        "b-of-2",
                                        "b-7-of-2"};
    for (size_t i = 0; i < sizeof(there) / sizeof(*there); i++)
        put(there[i]);
    expect_set("a-*", false, NULL, 3);
    expect_set("a-*", true, "a-00001-of-00003.r is missing, expected all 3 of its set", 0);
    expect_set("b-*", true, NULL, 6);
    put("a-00001-of-00003.r");
    expect_set("a-*", true, NULL, 4);
    put("a-00001-of-00003.s");
    expect_set("a-*", true, "a-00000-of-00003.s is missing", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_golden), rig_test(test_directory),
                                       rig_test(test_complete_sets),
                                       rig_test(test_the_documents_pipeline)};
    return rig_run(tests);
}
