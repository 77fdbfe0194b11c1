/* SPDX-License-Identifier: Apache-2.0 */

/* T21: a job that is asked to stop, in any of its tasks and at any time, in simulations. All workers stop at one step and soon,
 * one checkpoint has it, and the next run goes on there with every example once. */

#include "helpers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/wait.h"

#include <stdio.h>
#include <string.h>

enum { NUMBERS = 24, BATCH = 6, PASSES = 3, STEPS = PASSES * NUMBERS / BATCH, MOST = 4 };

enum kind {
    TRAINING,   /* worker 1 is slower */
    READING,    /* the last worker's data stay away in the second pass */
    FIRST_DATA, /* all workers' do, from the beginning */
    EVALUATION  /* worker 0 evaluates after its third step */
};

struct job {
    enum kind kind;
    const char *strategy;
    int workers;
    unsigned asked;     /* a bit for each worker that is asked to stop */
    int64_t after;      /* so long after it could begin, ns; 0: at once */
    int every_steps;    /* of saves besides */
    const char *folder; /* of checkpoints */
    _Atomic int seen[NUMBERS];
    struct end {
        int64_t step, took; /* the last step, and how long after the request it ended */
        bool stopped;
        char checkpoint[32];
    } ends[MOST];
};

/* What a worker uses. */
struct worker {
    struct job *job;
    int index;
    sheaf_strategy *s;
    sheaf_variable *v;
    sheaf_dist_dataset *data;
    sheaf_checkpoint *checkpoint;
    sheaf_checkpoint_manager *manager;
    struct sheaf__thread *stopper;
    int64_t began;
    int elements; /* that it has read */
};

static sheaf_status sleep_ms(int64_t ms, sheaf_error *err)
{
    return sheaf__wait_sleep(sheaf__clock_after(ms * SHEAF__MS), NULL, err);
}

/* What takes very long, and looks now and then. */
static void take_long(void)
{
    for (int i = 0; i < 10000 && !sheaf_stopped(); i++)
        (void)sleep_ms(100, NULL);
}

/* ---- the program ---- */

static sheaf_status read_slowly(const sheaf_element *in, sheaf_element *out, void *user)
{
    struct worker *w = user;
    const struct job *job = w->job;
    const int n = w->elements++;
    if (job->asked && ((job->kind == READING && w->index == job->workers - 1 && n == 20) ||
                       job->kind == FIRST_DATA))
        take_long();
    sheaf_element_put(out, "", sheaf_element_at(in, 0));
    return sleep_ms(1, NULL);
}

static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    struct worker *w = user;
    (void)r;
    (void)out;
    (void)sleep_ms(w->index == 1 ? 40 : 7, NULL);
    const sheaf_tensor *t = sheaf_element_at(in, 0);
    for (int64_t i = 0; i < sheaf_tensor_elements(t); i++)
        w->job->seen[sheaf_tensor_integer(t, i)]++;
    return sheaf_assign_add(w->v, sheaf_long(1), NULL);
}

static void stop_later(void *user)
{
    const struct worker *w = user;
    (void)sheaf__wait_sleep(w->began + w->job->after, SHEAF__NO_TOKEN, NULL);
    sheaf_stop();
}

static int64_t now_of(const struct worker *w)
{
    return sheaf_tensor_integer(sheaf_value(w->v), 0);
}

