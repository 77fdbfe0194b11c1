/* SPDX-License-Identifier: Apache-2.0 */
#include "random_pipeline.h"

#include "base/mem.h"
#include "base/thread.h"
#include "tensor/trackable.h"

#include <sys/wait.h>
#include <unistd.h>

/* Going on where an iterator was, in another process or this one, is the same as never having
 * stopped (S217, T38). */

/* Bytes outside of frames. */
struct saved {
    uint8_t bytes[8192];
    size_t size;
};

static struct saved save(sheaf_iterator *it)
{
    struct saved s = {.size = 0};
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        sheaf_bytes position = {0};
        rig_ok(sheaf_iterator_save(it, &position, &err), &err);
        assert_true(position.size <= sizeof(s.bytes));
        memcpy(s.bytes, position.data, position.size);
        s.size = position.size;
    }
    return s;
}

static void restore(sheaf_iterator *it, const struct saved *s)
{
    sheaf_error err = {0};
    rig_ok(sheaf_iterator_restore(it, (sheaf_bytes){(const char *)s->bytes, s->size}, &err), &err);
}

/* Some epochs, then a part of one; then the rest of it, and another epoch, are the same for who goes
 * on from the saved position. Threads that read ahead may have taken seeds that are not needed: then
 * every next epoch is another. */
static void check(uint64_t seed)
{
    struct pipeline p;
    sheaf_dataset *d = random_pipeline(seed, true, &p), *again = random_pipeline(seed, true, &p);
    for (int64_t epochs = below(&p, 3); epochs > 0; epochs--)
        json_decref(elements(d));
    sheaf_iterator *it = sheaf_dataset_iterate(d), *other = sheaf_dataset_iterate(again);
    json_decref(drain(it, element_json, (int)below(&p, 60)));
    json_decref(drain(other, element_json, (int)below(&p, 3)));
    struct saved s = save(it);
    restore(other, &s);
    if (below(&p, 2) == 0) {
        s = save(other);
        restore(other, &s); /* directly again */
    }
    json_t *rest = drain(it, element_json, 1000), *next = elements(d);
    assert_json(drain(other, element_json, 1000), rest, p.text);
    json_decref(rest);
    if (!p.ahead)
        assert_json(elements(again), next, p.text);
    json_decref(next);
    sheaf_iterator_free(it);
    sheaf_iterator_free(other);
    sheaf_dataset_free(d);
    sheaf_dataset_free(again);
    rig_log_take(); /* of caches that were not filled to the end */
}

static void test_S217_random_pipelines(void **state)
{
    (void)state;
    write_files();
    for (uint64_t seed = 1; seed <= PIPELINES; seed++)
        check(seed);
}

/* ---- one by one ---- */

static sheaf_status count_calls(const sheaf_element *in, sheaf_element *out, void *user)
{
    ++*(int *)user;
    return sheaf_element_put(out, "", sheaf_element_at(in, 0));
}

/* What lies before the position is not made again. */
static void test_passes_over(void **state)
{
    (void)state;
    int calls = 0;
    const sheaf_shuffle_options order = {.seed = 1};
    sheaf_dataset *d =
        sheaf_dataset_map(sheaf_dataset_range(0, 10000, 1), count_calls, &calls, NULL);
    d = sheaf_dataset_batch(sheaf_dataset_shuffle(d, 20, &order), 10, NULL);
    sheaf_iterator *it = sheaf_dataset_iterate(d), *other = sheaf_dataset_iterate(d);
    json_decref(drain(it, element_json, 900));
    struct saved s = save(it);
    assert_true(s.size < 200);
    calls = 0;
    restore(other, &s);
    json_t *expected = drain(it, element_json, 1);
    assert_int_equal(calls, 10);
    assert_json(drain(other, element_json, 1), expected, "the next");
    assert_true(calls < 10 + 20 + 10 + 1);
    json_decref(expected);
    sheaf_iterator_free(it);
    sheaf_iterator_free(other);
    sheaf_dataset_free(d);
}

static sheaf_dataset *twelve(void)
{
    const sheaf_shuffle_options seed = {.seed = 42};
    return sheaf_dataset_shuffle(sheaf_dataset_range(0, 12, 1), 4, &seed);
}

