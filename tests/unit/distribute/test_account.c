/* SPDX-License-Identifier: Apache-2.0 */

/* The account of a pass over a distributed dataset: every record of every file is read once and is in some step, or was corrupt,
 * lost or dropped, whatever workers there are, however often they are stopped and whoever goes on. */

#include "helpers.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 6, EACH = 10, FRAMED = 18, MOST_WORKERS = 3, BAD = 3, LOST_FILE = 4, LOST = 2 };

/* A job from its start to its stop. */
struct job {
    sheaf_autoshard policy;
    bool corrupt, drops, repeats;
    int workers, replicas;
    int stop; /* after so many steps; 0: at the end of the pass */
    bool restores;
    const char *pattern, *path;
    int64_t examples[MOST_WORKERS]; /* that each worker saw */
    char texts[MOST_WORKERS][256];  /* what each was told of the whole */
    char files[4096];               /* what worker 0 was told of each file */
};

/* Numbers in records of two bytes; with `corrupt`, some of them bad, and the last two of one file lost. */
static void write_files(const char *folder, bool corrupt)
{
    for (int f = 0; f < FILES; f++) {
        char path[4096], text[8];
        sheaf_record_writer *w = NULL;
        sheaf_error err = {0};
        snprintf(path, sizeof(path), "%s/%d.tfrecord", folder, f);
        rig_ok(sheaf_record_writer_open(path, SHEAF_COMPRESSION_NONE, &w, &err), &err);
        for (int i = 0; i < EACH; i++) {
            snprintf(text, sizeof(text), "%02d", EACH * f + i);
            rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){text, 2}, &err), &err);
        }
        rig_ok(sheaf_record_writer_close(w, false, &err), &err);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        if (corrupt && f < BAD)
            fseek(file, f * FRAMED + 12, SEEK_SET);
        else
            fseek(file, (EACH - LOST) * FRAMED, SEEK_SET);
        if (corrupt && (f < BAD || f == LOST_FILE))
            fputc('?', file);
        fclose(file);
    }
}

static sheaf_dataset *dataset(const struct job *job)
{
    const sheaf_dataset_options options = {.autoshard = job->policy, .skip_corrupt_per_file = 2};
    const sheaf_interleave_options two = {.cycle_length = 2};
    sheaf_dataset *d = sheaf_list_files(job->pattern, NULL);
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &two);
    d = sheaf_dataset_shuffle(d, 7, NULL);
    if (job->repeats)
        d = sheaf_dataset_repeat(d, 2);
    d = sheaf_dataset_batch(d, 12, &(sheaf_batch_options){.drop_remainder = job->drops});
    return sheaf_dataset_with_options(d, &options);
}

static int64_t rows_of(const sheaf_values *v)
{
    int64_t rows = 0;
    for (int r = 0; r < sheaf_values_count(v); r++)
        rows += sheaf_tensor_elements(sheaf_values_get(v, r, NULL));
    return rows;
}

/* One pass, or a part of one. */
static sheaf_status go(struct job *job, int worker, sheaf_dist_dataset *d, sheaf_checkpoint *c,
                       sheaf_error *err)
{
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_values *v;
    int steps = 0;
    SHEAF_EACH(v, it, err)
    {
        job->examples[worker] += rows_of(v);
        if (++steps == job->stop) {
            (void)!sheaf_checkpoint_write(c, job->path, NULL, err);
            break;
        }
    }
    sheaf_dist_iterator_free(it);
    if (err->status < 0 || job->stop)
        return err->status;
    SHEAF_FRAME
    {
        sheaf_account a;
        if (sheaf_dist_dataset_account(d, &a, err) < 0)
            return err->status;
        snprintf(job->texts[worker], sizeof(job->texts[worker]), "%lld read, %s", (long long)a.read,
                 sheaf_account_str(&a));
        if (worker == 0)
            snprintf(job->files, sizeof(job->files), "%s", sheaf_account_files_str(&a));
    }
    return SHEAF_OK;
}

