/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/clock.h"
#include "base/sim.h"
#include "base/wait.h"
#include "data/tuner.h"
#include "tensor/heap.h"

#include <sheaf/ops.h>

#include <stdatomic.h>

/* SHEAF_AUTOTUNE, and limits of memory. Everything runs in a simulation with eight cores, whose time
 * moves only when functions sleep: what is measured is exact. */

static void sleep_ms(int64_t ms)
{
    if (ms > 0)
        sheaf__wait_sleep(sheaf__clock_after(ms * SHEAF__MS), NULL, NULL);
}

/* Runs fn(user) in a simulation, in a context of these variables. */
static void simulate(uint64_t seed, const char *const *environment, void (*fn)(void *), void *user)
{
    const sheaf_context_options options = {.environment = environment};
    sheaf_context *context;
    sheaf_error err = {0};
    rig_ok(sheaf_context_new(&options, &context, &err), &err);
    sheaf_context *before = sheaf_context_enter(context);
    sheaf_status status = sheaf__sim_run(seed, fn, user, NULL, &err);
    sheaf_frame_clear();
    sheaf_context_enter(before);
    sheaf_context_free(context);
    rig_ok(status, &err);
}
static const char *const EIGHT[] = {"SHEAF_THREADS=8", NULL};

/* A pipeline, and what the consumer saw of it. */
struct job {
    sheaf_dataset *(*make)(struct job *job);
    int64_t call_ms, consumer_ms;
    int hurries_at; /* from this element on the consumer takes no time; 0: never */
    _Atomic int calls, running, most; /* of the function */
    int elements;
    bool in_order;
    char explained[2000];
};

static sheaf_status work(const sheaf_element *in, sheaf_element *out, void *user)
{
    struct job *job = user;
    const int running = atomic_fetch_add(&job->running, 1) + 1;
    int most = atomic_load(&job->most);
    while (running > most && !atomic_compare_exchange_weak(&job->most, &most, running))
        ;
    atomic_fetch_add(&job->calls, 1);
    sleep_ms(job->call_ms);
    atomic_fetch_sub(&job->running, 1);
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}

static void consume(void *user)
{
    struct job *job = user;
    sheaf_dataset *d = job->make(job);
    d = sheaf_dataset_with_options(d, &(sheaf_dataset_options){.measured = true});
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    job->in_order = true;
    SHEAF_EACH_ELEMENT(e, it, &err)
    {
        const int64_t x = sheaf_tensor_integer(sheaf_element_get(e, NULL), 0);
        job->in_order = job->in_order && x == job->elements;
        job->elements++;
        if (job->hurries_at > 0 && job->elements == job->hurries_at) {
            job->consumer_ms = 0;
            atomic_store(&job->most, 0);
        }
        sleep_ms(job->consumer_ms);
    }
    SHEAF_FRAME
    snprintf(job->explained, sizeof(job->explained), "%s", sheaf_iterator_explain(it));
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* A column of the line of a stage: 2 threads, 3 the queue. */
static int column_of(const char *explained, int column, const char *stage)
{
    const char *line = strstr(explained, stage);
    int number[5] = {0};
    assert_non_null(line);
    while (line > explained && line[-1] != '\n')
        line--;
    assert_int_equal(sscanf(line, "%*f %*f %d %*d.%*d/%d", &number[2], &number[3]), 2);
    return number[column];
}

/* ---- threads ---- */

static sheaf_dataset *mapped(struct job *job)
{
    const sheaf_map_options tuned = {.parallel = SHEAF_AUTOTUNE};
    return sheaf_dataset_map(sheaf_dataset_range(0, 200, 1), work, job, &tuned);
}

/* S106, S182: as many calls at once as the consumer wants and a quarter more, not more than there
 * are cores, in the order of the input. A call of 10 ms and a consumer of 5 ms: 2.5. */
static void test_map_keeps_up_with_the_consumer(void **state)
{
    (void)state;
    const struct {
        int64_t call_ms, consumer_ms;
        int threads;
    } cases[] = {{10, 5, 3}, {10, 10, 2}, {40, 4, 8}, {1, 10, 1}, {10, 0, 8}};
    for (size_t i = 0; i < 5; i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct job job = {
                .make = mapped, .call_ms = cases[i].call_ms, .consumer_ms = cases[i].consumer_ms};
            simulate(seed, EIGHT, consume, &job);
            assert_int_equal(job.elements, 200);
            assert_true(job.in_order);
            assert_true(job.most <= 8);
            assert_int_equal(column_of(job.explained, 2, "map"), cases[i].threads);
        }
}

static sheaf_dataset *mapped_by_two(struct job *job)
{
    const sheaf_map_options two = {.parallel = 2};
    return sheaf_dataset_map(sheaf_dataset_range(0, 200, 1), work, job, &two);
}

/* Of slow calls a thread makes one while another waits to be taken; pieces of quick ones are short, and
 * more of them may wait. */
static void test_map_runs_ahead_by_time(void **state)
{
    (void)state;
    struct job slow = {.make = mapped_by_two, .call_ms = 10, .consumer_ms = 50};
    struct job quick = {.make = mapped_by_two, .call_ms = 0, .consumer_ms = 50};
    simulate(1, EIGHT, consume, &slow);
    simulate(1, EIGHT, consume, &quick);
    assert_true(slow.in_order && quick.in_order);
    assert_int_equal(column_of(slow.explained, 3, "map"), 2 * 2);
    assert_int_equal(column_of(quick.explained, 3, "map"), 2 * 8);
}

static sheaf_status draw_slowly(void *state, sheaf_element *out, sheaf_error *err)
{
    struct job *job = state;
    (void)err;
    sleep_ms(job->call_ms);
    return sheaf_element_put(out, "", sheaf_long(0));
}
static sheaf_dataset *open_slow(const sheaf_element *in, void *user)
{
    const sheaf_generator g = {NULL, draw_slowly, NULL, user};
    (void)in;
    return sheaf_dataset_take(sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, SHEAF_SCALAR)),
                              50);
}
static sheaf_dataset *interleaved(struct job *job)
{
    const sheaf_interleave_options tuned = {.cycle_length = 4, .parallel = SHEAF_AUTOTUNE};
    return sheaf_dataset_interleave(sheaf_dataset_range(0, 4, 1), open_slow, job, &tuned);
}

