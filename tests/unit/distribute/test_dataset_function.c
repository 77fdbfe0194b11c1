/* SPDX-License-Identifier: Apache-2.0 */

/* Datasets that a function of the program makes on each worker, and divides by hand: S51, S55-S59, S61, S62, S136-S139, S141-S143,
 * S189. */

#include "helpers.h"

#include "base/mem.h"
#include "data/rewrite.h"
#include "distribute/dist_dataset.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORKERS = 4, MOST_REPLICAS = 4, FILES = 6, RECORDS = 4, STREAM = 40 };

/* What the workers of a test share. */
struct shared {
    int replicas;
    int calls[MOST_WORKERS];
    sheaf_input_context contexts[MOST_WORKERS];
    char paths[FILES][512];
    _Atomic int readers[FILES]; /* bit w: worker w had a record of the file */
    uint64_t bytes[MOST_WORKERS];
    int streams[MOST_WORKERS][STREAM];
    const sheaf_list_files_options *list; /* how the workers list their files */
    const char *strategy;
    bool per_replica;
    char sharding[MOST_WORKERS][4096];
};

/* A call of the function is of this task. */
struct call {
    struct rig_task *task;
    struct shared *shared;
    char *pipeline;  /* of what it made; sheaf__free() */
    char device[96]; /* of an operation in it */
};

static const char *pipeline_of(struct call *call, const sheaf_dataset *d)
{
    sheaf__free(call->pipeline);
    call->pipeline = sheaf__dataset_explain(d);
    return call->pipeline;
}

static void note_call(struct call *call, const sheaf_input_context *context)
{
    call->shared->calls[call->task->index]++;
    call->shared->contexts[call->task->index] = *context;
    snprintf(call->device, sizeof(call->device), "%s",
             sheaf_tensor_device(sheaf_neg(sheaf_float(1))));
}

/* Batches [100 w, 100 w + 1, 100 w + 2], … of worker w. */
static sheaf_dataset *own_numbers(const sheaf_input_context *context, void *user)
{
    struct call *call = user;
    const int first = 100 * context->input_pipeline_id;
    note_call(call, context);
    sheaf_dataset *d = sheaf_dataset_batch(sheaf_dataset_range(first, first + 24, 1), 3, NULL);
    pipeline_of(call, d);
    return d;
}

/* S57, S141: consecutive batches go to consecutive replicas, as they are */
static sheaf_status check_parts(struct rig_task *task, const sheaf_values *v, int step)
{
    const struct shared *shared = task->user;
    RIG_CHECK(task, sheaf_values_count(v) == shared->replicas);
    for (int r = 0; r < shared->replicas; r++) {
        const sheaf_tensor *part = sheaf_values_get(v, r, NULL);
        const int64_t first = 100 * task->index + 3 * (step * shared->replicas + r);
        RIG_CHECK(task, sheaf_tensor_elements(part) == 3);
        for (int i = 0; i < 3; i++)
            RIG_CHECK(task, sheaf_tensor_integer(part, i) == first + i);
    }
    return SHEAF_OK;
}

static sheaf_status check_dataset(struct rig_task *task, const struct call *call,
                                  const sheaf_dist_dataset *d)
{
    char expected[96];
    snprintf(expected, sizeof(expected), "/job:worker/replica:0/task:%d/device:CPU:0", task->index);
    RIG_CHECK(task, strcmp(call->device, expected) == 0);
    char *text = sheaf__dataset_explain(d->datasets[0]);
    const bool same = strcmp(text, call->pipeline) == 0;
    const bool prefetches = strstr(text, "prefetch") != NULL;
    sheaf__free(text);
    RIG_CHECK(task, same && !prefetches);
    return SHEAF_OK;
}

static sheaf_status take_own(struct rig_task *task)
{
    struct shared *shared = task->user;
    struct call call = {task, shared, NULL, ""};
    sheaf_values *v;
    sheaf_strategy *s = strategy_of_task(task, "multiworker", shared->replicas);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, own_numbers, &call, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = check_dataset(task, &call, d), end = SHEAF_OK;
    int steps = 0;
    while (status >= 0 && (end = sheaf_next(it, &v, &task->err)) == SHEAF_OK)
        status = check_parts(task, v, steps++);
    RIG_CHECK(task, status < 0 || end < 0 || steps == 8 / shared->replicas);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf__free(call.pipeline);
    sheaf_strategy_free(s);
    return status < 0 ? status : end < 0 ? end : SHEAF_OK;
}

/* S51, S56, S57, S136-S138, S141, S143: the function is called once on each worker, on its CPU; nothing is done to what it makes:
 * no rebatching, no sharding, no prefetching */
