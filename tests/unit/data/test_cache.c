/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/context.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/iterator.h"
#include "tensor/heap.h"
#include "tensor/tensor.h"

#include <sheaf/ops.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* cache in memory and in a file (R9.22, T42). */

/* ---- elements of many kinds ---- */

/* How often the source was run, and how many elements it gave. */
static _Atomic int starts, draws;

struct source {
    int at, count;
    int fails; /* this element is an error; 0: none */
};
static sheaf_status source_start(void *user, void **state, sheaf_error *err)
{
    struct source *s = malloc(sizeof(*s));
    (void)err;
    *s = *(const struct source *)user;
    *state = s;
    starts++;
    return SHEAF_OK;
}

static sheaf_status source_next(void *state, sheaf_element *out, sheaf_error *err)
{
    struct source *s = state;
    if (s->at == s->count)
        return SHEAF_END;
    int n = s->at++;
    draws++;
    if (s->fails && n == s->fails)
        return sheaf_error_set(err, SHEAF_ERR_IO, "element %d", n);
    return sheaf_element_put(out, "", sheaf_long(n));
}

static sheaf_tensor *sparse_of(int64_t n)
{
    sheaf_error err;
    sheaf_tensor *t = sheaf__tensor_sparse(
        sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(1, 1), (const int64_t[]){n % 7}),
        sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(1), &n), SHEAF_SHAPE(7), &err);
    return sheaf__tensor_give(t, &err);
}

/* Element n: numbers of a length of their own, a string of n bytes with a NUL, a sparse vector, and
 * every third a large tensor. */
static sheaf_status make_element(const sheaf_element *in, sheaf_element *out, void *user)
{
    const int64_t n = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    const int64_t numbers[4] = {n, n + 1, n + 2, n + 3};
    char text[200];
    (void)user;
    memset(text, (int)('a' + n % 26), sizeof(text));
    text[0] = '\0';
    const sheaf_bytes bytes = {text, (size_t)(n % 200)};
    sheaf_tensor *all[] = {
        sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(n % 100 < 50 ? 3 : n % 5), numbers),
        sheaf_tensor_new(SHEAF_STRING, SHEAF_SCALAR, &bytes), sparse_of(n),
        sheaf_fill(SHEAF_FLOAT32, SHEAF_SHAPE(40, 50), (double)n)};
    static const char *const names[] = {"numbers", "text", "sparse", "large"};
    sheaf_status status = SHEAF_OK;
    const size_t count = n % 3 == 0 ? 4 : n % 10 == 1 ? 3 : 2;
    for (size_t i = 0; i < count && status >= 0; i++)
        status = sheaf_element_put(out, names[i], all[i]);
    return status;
}

static json_t *any_json(const sheaf_element *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sheaf_element_size(e); i++) {
        const sheaf_tensor *t = sheaf_element_at(e, i);
        json_array_append_new(list, json_string(sheaf_element_name(e, i)));
        json_array_append_new(list, shape_json(sheaf_tensor_shape(t)));
        const sheaf_tensor *dense = t->layout == SHEAF__SPARSE ? t->parts[SHEAF__VALUES] : t;
        if (dense != t)
            json_array_append_new(list, tensor_json(t->parts[SHEAF__INDICES]));
        json_array_append_new(list, tensor_json(dense));
    }
    return list;
}

static sheaf_dataset *source(struct source *s)
{
    const sheaf_generator g = {source_start, source_next, free, s};
    sheaf_dataset *d = NULL;
    starts = draws = 0;
    SHEAF_FRAME
    d = sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, SHEAF_SCALAR));
    return sheaf_dataset_map(d, make_element, NULL, NULL);
}

/* A cache in memory, or in the file "cache" of the test's folder. */
static sheaf_dataset *cached(sheaf_dataset *d, bool file, uint64_t limit)
{
    const sheaf_cache_options o = {.file = file ? rig_path("cache") : NULL, .byte_limit = limit};
    return sheaf_dataset_cache(d, &o);
}

/* Files in the test's folder. */
static size_t files_left(void)
{
    struct sheaf__strings names = {0};
    sheaf_error err;
    rig_ok(sheaf__file_list(rig_folder(), &names, &err), &err);
    size_t count = names.count;
    sheaf__strings_clear(&names);
    return count;
}

/* ---- what is kept ---- */

