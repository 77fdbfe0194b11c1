/* SPDX-License-Identifier: Apache-2.0 */

/* Positions in distributed datasets, saved with the variables: a job that is stopped and started again, with the same workers
 * or others, sees every example once a pass. */

#include "helpers.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 40, FILES = 8, EACH = NUMBERS / FILES, MOST_WORKERS = 4, PASSES = 4 };

enum kind {
    SHUFFLED, /* numbers in memory, shuffled by chance */
    READ,     /* out of files, which are shuffled by chance, and again */
    NAMES,    /* names of files, shuffled by chance */
    FUNCTION, /* a part for each worker by a function */
    SEEDED,   /* as READ, with seeds */
    KINDS
};

/* What a worker saw. */
struct seen {
    int count, steps;
    struct {
        int64_t pass, number;
    } list[PASSES * NUMBERS];
};

/* A job from its start to its stop. */
struct job {
    enum kind kind;
    int workers, replicas, batch;
    int stop;           /* after so many steps; 0: when all passes are over */
    const char *path;   /* of the checkpoint */
    bool restores;      /* it is there */
    bool alone;         /* nothing is saved with the position */
    bool at_the_border; /* saves when a pass has ended, not at `stop` */
    struct seen seen[MOST_WORKERS];
    int64_t passes[MOST_WORKERS], steps[MOST_WORKERS];
};

static const char *folder; /* of the files */

static void write_files(void)
{
    folder = rig_folder();
    for (int f = 0; f < FILES; f++) {
        char name[32], text[16];
        sheaf_record_writer *w = NULL;
        sheaf_error err = {0};
        snprintf(name, sizeof(name), "%d.tfrecord", f);
        rig_ok(sheaf_record_writer_open(rig_path(name), SHEAF_COMPRESSION_NONE, &w, &err), &err);
        for (int i = 0; i < EACH; i++) {
            const int size = snprintf(text, sizeof(text), "%d", EACH * f + i);
            rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){text, (size_t)size}, &err), &err);
        }
        rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    }
}

/* The number that a record is, or that the last part of a file's name begins with. */
static sheaf_status to_number(const sheaf_element *in, sheaf_element *out, void *user)
{
    const sheaf_bytes b = sheaf_tensor_bytes(sheaf_element_at(in, 0), 0);
    char text[4096];
    (void)user;
    snprintf(text, sizeof(text), "%.*s", (int)b.size, b.data);
    const char *slash = strrchr(text, '/');
    return sheaf_element_put(out, "", sheaf_long(atoll(slash ? slash + 1 : text)));
}

static sheaf_dataset *numbers_of(sheaf_dataset *texts)
{
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    {
        const sheaf_tensor_spec number = {NULL, SHEAF_INT64, SHEAF_SCALAR};
        const sheaf_map_options options = {.spec = sheaf_element_spec_new(&number, 1)};
        d = sheaf_dataset_map(texts, to_number, NULL, &options);
    }
    return d;
}

static sheaf_dataset *dataset(const struct job *job)
{
    const sheaf_interleave_options two = {.cycle_length = 2};
    const int64_t seed = job->kind == SEEDED ? 5 : 0;
    const sheaf_list_files_options files = {.seed = seed};
    const sheaf_shuffle_options order = {.seed = seed};
    char pattern[4096];
    sheaf_dataset *d;
    snprintf(pattern, sizeof(pattern), "%s/*.tfrecord", folder);
    switch (job->kind) {
    case READ:
    case SEEDED:
        d = sheaf_dataset_interleave(sheaf_list_files(pattern, &files), sheaf_open_tfrecord, NULL,
                                     &two);
        d = sheaf_dataset_shuffle(numbers_of(d), 7, &order);
        break;
    case NAMES:
        d = numbers_of(sheaf_list_files(pattern, NULL));
        break;
    default:
        d = sheaf_dataset_shuffle(sheaf_dataset_range(0, NUMBERS, 1), 7, NULL);
        break;
    }
    return sheaf_dataset_batch(d, job->batch, NULL);
}

