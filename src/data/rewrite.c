/* SPDX-License-Identifier: Apache-2.0 */
#include "data/rewrite.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/autoshard.h"
#include "data/shard.h"
#include "data/shuffle.h"
#include "data/spec.h"
#include "data/split_batch.h"

#include <stdio.h>

/* The dataset of one worker: rebatch, prefetch(R), auto-shard, in this order (R1.2). */

static sheaf_status check_split(const struct sheaf__split *s, sheaf_error *err)
{
    if (s->workers < 1 || s->replicas < 1 || s->worker < 0 || s->worker >= s->workers)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "worker %d of %d with %d replicas is no place in a cluster", s->worker,
                            s->workers, s->replicas);
    return SHEAF_OK;
}

/* The parts by the balanced rule. Those of a list that all workers share (DATA) start with worker
 * 0's. */
static sheaf_dataset *balanced(sheaf_dataset *d, int64_t size, const struct sheaf__split *split,
                               bool shared)
{
    struct sheaf__split own = *split;
    if (shared)
        own.worker = 0;
    size_t n = (size_t)split->workers * (size_t)split->replicas;
    int64_t *sizes = sheaf__alloc_array(n, sizeof(*sizes));
    if (!sizes) {
        sheaf_error err;
        sheaf__no_memory(&err, "a rebatch");
        return sheaf__dataset_failed(d, SHEAF__STAGE_REBATCH, &err);
    }
    sheaf__batch_sizes_for_worker(size, &own, sizes);
    d = sheaf_dataset_rebatch(d, sizes, n, false);
    sheaf__free(sizes);
    return d;
}

/* Lets steps be made ahead; uses up `d`. */
static sheaf_dataset *make_ahead(sheaf_dataset *d, const struct sheaf__split *split)
{
    d = sheaf_dataset_prefetch(d, (int64_t)split->replicas * (split->ahead ? split->ahead : 1));
    d->number = 0;
    return d;
}

/* Rebatches for N replicas; uses up `d`. */
static sheaf_dataset *rebatch(sheaf_dataset *d, const struct sheaf__split *split,
                              const struct sheaf__split_dataset *out, bool shared)
{
    int64_t n = (int64_t)split->workers * split->replicas;
    if (out->rebatch == SHEAF_REBATCH_BALANCED)
        d = balanced(d, out->batch_size, split, shared);
    else
        d = sheaf__split_batch(d, n);
    d->number = 0;
    return make_ahead(d, split);
}

/* First shuffle whose order other workers cannot know; NULL if there is none. */
static const sheaf_dataset *unseeded_shuffle(const sheaf_dataset *d)
{
    if (sheaf__dataset_is(d, SHEAF__STAGE_SHUFFLE) && !sheaf__shuffle_is_seeded(d))
        return d;
    for (size_t i = 0; i < d->input_count; i++) {
        const sheaf_dataset *found = unseeded_shuffle(d->inputs[i]);
        if (found)
            return found;
    }
    return NULL;
}

void sheaf__split_check_shards(const sheaf_dataset *d)
{
    char shard[64], shuffle[64];
    const sheaf_dataset *by_chance =
        sheaf__dataset_is(d, SHEAF__STAGE_SHARD) ? unseeded_shuffle(d->inputs[0]) : NULL;
    if (by_chance)
        sheaf__log(SHEAF_LOG_WARN,
                   "%s takes a share of what %s orders by chance, on each worker another way: give "
                   "it, or list_files, a seed or no shuffle",
                   sheaf__dataset_name(d, shard), sheaf__dataset_name(by_chance, shuffle));
    for (size_t i = 0; i < d->input_count && !by_chance; i++)
        sheaf__split_check_shards(d->inputs[i]);
}

const char *sheaf__autoshard_name(sheaf_autoshard policy)
{
    switch (policy) {
    case SHEAF_AUTOSHARD_OFF:
        return "OFF";
    case SHEAF_AUTOSHARD_AUTO:
        return "AUTO";
    case SHEAF_AUTOSHARD_FILE:
        return "FILE";
    case SHEAF_AUTOSHARD_DATA:
        return "DATA";
    case SHEAF_AUTOSHARD_HINT:
        return "HINT";
    }
    return "?";
}

const char *sheaf__rebatch_name(sheaf_rebatch rule)
{
    switch (rule) {
    case SHEAF_REBATCH_AUTO:
        return "AUTO";
    case SHEAF_REBATCH_LEGACY:
        return "LEGACY";
    case SHEAF_REBATCH_BALANCED:
        return "BALANCED";
    }
    return "?";
}

static bool has_hint(const sheaf_dataset *d)
{
    bool found = sheaf__shard_is_hint(d);
    for (size_t i = 0; i < d->input_count && !found; i++)
        found = has_hint(d->inputs[i]);
    return found;
}

/* Whether AUTO found no files to share (S127). */
static bool is_fallback(const sheaf_dataset *d, const struct sheaf__split_dataset *out)
{
    return d->options.autoshard == SHEAF_AUTOSHARD_AUTO && out->policy == SHEAF_AUTOSHARD_DATA;
}

