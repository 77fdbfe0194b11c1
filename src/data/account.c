/* SPDX-License-Identifier: Apache-2.0 */
#include "data/account.h"

#include "base/error.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tensor/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many were counted since it began last, and in all. */
struct tally {
    uint64_t now, all;
};

struct sheaf__account_file {
    struct sheaf__account_file *above; /* its entry in the account above; NULL: the last one */
    struct tally reads;
    bool beside; /* others like it count up to the same number, which is above: */
    uint64_t sides;
    /* Of the last one: */
    uint64_t reached; /* records below it, good or bad, were met */
    uint64_t bad;
    struct sheaf__record_options reading;
    uint64_t refused; /* the first that was an error; no other one is skipped after it */
    uint64_t skipped, lost;
};

struct sheaf__account {
    struct sheaf__account *above;
    bool beside, same_batches;
    struct sheaf__mutex lock;   /* the last one's guards them all */
    struct sheaf__strmap files; /* by path */
    struct tally drops;
    uint64_t side_drops;
    uint64_t skipped;
    int64_t per_file, in_all; /* that may be skipped; 0: no such limit, negative: any number */
};

struct sheaf__account *sheaf__account_new(const sheaf_dataset_options *options)
{
    struct sheaf__account *a = sheaf__calloc(1, sizeof(*a));
    if (a) {
        a->per_file = options->skip_corrupt_per_file;
        a->in_all = options->skip_corrupt;
    }
    return a;
}

void sheaf__account_free(struct sheaf__account *a)
{
    if (!a)
        return;
    sheaf__strmap_clear(&a->files, sheaf__free);
    sheaf__free(a);
}

static struct sheaf__account *last_of(struct sheaf__account *a)
{
    while (a->above)
        a = a->above;
    return a;
}

static struct sheaf__account_file *last_file_of(struct sheaf__account_file *file)
{
    while (file->above)
        file = file->above;
    return file;
}

/* ---- an input that begins again ---- */

sheaf_status sheaf__account_below(struct sheaf__account *above, struct sheaf__account **a,
                                  sheaf_error *err)
{
    *a = above ? sheaf__calloc(1, sizeof(**a)) : NULL;
    if (above && !*a)
        return sheaf__no_memory(err, "an iterator");
    if (*a)
        (*a)->above = above;
    return SHEAF_OK;
}

sheaf_status sheaf__account_beside(struct sheaf__account *above, bool same_batches,
                                   struct sheaf__account **a, sheaf_error *err)
{
    SHEAF__TRY(sheaf__account_below(above, a, err));
    if (*a) {
        (*a)->beside = true;
        (*a)->same_batches = same_batches;
    }
    return SHEAF_OK;
}

void sheaf__account_again(struct sheaf__account *a)
{
    const struct sheaf__map_entry *entry;
    if (!a)
        return;
    struct sheaf__mutex *lock = &last_of(a)->lock;
    sheaf__mutex_lock(lock);
    a->drops.now = 0;
    for (size_t at = 0; (entry = sheaf__strmap_next(&a->files, &at));)
        ((struct sheaf__account_file *)entry->value)->reads.now = 0;
    sheaf__mutex_unlock(lock);
}

/* Counts `n` more; by how many that exceeds `*all`, which follows. */
static uint64_t add(uint64_t *now, uint64_t n, uint64_t *all)
{
    *now += n;
    const uint64_t more = *now > *all ? *now - *all : 0;
    *all += more;
    return more;
}

/* ---- what was read ---- */

/* With the lock held. NULL: no memory. */
static struct sheaf__account_file *find(struct sheaf__account *a, const char *path)
{
    struct sheaf__account_file *f = sheaf__strmap_get(&a->files, path);
    if (f)
        return f;
    struct sheaf__account_file *above = a->above ? find(a->above, path) : NULL;
    f = above || !a->above ? sheaf__calloc(1, sizeof(*f)) : NULL;
    if (!f || !sheaf__strmap_set(&a->files, path, f, NULL)) {
        sheaf__free(f);
        return NULL;
    }
    f->above = above;
    f->beside = a->beside;
    f->refused = SHEAF__UNKNOWN;
    return f;
}

