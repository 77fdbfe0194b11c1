/* SPDX-License-Identifier: Apache-2.0 */

/* What the workers of a job get of one dataset, by policy and strategy, and what is counted and said of it: S48, S50, S54,
 * S123-S125, S129, S131, S186, S187, S193, S194. */

#include "helpers.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST = 128, MOST_WORKERS = 5, MOST_STEPS = 16 };

/* What the workers of a test share. */
struct shared {
    int replicas, n, batch;
    sheaf_autoshard policy;
    const char *paths[2]; /* files of numbers in the place of range(n) */
    int path_count;
    _Atomic int seen[MOST]; /* times that number came, over all workers */
    /* of each worker */
    int calls[MOST_WORKERS], kept[MOST_WORKERS], steps[MOST_WORKERS];
    int64_t examples[MOST_WORKERS][MOST_STEPS];
    uint64_t bytes[MOST_WORKERS], idle[MOST_WORKERS];
    char sharding[MOST_WORKERS][400];
};

static struct shared *shared_of(const struct rig_task *task)
{
    return task->user;
}

static sheaf_status count_call(const sheaf_element *in, sheaf_element *out, void *user)
{
    ++*(int *)user;
    return sheaf_element_put(out, "", only(in));
}

static sheaf_status number(const sheaf_element *in, sheaf_element *out, void *user)
{
    const sheaf_bytes text = sheaf_tensor_bytes(only(in), 0);
    (void)user;
    return sheaf_element_put(out, "", sheaf_long(text.data[0] - 'a'));
}

/* The numbers from `first` on as records, a letter each. */
static const char *write_file(const char *name, int first, int count)
{
    const char *path = rig_path(name);
    sheaf_error err = {0};
    sheaf_record_writer *w = NULL;
    rig_ok(sheaf_record_writer_open(path, SHEAF_COMPRESSION_NONE, &w, &err), &err);
    for (int i = first; i < first + count; i++) {
        const char letter = (char)('a' + i);
        rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){&letter, 1}, &err), &err);
    }
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    return path;
}

static sheaf_dataset *source(struct rig_task *task)
{
    struct shared *shared = shared_of(task);
    const sheaf_dataset_options options = {.autoshard = shared->policy};
    sheaf_dataset *d = sheaf_dataset_range(0, shared->n, 1);
    if (shared->path_count > 0) {
        sheaf_dataset_free(d);
        d = sheaf_tfrecord_files(shared->paths, (size_t)shared->path_count);
        d = sheaf_dataset_map(d, number, NULL, NULL);
    }
    d = sheaf_dataset_map(d, count_call, &shared->calls[task->index], NULL);
    return sheaf_dataset_with_options(sheaf_dataset_batch(d, shared->batch, NULL), &options);
}

/* Notes the numbers of a step. Their parts are of the batch, in its order. */
static void note(struct rig_task *task, const sheaf_values *v)
{
    struct shared *shared = shared_of(task);
    const int step = shared->steps[task->index]++;
    shared->examples[task->index][step] = sheaf_values_examples(v);
    for (int r = 0; r < sheaf_values_count(v); r++) {
        const sheaf_tensor *part = sheaf_values_get(v, r, NULL);
        for (int64_t i = 0; i < sheaf_tensor_elements(part); i++) {
            atomic_fetch_add(&shared->seen[sheaf_tensor_integer(part, i)], 1);
            shared->kept[task->index]++;
        }
    }
}

static sheaf_status take_all(struct rig_task *task, sheaf_dist_dataset *d)
{
    struct shared *shared = shared_of(task);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_values *v;
    sheaf_status status;
    snprintf(shared->sharding[task->index], sizeof(shared->sharding[0]), "%s",
             sheaf_dist_dataset_sharding(d));
    while ((status = sheaf_next(it, &v, &task->err)) == SHEAF_OK)
        note(task, v);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    shared->bytes[task->index] = sheaf_counter("record.bytes");
    shared->idle[task->index] = sheaf_counter("input.idle_steps");
    return status < 0 ? status : SHEAF_OK;
}

static sheaf_status share(struct rig_task *task)
{
    sheaf_strategy *s = strategy_of_task(task, "multiworker", shared_of(task)->replicas);
    if (!s)
        return task->err.status;
    const sheaf_status status = take_all(task, sheaf_distribute_dataset(s, source(task), NULL));
    sheaf_strategy_free(s);
    return status;
}

static void run(struct shared *shared, int workers)
{
    run_cluster((struct jobs){.worker = workers}, share, shared, 60);
}

static void assert_seen(const struct shared *shared, int n, int times)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(shared->seen[i], times);
}