static sheaf_dataset *part_of(const sheaf_input_context *context, void *user)
{
    const struct job *job = user;
    sheaf_dataset *d = sheaf_dataset_range(0, NUMBERS, 1);
    d = sheaf_dataset_shard(d, context->num_input_pipelines, context->input_pipeline_id);
    d = sheaf_dataset_shuffle(d, 7, NULL);
    return sheaf_dataset_batch(d, job->batch / context->num_replicas_in_sync, NULL);
}

static void note(struct seen *seen, int64_t pass, const sheaf_values *v)
{
    for (int r = 0; r < sheaf_values_count(v); r++) {
        const sheaf_tensor *t = sheaf_values_get(v, r, NULL);
        for (int64_t i = 0; i < sheaf_tensor_elements(t) && seen->count < PASSES * NUMBERS; i++) {
            seen->list[seen->count].pass = pass;
            seen->list[seen->count++].number = sheaf_tensor_integer(t, i);
        }
    }
    seen->steps++;
}

/* A task of the job. */
struct task {
    struct job *job;
    struct seen *seen;
    sheaf_dist_dataset *data;
    sheaf_variable *steps;
    sheaf_checkpoint *checkpoint;
    bool stops;
};

/* After a step, or at the end of a pass: saves and stops if it is time to. */
static bool stop(struct task *t, bool at_the_border, sheaf_error *err)
{
    const struct job *job = t->job;
    t->stops = job->stop > 0 && t->seen->steps >= job->stop && at_the_border == job->at_the_border;
    if (t->stops)
        (void)!sheaf_checkpoint_write(t->checkpoint, job->path, NULL, err);
    return t->stops || err->status < 0;
}

static sheaf_status go(struct task *t, sheaf_error *err)
{
    while (!t->stops && err->status >= 0 && sheaf_dist_dataset_passes(t->data) < PASSES) {
        const int64_t pass = sheaf_dist_dataset_passes(t->data);
        sheaf_dist_iterator *it = sheaf_iterate(t->data);
        sheaf_values *v;
        SHEAF_EACH(v, it, err)
        {
            note(t->seen, pass, v);
            if (sheaf_assign_add(t->steps, sheaf_long(1), err) < 0 || stop(t, false, err))
                break;
        }
        if (err->status >= 0 && !t->stops)
            stop(t, true, err);
        sheaf_dist_iterator_free(it);
    }
    return err->status;
}

static sheaf_status run_task(struct rig_task *task)
{
    struct job *job = task->user;
    struct task t = {.job = job, .seen = &job->seen[task->index]};
    const sheaf_variable_options counter = {.not_trainable = true};
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_devices_configure(job->replicas, &task->err);
    if (status >= 0)
        status = sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    t.data = job->kind == FUNCTION ? sheaf_distribute_datasets_from_function(s, part_of, job, NULL)
                                   : sheaf_distribute_dataset(s, dataset(job), NULL);
    SHEAF_SCOPE(s)
    {
        t.steps = sheaf_variable_new("steps", sheaf_long(0), &counter);
    }
    t.checkpoint = sheaf_checkpoint_new();
    if (!job->alone)
        sheaf_checkpoint_add_variable(t.checkpoint, "steps", t.steps);
    sheaf_checkpoint_add(t.checkpoint, "input", sheaf_dist_dataset_trackable(t.data));
    if (job->restores)
        status = sheaf_checkpoint_restore(t.checkpoint, job->path, &task->err);
    if (status >= 0)
        status = go(&t, &task->err);
    job->passes[task->index] = sheaf_dist_dataset_passes(t.data);
    if (status >= 0) {
        SHEAF_FRAME
        job->steps[task->index] = sheaf_tensor_integer(sheaf_value(t.steps), 0);
        status = sheaf_strategy_join(s, 0, &task->err);
    }
    sheaf_checkpoint_free(t.checkpoint);
    sheaf_dist_dataset_free(t.data);
    sheaf_variable_free(t.steps);
    sheaf_strategy_free(s);
    return status;
}

