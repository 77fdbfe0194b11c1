/* SPDX-License-Identifier: Apache-2.0 */

/* sheaf_reduce and sheaf_gather_values: combining values across replicas and workers (R4.19–R4.30).
 */

#include "distribute/combine.h"

#include "base/error.h"
#include "distribute/strategy.h"
#include "distribute/sync.h"
#include "distribute/values.h"
#include "tensor/frame.h"

#include <sheaf/ops.h>

/* Sums tensors[begin, end) as a binary tree over aligned blocks, as coll/ does over ranks. */
static sheaf_tensor *sum_tree(sheaf_tensor *const *tensors, int begin, int end)
{
    if (end - begin == 1)
        return tensors[begin];
    int half = 1;
    while (half * 2 < end - begin)
        half *= 2;
    return sheaf_add(sum_tree(tensors, begin, begin + half), sum_tree(tensors, begin + half, end));
}

/* Elementwise combination wants equal shapes (R4.20): no broadcasting between replicas. */
static sheaf_status check_shapes(sheaf_tensor *const *tensors, int count, sheaf_error *err)
{
    for (int i = 1; i < count; i++) {
        sheaf_shape a = sheaf_tensor_shape(tensors[0]), b = sheaf_tensor_shape(tensors[i]);
        if (sheaf_shape_equal(a, b))
            continue;
        char x[96], y[96];
        sheaf_shape_format(a, x, sizeof(x));
        sheaf_shape_format(b, y, sizeof(y));
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "reduce without axis: replica 0 has shape %s, replica %d %s; a partial batch needs "
            "an axis to be reduced over",
            x, i, y);
    }
    return SHEAF_OK;
}

sheaf_tensor *sheaf__combine_sum(sheaf_strategy *s, sheaf_tensor *const *tensors, int count)
{
    sheaf_error err = {0};
    sheaf_tensor *failed = sheaf__tensor_first_failed(tensors, (size_t)count);
    if (failed)
        return failed;
    if (check_shapes(tensors, count, &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    sheaf_tensor *sum = sum_tree(tensors, 0, count);
    return s->workers > 1 ? sheaf__sync_sum(s, sum) : sum;
}

sheaf_tensor *sheaf__combine(sheaf_strategy *s, sheaf_reduce_op op, sheaf_tensor *const *tensors,
                             int count)
{
    sheaf_tensor *sum = sheaf__combine_sum(s, tensors, count);
    if (op == SHEAF_REDUCE_SUM || s->total == 1 || !sheaf__tensor_ok(sum))
        return sum;
    sheaf_tensor *n = sheaf_fill(sum->dtype, SHEAF_SCALAR, s->total);
    return sheaf_div(sum, n);
}

/* Size of what is reduced away: the product of the axes' sizes. */
static int64_t reduced_size(const sheaf_tensor *t, const int *axes, size_t axis_count)
{
    int64_t size = 1;
    for (size_t i = 0; i < axis_count; i++) {
        int axis = axes[i] < 0 ? axes[i] + t->shape.rank : axes[i];
        size *= axis >= 0 && axis < t->shape.rank ? t->shape.dims[axis] : 1;
    }
    return size;
}

/* Each replica reduces its own tensor over the axes first; MEAN divides by the real number (R4.21,
 * R4.22). */
static sheaf_tensor *combine_over_axes(sheaf_strategy *s, sheaf_reduce_op op,
                                       sheaf_tensor *const *tensors, int count, const int *axes,
                                       size_t axis_count)
{
    sheaf_tensor *sums[SHEAF__MOST_REPLICAS];
    int64_t size = 0;
    for (int i = 0; i < count; i++) {
        sums[i] = sheaf_reduce_sum(tensors[i], axes, axis_count);
        size += reduced_size(tensors[i], axes, axis_count);
    }
    sheaf_tensor *sum = sheaf__combine_sum(s, sums, count);
    if (op == SHEAF_REDUCE_SUM || !sheaf__tensor_ok(sum))
        return sum;
    sheaf_tensor *sizes = sheaf_long(size);
    if (s->workers > 1)
        sizes = sheaf__sync_sum(s, sizes);
    return sheaf_div(sum, sheaf_cast(sizes, sum->dtype));
}

/* A value that is the same on all of several replicas (R4.25). */
static sheaf_tensor *combine_shared(sheaf_strategy *s, sheaf_reduce_op op, sheaf_tensor *t,
                                    const int *axes, size_t axis_count)
{
    if (axis_count > 0) {
        sheaf_tensor *each[SHEAF__MOST_REPLICAS];
        for (int i = 0; i < s->local; i++)
            each[i] = t;
        return combine_over_axes(s, op, each, s->local, axes, axis_count);
    }
    if (op == SHEAF_REDUCE_MEAN || (t->plain && sheaf_tensor_number(t, 0) == 0))
        return t;
    return sheaf__tensor_fail(
        SHEAF_ERR_INVALID_ARGUMENT,
        "reduce: SUM of a value that is not distributed, over %d replicas; only MEAN "
        "of such a value has a meaning",
        s->total);
}

/* Field `i` of a value over the replicas. */
static sheaf_tensor *combine_field(sheaf_strategy *s, sheaf_reduce_op op, const sheaf_values *v,
                                   size_t i, const int *axes, size_t axis_count)
{
    sheaf_tensor *first = v->components[0]->items[i].tensor;
    if (!sheaf__tensor_ok(first))
        return first;
    if (sheaf__values_shared(v, i) && s->local > 1)
        return combine_shared(s, op, first, axes, axis_count);
    sheaf_tensor *tensors[SHEAF__MOST_REPLICAS];
    for (int r = 0; r < v->count; r++)
        tensors[r] = v->components[r]->items[i].tensor;
    return axis_count > 0 ? combine_over_axes(s, op, tensors, v->count, axes, axis_count)
                          : sheaf__combine(s, op, tensors, v->count);
}

static sheaf_status check_values(sheaf_strategy *s, const sheaf_values *v, const char *who,
                                 sheaf_error *err)
{
    SHEAF__TRY(sheaf__strategy_check_cross(s, who, err));
    if (!v)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s: the value is NULL", who);
    if (v->per_replica && v->count != s->local)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%s: the value has %d components, the strategy %d local replicas", who,
                            v->count, s->local);
    return SHEAF_OK;
}

static sheaf_status check_op(sheaf_reduce_op op, sheaf_error *err)
{
    if (op != SHEAF_REDUCE_SUM && op != SHEAF_REDUCE_MEAN)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "reduce op %d, expected SHEAF_REDUCE_SUM or SHEAF_REDUCE_MEAN",
                            (int)op);
    return SHEAF_OK;
}

