/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/plan.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/tensor.h"

#include <string.h>

/* What a sharding callback sees and does. */

const char *sheaf_shardable_key(const sheaf_shardable *t)
{
    return t ? t->tensor->item.key : "";
}

sheaf_dtype sheaf_shardable_dtype(const sheaf_shardable *t)
{
    return t ? t->tensor->item.saveable.dtype : SHEAF_INVALID_DTYPE;
}

sheaf_shape sheaf_shardable_shape(const sheaf_shardable *t)
{
    return t ? t->slice.shape : (sheaf_shape){0};
}

const char *sheaf_shardable_device(const sheaf_shardable *t)
{
    return t ? t->device : NULL;
}

const char *sheaf_shardable_slice_spec(const sheaf_shardable *t)
{
    return t ? t->slice_spec : "";
}

sheaf_tensor *sheaf_shardable_tensor(sheaf_shardable *t)
{
    return t ? sheaf__objects_value(t->objects, t->tensor)
             : sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "the shardable tensor is NULL");
}

void sheaf__placements_free(struct sheaf_shard_plan *plan)
{
    sheaf__arena_clear(&plan->texts);
    sheaf__free(plan->list);
    *plan = (struct sheaf_shard_plan){0};
}

static const char *copy_text(sheaf_shard_plan *plan, const char *text)
{
    return *text ? sheaf__arena_text(&plan->texts, text, strlen(text)) : "";
}

/* Texts are copied: they are the callback's. */
static void place(sheaf_shard_plan *plan, struct sheaf__placement p, const char *key,
                  const char *slice_spec, const char *device)
{
    p.key = copy_text(plan, key ? key : "");
    p.slice_spec = copy_text(plan, slice_spec ? slice_spec : "");
    p.device = device ? copy_text(plan, device) : NULL;
    if (!p.key || !p.slice_spec || (device && !p.device) ||
        !sheaf__array_reserve(&plan->list, &plan->capacity, plan->count + 1, sizeof(*plan->list))) {
        plan->failed = true;
        return;
    }
    plan->list[plan->count++] = p;
}

void sheaf__shard_put_part(sheaf_shard_plan *plan, int shard, const sheaf_shardable *t,
                           const struct sheaf__slice *part)
{
    struct sheaf__placement p = {
        .shard = shard, .dtype = t->tensor->item.saveable.dtype, .shape = part->shape};
    struct sheaf__str spec = {0};
    sheaf__slice_text(&spec, part);
    plan->failed |= spec.failed;
    place(plan, p, t->tensor->item.key, sheaf__str_text(&spec), t->device);
    sheaf__str_free(&spec);
}

void sheaf_shard_put(sheaf_shard_plan *plan, int shard, const sheaf_shardable *t)
{
    const struct sheaf__placement nothing = {.shard = shard, .status = SHEAF_ERR_INVALID_ARGUMENT};
    if (plan && t)
        sheaf__shard_put_part(plan, shard, t, &t->slice);
    else if (plan)
        place(plan, nothing, NULL, NULL, NULL);
}

void sheaf_shard_put_as(sheaf_shard_plan *plan, int shard, const char *key, const char *slice_spec,
                        sheaf_tensor *tensor, const char *device)
{
    struct sheaf__placement p = {.shard = shard,
                                 .dtype = sheaf_tensor_dtype(tensor),
                                 .shape = sheaf_tensor_shape(tensor),
                                 .status = sheaf_tensor_status(tensor, NULL)};
    if (plan)
        place(plan, p, key, slice_spec, device);
}

sheaf_status sheaf_sharding_callback_check(const sheaf_sharding_callback *callback,
                                           sheaf_error *err)
{
    if (!callback)
        return SHEAF_OK;
    if (!callback->assign)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a sharding callback without its function 'assign'");
    if (!callback->description || !*callback->description)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a sharding callback without its description");
    return SHEAF_OK;
}
