/* SPDX-License-Identifier: Apache-2.0 */
#include "random_pipeline.h"

#include "data/iterator.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Stepping over elements without making them is the same as pulling and dropping them. */

static json_t *tail_of(const json_t *list, size_t from)
{
    json_t *tail = json_array();
    for (size_t i = from; i < json_array_size(list); i++)
        json_array_append(tail, json_array_get(list, i));
    return tail;
}

static void pass(sheaf_iterator *it, uint64_t count, uint64_t left, const char *what)
{
    struct sheaf__passed passed = {0};
    sheaf_error err = {0};
    sheaf_status status = sheaf__iterator_pass(it, count, &passed, &err);
    if (status < 0)
        rig_ok(status, &err);
    if (passed.count != (count < left ? count : left) ||
        status != (count <= left ? SHEAF_OK : SHEAF_END))
        fail_msg("%s: passed %d of %d, there were %d; status %d", what, (int)passed.count,
                 (int)count, (int)left, (int)status);
}

/* Takes and passes some in turn, then compares the rest. */
static void check(uint64_t seed, int rounds)
{
    struct pipeline p;
    sheaf_dataset *d = random_pipeline(seed, false, &p);
    json_t *all = elements(d);
    sheaf_dataset_free(d);
    d = random_pipeline(seed, false, &p);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    const size_t size = json_array_size(all);
    size_t at = 0;
    for (int i = 0; i < rounds; i++) {
        const size_t take = (size_t)below(&p, 4) * (i > 0);
        json_decref(drain(it, element_json, (int)take));
        at = at + take < size ? at + take : size;
        const size_t n = (size_t)below(&p, (int64_t)size / rounds + 3);
        pass(it, n, size - at, p.text);
        at = at + n < size ? at + n : size;
    }
    json_t *rest = tail_of(all, at);
    assert_json(drain(it, element_json, 1000), rest, p.text);
    json_decref(rest);
    json_decref(all);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    rig_log_take(); /* of caches that were not filled to the end */
}

static void test_random_pipelines(void **state)
{
    (void)state;
    write_files();
    for (uint64_t seed = 1; seed <= PIPELINES; seed++)
        check(seed, 1 + (int)(seed % 3));
}

/* ---- what it does not do ---- */

static sheaf_status count_calls(const sheaf_element *in, sheaf_element *out, void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
    return sheaf_element_put(out, "", sheaf_element_at(in, 0));
}

/* The next element of `d` (used up) after 30,000 that were passed; `calls` of its function. */
static int64_t after_30000(sheaf_dataset *d, atomic_int *calls)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    sheaf_error err = {0};
    int64_t first = 0;
    *calls = 0;
    pass(it, 30000, 1000000, "30,000");
    assert_int_equal(*calls, 0);
    SHEAF_FRAME
    {
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        first = first_of(e);
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    return first;
}

/* No function is called for what is passed, whatever lies between; threads that start after it run
 * ahead of the one element that is asked for. */
static void test_no_calls(void **state)
{
    (void)state;
    const sheaf_map_options threads = {.parallel = 2};
    const sheaf_shuffle_options order = {.seed = 4};
    for (int parallel = 0; parallel < 2; parallel++) {
        const int most = parallel ? 20000 : 100;
        atomic_int calls;
        sheaf_dataset *d = sheaf_dataset_range(0, 1000000, 1);
        d = sheaf_dataset_map(d, count_calls, &calls, parallel ? &threads : NULL);
        assert_int_equal(after_30000(sheaf_dataset_ref(d), &calls), 30000);
        assert_true(calls >= 1 && calls < most);
        after_30000(sheaf_dataset_shuffle(sheaf_dataset_ref(d), 8, &order), &calls);
        assert_true(calls >= 8 && calls < most);
        d = sheaf_dataset_prefetch(sheaf_dataset_batch(d, 4, NULL), 1);
        assert_int_equal(after_30000(sheaf_dataset_ref(d), &calls), 120000);
        assert_true(calls >= 4 && calls < most);
        d = sheaf_dataset_rebatch(sheaf_dataset_repeat(d, 2), (int64_t[]){3, 2}, 2, false);
        assert_int_equal(after_30000(d, &calls), 75000);
        assert_true(calls >= 3 && calls < most);
    }
}

/* Turns over a bit of a file of the test and leaves its times as they were. */
static void damage(const char *name, off_t at)
{
    struct stat before;
    uint8_t byte;
    int fd = open(rig_path(name), O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &before) == 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static sheaf_dataset *all_files(bool cycle)
{
    const sheaf_list_files_options sorted = {.no_shuffle = true};
    const sheaf_interleave_options three = {.cycle_length = 3, .block_length = 2};
    sheaf_dataset *d = sheaf_list_files(rig_path("*.tfrecord"), &sorted);
    return cycle ? sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &three)
                 : sheaf_dataset_flat_map(d, sheaf_open_tfrecord, NULL);
}

/* Of records that are passed only the headers are read, also by skip() and shuffle(). */
static void test_headers_only(void **state)
{
    (void)state;
    write_files();
    damage("4.tfrecord", 12); /* the first record's data */
    sheaf_dataset *d = all_files(false);
    json_t *read = elements(d), *lost = literal("{\"status\": \"DataLoss\"}");
    assert_true(json_equal(json_array_get(read, 6), lost)); /* who reads it sees it */
    json_decref(lost);
    json_decref(read);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    pass(it, 7, 21, "records before and behind");
    json_t *behind = literal("[\"41\"]");
    assert_json(drain(it, element_json, 1), behind, "the record behind");
    json_decref(behind);
    sheaf_iterator_free(it);
    assert_gives(sheaf_dataset_skip(d, 18), "[\"63\", \"64\", \"65\"]");
}

/* Files that the iterator has read to their end before are not even opened. */
static void test_known_files(void **state)
{
    (void)state;
    for (int cycle = 0; cycle < 2; cycle++) {
        write_files();
        sheaf_dataset *d = sheaf_dataset_repeat(all_files(cycle), 3);
        json_t *all = elements(d);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        json_decref(drain(it, element_json, 22));
        damage("3.tfrecord", 0); /* the length of the first record */
        pass(it, 54 - 22, 63 - 22, "known files");
        json_t *rest = tail_of(all, 54);
        assert_json(drain(it, element_json, 100), rest, "behind the damaged one");
        json_decref(rest);
        json_decref(all);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_random_pipelines), rig_test(test_no_calls),
                                       rig_test(test_headers_only), rig_test(test_known_files)};
    return rig_run(tests);
}
