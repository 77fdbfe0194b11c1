/* SPDX-License-Identifier: Apache-2.0 */
#include "data/draws.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"

/* Numbers of one block of the generator. */
#define BLOCK 4

/* With the lock held. */
static void seek(struct sheaf__draws *draws, uint64_t count)
{
    sheaf__philox_init(&draws->generator, draws->seeds.seed, draws->seeds.seed2);
    sheaf__philox_skip(&draws->generator, count / BLOCK);
    for (uint64_t i = 0; i < count % BLOCK; i++)
        sheaf__philox_next(&draws->generator);
    draws->count = count;
}

void sheaf__draws_set(struct sheaf__draws *draws, struct sheaf__seeds seeds, uint64_t count)
{
    sheaf__mutex_lock(&draws->lock);
    draws->seeds = seeds;
    seek(draws, count);
    sheaf__mutex_unlock(&draws->lock);
}

bool sheaf__draws_in(const sheaf_dataset *d)
{
    bool found = d->stage->ops->draws;
    for (size_t i = 0; i < d->input_count && !found; i++)
        found = sheaf__draws_in(d->inputs[i]);
    return found;
}

struct sheaf__seeds sheaf__draws_take(struct sheaf__iter *it)
{
    struct sheaf__draws *draws = it->dataset->state;
    struct sheaf__seeds seeds;
    sheaf__mutex_lock(&draws->lock);
    seeds.seed = sheaf__philox_next(&draws->generator);
    seeds.seed2 = sheaf__philox_next(&draws->generator);
    draws->count += 2;
    sheaf__mutex_unlock(&draws->lock);
    return seeds;
}

/* ---- marks ---- */

static bool is_marked(const struct sheaf__marks *marks, const sheaf_dataset *d)
{
    bool found = false;
    for (size_t i = 0; i < marks->count && !found; i++)
        found = marks->items[i].dataset == d;
    return found;
}

static sheaf_status mark(struct sheaf__marks *marks, sheaf_dataset *d, struct sheaf__draws *draws,
                         sheaf_error *err)
{
    if (is_marked(marks, d)) {
        marks->shared = true;
        return SHEAF_OK;
    }
    if (!sheaf__array_reserve(&marks->items, &marks->capacity, marks->count + 1,
                              sizeof(*marks->items)))
        return sheaf__no_memory(err, "the seeds of a dataset");
    sheaf__mutex_lock(&draws->lock);
    marks->items[marks->count++] = (struct sheaf__mark){d, draws->count};
    sheaf__mutex_unlock(&draws->lock);
    return SHEAF_OK;
}

sheaf_status sheaf__marks_take(struct sheaf__marks *marks, sheaf_dataset *d, sheaf_error *err)
{
    struct sheaf__draws *draws = sheaf__draws_of(d);
    if (d->error.status < 0)
        return SHEAF_OK;
    for (size_t i = 0; i < d->input_count; i++)
        SHEAF__TRY(sheaf__marks_take(marks, d->inputs[i], err));
    return draws ? mark(marks, d, draws, err) : SHEAF_OK;
}

void sheaf__marks_return(const struct sheaf__marks *marks)
{
    for (size_t i = 0; i < marks->count; i++) {
        struct sheaf__draws *draws = sheaf__draws_of(marks->items[i].dataset);
        sheaf__mutex_lock(&draws->lock);
        seek(draws, marks->items[i].count);
        sheaf__mutex_unlock(&draws->lock);
    }
}

void sheaf__marks_free(struct sheaf__marks *marks)
{
    sheaf__free(marks->items);
    *marks = (struct sheaf__marks){0};
}