static void run_job(struct job *job)
{
    run_cluster((struct jobs){.worker = job->workers}, run_task, job, 60);
    rig_log_take(); /* numbers in memory cannot be dealt out by file */
}

/* ---- what jobs saw ---- */

/* How often each number came in each pass, over all jobs. */
struct counts {
    int of[PASSES][NUMBERS];
};

static void count(struct counts *c, const struct job *job)
{
    for (int w = 0; w < job->workers; w++)
        for (int i = 0; i < job->seen[w].count; i++) {
            assert_in_range(job->seen[w].list[i].pass, 0, PASSES - 1);
            assert_in_range(job->seen[w].list[i].number, 0, NUMBERS - 1);
            c->of[job->seen[w].list[i].pass][job->seen[w].list[i].number]++;
        }
}

static void assert_once(const struct counts *c, int numbers, const char *what)
{
    for (int p = 0; p < PASSES; p++)
        for (int i = 0; i < NUMBERS; i++)
            if (c->of[p][i] != (i < numbers))
                fail_msg("%s: number %d came %d times in pass %d", what, i, c->of[p][i], p);
}

/* The order of a pass of worker `w` differs from that of the pass before. */
static bool reorders(const struct seen *seen, int pass)
{
    int64_t lists[2][NUMBERS], counts[2] = {0};
    for (int i = 0; i < seen->count; i++)
        for (int k = 0; k < 2; k++)
            if (seen->list[i].pass == pass - k)
                lists[k][counts[k]++] = seen->list[i].number;
    return counts[0] != counts[1] ||
           memcmp(lists[0], lists[1], (size_t)counts[0] * sizeof(int64_t)) != 0;
}

/* ---- tests ---- */

/* T25: workers that shuffle without a seed agree on the order: in each epoch each file comes once in the cluster, in another
 * order than in the epoch before. */
static void test_T25_unseeded(void **state)
{
    (void)state;
    write_files();
    for (enum kind kind = SHUFFLED; kind < KINDS; kind++) {
        struct counts c = {0};
        struct job job = {.kind = kind, .workers = 4, .replicas = 1, .batch = 8};
        run_job(&job);
        count(&c, &job);
        assert_once(&c, kind == NAMES ? FILES : NUMBERS, "one run");
        int other = 0;
        for (int w = 0; w < 4; w++)
            for (int pass = 1; pass < PASSES; pass++)
                other += reorders(&job.seen[w], pass);
        assert_true(other > 4);
        assert_int_equal(job.passes[3], PASSES);
    }
}

/* Stopped after so many steps by one cluster and gone on with by the next ones. */
static void relay(enum kind kind, const int (*shapes)[2], const int *stops, int jobs)
{
    static struct job job;
    struct counts c = {0};
    char what[128];
    int64_t steps = 0;
    for (int i = 0; i < jobs; i++) {
        job = (struct job){.kind = kind,
                           .workers = shapes[i][0],
                           .replicas = shapes[i][1],
                           .batch = 12,
                           .stop = i < jobs - 1 ? stops[i] : 0,
                           .path = rig_path("ckpt"),
                           .restores = i > 0};
        run_job(&job);
        count(&c, &job);
        steps += job.seen[0].steps;
        for (int w = 0; w < job.workers; w++)
            assert_int_equal(job.steps[w], steps);
    }
    snprintf(what, sizeof(what), "kind %d, %d x %d after %d steps, then %d x %d", (int)kind,
             shapes[0][0], shapes[0][1], stops[0], shapes[1][0], shapes[1][1]);
    assert_once(&c, kind == NAMES ? FILES : NUMBERS, what);
    assert_int_equal(job.passes[0], PASSES);
}

