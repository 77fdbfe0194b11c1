/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/plan.h"

#include "base/error.h"
#include "base/mem.h"
#include "ckpt/shard.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The promises of sharding callbacks (R8.4), with TensorFlow's texts (formats.md 4.10) in one line.
 * A callback may also cut tensors into slices; then the slices of a tensor must make it up. */

/* A text that leaves room for the others in an error: the middle of a long one is left out. */
struct clipped {
    char text[56];
};
static struct clipped clip(const char *text)
{
    struct clipped c;
    size_t size = strlen(text), half = sizeof(c.text) / 2 - 2;
    if (size < sizeof(c.text))
        memcpy(c.text, text, size + 1);
    else
        snprintf(c.text, sizeof(c.text), "%.*s..%s", (int)half, text, text + size - half);
    return c;
}

/* "<what>: callback_description: D, checkpoint_key: K, slice_spec: S<more>". */
static sheaf_status broken(const struct sheaf__plan_check *check, const struct sheaf__placement *p,
                           sheaf_error *err, const char *what, const char *more)
{
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "sharding callback: %s: callback_description: %s, checkpoint_key: %s, "
                        "slice_spec: %s%s",
                        what, clip(check->description).text, clip(p->key).text,
                        clip(p->slice_spec).text, more);
}

static void task_text(const char *device, char *text, size_t size)
{
    snprintf(text, size, "%.*s", (int)sheaf__shard_task_size(device), device);
}

/* Whether the placement is the tensor, or a slice of it; then its slice is filled. */
static bool is_part_of(struct sheaf__placement *p, const sheaf_shardable *t)
{
    struct sheaf__slice slice;
    if (!strcmp(t->slice_spec, p->slice_spec)) {
        p->slice = t->slice;
        return true;
    }
    if (!*p->slice_spec || sheaf__slice_parse(p->slice_spec, t->slice.full, &slice, NULL) < 0 ||
        sheaf__slice_intersect(&slice, &t->slice, NULL) != sheaf_shape_elements(slice.shape))
        return false;
    p->slice = slice;
    return true;
}

/* The tensor of this task that the placement is (a slice of). */
static sheaf_shardable *find_input(struct sheaf__plan_check *check, struct sheaf__placement *p,
                                   bool *key_known)
{
    for (size_t i = 0; i < check->count; i++) {
        size_t at =
            check->last + i < check->count ? check->last + i : check->last + i - check->count;
        sheaf_shardable *t = check->mine[at];
        if (strcmp(t->tensor->item.key, p->key) != 0)
            continue;
        *key_known = true;
        if (is_part_of(p, t)) {
            check->last = at;
            return t;
        }
    }
    return NULL;
}

/* The tensor is another task's: TensorFlow sees it when two tasks meet in one shard. */
static sheaf_status other_task(const struct sheaf__plan_check *check,
                               const struct sheaf__placement *p, const char *device,
                               sheaf_error *err)
{
    char mine[64], other[64], more[180];
    task_text(check->mine[0]->device, mine, sizeof(mine));
    task_text(device, other, sizeof(other));
    snprintf(more, sizeof(more), ", task: %s, and tensors of task: %s", other, mine);
    return broken(check, p, err, "tensors with different tasks were found in the same shard", more);
}

static sheaf_status not_in_graph(const struct sheaf__plan_check *check,
                                 const struct sheaf__placement *p, sheaf_error *err)
{
    for (size_t i = 0; i < check->all_count; i++) {
        sheaf_shardable *t = &check->all[i];
        if (!strcmp(t->tensor->item.key, p->key) &&
            !sheaf__shard_same_task(t->device, check->mine[0]->device))
            return other_task(check, p, t->device, err);
    }
    return broken(check, p, err,
                  "a tensor not originally in the object graph was found in the checkpoint shards",
                  "");
}

static sheaf_status altered_shape(const struct sheaf__plan_check *check,
                                  const struct sheaf__placement *p, sheaf_shape original,
                                  sheaf_error *err)
{
    char more[200];
    snprintf(more, sizeof(more), ", original tensor_shape: %.60s, new tensor_shape: %.60s",
             SHEAF__SHAPE_TEXT(original), SHEAF__SHAPE_TEXT(p->shape));
    return broken(check, p, err, "a tensor was found with an altered shape", more);
}

