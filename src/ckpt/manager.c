/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/halt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/checkpoint.h"
#include "ckpt/directory.h"
#include "ckpt/keep.h"
#include "ckpt/lock.h"
#include "ckpt/sweep.h"
#include "tensor/frame.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct sheaf_checkpoint_manager {
    sheaf_checkpoint *checkpoint;
    char *directory;
    char *name;
    char *prefix;                    /* directory and name */
    char *newest;                    /* checkpoint that was restored or saved; NULL: none */
    struct sheaf__save_group *group; /* of the save that is under way */
    bool saves;                      /* this process has the directory, alone or for its job */
    struct sheaf__file *lock;        /* NULL: it has none, or the group holds it */
    int64_t every_steps;
    sheaf_checkpoint_options save;
    bool background;
    struct sheaf__snapshot snapshot; /* of saves in the background */
    struct sheaf__next_save next;    /* that is under way */
    bool stepped;                    /* `last_step` is known */
    int64_t last_step;
    bool saved_step;         /* and that is what was saved last */
    sheaf_context *orderly;  /* that ends in order because of this; NULL: not */
    struct sheaf__keep keep; /* which ones stay */
    bool has_measure;        /* of the next save */
    double measure;
};

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "a checkpoint manager");
}

void sheaf_checkpoint_manager_free(sheaf_checkpoint_manager *m)
{
    if (!m)
        return;
    if (m->orderly)
        sheaf__context_end_in_order(m->orderly, false);
    sheaf__ckpt_save_drop(m->next.saving);
    sheaf__free(m->next.path);
    sheaf__snapshot_free(&m->snapshot);
    sheaf__ckpt_unlock(m->lock);
    sheaf__keep_free(&m->keep);
    sheaf__free(m->directory);
    sheaf__free(m->name);
    sheaf__free(m->prefix);
    sheaf__free(m->newest);
    sheaf__free(m);
}

static sheaf_status check_options(const sheaf_manager_options *options, sheaf_error *err)
{
    for (size_t i = 0; i < sizeof(options->reserved) / sizeof(options->reserved[0]); i++) {
        if (options->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "manager options: reserved[%zu] is not 0", i);
    }
    if (options->every_steps < 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "manager options: every_steps is %" PRId64 ", expected 0 or more",
                            options->every_steps);
    if (options->name && (!*options->name || strchr(options->name, '/')))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "manager options: name is '%s', expected that of a file",
                            options->name);
    if (options->keep_best < 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "manager options: keep_best is %d, expected 0 or more",
                            options->keep_best);
    if (!(options->keep_every_hours >= 0) || isinf(options->keep_every_hours))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "manager options: keep_every_hours is %g, expected a finite number, 0 "
                            "or more",
                            options->keep_every_hours);
    return sheaf__ckpt_check_options(&options->save, err);
}

/* This process is the one that saves from now on. */
static sheaf_status begin_saves(sheaf_checkpoint_manager *m, struct sheaf__save_group *g,
                                sheaf_error *err)
{
    int64_t last = 0;
    SHEAF__TRY(g && g->cls->turns ? g->cls->turns->take(g, m->prefix, &last, err)
                                  : sheaf__ckpt_lock(m->prefix, &m->lock, err));
    sheaf__sweep_leftovers(m->directory, m->name);
    char *unfinished = last > 0 ? sheaf__printf("%s-%" PRId64, m->prefix, last) : NULL;
    if (unfinished)
        sheaf__sweep_unfinished(unfinished);
    sheaf__free(unfinished);
    m->saves = true;
    return SHEAF_OK;
}

/* Where the directory of that name is not the one that this process took, it has to take that one, too. */
static void see_where_it_is(sheaf_checkpoint_manager *m)
{
    if (!m->lock || sheaf__ckpt_lock_holds(m->lock))
        return;
    sheaf__log(
        SHEAF_LOG_WARN,
        "the directory of checkpoints '%s' is no longer the one that this process has: it was "
        "moved or deleted, or the process works in another one",
        m->directory);
    sheaf__ckpt_unlock(m->lock);
    m->lock = NULL;
    m->saves = false;
    sheaf__keep_forget(&m->keep);
    if (m->group) /* whose tasks have all to choose the same at the end */
        return;
    sheaf__free(m->newest);
    m->newest = NULL;
}

