/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/log.h"
#include "data/stage.h"

/* Options of a whole pipeline (R9.29-R9.32). */

struct with_options {
    struct sheaf__params params;
    sheaf_dataset_options options;
};

static void merge_field(int *into, int later, const char *name)
{
    if (later == 0)
        return;
    if (*into != 0 && *into != later)
        sheaf__log(SHEAF_LOG_WARN, "dataset option %s: %d replaces %d that was set before", name,
                   later, *into);
    *into = later;
}

/* The later of two numbers that say something. */
static void merge_number(int64_t *into, int64_t later)
{
    *into = later != 0 ? later : *into;
}

void sheaf__options_merge(sheaf_dataset_options *into, const sheaf_dataset_options *later)
{
    int autoshard = into->autoshard, rebatch = (int)into->rebatch;
    merge_field(&autoshard, later->autoshard, "autoshard");
    merge_field(&rebatch, (int)later->rebatch, "rebatch");
    into->autoshard = (sheaf_autoshard)autoshard;
    into->rebatch = (sheaf_rebatch)rebatch;
    into->unordered = into->unordered || later->unordered;
    into->measured = into->measured || later->measured;
    merge_number(&into->skip_corrupt_per_file, later->skip_corrupt_per_file);
    merge_number(&into->skip_corrupt, later->skip_corrupt);
    into->optimizations.parallel_maps |= later->optimizations.parallel_maps;
    into->optimizations.inject_prefetch |= later->optimizations.inject_prefetch;
    into->memory_bytes = later->memory_bytes ? later->memory_bytes : into->memory_bytes;
}

sheaf_status sheaf__reserved_check(const uint64_t reserved[4], sheaf_error *err)
{
    if ((reserved[0] | reserved[1] | reserved[2] | reserved[3]) != 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the options say something that this version does not know");
    return SHEAF_OK;
}

static sheaf_status check_skips(const sheaf_dataset_options *o, sheaf_error *err)
{
    if (o->skip_corrupt < SHEAF_INFINITE || o->skip_corrupt_per_file < SHEAF_INFINITE)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "corrupt records to skip: %lld of a file and %lld of all, it must not "
                            "be negative, or SHEAF_INFINITE",
                            (long long)o->skip_corrupt_per_file, (long long)o->skip_corrupt);
    return SHEAF_OK;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct with_options *p = (const void *)d->params;
    const uint64_t *room = p->options.optimizations.reserved;
    const uint64_t reserved[4] = {p->options.reserved[0], room[0], room[1]};
    SHEAF__TRY(sheaf__reserved_check(reserved, err));
    SHEAF__TRY(check_skips(&p->options, err));
    if (p->options.autoshard < SHEAF_AUTOSHARD_OFF || p->options.autoshard > SHEAF_AUTOSHARD_HINT)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "autoshard is %d, not a policy",
                            (int)p->options.autoshard);
    if (p->options.rebatch > SHEAF_REBATCH_BALANCED)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "rebatch is %d, not a rule",
                            (int)p->options.rebatch);
    sheaf__options_merge(&d->options, &p->options);
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *it, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    return sheaf__iter_pull(it->inputs[0], want, rows, err);
}

static sheaf_status pass(struct sheaf__iter *it, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    return sheaf__iter_pass(it->inputs[0], count, passed, err);
}

static uint64_t sure(const struct sheaf__iter *it)
{
    return sheaf__iter_sure(it->inputs[0]);
}

const struct sheaf__stage_ops sheaf__options_ops = {
    .describe = describe,
    .iter_size = sizeof(struct sheaf__iter),
    .next = next,
    .pass = pass,
    .sure = sure,
};

sheaf_dataset *sheaf_dataset_with_options(sheaf_dataset *d, const sheaf_dataset_options *options)
{
    struct with_options *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_OPTIONS);
    if (p && options)
        p->options = *options;
    return sheaf__dataset_new(SHEAF__STAGE_OPTIONS, p, &d, 1);
}

sheaf_dataset_options sheaf_dataset_get_options(const sheaf_dataset *d)
{
    return d ? d->options : (sheaf_dataset_options){0};
}