static sheaf_status check_placement(struct sheaf__plan_check *check, struct sheaf__placement *p,
                                    sheaf_error *err)
{
    bool key_known = false;
    char more[200];
    if (p->status < 0 || p->shard < 0)
        return broken(check, p, err,
                      p->shard < 0 ? "a tensor was put into a shard of negative number"
                                   : "a tensor that holds an error was put into a shard",
                      "");
    p->input = find_input(check, p, &key_known);
    if (!p->input && !key_known)
        return not_in_graph(check, p, err);
    if (!p->input)
        return broken(check, p, err, "a slice was found that no tensor of this key has", "");
    if (!sheaf_shape_equal(p->shape, p->slice.shape))
        return altered_shape(check, p, p->slice.shape, err);
    sheaf_dtype dtype = p->input->tensor->item.saveable.dtype;
    if (p->dtype != dtype) {
        snprintf(more, sizeof(more), ", original tensor_dtype: %s, new tensor_dtype: %s",
                 sheaf_dtype_name(dtype), sheaf_dtype_name(p->dtype));
        return broken(check, p, err, "a tensor was found with an altered dtype", more);
    }
    if (p->device && !sheaf__shard_same_task(p->device, p->input->device)) {
        char old[64], new[64];
        task_text(p->input->device, old, sizeof(old));
        task_text(p->device, new, sizeof(new));
        snprintf(more, sizeof(more), ", original tensor_task: %s, new tensor_task: %s", old, new);
        return broken(check, p, err, "a tensor was found with an altered task", more);
    }
    p->input->placed = true;
    return SHEAF_OK;
}

/* Placements of one tensor side by side, in the order of their slices. */
static int compare_placements(const void *a, const void *b)
{
    const struct sheaf__placement *x = *(const struct sheaf__placement *const *)a;
    const struct sheaf__placement *y = *(const struct sheaf__placement *const *)b;
    if (x->input != y->input)
        return x->input < y->input ? -1 : 1;
    for (int32_t i = 0; i < x->slice.full.rank; i++) {
        if (x->slice.offset[i] != y->slice.offset[i])
            return x->slice.offset[i] < y->slice.offset[i] ? -1 : 1;
    }
    return 0;
}

static bool first_axes_meet(const struct sheaf__placement *a, const struct sheaf__placement *b)
{
    return a->slice.full.rank == 0 ||
           b->slice.offset[0] < a->slice.offset[0] + a->slice.shape.dims[0] ||
           sheaf__slice_equal(&a->slice, &b->slice);
}

/* No element twice, none left out. `sorted` are the placements of one tensor. */
static sheaf_status check_cover(const struct sheaf__plan_check *check,
                                struct sheaf__placement *const *sorted, size_t count,
                                sheaf_error *err)
{
    int64_t elements = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count && first_axes_meet(sorted[i], sorted[k]); k++) {
            if (sheaf__slice_equal(&sorted[i]->slice, &sorted[k]->slice))
                return broken(check, sorted[k], err,
                              "multiple tensors with the same checkpoint key and slice spec were "
                              "found",
                              "");
            if (sheaf__slice_intersect(&sorted[i]->slice, &sorted[k]->slice, NULL))
                return broken(check, sorted[k], err, "slices that overlap were found", "");
        }
        elements += sheaf_shape_elements(sorted[i]->slice.shape);
    }
    if (elements == sheaf_shape_elements(sorted[0]->input->slice.shape))
        return SHEAF_OK;
    char more[80];
    snprintf(more, sizeof(more), " and others have %lld of its %lld elements", (long long)elements,
             (long long)sheaf_shape_elements(sorted[0]->input->slice.shape));
    return broken(check, sorted[0], err,
                  "tensors in the object graph were not found in the checkpoint shards", more);
}

static sheaf_status check_covers(const struct sheaf__plan_check *check, sheaf_shard_plan *plan,
                                 sheaf_error *err)
{
    struct sheaf__placement **sorted = sheaf__alloc_array(plan->count + 1, sizeof(*sorted));
    if (!sorted)
        return sheaf__no_memory(err, "the plan of a save");
    for (size_t i = 0; i < plan->count; i++)
        sorted[i] = &plan->list[i];
    qsort(sorted, plan->count, sizeof(*sorted), compare_placements);
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0, end; i < plan->count && status >= 0; i = end) {
        for (end = i + 1; end < plan->count && sorted[end]->input == sorted[i]->input;)
            end++;
        status = check_cover(check, sorted + i, end - i, err);
    }
    sheaf__free(sorted);
    return status;
}

sheaf_status sheaf__plan_check(struct sheaf__plan_check *check, sheaf_shard_plan *plan,
                               sheaf_error *err)
{
    if (plan->failed)
        return sheaf__no_memory(err, "the plan of a save");
    for (size_t i = 0; i < plan->count; i++)
        SHEAF__TRY(check_placement(check, &plan->list[i], err));
    if (plan->count)
        SHEAF__TRY(check_covers(check, plan, err));
    for (size_t i = 0; i < check->count; i++) {
        const sheaf_shardable *t = check->mine[i];
        if (t->placed)
            continue;
        struct sheaf__placement missing = {.key = t->tensor->item.key, .slice_spec = t->slice_spec};
        return broken(check, &missing, err,
                      "tensors in the object graph were not found in the checkpoint shards", "");
    }
    return SHEAF_OK;
}
