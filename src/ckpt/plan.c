/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/plan.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "ckpt/shard.h"
#include "tensor/called.h"
#include "tensor/frame.h"

#include <stdlib.h>
#include <string.h>

/* The tensors of all tasks, and those of the task whose turn it is. */
struct planning {
    struct sheaf__ckpt_plan *plan;
    const struct sheaf__ckpt_objects *objects;
    const sheaf_sharding_callback *sharding;
    sheaf_shardable *all;
    size_t count;
    sheaf_shardable **mine;
    bool *done;
    struct sheaf__arena texts;
};

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "the plan of a save");
}

void sheaf__ckpt_plan_free(struct sheaf__ckpt_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        sheaf__free(plan->shards[i].items);
        sheaf__free(plan->shards[i].tensors);
    }
    sheaf__free(plan->shards);
    *plan = (struct sheaf__ckpt_plan){0};
}

static sheaf_status list_shardables(struct planning *p, const char *own_device, sheaf_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct sheaf__ckpt_tensor *t = &p->objects->tensors[i];
        const struct sheaf__saveable *s = &t->item.saveable;
        struct sheaf__slice slice = {.full = s->full, .shape = s->shape};
        memcpy(slice.offset, s->offset, sizeof(slice.offset));
        struct sheaf__str text = {0};
        sheaf__slice_text(&text, &slice);
        p->all[i] = (sheaf_shardable){
            .objects = p->objects,
            .tensor = t,
            .device = s->device ? s->device : own_device,
            .slice_spec = text.size ? sheaf__arena_text(&p->texts, text.text, text.size) : "",
            .slice = slice,
        };
        bool failed = text.failed || !p->all[i].slice_spec;
        sheaf__str_free(&text);
        if (failed)
            return no_memory(err);
    }
    return SHEAF_OK;
}

static void add_item(struct sheaf__ckpt_shard *shard, const struct sheaf__placement *p)
{
    struct sheaf__shard_item *item = &shard->items[shard->count];
    *item = p->input->tensor->item;
    item->saveable.shape = p->slice.shape;
    memcpy(item->saveable.offset, p->slice.offset, sizeof(item->saveable.offset));
    shard->tensors[shard->count++] = p->input->tensor;
}

/* By shard; within it in the order in which they were placed. */
static int compare_shards(const void *a, const void *b)
{
    const struct sheaf__placement *x = *(const struct sheaf__placement *const *)a;
    const struct sheaf__placement *y = *(const struct sheaf__placement *const *)b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return x < y ? -1 : x > y;
}

static sheaf_status add_shard(struct planning *p, const struct sheaf__placement *const *placed,
                              size_t count, sheaf_error *err)
{
    struct sheaf__ckpt_plan *plan = p->plan;
    if (!sheaf__array_reserve(&plan->shards, &plan->capacity, plan->count + 1,
                              sizeof(*plan->shards)))
        return no_memory(err);
    struct sheaf__ckpt_shard *shard = &plan->shards[plan->count++];
    const sheaf_shardable *first = p->mine[0];
    *shard = (struct sheaf__ckpt_shard){
        .device = first->device, .local = sheaf__objects_is_local(p->objects, first->tensor)};
    shard->items = sheaf__alloc_array(count, sizeof(*shard->items));
    shard->tensors = sheaf__alloc_array(count, sizeof(*shard->tensors));
    if (!shard->items || !shard->tensors)
        return no_memory(err);
    for (size_t i = 0; i < count; i++)
        add_item(shard, placed[i]);
    return SHEAF_OK;
}

/* Turns placements into shards, by number; numbers without tensors leave no shard. */
static sheaf_status add_shards(struct planning *p, const sheaf_shard_plan *placements,
                               sheaf_error *err)
{
    const size_t count = placements->count;
    const struct sheaf__placement **sorted = sheaf__alloc_array(count + 1, sizeof(*sorted));
    sheaf_status status = sorted ? SHEAF_OK : no_memory(err);
    for (size_t i = 0; i < count && sorted; i++)
        sorted[i] = &placements->list[i];
    if (sorted)
        qsort(sorted, count, sizeof(*sorted), compare_shards);
    for (size_t i = 0, end; i < count && status >= 0; i = end) {
        for (end = i + 1; end < count && sorted[end]->shard == sorted[i]->shard;)
            end++;
        status = add_shard(p, sorted + i, end - i, err);
    }
    sheaf__free(sorted);
    return status;
}

/* Asks the callback about the tensors of one task. */
static sheaf_status plan_task(struct planning *p, size_t count, sheaf_error *err)
{
    sheaf_shard_plan placements = {0};
    struct sheaf__plan_check check = {.description = p->sharding->description,
                                      .all = p->all,
                                      .all_count = p->count,
                                      .mine = p->mine,
                                      .count = count};
    sheaf_status status = SHEAF_OK;
    if (!sheaf__array_reserve(&placements.list, &placements.capacity, count,
                              sizeof(*placements.list)))
        return no_memory(err);
    SHEAF_FRAME
    {
        sheaf__error_listen();
        status = p->sharding->assign(p->mine, count, &placements, p->sharding->user);
        if (status < 0 && placements.error.status < 0) /* a policy of ours left it */
            sheaf__error(err, status, "sharding callback '%s' failed: %s", check.description,
                         placements.error.message);
        else if (status < 0)
            status = sheaf__called(status, err, "sharding callback '%s'", check.description);
    }
    if (status >= 0)
        status = sheaf__plan_check(&check, &placements, err);
    if (status >= 0)
        status = add_shards(p, &placements, err);
    sheaf__placements_free(&placements);
    return status;
}

/* Task by task, in the order in which they first appear (R8.13). */
static sheaf_status plan_tasks(struct planning *p, sheaf_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->done[i])
            continue;
        size_t count = 0;
        for (size_t k = i; k < p->count; k++) {
            if (sheaf__shard_same_task(p->all[k].device, p->all[i].device)) {
                p->done[k] = true;
                p->mine[count++] = &p->all[k];
            }
        }
        SHEAF__TRY(plan_task(p, count, err));
    }
    return SHEAF_OK;
}

sheaf_status sheaf__ckpt_plan_make(struct sheaf__ckpt_plan *plan,
                                   const struct sheaf__ckpt_objects *o,
                                   const sheaf_sharding_callback *sharding, const char *own_device,
                                   sheaf_error *err)
{
    *plan = (struct sheaf__ckpt_plan){0};
    SHEAF__TRY(sheaf_sharding_callback_check(sharding, err));
    struct planning p = {.plan = plan,
                         .objects = o,
                         .sharding = sharding ? sharding : sheaf_shard_by_task(),
                         .count = o->tensor_count};
    p.all = sheaf__calloc(p.count + 1, sizeof(*p.all));
    p.mine = sheaf__calloc(p.count + 1, sizeof(*p.mine));
    p.done = sheaf__calloc(p.count + 1, sizeof(*p.done));
    sheaf_status status = SHEAF_OK;
    if (!p.all || !p.mine || !p.done)
        status = no_memory(err);
    if (status >= 0)
        status = list_shardables(&p, own_device, err);
    if (status >= 0)
        status = plan_tasks(&p, err);
    sheaf__arena_clear(&p.texts);
    sheaf__free(p.all);
    sheaf__free(p.mine);
    sheaf__free(p.done);
    if (status < 0)
        sheaf__ckpt_plan_free(plan);
    return status;
}