static sheaf_status run_task(struct rig_task *task)
{
    struct job *job = task->user;
    sheaf_strategy *s = NULL;
    sheaf_error *err = &task->err;
    if (sheaf_devices_configure(job->replicas, err) < 0 ||
        sheaf_strategy_new("multiworker", NULL, NULL, &s, err) < 0)
        return err->status;
    sheaf_dist_dataset *d = sheaf_distribute_dataset(s, dataset(job), NULL);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("v", sheaf_long(0), NULL);
    }
    sheaf_checkpoint_add_variable(c, "v", v);
    sheaf_checkpoint_add(c, "input", sheaf_dist_dataset_trackable(d));
    if (!job->restores || sheaf_checkpoint_restore(c, job->path, err) >= 0)
        go(job, task->index, d, c, err);
    if (err->status >= 0)
        (void)!sheaf_strategy_join(s, 0, err);
    sheaf_checkpoint_free(c);
    sheaf_dist_dataset_free(d);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
    return err->status;
}

/* A worker of parameter servers with two replicas: what one of them has no data for is no step, and its rows are dropped. */
static sheaf_status run_on_ps(struct rig_task *task)
{
    struct job *job = task->user;
    sheaf_strategy *s = NULL;
    sheaf_error *err = &task->err;
    if (sheaf_devices_configure(2, err) < 0 || sheaf_strategy_new("ps", NULL, NULL, &s, err) < 0)
        return err->status;
    sheaf_dist_dataset *d = sheaf_distribute_dataset(s, dataset(job), NULL);
    go(job, task->index, d, NULL, err);
    if (err->status >= 0)
        (void)!sheaf_strategy_join(s, 0, err);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return err->status;
}

static void run(struct job *job)
{
    run_cluster((struct jobs){.worker = job->workers}, run_task, job, 60);
    rig_log_take(); /* what was skipped */
}

/* What must be said when `seen` examples came. */
static void expect(const struct job *job, int64_t seen, char text[256])
{
    const int good = FILES * EACH - (job->corrupt ? BAD + LOST : 0), times = job->repeats ? 2 : 1;
    const int64_t dropped = good * times - seen;
    int size = snprintf(text, 256, "%d read, %lld examples", good, (long long)seen);
    if (job->corrupt)
        size += snprintf(text + size, 256 - (size_t)size,
                         ", %d corrupt records skipped, %d bytes lost", BAD + 1, LOST * FRAMED);
    if (job->repeats)
        size += snprintf(text + size, 256 - (size_t)size, ", %d repeated", good);
    if (dropped > 0)
        snprintf(text + size, 256 - (size_t)size, ", %lld dropped", (long long)dropped);
    assert_true(job->drops || dropped == 0);
}

/* One pass by one job after the other. */
static void relay(const struct job *like, const int (*shapes)[2], const int *stops, int jobs)
{
    static struct job job;
    char text[256];
    int64_t seen = 0;
    for (int i = 0; i < jobs; i++) {
        job = *like;
        job.workers = shapes[i][0];
        job.replicas = shapes[i][1];
        job.stop = i < jobs - 1 ? stops[i] : 0;
        job.restores = i > 0;
        run(&job);
        for (int w = 0; w < job.workers; w++)
            seen += job.examples[w];
    }
    expect(&job, seen, text);
    for (int w = 0; w < job.workers; w++)
        if (strcmp(job.texts[w], text) != 0)
            fail_msg("policy %d, %d x %d%s, worker %d: found \"%s\", expected \"%s\"\n%s",
                     (int)job.policy, shapes[0][0], shapes[0][1], jobs > 1 ? " and others" : "", w,
                     job.texts[w], text, job.files);
}

