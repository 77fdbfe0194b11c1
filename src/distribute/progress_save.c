/* SPDX-License-Identifier: Apache-2.0 */

/* The position in a distributed dataset, as a part of checkpoints. */

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/iterator.h"
#include "data/reshard.h"
#include "data/rewrite.h"
#include "distribute/dist_dataset.h"
#include "tensor/frame.h"

#include <string.h>

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "a position in the input");
}

/* What makes a difference to what is read, as text. NULL: no memory. With the lock held. */
static const char *describe(sheaf_dist_dataset *d)
{
    struct sheaf__str text = {0};
    if (d->progress.pipeline)
        return d->progress.pipeline;
    for (int i = 0; i < (d->source ? 1 : d->dataset_count); i++) {
        char *order = sheaf__dataset_order(d->source ? d->source : d->datasets[i]);
        text.failed = text.failed || !order;
        sheaf__str_add(&text, order ? order : "");
        sheaf__free(order);
    }
    const sheaf_dataset_options o = sheaf_dataset_get_options(d->source);
    if (d->source)
        sheaf__str_printf(&text, "distributed(autoshard %s, rebatch %s)\n",
                          sheaf__autoshard_name(o.autoshard), sheaf__rebatch_name(o.rebatch));
    else
        sheaf__str_printf(&text, "distributed from a function(%d)\n", d->dataset_count);
    d->progress.pipeline = sheaf__str_take(&text);
    return d->progress.pipeline;
}

static const sheaf_dataset_options *options_of(const sheaf_dist_dataset *d)
{
    return &(d->source ? d->source : d->datasets[0])->options;
}

/* Saving. With the lock held. */

static sheaf_status put_draws(const struct sheaf__draw_table *t, struct sheaf__position *out,
                              sheaf_error *err)
{
    for (size_t i = 0; i < t->count; i++) {
        struct sheaf__position_draws *draws = sheaf__position_add_draws(out);
        if (!draws)
            return no_memory(err);
        *draws = (struct sheaf__position_draws){t->items[i].seeds, t->items[i].count};
    }
    return SHEAF_OK;
}

static sheaf_status put_legs(const struct sheaf__leg *legs, size_t count,
                             struct sheaf__position *out, sheaf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct sheaf__leg *leg = sheaf__position_add_leg(out);
        if (!leg)
            return no_memory(err);
        *leg = legs[i];
    }
    return SHEAF_OK;
}

/* Of the pass that runs. */
static sheaf_status put_pass(const sheaf_dist_dataset *d, struct sheaf__position *out,
                             sheaf_error *err)
{
    const struct sheaf__progress *p = &d->progress;
    for (int i = 0; i < d->dataset_count; i++) {
        SHEAF__TRY(sheaf__iterator_saves(p->iterators[i], err));
        SHEAF__TRY(sheaf__iterator_put_files(p->iterators[i], out, err));
    }
    out->elements = p->elements;
    out->errors = p->errors;
    out->examples = p->examples;
    if (p->failed && (d->strategy->workers > 1 || d->dataset_count > 1))
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "this pass over the data has no position to save: it gave an error, and "
            "its iterators may not be equally far");
    return put_legs(p->legs, p->leg_count, out, err);
}

/* Of one that was restored and has not begun again. */
static sheaf_status put_restored(const struct sheaf__position *from, struct sheaf__position *out,
                                 sheaf_error *err)
{
    for (size_t i = 0; i < from->file_count; i++) {
        struct sheaf__position_file *file = sheaf__position_add_file(out);
        if (!file)
            return no_memory(err);
        *file = from->files[i];
    }
    out->elements = from->elements;
    out->errors = from->errors;
    out->examples = from->examples;
    return put_legs(from->legs, from->leg_count, out, err);
}

static sheaf_status fill(sheaf_dist_dataset *d, struct sheaf__position *out, sheaf_error *err)
{
    struct sheaf__progress *p = &d->progress;
    SHEAF__TRY(sheaf__error_copy(err, &d->latched));
    out->pipeline = describe(d) ? sheaf__strdup(d->progress.pipeline) : NULL;
    out->distributed = true;
    out->passes = p->passes;
    out->forgives = sheaf__options_forgive(options_of(d));
    if (!out->pipeline)
        return no_memory(err);
    const bool between = !p->runner && !p->restored.pipeline;
    for (int i = 0; between && d->strategy->workers == 1 && i < d->dataset_count; i++)
        sheaf__draw_table_get(&p->draws, d->datasets[i]);
    SHEAF__TRY(put_draws(&p->draws, out, err));
    if (p->runner)
        return put_pass(d, out, err);
    return put_restored(&p->restored, out, err);
}