/* Makes one element of `combine(field)`. */
typedef sheaf_tensor *(*field_fn)(size_t i, void *user);
static sheaf_status each_field(const sheaf_values *v, field_fn field, void *user,
                               sheaf_element **out, sheaf_error *err)
{
    const sheaf_element *like = v->components[0];
    sheaf_element *e = sheaf__element_new(err);
    if (!e)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf_status status = SHEAF_OK;
    size_t done = 0;
    e->pattern = like->pattern;
    SHEAF_FRAME
    {
        for (; done < like->count && status >= 0; done += status >= 0) {
            sheaf_tensor *t = field(done, user);
            status = sheaf_tensor_status(t, err);
            if (status >= 0)
                status = sheaf__element_add(e, like->items[done].name, t, err);
        }
    }
    if (status < 0) {
        if (like->items[done].name[0])
            sheaf__error_prefix(err, "field '%s'", like->items[done].name);
        sheaf_element_free(e);
        return status;
    }
    e = sheaf__frame_own(e);
    if (!e)
        return sheaf__no_memory(err, "a reduced value");
    *out = e;
    return SHEAF_OK;
}

struct reduction {
    sheaf_strategy *s;
    sheaf_reduce_op op;
    const sheaf_values *v;
    const int *axes;
    size_t axis_count;
};

static sheaf_tensor *reduce_field(size_t i, void *user)
{
    const struct reduction *r = user;
    return combine_field(r->s, r->op, r->v, i, r->axes, r->axis_count);
}

sheaf_status sheaf_reduce(sheaf_strategy *s, sheaf_reduce_op op, const sheaf_values *v,
                          const int *axes, size_t axis_count, sheaf_element **out, sheaf_error *err)
{
    s = sheaf__strategy_or_current(s);
    SHEAF__TRY(check_op(op, err));
    SHEAF__TRY(check_values(s, v, "sheaf_reduce", err));
    struct reduction r = {s, op, v, axes, axes ? axis_count : 0};
    return each_field(v, reduce_field, &r, out, err);
}

sheaf_tensor *sheaf__combine_gather(sheaf_strategy *s, sheaf_tensor *const *tensors, int count,
                                    int axis)
{
    sheaf_tensor *joined = sheaf_concat(tensors, (size_t)count, axis);
    if (!sheaf__tensor_ok(joined) || s->workers == 1)
        return joined;
    return sheaf__sync_gather(s, joined, axis < 0 ? axis + joined->shape.rank : axis);
}

static sheaf_tensor *gather_field(size_t i, void *user)
{
    const struct reduction *r = user;
    const sheaf_values *v = r->v;
    sheaf_tensor *tensors[SHEAF__MOST_REPLICAS];
    if (sheaf__values_shared(v, i) && r->s->local > 1)
        return v->components[0]->items[i].tensor; /* R4.30 */
    for (int k = 0; k < v->count; k++)
        tensors[k] = v->components[k]->items[i].tensor;
    return sheaf__combine_gather(r->s, tensors, v->count, *r->axes);
}

sheaf_status sheaf_gather_values(sheaf_strategy *s, const sheaf_values *v, int axis,
                                 sheaf_element **out, sheaf_error *err)
{
    s = sheaf__strategy_or_current(s);
    SHEAF__TRY(check_values(s, v, "sheaf_gather_values", err));
    struct reduction r = {s, SHEAF_REDUCE_SUM, v, &axis, 1};
    return each_field(v, gather_field, &r, out, err);
}