/* S48, S49, S127: without files each worker makes all elements and keeps its part, which is said once, and why */
static void test_S48_every_worker_makes_all(void **state)
{
    (void)state;
    struct shared shared = {.replicas = 1, .n = 12, .batch = 4};
    run(&shared, 2);
    for (int w = 0; w < 2; w++) {
        assert_int_equal(shared.calls[w], 12);
        assert_int_equal(shared.kept[w], 6);
    }
    assert_seen(&shared, 12, 1);
    const char *log = strstr(rig_log_take(), "DATA (no file source)");
    assert_non_null(log);
    assert_null(strstr(log + 1, "DATA (no file source)"));
}

/* S50: with the policy OFF every worker sees all the data, and divides it among its own devices */
static void test_S50_off(void **state)
{
    (void)state;
    struct shared shared = {.replicas = 2, .n = 16, .batch = 8, .policy = SHEAF_AUTOSHARD_OFF};
    run(&shared, 2);
    assert_seen(&shared, 16, 2);
    for (int w = 0; w < 2; w++) {
        assert_int_equal(shared.kept[w], 16);
        assert_int_equal(shared.steps[w], 4); /* 2 replicas with 8 / 4 examples each */
    }
}

/* S124: no element comes to two workers, and none is lost */
static void test_S124_disjoint(void **state)
{
    (void)state;
    static const int workers[] = {2, 3, 5};
    for (int i = 0; i < 3; i++) {
        struct shared shared = {.replicas = 1 + i % 2, .n = 31, .batch = 6};
        run(&shared, workers[i]);
        assert_seen(&shared, 31, 1);
        rig_log_take(); /* S48 */
    }
}

/* S131: by DATA every worker reads the whole file and keeps its share */
static void test_S131_read_and_kept(void **state)
{
    (void)state;
    struct shared shared = {
        .replicas = 1, .batch = 6, .policy = SHEAF_AUTOSHARD_DATA, .path_count = 1};
    shared.paths[0] = write_file("one", 0, 12);
    run(&shared, 3);
    assert_seen(&shared, 12, 1);
    for (int w = 0; w < 3; w++) {
        assert_int_equal(shared.bytes[w], shared.bytes[0]);
        assert_true(shared.bytes[w] >= 12);
        assert_int_equal(shared.kept[w], 4);
    }
}

/* S129, S186: of uneven files the worker with less gets empty parts until the other is done, and says how often. The batch
 * of a step is what both really had: smaller than the global one, and complete over the pass. */
static void test_S129_uneven_files(void **state)
{
    (void)state;
    struct shared shared = {.replicas = 1, .batch = 4, .path_count = 2};
    static const int64_t effective[] = {4, 2, 2};
    shared.paths[0] = write_file("long", 0, 6);
    shared.paths[1] = write_file("short", 6, 2);
    run(&shared, 2);
    assert_seen(&shared, 8, 1);
    for (int w = 0; w < 2; w++) {
        const char *sharding = shared.sharding[w];
        assert_non_null(
            strstr(sharding, "autoshard policy FILE: the source reads files; 1 file: /"));
        assert_string_equal(strrchr(sharding, '/'), w ? "/short" : "/long");
        assert_int_equal(shared.steps[w], 3);
        assert_int_equal(shared.idle[w], w ? 2 : 0);
        assert_memory_equal(shared.examples[w], effective, sizeof(effective));
    }
    /* The other way out of the small batches: the policy DATA. */
    struct shared by_data = {
        .replicas = 1, .batch = 4, .path_count = 2, .policy = SHEAF_AUTOSHARD_DATA};
    memcpy(by_data.paths, shared.paths, sizeof(shared.paths));
    run(&by_data, 2);
    assert_seen(&by_data, 8, 1);
    for (int w = 0; w < 2; w++) {
        assert_int_equal(by_data.steps[w], 2);
        assert_int_equal(by_data.idle[w], 0);
        assert_true(by_data.examples[w][0] == 4 && by_data.examples[w][1] == 4);
    }
}

/* ---- devices ---- */

struct place {
    char expected[96];
    _Atomic int found;
};

static sheaf_status look(const sheaf_element *in, sheaf_element *out, void *user)
{
    struct place *place = user;
    if (strcmp(sheaf_tensor_device(only(in)), place->expected) == 0 &&
        strcmp(sheaf_tensor_device(sheaf_neg(only(in))), place->expected) == 0)
        atomic_fetch_add(&place->found, 1);
    return sheaf_element_put(out, "", only(in));
}

static sheaf_status look_at_devices(struct rig_task *task)
{
    struct place place = {.found = 0};
    sheaf_strategy *s = strategy_of_task(task, "multiworker", 2);
    if (!s)
        return task->err.status;
    snprintf(place.expected, sizeof(place.expected), "/job:worker/replica:0/task:%d/device:CPU:0",
             task->index);
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, 8, 1), look, &place,
                                         &(sheaf_map_options){.parallel = task->index ? 2 : 0});
    const sheaf_status status =
        take_all(task, sheaf_distribute_dataset(s, sheaf_dataset_batch(d, 4, NULL), NULL));
    RIG_CHECK(task, status < 0 || place.found == 8);
    sheaf_strategy_free(s);
    return status;
}