static sheaf_status draw(void *state, sheaf_element *out, sheaf_error *err)
{
    struct job *job = state;
    const int n = atomic_fetch_add(&job->calls, 1);
    (void)err;
    if (n == 300)
        return SHEAF_END;
    /* Uneven: nine quick ones, one slow one. */
    sleep_ms(job->call_ms < 0 ? (n % 10 == 9 ? 50 : 1) : job->call_ms);
    return sheaf_element_put(out, "", sheaf_long(n));
}
static sheaf_dataset *drawn_from(struct job *job)
{
    const sheaf_generator g = {NULL, draw, NULL, job};
    return sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, SHEAF_SCALAR));
}
static sheaf_dataset *prefetched(struct job *job)
{
    return sheaf_dataset_prefetch(drawn_from(job), SHEAF_AUTOTUNE);
}

/* S182: of interleave the same, within the cycle. */
static void test_interleave_keeps_up_with_the_consumer(void **state)
{
    (void)state;
    const struct {
        int64_t call_ms, consumer_ms;
        int threads;
    } cases[] = {{10, 5, 3}, {1, 10, 1}, {10, 0, 4}};
    for (size_t i = 0; i < 3; i++) {
        struct job job = {
            .make = interleaved, .call_ms = cases[i].call_ms, .consumer_ms = cases[i].consumer_ms};
        simulate(7, EIGHT, consume, &job);
        assert_int_equal(job.elements, 200);
        assert_int_equal(column_of(job.explained, 2, "interleave"), cases[i].threads);
    }
}

/* A buffer grows where the input is uneven, and not where it is slow. */
static void test_prefetch_grows_where_it_helps(void **state)
{
    (void)state;
    struct job uneven = {.make = prefetched, .call_ms = -1, .consumer_ms = 6};
    struct job slow = {.make = prefetched, .call_ms = 10, .consumer_ms = 6};
    struct job fast = {.make = prefetched, .call_ms = 1, .consumer_ms = 6};
    simulate(1, EIGHT, consume, &uneven);
    simulate(1, EIGHT, consume, &slow);
    simulate(1, EIGHT, consume, &fast);
    assert_true(uneven.in_order && slow.in_order && fast.in_order);
    assert_true(column_of(uneven.explained, 3, "prefetch") >= 8);
    assert_int_equal(column_of(slow.explained, 3, "prefetch"), 2);
    assert_int_equal(column_of(fast.explained, 3, "prefetch"), 2);
}

