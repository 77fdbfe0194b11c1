/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/wait.h"

#include <stdatomic.h>

/* map, filter and generators: functions of the program. */

struct probe {
    _Atomic int calls, running, most;
    sheaf_context *context;
    _Atomic int wrong_context;
    int64_t fail_at;
};

static sheaf_status triple(const sheaf_element *in, sheaf_element *out, void *user)
{
    struct probe *p = user;
    int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    if (p) {
        int now = atomic_fetch_add(&p->running, 1) + 1, most = atomic_load(&p->most);
        while (now > most && !atomic_compare_exchange_weak(&p->most, &most, now))
            ;
        atomic_fetch_add(&p->calls, 1);
        if (sheaf__context() != p->context)
            atomic_fetch_add(&p->wrong_context, 1);
        if (x % 7 == 3)
            sheaf__wait_sleep(sheaf__clock_after(200 * SHEAF__US), NULL, NULL);
        atomic_fetch_sub(&p->running, 1);
        if (p->fail_at == x)
            return SHEAF_ERR_ABORTED;
    }
    return sheaf_element_put(out, "", sheaf_long(3 * x));
}

static sheaf_dataset *mapped(int64_t n, struct probe *p, int parallel, bool unordered)
{
    const sheaf_map_options o = {.parallel = parallel, .unordered = unordered};
    return sheaf_dataset_map(sheaf_dataset_range(0, n, 1), triple, p, &o);
}

/* R9.20: the same elements in the same order, no more calls at once than asked for, all under the
 * dataset's context. */
static void test_parallel_keeps_the_order(void **state)
{
    (void)state;
    for (int parallel = 0; parallel <= 4; parallel += 2) {
        struct probe p = {.context = sheaf__context(), .fail_at = -1};
        sheaf_dataset *d = mapped(300, &p, parallel, false);
        json_t *found = elements(d), *value;
        size_t i;
        assert_int_equal(json_array_size(found), 300);
        json_array_foreach(found, i, value)
            assert_int_equal(json_integer_value(value), 3 * (int64_t)i);
        assert_int_equal(p.calls, 300);
        assert_int_equal(p.wrong_context, 0);
        assert_true(p.most <= (parallel ? parallel : 1));
        json_decref(found);
        sheaf_dataset_free(d);
    }
}

/* Unordered: all of them, each once; by the map's option or the pipeline's. */
static void test_unordered_gives_all(void **state)
{
    (void)state;
    for (int by_pipeline = 0; by_pipeline < 2; by_pipeline++) {
        struct probe p = {.context = sheaf__context(), .fail_at = -1};
        const sheaf_dataset_options o = {.unordered = by_pipeline};
        sheaf_dataset *d = sheaf_dataset_with_options(mapped(300, &p, 3, !by_pipeline), &o);
        json_t *found = elements(d), *value;
        bool seen[300] = {false};
        size_t i;
        json_array_foreach(found, i, value) seen[json_integer_value(value) / 3] = true;
        assert_int_equal(json_array_size(found), 300);
        for (int k = 0; k < 300; k++)
            assert_true(seen[k]);
        json_decref(found);
        sheaf_dataset_free(d);
    }
}

/* An error of one call stands in its place, names the stage, and the next call goes on. */
static void test_failed_call(void **state)
{
    (void)state;
    for (int parallel = 0; parallel <= 2; parallel++) {
        struct probe p = {.context = sheaf__context(), .fail_at = 4};
        sheaf_dataset *d = mapped(6, &p, parallel, false);
        assert_elements(d, "[0, 3, 6, 9, {\"status\": \"Aborted\"}, 15]");
        /* The same below a batch: it uses up the batch's elements read so far (R9.15). */
        d = sheaf_dataset_batch(d, 3, NULL);
        assert_elements(d, "[[0, 3, 6], {\"status\": \"Aborted\"}, [15]]");
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_error err = {0};
        sheaf_element *e;
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_ABORTED,
                  "stage 2 (map): the function returned AbortedError");
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

static sheaf_status first_number(const sheaf_element *in, sheaf_element *out, void *user)
{
    const sheaf_tensor *t = sheaf_element_at(in, 0);
    (void)user;
    return sheaf_element_put(out, "", sheaf_long(sheaf_tensor_integer(t, 0)));
}

/* Batches of two batches; the last two do not fit together. */
static sheaf_dataset *uneven(int64_t repeats)
{
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 23, 1), 3, NULL);
    return sheaf_dataset_repeat(sheaf_dataset_batch(d, 2, NULL), repeats);
}