/* S123: sources and functions of a worker's data are on that worker's CPU */
static void test_S123_devices(void **state)
{
    (void)state;
    struct shared shared = {.replicas = 2};
    run_cluster((struct jobs){.worker = 2}, look_at_devices, &shared, 60);
    rig_log_take(); /* S48 */
}

/* ---- parameter servers ---- */

static const char ignored[] = "ParameterServerStrategy: every worker reads the whole dataset; its "
                              "sharding policy is ignored";

static sheaf_status under_ps(struct rig_task *task)
{
    static const sheaf_autoshard policies[] = {SHEAF_AUTOSHARD_AUTO, SHEAF_AUTOSHARD_DATA,
                                               SHEAF_AUTOSHARD_FILE};
    struct shared *shared = shared_of(task), own = {.n = 8, .batch = 4};
    rig_log_from(SHEAF_LOG_INFO);
    sheaf_strategy *s = strategy_of_task(task, "ps", shared->replicas);
    sheaf_status status = s ? SHEAF_OK : task->err.status;
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("v", sheaf_float(0), NULL); /* the workers begin together */
    }
    for (int i = 0; i < 3 && status >= 0; i++) {
        own.policy = policies[i];
        task->user = &own;
        sheaf_dataset *d = source(task);
        task->user = shared;
        status = take_all(task, sheaf_distribute_dataset(s, d, NULL));
    }
    RIG_CHECK(task, status < 0 || shared->kept[task->index] == 3 * 8);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
    return status;
}

/* S125: whatever the policy, every worker sees everything; one line of the log of each says so */
static void test_S125_parameter_servers(void **state)
{
    (void)state;
    for (int replicas = 1; replicas <= 2; replicas++) {
        struct shared shared = {.replicas = replicas};
        run_cluster((struct jobs){.worker = 2, .ps = 1}, under_ps, &shared, 60);
        assert_seen(&shared, 8, 2 * 3);
        int lines = 0;
        for (const char *at = rig_log_take(); (at = strstr(at, ignored)) != NULL; at++)
            lines++;
        assert_int_equal(lines, 2);
    }
}

/* ---- functions with a state ---- */

/* What a map function of a test does beside its element. */
struct noise {
    bool seeded, assigns;
    sheaf_variable *variable;
};

static sheaf_status add_noise(const sheaf_element *in, sheaf_element *out, void *user)
{
    const struct noise *noise = user;
    const int64_t index = sheaf_tensor_integer(only(in), 0);
    const uint64_t seed = noise->seeded ? 1 + (uint64_t)index : 0;
    if (noise->assigns)
        (void)!sheaf_assign_add(noise->variable, sheaf_long(1), NULL);
    sheaf_element_put(out, "index", only(in));
    return sheaf_element_put(out, "noise",
                             sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SCALAR, 0, 1, seed));
}

struct stream {
    struct noise noise;
    int parallel;
    float of[MOST];
};