static void take_some(sheaf_iterator *it, int count)
{
    for (int i = 0; i < count; i++)
        SHEAF_FRAME
        {
            sheaf_error err = {0};
            sheaf_element *e;
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        }
}

/* Every later pass gives what the first gave and asks the input nothing; a file does so in another
 * dataset, too, as it would in another process. However many elements are asked for at once. */
static void test_later_passes_equal_the_first(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        for (int ahead = 0; ahead < 30; ahead += 29) {
            struct source s = {.count = 700};
            sheaf_dataset *d = sheaf_dataset_prefetch(cached(source(&s), file, 0), ahead);
            json_t *first = elements_by(d, any_json);
            assert_int_equal(json_array_size(first), 700);
            assert_int_equal(draws, 700);
            for (int pass = 0; pass < 3; pass++)
                assert_json(elements_by(d, any_json), first, "a later pass");
            assert_int_equal(starts, 1);
            sheaf_dataset_free(d);
            if (file) {
                d = cached(source(&s), true, 0);
                assert_json(elements_by(d, any_json), first, "another dataset");
                assert_int_equal(starts, 0);
                sheaf_dataset_free(d);
                assert_int_equal(files_left(), 1);
                unlink(rig_path("cache"));
            }
            json_decref(first);
        }
    }
}

static sheaf_dataset *shuffled(int64_t n)
{
    return sheaf_dataset_shuffle(sheaf_dataset_range(0, n, 1), n, NULL);
}

/* The order of a shuffle below is frozen, also under repeat and batch; one above is not. */
static void test_order_is_frozen(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        sheaf_dataset *d = cached(shuffled(100), file, 0);
        d = sheaf_dataset_batch(sheaf_dataset_repeat(d, 3), 100, NULL);
        json_t *epochs = elements(d);
        assert_int_equal(json_array_size(epochs), 3);
        for (size_t k = 1; k < 3; k++)
            assert_json(json_incref(json_array_get(epochs, k)), json_array_get(epochs, 0), "epoch");
        json_decref(epochs);
        sheaf_dataset_free(d);
    }
}

/* Nothing, and elements that nobody asks for singly. */
static void test_empty_and_large_blocks(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        sheaf_dataset *d = cached(sheaf_dataset_range(0, 0, 1), file, 0);
        assert_elements(d, "[]");
        assert_elements(d, "[]");
        sheaf_dataset_free(d);
        unlink(rig_path("cache"));
        d = sheaf_dataset_batch(cached(sheaf_dataset_range(0, 100000, 1), file, 0), 100000, NULL);
        for (int pass = 0; pass < 2; pass++) {
            json_t *batches = elements(d), *rows = json_array_get(batches, 0);
            assert_int_equal(json_array_size(rows), 100000);
            for (size_t i = 0; i < 100000; i += 997)
                assert_int_equal(json_integer_value(json_array_get(rows, i)), i);
            json_decref(batches);
        }
        sheaf_dataset_free(d);
    }
}

/* T37: bytes come back as they were, whatever their length. */
static void test_T37_strings_of_any_length(void **state)
{
    (void)state;
    char *text = malloc(70000);
    memset(text, 'x', 70000);
    text[69999] = '\0';
    const sheaf_bytes strings[] = {{"a", 1}, {text + 69700, 300}, {text, 70000}, {"\0b", 2}};
    for (int file = 0; file < 2; file++) {
        sheaf_dataset *d = NULL;
        SHEAF_FRAME
        d = sheaf_dataset_from_slices(
            sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(4), strings)));
        d = sheaf_dataset_batch(cached(d, file, 0), 4, NULL);
        for (int pass = 0; pass < 3; pass++) {
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            sheaf_error err = {0};
            sheaf_element *e;
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            assert_int_equal(sheaf_iterator_next(it, &(sheaf_element *){NULL}, &err), SHEAF_END);
            for (int64_t i = 0; i < 4; i++) {
                sheaf_bytes found = sheaf_tensor_bytes(sheaf_element_get(e, NULL), i);
                assert_int_equal(found.size, strings[i].size);
                assert_memory_equal(found.data, strings[i].data, found.size);
            }
            sheaf_iterator_free(it);
            sheaf_frame_clear();
        }
        sheaf_dataset_free(d);
    }
    free(text);
}