/* The same workers. */
static void test_goes_on(void **state)
{
    (void)state;
    static const int shapes[][2] = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 1}};
    write_files();
    for (enum kind kind = SHUFFLED; kind < KINDS; kind++)
        for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++)
            for (int first = 1; first < (kind == NAMES ? 2 : 9); first += 6) {
                const int same[][2] = {{shapes[k][0], shapes[k][1]},
                                       {shapes[k][0], shapes[k][1]},
                                       {shapes[k][0], shapes[k][1]}};
                relay(kind, same, (const int[]){first, 2}, 3);
            }
}

static void keeps_the_order(bool alone)
{
    static struct job whole, first, second;
    for (int workers = 1; workers < 4; workers++)
        for (int stop = 1; stop < 14; stop += 6) {
            whole = (struct job){
                .kind = SEEDED, .workers = workers, .replicas = 2, .batch = 12, .alone = alone};
            first = second = whole;
            first.stop = stop;
            first.path = second.path = rig_path("ckpt");
            second.restores = true;
            run_job(&whole);
            run_job(&first);
            run_job(&second);
            for (int w = 0; w < workers; w++) {
                const struct seen *all = &whole.seen[w], *a = &first.seen[w], *b = &second.seen[w];
                assert_int_equal(a->count + b->count, all->count);
                assert_memory_equal(all->list, a->list, (size_t)a->count * sizeof(a->list[0]));
                assert_memory_equal(all->list + a->count, b->list,
                                    (size_t)b->count * sizeof(b->list[0]));
            }
        }
}

/* In the very order that it would have had; also where the position is all that the workers save:
 * it is one, and one of them writes it. */
static void test_keeps_the_order(void **state)
{
    (void)state;
    write_files();
    keeps_the_order(false);
    keeps_the_order(true);
}

/* Other workers and replicas: the rest of the pass is divided anew. */
static void test_other_workers(void **state)
{
    (void)state;
    static const int shapes[][3][2] = {
        {{2, 1}, {1, 1}, {3, 1}}, {{1, 1}, {1, 4}, {1, 2}}, {{4, 1}, {2, 2}, {2, 1}},
        {{3, 1}, {2, 1}, {4, 1}}, {{2, 2}, {4, 1}, {1, 1}},
    };
    write_files();
    for (enum kind kind = SHUFFLED; kind < FUNCTION; kind++)
        for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++)
            for (int first = 1; first < (kind == NAMES ? 2 : 6); first += 3)
                relay(kind, shapes[k], (const int[]){first, 1}, 3);
}

/* T40: saved exactly when a pass has ended, the next pass is run in full. */
static void test_T40_at_the_border(void **state)
{
    (void)state;
    write_files();
    for (int workers = 1; workers < 3; workers++) {
        struct counts c = {0};
        for (int i = 0; i < 2; i++) {
            struct job job = {.kind = READ,
                              .workers = workers,
                              .replicas = 1,
                              .batch = 8,
                              .stop = i == 0 ? 1 : 0,
                              .at_the_border = true,
                              .path = rig_path("ckpt"),
                              .restores = i > 0};
            run_job(&job);
            count(&c, &job);
            assert_int_equal(job.passes[0], i == 0 ? 1 : PASSES);
        }
        assert_once(&c, NUMBERS, "at the border");
    }
}

/* ---- refusals ---- */

static sheaf_status add_one(const sheaf_element *in, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_add(sheaf_element_at(in, 0), sheaf_long(1)));
}
static sheaf_status fail_at_five(const sheaf_element *in, sheaf_element *out, void *user)
{
    const int64_t x = sheaf_tensor_integer(sheaf_element_at(in, 0), 0);
    (void)user;
    return x == 5 ? SHEAF_ERR_IO : sheaf_element_put(out, "", sheaf_element_at(in, 0));
}
static sheaf_dataset *numbers(const sheaf_input_context *context, void *user)
{
    (void)context;
    (void)user;
    return sheaf_dataset_batch(sheaf_dataset_range(0, 12, 1), 2, NULL);
}

