/* SPDX-License-Identifier: Apache-2.0 */

/* What a step calls on its replica: all_reduce, all_gather, merge_call, average_loss (R4.36–R4.38,
 * R12.1). */

#include "base/error.h"
#include "base/mem.h"
#include "distribute/replica.h"
#include "distribute/sync.h"
#include "distribute/values.h"
#include "ops/tape.h"
#include "tensor/called.h"
#include "tensor/frame.h"

#include <string.h>

/* all_reduce: its gradient is the same reduction of the incoming gradient. */

static sheaf_tensor *reduce_now(sheaf_replica *r, sheaf_reduce_op op, sheaf_tensor *t);

static void all_reduce_gradient(const struct sheaf__grad *g)
{
    sheaf_replica *r = sheaf_replica_context();
    if (g->wanted[0] && r)
        g->dx[0] = reduce_now(r, (sheaf_reduce_op)g->attrs->axis, g->dy);
}

static const struct sheaf__op all_reduce_op = {
    .name = "AllReduce", .inputs = 1, .same = 1, .gradient = all_reduce_gradient};

static void record(const struct sheaf__op *op, sheaf_tensor *in, sheaf_tensor *out,
                   const struct sheaf__attrs *attrs)
{
    if (!sheaf__tensor_ok(out) || !sheaf__tape_follows(&in, 1))
        return;
    const struct sheaf__op_call call = {.op = op,
                                        .in = &in,
                                        .count = 1,
                                        .attrs = attrs,
                                        .device = out->device,
                                        .dtype = out->dtype,
                                        .shape = out->shape,
                                        .out = out,
                                        .recorded = true};
    sheaf__tape_record(&call);
}