/* With the lock held. */
static sheaf_status encode_now(sheaf_dist_dataset *d, struct sheaf__buf *buf, sheaf_error *err)
{
    struct sheaf__position out = {0};
    sheaf_status status = fill(d, &out, err);
    if (status >= 0)
        status = sheaf__position_write(&out, buf, err);
    sheaf__position_free(&out);
    return status;
}

static sheaf_status encode_stopped(const struct sheaf__progress *p, struct sheaf__buf *buf,
                                   sheaf_error *err)
{
    SHEAF__TRY(sheaf__error_copy(err, &p->unknown));
    sheaf__buf_bytes(buf, p->stopped.data, p->stopped.size);
    return sheaf__buf_check(buf, "a position in the input", err);
}

static sheaf_status encode(sheaf_dist_dataset *d, struct sheaf__buf *buf, sheaf_error *err)
{
    struct sheaf__progress *p = &d->progress;
    sheaf__mutex_lock(&p->lock);
    sheaf_status status = p->halted ? encode_stopped(p, buf, err) : encode_now(d, buf, err);
    sheaf__mutex_unlock(&p->lock);
    return status;
}

void sheaf__progress_halt(sheaf_dist_dataset *d, const void *runner)
{
    struct sheaf__progress *p = &d->progress;
    sheaf__mutex_lock(&p->lock);
    if (p->runner == runner) {
        sheaf__buf_clear(&p->stopped);
        p->unknown = (sheaf_error){0};
        if (p->tracked)
            encode_now(d, &p->stopped, &p->unknown);
        p->halted = true;
    }
    sheaf__mutex_unlock(&p->lock);
}

/* Whether each worker's place is kept with the variables. */
static bool is_told(const sheaf_dist_dataset *d)
{
    const sheaf_strategy *s = d->strategy;
    return d->progress.tracked && s->cls->mark && s->remote;
}

static struct sheaf__save_group *group_of(const sheaf_trackable *t)
{
    return ((const sheaf_dist_dataset *)t->object)->strategy->group;
}

/* What stands in the checkpoint itself is the chief's, whoever saves. */
static sheaf_status save(sheaf_trackable *t, sheaf_bytes *bytes, sheaf_error *err)
{
    const sheaf_dist_dataset *d = t->object;
    struct sheaf__buf buf = {0};
    *bytes = (sheaf_bytes){0};
    if (is_told(d) && !d->strategy->is_chief)
        return SHEAF_OK;
    sheaf_status status = encode(t->object, &buf, err);
    void *copy = status >= 0 ? sheaf__frame_alloc(buf.size) : NULL;
    if (copy)
        *bytes = (sheaf_bytes){memcpy(copy, buf.data, buf.size), buf.size};
    else if (status >= 0)
        status = no_memory(err);
    sheaf__buf_free(&buf);
    return status;
}

sheaf_status sheaf__progress_tell(sheaf_dist_dataset *d, sheaf_error *err)
{
    struct sheaf__buf buf = {0};
    sheaf_strategy *s = d->strategy;
    if (!is_told(d))
        return SHEAF_OK;
    sheaf_status status = encode(d, &buf, err);
    if (status >= 0)
        status = s->cls->mark(s, (sheaf_bytes){(const char *)buf.data, buf.size}, err);
    sheaf__buf_free(&buf);
    return status;
}

/* Restoring. */

/* Other workers than before: the rest must be divided anew. */
static sheaf_status check_reshard(const sheaf_dist_dataset *d, const struct sheaf__position *in,
                                  sheaf_error *err)
{
    size_t count;
    struct sheaf__leg *legs = sheaf__progress_legs(d, in, &count);
    sheaf_dataset *rest = NULL;
    sheaf_status status = legs ? SHEAF_OK : no_memory(err);
    if (status < 0 || count == 1) {
        sheaf__free(legs);
        return status;
    }
    if (!d->source)
        status = sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                              "a function makes the dataset of each worker");
    else if (in->errors > 0)
        status = sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                              "the pass gave errors that cannot be divided");
    else
        status = sheaf__reshard(d->source, legs, count, d->strategy->worker_id, &rest, err);
    sheaf_dataset_free(rest);
    sheaf__free(legs);
    if (status < 0)
        sheaf__error_prefix(err,
                            "the rest of a pass of %lld workers with %lld replicas each cannot be "
                            "divided over %d with %d",
                            (long long)in->legs[in->leg_count - 1].workers,
                            (long long)in->legs[in->leg_count - 1].replicas, d->strategy->workers,
                            d->strategy->local);
    return status;
}