static sheaf_status draw_wide(const sheaf_element *in, sheaf_element *out, void *user)
{
    const struct job *job = user;
    const int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    sleep_ms(x % 40 == 39 ? 200 : 1);
    return sheaf_element_put(out, "", sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(job->calls)));
}
static sheaf_dataset *prefetched_wide(struct job *job)
{
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, 400, 1), draw_wide, job, NULL);
    return sheaf_dataset_prefetch(d, SHEAF_AUTOTUNE);
}

/* Where 33 elements would be right, that many small ones are kept, but not more than 16 of 2 MiB. */
static void test_prefetch_of_much_stays_short(void **state)
{
    (void)state;
    struct job small = {.make = prefetched_wide, .calls = 1, .consumer_ms = 6};
    struct job large = {.make = prefetched_wide, .calls = 1 << 18, .consumer_ms = 6};
    simulate(1, EIGHT, consume, &small);
    simulate(1, EIGHT, consume, &large);
    assert_int_equal(column_of(small.explained, 3, "prefetch"), 64);
    assert_int_equal(column_of(large.explained, 3, "prefetch"), 16);
}

/* ---- several stages ---- */

static const char *const TWO[] = {"SHEAF_THREADS=2", NULL};

/* Four files of records that are read, parsed (in 2 us) and mapped, in batches. */
struct stages {
    int interleave, map; /* calls at once */
    int64_t read_us, map_us;
    int elements;
    int64_t ns;
    char explained[2000];
};
enum { FILE_RECORDS = 500 };

static void sleep_us(int64_t us)
{
    sheaf__wait_sleep(sheaf__clock_after(us * SHEAF__US), NULL, NULL);
}
static sheaf_status read_record(const sheaf_element *in, void *user)
{
    (void)in;
    sleep_us(((const struct stages *)user)->read_us);
    return SHEAF_OK;
}
static sheaf_status parse_record(const sheaf_element *in, void *user)
{
    (void)in;
    (void)user;
    sleep_us(2);
    return SHEAF_OK;
}
static sheaf_status map_record(const sheaf_element *in, sheaf_element *out, void *user)
{
    sleep_us(((const struct stages *)user)->map_us);
    return sheaf_element_put(out, "", sheaf_element_get(in, NULL));
}
static sheaf_dataset *open_file(const sheaf_element *in, void *user)
{
    const int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0) * FILE_RECORDS;
    return sheaf_dataset_filter(sheaf_dataset_range(x, x + FILE_RECORDS, 1), read_record, user);
}

static void run_stages(void *user)
{
    struct stages *s = user;
    const sheaf_interleave_options cycle = {.cycle_length = 2, .parallel = s->interleave};
    const sheaf_map_options map = {.parallel = s->map};
    sheaf_dataset *d = sheaf_dataset_interleave(sheaf_dataset_range(0, 4, 1), open_file, s, &cycle);
    d = sheaf_dataset_filter(d, parse_record, NULL);
    d = sheaf_dataset_map(d, map_record, s, &map);
    d = sheaf_dataset_prefetch(sheaf_dataset_batch(d, 50, NULL), SHEAF_AUTOTUNE);
    d = sheaf_dataset_with_options(d, &(sheaf_dataset_options){.measured = true});
    const int64_t before = sheaf__clock_now();
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    SHEAF_EACH_ELEMENT(e, it, &err)
    s->elements += (int)sheaf_tensor_shape(sheaf_element_get(e, NULL)).dims[0];
    s->ns = sheaf__clock_now() - before;
    SHEAF_FRAME
    snprintf(s->explained, sizeof(s->explained), "%s", sheaf_iterator_explain(it));
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* S182: the slow stage has the cores, and one whose thread mostly waits takes none from it: as quick
 * as the best numbers that a program could give, which is twice as quick as one thread. */
static void test_idle_stage_takes_no_core(void **state)
{
    (void)state;
    for (int64_t read_us = 5; read_us <= 150; read_us += 145)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct stages fixed = {.interleave = 2, .map = 2, .read_us = read_us, .map_us = 300};
            struct stages tuned = fixed;
            tuned.interleave = tuned.map = SHEAF_AUTOTUNE;
            simulate(seed, TWO, run_stages, &fixed);
            simulate(seed, TWO, run_stages, &tuned);
            assert_int_equal(fixed.elements, 4 * FILE_RECORDS);
            assert_int_equal(tuned.elements, 4 * FILE_RECORDS);
            assert_int_equal(column_of(tuned.explained, 2, "interleave"), 1);
            assert_int_equal(column_of(tuned.explained, 2, "map"), 2);
            assert_true(fixed.ns < 4 * FILE_RECORDS * 155 * SHEAF__US);
            assert_true(tuned.ns < fixed.ns + fixed.ns / 20);
        }
}

