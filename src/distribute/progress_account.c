/* SPDX-License-Identifier: Apache-2.0 */

/* What became of the data in a pass over a distributed dataset: each worker puts its part down as bytes
 * when the pass ends; who asks brings those of all workers together. */

#include "base/error.h"
#include "data/iterator.h"
#include "data/reshard.h"
#include "data/shard.h"
#include "distribute/dist_dataset.h"
#include "distribute/sync.h"
#include "tensor/frame.h"

#include <stdlib.h>
#include <string.h>

/* ---- a worker's part ---- */

/* The workers of a group have dropped the same rows, as they make the same batches: all where batches are
 * dealt out to them, and those who read on the same data where other workers began the pass. */
static int64_t group_of(const sheaf_dist_dataset *d)
{
    const struct sheaf__progress *p = &d->progress;
    if (sheaf__shard_follows_batch(d->datasets[0]))
        return 0;
    return d->strategy->worker_id % sheaf__reshard_classes(p->legs, p->leg_count);
}

static void put_file(struct sheaf__buf *buf, const sheaf_file_account *f)
{
    sheaf__buf_sized(buf, f->path, strlen(f->path));
    sheaf__buf_varint(buf, (uint64_t)f->read);
    sheaf__buf_varint(buf, (uint64_t)f->repeated);
    sheaf__buf_varint(buf, (uint64_t)f->skipped);
    sheaf__buf_varint(buf, (uint64_t)f->lost_bytes);
}

static sheaf_status put_part(sheaf_dist_dataset *d, struct sheaf__buf *out, sheaf_error *err)
{
    const struct sheaf__progress *p = &d->progress;
    struct sheaf__buf files = {0}, all = {0};
    uint64_t dropped = p->left_out;
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < d->dataset_count && status >= 0; i++) {
        sheaf_account a = {0};
        status = sheaf_iterator_account(p->iterators[i], &a, err);
        dropped += (uint64_t)a.dropped;
        for (size_t k = 0; k < a.file_count; k++)
            put_file(&files, &a.files[k]);
    }
    sheaf__buf_varint(&all, (uint64_t)d->strategy->pipeline);
    sheaf__buf_varint(&all, (uint64_t)group_of(d));
    sheaf__buf_varint(&all, p->examples);
    sheaf__buf_varint(&all, dropped);
    sheaf__buf_bytes(&all, files.data, files.size);
    sheaf__buf_sized(out, all.data, all.size);
    out->failed = out->failed || files.failed || all.failed || status < 0;
    sheaf__buf_free(&files);
    sheaf__buf_free(&all);
    return status;
}

void sheaf__progress_close(sheaf_dist_dataset *d)
{
    sheaf_error ignored; /* who asks for it is told */
    sheaf__buf_clear(&d->progress.account);
    SHEAF_FRAME
    {
        (void)!put_part(d, &d->progress.account, &ignored);
    }
}

/* ---- all parts ---- */

struct part {
    uint64_t worker, group, examples, dropped;
    struct sheaf__cursor files;
};

static bool get_part(struct sheaf__cursor *c, struct part *part)
{
    return sheaf__cursor_sub(c, &part->files) &&
           sheaf__cursor_varint(&part->files, &part->worker) &&
           sheaf__cursor_varint(&part->files, &part->group) &&
           sheaf__cursor_varint(&part->files, &part->examples) &&
           sheaf__cursor_varint(&part->files, &part->dropped);
}

static bool get_file(struct part *part, sheaf_file_account *f)
{
    const uint8_t *path;
    size_t size;
    uint64_t n[4];
    if (!sheaf__cursor_sized(&part->files, &path, &size))
        return false;
    for (int i = 0; i < 4; i++)
        if (!sheaf__cursor_varint(&part->files, &n[i]))
            return false;
    *f = (sheaf_file_account){.path = sheaf__frame_text((const char *)path, size),
                              .worker = (int64_t)part->worker,
                              .read = (int64_t)n[0],
                              .repeated = (int64_t)n[1],
                              .skipped = (int64_t)n[2],
                              .lost_bytes = (int64_t)n[3]};
    return true;
}

/* The files of all parts; counts them if `files` is NULL. */
static size_t get_files(struct sheaf__bytes bytes, sheaf_file_account *files)
{
    struct sheaf__cursor c = sheaf__cursor_of(bytes.data, bytes.size);
    struct part part;
    size_t n = 0;
    while (sheaf__cursor_left(&c) > 0 && get_part(&c, &part)) {
        sheaf_file_account f;
        while (sheaf__cursor_left(&part.files) > 0 && get_file(&part, &f)) {
            if (files)
                files[n] = f;
            n++;
        }
    }
    return n;
}