static sheaf_status check_pipeline(sheaf_dist_dataset *d, const struct sheaf__position *in,
                                   sheaf_error *err)
{
    const char *pipeline = describe(d);
    return pipeline ? sheaf__position_fits(in, pipeline, err) : no_memory(err);
}

static sheaf_status check(sheaf_dist_dataset *d, const struct sheaf__position *in, sheaf_error *err)
{
    if (!in->distributed)
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "the position is of an iterator, not of a distributed dataset");
    SHEAF__TRY(sheaf__position_forgives(in, options_of(d), err));
    /* It is worker 0's; a function may make another pipeline for every one. */
    if (d->source || d->strategy->worker_id == 0)
        SHEAF__TRY(check_pipeline(d, in, err));
    if (in->draw_count != d->progress.draws.count)
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "the position has %zu random stages, the pipeline %zu", in->draw_count,
                            d->progress.draws.count);
    return check_reshard(d, in, err);
}

/* Files that are missing now are not what the checkpoint was saved with, and that says nothing. */
static sheaf_status check_object(const sheaf_trackable *t, sheaf_error *err)
{
    const sheaf_dist_dataset *d = t->object;
    SHEAF__TRY(sheaf__error_copy(err, &d->latched));
    for (int i = 0; i < d->dataset_count; i++)
        SHEAF__TRY(sheaf__error_copy(err, &d->datasets[i]->error));
    return SHEAF_OK;
}

static sheaf_status accept(sheaf_trackable *t, const sheaf_bytes *bytes, sheaf_error *err)
{
    sheaf_dist_dataset *d = t->object;
    struct sheaf__position in;
    sheaf_bytes found = bytes ? *bytes : (sheaf_bytes){0};
    if (is_told(d)) {
        sheaf_bytes own = {0};
        SHEAF__TRY(d->strategy->cls->marked(d->strategy, &own, err));
        if (own.size > 0 || !d->strategy->is_chief)
            found = own;
    }
    if (found.size == 0)
        return SHEAF_OK;
    SHEAF__TRY(sheaf__position_read(&in, found.data, found.size, err));
    sheaf__mutex_lock(&d->progress.lock);
    sheaf_status status = check(d, &in, err);
    if (status >= 0) {
        sheaf__position_free(&d->progress.accepted);
        d->progress.accepted = in;
    }
    sheaf__mutex_unlock(&d->progress.lock);
    if (status < 0)
        sheaf__position_free(&in);
    return status;
}

/* With the lock held. */
static void take(sheaf_dist_dataset *d)
{
    struct sheaf__progress *p = &d->progress;
    sheaf__progress_leave(d);
    for (size_t i = 0; i < p->draws.count; i++) {
        p->draws.items[i].seeds = p->accepted.draws[i].seeds;
        p->draws.items[i].count = p->accepted.draws[i].count;
    }
    for (int i = 0; i < d->dataset_count; i++)
        sheaf__progress_set_seeds(d, d->datasets[i]);
    p->passes = p->accepted.passes;
    p->restored = p->accepted;
    p->accepted = (struct sheaf__position){0};
    if (p->restored.leg_count == 0)
        sheaf__position_free(&p->restored); /* the pass had not begun */
}

static void settle(sheaf_trackable *t, bool taken)
{
    sheaf_dist_dataset *d = t->object;
    sheaf__mutex_lock(&d->progress.lock);
    if (taken && d->progress.accepted.pipeline)
        take(d);
    sheaf__position_free(&d->progress.accepted);
    sheaf__mutex_unlock(&d->progress.lock);
}

const struct sheaf__trackable_class sheaf__progress_trackable_class = {
    .group = group_of, .check = check_object, .save = save, .accept = accept, .settle = settle};

sheaf_trackable *sheaf_dist_dataset_trackable(sheaf_dist_dataset *d)
{
    if (!d)
        return NULL;
    d->progress.tracked = true;
    return &d->progress.trackable;
}