/* Another process: goes to the position in the file, saves that again, and writes there what is left. */
static int run_rest(const char *path)
{
    struct saved s = {.size = 0}, again;
    sheaf_error err = {0};
    char *bytes = NULL;
    if (sheaf__file_read_all(path, sizeof(s.bytes), &bytes, &s.size, &err) < 0)
        return sheaf_error_exit(&err);
    memcpy(s.bytes, bytes, s.size);
    sheaf__free(bytes);
    sheaf_dataset *d = twelve();
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    restore(it, &s);
    again = save(it);
    if (again.size != s.size || memcmp(again.bytes, s.bytes, s.size) != 0)
        return 1;
    json_t *rest = drain(it, element_json, 100);
    const int code = json_dump_file(rest, path, 0);
    json_decref(rest);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    return code;
}

/* T38: three of TensorFlow's order for this seed here, the others in a new process. */
static void test_T38_in_a_new_process(void **state)
{
    (void)state;
    const char *path = rig_path("position");
    int status = -1;
    json_error_t fault;
    sheaf_error err = {0};
    sheaf_dataset *d = twelve();
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    json_t *expected = literal("[1, 4, 2]");
    assert_json(drain(it, element_json, 3), expected, "the first three");
    json_decref(expected);
    struct saved s = save(it);
    rig_ok(sheaf__file_replace(path, s.bytes, s.size, &err), &err);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_resume", "rest", path, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expected = literal("[3, 5, 0, 6, 9, 8, 7, 10, 11]");
    assert_json(json_load_file(path, 0, &fault), expected, "the rest, there");
    assert_json(drain(it, element_json, 100), expected, "the rest, here");
    json_decref(expected);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* Files many times over. */
static void test_files(void **state)
{
    (void)state;
    write_files();
    const sheaf_list_files_options order = {.seed = 5};
    const sheaf_interleave_options cycle = {.cycle_length = 3};
    sheaf_dataset *d[2];
    for (int i = 0; i < 2; i++) {
        d[i] = sheaf_dataset_repeat(sheaf_list_files(rig_path("*.tfrecord"), &order), 200);
        d[i] = sheaf_dataset_interleave(d[i], sheaf_open_tfrecord, NULL, &cycle);
    }
    sheaf_iterator *it = sheaf_dataset_iterate(d[0]), *other = sheaf_dataset_iterate(d[1]);
    json_decref(drain(it, element_json, 4000));
    struct saved s = save(it);
    assert_true(s.size < 400);
    restore(other, &s);
    json_t *expected = drain(it, element_json, 1000);
    assert_int_equal(json_array_size(expected), 200);
    assert_json(drain(other, element_json, 1000), expected, "the rest");
    json_decref(expected);
    sheaf_iterator_free(it);
    sheaf_iterator_free(other);
    sheaf_dataset_free(d[0]);
    sheaf_dataset_free(d[1]);
}

static void refuses_to_save(sheaf_dataset *d, int take, const char *part)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_bytes position;
    sheaf_error err = {0};
    json_decref(drain(it, element_json, take));
    rig_fails(sheaf_iterator_save(it, &position, &err), &err, SHEAF_ERR_FAILED_PRECONDITION, part);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static sheaf_dataset *open_unseeded(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    return sheaf_dataset_shuffle(sheaf_dataset_range(0, 4, 1), 4, NULL);
}
static sheaf_dataset *open_shared(const sheaf_element *in, void *user)
{
    (void)in;
    return sheaf_dataset_map(sheaf_dataset_ref(user), add_one, NULL, NULL);
}

/* What would not come in the same order again says so, with its stage. */
static void test_refusals(void **state)
{
    (void)state;
    const sheaf_map_options loose = {.parallel = 2, .unordered = true}, two = {.parallel = 2};
    const sheaf_interleave_options loose_cycle = {
        .cycle_length = 2, .parallel = 2, .unordered = true};
    const sheaf_dataset_options unordered = {.unordered = true};
    const sheaf_shuffle_options order = {.seed = 1};
    sheaf_dataset *range = sheaf_dataset_range(0, 9, 1);
    refuses_to_save(sheaf_dataset_map(sheaf_dataset_ref(range), add_one, NULL, &loose), 0,
                    "stage 2 (map) has no position to save: elements come as they are ready");
    refuses_to_save(
        sheaf_dataset_with_options(sheaf_dataset_map(sheaf_dataset_ref(range), add_one, NULL, &two),
                                   &unordered),
        0, "stage 2 (map) has no position");
    refuses_to_save(
        sheaf_dataset_interleave(sheaf_dataset_ref(range), open_few, NULL, &loose_cycle), 0,
        "stage 2 (interleave) has no position");
    refuses_to_save(
        sheaf_dataset_flat_map(sheaf_dataset_ref(range), open_unseeded, NULL), 1,
        "stage 2 (flat_map): in a dataset that the function made: stage 2 (shuffle) has "
        "no position to save: it has no seed");
    sheaf_dataset *shared = sheaf_dataset_shuffle(sheaf_dataset_ref(range), 3, &order);
    refuses_to_save(sheaf_dataset_flat_map(sheaf_dataset_ref(range), open_shared, shared), 1,
                    "the function gives the same dataset, not a new one");
    sheaf_dataset_free(shared);
    sheaf_dataset_free(range);
}

/* Rounds of a shuffle, each with seeds of its own, and what asks for elements of two rounds at once. */
static sheaf_dataset *rounds(int kind)
{
    const sheaf_shuffle_options order = {.seed = 5}, outer = {.seed = 6};
    sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 6, 1), 4, &order);
    d = sheaf_dataset_repeat(d, kind == 5 ? -1 : 3);
    switch (kind) {
    case 1:
        return sheaf_dataset_batch(d, 4, NULL);
    case 2:
        return sheaf_dataset_shuffle(d, 5, &outer);
    case 3:
        return sheaf_dataset_shard(d, 4, 1);
    case 4:
        return sheaf_dataset_prefetch(d, 9);
    case 5:
        return sheaf_dataset_take(d, 20);
    default:
        return d;
    }
}

