/* SPDX-License-Identifier: Apache-2.0 */
#include "data/trail.h"

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "data/draws.h"

#include <string.h>

/* Files whose records are remembered: what they take in a position stays below 12 KiB. */
#define MOST_FILES 1024

struct sheaf__trail {
    struct sheaf__marks marks;
    struct sheaf__mutex lock; /* guards what follows */
    uint64_t *reached;        /* by our own draws, for every mark */
    sheaf_error refusal;
    struct sheaf__strmap files;
};

sheaf_status sheaf__trail_new(sheaf_dataset *d, struct sheaf__trail **trail, sheaf_error *err)
{
    struct sheaf__trail *t = sheaf__calloc(1, sizeof(*t));
    sheaf_status status = t ? sheaf__marks_take(&t->marks, d, NULL, err) : SHEAF_OK;
    if (t && status >= 0)
        t->reached = sheaf__alloc_array(t->marks.count, sizeof(*t->reached));
    if (!t || !t->reached) {
        sheaf__trail_free(t);
        return sheaf__no_memory(err, "an iterator");
    }
    for (size_t i = 0; i < t->marks.count; i++)
        t->reached[i] = t->marks.items[i].count;
    *trail = t;
    return SHEAF_OK;
}

void sheaf__trail_free(struct sheaf__trail *trail)
{
    if (!trail)
        return;
    sheaf__marks_free(&trail->marks);
    sheaf__free(trail->reached);
    sheaf__strmap_clear(&trail->files, NULL);
    sheaf__free(trail);
}

const struct sheaf__marks *sheaf__trail_marks(const struct sheaf__trail *trail)
{
    return &trail->marks;
}

/* ---- what would not come again ---- */

/* The first reason is kept. */
static void refuse(struct sheaf__trail *trail, const sheaf_error *err)
{
    sheaf__mutex_lock(&trail->lock);
    sheaf__error_keep_first(&trail->refusal, err);
    sheaf__mutex_unlock(&trail->lock);
}

static sheaf_status unstable(const sheaf_dataset *d, const char *why, sheaf_error *err)
{
    char name[64];
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION, "%s has no position to save: %s",
                        sheaf__dataset_name(d, name), why);
}

sheaf_status sheaf__trail_check(struct sheaf__trail *trail, sheaf_error *err)
{
    sheaf__mutex_lock(&trail->lock);
    sheaf_status status = sheaf__error_copy(err, &trail->refusal);
    sheaf__mutex_unlock(&trail->lock);
    return status;
}

sheaf_status sheaf__trail_check_stages(const sheaf_dataset *d, bool unordered, sheaf_error *err)
{
    const struct sheaf__stage_ops *ops = d->stage->ops;
    const char *why = ops->unstable ? ops->unstable(d, unordered) : NULL;
    for (size_t i = 0; i < d->input_count; i++)
        SHEAF__TRY(sheaf__trail_check_stages(d->inputs[i], unordered, err));
    return why ? unstable(d, why, err) : SHEAF_OK;
}

void sheaf__trail_draw(struct sheaf__trail *trail, const sheaf_dataset *d, uint64_t from,
                       uint64_t to)
{
    bool others = false;
    size_t i = 0;
    if (!trail)
        return;
    while (i < trail->marks.count && trail->marks.items[i].dataset != d)
        i++;
    if (i == trail->marks.count)
        return; /* of a dataset that a function made */
    sheaf__mutex_lock(&trail->lock);
    others = trail->reached[i] != from;
    trail->reached[i] = to;
    sheaf__mutex_unlock(&trail->lock);
    if (!others)
        return;
    sheaf_error err;
    unstable(d, "another iterator of the dataset took seeds while this one still did", &err);
    refuse(trail, &err);
}

/* Whether the stages of a dataset that a function made would be made the same again. */
static sheaf_status check_made(const sheaf_dataset *d, bool shared, sheaf_error *err)
{
    const struct sheaf__draws *draws = sheaf__draws_of(d);
    shared = shared || !sheaf__object_unique(d);
    for (size_t i = 0; i < d->input_count; i++)
        SHEAF__TRY(check_made(d->inputs[i], shared, err));
    if (draws && !draws->seeded)
        return unstable(d, "it has no seed", err);
    if (draws && shared && !draws->fixed)
        return unstable(d, "the function gives the same dataset, not a new one", err);
    return SHEAF_OK;
}

void sheaf__trail_made(struct sheaf__trail *trail, const sheaf_dataset *by, const sheaf_dataset *d,
                       bool unordered)
{
    sheaf_error err = {0};
    char name[64];
    if (!trail || d->error.status < 0)
        return;
    if (sheaf__trail_check_stages(d, unordered, &err) >= 0 && check_made(d, false, &err) >= 0)
        return;
    sheaf__error_prefix(&err, "%s: in a dataset that the function made",
                        sheaf__dataset_name(by, name));
    refuse(trail, &err);
}

/* ---- files ---- */

uint64_t sheaf__trail_file(const char *path, uint64_t kind)
{
    struct sheaf__file_stat stat;
    if (sheaf__file_stat(path, &stat, NULL) < 0)
        return 0;
    const uint64_t facts[] = {kind, sheaf__hash(path, strlen(path)), stat.size,
                              (uint64_t)stat.mtime_ns};
    return sheaf__hash(facts, sizeof(facts));
}

void sheaf__trail_learn(struct sheaf__trail *trail, uint64_t file, uint64_t records)
{
    if (!trail || file == 0 || records >= UINTPTR_MAX)
        return;
    void *value = (void *)(uintptr_t)(records + 1);
    sheaf__mutex_lock(&trail->lock);
    /* Without memory for it the file is read again. */
    if (trail->files.count < MOST_FILES)
        (void)sheaf__strmap_set_bytes(&trail->files, &file, sizeof(file), value, NULL);
    sheaf__mutex_unlock(&trail->lock);
}

static uint64_t records_of(const void *value)
{
    return (uint64_t)(uintptr_t)value - 1;
}

bool sheaf__trail_knows(struct sheaf__trail *trail, uint64_t file, uint64_t *records)
{
    if (!trail || file == 0)
        return false;
    sheaf__mutex_lock(&trail->lock);
    const void *value = sheaf__strmap_get_bytes(&trail->files, &file, sizeof(file));
    sheaf__mutex_unlock(&trail->lock);
    *records = records_of(value);
    return value != NULL;
}

bool sheaf__trail_next_file(struct sheaf__trail *trail, size_t *at, uint64_t *file,
                            uint64_t *records)
{
    sheaf__mutex_lock(&trail->lock);
    const struct sheaf__map_entry *entry = sheaf__strmap_next(&trail->files, at);
    if (entry) {
        memcpy(file, entry->key, sizeof(*file));
        *records = records_of(entry->value);
    }
    sheaf__mutex_unlock(&trail->lock);
    return entry != NULL;
}