/* Who saves, and in how far it is this process. */
static sheaf_status look_who_saves(sheaf_checkpoint_manager *m, struct sheaf__ckpt_save *how,
                                   sheaf_error *err)
{
    SHEAF__TRY(sheaf__checkpoint_writes(m->checkpoint, how, err));
    m->group = how->group;
    see_where_it_is(m);
    if (!how->writes)
        return SHEAF_OK;
    SHEAF__TRY(sheaf__file_mkdir(m->directory, 0, err));
    return m->saves ? SHEAF_OK : begin_saves(m, how->group, err);
}

static struct sheaf__halt *halt_of(const sheaf_checkpoint_manager *m)
{
    return m->group ? m->group->halt : NULL;
}

bool sheaf_manager_stopped(const sheaf_checkpoint_manager *m)
{
    return m && m->orderly && sheaf__halt_is_over(halt_of(m));
}

sheaf_status sheaf_checkpoint_manager_new(sheaf_checkpoint *c, const char *directory,
                                          const sheaf_manager_options *options,
                                          sheaf_checkpoint_manager **manager, sheaf_error *err)
{
    static const sheaf_manager_options defaults;
    const sheaf_manager_options *o = options ? options : &defaults;
    SHEAF__TRY(check_options(o, err));
    if (!directory || !*directory)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "no directory of checkpoints");
    sheaf_checkpoint_manager *m = sheaf__calloc(1, sizeof(*m));
    if (!m)
        return no_memory(err);
    m->checkpoint = c;
    m->directory = sheaf__strdup(directory);
    m->name = sheaf__strdup(o->name ? o->name : "ckpt");
    m->prefix = m->directory && m->name ? sheaf__path_join(directory, m->name) : NULL;
    m->keep = sheaf__keep_init(m->directory, m->name, o);
    m->every_steps = o->every_steps;
    m->save = o->save;
    m->background = o->background;
    /* Before any worker can be beyond this. */
    m->orderly = o->save_on_stop ? sheaf__context() : NULL;
    if (m->orderly)
        sheaf__context_end_in_order(m->orderly, true);
    /* If it is this process, better now than after the first hour of training. */
    struct sheaf__ckpt_save how = {0};
    sheaf_status status = m->prefix ? look_who_saves(m, &how, err) : no_memory(err);
    if (how.group && how.group->cls->finish)
        status = how.group->cls->finish(how.group, status, err);
    if (status < 0) {
        sheaf_checkpoint_manager_free(m);
        return status;
    }
    if (m->orderly)
        sheaf__halt_begin(halt_of(m));
    *manager = m;
    return SHEAF_OK;
}

static sheaf_status set_newest(sheaf_checkpoint_manager *m, const char *path, sheaf_error *err)
{
    char *copy = path ? sheaf__strdup(path) : NULL;
    if (path && !copy)
        return no_memory(err);
    sheaf__free(m->newest);
    m->newest = copy;
    return SHEAF_OK;
}

static void begun(void *user, const char *path)
{
    sheaf_checkpoint_manager *m = user;
    sheaf__keep_begin(&m->keep, path);
}

static void given_up(void *user, const char *path)
{
    sheaf_checkpoint_manager *m = user;
    sheaf__keep_give_up(&m->keep, path);
}

static sheaf_status committed(void *user, const char *path, sheaf_error *err)
{
    sheaf_checkpoint_manager *m = user;
    return sheaf__keep_add(&m->keep, path, m->group, err);
}

static sheaf_status check_manager(const sheaf_checkpoint_manager *m, sheaf_error *err)
{
    return m ? SHEAF_OK
             : sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the checkpoint manager is NULL");
}

/* Sees the save that is under way to its end. `*path` is text of the frame; NULL: there was none, or this process had no
 * part in it. */
static sheaf_status settle(sheaf_checkpoint_manager *m, const char **path, sheaf_error *err)
{
    *path = NULL;
    if (!m->next.saving)
        return SHEAF_OK;
    SHEAF__TRY(sheaf__checkpoint_end_next(m->checkpoint, &m->next, path, err));
    return *path ? set_newest(m, *path, err) : SHEAF_OK;
}