sheaf_status sheaf__account_open(struct sheaf__account *a, const char *path,
                                 const struct sheaf__record_options *reading,
                                 struct sheaf__account_file **file, sheaf_error *err)
{
    *file = NULL;
    if (!a)
        return SHEAF_OK;
    struct sheaf__mutex *lock = &last_of(a)->lock;
    sheaf__mutex_lock(lock);
    *file = find(a, path);
    if (*file)
        last_file_of(*file)->reading = *reading;
    sheaf__mutex_unlock(lock);
    return *file ? SHEAF_OK : sheaf__no_memory(err, "the account of a file");
}

bool sheaf__account_reading(struct sheaf__account *a, const char *path,
                            struct sheaf__record_options *reading)
{
    a = last_of(a);
    sheaf__mutex_lock(&a->lock);
    const struct sheaf__account_file *file = sheaf__strmap_get(&a->files, path);
    if (file)
        *reading = file->reading;
    sheaf__mutex_unlock(&a->lock);
    return file;
}

void sheaf__account_read(struct sheaf__account *a, struct sheaf__account_file *file, uint64_t count,
                         uint64_t to)
{
    if (!file || count == 0)
        return;
    struct sheaf__mutex *lock = &last_of(a)->lock;
    sheaf__mutex_lock(lock);
    for (struct sheaf__account_file *f = file; f; f = f->above) {
        count = add(&f->reads.now, count, f->beside ? &f->above->sides : &f->reads.all);
        file = f;
    }
    file->reached = file->reached < to ? to : file->reached;
    sheaf__mutex_unlock(lock);
}

void sheaf__account_drop(struct sheaf__account *a, uint64_t rows)
{
    if (!a || rows == 0)
        return;
    struct sheaf__mutex *lock = &last_of(a)->lock;
    sheaf__mutex_lock(lock);
    for (; a; a = a->above)
        rows = add(&a->drops.now, rows, a->same_batches ? &a->above->side_drops : &a->drops.all);
    sheaf__mutex_unlock(lock);
}

/* ---- corrupt records ---- */

bool sheaf__account_forgives(const struct sheaf__account *a)
{
    while (a && a->above)
        a = a->above;
    return a && (a->per_file != 0 || a->in_all != 0);
}

bool sheaf__account_limits(const struct sheaf__account *a)
{
    while (a && a->above)
        a = a->above;
    return a && a->in_all > 0;
}

static bool is_used_up(int64_t limit, uint64_t used)
{
    return limit > 0 && used >= (uint64_t)limit;
}

static void say_limit(char text[64], uint64_t used, int64_t limit)
{
    int size = snprintf(text, 64, "%llu", (unsigned long long)used);
    if (limit > 0)
        snprintf(text + size, 64 - (size_t)size, " of %lld", (long long)limit);
}

static void refuse(const struct sheaf__account *a, const struct sheaf__account_file *file,
                   sheaf_error *err)
{
    char in_file[64], in_all[64];
    say_limit(in_file, file->skipped, a->per_file);
    say_limit(in_all, a->skipped, a->in_all);
    sheaf__error_prefix(err, "no more corrupt records are skipped, after %s in the file, %s in all",
                        in_file, in_all);
}

/* The first of a file, and what takes the rest of one, is for everybody to see. */
static void tell(const sheaf_error *err, bool loud)
{
    sheaf__log(loud ? SHEAF_LOG_WARN : SHEAF_LOG_INFO,
               "%s: record %llu at offset %llu is skipped: %s", err->file,
               (unsigned long long)err->record, (unsigned long long)err->offset, err->message);
}