static int by_path(const void *a, const void *b)
{
    return strcmp((*(sheaf_file_account *const *)a)->path, (*(sheaf_file_account *const *)b)->path);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A file that several workers read is one file: all of them have met what is in it. */
static sheaf_status add_up(sheaf_account *a, sheaf_error *err)
{
    const sheaf_file_account **sorted = sheaf__frame_alloc((a->file_count + 1) * sizeof(*sorted));
    if (!sorted)
        return sheaf__no_memory(err, "an account of the data");
    for (size_t i = 0; i < a->file_count; i++)
        sorted[i] = &a->files[i];
    qsort(sorted, a->file_count, sizeof(*sorted), by_path);
    for (size_t i = 0; i < a->file_count;) {
        sheaf_file_account one = *sorted[i];
        for (i++; i < a->file_count && strcmp(sorted[i]->path, one.path) == 0; i++) {
            one.read = larger(one.read, sorted[i]->read);
            one.repeated = larger(one.repeated, sorted[i]->repeated);
            one.skipped = larger(one.skipped, sorted[i]->skipped);
            one.lost_bytes = larger(one.lost_bytes, sorted[i]->lost_bytes);
        }
        a->read += one.read;
        a->repeated += one.repeated;
        a->skipped += one.skipped;
        a->lost_bytes += one.lost_bytes;
    }
    return SHEAF_OK;
}

/* Examples, and rows that each group of workers dropped. */
static sheaf_status add_numbers(struct sheaf__bytes bytes, int workers, sheaf_account *a,
                                sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(bytes.data, bytes.size);
    const size_t size = (size_t)workers * sizeof(int64_t);
    int64_t *dropped = sheaf__frame_alloc(size);
    struct part part;
    if (!dropped)
        return sheaf__no_memory(err, "an account of the data");
    memset(dropped, 0, size);
    while (sheaf__cursor_left(&c) > 0 && get_part(&c, &part)) {
        int64_t *group = &dropped[part.group % (uint64_t)workers];
        *group = larger(*group, (int64_t)part.dropped);
        a->examples = (int64_t)part.examples; /* the same of all */
    }
    for (int i = 0; i < workers; i++)
        a->dropped += dropped[i];
    return SHEAF_OK;
}

static sheaf_status read_parts(struct sheaf__bytes bytes, int workers, sheaf_account *account,
                               sheaf_error *err)
{
    sheaf_account a = {.file_count = get_files(bytes, NULL)};
    sheaf_file_account *files = sheaf__frame_alloc((a.file_count + 1) * sizeof(*files));
    if (!files)
        return sheaf__no_memory(err, "an account of the data");
    get_files(bytes, files);
    a.files = files;
    SHEAF__TRY(add_numbers(bytes, workers, &a, err));
    SHEAF__TRY(add_up(&a, err));
    *account = a;
    return SHEAF_OK;
}

/* This worker's part as it is now, a tensor of the frame. */
static sheaf_tensor *own_part(sheaf_dist_dataset *d)
{
    struct sheaf__progress *p = &d->progress;
    sheaf_tensor *t;
    sheaf__mutex_lock(&p->lock);
    if (p->account.failed)
        t = sheaf__tensor_fail(SHEAF_ERR_RESOURCE_EXHAUSTED,
                               "not enough memory for an account of the data");
    else
        t = sheaf_tensor_new(SHEAF_UINT8, SHEAF_SHAPE((int64_t)p->account.size), p->account.data);
    sheaf__mutex_unlock(&p->lock);
    return t;
}

sheaf_status sheaf_dist_dataset_account(sheaf_dist_dataset *d, sheaf_account *account,
                                        sheaf_error *err)
{
    if (!d)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the dataset is NULL");
    SHEAF__TRY(sheaf__error_copy(err, &d->latched));
    sheaf_tensor *parts = own_part(d);
    if (d->strategy->workers > 1)
        parts = sheaf__sync_gather(d->strategy, parts, 0);
    SHEAF__TRY(sheaf_tensor_status(parts, err));
    const struct sheaf__bytes bytes = {sheaf_tensor_data(parts), sheaf__tensor_size(parts)};
    return read_parts(bytes, d->strategy->workers, account, err);
}