/* Elements that are kept are stepped over without being made, others are made to be kept. */
static void test_stepping_over(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        struct source s = {.count = 90};
        sheaf_dataset *d = cached(source(&s), file, 0);
        json_t *rest[3];
        for (int pass = 0; pass < 3; pass++) {
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            sheaf_error err = {0};
            struct sheaf__passed passed = {0};
            take_some(it, 3);
            rig_ok(sheaf__iterator_pass(it, 40, &passed, &err), &err);
            assert_int_equal(passed.count, 40);
            rest[pass] = drain(it, any_json, 1000);
            assert_int_equal(json_array_size(rest[pass]), 47);
            passed.count = 0;
            assert_int_equal(sheaf__iterator_pass(it, 5, &passed, &err), SHEAF_END);
            assert_int_equal(passed.count, 0);
            sheaf_iterator_free(it);
            assert_int_equal(starts, 1);
        }
        assert_json(rest[1], rest[0], "the second pass");
        assert_json(rest[2], rest[0], "the third pass");
        json_decref(rest[0]);
        sheaf_dataset_free(d);
    }
}

/* The second pass needs no more memory than the first. */
static void test_second_pass_needs_no_more(void **state)
{
    (void)state;
    struct source s = {.count = 400};
    sheaf_dataset *d = cached(source(&s), false, 0);
    json_decref(elements_by(d, any_json));
    int64_t first = sheaf__mem_stats().live_bytes;
    json_decref(elements_by(d, any_json));
    assert_true(sheaf__mem_stats().live_bytes <= first + 4096);
    sheaf_dataset_free(d);
}

/* ---- what is not kept ---- */

/* R9.22: a pass that ends early is dropped with a warning, and the next starts again. */
static void test_partial_pass_is_dropped(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        struct source s = {.count = 50};
        sheaf_dataset *d = cached(source(&s), file, 0);
        for (int pass = 0; pass < 2; pass++) {
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            take_some(it, 49);
            sheaf_iterator_free(it);
        }
        if (!file)
            assert_non_null(strstr(rig_log_take(), "stage 3 (cache): the pass ended after 49 "
                                                   "elements, before the end of the input"));
        assert_int_equal(files_left(), 0);
        json_decref(elements_by(d, any_json));
        assert_int_equal(starts, 3);
        json_decref(elements_by(d, any_json));
        assert_int_equal(starts, 3);
        sheaf_dataset_free(d);
    }
}

/* An error in its place, and the elements behind it; such a pass is not kept. */
static void test_pass_with_an_error_is_not_kept(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        struct source s = {.count = 30, .fails = 20};
        sheaf_dataset *d = cached(source(&s), file, 0);
        for (int pass = 0; pass < 2; pass++) {
            json_t *found = elements_by(d, any_json);
            assert_int_equal(json_array_size(found), 30);
            assert_string_equal(text_at(json_array_get(found, 20), "status"), "IO");
            json_decref(found);
        }
        assert_int_equal(starts, 2);
        assert_int_equal(files_left(), 0);
        sheaf_dataset_free(d);
        if (!file)
            assert_non_null(strstr(rig_log_take(), "this pass is not kept"));
    }
}

/* Beyond the limit nothing is kept, in memory or in the file; all elements come. */
static void test_byte_limit(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        sheaf_dataset *d = cached(sheaf_dataset_range(0, 1000, 1), file, 7999);
        for (int pass = 0; pass < 3; pass++) {
            json_t *found = elements(d);
            assert_int_equal(json_array_size(found), 1000);
            for (size_t i = 0; i < 1000; i++)
                assert_int_equal(json_integer_value(json_array_get(found, i)), i);
            json_decref(found);
        }
        assert_non_null(strstr(rig_log_take(), "stage 2 (cache): nothing is kept: the first 1000 "
                                               "elements have 8000 bytes, the limit is 7999"));
        assert_int_equal(files_left(), 0);
        sheaf_dataset_free(d);
        d = cached(sheaf_dataset_range(0, 1000, 1), file, 20000);
        json_decref(elements(d));
        json_decref(elements(d));
        assert_int_equal(files_left(), file);
        sheaf_dataset_free(d);
    }
}

/* ---- several at once ---- */

/* Iterators that started before anything was kept run the input by themselves; the first that ends
 * leaves it to all others. */