/* Whether the next save is written while the program goes on. Who has no part in it has nothing to wait for. */
static bool goes_on(const sheaf_checkpoint_manager *m, const struct sheaf__ckpt_save *how,
                    bool last)
{
    const bool takes_part = how->writes || (m->group && m->group->cls->finish);
    return m->background && !last && takes_part;
}

sheaf_status sheaf_manager_wait(sheaf_checkpoint_manager *m, sheaf_error *err)
{
    const char *path;
    SHEAF__TRY(check_manager(m, err));
    return settle(m, &path, err);
}

void sheaf_manager_measure(sheaf_checkpoint_manager *m, double value)
{
    if (!m)
        return;
    m->has_measure = isfinite(value);
    m->measure = value;
}

sheaf_status sheaf_manager_save(sheaf_checkpoint_manager *m, bool last, const char **path,
                                sheaf_error *err)
{
    SHEAF__TRY(check_manager(m, err));
    sheaf_checkpoint_options options = m->save;
    options.last |= last;
    struct sheaf__ckpt_save how = {.options = &options,
                                   .keeps = true,
                                   .begun = begun,
                                   .given_up = given_up,
                                   .committed = committed,
                                   .user = m,
                                   .has_measure = m->has_measure,
                                   .measure = m->measure};
    const char *saved = NULL;
    SHEAF__TRY(settle(m, &saved, err));
    SHEAF__TRY(look_who_saves(m, &how, err));
    m->has_measure = false;
    how.snapshot = goes_on(m, &how, last) ? &m->snapshot : NULL;
    SHEAF__TRY(sheaf__checkpoint_begin_next(m->checkpoint, &how, m->prefix, &m->next, err));
    if (how.snapshot)
        saved = sheaf__frame_text(m->next.path, strlen(m->next.path));
    else
        SHEAF__TRY(settle(m, &saved, err));
    if (path)
        *path = saved;
    return SHEAF_OK;
}

/* Whether there is nothing to save that the newest checkpoint does not have. Who stops before the step after one that was
 * saved has it all; but for parameter servers, which other workers go on to update. */
static bool is_newest(const sheaf_checkpoint_manager *m, bool changed)
{
    const bool alone = !m->group || !m->group->cls->turns;
    return m->newest && (!changed || (m->saved_step && alone && sheaf_manager_stopped(m)));
}

sheaf_status sheaf_manager_end(sheaf_checkpoint_manager *m, bool changed, const char **path,
                               sheaf_error *err)
{
    struct sheaf__ckpt_save how = {0};
    SHEAF__TRY(sheaf_manager_wait(m, err));
    see_where_it_is(m);
    if (!is_newest(m, changed))
        return sheaf_manager_save(m, true, path, err);
    SHEAF__TRY(look_who_saves(m, &how, err));
    if (how.writes)
        SHEAF__TRY(sheaf__directory_end_run(m->newest, err));
    if (path)
        *path = sheaf__frame_text(m->newest, strlen(m->newest));
    return SHEAF_OK;
}

/* Rounds down, for negative steps too. */
static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

sheaf_status sheaf_manager_step(sheaf_checkpoint_manager *m, int64_t step, sheaf_error *err)
{
    SHEAF__TRY(check_manager(m, err));
    m->saved_step = false;
    if (m->orderly) {
        const sheaf_status status = sheaf__halt_pass(halt_of(m), err);
        if (status != SHEAF_OK)
            return status;
    }
    if (!m->every_steps)
        return SHEAF_OK;
    /* The first call only looks at its own step: those before were saved by an earlier run. */
    int64_t before = m->stepped ? m->last_step : step - 1;
    m->last_step = step;
    m->stepped = true;
    if (floor_divide(step, m->every_steps) <= floor_divide(before, m->every_steps))
        return SHEAF_OK;
    SHEAF__TRY(sheaf_manager_save(m, false, NULL, err));
    m->saved_step = true;
    return SHEAF_OK;
}

/* Restoring the newest complete one. */

/* An older one will do; of the last one the error speaks. */
static void leave_out(const struct sheaf__strings *paths, size_t i, const sheaf_error *damage)
{
    if (i + 1 < paths->count)
        sheaf__checkpoint_leave_out(paths->items[i], damage);
}

