/* SPDX-License-Identifier: Apache-2.0 */
#include "damaged.h"

#include "base/thread.h"

/* Corrupt records that a pipeline may skip, and the account of what became of the records of its
 * files. */

/* The numbers from `from` to below `to` but those in `without` (-1 ends it), a list of one each. */
static void add_numbers(json_t *list, int from, int to, const int *without)
{
    for (int i = from; i < to; i++) {
        bool left_out = false;
        for (const int *w = without; *w >= 0; w++)
            left_out = left_out || *w == i;
        if (!left_out)
            json_array_append_new(list, json_pack("[i]", i));
    }
}

/* What an iterator says of its data; the folder of the test is left out. Valid until the next call. */
static const char *account_of(sheaf_iterator *it)
{
    static char text[2][4096];
    static int at;
    sheaf_account a;
    sheaf_error err = {0};
    at = !at;
    SHEAF_FRAME
    {
        rig_ok(sheaf_iterator_account(it, &a, &err), &err);
        int size = snprintf(text[at], sizeof(text[at]), "%s\n", sheaf_account_str(&a));
        for (size_t i = 0; i < a.file_count; i++) {
            sheaf_file_account f = a.files[i];
            f.path = strrchr(f.path, '/') + 1;
            const sheaf_account one = {.files = &f, .file_count = 1};
            size += snprintf(text[at] + size, sizeof(text[at]) - (size_t)size, "%s",
                             sheaf_account_files_str(&one));
        }
    }
    return text[at];
}

/* Iterates `d` (used up): the elements and the account. */
static void assert_account(sheaf_dataset *d, json_t *expected, const char *account)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    assert_json(drain(it, number_json, 100000), expected, "numbers");
    assert_string_equal(account_of(it), account);
    json_decref(expected);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* T29: record 7 of file b of two with 500 records each. With a budget of 1: 999 of 1,000 are
 * delivered, the counter is 1. With two bad ones it stops, naming the counts. */
static void test_T29_budget_of_one(void **state)
{
    (void)state;
    const char *paths[] = {write_records("a", 0, 500, SHEAF_COMPRESSION_NONE),
                           write_records("b", 500, 500, SHEAF_COMPRESSION_NONE)};
    sheaf_dataset *d = skipping(sheaf_tfrecord_files(paths, 2), 0, 1);
    json_t *expected = json_array();
    add_numbers(expected, 0, 1000, (int[]){507, -1});
    flip_data(paths[1], 7);
    assert_account(sheaf_dataset_ref(d), expected,
                   "999 examples, 1 corrupt record skipped\n"
                   "worker 0: a: 500 read\n"
                   "worker 0: b: 499 read, 1 corrupt record skipped\n");
    const char *log = rig_log_take();
    assert_non_null(strstr(log, "/b: record 7 at offset 140 is skipped: data CRC "));
    flip_data(paths[1], 9);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    for (int i = 0; i < 508; i++)
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_DATA_LOSS,
              "no more corrupt records are skipped, after 1 in the file, 1 of 1 in all: data CRC ");
    assert_string_equal(strrchr(err.file, '/'), "/b");
    assert_int_equal(err.record, 9);
    assert_int_equal(err.offset, 180);
    json_t *rest = drain(it, number_json, 1000);
    assert_int_equal(json_array_size(rest), 490);
    json_decref(rest);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    rig_log_take();
}

static sheaf_status same(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_element_at(in, 0));
}

/* T29: whatever pulls the records, on whichever thread: one that was skipped is no error of another. */
static void test_T29_behind_every_stage(void **state)
{
    (void)state;
    const char *path = write_records("a", 0, 500, SHEAF_COMPRESSION_NONE);
    const sheaf_map_options parallel = {.parallel = 2};
    flip_data(path, 7);
    json_t *expected = json_array();
    add_numbers(expected, 0, 500, (int[]){7, -1});
    for (int k = 0; k < 7; k++) {
        sheaf_dataset *d = skipping(sheaf_tfrecord(path), 0, 1);
        if (k == 1)
            d = sheaf_dataset_map(d, same, NULL, NULL);
        if (k == 2)
            d = sheaf_dataset_cache(d, NULL);
        if (k == 3)
            d = sheaf_dataset_unbatch(sheaf_dataset_batch(d, 3, NULL));
        if (k == 4)
            d = sheaf_dataset_prefetch(d, 5);
        if (k == 5)
            d = sheaf_dataset_repeat(d, 1);
        if (k == 6)
            d = sheaf_dataset_take(d, 499);
        d = sheaf_dataset_map(d, same, NULL, &parallel);
        json_t *found = elements_by(d, number_json);
        assert_true(same_json(found, expected));
        json_decref(found);
        sheaf_dataset_free(d);
    }
    json_decref(expected);
    rig_log_take();
}

