/* SPDX-License-Identifier: Apache-2.0 */
#include "data/records.h"

#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "data/files.h"

#include <string.h>

#define CHUNK 256 /* records that are looked at to step over them */

/* Records of the files that the input names, one file after the other, as views of the files: what
 * the stages of TFRecords, lines and records of fixed size have in common. */

struct records {
    struct sheaf__params params;
    struct sheaf__record_options options;
    sheaf_error error;
};

struct records_iter {
    struct sheaf__iter base;
    char *path;                          /* of the file at hand; NULL: between files */
    struct sheaf__account_file *account; /* of that file */
    struct sheaf__record_source *source; /* NULL: not opened yet */
    uint64_t file;                       /* for the trail */
    uint64_t records;                    /* that it has, if that is known */
    uint64_t passed;                     /* of them, before it is opened */
    bool known, damaged;
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct records *p = (const void *)d->params;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    SHEAF__TRY(sheaf__files_check(d, err));
    sheaf_element_spec_free(d->spec);
    d->spec = sheaf__spec_of_tensor(SHEAF_STRING, SHEAF_SCALAR, err);
    d->cardinality = SHEAF_UNKNOWN;
    return d->spec ? SHEAF_OK : err->status;
}

/* ---- files ---- */

/* How a file is read decides how many records it has. */
static uint64_t kind_of(const struct sheaf__iter *base)
{
    const struct records *p = sheaf__iter_params(base);
    const char *name = base->dataset->stage->name;
    const uint64_t facts[] = {sheaf__hash(name, strlen(name)), p->options.compression,
                              p->options.fixed.size, p->options.fixed.header,
                              p->options.fixed.footer};
    return sheaf__hash(facts, sizeof(facts));
}

static void close_file(struct records_iter *it)
{
    sheaf__record_source_free(it->source);
    sheaf__free(it->path);
    it->source = NULL;
    it->path = NULL;
}

/* Makes sure that there is a file at hand. */
static sheaf_status reach_file(struct records_iter *it, sheaf_error *err)
{
    const struct records *p = sheaf__iter_params(&it->base);
    if (it->path)
        return SHEAF_OK;
    sheaf_status status = sheaf__files_next(it->base.inputs[0], &it->path, err);
    if (status != SHEAF_OK)
        return status;
    status = sheaf__account_open(it->base.flow->account, it->path, &p->options, &it->account, err);
    if (status < 0) {
        close_file(it);
        return status;
    }
    it->file = sheaf__trail_file(it->path, kind_of(&it->base));
    it->known = sheaf__trail_knows(it->base.flow->trail, it->file, &it->records);
    it->passed = 0;
    it->damaged = false;
    return SHEAF_OK;
}

static sheaf_status open_file(struct records_iter *it, sheaf_error *err)
{
    const struct records *p = sheaf__iter_params(&it->base);
    struct sheaf__record_options options = p->options;
    uint64_t skipped = 0;
    options.maps = it->base.flow->maps;
    sheaf_status status = sheaf__record_source_open(it->path, &options, &it->source, err);
    if (status >= 0)
        status = sheaf__record_source_skip(it->source, it->passed, &skipped, err);
    if (status == SHEAF_END)
        status = sheaf__error_at(err, SHEAF_ERR_DATA_LOSS,
                                 &(struct sheaf__place){it->path, skipped, SHEAF__UNKNOWN},
                                 "the file has %llu records, it had %llu before",
                                 (unsigned long long)skipped, (unsigned long long)it->records);
    if (status < 0)
        close_file(it);
    return status;
}

static uint64_t record_number(const struct records_iter *it)
{
    return it->source ? sheaf__record_source_position(it->source, NULL) : it->passed;
}

static void count_read(const struct records_iter *it, uint64_t count, uint64_t to)
{
    sheaf__account_read(it->base.flow->account, it->account, count, to);
}

/* Whether the damage that was met can be borne: SHEAF_OK, or the error. */
static sheaf_status bear(struct records_iter *it, bool stuck, uint64_t record, sheaf_error *err)
{
    const struct sheaf__flow *flow = it->base.flow;
    const uint64_t lost = stuck ? sheaf__record_source_rest(it->source) : 0;
    sheaf_error late;
    if (lost > 0)
        sheaf__error_prefix(err, "the last %llu bytes of the file cannot be read",
                            (unsigned long long)lost);
    if (sheaf__account_charges(flow->account, it->account, record) &&
        sheaf__gates_pass(flow->gate, &late) < 0)
        return sheaf__error_copy(err, &late);
    return sheaf__account_skip(flow->account, it->account, record, lost, err);
}

/* Reading or stepping gave no more at record `at`. Behind a record with a bad CRC the file can be read
 * on; any other error ends it, and the next call goes on with the next file. Returns what the caller
 * is to return: SHEAF_OK if it is to go on. */