static void test_concurrent_iterators(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        struct source s = {.count = 90};
        sheaf_dataset *d = cached(source(&s), file, 0);
        sheaf_iterator *slow = sheaf_dataset_iterate(d);
        take_some(slow, 40);
        json_t *whole = elements_by(d, any_json);
        sheaf_iterator *reader = sheaf_dataset_iterate(d);
        take_some(reader, 10);
        assert_json(elements_by(d, any_json), whole, "while others read");
        json_t *rest = drain(slow, any_json, 1000);
        assert_int_equal(json_array_size(rest), 50);
        json_decref(rest);
        rest = drain(reader, any_json, 1000);
        assert_int_equal(json_array_size(rest), 80);
        json_decref(rest);
        sheaf_iterator_free(slow);
        sheaf_dataset_free(d); /* what is read stays */
        sheaf_iterator_free(reader);
        assert_int_equal(starts, 2);
        assert_int_equal(files_left(), file);
        json_decref(whole);
    }
}

static sheaf_status sum_twice(struct rig_task *task)
{
    for (int pass = 0; pass < 2; pass++) {
        sheaf_iterator *it = sheaf_dataset_iterate(task->user);
        sheaf_status status = SHEAF_OK;
        int64_t sum = 0;
        while (status == SHEAF_OK)
            SHEAF_FRAME
            {
                sheaf_element *e;
                status = sheaf_iterator_next(it, &e, &task->err);
                if (status == SHEAF_OK)
                    sum += sheaf_tensor_integer(sheaf_element_get(e, NULL), 0);
            }
        sheaf_iterator_free(it);
        if (status < 0)
            return status;
        RIG_CHECK(task, sum == 999 * 1000 / 2);
    }
    return SHEAF_OK;
}

static void test_threads_at_once(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        sheaf_dataset *d = cached(sheaf_dataset_range(0, 1000, 1), file, 0);
        rig_tasks(4, sum_twice, d, NULL, 60);
        assert_int_equal(files_left(), file);
        sheaf_dataset_free(d);
    }
}

/* ---- files ---- */

static sheaf_status text_of_number(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    (void)in;
    return sheaf_element_put(out, "", sheaf_string("x"));
}
static sheaf_status twice(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    sheaf_element_put(out, "a", sheaf_element_get(in, NULL));
    return sheaf_element_put(out, "b", sheaf_element_get(in, NULL));
}

/* The same stages, other elements. */
static void check_other_components(void)
{
    const sheaf_cache_options o = {.file = rig_path("mapped")};
    const sheaf_tensor_spec pair[] = {{"a", SHEAF_INT64, SHEAF_SCALAR},
                                      {"b", SHEAF_INT64, SHEAF_SCALAR}};
    SHEAF_FRAME
    {
        const sheaf_map_options text = {.spec = spec_of(SHEAF_STRING, SHEAF_SCALAR)},
                                two = {.spec = sheaf_element_spec_new(pair, 2)};
        sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, 2, 1), twice, NULL, &two);
        d = sheaf_dataset_cache(d, &o);
        json_decref(elements(d));
        sheaf_dataset_free(d);
        d = sheaf_dataset_map(sheaf_dataset_range(0, 2, 1), text_of_number, NULL, &text);
        assert_first_fails(sheaf_dataset_cache(d, &o), SHEAF_ERR_FAILED_PRECONDITION,
                           "line 3 is the component \"a\": int64 (), expected the component \"\": "
                           "string ();");
        d = sheaf_dataset_map(sheaf_dataset_range(0, 2, 1), text_of_number, NULL, NULL);
        assert_first_fails(sheaf_dataset_cache(d, &o), SHEAF_ERR_FAILED_PRECONDITION,
                           "line 3 is the component \"a\": int64 (), expected missing;");
    }
}