/* Each limit by itself, and both. What was refused is refused again. */
static void test_T29_limits(void **state)
{
    (void)state;
    static const char error[] = "{\"status\": \"DataLoss\"}";
    const char *paths[] = {write_records("a", 0, 5, SHEAF_COMPRESSION_NONE),
                           write_records("b", 10, 5, SHEAF_COMPRESSION_NONE)};
    for (int f = 0; f < 2; f++)
        for (int i = 1; i < 4; i += 2)
            flip_data(paths[f], i);
    static const struct {
        int64_t per_file, in_all;
        bool bad[4]; /* is an error */
    } cases[] = {{0, 0, {true, true, true, true}},
                 {1, 0, {false, true, false, true}},
                 {2, 0, {false, false, false, false}},
                 {0, 3, {false, false, false, true}},
                 {1, 1, {false, true, true, true}},
                 {2, 3, {false, false, false, true}},
                 {-1, 0, {false}},
                 {0, -1, {false}},
                 {-1, 2, {false, false, true, true}},
                 {1, -1, {false, true, false, true}}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        char text[600], once[256];
        const bool *bad = cases[c].bad;
        snprintf(once, sizeof(once), "[0]%s%s, [2]%s%s, [4], [10]%s%s, [12]%s%s, [14]",
                 bad[0] ? ", " : "", bad[0] ? error : "", bad[1] ? ", " : "", bad[1] ? error : "",
                 bad[2] ? ", " : "", bad[2] ? error : "", bad[3] ? ", " : "", bad[3] ? error : "");
        snprintf(text, sizeof(text), "[%s, %s]", once, once);
        sheaf_dataset *d = sheaf_dataset_repeat(sheaf_tfrecord_files(paths, 2), 2);
        d = skipping(d, cases[c].per_file, cases[c].in_all);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        json_t *expected = literal(text);
        assert_json(drain(it, number_json, 1000), expected, text);
        json_decref(expected);
        sheaf_account a;
        sheaf_error err = {0};
        rig_ok(sheaf_iterator_account(it, &a, &err), &err);
        assert_int_equal(a.skipped, 4 - bad[0] - bad[1] - bad[2] - bad[3]);
        assert_int_equal(a.read, 6);
        assert_int_equal(a.repeated, 6);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
        rig_log_take();
    }
    assert_first_fails(skipping(sheaf_tfrecord(paths[0]), -2, 0), SHEAF_ERR_INVALID_ARGUMENT,
                       "-2 of a file and 0 of all");
}

/* The default: nothing is skipped, and what cannot be read on says how much is lost. */
static void test_lost_rest_is_said(void **state)
{
    (void)state;
    const char *path = write_records("a", 0, 5, SHEAF_COMPRESSION_NONE);
    flip_length(path, 3);
    sheaf_dataset *d = sheaf_tfrecord(path);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_DATA_LOSS,
              "the last 40 bytes of the file cannot be read: length CRC ");
    assert_int_equal(err.record, 3);
    assert_int_equal(err.offset, 60);
    assert_int_equal(sheaf_iterator_next(it, &e, &err), SHEAF_END);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* A length that is wrong, and a file that is cut: the rest counts as one record, and its bytes are
 * counted, those of a compressed file uncompressed. The next file follows. */
static void test_lost_rest(void **state)
{
    (void)state;
    const char *a = write_records("a", 0, 5, SHEAF_COMPRESSION_NONE),
               *b = write_records("b", 10, 5, SHEAF_COMPRESSION_NONE);
    const char *paths[] = {a, b};
    flip_length(a, 3);
    json_t *expected = json_array();
    add_numbers(expected, 0, 3, (int[]){-1});
    add_numbers(expected, 10, 15, (int[]){-1});
    assert_account(skipping(sheaf_tfrecord_files(paths, 2), 1, 0), expected,
                   "8 examples, 1 corrupt record skipped, 40 bytes lost\n"
                   "worker 0: a: 3 read, 1 corrupt record skipped, 40 bytes lost\n"
                   "worker 0: b: 5 read\n");
    assert_non_null(strstr(rig_log_take(), "a: record 3 at offset 60 is skipped: the last 40 bytes "
                                           "of the file cannot be read: length CRC "));
    cut(b, 4 * FRAMED + 7);
    expected = json_array();
    add_numbers(expected, 0, 3, (int[]){-1});
    add_numbers(expected, 10, 14, (int[]){-1});
    assert_account(skipping(sheaf_tfrecord_files(paths, 2), 1, 0), expected,
                   "7 examples, 2 corrupt records skipped, 47 bytes lost\n"
                   "worker 0: a: 3 read, 1 corrupt record skipped, 40 bytes lost\n"
                   "worker 0: b: 4 read, 1 corrupt record skipped, 7 bytes lost\n");
    rig_log_take();
}