/* What is told is the number for most of the pass: two, while the consumer takes as long as a call,
 * and not the eight of its last tenth, when the consumer does not wait. */
static void test_explain_tells_most_of_the_pass(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct job job = {.make = mapped, .call_ms = 10, .consumer_ms = 10, .hurries_at = 100};
        simulate(seed, EIGHT, consume, &job);
        assert_int_equal(job.elements, 200);
        assert_int_equal(job.most, 8); /* since then */
        assert_int_equal(column_of(job.explained, 2, "map"), 2);
        assert_int_equal(column_of(job.explained, 3, "map"), 2 * 2);
    }
}

/* ---- dividing ---- */

/* So long is a call, and so long is the consumer away, for a whole number of measures. */
static void measure(struct sheaf__crew_size *size, int64_t call_ms, int64_t outside_ms)
{
    for (int i = 0; i < 40; i++) {
        sheaf__crew_size_arrive(size);
        sheaf__crew_size_made(size, 1, 0, call_ms * SHEAF__MS);
        sheaf__crew_size_leave(size, 1);
        sleep_ms(outside_ms);
    }
    sheaf__crew_size_arrive(size);
}

static void divide(void *user)
{
    const sheaf_dataset_options options = {.memory_bytes = 1000};
    struct sheaf__tuner tuner;
    struct sheaf__crew_size a, b, c, fixed;
    int *found = user;
    sheaf__tuner_start(&tuner, &options, NULL);
    sheaf__crew_size_start(&a, &tuner, 8);
    found[0] = sheaf__crew_size_now(&a);
    sheaf__crew_size_start(&b, &tuner, 8);
    sheaf__crew_size_start(&fixed, NULL, 5);
    found[1] = sheaf__crew_size_now(&a);
    measure(&b, 16, 10); /* two are enough */
    found[2] = sheaf__crew_size_now(&a);
    found[3] = sheaf__crew_size_now(&b);
    measure(&a, 16, 10);
    found[4] = sheaf__crew_size_now(&a);
    sheaf__crew_size_start(&c, &tuner, 8);
    found[5] = sheaf__crew_size_now(&c);
    found[6] = sheaf__crew_size_now(&b);
    sheaf__crew_size_stop(&a);
    sheaf__crew_size_stop(&c);
    measure(&b, 100, 10);
    found[7] = sheaf__crew_size_now(&b);
    measure(&fixed, 100, 1);
    found[8] = sheaf__crew_size_now(&fixed);
    found[9] = (int)sheaf__tuner_share(&tuner);
    sheaf__tuner_run_ahead(&tuner, true);
    sheaf__tuner_run_ahead(&tuner, true);
    found[10] = (int)sheaf__tuner_share(&tuner);
    sheaf__crew_size_stop(&b);
    sheaf__crew_size_stop(&fixed);
}

/* Stages that want more than there are cores get less in proportion, in whole threads; what the
 * program asked for is not touched. 8 and 2 of 8: 6.4 and 1.6; 2, 2 and 8 of 8: 1.3 and 5.3. */
static void test_cores_are_divided(void **state)
{
    (void)state;
    const int expected[] = {8, 4, 7, 2, 2, 6, 2, 8, 5, 1000, 500};
    int found[11];
    simulate(1, EIGHT, divide, found);
    for (size_t i = 0; i < 11; i++)
        assert_int_equal(found[i], expected[i]);
}

static void hire(void *user)
{
    struct sheaf__tuner tuner;
    struct sheaf__crew_size a, b;
    bool *found = user;
    sheaf__tuner_start(&tuner, &(sheaf_dataset_options){0}, NULL);
    sheaf__crew_size_start(&a, &tuner, 8);
    found[0] = sheaf__crew_size_idle(&a, 7);
    sheaf__crew_size_start(&b, &tuner, 8);
    found[1] = sheaf__crew_size_idle(&a, 3);
    found[2] = sheaf__crew_size_idle(&a, 7) && sheaf__crew_size_idle(&a, 4);
    found[3] = sheaf__crew_size_hires(&a);
    sheaf__crew_size_stop(&b);
    found[4] = sheaf__crew_size_hires(&a);
    found[5] = sheaf__crew_size_hires(&a);
    found[6] = sheaf__crew_size_idle(&a, 7) || sheaf__crew_size_idle(&a, 4);
    sheaf__crew_size_stop(&a);
}

/* A thread that stands by because another stage came works again when that one went, though the
 * consumer never was there in between: eight, four and eight threads. */
