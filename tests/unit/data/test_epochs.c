/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/fs.h"
#include "base/thread.h"

#include <unistd.h>

/* Passes over one dataset: its files are mapped once, as long as they stay what they are. */

#define FILES   3
#define RECORDS 50
#define SIZE    (RECORDS * 10) /* bytes of a file */

static _Atomic int mapped, unmapped;

static int count_map(void *user, void *handle, size_t size, const uint8_t **data)
{
    atomic_fetch_add(&mapped, 1);
    return sheaf__fs_system()->map(user, handle, size, data);
}

static void count_unmap(void *user, const uint8_t *data, size_t size)
{
    atomic_fetch_add(&unmapped, 1);
    sheaf__fs_system()->unmap(user, data, size);
}

static struct sheaf__fs watching(void)
{
    struct sheaf__fs fs = *sheaf__fs_system();
    fs.map = count_map;
    fs.unmap = count_unmap;
    mapped = unmapped = 0;
    return fs;
}

static int text_of_number(int n, char text[16])
{
    return snprintf(text, 16, "%09d", n);
}

/* Lines with numbers from `first` on, in the place of what was there. */
static const char *write_lines(int file, int first, int count)
{
    char name[32], all[SIZE + 16];
    size_t used = 0;
    sheaf_error err;
    for (int i = first; i < first + count; i++) {
        used += (size_t)text_of_number(i, all + used);
        all[used++] = '\n';
    }
    snprintf(name, sizeof(name), "lines-%d", file);
    const char *path = rig_path(name);
    rig_ok(sheaf__file_replace(path, all, used, &err), &err);
    return path;
}

static void write_files(const char *paths[FILES])
{
    for (int i = 0; i < FILES; i++)
        paths[i] = write_lines(i, i * RECORDS, RECORDS);
}

/* One pass: the records are numbers from 0 on, `changed` more in each record from number `from` on. Counts them. */
static int pass(sheaf_dataset *d, int from, int changed)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    sheaf_error err = {0};
    int n = 0;
    SHEAF_EACH_ELEMENT(e, it, &err)
    {
        char expected[16];
        text_of_number(n >= from ? n + changed : n, expected);
        const sheaf_bytes found = sheaf_tensor_bytes(sheaf_element_get(e, NULL), 0);
        if (found.size < 9 || memcmp(found.data, expected, 9) != 0)
            abort();
        n++;
    }
    rig_ok(err.status, &err);
    sheaf_iterator_free(it);
    return n;
}

/* ---- sources ---- */

static sheaf_dataset *lines(const char *const *paths)
{
    return sheaf_text_lines_files(paths, FILES, NULL);
}

static sheaf_dataset *fixed(const char *const *paths)
{
    const sheaf_fixed_records_options ten = {.record_bytes = 10};
    return sheaf_fixed_records_files(paths, FILES, &ten);
}

static sheaf_dataset *csv(const char *const *paths)
{
    const sheaf_csv_column column = {.dtype = SHEAF_STRING};
    const sheaf_csv_options o = {.columns = &column, .column_count = 1};
    return sheaf_csv_files(paths, FILES, &o);
}

static sheaf_dataset *open_lines(const sheaf_element *in, void *user)
{
    const char *const *paths = user;
    return sheaf_text_lines(paths[sheaf_tensor_integer(sheaf_element_get(in, NULL), 0)], NULL);
}

/* Datasets that a function makes anew in every pass. */
static sheaf_dataset *opened(const char *const *paths)
{
    sheaf_dataset *d = sheaf_dataset_range(0, FILES, 1);
    return sheaf_dataset_flat_map(d, open_lines, (void *)(uintptr_t)paths);
}

static void test_files_are_mapped_once(void **state)
{
    (void)state;
    static sheaf_dataset *(*const sources[])(const char *const *paths) = {lines, fixed, csv,
                                                                          opened};
    const char *paths[FILES];
    write_files(paths);
    for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
        struct sheaf__fs fs = watching();
        sheaf__context_set_fs(sheaf__context(), &fs);
        sheaf_dataset *d = sources[i](paths);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(pass(d, 0, 0), FILES * RECORDS);
            assert_int_equal(mapped, FILES);
            assert_int_equal(unmapped, 0);
        }
        sheaf_dataset_free(d);
        assert_int_equal(unmapped, FILES);
        sheaf__context_set_fs(sheaf__context(), NULL);
    }
}

