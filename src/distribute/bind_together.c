/* SPDX-License-Identifier: Apache-2.0 */

/* The first update by an optimizer: one that was not built is bound to all that the replicas use in it, here and on other
 * workers, and these compare their optimizers. */

#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "distribute/bind.h"
#include "distribute/made.h"
#include "distribute/replica.h"
#include "distribute/sync.h"
#include "tensor/frame.h"

#include <stdlib.h>
#include <string.h>

/* ---- over the replicas of this process ---- */

/* What a replica brings. */
struct binding {
    sheaf_optimizer *optimizer;
    const struct sheaf__gradient *all;
    size_t count;
};

/* Variables in the order of their creation, each once; of the frame. */
struct variables {
    sheaf_variable **items;
    size_t count;
};

static void add(struct variables *list, sheaf_variable *v)
{
    size_t at = list->count;
    while (at > 0 && list->items[at - 1]->order > v->order)
        at--;
    if (at > 0 && list->items[at - 1] == v)
        return;
    memmove(list->items + at + 1, list->items + at, (list->count - at) * sizeof(v));
    list->items[at] = v;
    list->count++;
}

static sheaf_status merge(void *const *contributions, int count, struct variables *list,
                          sheaf_error *err)
{
    const struct binding *first = contributions[0];
    size_t most = 1;
    for (int i = 0; i < count; i++) {
        const struct binding *b = contributions[i];
        if (b->optimizer != first->optimizer)
            return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                                "replicas update variables by different optimizers at once");
        most += b->count;
    }
    list->count = 0;
    list->items = sheaf__frame_alloc(most * sizeof(*list->items));
    if (!list->items)
        return sheaf__no_memory(err, "an optimizer");
    for (int i = 0; i < count; i++) {
        const struct binding *b = contributions[i];
        for (size_t k = 0; k < b->count; k++)
            add(list, b->all[k].variable);
    }
    return SHEAF_OK;
}

/* ---- over workers ---- */

/* A variable as workers tell each other. */
struct passport {
    uint64_t number; /* among those of the strategy; FOREIGN and a hash of its name */
    char name[56];
};
#define FOREIGN (UINT64_C(1) << 63)

static struct passport passport_of(const sheaf_strategy *s, const sheaf_variable *v)
{
    struct passport p = {.number = v->number};
    if (v->strategy != s)
        p.number = FOREIGN | sheaf__hash(v->name, strlen(v->name));
    sheaf__str_copy(p.name, sizeof(p.name), v->name);
    return p;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = ((const struct passport *)a)->number,
                   y = ((const struct passport *)b)->number;
    return (x > y) - (x < y);
}

/* This worker's variable of that passport. */
static sheaf_variable *find(sheaf_strategy *s, const struct variables *own,
                            const struct passport *p)
{
    for (size_t i = 0; i < own->count; i++)
        if (passport_of(s, own->items[i]).number == p->number)
            return own->items[i];
    return p->number & FOREIGN || !s->made ? NULL : sheaf__made_get(s->made, p->number);
}

static sheaf_status find_all(sheaf_strategy *s, const struct variables *own,
                             const struct passport *all, size_t count, struct variables *list,
                             sheaf_error *err)
{
    list->count = 0;
    list->items = sheaf__frame_alloc((count + 1) * sizeof(*list->items));
    if (!list->items)
        return sheaf__no_memory(err, "an optimizer");
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && all[i].number == all[i - 1].number)
            continue;
        sheaf_variable *v = find(s, own, &all[i]);
        if (!v || strncmp(v->name, all[i].name, sizeof(all[i].name) - 1) != 0)
            return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                                "a worker updates variable '%s', which is %s%s%s on this one; all "
                                "workers must make the same variables in the same order",
                                all[i].name, v ? "'" : "not there", v ? v->name : "", v ? "'" : "");
        list->items[list->count++] = v;
    }
    return SHEAF_OK;
}

/* In the order of their numbers, which is the same on all workers. */
static sheaf_status merge_workers(sheaf_strategy *s, struct variables *list, sheaf_error *err)
{
    const struct variables own = *list;
    struct passport *mine = sheaf__frame_alloc((own.count + 1) * sizeof(*mine)), *all = NULL;
    size_t *sizes = sheaf__frame_alloc((size_t)s->workers * sizeof(*sizes)), total = 0;
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the variables of an optimizer");
    void *data = NULL;
    if (!mine || !sizes)
        return sheaf__no_memory(err, "an optimizer");
    for (size_t i = 0; i < own.count; i++)
        mine[i] = passport_of(s, own.items[i]);
    SHEAF__TRY(sheaf__channel_gather_bytes(s->sync->cross, 0,
                                           (struct sheaf__bytes){mine, own.count * sizeof(*mine)},
                                           sizes, &data, &wait, err));
    all = data;
    for (int w = 0; w < s->workers; w++)
        total += sizes[w] / sizeof(*all);
    qsort(all, total, sizeof(*all), by_number);
    sheaf_status status = find_all(s, &own, all, total, list, err);
    sheaf__free(data);
    return status;
}

/* ---- together ---- */

static sheaf_status bind_at_meeting(void *const *contributions, int count, void *user,
                                    sheaf_error *err)
{
    const struct binding *first = contributions[0];
    sheaf_strategy *s = user;
    struct variables list;
    SHEAF__TRY(merge(contributions, count, &list, err));
    if (s->workers > 1) {
        SHEAF__TRY(sheaf__bind_compare(s, first->optimizer, err));
        SHEAF__TRY(merge_workers(s, &list, err));
    }
    if (list.count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "optimizer %s has no gradients: no trainable variable was read on the "
                            "tape",
                            first->optimizer->name);
    SHEAF__TRY(sheaf__bind(first->optimizer, list.items, list.count, err));
    *sheaf__bound_agreed(first->optimizer) = true;
    return SHEAF_OK;
}

sheaf_status sheaf__bind_together(sheaf_replica *r, sheaf_optimizer *o,
                                  const struct sheaf__gradient *all, size_t count, sheaf_error *err)
{
    sheaf_strategy *s = sheaf_replica_strategy(r);
    struct binding mine = {o, all, count};
    const struct sheaf__meeting meeting = {
        .what = "the first update by", .of = o->name, .fn = bind_at_meeting, .user = s};
    if (sheaf__is_bound(o) && (s->workers == 1 || *sheaf__bound_agreed(o)))
        return SHEAF_OK;
    return sheaf__replica_meet(r, &meeting, &mine, err);
}