static sheaf_status open_all(struct worker *w, sheaf_error *err)
{
    const struct job *job = w->job;
    const sheaf_variable_options count = {.not_trainable = true,
                                          .aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA};
    const sheaf_manager_options keep = {
        .max_to_keep = -1, .every_steps = job->every_steps, .save_on_stop = true};
    SHEAF_SCOPE(w->s)
    {
        w->v = sheaf_variable_new("v", sheaf_long(0), &count);
    }
    sheaf_dataset *d = sheaf_dataset_range(0, NUMBERS, 1);
    d = sheaf_dataset_shuffle(d, 7, &(sheaf_shuffle_options){.seed = 3});
    d = sheaf_dataset_batch(sheaf_dataset_map(d, read_slowly, w, NULL), BATCH, NULL);
    d = sheaf_dataset_with_options(d, &(sheaf_dataset_options){.autoshard = SHEAF_AUTOSHARD_DATA});
    w->data = sheaf_distribute_dataset(w->s, sheaf_dataset_prefetch(d, 1), NULL);
    w->checkpoint = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(w->checkpoint, "v", w->v);
    sheaf_checkpoint_add(w->checkpoint, "input", sheaf_dist_dataset_trackable(w->data));
    sheaf_status status =
        sheaf_checkpoint_manager_new(w->checkpoint, job->folder, &keep, &w->manager, err);
    w->began = sheaf__clock_now();
    if (status >= 0 && job->asked & 1U << w->index)
        status = sheaf__thread_start("stopper", stop_later, w, NULL, &w->stopper, err);
    return status;
}

static sheaf_status pass(struct worker *w, sheaf_error *err)
{
    sheaf_dist_iterator *it = sheaf_iterate(w->data);
    sheaf_values *batch;
    SHEAF_EACH(batch, it, err)
    {
        if (sheaf_run(w->s, step, w, batch, NULL, err) < 0)
            break;
        if (w->job->kind == EVALUATION && w->job->asked && w->index == 0 && now_of(w) == 3)
            take_long();
        if (sheaf_manager_step(w->manager, now_of(w), err) != SHEAF_OK)
            break;
    }
    sheaf_dist_iterator_free(it);
    return err->status;
}

static sheaf_status train(struct worker *w, sheaf_error *err)
{
    struct end *end = &w->job->ends[w->index];
    const char *path = NULL;
    SHEAF__TRY(open_all(w, err));
    SHEAF__TRY(sheaf_manager_restore(w->manager, NULL, err));
    const int64_t first = now_of(w);
    while (!sheaf_manager_stopped(w->manager) && sheaf_dist_dataset_passes(w->data) < PASSES)
        SHEAF__TRY(pass(w, err));
    SHEAF__TRY(sheaf_strategy_join(w->s, 0, err));
    const int64_t now = now_of(w);
    SHEAF__TRY(sheaf_manager_end(w->manager, now > first, &path, err));
    *end = (struct end){.step = now,
                        .took = sheaf__clock_now() - w->began - w->job->after,
                        .stopped = sheaf_manager_stopped(w->manager)};
    if (path)
        snprintf(end->checkpoint, sizeof(end->checkpoint), "%s", strrchr(path, '/') + 1);
    return SHEAF_OK;
}

static sheaf_status work(struct rig_task *task)
{
    struct worker w = {.job = task->user, .index = task->index};
    SHEAF__TRY(sheaf_strategy_new(w.job->strategy, NULL, NULL, &w.s, &task->err));
    sheaf_status status = train(&w, &task->err);
    sheaf__thread_join(w.stopper, SHEAF__NO_DEADLINE, NULL);
    sheaf_checkpoint_manager_free(w.manager);
    sheaf_checkpoint_free(w.checkpoint);
    sheaf_dist_dataset_free(w.data);
    sheaf_variable_free(w.v);
    sheaf_strategy_free(w.s);
    return status;
}

/* ---- what came of it ---- */

static int count_checkpoints(const struct job *job)
{
    int count = 0;
    for (int i = 1; i < 3 * STEPS; i++) {
        char path[512];
        sheaf_bundle *b = NULL;
        snprintf(path, sizeof(path), "%s/ckpt-%d", job->folder, i);
        count += sheaf_bundle_open(path, &b, NULL) >= 0;
        sheaf_bundle_free(b);
    }
    return count;
}

static int64_t saved_step(const struct job *job)
{
    sheaf_bundle *b = NULL;
    sheaf_tensor *v = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf_bundle_open(sheaf_checkpoint_latest(job->folder), &b, &err), &err);
    rig_ok(sheaf_bundle_read(b, "v/.ATTRIBUTES/VARIABLE_VALUE", &v, &err), &err);
    sheaf_bundle_free(b);
    return sheaf_tensor_integer(v, 0);
}