static sheaf_dataset *batches(int64_t n, int64_t size)
{
    return sheaf_dataset_batch(sheaf_dataset_range(0, n, 1), size, NULL);
}

static sheaf_checkpoint *checkpoint_of(sheaf_trackable *t)
{
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add(c, "input", t);
    return c;
}

/* Takes a step of `d` under `s` and saves; uses up both. */
static void save_after_a_step(sheaf_strategy *s, sheaf_dist_dataset *d)
{
    sheaf_error err = {0};
    sheaf_values *v;
    sheaf_dist_iterator *it = sheaf_iterate(d);
    SHEAF_FRAME
    rig_ok(sheaf_next(it, &v, &err), &err);
    sheaf_checkpoint *c = checkpoint_of(sheaf_dist_dataset_trackable(d));
    rig_ok(sheaf_checkpoint_write(c, rig_path("ckpt"), NULL, &err), &err);
    sheaf_checkpoint_free(c);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
}

static void refuses(sheaf_strategy *s, sheaf_dist_dataset *d, const char *part)
{
    sheaf_error err = {0};
    sheaf_checkpoint *c = checkpoint_of(sheaf_dist_dataset_trackable(d));
    rig_fails(sheaf_checkpoint_restore(c, rig_path("ckpt"), &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, part);
    sheaf_checkpoint_free(c);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
}

/* A MirroredStrategy on some of three devices. */
static sheaf_strategy *on(int replicas)
{
    const char *devices[4] = {"CPU:0", "CPU:1", "CPU:2"};
    const sheaf_strategy_options options = {.devices = devices};
    sheaf_strategy *s = NULL;
    sheaf_error err = {0};
    devices[replicas] = NULL;
    rig_ok(sheaf_strategy_new("mirrored", NULL, &options, &s, &err), &err);
    return s;
}

static void test_refusals(void **state)
{
    (void)state;
    sheaf_error err = {0};
    rig_ok(sheaf_devices_configure(3, &err), &err);
    sheaf_strategy *s = on(2);
    save_after_a_step(s, sheaf_distribute_datasets_from_function(s, numbers, NULL, NULL));
    s = on(1);
    refuses(
        s, sheaf_distribute_datasets_from_function(s, numbers, NULL, NULL),
        "the rest of a pass of 1 workers with 2 replicas each cannot be divided over 1 with 1: a "
        "function makes the dataset of each worker");
    s = on(2);
    refuses(s, sheaf_distribute_dataset(s, batches(12, 2), NULL),
            "its line 3 is \"distributed from a function(1)\", this one's is \"distributed(");

    s = on(2);
    save_after_a_step(s, sheaf_distribute_dataset(s, batches(12, 4), NULL));
    s = on(2);
    refuses(s, sheaf_distribute_dataset(s, batches(12, 2), NULL),
            "its line 2 is \"batch(4)\", this one's is \"batch(2)\"");
    s = on(2);
    const sheaf_dataset_options otherwise = {.autoshard = SHEAF_AUTOSHARD_DATA,
                                             .rebatch = SHEAF_REBATCH_LEGACY};
    refuses(
        s,
        sheaf_distribute_dataset(s, sheaf_dataset_with_options(batches(12, 4), &otherwise), NULL),
        "\"distributed(autoshard AUTO, rebatch AUTO)\", this one's is "
        "\"distributed(autoshard DATA, rebatch LEGACY)\"");

    sheaf_dataset *d = sheaf_dataset_map(batches(12, 4), add_one, NULL, NULL);
    s = on(2);
    save_after_a_step(s, sheaf_distribute_dataset(s, sheaf_dataset_ref(d), NULL));
    s = on(3);
    refuses(s, sheaf_distribute_dataset(s, d, NULL), "the size of the global batch is not known");

    d = batches(12, 4);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_checkpoint *c = checkpoint_of(sheaf_iterator_trackable(it));
    rig_ok(sheaf_checkpoint_write(c, rig_path("ckpt"), NULL, &err), &err);
    s = on(1);
    refuses(s, sheaf_distribute_dataset(s, sheaf_dataset_ref(d), NULL),
            "the position is of an iterator, not of a distributed dataset");
    s = on(1);
    save_after_a_step(s, sheaf_distribute_dataset(s, sheaf_dataset_ref(d), NULL));
    rig_fails(sheaf_checkpoint_restore(c, rig_path("ckpt"), &err), &err,
              SHEAF_ERR_FAILED_PRECONDITION, "of a distributed dataset, not of an iterator");
    sheaf_checkpoint_free(c);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

/* An iterator without a strategy, in a checkpoint. */
static void test_iterator_in_a_checkpoint(void **state)
{
    (void)state;
    int64_t found[2][4];
    for (int run = 0; run < 2; run++) {
        sheaf_dataset *d = sheaf_dataset_shuffle(sheaf_dataset_range(0, 12, 1), 4, NULL);
        sheaf_iterator *it = sheaf_dataset_iterate(d);
        sheaf_checkpoint *c = checkpoint_of(sheaf_iterator_trackable(it));
        sheaf_error err = {0};
        sheaf_element *e;
        for (int i = run ? 3 : 0; i < 7; i++) {
            if (i == 3 && run)
                rig_ok(sheaf_checkpoint_restore(c, rig_path("ckpt"), &err), &err);
            else if (i == 3)
                rig_ok(sheaf_checkpoint_write(c, rig_path("ckpt"), NULL, &err), &err);
            SHEAF_FRAME
            {
                rig_ok(sheaf_iterator_next(it, &e, &err), &err);
                if (i >= 3)
                    found[run][i - 3] = sheaf_tensor_integer(sheaf_element_at(e, 0), 0);
            }
        }
        sheaf_checkpoint_free(c);
        sheaf_iterator_free(it);
        sheaf_dataset_free(d);
    }
    assert_memory_equal(found[0], found[1], sizeof(found[0]));
}

/* After an error one process still goes on; several would not know how far each is. */
static sheaf_status fail_together(struct rig_task *task)
{
    sheaf_strategy *s = NULL;
    sheaf_values *v;
    sheaf_status status = sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err);
    if (status < 0)
        return status;
    sheaf_dataset *d = sheaf_dataset_map(sheaf_dataset_range(0, 12, 1), fail_at_five, NULL, NULL);
    sheaf_dist_dataset *dd = sheaf_distribute_dataset(s, sheaf_dataset_batch(d, 2, NULL), NULL);
    sheaf_checkpoint *c = checkpoint_of(sheaf_dist_dataset_trackable(dd));
    sheaf_dist_iterator *it = sheaf_iterate(dd);
    sheaf_error err = {0};
    const int workers = *(int *)task->user;
    do {
        SHEAF_FRAME
        status = sheaf_next(it, &v, &err);
    } while (status == SHEAF_OK);
    RIG_CHECK(task, status < 0);
    if (task->index == 0)
        status = sheaf_checkpoint_write(c, rig_path("ckpt"), NULL, &err);
    RIG_CHECK(task, task->index > 0 || (workers == 1) == (status == SHEAF_OK));
    RIG_CHECK(task, task->index > 0 || workers == 1 || strstr(err.message, "it gave an error"));
    sheaf_checkpoint_free(c);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dd);
    sheaf_strategy_free(s);
    return SHEAF_OK;
}