static sheaf_status draw_stream(struct rig_task *task)
{
    struct stream *stream = task->user;
    struct noise noise = stream->noise;
    sheaf_strategy *s = strategy_of_task(task, "multiworker", 1);
    if (!s)
        return task->err.status;
    noise.variable = sheaf_variable_new("calls", sheaf_long(0), NULL);
    const sheaf_map_options options = {.parallel = stream->parallel};
    sheaf_dataset *d =
        sheaf_dataset_map(sheaf_dataset_range(0, 12, 1), add_noise, &noise, &options);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, sheaf_dataset_batch(d, 6, NULL), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    sheaf_values *v;
    sheaf_status status;
    while ((status = sheaf_next(it, &v, &task->err)) == SHEAF_OK) {
        const sheaf_tensor *index = sheaf_values_get(v, 0, "index");
        for (int64_t i = 0; i < sheaf_tensor_elements(index); i++)
            stream->of[sheaf_tensor_integer(index, i)] =
                (float)sheaf_tensor_number(sheaf_values_get(v, 0, "noise"), i);
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_variable_free(noise.variable);
    sheaf_strategy_free(s);
    return status < 0 ? status : SHEAF_OK;
}

/* The log of it. */
static const char *run_stream(struct stream *stream, int workers)
{
    run_cluster((struct jobs){.worker = workers}, draw_stream, stream, 60);
    return rig_log_take();
}

/* S187: an operation with a state in a function of divided data is found and warned about; with seeds made of the elements
 * any number of workers has the same stream, and nothing is said */
static void test_S187_state_in_functions(void **state)
{
    (void)state;
    struct stream first = {.noise = {.seeded = true}};
    run_stream(&first, 1);
    for (int i = 0; i < 12; i++)
        assert_true(first.of[i] > 0 && first.of[i] < 1 && (i == 0 || first.of[i] != first.of[0]));
    for (int workers = 2; workers <= 3; workers++) {
        struct stream stream = {.noise = {.seeded = true}, .parallel = workers - 1};
        assert_null(strstr(run_stream(&stream, workers), "state"));
        assert_memory_equal(stream.of, first.of, sizeof(first.of));
    }
    for (int parallel = 0; parallel <= 2; parallel += 2) {
        struct stream stream = {.parallel = parallel};
        assert_non_null(strstr(run_stream(&stream, 2), "stage 2 (map): its function calls a random "
                                                       "operation without a seed, whose state"));
        stream.noise = (struct noise){.seeded = true, .assigns = true};
        assert_non_null(strstr(run_stream(&stream, 2), "an assignment to a variable, whose state"));
    }
    struct stream alone = {.parallel = 2}; /* one worker may do as it likes */
    assert_string_equal(run_stream(&alone, 1), "");
}

/* ---- order ---- */

struct prediction {
    bool from_function;
    int of[24];
};

/* Up to 2 ms, another time at every call. */
static void dawdle(uint32_t *dice)
{
    *dice = *dice * 1664525 + 1013904223;
    nanosleep(&(struct timespec){.tv_nsec = (long)(*dice >> 11)}, NULL);
}

static sheaf_status predict(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    (void)r;
    dawdle(user);
    sheaf_element_put(out, "index", sheaf_element_get(in, "0"));
    return sheaf_element_put(out, "output", sheaf_scale(sheaf_element_get(in, "1"), 2, 0));
}

static sheaf_dataset *numbered(void)
{
    return sheaf_dataset_enumerate(sheaf_dataset_range(0, 24, 1), 0);
}

static sheaf_dataset *own_share(const sheaf_input_context *context, void *user)
{
    sheaf_dataset *d = numbered();
    (void)user;
    d = sheaf_dataset_shard(d, context->num_input_pipelines, context->input_pipeline_id);
    return sheaf_dataset_batch(d, 2, NULL);
}

static sheaf_status predict_slowly(struct rig_task *task)
{
    struct prediction *all = task->user;
    uint32_t dice = 194 + (uint32_t)task->index;
    sheaf_strategy *s = strategy_of_task(task, "multiworker", 1);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d =
        all->from_function
            ? sheaf_distribute_datasets_from_function(s, own_share, NULL, NULL)
            : sheaf_distribute_dataset(s, sheaf_dataset_batch(numbered(), 6, NULL), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_values *v, *predicted;
    sheaf_status status;
    while ((status = sheaf_next(it, &v, &task->err)) == SHEAF_OK) {
        dawdle(&dice);
        status = sheaf_run(s, predict, &dice, v, &predicted, &task->err);
        if (status < 0)
            break;
        const sheaf_tensor *index = sheaf_values_get(predicted, 0, "index");
        const sheaf_tensor *output = sheaf_values_get(predicted, 0, "output");
        for (int64_t i = 0; i < sheaf_tensor_elements(index); i++)
            all->of[sheaf_tensor_integer(index, i)] += (int)sheaf_tensor_integer(output, i);
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status < 0 ? status : SHEAF_OK;
}

/* S54, S63, S193, S194: three workers, delayed at random: an index in every element brings the outputs into order, for
 * either way of distributing. The text is the document's. */
static void test_S194_order_by_index(void **state)
{
    (void)state;
    char text[512], expected[512];
    FILE *file = fopen(rig_golden("documents/B24_index_predict.txt"), "r");
    assert_non_null(file);
    assert_non_null(fgets(expected, sizeof(expected), file));
    fclose(file);
    for (int i = 0; i < 2; i++) {
        struct prediction all = {.from_function = i};
        run_cluster((struct jobs){.worker = 3}, predict_slowly, &all, 60);
        rig_log_take(); /* S48 */
        int n = 0;
        for (int k = 0; k < 24; k++)
            n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%d: %d", k ? ", " : "{", k,
                          all.of[k]);
        snprintf(text + n, sizeof(text) - (size_t)n, "}\n");
        assert_string_equal(text, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S48_every_worker_makes_all),
        rig_test(test_S50_off),
        rig_test(test_S124_disjoint),
        rig_test(test_S131_read_and_kept),
        rig_test(test_S129_uneven_files),
        rig_test(test_S123_devices),
        rig_test(test_S125_parameter_servers),
        rig_test(test_S187_state_in_functions),
        rig_test(test_S194_order_by_index),
    };
    return rig_run(tests);
}