static sheaf_status end_reading(struct records_iter *it, sheaf_status status, uint64_t at,
                                sheaf_error *err)
{
    const bool stuck = record_number(it) == at;
    it->damaged = it->damaged || status < 0;
    if (status == SHEAF_END && !it->damaged)
        sheaf__trail_learn(it->base.flow->trail, it->file, at);
    if (status == SHEAF_ERR_DATA_LOSS)
        status = bear(it, stuck, at, err);
    if (stuck)
        close_file(it);
    return status == SHEAF_END ? SHEAF_OK : status;
}

/* ---- records ---- */

/* Some records of the open file. */
static sheaf_status read_some(struct records_iter *it, size_t want, struct sheaf__rows *rows,
                              sheaf_error *err)
{
    struct sheaf__block *block;
    size_t room, count = 0;
    struct sheaf__object *owner = NULL;
    SHEAF__TRY(sheaf__rows_room(rows, it->base.dataset->spec, want, &block, &room, err));
    sheaf_tensor *column = block->columns->items[0].tensor;
    uint64_t before = record_number(it);
    sheaf_status status = sheaf__record_source_next(
        it->source, (sheaf_bytes *)column->data + block->first + block->count, room, &count, &owner,
        err);
    if (status == SHEAF_OK)
        status = sheaf__string_keep(column, owner, err);
    if (status != SHEAF_OK)
        return end_reading(it, status, before, err);
    sheaf__rows_grow(rows, block, count);
    count_read(it, count, before + count);
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct records_iter *it = (struct records_iter *)base;
    size_t before = rows->count;
    while (rows->count - before < want) {
        sheaf_status status = reach_file(it, err);
        if (status != SHEAF_OK)
            return status;
        if (!it->source)
            SHEAF__TRY(open_file(it, err));
        SHEAF__TRY(read_some(it, want - (rows->count - before), rows, err));
        if (base->flow->gate && rows->count > before)
            return SHEAF_OK; /* rather than keep these while the next waits at the gate */
    }
    return SHEAF_OK;
}

/* Records that the file at hand still has, if that is known. */
static uint64_t records_left(const struct records_iter *it)
{
    const uint64_t number = record_number(it);
    return it->path && it->known && number < it->records ? it->records - number : 0;
}

/* Steps over up to `count` records of the open file. Only what tells where they end is read, unless corrupt ones
 * must be known. */
static sheaf_status step(struct records_iter *it, uint64_t count, uint64_t *done, sheaf_error *err)
{
    sheaf_bytes records[CHUNK];
    struct sheaf__object *owner;
    size_t n = 0;
    if (!sheaf__account_forgives(it->base.flow->account))
        return sheaf__record_source_skip(it->source, count, done, err);
    sheaf_status status = sheaf__record_source_next(
        it->source, records, count < CHUNK ? (size_t)count : CHUNK, &n, &owner, err);
    *done = n;
    return status;
}

/* Up to `count` records of the file at hand. It is opened only if nobody knows how many it has. */
static sheaf_status pass_some(struct records_iter *it, uint64_t count, struct sheaf__passed *passed,
                              sheaf_error *err)
{
    const uint64_t left = records_left(it), before = record_number(it);
    if (it->known && (left <= count || !it->source)) {
        const uint64_t n = left < count ? left : count;
        passed->count += n;
        it->passed += n;
        count_read(it, n, before + n);
        if (n == left)
            close_file(it);
        return SHEAF_OK;
    }
    if (!it->source)
        SHEAF__TRY(open_file(it, err));
    uint64_t done = 0;
    sheaf_status status = step(it, count, &done, err);
    passed->count += done;
    count_read(it, done, before + done);
    return status == SHEAF_OK ? SHEAF_OK : end_reading(it, status, before + done, err);
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct records_iter *it = (struct records_iter *)base;
    while (count > 0) {
        const uint64_t before = passed->count;
        sheaf_status status = reach_file(it, err);
        if (status != SHEAF_OK)
            return status;
        status = pass_some(it, count, passed, err);
        count -= passed->count - before;
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    return records_left((const struct records_iter *)base);
}

static void stop(struct sheaf__iter *base)
{
    close_file((struct records_iter *)base);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct sheaf__fixed *fixed =
        &((const struct records *)(const void *)d->params)->options.fixed;
    if (fixed->size > 0)
        sheaf__str_printf(text, "(%llu bytes, header %llu, footer %llu)",
                          (unsigned long long)fixed->size, (unsigned long long)fixed->header,
                          (unsigned long long)fixed->footer);
}

const struct sheaf__stage_ops sheaf__records_ops = {
    .describe = describe,
    .iter_size = sizeof(struct records_iter),
    .next = next,
    .pass = pass,
    .sure = sure,
    .stop = stop,
    .explain = explain,
};

sheaf_dataset *sheaf__records_of(enum sheaf__stage_id id, sheaf_dataset *names,
                                 const struct sheaf__record_options *options,
                                 const sheaf_error *err)
{
    struct records *p = sheaf__params_new(sizeof(*p), id);
    if (p) {
        p->options = *options;
        p->error = *err;
    }
    return sheaf__dataset_new(id, p, &names, 1);
}