static void test_idle_threads_are_hired(void **state)
{
    (void)state;
    const bool expected[] = {false, false, true, false, true, false, false};
    bool found[7];
    simulate(1, EIGHT, hire, found);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(found[i], expected[i]);
}

/* ---- optimizations ---- */

struct optimized {
    sheaf_optimizations how;
    bool prefetch; /* the program has one itself */
    struct job job;
    int64_t found[2][40]; /* two epochs */
    int ahead;            /* calls when the consumer has one element */
    sheaf_status saves;
    char explained[2000];
};

/* A shuffle with a seed, whose second epoch is another order, and a slow map; not deterministic, if
 * that would be up to the map. */
static void run_optimized(void *user)
{
    struct optimized *o = user;
    const sheaf_dataset_options options = {.optimizations = o->how, .unordered = true};
    sheaf_dataset *d = sheaf_dataset_range(0, 40, 1);
    d = sheaf_dataset_shuffle(d, 40, &(sheaf_shuffle_options){.seed = 4});
    d = sheaf_dataset_map(d, work, &o->job, NULL);
    d = o->prefetch ? sheaf_dataset_prefetch(d, 1) : d;
    d = sheaf_dataset_with_options(d, &options);
    for (int epoch = 0; epoch < 2; epoch++) {
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_error err = {0};
        sheaf_element *e;
        sheaf_bytes position;
        int n = 0;
        SHEAF_EACH_ELEMENT(e, it, &err)
        {
            o->found[epoch][n++] = sheaf_tensor_integer(sheaf_element_get(e, NULL), 0);
            sleep_ms(100);
            if (epoch == 0 && n == 1)
                o->ahead = atomic_load(&o->job.calls) - 1;
        }
        SHEAF_FRAME
        {
            o->saves = sheaf_iterator_save(it, &position, NULL);
            snprintf(o->explained, sizeof(o->explained), "%s", sheaf_iterator_explain(it));
        }
        sheaf_iterator_free(it);
    }
    sheaf_dataset_free(d);
}

#define PLAIN "range(0, 40, 1)\nshuffle(40, seed 4)\nmap\n"

/* S188: all are off by default; each changes how the pipeline runs, and nothing that comes out. */
static void test_S188_optimizations(void **state)
{
    (void)state;
    struct optimized none = {.job.call_ms = 10}, parallel = none, prefetch = none, own = none;
    parallel.how.parallel_maps = true;
    prefetch.how.inject_prefetch = own.how.inject_prefetch = own.prefetch = true;
    simulate(1, EIGHT, run_optimized, &none);
    simulate(1, EIGHT, run_optimized, &parallel);
    simulate(1, EIGHT, run_optimized, &prefetch);
    simulate(1, EIGHT, run_optimized, &own);
    assert_int_equal(none.ahead, 0);
    assert_int_equal(none.job.most, 1);
    assert_string_equal(none.explained, PLAIN "with_options\n");
    assert_int_equal(parallel.job.most, 8);
    assert_string_equal(parallel.explained, none.explained);
    assert_int_equal(prefetch.ahead, 2);
    assert_int_equal(prefetch.job.most, 1);
    assert_string_equal(prefetch.explained, PLAIN "with_options\nprefetch\n");
    assert_int_equal(own.ahead, 1);
    assert_string_equal(own.explained, PLAIN "prefetch(1)\nwith_options\n");
    assert_memory_not_equal(none.found[0], none.found[1], sizeof(none.found[0]));
    const struct optimized *others[] = {&parallel, &prefetch, &own};
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(others[i]->found, none.found, sizeof(none.found));
        assert_int_equal(others[i]->saves, SHEAF_OK);
    }
}

/* ---- order ---- */

static sheaf_status uneven(const sheaf_element *in, sheaf_element *out, void *user)
{
    const int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    (void)user;
    sleep_ms((x * 7919 % 13) * (x % 3));
    return sheaf_element_put(out, "", sheaf_long(3 * x));
}
static sheaf_dataset *open_range(const sheaf_element *in, void *user)
{
    const int64_t x = sheaf_tensor_integer(sheaf_element_get(in, NULL), 0);
    (void)user;
    return sheaf_dataset_range(x, x + 40 + x % 3, 1);
}

struct order {
    bool tuned;
    int64_t found[500];
    int count;
};