/* What is left when it has given `count` things and another iterator goes on there. */
static json_t *resumed(sheaf_dataset *d, int count)
{
    sheaf_iterator *before = sheaf_dataset_iterate(d), *after = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    json_decref(drain(before, element_json, count));
    SHEAF_FRAME
    {
        sheaf_bytes position;
        rig_ok(sheaf_iterator_save(before, &position, &err), &err);
        rig_ok(sheaf_iterator_restore(after, position, &err), &err);
    }
    json_t *rest = drain(after, element_json, 100);
    sheaf_iterator_free(before);
    sheaf_iterator_free(after);
    return rest;
}

/* R9.19, S182: an error of the input behind other rows of it comes once, after them, on however many
 * threads the map runs, and also after a position (S217). */
static void test_failed_input(void **state)
{
    (void)state;
    const int parallel[] = {0, 1, 2, 4, SHEAF_AUTOTUNE};
    json_t *expected = literal("[0, 6, 12, {\"status\": \"InvalidArgument\"}, "
                               "0, 6, 12, {\"status\": \"InvalidArgument\"}]");
    for (int i = 0; i < 100; i++) {
        const sheaf_map_options o = {.parallel = parallel[i % 5]};
        sheaf_dataset *d = sheaf_dataset_map(uneven(2), first_number, NULL, &o);
        assert_json(elements(d), expected, "a map");
        json_t *rest = json_array();
        for (size_t k = i % 8; k < json_array_size(expected); k++)
            json_array_append(rest, json_array_get(expected, k));
        assert_json(resumed(d, i % 8), rest, "a map that goes on");
        json_decref(rest);
        sheaf_dataset_free(d);
    }
    json_decref(expected);
}

static sheaf_status fails_silently(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)in;
    (void)out;
    (void)user;
    return SHEAF_ERR_ABORTED;
}

/* Nor does a function that fails have the message of what its input will fail with. */
static void test_failed_call_before_failed_input(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_map(uneven(1), fails_silently, NULL, NULL);
    assert_first_fails(sheaf_dataset_batch(d, 5, NULL), SHEAF_ERR_ABORTED,
                       "stage 5 (map): the function returned AbortedError");
}

static sheaf_status misbehave(const sheaf_element *in, sheaf_element *out, void *user)
{
    switch (sheaf_tensor_integer(sheaf_element_get(in, NULL), 0)) {
    case 0:
        return SHEAF_END;
    case 1:
        return SHEAF_OK;
    case 2:
        sheaf_element_put(out, "", sheaf_element_get(in, "label"));
        return SHEAF_OK;
    case 3:
        sheaf_element_get(in, "image");
        return sheaf_element_put(out, "", sheaf_long(1));
    case 4:
        return sheaf_element_put(out, "", sheaf_float(1));
    default:
        (void)user;
        return sheaf_element_put(out, "", sheaf_long(1));
    }
}

