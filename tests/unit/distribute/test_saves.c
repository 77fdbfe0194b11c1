/* SPDX-License-Identifier: Apache-2.0 */

/* Saves of workers that train in step, in simulations: whoever is slow, all return when the checkpoint is there. */

#include "helpers.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/wait.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 4, SAVES = 3 };

struct job {
    const char *folder;
    int late;            /* the rank that comes 2 s late to each save; -1: none */
    bool slow_disk;      /* every rename takes 2 s */
    bool foreign;        /* after the first save rank 0 copies checkpoints in */
    struct job *second;  /* which rank 0 starts between its saves; NULL: none */
    _Atomic int refused; /* ranks of a second job that ended with its refusal */
};

/* ---- a slow disk ---- */

static int slow_rename(void *user, const char *from, const char *to)
{
    const struct sheaf__fs *disk = sheaf__fs_system();
    (void)user;
    (void)sheaf__wait_sleep(sheaf__clock_after(2 * SHEAF__S), NULL, NULL);
    return disk->rename(disk->user, from, to);
}

static struct sheaf__fs slow_disk;

static sheaf_status add_one(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    (void)r;
    (void)in;
    (void)out;
    return sheaf_assign_add(user, sheaf_float(1), NULL);
}

/* What a rank finds when its save has returned. */
static sheaf_status look(struct rig_task *task, const char *folder, const char *path, int64_t began)
{
    const struct job *job = task->user;
    sheaf_bundle *b = NULL;
    SHEAF__TRY(sheaf_bundle_open(path, &b, &task->err));
    sheaf_status status = sheaf_bundle_verify(b, &task->err);
    sheaf_bundle_free(b);
    SHEAF__TRY(status);
    if (!job->foreign) /* one that is copied in is newer */
        RIG_CHECK(task, strcmp(sheaf_checkpoint_latest(folder), path) == 0);
    if (job->late >= 0 || job->slow_disk)
        RIG_CHECK(task, sheaf__clock_now() - began >= 2 * SHEAF__S);
    return SHEAF_OK;
}

/* ---- what else is in the directory ---- */

static const char *const foreign[] = {"best-7", "ckpt-90"};
static const char *const parts[] = {".index", ".data-00000-of-00001"};

/* Copies a checkpoint under the foreign names. */
static sheaf_status copy_in(const char *path, sheaf_error *err)
{
    const int folder = (int)(sheaf__path_name(path) - path);
    for (int i = 0; i < 4; i++) {
        char from[512], to[512], *bytes = NULL;
        size_t size = 0;
        snprintf(from, sizeof(from), "%s%s", path, parts[i % 2]);
        snprintf(to, sizeof(to), "%.*s%s%s", folder, path, foreign[i / 2], parts[i % 2]);
        SHEAF__TRY(sheaf__file_read_all(from, 1 << 20, &bytes, &size, err));
        sheaf_status status = sheaf__file_replace(to, bytes, size, err);
        sheaf__free(bytes);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

static sheaf_status be_refused(struct rig_task *task);

/* ---- one job ---- */

static sheaf_status save(struct rig_task *task, sheaf_strategy *s, sheaf_variable *v,
                         sheaf_checkpoint_manager *m)
{
    const struct job *job = task->user;
    for (int i = 0; i < SAVES; i++) {
        const char *path = NULL;
        SHEAF__TRY(sheaf_run(s, add_one, v, NULL, NULL, &task->err));
        const int64_t began = sheaf__clock_now();
        if (task->index == job->late)
            SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(2 * SHEAF__S), NULL, &task->err));
        SHEAF__TRY(sheaf_manager_save(m, false, &path, &task->err));
        SHEAF__TRY(look(task, job->folder, path, task->index == job->late ? 0 : began));
        if (job->foreign && i == 0 && task->index == 0)
            SHEAF__TRY(copy_in(path, &task->err));
        if (job->second && task->index == 0)
            run_cluster((struct jobs){.worker = RANKS}, be_refused, job->second, 600);
    }
    return SHEAF_OK;
}