static void test_S56_once_on_each_worker(void **state)
{
    (void)state;
    for (int replicas = 1; replicas <= MOST_REPLICAS; replicas *= 2) {
        struct shared shared = {.replicas = replicas};
        run_cluster((struct jobs){.worker = 2}, take_own, &shared, 60);
        for (int w = 0; w < 2; w++)
            assert_int_equal(shared.calls[w], 1);
    }
}

/* S55: the old name and the new one are one function */
static void test_S55_names(void **state)
{
    (void)state;
    assert_ptr_equal(sheaf_experimental_distribute_datasets_from_function,
                     sheaf_distribute_datasets_from_function);
    assert_ptr_equal(sheaf_experimental_distribute_dataset, sheaf_distribute_dataset);
}

/* ---- what it is told ---- */

static sheaf_status take_contexts(struct rig_task *task)
{
    struct shared *shared = task->user;
    struct call call = {task, shared, NULL, ""};
    sheaf_strategy *s = strategy_of_task(task, "multiworker", 2);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset_free(sheaf_distribute_datasets_from_function(s, own_numbers, &call, NULL));
    const sheaf_status status = sheaf_strategy_join(s, 0, &task->err);
    sheaf__free(call.pipeline);
    sheaf_strategy_free(s);
    return status;
}

/* S61, S142: pipelines are numbered in the order of TF_CONFIG, the chief first */
static void test_S142_contexts(void **state)
{
    (void)state;
    sheaf_error err = {0};
    int64_t size = 0;
    struct shared shared = {.replicas = 2};
    run_cluster((struct jobs){.chief = 1, .worker = 2}, take_contexts, &shared, 60);
    for (int w = 0; w < 3; w++) {
        const sheaf_input_context *c = &shared.contexts[w];
        assert_int_equal(c->num_input_pipelines, 3);
        assert_int_equal(c->input_pipeline_id, w);
        assert_int_equal(c->num_replicas_in_sync, 6);
        rig_ok(sheaf_per_replica_batch_size(c, 12, &size, &err), &err);
        assert_int_equal(size, 2);
        rig_fails(sheaf_per_replica_batch_size(c, 7, &size, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "7 is not divisible by the 6 replicas");
    }
}

/* ---- the document's example ---- */

static sheaf_dataset *example(const sheaf_input_context *context, void *user)
{
    static const float one = 1;
    int64_t size = 0;
    (void)user;
    if (sheaf_per_replica_batch_size(context, 8, &size, NULL) < 0)
        return NULL;
    sheaf_tensor *matrix = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1, 1), &one);
    sheaf_dataset *d = sheaf_dataset_from_tensors(sheaf_element_of(matrix));
    d = sheaf_dataset_batch(sheaf_dataset_repeat(d, -1), size, NULL);
    return sheaf_dataset_shard(d, context->num_input_pipelines, context->input_pipeline_id);
}

static sheaf_status sum_all(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_all_reduce(r, SHEAF_REDUCE_SUM, sheaf_sum(only(in))));
}

static sheaf_status run_example(struct rig_task *task)
{
    sheaf_values *v, *sums;
    sheaf_strategy *s = strategy_of_task(task, "multiworker", 2);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, example, NULL, NULL);
    sheaf_step *step = sheaf_step_new(sum_all, NULL, sheaf_dist_dataset_element_spec(d));
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < 5 && status >= 0; i++) {
        status = sheaf_next(it, &v, &task->err);
        for (int r = 0; r < 2 && status >= 0; r++)
            RIG_CHECK(task, sheaf_shape_equal(sheaf_tensor_shape(sheaf_values_get(v, r, NULL)),
                                              SHEAF_SHAPE(2, 1, 1)));
        if (status >= 0)
            status = sheaf_run_step(s, step, v, &sums, &task->err);
        RIG_CHECK(task, status < 0 || sheaf_tensor_number(sheaf_values_get(sums, 0, NULL), 0) == 8);
    }
    RIG_CHECK(task, status < 0 || sheaf_step_traces(step) == 1);
    sheaf_dist_iterator_free(it);
    sheaf_step_free(step);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status;
}

/* S62: two workers with two replicas each take 2 of the global batch of 8, without an end */
static void test_S62_example(void **state)
{
    (void)state;
    sheaf_error err = {0};
    int64_t size = 0;
    const sheaf_input_context two = {.num_input_pipelines = 1, .num_replicas_in_sync = 2};
    run_cluster((struct jobs){.worker = 2}, run_example, NULL, 60);
    rig_fails(sheaf_per_replica_batch_size(&two, 7, &size, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "7 is not divisible by the 2 replicas");
}

/* ---- files divided by hand ---- */

static void write_files(struct shared *shared)
{
    sheaf_error err = {0};
    for (int f = 0; f < FILES; f++) {
        sheaf_record_writer *w = NULL;
        char name[16];
        snprintf(name, sizeof(name), "part-%d", f);
        snprintf(shared->paths[f], sizeof(shared->paths[f]), "%s", rig_path(name));
        rig_ok(sheaf_record_writer_open(shared->paths[f], SHEAF_COMPRESSION_NONE, &w, &err), &err);
        for (int r = 0; r < RECORDS; r++)
            rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){name, strlen(name)}, &err), &err);
        rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    }
}