/* At every element, also the last of a round and the first of the next one, of which the seeds are taken when it is
 * asked for: the rest is the same, and so is the next pass. */
static void test_rounds_of_a_shuffle(void **state)
{
    (void)state;
    for (int kind = 0; kind <= 5; kind++) {
        char text[32];
        snprintf(text, sizeof(text), "kind %d", kind);
        for (int at = 0; at <= 20; at++) {
            sheaf_dataset *d = rounds(kind), *again = rounds(kind), *unbroken = rounds(kind);
            json_t *all = elements(unbroken), *rest = json_array(), *next = elements(unbroken);
            for (size_t i = (size_t)at; i < json_array_size(all); i++)
                json_array_append(rest, json_array_get(all, i));
            sheaf_iterator *it = sheaf_dataset_iterate(d);
            json_decref(drain(it, element_json, at));
            const struct saved s = save(it);
            sheaf_iterator_free(it);
            it = sheaf_dataset_iterate(again);
            restore(it, &s);
            assert_json(drain(it, element_json, 1000), rest, text);
            sheaf_iterator_free(it);
            assert_json(elements(again), next, text);
            json_decref(all);
            json_decref(rest);
            json_decref(next);
            sheaf_dataset_free(d);
            sheaf_dataset_free(again);
            sheaf_dataset_free(unbroken);
        }
    }
}

/* Two iterators that take seeds of a dataset in turn: neither could go on. */
static void test_two_iterators(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 3, 1), 3, NULL);
    d = sheaf_dataset_repeat(d, 3);
    sheaf_iterator *first = sheaf_dataset_iterate(d), *second = sheaf_dataset_iterate(d);
    sheaf_bytes position;
    sheaf_error err = {0};
    json_decref(
        drain(first, element_json, 4)); /* its second epoch takes seeds after the second's */
    rig_fails(sheaf_iterator_save(first, &position, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "stage 2 (shuffle) has no position to save: another iterator");
    sheaf_iterator_free(first);
    sheaf_iterator_free(second);
    sheaf_dataset_free(d);
}

static void refuses(sheaf_dataset *d, const struct saved *s, sheaf_status status, const char *part)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    const sheaf_bytes position = {(const char *)s->bytes, s->size};
    sheaf_error err = {0};
    rig_fails(sheaf_iterator_restore(it, position, &err), &err, status, part);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* What is wrong with the pipeline itself is the error, with or without a checkpoint. */