static sheaf_status work(struct rig_task *task)
{
    const struct job *job = task->user;
    const sheaf_variable_options options = {.aggregation = SHEAF_AGGREGATION_MEAN};
    const sheaf_manager_options keep = {.max_to_keep = 1};
    sheaf_strategy *s = NULL;
    sheaf_checkpoint_manager *m = NULL;
    sheaf_variable *v = NULL;
    if (job->slow_disk)
        sheaf__context_set_fs(task->context, &slow_disk);
    SHEAF__TRY(sheaf_strategy_new("multiworker", NULL, NULL, &s, &task->err));
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("v", sheaf_float(0), &options);
    }
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(c, "v", v);
    sheaf_status status = sheaf_checkpoint_manager_new(c, job->folder, &keep, &m, &task->err);
    if (status >= 0)
        status = sheaf_manager_restore(m, NULL, &task->err);
    if (status >= 0)
        status = save(task, s, v, m);
    sheaf_checkpoint_manager_free(m);
    sheaf_checkpoint_free(c);
    sheaf_variable_free(v);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, &task->err);
    sheaf_strategy_free(s);
    return status;
}

/* T61: four ranks save at once, each of them late in its turn or the disk slow: all return only after the commit. */
static void t61_all_return_after_the_commit(void **state)
{
    (void)state;
    slow_disk = *sheaf__fs_system();
    slow_disk.rename = slow_rename;
    for (int late = -1; late <= RANKS; late++) {
        char name[32];
        snprintf(name, sizeof(name), "run%d", late);
        struct job job = {
            .folder = rig_path(name), .late = late < RANKS ? late : -1, .slow_disk = late == RANKS};
        simulate_cluster((uint64_t)(late + 2), (struct jobs){.worker = RANKS}, work, &job, 600);
    }
}

/* Every rank of it ends, and says why. */
static sheaf_status be_refused(struct rig_task *task)
{
    struct job *job = task->user;
    sheaf_status status = work(task);
    RIG_CHECK(task, status == SHEAF_ERR_FAILED_PRECONDITION);
    RIG_CHECK(task, strstr(task->err.message,
                           "another process, or manager, saves checkpoints in the directory"));
    job->refused++;
    return SHEAF_OK;
}

/* T61: a second job in the directory is refused on all its ranks, and the first one goes on. */
static void t61_second_job(void **state)
{
    (void)state;
    struct job second = {.folder = rig_path("run"), .late = -1};
    struct job first = {.folder = second.folder, .late = -1, .second = &second};
    simulate_cluster(1, (struct jobs){.worker = RANKS}, work, &first, 600);
    assert_int_equal(second.refused, SAVES * RANKS);
}

/* T61: complete checkpoints that somebody copied in are never deleted, nor replaced where they have our name. */
static void t61_foreign_checkpoints(void **state)
{
    (void)state;
    static const char *const whole[] = {"run/best-7", "run/ckpt-90", "run/ckpt-92"};
    struct job job = {.folder = rig_path("run"), .late = -1, .foreign = true};
    simulate_cluster(1, (struct jobs){.worker = RANKS}, work, &job, 600);
    for (int i = 0; i < 3; i++) {
        sheaf_bundle *b = NULL;
        sheaf_tensor *v = NULL;
        sheaf_error err = {0};
        rig_ok(sheaf_bundle_open(rig_path(whole[i]), &b, &err), &err);
        rig_ok(sheaf_bundle_verify(b, &err), &err);
        rig_ok(sheaf_bundle_read(b, "v/.ATTRIBUTES/VARIABLE_VALUE", &v, &err), &err);
        assert_true(sheaf_tensor_number(v, 0) == (i < 2 ? 1 : SAVES));
        sheaf_bundle_free(b);
    }
    assert_false(sheaf__file_exists(rig_path("run/ckpt-1.index")));
    assert_false(sheaf__file_exists(rig_path("run/ckpt-91.index")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(t61_all_return_after_the_commit),
                                       rig_test(t61_second_job), rig_test(t61_foreign_checkpoints)};
    return rig_run(tests);
}