/* The same bytes, compressed after they were damaged. */
static void test_lost_rest_of_a_compressed_file(void **state)
{
    (void)state;
    static const char program[] = "gzip -c <%s >%s";
    const char *plain = write_records("a", 0, 500, SHEAF_COMPRESSION_NONE), *gz = rig_path("a.gz");
    char command[8192];
    flip_length(plain, 3);
    snprintf(command, sizeof(command), program, plain, gz);
    assert_int_equal(system(command), 0);
    json_t *expected = json_array();
    add_numbers(expected, 0, 3, (int[]){-1});
    assert_account(skipping(sheaf_tfrecord(gz), 1, 0), expected,
                   "3 examples, 1 corrupt record skipped, 9940 bytes lost\n"
                   "worker 0: a.gz: 3 read, 1 corrupt record skipped, 9940 bytes lost\n");
    rig_log_take();
}

enum { FILES = 6, EACH = 20 };

/* Files with a corrupt record here and there, one cut short, one whole. */
static void write_files(void)
{
    for (int f = 0; f < FILES; f++) {
        char name[8];
        snprintf(name, sizeof(name), "%d", f);
        const char *path = write_records(name, f * EACH, EACH, SHEAF_COMPRESSION_NONE);
        for (int i = f; i < EACH && f > 0; i += 7)
            flip_data(path, i);
        if (f == 3)
            cut(path, 15 * FRAMED + 3);
    }
}

static sheaf_dataset *pipeline(int threads, bool batches)
{
    const sheaf_interleave_options io = {.cycle_length = 3, .block_length = 2, .parallel = threads};
    const sheaf_shuffle_options so = {.seed = 5};
    char pattern[4096];
    snprintf(pattern, sizeof(pattern), "%s/*", rig_folder());
    sheaf_dataset *d = sheaf_list_files(pattern, &(sheaf_list_files_options){.no_shuffle = true});
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &io);
    d = sheaf_dataset_shuffle(d, 11, &so);
    if (batches)
        d = sheaf_dataset_batch(d, 8, &(sheaf_batch_options){.drop_remainder = true});
    return skipping(sheaf_dataset_prefetch(d, 2), 3, 0);
}

static void save_and_restore(sheaf_iterator *from, sheaf_iterator *to)
{
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        sheaf_bytes position = {0};
        rig_ok(sheaf_iterator_save(from, &position, &err), &err);
        rig_ok(sheaf_iterator_restore(to, position, &err), &err);
    }
}

/* Stopped after any element and gone on with, the rest is the same, and at the end the account is
 * that of a pass that was not stopped. */
static void resume_everywhere(int threads, bool batches)
{
    sheaf_dataset *d = pipeline(threads, batches);
    sheaf_iterator *whole = sheaf_dataset_iterate(d);
    json_t *all = drain(whole, number_json, 1000);
    char account[4096];
    snprintf(account, sizeof(account), "%s", account_of(whole));
    for (int stop = 0; stop <= (int)json_array_size(all); stop++) {
        sheaf_dataset *again = pipeline(threads, batches), *same = pipeline(threads, batches);
        sheaf_iterator *first = sheaf_dataset_iterate(again), *second = sheaf_dataset_iterate(same);
        json_t *found = drain(first, number_json, stop);
        save_and_restore(first, second);
        json_t *rest = drain(second, number_json, 1000);
        json_array_extend(found, rest);
        json_decref(rest);
        assert_json(found, all, "resumed");
        assert_string_equal(account_of(second), account);
        sheaf_iterator_free(first);
        sheaf_iterator_free(second);
        sheaf_dataset_free(again);
        sheaf_dataset_free(same);
        rig_log_take();
    }
    json_decref(all);
    sheaf_iterator_free(whole);
    sheaf_dataset_free(d);
}

static void test_resume(void **state)
{
    (void)state;
    write_files();
    sheaf_dataset *d = pipeline(0, true);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    json_decref(drain(it, number_json, 1000));
    assert_string_equal(account_of(it),
                        "12 examples, 15 corrupt records skipped, 3 bytes lost, 5 dropped\n"
                        "worker 0: 0: 20 read\n"
                        "worker 0: 1: 17 read, 3 corrupt records skipped\n"
                        "worker 0: 2: 17 read, 3 corrupt records skipped\n"
                        "worker 0: 3: 13 read, 3 corrupt records skipped, 3 bytes lost\n"
                        "worker 0: 4: 17 read, 3 corrupt records skipped\n"
                        "worker 0: 5: 17 read, 3 corrupt records skipped\n");
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    rig_log_take();
    for (int form = 0; form < 4; form++)
        resume_everywhere(form & 1 ? 3 : 0, form & 2);
}

