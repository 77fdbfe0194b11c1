/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/mem.h"
#include "base/sim.h"
#include "base/thread.h"
#include "base/wait.h"

/* What sheaf_iterator_explain() and SHEAF_EXPLAIN tell of a pipeline. Times are those of a
 * simulation, which move when a function sleeps and at no other moment. */

#define HEAD "  work s    wait s  threads            queue    elements          bytes  stage\n"

static void sleep_ms(int64_t ms)
{
    sheaf__wait_sleep(sheaf__clock_after(ms * SHEAF__MS), NULL, NULL);
}

static sheaf_status slow(const sheaf_element *in, sheaf_element *out, void *user)
{
    sleep_ms(*(const int *)user);
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}

static sheaf_dataset *measured(sheaf_dataset *d)
{
    return sheaf_dataset_with_options(d, &(sheaf_dataset_options){.measured = true});
}

/* All elements of `d`, `ms` for each in the consumer; the explanation at the end. */
static void consume(sheaf_dataset *d, int64_t ms, char *text, size_t size)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    SHEAF_EACH_ELEMENT(e, it, &err)
    sleep_ms(ms);
    SHEAF_FRAME
    snprintf(text, size, "%s", sheaf_iterator_explain(it));
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

struct run {
    void (*fn)(char *text, size_t size);
    char text[2000];
};

static void run_inside(void *user)
{
    struct run *r = user;
    r->fn(r->text, sizeof(r->text));
}

/* The same for any order of events. */
static void assert_explains(void (*fn)(char *text, size_t size), const char *expected)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct run r = {.fn = fn};
        sheaf_error err = {0};
        rig_ok(sheaf__sim_run(seed, run_inside, &r, NULL, &err), &err);
        assert_string_equal(r.text, expected);
    }
}

/* A function of 10 ms a call, a consumer of 5 ms: the first element comes after 10 ms, each of the
 * other five 5 ms after it was asked for. What is below a prefetch is not its own time. */
static void one_thread(char *text, size_t size)
{
    int ms = 10;
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, 6, 1), slow, &ms, NULL);
    consume(measured(sheaf_dataset_prefetch(d, 1)), 5, text, size);
}

static void test_time_and_queue(void **state)
{
    (void)state;
    assert_explains(one_thread,
                    "6 elements in 0.065 s, of which the program waited 0.035 s\n" HEAD
                    "   0.000         -        -                -           6             48  "
                    "range(0, 6, 1)\n"
                    "   0.060         -        -                -           6             48  map\n"
                    "   0.000     0.035        1            0.0/1           6             48  "
                    "prefetch(1)\n"
                    "   0.000         -        -                -           6             48  "
                    "with_options\n");
}

/* Two threads work 10 ms each at the same time; they count together. */
static void two_threads(char *text, size_t size)
{
    int ms = 10;
    const sheaf_map_options two = {.parallel = 2};
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, 6, 1), slow, &ms, &two);
    consume(measured(d), 0, text, size);
}

static void test_threads_count_together(void **state)
{
    (void)state;
    struct run r = {.fn = two_threads};
    sheaf_error err = {0};
    rig_ok(sheaf__sim_run(1, run_inside, &r, NULL, &err), &err);
    assert_non_null(strstr(r.text, "6 elements in 0.030 s, of which the program waited 0.030 s\n"));
    assert_non_null(strstr(r.text, "\n   0.060     0.030        2  "));
    assert_non_null(strstr(r.text, "/4           6             48  map\n"));
}

static sheaf_dataset *open_batches(const sheaf_element *in, void *user)
{
    int64_t n = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    (void)user;
    return sheaf_dataset_batch(sheaf_dataset_range(0, n, 1), 2, NULL);
}

/* What a function makes, and a second input, stand deeper; datasets of the same stages count
 * together. */
static void nested(char *text, size_t size)
{
    const sheaf_interleave_options two = {.cycle_length = 2};
    sheaf_dataset *d =
        sheaf_dataset_interleave(sheaf_dataset_range(1, 4, 1), open_batches, NULL, &two);
    sheaf_dataset *pair[] = {d, sheaf_dataset_range(0, 4, 1)};
    consume(measured(sheaf_dataset_zip(pair, 2)), 0, text, size);
}

static void test_what_a_function_made(void **state)
{
    (void)state;
    assert_explains(nested,
                    "4 elements in 0.000 s, of which the program waited 0.000 s\n" HEAD
                    "   0.000         -        -                -           3             24  "
                    "range(1, 4, 1)\n"
                    "   0.000         -        -                -           6             48    "
                    "range(0, 1, 1)\n"
                    "   0.000         -        -                -           4             48    "
                    "batch(2)\n"
                    "   0.000         -        -                -           4             48  "
                    "interleave(cycle 2, block 1)\n"
                    "   0.000         -        -                -           4             32    "
                    "range(0, 4, 1)\n"
                    "   0.000         -        -                -           4             80  zip\n"
                    "   0.000         -        -                -           4             80  "
                    "with_options\n");
}