/* A file of other elements, or none of ours, is neither read nor touched. */
static void test_foreign_files_are_refused(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_dataset *d = cached(sheaf_dataset_range(0, 9, 1), true, 0);
    json_decref(elements(d));
    sheaf_dataset_free(d);
    assert_first_fails(
        cached(sheaf_dataset_shard(sheaf_dataset_range(0, 9, 1), 2, 1), true, 0),
        SHEAF_ERR_FAILED_PRECONDITION,
        "the cache is of another pipeline, of which line 2 is the end of the stages, "
        "expected \"shard(2, 1)\"; delete it or choose another file");
    assert_first_fails(cached(sheaf_dataset_range(0, 8, 1), true, 0), SHEAF_ERR_FAILED_PRECONDITION,
                       "line 1 is \"range(0, 9, 1)\", expected \"range(0, 8, 1)\";");
    check_other_components();
    d = cached(sheaf_dataset_range(0, 9, 1), true, 0);
    assert_elements(d, "[0, 1, 2, 3, 4, 5, 6, 7, 8]");
    sheaf_dataset_free(d);
    static const char *const others[] = {"a file that is dear to somebody", "\0\0\0\0"};
    for (size_t i = 0; i < 2; i++) {
        rig_ok(sheaf__file_replace(rig_path("cache"), others[i], 31 - 27 * i, &err), &err);
        assert_first_fails(cached(sheaf_dataset_range(0, 9, 1), true, 0),
                           SHEAF_ERR_FAILED_PRECONDITION, "is there, but no cache");
    }
}

/* A file that was cut is made again with a notice, wherever it was cut. */
static void test_cut_file_is_made_again(void **state)
{
    (void)state;
    struct source s = {.count = 40};
    sheaf_dataset *d = cached(source(&s), true, 0);
    json_t *all = elements_by(d, any_json);
    struct sheaf__file_stat stat;
    sheaf_error err;
    rig_ok(sheaf__file_stat(rig_path("cache"), &stat, &err), &err);
    for (uint64_t cut = 0; cut < stat.size; cut += cut == 0 || cut > stat.size - 300 ? 64 : 4096) {
        if (cut > 0 && cut < 128)
            continue; /* in the first record: not known for ours */
        assert_int_equal(truncate(rig_path("cache"), (off_t)cut), 0);
        int before = starts;
        assert_json(elements_by(d, any_json), all, "after a cut");
        assert_int_equal(starts, before + 1);
        assert_non_null(strstr(rig_log_take(), "incomplete, it is discarded"));
    }
    json_decref(all);
    sheaf_dataset_free(d);
}

/* A bit that flipped is an error that names file and record, in its place. */
static void test_damaged_file(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_dataset *d = cached(sheaf_dataset_range(0, 9, 1), true, 0);
    json_decref(elements(d));
    struct sheaf__file *file;
    rig_ok(sheaf__file_open(rig_path("cache"), SHEAF__FILE_UPDATE, &file, &err), &err);
    rig_ok(sheaf__file_write_at(file, 128 + 20, "\x99", 1, &err), &err);
    rig_ok(sheaf__file_close(file, &err), &err);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_DATA_LOSS, "CRC");
    assert_string_equal(err.file, rig_path("cache"));
    assert_int_equal(err.record, 1);
    while (sheaf_iterator_next(it, &e, &err) == SHEAF_OK)
        ;
    rig_fails(err.status, &err, SHEAF_ERR_DATA_LOSS, "more or fewer elements than were written");
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* T42: a process that is killed while it fills the file leaves nothing that has to be removed by
 * hand: the next one tells of it, and makes the file anew. */