/* A position behind skipped records is of no use to who skips none. */
static void test_resume_otherwise(void **state)
{
    (void)state;
    const char *path = write_records("a", 0, 6, SHEAF_COMPRESSION_NONE);
    sheaf_dataset *strict = sheaf_tfrecord(path), *lenient = skipping(sheaf_tfrecord(path), 1, 0);
    sheaf_iterator *a = sheaf_dataset_iterate(strict), *b = sheaf_dataset_iterate(lenient);
    sheaf_error err = {0};
    json_decref(drain(a, number_json, 3));
    flip_data(path, 4);
    save_and_restore(a, b); /* who stopped at the first one may go on after it */
    json_t *expected = literal("[[3], [5]]");
    assert_json(drain(b, number_json, 10), expected, "the rest");
    json_decref(expected);
    rig_log_take();
    SHEAF_FRAME
    {
        sheaf_bytes position = {0};
        rig_ok(sheaf_iterator_save(b, &position, &err), &err);
        rig_fails(sheaf_iterator_restore(a, position, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
                  "skips corrupt records");
    }
    sheaf_iterator_free(a);
    sheaf_iterator_free(b);
    sheaf_dataset_free(strict);
    sheaf_dataset_free(lenient);
}

/* A file that is read twice at once, and rows of batches that are dropped, stepped over or not. */
static void test_account(void **state)
{
    (void)state;
    const char *path = write_records("a", 0, 10, SHEAF_COMPRESSION_NONE);
    const char *twice[] = {path, path};
    const sheaf_batch_options drop = {.drop_remainder = true};
    const sheaf_interleave_options two = {.cycle_length = 2, .block_length = 3};
    sheaf_dataset *d = sheaf_list_files_patterns(twice, 2, NULL);
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &two);
    sheaf_dataset *forms[] = {
        sheaf_dataset_batch(sheaf_dataset_ref(d), 8, &drop),
        sheaf_dataset_rebatch(sheaf_dataset_batch(d, 5, NULL), (int64_t[]){8}, 1, true)};
    for (int i = 0; i < 2; i++) {
        sheaf_dataset *all = sheaf_dataset_ref(forms[i]), *none = sheaf_dataset_skip(forms[i], 9);
        sheaf_iterator *a = sheaf_dataset_iterate(all), *b = sheaf_dataset_iterate(none);
        json_decref(drain(a, number_json, 100));
        json_decref(drain(b, number_json, 100));
        assert_string_equal(account_of(a), "2 examples, 10 repeated, 4 dropped\n"
                                           "worker 0: a: 10 read, 10 repeated\n");
        assert_string_equal(account_of(b), "0 examples, 10 repeated, 4 dropped\n"
                                           "worker 0: a: 10 read, 10 repeated\n");
        sheaf_iterator_free(a);
        sheaf_iterator_free(b);
        sheaf_dataset_free(all);
        sheaf_dataset_free(none);
    }
}

static sheaf_status all_of(sheaf_iterator *it, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    while (status == SHEAF_OK)
        SHEAF_FRAME
        {
            sheaf_element *e;
            status = sheaf_iterator_next(it, &e, err);
        }
    sheaf_account a;
    if (status == SHEAF_END)
        SHEAF_FRAME
        {
            status = sheaf_iterator_account(it, &a, err);
            if (status >= 0 && (a.skipped != 15 || a.lost_bytes != 3 || a.examples != 12))
                status = sheaf_error_set(err, SHEAF_ERR_INTERNAL, "%s", sheaf_account_str(&a));
        }
    return status;
}

static sheaf_status attempt(void *user, sheaf_error *err)
{
    sheaf_context *context, *before;
    (void)user;
    const sheaf_context_options quiet = {.log_level = SHEAF_LOG_ERROR};
    sheaf_status status = sheaf_context_new(&quiet, &context, err);
    if (status < 0)
        return status;
    before = sheaf_context_enter(context);
    sheaf_dataset *d = pipeline(0, true);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    status = all_of(it, err);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    sheaf__local_release();
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

static void test_without_memory(void **state)
{
    (void)state;
    write_files();
    assert_true(rig_fail_allocations(attempt, NULL) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_T29_budget_of_one),
                                       rig_test(test_T29_behind_every_stage),
                                       rig_test(test_T29_limits),
                                       rig_test(test_lost_rest_is_said),
                                       rig_test(test_lost_rest),
                                       rig_test(test_lost_rest_of_a_compressed_file),
                                       rig_test(test_resume),
                                       rig_test(test_resume_otherwise),
                                       rig_test(test_account),
                                       rig_test(test_without_memory)};
    return rig_run(tests);
}
