/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/direct.h"

#include "base/error.h"
#include "distribute/replica.h"
#include "ops/variable.h"
#include "optim/optimizer.h"
#include "tensor/frame.h"

#include <string.h>

bool sheaf__direct_possible(const sheaf_replica *r, const sheaf_optimizer *o)
{
    const sheaf_strategy *s = sheaf_replica_strategy(r);
    return !s->sync && !s->remote && o->clip == SHEAF__CLIP_NONE;
}

/* Slots are changed in place, so that a step that failed half-way would leave them ahead of the value: only rules
 * without. */
static bool has_slots(const struct sheaf__hyper *h)
{
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    return sheaf__rule_slots(h, slots) > 0;
}

static sheaf_status begin_one(struct sheaf__direct *d, size_t i, struct sheaf__gradient *g,
                              sheaf_error *err)
{
    struct sheaf__direct_update *u = &d->updates[i];
    sheaf_variable *copy = sheaf__update_copy(d->replica, g->variable);
    if (!g->direct || !copy || !sheaf__rule_takes(copy->dtype))
        return SHEAF_OK;
    u->update = (struct sheaf__update){.dtype = copy->dtype};
    u->update.to = sheaf__variable_update_begin(copy, &u->update.from);
    if (!u->update.to)
        return sheaf__no_memory(err, "an update");
    if (u->update.to == u->update.from) { /* could not be given up */
        sheaf__variable_update_commit(copy);
        return SHEAF_OK;
    }
    sheaf__rule_run_init(&u->run, &d->hyper, &u->update);
    u->copy = copy;
    g->take = true;
    return SHEAF_OK;
}

sheaf_status sheaf__direct_begin(struct sheaf__direct *d, const struct sheaf__gradients *g,
                                 sheaf_error *err)
{
    if (has_slots(&d->hyper))
        return SHEAF_OK;
    d->updates = sheaf__frame_alloc((g->count + 1) * sizeof(*d->updates));
    if (!d->updates)
        return sheaf__no_memory(err, "updates");
    memset(d->updates, 0, g->count * sizeof(*d->updates));
    d->count = g->count;
    for (size_t i = 0; i < g->count; i++)
        SHEAF__TRY(begin_one(d, i, &g->all[i], err));
    return SHEAF_OK;
}

void sheaf__direct_take(size_t i, const void *elements, size_t first, size_t count, void *user)
{
    const struct sheaf__direct *d = user;
    sheaf__rule_run_span(&d->updates[i].run, first, elements, NULL, count);
}

void sheaf__direct_commit(struct sheaf__direct *d, struct sheaf__gradient *all)
{
    for (size_t i = 0; i < d->count; i++) {
        if (!d->updates[i].copy)
            continue;
        if (all[i].unused) {
            all[i].take = false;
            sheaf__variable_update_abort(d->updates[i].copy);
        } else {
            sheaf__variable_update_commit(d->updates[i].copy);
        }
    }
    d->count = 0;
}

void sheaf__direct_abort(struct sheaf__direct *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->updates[i].copy)
            sheaf__variable_update_abort(d->updates[i].copy);
    d->count = 0;
}