static void test_after_an_error(void **state)
{
    (void)state;
    for (int workers = 1; workers < 3; workers++) {
        run_cluster((struct jobs){.worker = workers}, fail_together, &workers, 60);
        rig_log_take();
    }
}

/* ---- parameter servers ---- */

enum { PS_WORKERS = 2 };

struct ps_job {
    int stops[PS_WORKERS]; /* after so many steps; 0: when all passes are over */
    const char *folder;
    bool background; /* saves so */
    bool alone;      /* nothing is saved with the position, and that when all have stopped */
    int64_t counts[PS_WORKERS *
                   NUMBERS]; /* how often each worker had each number, as the servers know */
    int64_t passes[PS_WORKERS];
};

struct ps_step {
    sheaf_variable *counts;
    int worker;
};

/* Counts the numbers of the batch on the server: in the same push that tells where the worker is. */
static sheaf_status count_numbers(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                  void *user)
{
    const struct ps_step *step = user;
    const sheaf_tensor *t = sheaf_element_at(in, 0);
    int64_t ones[PS_WORKERS * NUMBERS] = {0};
    (void)r;
    (void)out;
    for (int64_t i = 0; i < sheaf_tensor_elements(t); i++)
        ones[step->worker * NUMBERS + sheaf_tensor_integer(t, i)]++;
    return sheaf_assign_add(
        step->counts, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(PS_WORKERS * NUMBERS), ones), NULL);
}

