/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/mem.h"
#include "data/rewrite.h"

/* The files that a worker is said to read are those that it reads, each once (S46). */

enum { FILES = 7, MOST_DRAWN = 400 };

static sheaf_dataset *sorted(void)
{
    const sheaf_list_files_options order = {.no_shuffle = true};
    return sheaf_list_files(rig_golden("input/tfrecord/a[0-6].tfrecord"), &order);
}

static sheaf_dataset *by_seed(void)
{
    const sheaf_list_files_options order = {.seed = 3};
    return sheaf_list_files(rig_golden("input/tfrecord/a[0-6].tfrecord"), &order);
}

static sheaf_dataset *by_chance(void)
{
    return sheaf_list_files(rig_golden("input/tfrecord/a[0-6].tfrecord"), NULL);
}

static sheaf_dataset *half(sheaf_dataset *names)
{
    return sheaf_dataset_shard(names, 2, 1);
}

/* The numbers of the files in order, of paths in a text or an account. */
static void note(const char *path, bool met[FILES])
{
    const char *file = strstr(path, "/a");
    while (file && !(file[2] >= '0' && file[2] < '0' + FILES && file[3] == '.'))
        file = strstr(file + 1, "/a");
    assert_non_null(file);
    assert_false(met[file[2] - '0']);
    met[file[2] - '0'] = true;
}

/* Says "; N files: …", or with `first` "; N files in the first pass: …", and means those that so many elements come from. */
static void assert_lists(sheaf_dataset *names, bool first, const char *what)
{
    bool read[FILES] = {false}, said[FILES] = {false};
    char begin[64];
    sheaf_error err = {0};
    sheaf_account account;
    sheaf_dataset *d = sheaf_dataset_flat_map(names, sheaf_open_tfrecord, NULL);
    char *files = sheaf__autoshard_files(d, FILES), *rest = files;
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    json_decref(drain(it, element_json, MOST_DRAWN));
    rig_ok(sheaf_iterator_account(it, &account, &err), &err);
    for (size_t i = 0; i < account.file_count; i++)
        note(account.files[i].path, read);
    snprintf(begin, sizeof(begin), "; %zu file%s%s: ", account.file_count,
             account.file_count == 1 ? "" : "s", first ? " in the first pass" : "");
    if (strncmp(files, begin, strlen(begin)) != 0)
        fail_msg("%s: found \"%s\", expected \"%s\"", what, files, begin);
    for (const char *name = strtok_r(files + strlen(begin), ",", &rest); name;
         name = strtok_r(NULL, ",", &rest))
        note(name, said);
    assert_memory_equal(said, read, sizeof(read));
    sheaf__free(files);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static void assert_lists_nothing(sheaf_dataset *names)
{
    sheaf_dataset *d = sheaf_dataset_flat_map(names, sheaf_open_tfrecord, NULL);
    char *files = sheaf__autoshard_files(d, FILES);
    assert_string_equal(files, "");
    sheaf__free(files);
    sheaf_dataset_free(d);
}

/* S46, S191: a file that comes again is one file, however often, and what leaves some out is heeded. */
static void test_S46_each_file_once(void **state)
{
    (void)state;
    const sheaf_shuffle_options seed = {.seed = 5};
    sheaf_dataset *twice[] = {sorted(), half(sorted())};
    assert_lists(sorted(), false, "all");
    assert_lists(sheaf_dataset_repeat(half(sorted()), 2), false, "twice");
    assert_lists(sheaf_dataset_repeat(half(sorted()), -1), false, "for ever");
    assert_lists(half(sheaf_dataset_repeat(sorted(), -1)), false, "every other of endless ones");
    assert_lists(sheaf_dataset_repeat(sorted(), INT64_C(1) << 60), false, "as good as for ever");
    assert_lists(sheaf_dataset_shuffle(sheaf_dataset_repeat(half(sorted()), -1), 3, &seed), false,
                 "as the documents have it");
    assert_lists(sheaf_dataset_skip(sheaf_dataset_take(sorted(), 5), 2), false, "the middle");
    assert_lists(sheaf_dataset_concatenate(sheaf_dataset_repeat(sheaf_dataset_take(sorted(), 2), 9),
                                           sheaf_dataset_skip(sorted(), 3)),
                 false, "some often, then others");
    sheaf_dataset *both = sheaf_dataset_flat_map(sheaf_dataset_concatenate(twice[0], twice[1]),
                                                 sheaf_open_tfrecord, NULL);
    char *files = sheaf__autoshard_files(both, 0);
    assert_string_equal(files, "; 7 files: , …");
    sheaf__free(files);
    sheaf_dataset_free(both);
}

/* S189: where a shuffle decides which files are a worker's, it is asked; in each pass there are others. Without a seed, or
 * where a pass has many rounds, nothing is said. */
static void test_S189_files_by_a_shuffle(void **state)
{
    (void)state;
    const sheaf_shuffle_options seed = {.seed = 11};
    assert_lists(by_seed(), false, "all");
    assert_lists(half(by_seed()), true, "half of the shuffled ones");
    assert_lists(sheaf_dataset_take(by_seed(), 3), true, "the first of the shuffled ones");
    assert_lists(sheaf_dataset_skip(sheaf_dataset_shuffle(sorted(), 7, &seed), 5), true,
                 "the last of the shuffled ones");
    assert_lists(by_chance(), false, "all, in any order");
    assert_lists(sheaf_dataset_shuffle(half(sorted()), 7, NULL), false, "shuffled afterwards");
    assert_lists_nothing(half(by_chance()));
    assert_lists_nothing(sheaf_dataset_repeat(half(by_seed()), -1));
    assert_lists_nothing(sheaf_dataset_repeat(sheaf_dataset_take(by_seed(), 2), 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_S46_each_file_once),
                                       rig_test(test_S189_files_by_a_shuffle)};
    return rig_run(tests);
}