static void run_order(void *user)
{
    struct order *o = user;
    const int parallel = o->tuned ? SHEAF_AUTOTUNE : 0;
    const sheaf_map_options map = {.parallel = parallel};
    const sheaf_interleave_options cycle = {
        .cycle_length = 3, .block_length = 2, .parallel = parallel};
    sheaf_dataset *d = sheaf_dataset_range(0, 10, 1);
    d = sheaf_dataset_interleave(d, open_range, NULL, &cycle);
    d = sheaf_dataset_map(d, uneven, NULL, &map);
    d = sheaf_dataset_shuffle(d, 10, &(sheaf_shuffle_options){.seed = 5});
    d = sheaf_dataset_map(d, uneven, NULL, &map);
    d = sheaf_dataset_prefetch(d, o->tuned ? SHEAF_AUTOTUNE : 0);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    SHEAF_EACH_ELEMENT(e, it, &err)
    {
        o->found[o->count] = sheaf_tensor_integer(sheaf_element_get(e, NULL), 0);
        sleep_ms(o->count++ % 5);
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* S182, R9.14, R9.20: what comes, and its order, does not depend on what was chosen. */
static void test_order_is_not_tuned(void **state)
{
    (void)state;
    struct order plain = {0};
    simulate(1, EIGHT, run_order, &plain);
    assert_true(plain.count > 400);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct order tuned = {.tuned = true};
        simulate(seed, EIGHT, run_order, &tuned);
        assert_int_equal(tuned.count, plain.count);
        assert_memory_equal(tuned.found, plain.found, (size_t)plain.count * sizeof(int64_t));
    }
}

/* ---- memory ---- */

enum { WIDE = 1000 }; /* numbers in an element */

static sheaf_status widen(const sheaf_element *in, sheaf_element *out, void *user)
{
    struct job *job = user;
    float x[WIDE] = {0};
    (void)in;
    atomic_fetch_add(&job->calls, 1);
    sleep_ms(1);
    return sheaf_element_put(out, "", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(WIDE), x));
}

struct ahead {
    struct job job;
    int prefetch, parallel;
    int block; /* of an interleave of two in place of the map */
    int found; /* calls ahead of the consumer, at most */
};

static sheaf_dataset *open_wide(const sheaf_element *in, void *user)
{
    (void)in;
    return sheaf_dataset_map(sheaf_dataset_range(0, 200, 1), widen, user, NULL);
}

static sheaf_dataset *wide_ones(struct ahead *a)
{
    const sheaf_map_options map = {.parallel = a->parallel};
    const sheaf_interleave_options cycle = {
        .cycle_length = 2, .block_length = a->block, .parallel = a->parallel};
    if (a->block > 0)
        return sheaf_dataset_interleave(sheaf_dataset_range(0, 2, 1), open_wide, &a->job, &cycle);
    return sheaf_dataset_map(sheaf_dataset_range(0, 200, 1), widen, &a->job, &map);
}