/* Nobody asked for figures: none are taken. */
static void test_not_measured(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 6, 1), 2, NULL);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        assert_string_equal(sheaf_iterator_explain(it), "range(0, 6, 1)\nbatch(2)\n");
        sheaf_iterator_free(it);
        assert_string_equal(sheaf_iterator_explain(NULL), "");
        sheaf_dataset_free(d);
    }
}

/* ---- SHEAF_EXPLAIN ---- */

static char variable[300];

static const char *const *with_file(int task, void *user)
{
    static const char *environment[] = {variable, NULL};
    (void)task;
    (void)user;
    return environment;
}

static sheaf_status passes(struct rig_task *task)
{
    sheaf__context_set_task(task->context, task->index ? "worker" : "", task->index);
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(0, 6 + task->index, 1), 2, NULL);
    for (int i = 0; i < 2; i++) {
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_element *e;
        SHEAF_EACH_ELEMENT(e, it, &task->err)
        (void)e;
        sheaf_iterator_free(it);
    }
    sheaf_iterator_free(sheaf_dataset_iterate(d)); /* nothing was asked for */
    sheaf_dataset_free(d);
    return task->err.status < 0 ? task->err.status : SHEAF_OK;
}

static int count_in_file(const char *path, const char *part)
{
    char *text;
    size_t size;
    sheaf_error err = {0};
    int count = 0;
    rig_ok(sheaf__file_read_all(path, 100000, &text, &size, &err), &err);
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    sheaf__free(text);
    return count;
}

/* Every pass that was begun adds its lines when it ends; each task has a file of its own. */
static void test_file(void **state)
{
    (void)state;
    snprintf(variable, sizeof(variable), "SHEAF_EXPLAIN=%s", rig_path("explain"));
    rig_tasks(2, passes, NULL, with_file, 20);
    assert_int_equal(count_in_file(rig_path("explain"), "\n" HEAD), 2);
    assert_int_equal(count_in_file(rig_path("explain"), "3 elements in "), 2);
    assert_int_equal(count_in_file(rig_path("explain.worker-1"), "4 elements in "), 2);
    assert_int_equal(count_in_file(rig_path("explain.worker-1"), "  range(0, 7, 1)\n"), 2);
}

static sheaf_status fails(struct rig_task *task)
{
    sheaf_error ignored;
    SHEAF_FRAME
    {
        sheaf_dataset *d = sheaf_dataset_range(0, 6, 1);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_element *e;
        RIG_CHECK(task, sheaf_iterator_next(it, &e, &ignored) == SHEAF_OK);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
    return SHEAF_OK;
}

/* It cannot be written: that is a warning, and nothing else. */
static void test_file_that_cannot_be(void **state)
{
    (void)state;
    snprintf(variable, sizeof(variable), "SHEAF_EXPLAIN=%s", rig_path("none/explain"));
    rig_tasks(1, fails, NULL, with_file, 20);
    const char *log = rig_log_take();
    assert_non_null(strstr(log, "none/explain: a pipeline is not explained: "));
}

/* Whatever allocation fails: it is told, or the pipeline is not measured; nothing is left. */
static sheaf_status explain_some(sheaf_error *err)
{
    const sheaf_interleave_options two = {.cycle_length = 2};
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        sheaf_dataset *d = sheaf_dataset_range(1, 4, 1);
        d = measured(sheaf_dataset_interleave(d, open_batches, NULL, &two));
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_element *e;
        do
            status = sheaf_iterator_next(it, &e, err);
        while (status == SHEAF_OK);
        (void)sheaf_iterator_explain(it);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
    return status < 0 ? status : SHEAF_OK;
}

/* In a context of its own, whose pools go with it. */
static sheaf_status attempt(void *user, sheaf_error *err)
{
    sheaf_context *context, *before;
    sheaf_status status = sheaf_context_new(NULL, &context, err);
    (void)user;
    if (status < 0)
        return status;
    before = sheaf_context_enter(context);
    status = explain_some(err);
    sheaf__local_release();
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

static void test_without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(attempt, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_time_and_queue),
        rig_test(test_threads_count_together),
        rig_test(test_what_a_function_made),
        rig_test(test_not_measured),
        rig_test(test_file),
        rig_test(test_file_that_cannot_be),
        rig_test(test_without_memory),
    };
    return rig_run(tests);
}
