/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/progress.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/iterator.h"
#include "data/reshard.h"
#include "distribute/dist_dataset.h"
#include "distribute/sync.h"
#include "tensor/frame.h"

#include <string.h>

/* Seeds. */

static bool has_chance(const struct sheaf__draw_table *t)
{
    bool found = false;
    for (size_t i = 0; i < t->count; i++)
        found = found || t->items[i].chance;
    return found;
}

/* Worker 0's. */
static sheaf_status agree_on_key(sheaf_strategy *s, struct sheaf__seeds *key, sheaf_error *err)
{
    SHEAF_FRAME
    {
        const struct sheaf__seeds mine = sheaf__random_seeds(false, 0);
        const int64_t numbers[] = {(int64_t)mine.seed, (int64_t)mine.seed2};
        sheaf_tensor *t = sheaf__sync_first(
            s, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2), numbers), "a dataset's seed");
        SHEAF__TRY(sheaf_tensor_status(t, err));
        key->seed = (uint64_t)sheaf_tensor_integer(t, 0);
        key->seed2 = (uint64_t)sheaf_tensor_integer(t, 1);
    }
    return SHEAF_OK;
}

static sheaf_status list_stages(const sheaf_dist_dataset *d, struct sheaf__draw_table *t,
                                sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    if (d->source)
        return sheaf__draw_table_add(t, d->source, err);
    for (int i = 0; i < d->dataset_count && status >= 0; i++)
        status = sheaf__draw_table_add(t, d->datasets[i], err);
    return status;
}

sheaf_status sheaf__progress_start(sheaf_dist_dataset *d, sheaf_error *err)
{
    struct sheaf__progress *p = &d->progress;
    struct sheaf__seeds key;
    SHEAF__TRY(list_stages(d, &p->draws, err));
    if (d->strategy->workers == 1 || !has_chance(&p->draws))
        return SHEAF_OK;
    SHEAF__TRY(agree_on_key(d->strategy, &key, err));
    sheaf__draw_table_agree(&p->draws, key);
    return SHEAF_OK;
}

void sheaf__progress_free(struct sheaf__progress *p)
{
    sheaf__draw_table_free(&p->draws);
    sheaf__draw_table_free(&p->next);
    sheaf__position_free(&p->restored);
    sheaf__position_free(&p->accepted);
    sheaf__free(p->pipeline);
    sheaf__free(p->legs);
    sheaf__buf_free(&p->account);
    sheaf__buf_free(&p->stopped);
}

void sheaf__progress_set_seeds(const sheaf_dist_dataset *d, sheaf_dataset *data)
{
    /* Workers that call a function each for a dataset must not get one order of the same data. */
    const bool own = !d->source && d->strategy->workers > 1;
    sheaf__draw_table_set(&d->progress.draws, data, own ? (uint64_t)d->strategy->pipeline : 0);
}

/* Legs. */

struct sheaf__leg *sheaf__progress_legs(const sheaf_dist_dataset *d,
                                        const struct sheaf__position *p, size_t *count)
{
    const struct sheaf__leg here = {.workers = d->strategy->workers,
                                    .replicas = d->strategy->local};
    size_t n = p->leg_count;
    struct sheaf__leg *legs = sheaf__calloc(n + 1, sizeof(*legs));
    if (!legs)
        return NULL;
    if (n > 0)
        memcpy(legs, p->legs, n * sizeof(*legs));
    const struct sheaf__leg *last = n > 0 ? &legs[n - 1] : NULL;
    const bool same = last && last->workers == here.workers && last->replicas == here.replicas;
    if (last && !same && last->rounds == 0)
        n--; /* nobody took a step of it */
    if (!same)
        legs[n++] = here;
    *count = n;
    return legs;
}

static bool is_resharded(const struct sheaf__progress *p)
{
    return p->leg_count > 1;
}

/* Whether the generators themselves say how the next pass begins. */
static bool is_alone(const sheaf_dist_dataset *d)
{
    return d->strategy->workers == 1 && !is_resharded(&d->progress);
}

/* Leaving. */

/* The generators as the next pass begins. */
static void move_on(sheaf_dist_dataset *d)
{
    struct sheaf__progress *p = &d->progress;
    for (size_t i = 0; i < p->next.count; i++)
        p->draws.items[i].count = p->next.items[i].count;
    for (int i = 0; i < d->dataset_count; i++)
        sheaf__progress_set_seeds(d, d->datasets[i]);
}

void sheaf__progress_leave(sheaf_dist_dataset *d)
{
    struct sheaf__progress *p = &d->progress;
    if (p->runner && !is_alone(d))
        move_on(d);
    sheaf__position_free(&p->restored);
    sheaf__free(p->legs);
    p->legs = NULL;
    p->leg_count = 0;
    p->runner = NULL;
    p->iterators = NULL;
    p->elements = p->errors = p->examples = p->left_out = 0;
    p->failed = false;
}

void sheaf__progress_break(sheaf_dist_dataset *d, const void *runner)
{
    struct sheaf__progress *p = &d->progress;
    sheaf__mutex_lock(&p->lock);
    if (p->runner == runner)
        sheaf__progress_leave(d);
    sheaf__mutex_unlock(&p->lock);
}

void sheaf__progress_end(sheaf_dist_dataset *d, const void *runner, uint64_t left_out)
{
    struct sheaf__progress *p = &d->progress;
    sheaf__mutex_lock(&p->lock);
    if (p->runner == runner) {
        p->passes++;
        p->left_out = left_out;
        sheaf__progress_close(d);
        sheaf__progress_leave(d);
    }
    sheaf__mutex_unlock(&p->lock);
}

