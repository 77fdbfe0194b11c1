/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/sync.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "distribute/replica.h"
#include "tensor/frame.h"

#include <sheaf/ops.h>

#include <string.h>

static sheaf_status open_channels(struct sheaf__sync *sync, sheaf_error *err)
{
    struct sheaf__team *team = sync->team;
    SHEAF__TRY(sheaf__channel_open(team, SHEAF__CHANNEL_GRADIENTS, 0, &sync->gradients, err));
    SHEAF__TRY(sheaf__channel_open(team, SHEAF__CHANNEL_PROGRAM, 0, &sync->values, err));
    SHEAF__TRY(sheaf__channel_open(team, SHEAF__CHANNEL_PROGRAM, 1, &sync->cross, err));
    SHEAF__TRY(sheaf__channel_open(team, SHEAF__CHANNEL_INPUT, 1, &sync->input, err));
    sheaf__channel_name_rounds(sync->values, "step");
    sheaf__channel_name_rounds(sync->input, "freed iterator");
    return SHEAF_OK;
}

sheaf_status sheaf__sync_open(sheaf_strategy *s, struct sheaf__team_options *options,
                              sheaf_error *err)
{
    options->local_replicas = s->local;
    options->reproducible = s->reproducible;
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the workers of the job");
    s->sync = sheaf__calloc(1, sizeof(*s->sync));
    if (!s->sync)
        return sheaf__no_memory(err, "a team");
    SHEAF__TRY(sheaf__team_new(options, &wait, &s->sync->team, err));
    return open_channels(s->sync, err);
}

void sheaf__sync_close(struct sheaf__sync *sync)
{
    if (!sync)
        return;
    sheaf__channel_free(sync->gradients);
    sheaf__channel_free(sync->values);
    sheaf__channel_free(sync->cross);
    sheaf__channel_free(sync->input);
    sheaf__team_free(sync->team);
    sheaf__free(sync);
}

struct sheaf__wait sheaf__sync_wait(const sheaf_strategy *s, const char *what)
{
    const struct sheaf__job *job = s->replicas ? s->replicas->job : NULL;
    const int64_t ns = job && job->deadline_ns > 0 ? job->deadline_ns : s->deadline_ns;
    return (struct sheaf__wait){
        .deadline = sheaf__clock_after(ns), .token = job ? s->replicas->token : NULL, .what = what};
}

/* Between workers. */

static void renew(struct sheaf__sync *sync)
{
    if (!sync->spoiled)
        return;
    sheaf__channel_reset(sync->gradients);
    sheaf__channel_reset(sync->values);
    sync->spoiled = false;
    sync->renewals++;
}

static bool in_step(const sheaf_strategy *s)
{
    return s->replicas && s->replicas->job;
}

void sheaf__sync_call(sheaf_strategy *s)
{
    if (!in_step(s))
        renew(s->sync);
}

sheaf_status sheaf__sync_called(sheaf_strategy *s, sheaf_status status)
{
    if (status < 0 && !in_step(s))
        s->sync->spoiled = true;
    return status;
}

static bool can_reduce(sheaf_dtype dtype)
{
    return dtype == SHEAF_FLOAT32 || dtype == SHEAF_FLOAT64 || dtype == SHEAF_BFLOAT16 ||
           dtype == SHEAF_INT32 || dtype == SHEAF_INT64;
}

sheaf_tensor *sheaf__sync_sum(sheaf_strategy *s, sheaf_tensor *t)
{
    sheaf_error err = {0};
    if (!sheaf__tensor_ok(t))
        return t;
    if (!can_reduce(t->dtype))
        return sheaf__tensor_fail(
            SHEAF_ERR_INVALID_ARGUMENT,
            "reduce over workers: dtype %s, expected float32, float64, bfloat16, int32 "
            "or int64",
            sheaf_dtype_name(t->dtype));
    sheaf_tensor *out = sheaf__tensor_new(t->dtype, t->shape, NULL, &err);
    const void *in = out ? sheaf__tensor_host(t, &err) : NULL;
    if (!in) {
        sheaf_tensor_free(out);
        return sheaf__tensor_give(NULL, &err);
    }
    char shape[64];
    sheaf_shape_format(t->shape, shape, sizeof(shape));
    const struct sheaf__reduction sum = {.op = SHEAF_REDUCE_SUM,
                                         .dtype = t->dtype,
                                         .count = (size_t)sheaf_tensor_elements(t),
                                         .in = in,
                                         .out = sheaf__tensor_out(out),
                                         .name = shape};
    const struct sheaf__wait wait = sheaf__sync_wait(s, "a sum over the workers");
    sheaf__sync_call(s);
    if (sheaf__sync_called(s, sheaf__channel_all_reduce(s->sync->cross, 0, &sum, &wait, &err)) <
        0) {
        sheaf_tensor_free(out);
        out = NULL;
    }
    return sheaf__tensor_give(out, &err);
}

