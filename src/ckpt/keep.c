/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/keep.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/directory.h"
#include "ckpt/save.h"
#include "ckpt/unlisted.h"
#include "format/bundle.h"

#include <string.h>

#define DEFAULT_NEWEST 5

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "a checkpoint manager");
}

static double now(void)
{
    return (double)sheaf__clock_wall() / 1e9;
}

struct sheaf__keep sheaf__keep_init(const char *directory, const char *name,
                                    const sheaf_manager_options *options)
{
    return (struct sheaf__keep){
        .directory = directory,
        .name = name,
        .newest = options->max_to_keep ? options->max_to_keep : DEFAULT_NEWEST,
        .best = options->keep_best,
        .lower_is_better = options->lower_is_better,
        .every = options->keep_every_hours * 3600,
        .since = now(),
    };
}

void sheaf__keep_free(struct sheaf__keep *k)
{
    sheaf__state_file_free(&k->state);
}

void sheaf__keep_forget(struct sheaf__keep *k)
{
    sheaf__state_file_free(&k->state);
    k->adopted = false;
}

/* The N of a relative path "<name>-N"; -1: it is none of ours. Only ours are ever deleted. */
static int64_t number_of(const struct sheaf__keep *k, const char *path)
{
    return sheaf__directory_number(path, strlen(path), k->name);
}

/* As TensorFlow's manager does: time begins a little before the first one, so that all that it saves is
 * later; and what is not later than the last one that stays for ever, as the clock was put back, is
 * left alone. */
static void adopt_times(struct sheaf__keep *k, bool fresh)
{
    struct sheaf__state_file *s = &k->state;
    if (!s->has_last_preserved)
        s->last_preserved = fresh ? k->since - 1 : 0;
    s->has_last_preserved = true;
    if (s->last_preserved > k->since) {
        sheaf__log(SHEAF_LOG_WARN, "%s/checkpoint is of the future: the clock was put back",
                   k->directory);
        s->last_preserved = k->since;
    }
    for (size_t i = s->time_count; i-- > 0;) {
        s->times[i] = s->times[i] < k->since ? s->times[i] : k->since;
        if (s->times[i] <= s->last_preserved)
            sheaf__state_file_drop(s, i);
    }
}

/* Where in the list, oldest first, a checkpoint of ours belongs by its number. */
static size_t place_of(const struct sheaf__keep *k, const char *name)
{
    size_t at = k->state.paths.count;
    while (at > 0 && number_of(k, k->state.paths.items[at - 1]) > number_of(k, name))
        at--;
    return at;
}

/* What was begun by a process that has ended since, and is complete, is taken over. */
static sheaf_status adopt_unlisted(struct sheaf__keep *k, sheaf_error *err)
{
    struct sheaf__state_file *s = &k->state;
    struct sheaf__strings found = {0};
    sheaf_status status = sheaf__unlisted_find(k->directory, k->name, &found, err);
    for (size_t i = 0; i < found.count && status >= 0; i++) {
        const char *name = found.items[i];
        char *path = sheaf__path_join(k->directory, name);
        const bool missing =
            path && sheaf__directory_has(path) && !sheaf__strings_has(&s->paths, name);
        if (!path || (missing && !sheaf__state_file_insert(s, place_of(k, name), name, k->since)))
            status = no_memory(err);
        sheaf__free(path);
    }
    sheaf__strings_clear(&found);
    return status;
}

/* Takes over what an earlier run left: only its own kind, and only what is there. */
static sheaf_status adopt(struct sheaf__keep *k, sheaf_error *err)
{
    struct sheaf__state_file *s = &k->state;
    if (k->adopted)
        return SHEAF_OK;
    const bool fresh = sheaf__state_file_read(s, k->directory, NULL) < 0;
    if (fresh)
        *s = (struct sheaf__state_file){0};
    k->adopted = true;
    for (size_t i = s->paths.count; i-- > 0;) {
        char *full = sheaf__directory_resolve(k->directory, s->paths.items[i]);
        if (!full)
            return no_memory(err);
        if (number_of(k, s->paths.items[i]) < 0 || !sheaf__directory_has(full))
            sheaf__state_file_drop(s, i);
        sheaf__free(full);
    }
    SHEAF__TRY(adopt_unlisted(k, err));
    adopt_times(k, fresh);
    return SHEAF_OK;
}

static sheaf_status add(struct sheaf__keep *k, const char *path, sheaf_error *err)
{
    struct sheaf__state_file *s = &k->state;
    const char *name = sheaf__path_name(path);
    for (size_t i = s->paths.count; i-- > 0;) {
        if (!strcmp(s->paths.items[i], name))
            sheaf__state_file_drop(s, i);
    }
    return sheaf__state_file_add_latest(s, name, now()) ? SHEAF_OK : no_memory(err);
}

/* ---- which ones stay ---- */