/* All have ended together, soon, with one checkpoint of the last step besides those of every so many. */
static void expect_one_end(const struct job *job)
{
    const struct end *first = &job->ends[0];
    const int64_t regular = job->every_steps ? first->step / job->every_steps : 0;
    const bool own =
        !job->every_steps || first->step % job->every_steps || first->step == 0 || !first->stopped;
    for (int w = 0; w < job->workers; w++) {
        const struct end *e = &job->ends[w];
        assert_int_equal(e->step, first->step);
        assert_int_equal(e->stopped, first->stopped);
        assert_string_equal(e->checkpoint, first->checkpoint);
        assert_true(!e->stopped || e->took < 2 * SHEAF__S);
    }
    assert_int_equal(saved_step(job), first->step);
    assert_int_equal(count_checkpoints(job), regular + own);
}

/* Stops a job, and starts it again to its end. The step at which it stopped; -1: it was through by then. */
static int64_t stop_and_go_on(struct job *job, uint64_t seed)
{
    char name[32];
    static int runs;
    snprintf(name, sizeof(name), "run-%d", ++runs);
    job->folder = rig_path(name);
    job->strategy = "multiworker";
    simulate_cluster(seed, (struct jobs){.worker = job->workers}, work, job, 3600);
    expect_one_end(job);
    const bool stopped = job->ends[0].stopped;
    const int64_t step = job->ends[0].step;
    job->asked = 0;
    simulate_cluster(seed, (struct jobs){.worker = job->workers}, work, job, 3600);
    for (int i = 0; i < NUMBERS; i++)
        assert_int_equal(job->seen[i], PASSES);
    for (int w = 0; w < job->workers; w++)
        assert_int_equal(job->ends[w].step, STEPS);
    sheaf_frame_clear();
    return stopped ? step : -1;
}

/* T21: whoever is asked, and whenever: warming up, in a step, reading, saving. One worker is slower. */
static void t21_training(void **state)
{
    (void)state;
    bool stopped_at[STEPS + 1] = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct job job = {.kind = TRAINING,
                          .workers = 1 + (int)(seed % 3),
                          .after = (int64_t)(seed * 11 % 700) * SHEAF__MS,
                          .every_steps = seed % 2 ? 4 : 0};
        static const unsigned asked[] = {1, 2, 4, 7, 6};
        job.asked = asked[seed % 5] & ((1U << job.workers) - 1);
        job.asked = job.asked ? job.asked : 1;
        const int64_t step = stop_and_go_on(&job, seed);
        if (step >= 0)
            stopped_at[step] = true;
    }
    int different = 0;
    for (int i = 0; i < STEPS; i++)
        different += stopped_at[i];
    assert_true(different >= STEPS / 2);
}

/* T21: the data of one worker, or of all, stay away; the others wait for that. */
static void t21_reading(void **state)
{
    (void)state;
    for (int kind = READING; kind <= FIRST_DATA; kind++)
        for (unsigned asked = 1; asked < 8; asked++) {
            struct job job = {
                .kind = (enum kind)kind, .workers = 3, .asked = asked, .after = 5 * SHEAF__S};
            const int64_t step = stop_and_go_on(&job, asked);
            assert_true(kind == READING ? step > 0 && step < STEPS : step == 0);
        }
}

/* T21: a worker evaluates, the others wait for it in a step. */
static void t21_evaluation(void **state)
{
    (void)state;
    for (unsigned asked = 1; asked < 8; asked++) {
        struct job job = {.kind = EVALUATION, .workers = 3, .asked = asked, .after = 5 * SHEAF__S};
        const int64_t step = stop_and_go_on(&job, asked);
        assert_true(step == 3 || step == 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(t21_training),
        rig_test(t21_reading),
        rig_test(t21_evaluation),
    };
    return rig_run(tests);
}