/* One task alone. `*path` is text of `paths`. */
static sheaf_status restore_first(sheaf_checkpoint_manager *m, const struct sheaf__strings *paths,
                                  const char **path, sheaf_error *err)
{
    sheaf_error fault = {0};
    for (size_t i = 0; i < paths->count; i++) {
        bool damaged;
        fault = (sheaf_error){0};
        if (sheaf__checkpoint_try(m->checkpoint, paths->items[i], &damaged, &fault) >= 0) {
            *path = paths->items[i];
            return SHEAF_OK;
        }
        if (!damaged)
            break;
        leave_out(paths, i, &fault);
    }
    return paths->count ? sheaf__error_copy(err, &fault) : SHEAF_OK;
}

/* Several tasks: the chief chooses by reading everything. `*path` is text of `paths`. */
static sheaf_status choose_first(sheaf_checkpoint_manager *m, const struct sheaf__strings *paths,
                                 const char **path, sheaf_error *err)
{
    sheaf_error damage = {0};
    (void)m;
    for (size_t i = 0; i < paths->count; i++) {
        damage = (sheaf_error){0};
        if (sheaf__checkpoint_verify(paths->items[i], &damage) >= 0) {
            *path = paths->items[i];
            return SHEAF_OK;
        }
        leave_out(paths, i, &damage);
    }
    return paths->count ? sheaf__error_copy(err, &damage) : SHEAF_OK;
}

/* Restores or chooses the first candidate that `use` can; `*path` is text of the frame, or NULL. */
static sheaf_status first_candidate(sheaf_checkpoint_manager *m,
                                    sheaf_status (*use)(sheaf_checkpoint_manager *m,
                                                        const struct sheaf__strings *paths,
                                                        const char **path, sheaf_error *err),
                                    const char **path, sheaf_error *err)
{
    struct sheaf__strings paths = {0};
    const char *found = NULL;
    sheaf_status status = sheaf__directory_candidates(m->directory, m->name, true, &paths, err);
    if (status >= 0)
        status = use(m, &paths, &found, err);
    if (status >= 0)
        *path = found ? sheaf__frame_text(found, strlen(found)) : NULL;
    sheaf__strings_clear(&paths);
    return status;
}

static sheaf_status restore_newest(sheaf_checkpoint_manager *m, struct sheaf__save_group *g,
                                   const char **path, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    if (!g || !g->cls->agree)
        return first_candidate(m, restore_first, path, err);
    *path = NULL;
    if (g->cls->restores(g))
        status = first_candidate(m, choose_first, path, err);
    if (status < 0) {
        /* The others wait for the choice: they get the failure instead. */
        return g->cls->finish ? g->cls->finish(g, status, err) : status;
    }
    SHEAF__TRY(g->cls->agree(g, path, err));
    return *path ? sheaf_checkpoint_restore(m->checkpoint, *path, err) : SHEAF_OK;
}

/* The others begin when the chief has restored what all use; then what is their own, from the
 * newest checkpoint there is by then. */
static sheaf_status restore_in_turn(sheaf_checkpoint_manager *m, struct sheaf__save_group *g,
                                    const char **path, sheaf_error *err)
{
    if (!g->cls->restores(g)) {
        SHEAF__TRY(g->cls->follow(g, path, err));
        return *path ? restore_newest(m, g, path, err) : SHEAF_OK;
    }
    SHEAF__TRY(restore_newest(m, g, path, err));
    const char *said = *path;
    return g->cls->follow(g, &said, err);
}

sheaf_status sheaf_manager_restore(sheaf_checkpoint_manager *m, const char **path, sheaf_error *err)
{
    struct sheaf__save_group *g = NULL;
    const char *found = NULL;
    SHEAF__TRY(sheaf_manager_wait(m, err));
    SHEAF__TRY(sheaf__checkpoint_group(m->checkpoint, &g, err));
    SHEAF__TRY(g && g->cls->follow ? restore_in_turn(m, g, &found, err)
                                   : restore_newest(m, g, &found, err));
    SHEAF__TRY(set_newest(m, found, err));
    if (path)
        *path = found;
    return SHEAF_OK;
}