/* Says what a fallback, a missing hint or a shuffle means for the cluster; the first worker speaks for all. */
static void warn(const sheaf_dataset *d, const struct sheaf__split *split,
                 const struct sheaf__split_dataset *out)
{
    char name[64];
    if (is_fallback(d, out))
        sheaf__log(split->workers > 1 && split->worker == 0 ? SHEAF_LOG_WARN : SHEAF_LOG_INFO,
                   "%s: every worker makes all elements and keeps its share of them", out->why);
    if (out->policy == SHEAF_AUTOSHARD_HINT && split->workers > 1 && split->worker == 0 &&
        !has_hint(d))
        sheaf__log(SHEAF_LOG_WARN, "autoshard policy HINT, but no stage is a shard of "
                                   "SHEAF_SHARD_HINT: every worker reads the whole dataset");
    const sheaf_dataset *shuffle = unseeded_shuffle(d);
    if (shuffle && !split->agreed && split->workers > 1 && out->policy == SHEAF_AUTOSHARD_DATA)
        sheaf__log(SHEAF_LOG_WARN,
                   "%s has no seed: workers that shuffle differently lose and repeat elements when "
                   "they share them by DATA",
                   sheaf__dataset_name(shuffle, name));
}

/* One way through all of it. With `shared` the balanced parts are those of a list that is the same
 * for all workers. */
static sheaf_status rewrite_with(const sheaf_dataset *d, const struct sheaf__split *split,
                                 bool shared, struct sheaf__split_dataset *out, sheaf_error *err)
{
    const sheaf_dataset_options *o = &d->options;
    int64_t n = (int64_t)split->workers * split->replicas;
    struct sheaf__autoshard a = {.policy = shared ? SHEAF_AUTOSHARD_DATA : o->autoshard,
                                 .workers = split->workers,
                                 .worker = split->worker,
                                 .replicas = n,
                                 .keep_balanced = o->rebatch == SHEAF_REBATCH_BALANCED};
    sheaf_dataset *made = sheaf__dataset_clone(d);
    if (n > 1) {
        bool legacy = out->batch_size < 0 || o->rebatch == SHEAF_REBATCH_LEGACY;
        out->rebatch = legacy ? SHEAF_REBATCH_LEGACY : SHEAF_REBATCH_BALANCED;
        made = rebatch(made, split, out, shared);
    } else if (split->ahead) {
        made = make_ahead(made, split);
    }
    out->spec = sheaf_element_spec_keep(made->spec);
    SHEAF__TRY(sheaf__autoshard(made, &a, &made, err));
    made->divided = split->workers > 1;
    out->dataset = made;
    out->policy = a.policy;
    if (!a.keep_balanced && a.policy == SHEAF_AUTOSHARD_DATA && n > 1)
        out->rebatch = SHEAF_REBATCH_LEGACY;
    snprintf(out->why, sizeof(out->why), "autoshard policy %s%s: %s",
             sheaf__autoshard_name(a.policy), is_fallback(d, out) ? " (no file source)" : "",
             a.why);
    return made->error.status < 0 ? sheaf__error_copy(err, &made->error) : SHEAF_OK;
}

static sheaf_status rewrite(const sheaf_dataset *d, const struct sheaf__split *split,
                            struct sheaf__split_dataset *out, sheaf_error *err)
{
    out->batch_size = sheaf__batch_size_of(d);
    SHEAF__TRY(rewrite_with(d, split, false, out, err));
    if (!split->again)
        warn(d, split, out);
    if (out->policy != SHEAF_AUTOSHARD_DATA || out->rebatch != SHEAF_REBATCH_BALANCED ||
        split->workers == 1)
        return SHEAF_OK;
    /* Balanced by force, and the parts are dealt out: all workers must cut alike. */
    struct sheaf__split_dataset again = {.batch_size = out->batch_size};
    sheaf_status status = rewrite_with(d, split, true, &again, err);
    sheaf__str_copy(again.why, sizeof(again.why), out->why);
    sheaf__split_free(out);
    *out = again;
    return status;
}

sheaf_status sheaf__split_make(sheaf_dataset *d, const struct sheaf__split *split,
                               struct sheaf__split_dataset *out, sheaf_error *err)
{
    struct sheaf__split s = *split;
    struct sheaf__split_dataset made = {0};
    sheaf_error mine = {0};
    s.workers = s.workers ? s.workers : 1;
    s.replicas = s.replicas ? s.replicas : 1;
    sheaf_status status = check_split(&s, &mine);
    if (status >= 0)
        status = d->error.status < 0 ? sheaf__error_copy(&mine, &d->error)
                                     : rewrite(d, &s, &made, &mine);
    if (status < 0) {
        sheaf__split_free(&made);
        mine.reserved = 0;
        return sheaf__error_copy(err, &mine);
    }
    *out = made;
    return SHEAF_OK;
}

void sheaf__split_free(struct sheaf__split_dataset *s)
{
    sheaf_dataset_free(s->dataset);
    sheaf_element_spec_free(s->spec);
    *s = (struct sheaf__split_dataset){0};
}