/* How good a checkpoint is: higher is better. */
struct worth {
    bool known;
    bool unsure; /* it cannot be read: not for us to delete */
    double value;
};

static struct worth worth_of(const struct sheaf__keep *k, const char *name)
{
    sheaf_error fault = {0};
    struct sheaf__sidecar s = {0};
    char *path = sheaf__directory_resolve(k->directory, name);
    sheaf_status status = path ? sheaf__directory_sidecar(path, &s, &fault) : no_memory(&fault);
    struct worth w = {.known = s.has_measure,
                      .unsure = status < 0,
                      .value = k->lower_is_better ? -s.measure : s.measure};
    if (status < 0)
        sheaf__log(SHEAF_LOG_WARN, "checkpoint '%s' stays, how good it is cannot be read: %s (%s)",
                   name, fault.message, fault.file);
    sheaf__sidecar_free(&s);
    sheaf__free(path);
    return w;
}

/* Whether `best` others are better, or as good and newer. */
static bool is_beaten(const struct sheaf__keep *k, const struct worth *worths, size_t i)
{
    int better = 0;
    for (size_t j = 0; j < k->state.paths.count; j++)
        better += worths[j].known && (worths[j].value > worths[i].value ||
                                      (worths[j].value == worths[i].value && j > i));
    return better >= k->best;
}

/* Whether each checkpoint goes, into `goes`. */
static sheaf_status choose(const struct sheaf__keep *k, bool *goes, sheaf_error *err)
{
    const size_t count = k->state.paths.count, newest = (size_t)k->newest;
    for (size_t i = 0; i < count; i++)
        goes[i] = i + newest < count;
    if (!k->best || count <= newest)
        return SHEAF_OK;
    struct worth *worths = sheaf__calloc(count, sizeof(*worths));
    if (!worths)
        return no_memory(err);
    for (size_t i = 0; i < count; i++)
        worths[i] = worth_of(k, k->state.paths.items[i]);
    for (size_t i = 0; i < count; i++)
        goes[i] = goes[i] && !worths[i].unsure && (!worths[i].known || is_beaten(k, worths, i));
    sheaf__free(worths);
    return SHEAF_OK;
}

/* ---- the sweep ---- */

/* One that stays for ever leaves the list, which would grow for ever, too. */
static bool is_preserved(struct sheaf__keep *k, size_t i)
{
    struct sheaf__state_file *s = &k->state;
    if (!(k->every > 0) || i >= s->time_count || s->times[i] - k->every < s->last_preserved)
        return false;
    s->last_preserved = s->times[i];
    return true;
}

static bool delete_one(const struct sheaf__keep *k, const char *name)
{
    sheaf_error fault = {0};
    char *path = sheaf__directory_resolve(k->directory, name);
    sheaf__unlisted_note(k->directory, k->name, name); /* the rest of it, if this is interrupted */
    const sheaf_status status = path ? sheaf__bundle_delete(path, &fault) : no_memory(&fault);
    sheaf__free(path);
    if (status < 0)
        sheaf__log(SHEAF_LOG_WARN, "old checkpoint '%s' not deleted: %s (%s)", name, fault.message,
                   fault.file);
    return status >= 0;
}

/* The oldest first; what cannot be deleted is tried again next time. True if the list has changed. */
static bool sweep(struct sheaf__keep *k, const bool *goes)
{
    struct sheaf__state_file *s = &k->state;
    const size_t count = s->paths.count;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (goes[i] && (is_preserved(k, at) || delete_one(k, s->paths.items[at])))
            sheaf__state_file_drop(s, at);
        else
            at++;
    }
    return at < count;
}

static sheaf_status write_state(const struct sheaf__keep *k, struct sheaf__save_group *group,
                                sheaf_error *err)
{
    SHEAF__TRY(sheaf__state_file_write(&k->state, k->directory, sheaf__ckpt_leave, group, err));
    sheaf__unlisted_clear(k->directory, k->name);
    return SHEAF_OK;
}

void sheaf__keep_begin(const struct sheaf__keep *k, const char *path)
{
    sheaf__unlisted_note(k->directory, k->name, path);
}

void sheaf__keep_give_up(const struct sheaf__keep *k, const char *path)
{
    sheaf__unlisted_withdraw(k->directory, k->name, path);
}

sheaf_status sheaf__keep_add(struct sheaf__keep *k, const char *path,
                             struct sheaf__save_group *group, sheaf_error *err)
{
    SHEAF__TRY(adopt(k, err));
    SHEAF__TRY(add(k, path, err));
    SHEAF__TRY(write_state(k, group, err));
    if (k->newest < 0)
        return SHEAF_OK;
    bool *goes = sheaf__calloc(k->state.paths.count, sizeof(*goes));
    if (!goes)
        return no_memory(err);
    sheaf_status status = choose(k, goes, err);
    const bool changed = status >= 0 && sweep(k, goes);
    sheaf__free(goes);
    return changed ? write_state(k, group, err) : status;
}
