/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/draws.h"

static struct sheaf__draw_entry *find(const struct sheaf__draw_table *t, const sheaf_dataset *d)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i].stage == d->params)
            return &t->items[i];
    return NULL;
}

sheaf_status sheaf__draw_table_add(struct sheaf__draw_table *t, const sheaf_dataset *d,
                                   sheaf_error *err)
{
    struct sheaf__draws *draws = sheaf__draws_of(d);
    for (size_t i = 0; i < d->input_count && d->error.status >= 0; i++)
        SHEAF__TRY(sheaf__draw_table_add(t, d->inputs[i], err));
    if (!draws || find(t, d))
        return SHEAF_OK;
    if (!sheaf__array_reserve(&t->items, &t->capacity, t->count + 1, sizeof(*t->items)))
        return sheaf__no_memory(err, "the seeds of a dataset");
    sheaf__mutex_lock(&draws->lock);
    t->items[t->count++] =
        (struct sheaf__draw_entry){d->params, draws->chance, draws->seeds, draws->count};
    sheaf__mutex_unlock(&draws->lock);
    return SHEAF_OK;
}

/* Every copy of the entry's stage in the tree. */
static void set_stages(const sheaf_dataset *d, const struct sheaf__draw_entry *e,
                       struct sheaf__seeds seeds)
{
    struct sheaf__draws *draws = sheaf__draws_of(d);
    for (size_t i = 0; i < d->input_count && d->error.status >= 0; i++)
        set_stages(d->inputs[i], e, seeds);
    if (draws && d->params == e->stage)
        sheaf__draws_set(draws, seeds, e->count);
}

/* Seed number `i` that follows from others. */
static struct sheaf__seeds follow(struct sheaf__seeds from, uint64_t i)
{
    struct sheaf__philox p;
    struct sheaf__seeds out;
    sheaf__philox_init(&p, from.seed, from.seed2);
    sheaf__philox_skip(&p, i);
    out.seed = sheaf__philox_next64(&p);
    out.seed2 = sheaf__philox_next64(&p);
    return out;
}

void sheaf__draw_table_agree(struct sheaf__draw_table *t, struct sheaf__seeds key)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i].chance)
            t->items[i].seeds = follow(key, i);
}

void sheaf__draw_table_set(const struct sheaf__draw_table *t, sheaf_dataset *d, uint64_t pipeline)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct sheaf__draw_entry *e = &t->items[i];
        const bool other = pipeline > 0 && e->chance;
        set_stages(d, e, other ? follow(e->seeds, pipeline) : e->seeds);
    }
    sheaf__draws_thaw(d);
}

void sheaf__draw_table_get(struct sheaf__draw_table *t, const sheaf_dataset *d)
{
    struct sheaf__draws *draws = sheaf__draws_of(d);
    struct sheaf__draw_entry *entry = draws ? find(t, d) : NULL;
    for (size_t i = 0; i < d->input_count && d->error.status >= 0; i++)
        sheaf__draw_table_get(t, d->inputs[i]);
    if (!entry)
        return;
    sheaf__mutex_lock(&draws->lock);
    entry->count = draws->count;
    sheaf__mutex_unlock(&draws->lock);
}

void sheaf__draw_table_get_marks(struct sheaf__draw_table *t, const struct sheaf__marks *marks)
{
    for (size_t i = 0; i < marks->count; i++) {
        struct sheaf__draw_entry *entry = find(t, marks->items[i].dataset);
        if (entry)
            entry->count = marks->items[i].count;
    }
}

void sheaf__draw_table_free(struct sheaf__draw_table *t)
{
    sheaf__free(t->items);
    *t = (struct sheaf__draw_table){0};
}