/* Every kind of pipeline. */
static void each_kind(const int (*shapes)[2], const int *stops, int jobs)
{
    for (int kind = 0; kind < 16; kind++) {
        char folder[32], pattern[4096];
        const struct job like = {.policy = kind & 1 ? SHEAF_AUTOSHARD_DATA : SHEAF_AUTOSHARD_FILE,
                                 .corrupt = kind & 2,
                                 .drops = kind & 4,
                                 .repeats = kind & 8,
                                 .path = rig_path("ckpt"),
                                 .pattern = pattern};
        snprintf(folder, sizeof(folder), "%s", like.corrupt ? "bad" : "good");
        snprintf(pattern, sizeof(pattern), "%s/*.tfrecord", rig_path(folder));
        relay(&like, shapes, stops, jobs);
    }
}

static void write_both(void)
{
    sheaf_error err = {0};
    for (int bad = 0; bad < 2; bad++) {
        const char *folder = rig_path(bad ? "bad" : "good");
        rig_ok(sheaf__file_mkdir(folder, 0, &err), &err);
        write_files(folder, bad);
    }
}

static void test_one_job(void **state)
{
    (void)state;
    static const int shapes[][2] = {{1, 1}, {1, 2}, {2, 1}, {3, 2}};
    write_both();
    for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++)
        each_kind(&shapes[k], NULL, 1);
}

/* Stopped and gone on with by the same workers. */
static void test_again(void **state)
{
    (void)state;
    static const int shapes[][2] = {{1, 1}, {2, 1}, {2, 2}};
    write_both();
    for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++) {
        const int same[][2] = {{shapes[k][0], shapes[k][1]},
                               {shapes[k][0], shapes[k][1]},
                               {shapes[k][0], shapes[k][1]}};
        each_kind(same, (const int[]){1, 2}, 3);
    }
}

/* By others. */
static void test_other_workers(void **state)
{
    (void)state;
    static const int shapes[][2][2] = {
        {{1, 1}, {2, 1}}, {{2, 1}, {1, 1}}, {{2, 1}, {3, 1}}, {{3, 1}, {2, 2}}};
    write_both();
    for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++)
        each_kind(shapes[k], (const int[]){2}, 2);
}

/* Who read which file, and what was in it. */
static void test_files(void **state)
{
    (void)state;
    static struct job job;
    char pattern[4096], expected[4096];
    int size = 0;
    write_both();
    snprintf(pattern, sizeof(pattern), "%s/*.tfrecord", rig_path("bad"));
    job = (struct job){.policy = SHEAF_AUTOSHARD_DATA,
                       .corrupt = true,
                       .workers = 2,
                       .replicas = 1,
                       .pattern = pattern};
    run(&job);
    for (int w = 0; w < 2; w++)
        for (int f = 0; f < FILES; f++) {
            const char *rest = "";
            int read = EACH;
            if (f < BAD) {
                read = EACH - 1;
                rest = ", 1 corrupt record skipped";
            } else if (f == LOST_FILE) {
                read = EACH - LOST;
                rest = ", 1 corrupt record skipped, 36 bytes lost";
            }
            size += snprintf(expected + size, sizeof(expected) - (size_t)size,
                             "worker %d: %s/%d.tfrecord: %d read%s\n", w, rig_path("bad"), f, read,
                             rest);
        }
    assert_string_equal(job.files, expected);
}

/* 110 rows in batches of 12, two replicas: the last two rows are a part of one of them. */
static void test_too_few_for_a_step(void **state)
{
    (void)state;
    static struct job job;
    char pattern[4096];
    write_both();
    snprintf(pattern, sizeof(pattern), "%s/*.tfrecord", rig_path("bad"));
    job = (struct job){.corrupt = true, .repeats = true, .pattern = pattern};
    run_cluster((struct jobs){.worker = 1, .ps = 1}, run_on_ps, &job, 60);
    rig_log_take();
    assert_int_equal(job.examples[0], 108);
    assert_non_null(strstr(job.texts[0], "55 read, 108 examples, "));
    assert_non_null(strstr(job.texts[0], ", 55 repeated, 2 dropped"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_files), rig_test(test_one_job),
                                       rig_test(test_again), rig_test(test_other_workers),
                                       rig_test(test_too_few_for_a_step)};
    return rig_run(tests);
}