static void test_missing_files(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_list_files("/nonexistent/*", NULL);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    const sheaf_trackable *t = sheaf_iterator_trackable(it);
    sheaf_error err = {0};
    rig_fails(t->cls->check(t, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "stage 1 (list_files): no files matched");
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static void test_other_pipelines(void **state)
{
    (void)state;
    const sheaf_shuffle_options five = {.seed = 5}, six = {.seed = 6};
    sheaf_dataset *range = sheaf_dataset_range(0, 9, 1);
    sheaf_dataset *d =
        sheaf_dataset_batch(sheaf_dataset_shuffle(sheaf_dataset_ref(range), 4, &five), 2, NULL);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    struct saved s = save(it);
    sheaf_iterator_free(it);
    refuses(sheaf_dataset_ref(range), &s, SHEAF_ERR_FAILED_PRECONDITION,
            "its line 2 is \"shuffle(4, seed 5)\", this one's is \"\"");
    refuses(sheaf_dataset_shuffle(sheaf_dataset_ref(range), 4, &six), &s,
            SHEAF_ERR_FAILED_PRECONDITION,
            "its line 2 is \"shuffle(4, seed 5)\", this one's is \"shuffle(4, seed 6)\"");
    refuses(sheaf_dataset_batch(sheaf_dataset_shuffle(range, 4, &five), 3, NULL), &s,
            SHEAF_ERR_FAILED_PRECONDITION,
            "its line 3 is \"batch(2)\", this one's is \"batch(3)\"");
    /* Stages that make no difference to what comes may differ. */
    sheaf_dataset *ahead = sheaf_dataset_prefetch(d, 3);
    it = sheaf_dataset_iterate(ahead);
    restore(it, &s);
    sheaf_iterator_free(it);
    sheaf_dataset_free(ahead);
}

static void test_damaged(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 9, 1), 4, NULL);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    const struct saved whole = save(it);
    for (size_t i = 0; i < 8 * whole.size; i++) {
        struct saved s = whole;
        s.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        refuses(sheaf_dataset_ref(d), &s, SHEAF_ERR_DATA_LOSS, "position of an iterator");
    }
    for (struct saved s = whole; s.size-- > 0;)
        refuses(sheaf_dataset_ref(d), &s, SHEAF_ERR_DATA_LOSS, "position of an iterator");
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* The data became less: that is no end, but an error, again and again. */
static void test_data_that_changed(void **state)
{
    (void)state;
    write_files();
    const sheaf_shuffle_options order = {.seed = 5};
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        sheaf_dataset *d = sheaf_tfrecord(rig_path("6.tfrecord"));
        if (shuffled)
            d = sheaf_dataset_shuffle(d, 2, &order);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        json_decref(drain(it, element_json, 4));
        struct saved s = save(it);
        sheaf_iterator_free(it);
        sheaf_error err = {0};
        rig_ok(sheaf__file_replace(rig_path("6.tfrecord"), "", 0, &err), &err);
        it = sheaf_dataset_iterate(d);
        restore(it, &s);
        for (int i = 0; i < 2; i++) {
            sheaf_element *e;
            rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_DATA_LOSS,
                      "the data end after 0 elements, the saved position is behind 4");
        }
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
        write_files();
    }
}

static sheaf_status save_and_restore(void *user, sheaf_error *err)
{
    struct pipeline p;
    sheaf_dataset *d = random_pipeline(*(uint64_t *)user, false, &p);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        sheaf_element *e;
        sheaf_bytes position;
        for (int i = 0; i < 3 && status == SHEAF_OK; i++)
            status = sheaf_iterator_next(it, &e, err);
        if (status >= 0)
            status = sheaf_iterator_save(it, &position, err);
        if (status >= 0)
            status = sheaf_iterator_restore(it, position, err);
        if (status >= 0)
            status = sheaf_iterator_next(it, &e, err);
        if (status == SHEAF_OK)
            status = sheaf_frame_status(err);
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    return status < 0 ? status : SHEAF_OK;
}

/* In a context of its own, whose pools go with it. */
static sheaf_status attempt(void *user, sheaf_error *err)
{
    sheaf_context *context, *before;
    sheaf_status status = sheaf_context_new(NULL, &context, err);
    if (status < 0)
        return status;
    before = sheaf_context_enter(context);
    status = save_and_restore(user, err);
    sheaf__local_release();
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

static void test_without_memory(void **state)
{
    (void)state;
    write_files();
    int tried = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct pipeline p;
        sheaf_dataset_free(random_pipeline(seed, false, &p));
        /* The other sources are made by functions of the test; a cache does without memory. */
        if (strstr(p.text, "slices") || strstr(p.text, "tensors") || strstr(p.text, "generator") ||
            strstr(p.text, "cache"))
            continue;
        assert_true(rig_fail_allocations(attempt, &seed) > 0);
        tried++;
    }
    assert_true(tried > 10);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "rest") == 0)
        return run_rest(argv[2]);
    const struct CMUnitTest tests[] = {rig_test(test_S217_random_pipelines),
                                       rig_test(test_T38_in_a_new_process),
                                       rig_test(test_passes_over),
                                       rig_test(test_files),
                                       rig_test(test_refusals),
                                       rig_test(test_rounds_of_a_shuffle),
                                       rig_test(test_two_iterators),
                                       rig_test(test_missing_files),
                                       rig_test(test_other_pipelines),
                                       rig_test(test_damaged),
                                       rig_test(test_data_that_changed),
                                       rig_test(test_without_memory)};
    return rig_run(tests);
}
