/* SPDX-License-Identifier: Apache-2.0 */
#include "data/draws.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"

/* Numbers of one block of the generator, and those that an iterator takes. */
#define BLOCK 4
#define DRAWS 2

static void seek(struct sheaf__philox *generator, struct sheaf__seeds seeds, uint64_t count)
{
    sheaf__philox_init(generator, seeds.seed, seeds.seed2);
    sheaf__philox_skip(generator, count / BLOCK);
    for (uint64_t i = 0; i < count % BLOCK; i++)
        sheaf__philox_next(generator);
}

void sheaf__draws_set(struct sheaf__draws *draws, struct sheaf__seeds seeds, uint64_t count)
{
    sheaf__mutex_lock(&draws->lock);
    draws->seeds = seeds;
    draws->count = count;
    seek(&draws->generator, seeds, count);
    sheaf__mutex_unlock(&draws->lock);
}

bool sheaf__draws_in(const sheaf_dataset *d)
{
    bool found = d->stage->ops->draws;
    for (size_t i = 0; i < d->input_count && !found; i++)
        found = sheaf__draws_in(d->inputs[i]);
    return found;
}

/* ---- marks ---- */

static struct sheaf__mark *find(const struct sheaf__marks *marks, const sheaf_dataset *d)
{
    for (size_t i = 0; i < marks->count; i++)
        if (marks->items[i].dataset == d)
            return &marks->items[i];
    return NULL;
}

/* What of the dataset's draws is to be made again first; NULL: nothing. Under their lock. */
static struct sheaf__mark *find_redraw(struct sheaf__marks *marks, const sheaf_dataset *d)
{
    for (; marks; marks = marks->above) {
        struct sheaf__mark *m = find(marks, d);
        if (m && m->next < m->end)
            return m;
    }
    return NULL;
}

/* The seeds, and the number of the next draw for who has these marks above. */
static struct sheaf__mark look(struct sheaf__marks *above, sheaf_dataset *d)
{
    struct sheaf__draws *draws = sheaf__draws_of(d);
    sheaf__mutex_lock(&draws->lock);
    const struct sheaf__mark *again = find_redraw(above, d);
    const struct sheaf__mark m = {
        .dataset = d, .seeds = draws->seeds, .count = again ? again->next : draws->count};
    sheaf__mutex_unlock(&draws->lock);
    return m;
}

static sheaf_status add(struct sheaf__marks *marks, const struct sheaf__mark *mark,
                        sheaf_error *err)
{
    if (find(marks, mark->dataset)) {
        marks->shared = true;
        return SHEAF_OK;
    }
    if (!sheaf__array_reserve(&marks->items, &marks->capacity, marks->count + 1,
                              sizeof(*marks->items)))
        return sheaf__no_memory(err, "the seeds of a dataset");
    marks->items[marks->count++] = *mark;
    return SHEAF_OK;
}

static sheaf_status take_all(struct sheaf__marks *marks, sheaf_dataset *d, sheaf_error *err)
{
    const struct sheaf__stage_ops *ops = d->stage->ops;
    const bool works = d->error.status >= 0;
    const struct sheaf__marks *frozen = ops->frozen && works ? ops->frozen(d) : NULL;
    for (size_t i = 0; frozen && i < frozen->count; i++)
        SHEAF__TRY(add(marks, &frozen->items[i], err));
    for (size_t i = 0; !frozen && works && i < d->input_count; i++)
        SHEAF__TRY(take_all(marks, d->inputs[i], err));
    if (!sheaf__draws_of(d))
        return SHEAF_OK;
    const struct sheaf__mark mark = look(marks->above, d);
    return add(marks, &mark, err);
}

sheaf_status sheaf__marks_take(struct sheaf__marks *marks, sheaf_dataset *d,
                               struct sheaf__marks *above, sheaf_error *err)
{
    marks->above = above;
    return take_all(marks, d, err);
}

static bool is_current(const struct sheaf__mark *m)
{
    const struct sheaf__mark now = look(NULL, m->dataset);
    return now.count == m->count && now.seeds.seed == m->seeds.seed &&
           now.seeds.seed2 == m->seeds.seed2;
}

void sheaf__draws_thaw(sheaf_dataset *d)
{
    const struct sheaf__stage_ops *ops = d->stage->ops;
    const struct sheaf__marks *frozen = ops->frozen && d->error.status >= 0 ? ops->frozen(d) : NULL;
    bool current = true;
    for (size_t i = 0; frozen && i < frozen->count; i++)
        current = current && is_current(&frozen->items[i]);
    if (!current)
        ops->thaw(d);
    for (size_t i = 0; i < d->input_count && d->error.status >= 0; i++)
        sheaf__draws_thaw(d->inputs[i]);
}

void sheaf__marks_redraw(struct sheaf__marks *marks)
{
    for (size_t i = 0; i < marks->count; i++) {
        struct sheaf__mark *m = &marks->items[i];
        m->end = look(marks->above, m->dataset).count;
        m->next = m->count;
    }
}

void sheaf__marks_free(struct sheaf__marks *marks)
{
    sheaf__free(marks->items);
    *marks = (struct sheaf__marks){0};
}

/* ---- drawing ---- */

/* Under the lock: the generator, set to the next draw. */
static struct sheaf__philox *next_generator(const sheaf_dataset *d, const struct sheaf__flow *flow,
                                            struct sheaf__philox *again)
{
    struct sheaf__draws *draws = d->state;
    struct sheaf__mark *m = find_redraw(flow->redraw, d);
    if (m) {
        seek(again, draws->seeds, m->next);
        m->next += DRAWS;
        return again;
    }
    sheaf__trail_draw(flow->trail, d, draws->count, draws->count + DRAWS);
    draws->count += DRAWS;
    return &draws->generator;
}

struct sheaf__seeds sheaf__draws_take(const sheaf_dataset *d, const struct sheaf__flow *flow)
{
    struct sheaf__draws *draws = d->state;
    sheaf__mutex_lock(&draws->lock);
    struct sheaf__seeds seeds = draws->seeds;
    if (!draws->fixed) {
        struct sheaf__philox again, *generator = next_generator(d, flow, &again);
        seeds.seed = sheaf__philox_next(generator);
        seeds.seed2 = sheaf__philox_next(generator);
    }
    sheaf__mutex_unlock(&draws->lock);
    return seeds;
}

/* A random stage makes the iterators below it when it is read. */
void sheaf__draws_drop(const sheaf_dataset *d, const struct sheaf__flow *flow)
{
    const struct sheaf__stage_ops *ops = d->stage->ops;
    if (d->error.status < 0 || (ops->frozen && ops->frozen(d)))
        return;
    if (ops->draws) {
        sheaf__draws_take(d, flow);
        return;
    }
    for (size_t i = 0; i < sheaf__dataset_opens(d); i++)
        sheaf__draws_drop(d->inputs[i], flow);
}