/* With the lock held. */
static sheaf_status skip(struct sheaf__account *a, struct sheaf__account_file *file,
                         uint64_t record, uint64_t lost, sheaf_error *err)
{
    const bool met = record < file->reached;
    if (!met) {
        file->bad++;
        file->reached = record + 1;
    }
    if (!sheaf__account_forgives(a))
        return err->status;
    if (met && record < file->refused)
        return SHEAF_OK;
    if (met || is_used_up(a->per_file, file->skipped) || is_used_up(a->in_all, a->skipped)) {
        file->refused = record < file->refused ? record : file->refused;
        refuse(a, file, err);
        return err->status;
    }
    tell(err, file->skipped == 0 || lost > 0);
    file->skipped++;
    file->lost += lost;
    a->skipped++;
    return SHEAF_OK;
}

/* One that was met, and any when nothing is left, are decided on. */
bool sheaf__account_charges(struct sheaf__account *a, struct sheaf__account_file *file,
                            uint64_t record)
{
    if (!file || !sheaf__account_limits(a))
        return false;
    file = last_file_of(file);
    a = last_of(a);
    sheaf__mutex_lock(&a->lock);
    const bool open = record >= file->reached && !is_used_up(a->per_file, file->skipped) &&
                      !is_used_up(a->in_all, a->skipped);
    sheaf__mutex_unlock(&a->lock);
    return open;
}

sheaf_status sheaf__account_skip(struct sheaf__account *a, struct sheaf__account_file *file,
                                 uint64_t record, uint64_t lost, sheaf_error *err)
{
    if (!a || !file)
        return err->status;
    file = last_file_of(file);
    a = last_of(a);
    sheaf__mutex_lock(&a->lock);
    const sheaf_status status = skip(a, file, record, lost, err);
    sheaf__mutex_unlock(&a->lock);
    return status;
}

/* ---- reading it ---- */

static sheaf_file_account account_of(const struct sheaf__account_file *f)
{
    const uint64_t met = f->reached - f->bad, all = f->reads.all;
    return (sheaf_file_account){.read = (int64_t)(met < all ? met : all),
                                .repeated = (int64_t)(met < all ? all - met : 0),
                                .skipped = (int64_t)f->skipped,
                                .lost_bytes = (int64_t)f->lost};
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const sheaf_file_account *)a)->path, ((const sheaf_file_account *)b)->path);
}

/* With the lock held. */
static sheaf_status copy(const struct sheaf__account *a, int64_t worker, sheaf_account *out,
                         sheaf_error *err)
{
    sheaf_file_account *files = sheaf__frame_alloc((a->files.count + 1) * sizeof(*files));
    const struct sheaf__map_entry *entry;
    size_t n = 0;
    if (!files)
        return sheaf__no_memory(err, "an account of the data");
    for (size_t at = 0; (entry = sheaf__strmap_next(&a->files, &at)); n++) {
        files[n] = account_of(entry->value);
        files[n].path = sheaf__frame_text(entry->key, entry->key_size);
        files[n].worker = worker;
    }
    qsort(files, n, sizeof(*files), by_path);
    *out = (sheaf_account){.files = files, .file_count = n, .dropped = (int64_t)a->drops.all};
    return SHEAF_OK;
}

static void sum_up(sheaf_account *a)
{
    for (size_t i = 0; i < a->file_count; i++) {
        a->read += a->files[i].read;
        a->repeated += a->files[i].repeated;
        a->skipped += a->files[i].skipped;
        a->lost_bytes += a->files[i].lost_bytes;
    }
}

sheaf_status sheaf__account_get(struct sheaf__account *a, int64_t worker, sheaf_account *out,
                                sheaf_error *err)
{
    sheaf__mutex_lock(&a->lock);
    sheaf_status status = copy(a, worker, out, err);
    sheaf__mutex_unlock(&a->lock);
    if (status >= 0)
        sum_up(out);
    return status;
}
