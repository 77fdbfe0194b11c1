/* SPDX-License-Identifier: Apache-2.0 */

/* Files divided between workers: as many as there are, and too few of them (S46, S47, S128, R2.29; T23, T24). */

#include "helpers.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 5, MOST_RECORDS = 1000, MOST_WORKERS = 5 };

/* What the workers of a test share; who[r] and times[r]: the worker that got record r last, and how often all did. */
struct shared {
    int files, records; /* of each file; a record's number counts through all */
    sheaf_autoshard policy;
    int form;            /* of the pipeline, of enum form */
    int passes;          /* over the files */
    const char *refusal; /* NULL: none */
    char paths[MOST_FILES][512];
    _Atomic int who[MOST_RECORDS], times[MOST_RECORDS];
};

static void write_files(struct shared *shared)
{
    sheaf_error err = {0};
    for (int f = 0; f < shared->files; f++) {
        sheaf_record_writer *w = NULL;
        char text[16];
        snprintf(text, sizeof(text), "part-%d", f);
        snprintf(shared->paths[f], sizeof(shared->paths[f]), "%s", rig_path(text));
        rig_ok(sheaf_record_writer_open(shared->paths[f], SHEAF_COMPRESSION_NONE, &w, &err), &err);
        for (int r = 0; r < shared->records; r++) {
            const int size = snprintf(text, sizeof(text), "%d", f * shared->records + r);
            rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){text, (size_t)size}, &err), &err);
        }
        rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    }
}

/* Where the reader is: a list of files, or inside a function; and what is above it. */
enum form { LIST, INTERLEAVE, FLAT_MAP, FORMS };

static sheaf_dataset *read_files(const struct shared *shared)
{
    const char *paths[MOST_FILES];
    sheaf_bytes names[MOST_FILES];
    const sheaf_interleave_options two = {.cycle_length = 2};
    for (int f = 0; f < shared->files; f++) {
        paths[f] = shared->paths[f];
        names[f] = (sheaf_bytes){paths[f], strlen(paths[f])};
    }
    if (shared->form == LIST)
        return sheaf_tfrecord_files(paths, (size_t)shared->files);
    sheaf_dataset *d = sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(shared->files), names)));
    return shared->form == INTERLEAVE ? sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &two)
                                      : sheaf_dataset_flat_map(d, sheaf_open_tfrecord, NULL);
}

static sheaf_status same(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", only(in));
}

static sheaf_dist_dataset *distributed(sheaf_strategy *s, const struct shared *shared)
{
    const sheaf_dataset_options options = {.autoshard = shared->policy};
    sheaf_dataset *d = read_files(shared);
    if (shared->passes > 1) {
        d = sheaf_dataset_shuffle(sheaf_dataset_map(d, same, NULL, NULL), 7, NULL);
        d = sheaf_dataset_prefetch(sheaf_dataset_repeat(d, shared->passes), 2);
    }
    d = sheaf_dataset_batch(d, 10, NULL);
    return sheaf_distribute_dataset(s, sheaf_dataset_with_options(d, &options), NULL);
}

static void note(struct shared *shared, int worker, const sheaf_tensor *records)
{
    char text[16];
    for (int64_t i = 0; i < sheaf_tensor_elements(records); i++) {
        const sheaf_bytes b = sheaf_tensor_bytes(records, i);
        snprintf(text, sizeof(text), "%.*s", (int)b.size, b.data);
        const int record = atoi(text);
        atomic_store(&shared->who[record], worker);
        atomic_fetch_add(&shared->times[record], 1);
    }
}

static sheaf_status read_part(struct rig_task *task)
{
    struct shared *shared = task->user;
    sheaf_strategy *s = NULL;
    sheaf_values *v;
    if (sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err) < 0)
        return task->err.status;
    sheaf_dist_dataset *d = distributed(s, shared);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_status status;
    while ((status = sheaf_next(it, &v, &task->err)) == SHEAF_OK)
        note(shared, task->index, sheaf_values_get(v, 0, NULL));
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    if (!shared->refusal)
        return status < 0 ? status : SHEAF_OK;
    RIG_CHECK(task, status == SHEAF_ERR_INVALID_ARGUMENT);
    RIG_CHECK(task, strstr(task->err.message, shared->refusal) != NULL);
    return SHEAF_OK;
}

static void run(struct shared *shared, int workers)
{
    write_files(shared);
    run_cluster((struct jobs){.worker = workers}, read_part, shared, 60);
    for (int r = 0; r < shared->files * shared->records; r++)
        assert_int_equal(shared->times[r], shared->refusal      ? 0
                                           : shared->passes > 1 ? shared->passes
                                                                : 1);
}

/* How many records each worker got, or, with `files`, of how many files. */
static void count(const struct shared *shared, bool files, int got[MOST_WORKERS])
{
    const int step = files ? shared->records : 1;
    memset(got, 0, MOST_WORKERS * sizeof(*got));
    for (int r = 0; r < shared->files * shared->records; r += step)
        got[shared->who[r]]++;
}

/* S46: two workers take every other file, whether the reader is given a list or stands in a function, also under map,
 * shuffle, repeat, prefetch and batch. */
static void test_S46_every_other_file(void **state)
{
    (void)state;
    for (int form = 0; form < FORMS; form++)
        for (int passes = 1; passes <= 2; passes++) {
            struct shared shared = {.files = 4, .records = 10, .form = form, .passes = passes};
            run(&shared, 2);
            for (int r = 0; r < 40; r++)
                assert_int_equal(shared.who[r], r / 10 % 2);
        }
}

/* A file cannot be divided by FILE, nor by AUTO, which the documents make FILE wherever files are read: the same error on
 * both workers, neither waits. DATA gives each a half. */
static void test_T23_one_file(void **state)
{
    (void)state;
    static const char refusal[] = "only 1 file for 2 workers; use more files, or the autoshard "
                                  "policy DATA or OFF";
    int got[MOST_WORKERS];
    for (int i = 0; i < 3; i++) {
        static const sheaf_autoshard policies[] = {SHEAF_AUTOSHARD_AUTO, SHEAF_AUTOSHARD_FILE,
                                                   SHEAF_AUTOSHARD_DATA};
        struct shared shared = {.files = 1, .records = 1000, .policy = policies[i]};
        shared.refusal = policies[i] == SHEAF_AUTOSHARD_DATA ? NULL : refusal;
        run(&shared, 2);
        count(&shared, false, got);
        assert_true(shared.refusal || (got[0] == 500 && got[1] == 500));
    }
}

/* S47, S128: with fewer files than workers all workers get the same error, with both numbers; as many are enough */
static void test_T24_few_files(void **state)
{
    (void)state;
    int got[MOST_WORKERS];
    for (int policy = SHEAF_AUTOSHARD_AUTO; policy <= SHEAF_AUTOSHARD_FILE; policy++) {
        struct shared few = {.files = 3, .records = 20, .policy = policy};
        few.refusal = "only 3 files for 5 workers";
        run(&few, 5);
        struct shared enough = {.files = 5, .records = 20, .policy = policy};
        run(&enough, 3);
        count(&enough, true, got);
        assert_true(got[0] == 2 && got[1] == 2 && got[2] == 1);
        struct shared equal = {.files = 3, .records = 20, .policy = policy};
        run(&equal, 3);
        count(&equal, true, got);
        assert_true(got[0] == 1 && got[1] == 1 && got[2] == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_S46_every_other_file),
                                       rig_test(test_T23_one_file), rig_test(test_T24_few_files)};
    return rig_run(tests);
}