static sheaf_status train_on_ps(struct rig_task *task)
{
    struct ps_job *job = task->user;
    const struct job data = {.kind = READ, .batch = 8};
    const int w = task->index;
    const sheaf_manager_options options = {.background = job->background};
    struct ps_step step = {.worker = w};
    sheaf_strategy *s = NULL;
    sheaf_checkpoint_manager *manager = NULL;
    sheaf_error *err = &task->err;
    int steps = 0;
    if (sheaf_strategy_new("ps", NULL, NULL, &s, err) < 0)
        return err->status;
    SHEAF_SCOPE(s)
    SHEAF_FRAME
    {
        step.counts = sheaf_variable_new(
            "counts", sheaf_zeros(SHEAF_INT64, SHEAF_SHAPE(PS_WORKERS * NUMBERS)), NULL);
    }
    sheaf_dist_dataset *d = sheaf_distribute_dataset(s, dataset(&data), NULL);
    sheaf_checkpoint *c = checkpoint_of(sheaf_dist_dataset_trackable(d));
    if (!job->alone)
        sheaf_checkpoint_add_variable(c, "counts", step.counts);
    if (sheaf_checkpoint_manager_new(c, job->folder, &options, &manager, err) >= 0)
        (void)!sheaf_manager_restore(manager, NULL, err);
    while (err->status >= 0 && sheaf_dist_dataset_passes(d) < PASSES &&
           (!job->stops[w] || steps < job->stops[w])) {
        sheaf_dist_iterator *it = sheaf_iterate(d);
        sheaf_values *v;
        SHEAF_EACH(v, it, err)
        {
            if (sheaf_run(s, count_numbers, &step, v, NULL, err) < 0 || ++steps == job->stops[w])
                break;
        }
        if (err->status >= 0 && steps == job->stops[w] && w == 0 &&
            (!job->alone || sheaf_strategy_join(s, 0, err) >= 0))
            (void)!sheaf_manager_save(manager, false, NULL, err);
        sheaf_dist_iterator_free(it);
    }
    job->passes[w] = sheaf_dist_dataset_passes(d);
    if (err->status >= 0 && sheaf_strategy_join(s, 0, err) >= 0 && w == 0)
        SHEAF_FRAME
    memcpy(job->counts, sheaf_tensor_data(sheaf_value(step.counts)), sizeof(job->counts));
    sheaf_checkpoint_manager_free(manager);
    sheaf_checkpoint_free(c);
    sheaf_dist_dataset_free(d);
    sheaf_variable_free(step.counts);
    sheaf_strategy_free(s);
    return err->status;
}