/* Takes some elements, and time that is enough for everybody to run until nothing may be made. */
static void run_ahead(void *user)
{
    struct ahead *a = user;
    const sheaf_dataset_options options = {.memory_bytes = 5 * WIDE * sizeof(float)};
    sheaf_dataset *d = wide_ones(a);
    if (a->prefetch)
        d = sheaf_dataset_prefetch(d, a->prefetch);
    d = sheaf_dataset_with_options(d, &options);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    for (int i = 0; i < 20; i++)
        SHEAF_FRAME
        {
            sheaf_element *e;
            sheaf_error err = {0};
            if (sheaf_iterator_next(it, &e, &err) != SHEAF_OK)
                abort();
            sleep_ms(1000);
            const int ahead = atomic_load(&a->job.calls) - i - 1;
            a->found = i >= 10 && ahead > a->found ? ahead : a->found;
        }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* What is made ahead stays within the budget, whatever number was asked for; two stages have half
 * of it each. The map's own element is taken by the prefetch while it is full. With their headers there
 * are not quite five elements in the budget: the prefetch takes four, the map has no room after five. Of
 * the interleave each of two inputs has a quarter, which is more than one. */
static void test_budget_of_memory(void **state)
{
    (void)state;
    struct ahead prefetch = {.prefetch = 100}, map = {.parallel = 8},
                 both = {.prefetch = 100, .parallel = 8}, few = {.prefetch = 3},
                 turns = {.block = 40, .parallel = 2};
    simulate(1, EIGHT, run_ahead, &prefetch);
    simulate(1, EIGHT, run_ahead, &map);
    simulate(1, EIGHT, run_ahead, &both);
    simulate(1, EIGHT, run_ahead, &few);
    simulate(1, EIGHT, run_ahead, &turns);
    assert_int_equal(prefetch.found, 4);
    assert_int_equal(map.found, 5);
    assert_int_equal(both.found, 2 + 3);
    assert_int_equal(few.found, 3);
    assert_int_equal(turns.found, 2 * 2);
}

struct rounds {
    bool text;      /* rounds of lines, else of numbers */
    uint64_t bytes; /* that were held, at most */
};
enum { BUDGET = 1 << 20 };

/* Rounds of three small elements, of which an endless number may be made ahead. */
static void run_rounds(void *user)
{
    struct rounds *r = user;
    const char *path = rig_path("lines");
    const sheaf_dataset_options options = {.memory_bytes = BUDGET};
    sheaf_error err = {0};
    rig_ok(sheaf__file_replace(path, "a\nb\nc\n", 6, &err), &err);
    sheaf_dataset *d = r->text ? sheaf_text_lines(path, NULL) : sheaf_dataset_range(0, 3, 1);
    d = sheaf_dataset_prefetch(sheaf_dataset_repeat(d, -1), INT64_MAX);
    d = sheaf_dataset_with_options(d, &options);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    for (int i = 0; i < 10; i++)
        SHEAF_FRAME
        {
            sheaf_element *e;
            rig_ok(sheaf_iterator_next(it, &e, &err), &err);
            sleep_ms(1000);
            const uint64_t live = sheaf__heap_stats(sheaf__heap_current(NULL)).live_bytes;
            r->bytes = live > r->bytes ? live : r->bytes;
        }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* Of small elements counts what their blocks hold, which is much more when few come at a time. */
static void test_budget_of_small_elements(void **state)
{
    (void)state;
    for (int text = 0; text < 2; text++) {
        struct rounds r = {.text = text};
        simulate(1, EIGHT, run_rounds, &r);
        assert_in_range(r.bytes, BUDGET / 2, 2 * BUDGET);
    }
}

/* The default is a variable, or a quarter of the memory. */
static void ask_budget(void *user)
{
    const sheaf_dataset_options none = {0};
    struct sheaf__tuner tuner;
    sheaf__tuner_start(&tuner, &none, NULL);
    *(uint64_t *)user = tuner.bytes;
}

static void test_budget_of_a_variable(void **state)
{
    (void)state;
    const char *const environment[] = {"SHEAF_INPUT_BYTES=12345", NULL};
    uint64_t found;
    simulate(1, environment, ask_budget, &found);
    assert_int_equal(found, 12345);
    simulate(1, EIGHT, ask_budget, &found);
    assert_true(found > 1 << 20);
}

/* A buffer that would grow beyond its limit is an error, again and again; the limit itself is not. */
static void test_shuffle_limit(void **state)
{
    (void)state;
    for (uint64_t limit = 399; limit <= 400; limit++) {
        const sheaf_shuffle_options options = {.seed = 1, .byte_limit = limit};
        sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 200, 1), 50, &options);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_error err = {0};
        sheaf_element *e;
        for (int i = 0; i < 200; i++)
            SHEAF_FRAME
            {
                if (limit == 400)
                    rig_ok(sheaf_iterator_next(it, &e, &err), &err);
                else
                    rig_fails(sheaf_iterator_next(it, &e, &err), &err, SHEAF_ERR_RESOURCE_EXHAUSTED,
                              "stage 2 (shuffle): 50 elements in the buffer have 400 bytes, the "
                              "limit is 399");
            }
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
}

/* Serialized Examples whose feature "ids" holds 26 small numbers, and "text" so many bytes that nobody reads. */
static sheaf_dataset *examples(size_t text_size)
{
    const int64_t ids[26] = {0};
    char *text = calloc(1, text_size + 1);
    const sheaf_bytes unread = {text, text_size};
    sheaf_bytes message;
    sheaf_error err = {0};
    sheaf_example *x = sheaf_example_new();
    sheaf_example_int64(x, "ids", ids, 26);
    sheaf_example_bytes(x, "text", &unread, 1);
    rig_ok(sheaf_example_serialize(x, &message, &err), &err);
    sheaf_dataset *d = sheaf_dataset_from_tensors(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SCALAR, &message)));
    sheaf_example_free(x);
    free(text);
    return sheaf_dataset_repeat(d, 100);
}

