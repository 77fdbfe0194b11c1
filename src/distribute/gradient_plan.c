/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/gradient_plan.h"

#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "distribute/bind.h"
#include "distribute/replica.h"
#include "distribute/sync.h"
#include "ops/variable.h"
#include "tensor/frame.h"

#include <stdio.h>
#include <string.h>

/* Gradients from this size on are summed by themselves; smaller ones together at the end. */
enum { EARLY_BYTES = 256 * 1024 };

/* ---- names ---- */

/* What other workers must have alike: variables and how each is summed. */
struct entry {
    uint64_t name;
    int64_t elements;
    uint32_t kind, dtype;
};

static void set_name(struct sheaf__gradient_plan *plan, const sheaf_optimizer *o)
{
    uint64_t hash = sheaf__hash(plan->early, plan->early_count * sizeof(*plan->early));
    for (size_t i = 0; i < plan->count; i++) {
        const sheaf_variable *v = sheaf__bound_variable(o, i);
        struct {
            uint64_t before;
            struct entry entry;
        } next = {hash,
                  {sheaf__hash(v->name, strlen(v->name)), sheaf_shape_elements(v->shape),
                   plan->kinds[i], (uint32_t)v->dtype}};
        hash = sheaf__hash(&next, sizeof(next));
    }
    snprintf(plan->name, sizeof(plan->name), "gradients %08x", (unsigned)(hash ^ hash >> 32));
}

/* ---- making ---- */

static struct sheaf__gradient_plan *make(size_t count)
{
    struct sheaf__gradient_plan *plan =
        sheaf__calloc(1, sizeof(*plan) + count * (sizeof(*plan->early) + sizeof(*plan->kinds)));
    if (!plan)
        return NULL;
    plan->count = count;
    plan->early = (uint32_t *)(void *)(plan + 1);
    plan->kinds = (uint8_t *)(plan->early + count);
    return plan;
}

struct sheaf__gradient_plan *sheaf__gradient_plan_of(sheaf_optimizer *o, const sheaf_replica *r)
{
    const uint32_t renewals = r->strategy->sync->renewals;
    void **place = sheaf__bound_note(o, r->local);
    struct sheaf__gradient_plan *plan = *place ? *place : make(sheaf__bound_count(o));
    if (!plan || (*place && plan->renewals == renewals))
        return plan;
    memset(plan->kinds, SHEAF__GRADIENT_NONE, plan->count);
    plan->early_count = 0;
    plan->renewals = renewals;
    set_name(plan, o);
    *place = plan;
    return plan;
}

/* ---- agreeing ---- */

struct votes {
    struct sheaf__gradient_plan *plan;
    const sheaf_optimizer *optimizer;
    const struct sheaf__gradient_use
        *uses; /* of all variables of replica 0, then of replica 1, … */
    int replicas;
    uint64_t *turns; /* of each variable, on the first replica that has it */
};

static sheaf_status vote(const struct votes *w, size_t i, sheaf_error *err)
{
    int first = -1;
    w->turns[i] = UINT64_MAX;
    for (int r = 0; r < w->replicas; r++) {
        const struct sheaf__gradient_use *use = &w->uses[(size_t)r * w->plan->count + i];
        if (use->kind == SHEAF__GRADIENT_NONE)
            continue;
        if (first < 0) {
            first = r;
            w->turns[i] = use->turn;
            w->plan->kinds[i] = (uint8_t)use->kind;
        } else if (use->kind != w->plan->kinds[i]) {
            const bool rows = use->kind == SHEAF__GRADIENT_ROWS;
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "variable '%s' has a dense gradient on replica %d and one of rows, "
                                "by a look-up, on "
                                "replica %d; every replica that uses it must do so in the same way",
                                sheaf__bound_variable(w->optimizer, i)->name, rows ? first : r,
                                rows ? r : first);
        }
    }
    return SHEAF_OK;
}

static bool is_early(const struct votes *w, size_t i)
{
    const sheaf_variable *v = sheaf__bound_variable(w->optimizer, i);
    return w->plan->kinds[i] == SHEAF__GRADIENT_DENSE &&
           (size_t)sheaf_shape_elements(v->shape) * sheaf_dtype_size(v->dtype) >= EARLY_BYTES;
}

/* Those that nobody has this time come last, where they hold nobody up. */
static void order_early(const struct votes *w)
{
    struct sheaf__gradient_plan *plan = w->plan;
    plan->early_count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        if (!is_early(w, i))
            continue;
        size_t at = plan->early_count++;
        for (; at > 0 && w->turns[plan->early[at - 1]] > w->turns[i]; at--)
            plan->early[at] = plan->early[at - 1];
        plan->early[at] = (uint32_t)i;
    }
}

static sheaf_status count_votes(struct votes *w, sheaf_error *err)
{
    for (size_t i = 0; i < w->plan->count; i++)
        SHEAF__TRY(vote(w, i, err));
    order_early(w);
    set_name(w->plan, w->optimizer);
    return SHEAF_OK;
}

sheaf_status sheaf__gradient_plan_agree(struct sheaf__gradient_plan *plan, sheaf_replica *r,
                                        const sheaf_optimizer *o,
                                        const struct sheaf__gradient_use *mine, sheaf_error *err)
{
    sheaf_strategy *s = sheaf_replica_strategy(r);
    const size_t replicas = (size_t)s->total, bytes = plan->count * sizeof(*mine);
    struct sheaf__gradient_use *uses = sheaf__frame_alloc(replicas * bytes + 1);
    size_t *sizes = sheaf__frame_alloc(replicas * sizeof(*sizes));
    uint64_t *turns = sheaf__frame_alloc(plan->count * sizeof(*turns) + 1);
    if (!uses || !sizes || !turns)
        return sheaf__no_memory(err, "the gradients");
    for (size_t i = 0; i < replicas; i++)
        sizes[i] = bytes;
    const struct sheaf__wait wait = sheaf__sync_wait(s, "how gradients are summed");
    SHEAF__TRY(sheaf__channel_all_gather(s->sync->values, r->local, mine, sizes, uses, &wait, err));
    struct votes w = {plan, o, uses, s->total, turns};
    return count_votes(&w, err);
}