/* What a function can do wrong is said. */
static void test_misbehaving_function(void **state)
{
    (void)state;
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    {
        const sheaf_map_options o = {.spec = spec_of(SHEAF_INT64, SHEAF_SCALAR)};
        d = sheaf_dataset_map(sheaf_dataset_range(0, 6, 1), misbehave, NULL, &o);
    }
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    const struct {
        sheaf_status status;
        const char *part;
    } expected[] = {
        {SHEAF_ERR_INVALID_ARGUMENT, "at its end, which a map cannot do"},
        {SHEAF_ERR_INVALID_ARGUMENT, "put no tensor"},
        {SHEAF_ERR_INVALID_ARGUMENT, "label"},
        {SHEAF_ERR_INVALID_ARGUMENT, "image"},
        {SHEAF_ERR_INVALID_ARGUMENT, "float32"},
    };
    for (size_t i = 0; i < 5; i++) {
        sheaf_error err = {0};
        sheaf_element *e;
        sheaf_status status = sheaf_iterator_next(it, &e, &err);
        assert_true(status < 0);
        if (!strstr(err.message, expected[i].part))
            fail_msg("call %zu: %s", i, err.message);
    }
    sheaf_error err = {0};
    sheaf_element *e;
    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
    assert_int_equal(sheaf_iterator_next(it, &e, &err), SHEAF_END);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* What a function keeps of its input stays as it was. */
static sheaf_tensor *kept[8];
static sheaf_element *kept_whole;
static sheaf_status keep(const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_tensor *t = sheaf_element_get(in, NULL);
    int64_t x = sheaf_tensor_integer(t, 0);
    (void)user;
    kept[x] = sheaf_tensor_keep(t);
    if (x == 5)
        kept_whole = sheaf_element_keep((sheaf_element *)(uintptr_t)in);
    return sheaf_element_put(out, "", t);
}

static void test_kept_inputs_stay(void **state)
{
    (void)state;
    assert_gives(sheaf_dataset_batch(
                     sheaf_dataset_map(sheaf_dataset_range(0, 8, 1), keep, NULL, NULL), 8, NULL),
                 "[[0, 1, 2, 3, 4, 5, 6, 7]]");
    for (int i = 0; i < 8; i++) {
        assert_int_equal(sheaf_tensor_integer(kept[i], 0), i);
        sheaf_tensor_free(kept[i]);
    }
    assert_int_equal(sheaf_tensor_integer(sheaf_element_get(kept_whole, NULL), 0), 5);
    sheaf_element_free(kept_whole);
}

/* Strings that a function makes outlive its frame, short ones and long ones. */
static sheaf_status spell(const sheaf_element *in, sheaf_element *out, void *user)
{
    int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    static char text[9001];
    (void)user;
    memset(text, 'a' + (int)(x % 26), sizeof(text));
    text[x == 3 ? 9000 : x] = '\0';
    return sheaf_element_put(out, "", sheaf_string(text));
}

static void test_strings_outlive_the_call(void **state)
{
    (void)state;
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, 6, 1), spell, NULL, NULL);
    const sheaf_shuffle_options o = {.seed = 5};
    d = sheaf_dataset_batch(sheaf_dataset_shuffle(d, 6, &o), 6, NULL);
    SHEAF_FRAME
    {
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_error err = {0};
        sheaf_element *e;
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        sheaf_iterator_free(it);
        size_t all = 0;
        for (int i = 0; i < 6; i++) {
            sheaf_bytes b = sheaf_tensor_bytes(sheaf_element_at(e, 0), i);
            size_t number = b.size == 9000 ? 3 : b.size;
            all += number;
            for (size_t k = 0; k < b.size; k++)
                assert_int_equal(b.data[k], 'a' + (int)number);
        }
        assert_int_equal(all, 15);
    }
    sheaf_dataset_free(d);
}

/* R9.21: a filter asks a function; what fails is named. */
static sheaf_status is_odd(const sheaf_element *in, void *user)
{
    int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    (void)user;
    return x == 5 ? SHEAF_ERR_IO : x % 2 ? SHEAF_OK : SHEAF_END;
}

static void test_filter(void **state)
{
    (void)state;
    assert_gives(sheaf_dataset_filter(sheaf_dataset_range(0, 9, 1), is_odd, NULL),
                 "[1, 3, {\"status\": \"IO\"}, 7]");
    assert_first_fails(sheaf_dataset_filter(sheaf_dataset_range(5, 9, 1), is_odd, NULL),
                       SHEAF_ERR_IO, "stage 2 (filter): the function returned IOError");
    assert_first_fails(sheaf_dataset_filter(sheaf_dataset_range(5, 9, 1), NULL, NULL),
                       SHEAF_ERR_INVALID_ARGUMENT, "there is no function");
}