/* The first element of a shuffle of 50 with a limit of 150 bytes an element, before parsing or after. */
static sheaf_status first_shuffled(size_t text_size, bool parsed_first)
{
    static const sheaf_feature ids = {.key = "ids", .dtype = SHEAF_INT64, .rank = 1, .dims = {26}};
    const sheaf_shuffle_options options = {.seed = 1, .byte_limit = 50 * 150};
    sheaf_element *e;
    sheaf_error err = {0};
    sheaf_dataset *d = examples(text_size);
    if (parsed_first)
        d = sheaf_dataset_parse_example(d, &ids, 1);
    d = sheaf_dataset_shuffle(d, 50, &options);
    if (!parsed_first)
        d = sheaf_dataset_parse_example(d, &ids, 1);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    const sheaf_status status = sheaf_iterator_next(it, &e, &err);
    assert_true(status == SHEAF_OK || strstr(err.message, "elements in the buffer have"));
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    return status;
}

/* S190: records take less of a shuffle's memory than what is parsed of them, unless most of them is not */
static void test_S190_shuffle_before_parsing(void **state)
{
    (void)state;
    assert_int_equal(first_shuffled(0, false), SHEAF_OK);
    assert_int_equal(first_shuffled(0, true), SHEAF_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(first_shuffled(1000, false), SHEAF_ERR_RESOURCE_EXHAUSTED);
}

/* ---- the second epoch ---- */

struct epochs {
    _Atomic int64_t peak;
    int64_t peaks[8];
};

static void look_at_heap(struct epochs *run)
{
    const int64_t live = (int64_t)sheaf__heap_stats(sheaf__heap_current(NULL)).live_bytes;
    int64_t peak = atomic_load(&run->peak);
    while (live > peak && !atomic_compare_exchange_weak(&run->peak, &peak, live))
        ;
}

static sheaf_status widen_and_look(const sheaf_element *in, sheaf_element *out, void *user)
{
    struct job job = {0};
    sheaf_status status = widen(in, out, &job);
    look_at_heap(user);
    return status;
}

static void run_epochs(void *user)
{
    struct epochs *run = user;
    const sheaf_map_options tuned = {.parallel = SHEAF_AUTOTUNE};
    sheaf_dataset *d = sheaf_dataset_range(0, 200, 1);
    d = sheaf_dataset_map(d, widen_and_look, run, &tuned);
    d = sheaf_dataset_shuffle(d, 60, &(sheaf_shuffle_options){.seed = 3});
    d = sheaf_dataset_prefetch(sheaf_dataset_batch(d, 4, NULL), SHEAF_AUTOTUNE);
    for (int epoch = 0; epoch < 8; epoch++) {
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_error err = {0};
        sheaf_element *e;
        SHEAF_EACH_ELEMENT(e, it, &err)
        {
            look_at_heap(run);
            sleep_ms(2);
        }
        run->peaks[epoch] = atomic_exchange(&run->peak, 0);
        sheaf_iterator_free(it);
    }
    sheaf_dataset_free(d);
}

/* Later epochs need no more memory than the first one, by the heap's count of what is handed out;
 * but at the moment of the peak each of the eight threads may or may not have an element in its
 * hands. */
static void test_later_epochs_peak_no_higher(void **state)
{
    (void)state;
    const int64_t element = (int64_t)sheaf__heap_room(WIDE * sizeof(float));
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct epochs run = {0};
        simulate(seed, EIGHT, run_epochs, &run);
        assert_true(run.peaks[0] > 60 * element);
        for (int epoch = 1; epoch < 8; epoch++)
            if (run.peaks[epoch] > run.peaks[0] + 8 * element)
                fail_msg("seed %d: epoch %d has %lld bytes at most, the first one %lld", (int)seed,
                         epoch + 1, (long long)run.peaks[epoch], (long long)run.peaks[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_map_keeps_up_with_the_consumer),
        rig_test(test_map_runs_ahead_by_time),
        rig_test(test_interleave_keeps_up_with_the_consumer),
        rig_test(test_prefetch_grows_where_it_helps),
        rig_test(test_prefetch_of_much_stays_short),
        rig_test(test_idle_stage_takes_no_core),
        rig_test(test_explain_tells_most_of_the_pass),
        rig_test(test_cores_are_divided),
        rig_test(test_idle_threads_are_hired),
        rig_test(test_S188_optimizations),
        rig_test(test_order_is_not_tuned),
        rig_test(test_budget_of_memory),
        rig_test(test_budget_of_small_elements),
        rig_test(test_budget_of_a_variable),
        rig_test(test_shuffle_limit),
        rig_test(test_S190_shuffle_before_parsing),
        rig_test(test_later_epochs_peak_no_higher),
    };
    return rig_run(tests);
}