static void test_T42_killed_while_filling(void **state)
{
    (void)state;
    struct source s = {.count = 900};
    rig_folder(); /* the same in both */
    pid_t child = fork();
    if (child == 0) {
        sheaf_iterator *it = sheaf_dataset_iterate(cached(source(&s), true, 0));
        take_some(it, 800);
        kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(files_left(), 1);
    assert_false(sheaf__file_exists(rig_path("cache")));
    sheaf_dataset *d = cached(source(&s), true, 0);
    json_t *first = elements_by(d, any_json);
    assert_int_equal(json_array_size(first), 900);
    assert_non_null(strstr(rig_log_take(),
                           "deleted 1 incomplete file of processes that ended while they made it"));
    assert_int_equal(files_left(), 1);
    assert_json(elements_by(d, any_json), first, "after that");
    assert_int_equal(starts, 1);
    json_decref(first);
    sheaf_dataset_free(d);
}

/* ---- faults ---- */

/* One pass over a cache in the file; the elements that came. */
static json_t *pass_over(struct source *s)
{
    sheaf_dataset *d = cached(source(s), true, 0);
    json_t *list = elements_by(d, any_json);
    sheaf_dataset_free(d);
    return list;
}

/* Every operation on files fails once, then the machine crashes: either all is kept or nothing, and the
 * elements are right in any case. */
static void test_crash_after_any_fault(void **state)
{
    (void)state;
    struct source s = {.count = 40};
    json_t *right = pass_over(&s);
    bool hit = true;
    for (uint64_t k = 1; hit; k++) {
        struct sheaf__fs *memory = sheaf__fs_memory_new(), *faulty = sheaf__fs_faulty_new(memory);
        const struct sheaf__fs_fault fault = {.fail_at = k, .kinds = SHEAF__FS_ANY, .code = ENOSPC};
        sheaf__context_set_fs(sheaf__context(), faulty);
        sheaf_error err;
        rig_ok(sheaf__file_mkdir(rig_folder(), 0, &err), &err);
        rig_ok(sheaf__file_sync_dir("/", &err), &err);
        sheaf__fs_faulty_set(faulty, &fault);
        json_t *first = pass_over(&s);
        hit = sheaf__fs_faulty_hit(faulty);
        if (!hit)
            assert_json(json_incref(first), right, "without a fault");
        json_decref(first);
        sheaf__fs_memory_crash(memory);
        rig_ok(sheaf__file_mkdir(rig_folder(), 0, &err), &err);
        for (int pass = 0; pass < 2; pass++)
            assert_json(pass_over(&s), right, "after the crash");
        assert_int_equal(starts, 0);
        rig_log_take();
        sheaf__context_set_fs(sheaf__context(), NULL);
        sheaf__fs_faulty_free(faulty);
        sheaf__fs_memory_free(memory);
    }
    json_decref(right);
}

static sheaf_status attempt(void *user, sheaf_error *err)
{
    const sheaf_cache_options *o = user;
    if (o->file)
        unlink(o->file);
    sheaf_dataset *d = sheaf_dataset_cache(sheaf_dataset_range(0, 40, 1), o);
    sheaf_status status = SHEAF_OK;
    for (int pass = 0; pass < 2 && status >= 0; pass++) {
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        for (status = SHEAF_OK; status == SHEAF_OK;)
            SHEAF_FRAME
            {
                sheaf_element *e;
                status = sheaf_iterator_next(it, &e, err);
            }
        sheaf_iterator_free(it);
    }
    sheaf_dataset_free(d);
    rig_log_take();
    sheaf__heap_trim(sheaf__heap_current(NULL), 0); /* pooled memory is no leak */
    return status < 0 ? status : SHEAF_OK;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    sheaf_cache_options memory = {0}, file = {.file = rig_path("cache")};
    struct source s = {.count = 4, .fails = 3};
    sheaf_dataset *d = cached(source(&s), false, 0);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    take_some(it, 2);
    sheaf_iterator_free(it);
    json_decref(elements_by(d, any_json)); /* the context has warned of all it warns of once */
    sheaf_dataset_free(d);
    rig_ok(attempt(&memory, NULL), NULL); /* and has what it makes once */
    rig_ok(attempt(&file, NULL), NULL);
    assert_true(rig_fail_allocations(attempt, &memory) > 5);
    assert_true(rig_fail_allocations(attempt, &file) > 10);
}

/* Before the first element, not after the last. */
static void test_a_file_that_cannot_be_made(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        sheaf_status status;
        const char *part;
    } cases[] = {
        {"", SHEAF_ERR_INVALID_ARGUMENT, "(cache): the name of the file is empty"},
        {"none/kept", SHEAF_ERR_NOT_FOUND, "(cache): no file none/kept can be made: "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const sheaf_cache_options o = {.file = cases[i].file};
        assert_first_fails(sheaf_dataset_cache(sheaf_dataset_range(0, 3, 1), &o), cases[i].status,
                           cases[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_later_passes_equal_the_first),
        rig_test(test_order_is_frozen),
        rig_test(test_empty_and_large_blocks),
        rig_test(test_T37_strings_of_any_length),
        rig_test(test_stepping_over),
        rig_test(test_second_pass_needs_no_more),
        rig_test(test_partial_pass_is_dropped),
        rig_test(test_pass_with_an_error_is_not_kept),
        rig_test(test_byte_limit),
        rig_test(test_concurrent_iterators),
        rig_test(test_threads_at_once),
        rig_test(test_foreign_files_are_refused),
        rig_test(test_a_file_that_cannot_be_made),
        rig_test(test_cut_file_is_made_again),
        rig_test(test_damaged_file),
        rig_test(test_T42_killed_while_filling),
        rig_test(test_crash_after_any_fault),
        rig_test(test_failing_allocations),
    };
    return rig_run(tests);
}