/* The rounds of a repeat are passes, too. */
static void test_rounds_of_a_repeat(void **state)
{
    (void)state;
    const char *paths[FILES];
    write_files(paths);
    struct sheaf__fs fs = watching();
    sheaf__context_set_fs(sheaf__context(), &fs);
    sheaf_dataset *d = sheaf_dataset_repeat(lines(paths), 4);
    json_t *all = elements(d);
    assert_int_equal(json_array_size(all), 4 * FILES * RECORDS);
    assert_int_equal(mapped, FILES);
    json_decref(all);
    sheaf_dataset_free(d);
    assert_int_equal(unmapped, FILES);
    sheaf__context_set_fs(sheaf__context(), NULL);
}

/* Half of the budget of memory: what goes beyond is mapped anew. */
static void test_within_the_budget(void **state)
{
    (void)state;
    const char *paths[FILES];
    write_files(paths);
    struct sheaf__fs fs = watching();
    sheaf__context_set_fs(sheaf__context(), &fs);
    const sheaf_dataset_options two = {.memory_bytes = 2 * 2 * SIZE},
                                little = {.memory_bytes = 2 * SIZE - 1};
    sheaf_dataset *d = sheaf_dataset_with_options(lines(paths), &two);
    for (int i = 1; i <= 3; i++) {
        pass(d, 0, 0);
        assert_int_equal(mapped, FILES + i - 1);
        assert_int_equal(unmapped, i);
    }
    sheaf_dataset_free(d);
    assert_int_equal(unmapped, mapped);
    mapped = 0;
    d = sheaf_dataset_with_options(lines(paths), &little);
    for (int i = 1; i <= 3; i++) {
        pass(d, 0, 0);
        assert_int_equal(mapped, i * FILES);
    }
    sheaf_dataset_free(d);
    sheaf__context_set_fs(sheaf__context(), NULL);
}

static void write_over(const char *path, int first)
{
    char record[16];
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    for (int i = first; i < first + RECORDS; i++) {
        text_of_number(i, record);
        fprintf(f, "%s\n", record);
    }
    fclose(f);
}

/* A file that was replaced, written over, cut or made longer between two passes is read as it is. An element that
 * is kept has the bytes of the file that it came from, as long as that was not written over. */
static void test_files_that_change(void **state)
{
    (void)state;
    const char *paths[FILES];
    write_files(paths);
    const int last = (FILES - 1) * RECORDS;
    sheaf_dataset *d = lines(paths);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_element *first = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf_iterator_next(it, &first, &err), &err);
    sheaf_iterator_free(it);
    assert_int_equal(pass(d, 0, 0), FILES * RECORDS);
    for (int i = 0; i < FILES; i++)
        write_lines(i, 1000 + i * RECORDS, RECORDS);
    assert_int_equal(pass(d, 0, 1000), FILES * RECORDS);
    for (int i = 0; i < FILES; i++)
        write_over(paths[i], i * RECORDS);
    assert_int_equal(pass(d, 0, 0), FILES * RECORDS);
    assert_int_equal(truncate(paths[FILES - 1], 10), 0);
    assert_int_equal(pass(d, 0, 0), last + 1);
    assert_int_equal(truncate(paths[FILES - 1], 0), 0);
    assert_int_equal(pass(d, 0, 0), last);
    write_over(paths[FILES - 1], 7000 + last);
    assert_int_equal(pass(d, last, 7000), FILES * RECORDS);
    assert_memory_equal(sheaf_tensor_bytes(sheaf_element_get(first, NULL), 0).data, "000000000", 9);
    sheaf_dataset_free(d);
    assert_memory_equal(sheaf_tensor_bytes(sheaf_element_get(first, NULL), 0).data, "000000000", 9);
    sheaf_frame_close(&frame);
}

static void pass_again(void *user)
{
    for (int i = 0; i < 20; i++)
        if (pass(user, 0, 0) != FILES * RECORDS)
            abort();
}

/* Iterators of several threads share the maps. */
static void test_passes_at_once(void **state)
{
    (void)state;
    const char *paths[FILES];
    write_files(paths);
    struct sheaf__fs fs = watching();
    sheaf__context_set_fs(sheaf__context(), &fs);
    sheaf_dataset *d = lines(paths);
    struct sheaf__thread *threads[3];
    sheaf_error err = {0};
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_start("reader", pass_again, d, NULL, &threads[i], &err), &err);
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_join(threads[i], sheaf__clock_after(60 * SHEAF__S), &err), &err);
    assert_int_equal(mapped, FILES);
    sheaf_dataset_free(d);
    assert_int_equal(unmapped, FILES);
    sheaf__context_set_fs(sheaf__context(), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_files_are_mapped_once), rig_test(test_rounds_of_a_repeat),
        rig_test(test_within_the_budget),     rig_test(test_files_that_change),
        rig_test(test_passes_at_once),
    };
    return rig_run(tests);
}