sheaf_tensor *sheaf__sync_first(sheaf_strategy *s, sheaf_tensor *t, const char *what)
{
    sheaf_error err = {0};
    if (!sheaf__tensor_ok(t))
        return t;
    sheaf_tensor *out = sheaf__tensor_new(t->dtype, t->shape, NULL, &err);
    if (out && sheaf__tensor_copy_out(t, sheaf__tensor_out(out), &err) >= 0) {
        const struct sheaf__wait wait = sheaf__sync_wait(s, what);
        sheaf__sync_call(s);
        if (sheaf__sync_called(
                s, sheaf__channel_broadcast(s->sync->cross, 0, 0, sheaf__tensor_out(out),
                                            sheaf__tensor_size(out), &wait, &err)) >= 0)
            return sheaf__tensor_give(out, &err);
    }
    sheaf_tensor_free(out);
    return sheaf__tensor_give(NULL, &err);
}

/* What a worker says of its part of a gather: dtype and shape; the others must agree but for the
 * axis. */
struct gather_part {
    int64_t dtype;
    sheaf_shape shape;
};

static sheaf_tensor *part_tensor(const struct gather_part *mine, const struct gather_part *part,
                                 int axis, int worker, const char *data)
{
    sheaf_shape wanted = mine->shape;
    if (axis < wanted.rank && axis < SHEAF_MAX_RANK)
        wanted.dims[axis] = part->shape.dims[axis];
    if (part->dtype != mine->dtype || !sheaf_shape_equal(wanted, part->shape)) {
        char x[64], y[64];
        sheaf_shape_format(mine->shape, x, sizeof(x));
        sheaf_shape_format(part->shape, y, sizeof(y));
        return sheaf__tensor_fail(
            SHEAF_ERR_INVALID_ARGUMENT,
            "gather along axis %d: this worker has %s, worker %d has %s; the other axes "
            "must be equal",
            axis, x, worker, y);
    }
    return sheaf_tensor_new((sheaf_dtype)part->dtype, part->shape, data);
}

static sheaf_tensor *join_parts(const struct gather_part *mine, const struct gather_part *parts,
                                const size_t *sizes, const char *data, int workers, int axis)
{
    sheaf_tensor *tensors[SHEAF__MOST_REPLICAS];
    size_t at = 0;
    for (int w = 0; w < workers; w++) {
        tensors[w] = part_tensor(mine, &parts[w], axis, w, data + at);
        at += sizes[w];
    }
    return sheaf_concat(tensors, (size_t)workers, axis);
}

/* The heads of all parts, then their bytes, in new memory. */
static sheaf_status exchange_parts(sheaf_strategy *s, const struct gather_part *mine,
                                   struct sheaf__bytes bytes, struct gather_part *parts,
                                   size_t *sizes, void **data, sheaf_error *err)
{
    const struct sheaf__wait wait = sheaf__sync_wait(s, "a gather over the workers");
    for (int w = 0; w < s->workers; w++)
        sizes[w] = sizeof(*mine);
    SHEAF__TRY(sheaf__channel_all_gather(s->sync->cross, 0, mine, sizes, parts, &wait, err));
    return sheaf__channel_gather_bytes(s->sync->cross, 0, bytes, sizes, data, &wait, err);
}

sheaf_tensor *sheaf__sync_gather(sheaf_strategy *s, sheaf_tensor *t, int axis)
{
    sheaf_error err = {0};
    const int workers = s->workers;
    struct gather_part mine = {.dtype = t->dtype, .shape = t->shape};
    struct gather_part *parts = sheaf__frame_alloc((size_t)workers * sizeof(*parts));
    size_t *sizes = sheaf__frame_alloc((size_t)workers * sizeof(*sizes));
    void *data = NULL;
    if (!parts || !sizes)
        return sheaf__tensor_fail(SHEAF_ERR_RESOURCE_EXHAUSTED, "not enough memory for a gather");
    const struct sheaf__bytes bytes = {sheaf__tensor_host(t, &err), sheaf__tensor_size(t)};
    if (!bytes.data)
        return sheaf__tensor_give(NULL, &err);
    sheaf__sync_call(s);
    if (sheaf__sync_called(s, exchange_parts(s, &mine, bytes, parts, sizes, &data, &err)) < 0)
        return sheaf__tensor_give(NULL, &err);
    sheaf_tensor *joined = join_parts(&mine, parts, sizes, data, workers, axis);
    sheaf__free(data);
    return joined;
}

/* Steps. */

void sheaf__sync_abort(sheaf_strategy *s, const sheaf_error *cause)
{
    if (!s->sync)
        return;
    sheaf__channel_abort(s->sync->gradients, cause);
    sheaf__channel_abort(s->sync->values, cause);
}

sheaf_status sheaf__sync_begin(sheaf_strategy *s, sheaf_error *err)
{
    if (!s->sync)
        return SHEAF_OK;
    renew(s->sync);
    sheaf_status status = sheaf__channel_begin_round(s->sync->values, err);
    s->sync->spoiled = status < 0;
    return status;
}

sheaf_status sheaf__sync_end(sheaf_strategy *s, sheaf_status status, sheaf_error *err)
{
    if (!s->sync)
        return status;
    if (status >= 0)
        status = sheaf__channel_end_round(s->sync->values, err);
    s->sync->spoiled = status < 0;
    return status;
}