static sheaf_dataset *own_files(const sheaf_input_context *context, void *user)
{
    struct call *call = user;
    char pattern[520];
    snprintf(pattern, sizeof(pattern), "%.*s*", (int)strlen(call->shared->paths[0]) - 1,
             call->shared->paths[0]);
    sheaf_dataset *d = sheaf_list_files(pattern, call->shared->list);
    d = sheaf_dataset_shard(d, context->num_input_pipelines, context->input_pipeline_id);
    return sheaf_dataset_batch(sheaf_dataset_flat_map(d, sheaf_open_tfrecord, NULL), 2, NULL);
}

static sheaf_status read_own_files(struct rig_task *task)
{
    struct shared *shared = task->user;
    struct call call = {task, shared, NULL, ""};
    sheaf_values *v;
    sheaf_strategy *s = strategy_of_task(task, "multiworker", 1);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, own_files, &call, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status;
    while ((status = sheaf_next(it, &v, &task->err)) == SHEAF_OK) {
        const sheaf_tensor *part = sheaf_values_get(v, 0, NULL);
        for (int64_t i = 0; i < sheaf_tensor_elements(part); i++) {
            const sheaf_bytes name = sheaf_tensor_bytes(part, i);
            atomic_fetch_or(&shared->readers[name.data[name.size - 1] - '0'], 1 << task->index);
        }
    }
    shared->bytes[task->index] = sheaf_counter("record.bytes");
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status < 0 ? status : SHEAF_OK;
}

/* S58, S139: each file is read by one worker only, so that each reads its share of the bytes and no more */
static void test_S58_files_by_hand(void **state)
{
    (void)state;
    const sheaf_list_files_options sorted = {.no_shuffle = true};
    struct shared shared = {.replicas = 1, .list = &sorted};
    write_files(&shared);
    run_cluster((struct jobs){.worker = 3}, read_own_files, &shared, 60);
    for (int f = 0; f < FILES; f++)
        assert_int_equal(shared.readers[f], 1 << f % 3);
    for (int w = 0; w < 3; w++) {
        assert_true(shared.bytes[w] >= (uint64_t)RECORDS * FILES / 3 * strlen("part-0"));
        assert_int_equal(shared.bytes[w], shared.bytes[0]);
    }
}

/* S189, R9.23: files are listed in an order by chance unless the program says otherwise, as in TensorFlow; a share of
 * that is no share, which is said once */
static void test_S189_files_by_chance(void **state)
{
    (void)state;
    struct shared shared = {.replicas = 1};
    write_files(&shared);
    run_cluster((struct jobs){.worker = 3}, read_own_files, &shared, 60);
    assert_string_equal(rig_log_take(), "stage 2 (shard) takes a share of what stage 1 (shuffle) "
                                        "orders by chance, on each worker another way: give it, or "
                                        "list_files, a seed or no shuffle\n");
}

/* S189: with a seed all workers have one order, so that each file is one worker's, and there is nothing to say; it is
 * not the sorted one */
static void test_S189_files_by_seed(void **state)
{
    (void)state;
    const sheaf_list_files_options seeded = {.seed = 7};
    struct shared shared = {.replicas = 1, .list = &seeded};
    int files[3] = {0}, moved = 0;
    write_files(&shared);
    run_cluster((struct jobs){.worker = 3}, read_own_files, &shared, 60);
    assert_string_equal(rig_log_take(), "");
    for (int f = 0; f < FILES; f++) {
        assert_int_equal(__builtin_popcount((unsigned)shared.readers[f]), 1);
        files[__builtin_ctz((unsigned)shared.readers[f])]++;
        moved += shared.readers[f] != 1 << f % 3;
    }
    for (int w = 0; w < 3; w++)
        assert_int_equal(files[w], FILES / 3);
    assert_true(moved > 0);
}

/* ---- endless data that differ by their seed ---- */

static sheaf_dataset *own_seed(const sheaf_input_context *context, void *user)
{
    const sheaf_shuffle_options seed = {.seed = 1 + context->input_pipeline_id};
    (void)user;
    sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 16, 1), 16, &seed);
    return sheaf_dataset_batch(sheaf_dataset_repeat(d, -1), 4, NULL);
}