/* Beginning. */

/* The rest of a pass that other workers began. */
static sheaf_status iterate_rest(sheaf_dist_dataset *d, sheaf_iterator **iterators,
                                 sheaf_error *err)
{
    const struct sheaf__progress *p = &d->progress;
    const struct sheaf__leg *before = &p->legs[p->leg_count - 2];
    const int worker = d->strategy->worker_id;
    sheaf_dataset *rest = NULL;
    sheaf__progress_set_seeds(d, d->datasets[0]);
    sheaf_iterator_free(sheaf_dataset_iterate(d->datasets[0])); /* draws what a pass draws */
    SHEAF__TRY(sheaf__reshard(d->source, p->legs, p->leg_count, worker, &rest, err));
    sheaf__progress_set_seeds(d, rest);
    iterators[0] = sheaf_dataset_iterate(rest);
    sheaf_dataset_free(rest);
    sheaf__log(SHEAF_LOG_INFO,
               "input: worker %d of %d goes on where %lld workers with %lld replicas each were",
               worker, d->strategy->workers, (long long)before->workers,
               (long long)before->replicas);
    return SHEAF_OK;
}

static void iterate_all(sheaf_dist_dataset *d, sheaf_iterator **iterators)
{
    struct sheaf__progress *p = &d->progress;
    for (int i = 0; i < d->dataset_count; i++) {
        if (p->restored.pipeline || !is_alone(d))
            sheaf__progress_set_seeds(d, d->datasets[i]);
        iterators[i] = sheaf_dataset_iterate(d->datasets[i]);
        if (iterators[i]->root)
            sheaf__draw_table_get_marks(&p->draws, sheaf__trail_marks(iterators[i]->flow.trail));
    }
}

/* Puts the iterators behind the steps that were taken. The worker whose position it is knows how many
 * elements that were; others may have had less. */
static void seek(sheaf_dist_dataset *d, sheaf_iterator **iterators)
{
    struct sheaf__progress *p = &d->progress;
    const struct sheaf__position *from = &p->restored;
    const uint64_t rounds = p->legs[p->leg_count - 1].rounds;
    const bool ours = d->strategy->worker_id == 0 && d->dataset_count == 1;
    const uint64_t each = d->dataset_count > 1 ? 1 : (uint64_t)d->strategy->local;
    if (rounds == 0)
        return;
    p->elements = from->elements;
    p->errors = from->errors;
    for (int i = 0; i < d->dataset_count; i++) {
        sheaf__iterator_take_files(iterators[i], from);
        if (ours)
            sheaf__iterator_seek(iterators[i], from->elements, from->errors);
        else
            sheaf__iterator_seek_up_to(iterators[i], rounds * each);
    }
}

/* After the iterators were made, and nothing else was done: so the next pass begins. */
static sheaf_status look_ahead(sheaf_dist_dataset *d, sheaf_error *err)
{
    struct sheaf__progress *p = &d->progress;
    sheaf__draw_table_free(&p->next);
    SHEAF__TRY(list_stages(d, &p->next, err));
    for (int i = 0; i < d->dataset_count; i++)
        sheaf__draw_table_get(&p->next, d->datasets[i]);
    return SHEAF_OK;
}

static sheaf_status begin(sheaf_dist_dataset *d, sheaf_iterator **iterators, bool *fills,
                          sheaf_error *err)
{
    struct sheaf__progress *p = &d->progress;
    p->legs = sheaf__progress_legs(d, &p->restored, &p->leg_count);
    if (!p->legs)
        return sheaf__no_memory(err, "a distributed iterator");
    p->examples = p->restored.examples;
    if (is_resharded(p)) {
        /* The last batches may be smaller than any batch of the dataset is. */
        *fills = *fills || (d->strategy->partial_batches && d->cardinality != SHEAF_INFINITE);
        SHEAF__TRY(iterate_rest(d, iterators, err));
    } else {
        iterate_all(d, iterators);
    }
    seek(d, iterators);
    return is_alone(d) ? SHEAF_OK : look_ahead(d, err);
}

sheaf_status sheaf__progress_begin(sheaf_dist_dataset *d, const void *runner,
                                   sheaf_iterator **iterators, bool *fills, sheaf_error *err)
{
    struct sheaf__progress *p = &d->progress;
    sheaf__mutex_lock(&p->lock);
    if (p->runner)
        sheaf__progress_leave(d);
    sheaf_status status = begin(d, iterators, fills, err);
    p->runner = runner;
    p->iterators = iterators;
    p->halted = false;
    sheaf__mutex_unlock(&p->lock);
    if (status < 0)
        sheaf__progress_break(d, runner);
    return status;
}

void sheaf__progress_step(sheaf_dist_dataset *d, const void *runner, sheaf_status status,
                          const struct sheaf__handed_out *what)
{
    struct sheaf__progress *p = &d->progress;
    sheaf__mutex_lock(&p->lock);
    if (p->runner == runner) {
        p->legs[p->leg_count - 1].rounds += status >= 0;
        p->failed = p->failed || status < 0;
        p->elements = what->elements;
        p->errors = what->errors;
        p->examples += what->examples;
    }
    sheaf__mutex_unlock(&p->lock);
}

int64_t sheaf_dist_dataset_passes(sheaf_dist_dataset *d)
{
    if (!d)
        return 0;
    sheaf__mutex_lock(&d->progress.lock);
    const int64_t passes = (int64_t)d->progress.passes;
    sheaf__mutex_unlock(&d->progress.lock);
    return passes;
}