/* A function without filter, map or pull beyond the demand: exactly as many calls as elements. */
static void test_nothing_runs_ahead(void **state)
{
    (void)state;
    struct probe p = {.context = sheaf__context(), .fail_at = -1};
    sheaf_dataset *d = sheaf_dataset_batch(mapped(100, &p, 0, false), 4, NULL);
    d = sheaf_dataset_take(sheaf_dataset_unbatch(d), 6);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    const int calls[] = {4, 4, 4, 4, 8, 8};
    assert_int_equal(p.calls, 0);
    for (int i = 0; i < 6; i++)
        SHEAF_FRAME
        {
            sheaf_element *e;
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            assert_int_equal(p.calls, calls[i]);
        }
    sheaf_element *e;
    assert_int_equal(sheaf_iterator_next(it, &e, &err), SHEAF_END);
    assert_int_equal(p.calls, 8);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* ---- generators ---- */

static int stopped;
static sheaf_status begin(void *user, void **generator, sheaf_error *err)
{
    if (user)
        return sheaf_error_set(err, SHEAF_ERR_NOT_FOUND, "no such well");
    *generator = calloc(1, sizeof(int));
    return SHEAF_OK;
}
static sheaf_status draw(void *generator, sheaf_element *out, sheaf_error *err)
{
    int *at = generator;
    switch ((*at)++) {
    case 1:
        return sheaf_element_put(out, "", sheaf_float(1)); /* not the declared type */
    case 2:
        return sheaf_error_set(err, SHEAF_ERR_IO, "dry");
    case 4:
        return SHEAF_END;
    default:
        return sheaf_element_put(out, "", sheaf_long(*at));
    }
}
static void end(void *generator)
{
    stopped++;
    free(generator);
}

/* R9.25, R9.28, S198. */
static void test_generator(void **state)
{
    (void)state;
    const sheaf_generator g = {begin, draw, end, NULL}, none = {NULL, NULL, NULL, NULL};
    sheaf_generator bad = g;
    bad.user = &bad;
    stopped = 0;
    SHEAF_FRAME
    {
        const sheaf_element_spec *spec = spec_of(SHEAF_INT64, SHEAF_SCALAR);
        sheaf_dataset *d = sheaf_dataset_from_generator(&g, spec);
        assert_int_equal(sheaf_dataset_cardinality(d), SHEAF_UNKNOWN);
        for (int i = 0; i < 2; i++)
            assert_elements(d, "[1, {\"status\": \"InvalidArgument\"}, {\"status\": \"IO\"}, 4]");
        assert_int_equal(stopped, 2);
        sheaf_dataset_free(d);
        assert_first_fails(sheaf_dataset_from_generator(&bad, spec), SHEAF_ERR_NOT_FOUND,
                           "stage 1 (from_generator): no such well");
        assert_first_fails(sheaf_dataset_from_generator(&none, spec), SHEAF_ERR_INVALID_ARGUMENT,
                           "no function");
        assert_first_fails(sheaf_dataset_from_generator(&g, NULL), SHEAF_ERR_INVALID_ARGUMENT,
                           "no element spec");
    }
    assert_int_equal(stopped, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_parallel_keeps_the_order),
        rig_test(test_unordered_gives_all),
        rig_test(test_failed_call),
        rig_test(test_failed_input),
        rig_test(test_failed_call_before_failed_input),
        rig_test(test_misbehaving_function),
        rig_test(test_kept_inputs_stay),
        rig_test(test_strings_outlive_the_call),
        rig_test(test_filter),
        rig_test(test_nothing_runs_ahead),
        rig_test(test_generator),
    };
    return rig_run(tests);
}