static sheaf_status take_stream(struct rig_task *task)
{
    struct shared *shared = task->user;
    sheaf_values *v;
    sheaf_status status = SHEAF_OK;
    sheaf_strategy *s = strategy_of_task(task, "multiworker", 1);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, own_seed, NULL, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    for (int n = 0; n < STREAM && status >= 0; n++) {
        if (n % 4 == 0)
            status = sheaf_next(it, &v, &task->err);
        if (status >= 0)
            shared->streams[task->index][n] =
                (int)sheaf_tensor_integer(sheaf_values_get(v, 0, NULL), n % 4);
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return status;
}

/* S59: workers with seeds of their own have streams of their own, the same in every run */
static void test_S59_own_seeds(void **state)
{
    (void)state;
    struct shared first = {.replicas = 1}, second = {.replicas = 1};
    run_cluster((struct jobs){.worker = 3}, take_stream, &first, 60);
    run_cluster((struct jobs){.worker = 3}, take_stream, &second, 60);
    assert_memory_equal(first.streams, second.streams, sizeof(first.streams));
    for (int w = 0; w < 3; w++)
        assert_memory_not_equal(first.streams[w], first.streams[(w + 1) % 3],
                                sizeof(first.streams[w]));
}

/* ---- what was done to it ---- */

static sheaf_status ask_sharding(struct rig_task *task)
{
    struct shared *shared = task->user;
    struct call call = {task, shared, NULL, ""};
    const sheaf_input_options options = {.per_replica = shared->per_replica};
    rig_log_from(SHEAF_LOG_INFO);
    sheaf_strategy *s = strategy_of_task(task, shared->strategy, shared->replicas);
    if (!s)
        return task->err.status;
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, own_files, &call, &options);
    snprintf(shared->sharding[task->index], sizeof(shared->sharding[0]), "%s",
             sheaf_dist_dataset_sharding(d));
    sheaf_dist_dataset_free(d);
    const sheaf_status status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* "; 2 files: a, b" of pipeline `p` of `count`. */
static void add_files(const struct shared *shared, int p, int count, char *text)
{
    sprintf(text + strlen(text), "; %d files: ", FILES / count);
    for (int f = p; f < FILES; f += count)
        sprintf(text + strlen(text), "%s%s", f > p ? ", " : "", shared->paths[f]);
}

/* S45, S56: what a function made is said to be its affair, with the files of every pipeline; in the log once a worker, if there are
 * several */
static void test_S56_sharding_is_told(void **state)
{
    (void)state;
    static const char why[] = "not sharded: the dataset function makes each pipeline's part";
    static const struct {
        const char *strategy;
        struct jobs jobs;
        int workers, pipelines;
        bool per_replica;
    } cases[] = {{"one", {.worker = 1}, 1, 1, false},
                 {"mirrored", {.worker = 1}, 1, 1, false},
                 {"mirrored", {.worker = 1}, 1, 2, true},
                 {"multiworker", {.worker = 3}, 3, 3, false},
                 {"ps", {.worker = 2, .ps = 1}, 2, 2, false}};
    const sheaf_list_files_options sorted = {.no_shuffle = true};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const int workers = cases[c].workers, pipelines = cases[c].pipelines;
        struct shared shared = {.replicas = strcmp(cases[c].strategy, "mirrored") ? 1 : 2,
                                .list = &sorted,
                                .strategy = cases[c].strategy,
                                .per_replica = cases[c].per_replica};
        char expected[4096], line[4200];
        write_files(&shared);
        run_cluster(cases[c].jobs, ask_sharding, &shared, 60);
        const char *log = rig_log_take();
        for (int w = 0; w < workers; w++) {
            snprintf(expected, sizeof(expected), "%s", why);
            for (int p = w; p < (workers > 1 ? w + 1 : pipelines); p++) {
                if (cases[c].per_replica)
                    sprintf(expected + strlen(expected), "; pipeline %d", p);
                add_files(&shared, p, pipelines, expected);
            }
            assert_string_equal(shared.sharding[w], expected);
            snprintf(line, sizeof(line), "input: worker %d of %d: %s\n", w, workers, expected);
            const char *found = strstr(log, line);
            assert_true(!found == (workers == 1));
            assert_true(!found || !strstr(found + 1, line));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_S56_once_on_each_worker), rig_test(test_S55_names),
        rig_test(test_S142_contexts),           rig_test(test_S62_example),
        rig_test(test_S58_files_by_hand),       rig_test(test_S59_own_seeds),
        rig_test(test_S189_files_by_chance),    rig_test(test_S189_files_by_seed),
        rig_test(test_S56_sharding_is_told),
    };
    return rig_run(tests);
}