static sheaf_tensor *sum_over_replicas(sheaf_replica *r, sheaf_tensor *t)
{
    sheaf_error err = {0};
    sheaf_strategy *s = r->strategy;
    if (sheaf__replica_come(r, "all_reduce", NULL, &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    sheaf_tensor *out = sheaf__tensor_new(t->dtype, t->shape, NULL, &err);
    const void *in = out ? sheaf__tensor_host(t, &err) : NULL;
    char shape[64];
    sheaf_shape_format(t->shape, shape, sizeof(shape));
    if (in) {
        const struct sheaf__reduction sum = {.op = SHEAF_REDUCE_SUM,
                                             .dtype = t->dtype,
                                             .count = (size_t)sheaf_tensor_elements(t),
                                             .in = in,
                                             .out = sheaf__tensor_out(out),
                                             .name = shape};
        const struct sheaf__wait wait = sheaf__sync_wait(s, "all_reduce");
        if (sheaf__channel_all_reduce(s->sync->values, r->local, &sum, &wait, &err) >= 0)
            return sheaf__tensor_give(out, &err);
    }
    sheaf_tensor_free(out);
    return sheaf__tensor_give(NULL, &err);
}

static sheaf_tensor *reduce_now(sheaf_replica *r, sheaf_reduce_op op, sheaf_tensor *t)
{
    sheaf_strategy *s = sheaf_replica_strategy(r);
    if (!s->sync)
        return t;
    sheaf_tensor *sum = sum_over_replicas(r, t);
    if (op == SHEAF_REDUCE_SUM || !sheaf__tensor_ok(sum))
        return sum;
    return sheaf_div(sum, sheaf_fill(sum->dtype, SHEAF_SCALAR, s->total));
}

sheaf_tensor *sheaf_all_reduce(sheaf_replica *r, sheaf_reduce_op op, sheaf_tensor *t)
{
    sheaf_error err = {0};
    if (!sheaf__tensor_ok(t))
        return t ? t
                 : sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "all_reduce: the tensor is NULL");
    if (sheaf__replica_check(r, "all_reduce", &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    if (op != SHEAF_REDUCE_SUM && op != SHEAF_REDUCE_MEAN)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                  "all_reduce: op %d, expected SUM or MEAN", (int)op);
    sheaf_tensor *out = reduce_now(r, op, t);
    if (out != t)
        record(&all_reduce_op, t, out, &(struct sheaf__attrs){.axis = (int32_t)op});
    return out;
}

/* all_gather: the gradient is the sum of the incoming ones, of which each replica takes its own
 * slice. */

static void all_gather_gradient(const struct sheaf__grad *g)
{
    sheaf_replica *r = sheaf_replica_context();
    if (!g->wanted[0] || !r)
        return;
    sheaf_tensor *sum = reduce_now(r, SHEAF_REDUCE_SUM, g->dy);
    struct sheaf__attrs slice = {.shape = g->in[0]->shape};
    slice.begin[g->attrs->axis] = g->attrs->start;
    g->dx[0] = sheaf__op_run1(SHEAF__OP_SLICE, sum, &slice);
}

static const struct sheaf__op all_gather_op = {
    .name = "AllGather", .inputs = 1, .same = 1, .gradient = all_gather_gradient};

/* What each replica says of its part before the bytes. */
struct part_head {
    int64_t dtype;
    sheaf_shape shape;
};

static sheaf_status check_parts(const struct part_head *heads, int count, int mine, int axis,
                                sheaf_error *err)
{
    for (int i = 0; i < count; i++) {
        sheaf_shape wanted = heads[mine].shape;
        if (wanted.rank == heads[i].shape.rank)
            wanted.dims[axis] = heads[i].shape.dims[axis];
        if (heads[i].dtype == heads[mine].dtype && sheaf_shape_equal(wanted, heads[i].shape))
            continue;
        char x[64], y[64];
        sheaf_shape_format(heads[mine].shape, x, sizeof(x));
        sheaf_shape_format(heads[i].shape, y, sizeof(y));
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "all_gather along axis %d: replica %d has %s, replica %d has %s; dimensions of "
            "the inputs should match",
            axis, mine, x, i, y);
    }
    return SHEAF_OK;
}

/* All replicas' tensors joined; `*start` is where this replica's rows begin. */
static sheaf_tensor *gather_now(sheaf_replica *r, sheaf_tensor *t, int axis, int64_t *start)
{
    sheaf_error err = {0};
    sheaf_strategy *s = r->strategy;
    const struct part_head mine = {.dtype = t->dtype, .shape = t->shape};
    struct part_head *heads = sheaf__frame_alloc((size_t)s->total * sizeof(*heads));
    size_t *sizes = sheaf__frame_alloc((size_t)s->total * sizeof(*sizes));
    sheaf_tensor **parts = sheaf__frame_alloc((size_t)s->total * sizeof(sheaf_tensor *));
    if (!heads || !sizes || !parts)
        return sheaf__tensor_fail(SHEAF_ERR_RESOURCE_EXHAUSTED, "not enough memory for all_gather");
    for (int i = 0; i < s->total; i++)
        sizes[i] = sizeof(mine);
    const struct sheaf__wait wait = sheaf__sync_wait(s, "all_gather");
    void *data = NULL;
    const void *bytes = sheaf__tensor_host(t, &err);
    if (!bytes || sheaf__replica_come(r, "all_gather", NULL, &err) < 0 ||
        sheaf__channel_all_gather(s->sync->values, r->local, &mine, sizes, heads, &wait, &err) <
            0 ||
        check_parts(heads, s->total, r->id, axis, &err) < 0 ||
        sheaf__channel_gather_bytes(s->sync->values, r->local,
                                    (struct sheaf__bytes){bytes, sheaf__tensor_size(t)}, sizes,
                                    &data, &wait, &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    *start = 0;
    size_t at = 0;
    for (int i = 0; i < s->total; i++) {
        parts[i] = sheaf_tensor_new(t->dtype, heads[i].shape, (const char *)data + at);
        at += sizes[i];
        *start += i < r->id ? heads[i].shape.dims[axis] : 0;
    }
    sheaf__free(data);
    return sheaf_concat(parts, (size_t)s->total, axis);
}

sheaf_tensor *sheaf_all_gather(sheaf_replica *r, sheaf_tensor *t, int axis)
{
    sheaf_error err = {0};
    if (!sheaf__tensor_ok(t))
        return t ? t
                 : sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "all_gather: the tensor is NULL");
    if (sheaf__replica_check(r, "all_gather", &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    int32_t at;
    if (t->shape.rank == 0 || !sheaf__axis(axis, t->shape.rank, &at))
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                  "all_gather along axis %d of a tensor of rank %d", axis,
                                  t->shape.rank);
    if (!sheaf_replica_strategy(r)->sync)
        return t;
    struct sheaf__attrs attrs = {.axis = at};
    sheaf_tensor *out = gather_now(r, t, at, &attrs.start);
    record(&all_gather_op, t, out, &attrs);
    return out;
}

/* merge_call. */

struct merge {
    sheaf_element *in;
    sheaf_element *out; /* with a count of the replica's */
};

struct merge_job {
    sheaf_strategy *strategy;
    sheaf_merge_fn fn;
    void *user;
};

static sheaf_status call_merge(void *const *contributions, int count, const struct merge_job *job,
                               sheaf_error *err)
{
    sheaf_element *parts[SHEAF__MOST_REPLICAS];
    for (int i = 0; i < count; i++)
        parts[i] = ((struct merge *)contributions[i])->in;
    if (!job->fn)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "merge_call: the merge function is NULL");
    sheaf_values *in = sheaf__values_regroup(parts, count, err), *out = NULL;
    if (!in)
        return err->status;
    if (!sheaf__frame_own(in))
        return sheaf__no_memory(err, "the values of a merge call");
    sheaf__error_listen();
    SHEAF__TRY(
        sheaf__called(job->fn(job->strategy, in, &out, job->user), err, "the merge function"));
    if (out && out->per_replica && out->count != count)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the merge function returned %d components for %d replicas", out->count,
                            count);
    for (int i = 0; i < count; i++) {
        sheaf_element *e = out ? sheaf__values_component(out, i) : sheaf_element_new();
        ((struct merge *)contributions[i])->out = sheaf_element_keep(e);
    }
    return SHEAF_OK;
}

static sheaf_status merge(void *const *contributions, int count, void *user, sheaf_error *err)
{
    const struct merge_job *job = user;
    struct sheaf__mode mode = {.kind = SHEAF__MODE_CROSS, .strategy = job->strategy};
    sheaf_status status = SHEAF_OK;
    if (job->strategy->cls != &sheaf__strategy_default_class)
        sheaf__mode_push(&mode);
    SHEAF_FRAME
    {
        status = call_merge(contributions, count, job, err);
    }
    if (job->strategy->cls != &sheaf__strategy_default_class)
        sheaf__mode_pop(&mode);
    return status;
}

sheaf_element *sheaf_merge_call(sheaf_replica *r, sheaf_merge_fn fn, void *user, sheaf_element *in)
{
    sheaf_error err = {0};
    struct merge mine = {.in = in ? in : sheaf_element_new()};
    struct merge_job job = {sheaf_replica_strategy(r), fn, user};
    const struct sheaf__meeting meeting = {.what = "merge_call", .fn = merge, .user = &job};
    if (sheaf__replica_meet(r, &meeting, &mine, &err) < 0) {
        sheaf_element *failed = sheaf_element_new();
        sheaf_element_put(failed, "", sheaf__tensor_give(NULL, &err));
        return failed;
    }
    return sheaf__frame_own(mine.out);
}

/* The loss. */

sheaf_tensor *sheaf_average_loss(sheaf_replica *r, sheaf_tensor *per_example)
{
    sheaf_error err = {0};
    if (!sheaf__tensor_ok(per_example))
        return per_example ? per_example
                           : sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                                "average_loss: the tensor is NULL");
    if (sheaf__replica_check(r, "average_loss", &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    if (per_example->shape.rank == 0)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                  "average_loss of a scalar, expected a loss for each example");
    const int64_t known = r->all ? r->all->job->examples : -1;
    const int64_t examples =
        known >= 0 ? known : per_example->shape.dims[0] * sheaf_replica_count(r);
    sheaf_tensor *sum = sheaf_sum(per_example);
    if (examples == 0)
        return sheaf_scale(sum, 0, 0);
    return sheaf_div(sum, sheaf_fill(per_example->dtype, SHEAF_SCALAR, (double)examples));
}