/* Stopped twice, and gone on with to the end: each worker has had each number once a pass. */
static void relay_on_ps(const struct ps_job *how, const int (*stops)[PS_WORKERS], const char *name)
{
    static struct ps_job job;
    int64_t had[PS_WORKERS * NUMBERS] = {0};
    for (int i = 0; i < 3; i++) {
        job = *how;
        job.folder = rig_path(name);
        if (i < 2)
            memcpy(job.stops, stops[i], sizeof(job.stops));
        run_cluster((struct jobs){.worker = PS_WORKERS, .ps = 2}, train_on_ps, &job, 60);
        rig_log_take();
        for (int k = 0; k < PS_WORKERS * NUMBERS; k++)
            had[k] = job.counts[k] + (job.alone ? had[k] : 0);
    }
    for (int k = 0; k < PS_WORKERS * NUMBERS; k++) {
        assert_int_equal(job.passes[k / NUMBERS], PASSES);
        if (had[k] != PASSES)
            fail_msg("%s: worker %d had number %d %d times", name, k / NUMBERS, k % NUMBERS,
                     (int)had[k]);
    }
}

static const int ps_stops[][2][PS_WORKERS] = {{{3, 9}, {4, 2}}, {{8, 1}, {1, 8}}, {{6, 6}, {5, 5}}};

/* Each worker makes its own passes. What the chief saves has the place of every worker as of the same
 * moment as the variables, so that all of them go on there, whatever they did after it. */
static void test_ps_workers(void **state)
{
    (void)state;
    write_files();
    for (size_t k = 0; k < sizeof(ps_stops) / sizeof(*ps_stops); k++)
        for (int background = 0; background < 2; background++) {
            char name[32];
            snprintf(name, sizeof(name), "run-%zu-%d", k, background);
            relay_on_ps(&(struct ps_job){.background = background}, ps_stops[k], name);
        }
}

/* The places of all workers are in it, too, if no variable is. */
static void test_ps_position_alone(void **state)
{
    (void)state;
    write_files();
    for (size_t k = 0; k < sizeof(ps_stops) / sizeof(*ps_stops); k++) {
        char name[32];
        snprintf(name, sizeof(name), "run-%zu", k);
        relay_on_ps(&(struct ps_job){.alone = true}, ps_stops[k], name);
    }
}

/* Files that are missing when a job goes on are the error, as they are when it begins; not that the checkpoint's pipeline
 * is another. Where it is, names of files tell which. */
static void test_other_files(void **state)
{
    (void)state;
    static struct job job;
    write_files();
    job = (struct job){
        .kind = READ, .workers = 1, .replicas = 1, .batch = 8, .stop = 2, .path = rig_path("ckpt")};
    run_job(&job);
    for (int i = 0; i < 2; i++) {
        sheaf_error err = {0};
        folder = i == 0 ? "/nonexistent" : rig_golden("tfrecord");
        sheaf_dist_dataset *d = sheaf_distribute_dataset(NULL, dataset(&job), NULL);
        sheaf_checkpoint *c = sheaf_checkpoint_new();
        sheaf_checkpoint_add(c, "input", sheaf_dist_dataset_trackable(d));
        const sheaf_status status = sheaf_checkpoint_restore(c, job.path, &err);
        if (i == 0)
            rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT,
                      "stage 1 (list_files): no files matched pattern \"/nonexistent/*.tfrecord\"");
        else
            rig_fails(status, &err, SHEAF_ERR_FAILED_PRECONDITION,
                      "its line 1 is \"list_files(8 from 0.tfrecord, ");
        assert_int_equal(!strncmp(err.message, "stage", 5), i == 0);
        sheaf_checkpoint_free(c);
        sheaf_dist_dataset_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_T25_unseeded),     rig_test(test_goes_on),
        rig_test(test_other_workers),    rig_test(test_T40_at_the_border),
        rig_test(test_keeps_the_order),  rig_test(test_refusals),
        rig_test(test_other_files),      rig_test(test_iterator_in_a_checkpoint),
        rig_test(test_after_an_error),   rig_test(test_ps_workers),
        rig_test(test_ps_position_alone)};
    return rig_run(tests);
}
