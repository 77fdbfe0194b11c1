/* SPDX-License-Identifier: Apache-2.0 */

/* Gradients to updates: taken from the tape, summed over replicas while the walk goes on, clipped,
 * applied (design 5). */

#include "base/error.h"
#include "base/mem.h"
#include "distribute/bind.h"
#include "distribute/direct.h"
#include "distribute/mirrored.h"
#include "distribute/replica.h"
#include "distribute/sync.h"
#include "distribute/update.h"
#include "ops/tape.h"
#include "optim/clip.h"
#include "tensor/frame.h"

#include <math.h>
#include <string.h>

/* Gradients from this size on are reduced by themselves, as soon as they are final; smaller ones
 * together at the end. */
enum { ALONE_BYTES = 256 * 1024 };

/* The gradients of one replica's step on their way to their sums. */
struct reducer {
    sheaf_replica *replica;
    struct sheaf__channel *channel; /* of the jobs */
    struct sheaf__reduce_job *jobs; /* one a gradient; those that were started have a count */
    sheaf_tensor **sums;
    size_t count;
    int64_t step; /* number of the update, read before any replica can have finished it */
};

static bool is_alone(const sheaf_tensor *t)
{
    return t && t->layout == SHEAF__DENSE && sheaf__tensor_size(t) >= ALONE_BYTES;
}

static sheaf_status start_reducer(struct reducer *u, size_t count, sheaf_error *err)
{
    if (u->jobs)
        return SHEAF_OK;
    u->count = count;
    u->jobs = sheaf__frame_alloc(count * sizeof(*u->jobs));
    u->sums = sheaf__frame_alloc(count * sizeof(sheaf_tensor *));
    if (!u->jobs || !u->sums)
        return sheaf__no_memory(err, "the gradients");
    memset(u->jobs, 0, count * sizeof(*u->jobs));
    memset(u->sums, 0, count * sizeof(sheaf_tensor *));
    return SHEAF_OK;
}

/* A large gradient is final: its sum starts while the walk goes on. */
static sheaf_status start_one(const struct sheaf__gradients *g, size_t i, void *user,
                              sheaf_error *err)
{
    struct reducer *u = user;
    SHEAF__TRY(start_reducer(u, g->count, err));
    sheaf_tensor *t = g->all[i].value;
    if (!is_alone(t))
        return SHEAF_OK;
    sheaf_tensor *sum = sheaf__tensor_new(t->dtype, t->shape, NULL, err);
    const void *in = sum ? sheaf__tensor_host(t, err) : NULL;
    u->sums[i] = sheaf__frame_own(sum);
    if (!in)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    u->jobs[i].reduction =
        (struct sheaf__reduction){.op = SHEAF_REDUCE_SUM,
                                  .dtype = t->dtype,
                                  .count = (size_t)sheaf_tensor_elements(t),
                                  .in = in,
                                  .out = sheaf__tensor_out(sum),
                                  .name = sheaf_variable_name(g->all[i].variable)};
    return sheaf__reduce_start(u->channel, u->replica->local, &u->jobs[i], err);
}

/* The small ones of one dtype side by side, as one reduction. */
static sheaf_status reduce_together(struct reducer *u, struct sheaf__gradient *all,
                                    sheaf_dtype dtype, sheaf_error *err)
{
    int64_t elements = 0;
    for (size_t i = 0; i < u->count; i++)
        if (all[i].value->layout == SHEAF__DENSE && all[i].value->dtype == dtype && !u->sums[i])
            elements += sheaf_tensor_elements(all[i].value);
    if (elements == 0)
        return SHEAF_OK;
    sheaf_tensor *bucket = sheaf__tensor_new(dtype, SHEAF_SHAPE(elements), NULL, err);
    if (!sheaf__frame_own(bucket))
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    int64_t at = 0;
    for (size_t i = 0; i < u->count; i++) {
        sheaf_tensor *t = all[i].value;
        if (t->layout != SHEAF__DENSE || t->dtype != dtype || u->sums[i])
            continue;
        SHEAF__TRY(sheaf__tensor_copy_out(
            t, (char *)sheaf__tensor_out(bucket) + (size_t)at * sheaf_dtype_size(dtype), err));
        u->sums[i] = sheaf__frame_own(sheaf__tensor_view(bucket, t->shape, NULL, at, err));
        if (!u->sums[i])
            return SHEAF_ERR_RESOURCE_EXHAUSTED;
        at += sheaf_tensor_elements(t);
    }
    const struct sheaf__reduction sum = {.op = SHEAF_REDUCE_SUM,
                                         .dtype = dtype,
                                         .count = (size_t)elements,
                                         .in = sheaf__tensor_out(bucket),
                                         .out = sheaf__tensor_out(bucket),
                                         .name = "small gradients"};
    const struct sheaf__wait wait =
        sheaf__sync_wait(u->replica->strategy, "the sum of the gradients");
    return sheaf__channel_all_reduce(u->replica->strategy->sync->values, u->replica->local, &sum,
                                     &wait, err);
}

/* One part of a gradient of rows from every replica, one after the other (R4.53). */
static sheaf_tensor *gather_part(struct reducer *u, sheaf_tensor *part, sheaf_error *err)
{
    sheaf_strategy *s = u->replica->strategy;
    size_t *sizes = sheaf__frame_alloc((size_t)s->total * sizeof(*sizes));
    const void *bytes = sizes ? sheaf__tensor_host(part, err) : NULL;
    const struct sheaf__wait wait = sheaf__sync_wait(s, "the rows of a gradient");
    void *data = NULL;
    if (!bytes ||
        sheaf__channel_gather_bytes(s->sync->values, u->replica->local,
                                    (struct sheaf__bytes){bytes, sheaf__tensor_size(part)}, sizes,
                                    &data, &wait, err) < 0)
        return NULL;
    size_t total = 0, row = sheaf_dtype_size(part->dtype);
    for (int i = 0; i < s->total; i++)
        total += sizes[i];
    for (int k = 1; k < part->shape.rank; k++)
        row *= (size_t)part->shape.dims[k];
    sheaf_shape shape = part->shape;
    shape.dims[0] = row ? (int64_t)(total / row) : 0;
    sheaf_tensor *all = sheaf_tensor_new(part->dtype, shape, data);
    sheaf__free(data);
    return sheaf_tensor_status(all, err) < 0 ? NULL : all;
}

static sheaf_status reduce_rows(struct reducer *u, struct sheaf__gradient *g, sheaf_tensor **sum,
                                sheaf_error *err)
{
    sheaf_tensor *ids =
        gather_part(u, sheaf_cast(g->value->parts[SHEAF__INDICES], SHEAF_INT64), err);
    sheaf_tensor *values = ids ? gather_part(u, g->value->parts[SHEAF__VALUES], err) : NULL;
    if (!values)
        return err->status;
    *sum = sheaf__frame_own(sheaf__tensor_rows(ids, values, g->value->shape, err));
    return *sum ? SHEAF_OK : SHEAF_ERR_RESOURCE_EXHAUSTED;
}

/* A variable that this replica did not use counts as zeros. */
static sheaf_status fill_unused(struct sheaf__gradient *all, size_t count, sheaf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (all[i].value || all[i].take)
            continue;
        all[i].value = sheaf_zeros(all[i].variable->dtype, all[i].variable->shape);
        SHEAF__TRY(sheaf_tensor_status(all[i].value, err));
    }
    return SHEAF_OK;
}

static sheaf_status finish_reducer(struct reducer *u, struct sheaf__gradient *all, sheaf_error *err)
{
    SHEAF__TRY(sheaf__replica_come(u->replica, "the sum of the gradients", NULL, err));
    for (size_t i = 0; i < u->count; i++)
        if (all[i].value->layout != SHEAF__DENSE)
            SHEAF__TRY(reduce_rows(u, &all[i], &u->sums[i], err));
    static const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64, SHEAF_BFLOAT16};
    for (size_t k = 0; k < sizeof(dtypes) / sizeof(*dtypes); k++)
        SHEAF__TRY(reduce_together(u, all, dtypes[k], err));
    const struct sheaf__wait wait =
        sheaf__sync_wait(u->replica->strategy, "the sum of the gradients");
    for (size_t i = 0; i < u->count; i++) {
        if (u->jobs[i].reduction.in)
            SHEAF__TRY(sheaf__reduce_finish(u->channel, &u->jobs[i], &wait, err));
        all[i].value = u->sums[i];
    }
    return SHEAF_OK;
}

/* Memory of started sums must outlive them: a failed step waits for what it started. */
static void abandon_reducer(struct reducer *u)
{
    const struct sheaf__wait wait =
        sheaf__sync_wait(u->replica->strategy, "the gradients of a failed step");
    for (size_t i = 0; u->jobs && i < u->count; i++)
        if (u->jobs[i].reduction.in)
            sheaf__reduce_finish(u->channel, &u->jobs[i], &wait, NULL);
}

/* Binding, by one replica for all. */

struct binding {
    sheaf_optimizer *optimizer;
    const struct sheaf__gradient *all;
    size_t count;
};

static sheaf_status bind_gradients(const struct binding *b, sheaf_error *err)
{
    sheaf_variable **variables = sheaf__frame_alloc((b->count + 1) * sizeof(*variables));
    if (!variables)
        return sheaf__no_memory(err, "an optimizer");
    for (size_t i = 0; i < b->count; i++)
        variables[i] = b->all[i].variable;
    return sheaf__bind(b->optimizer, variables, b->count, err);
}

static sheaf_status bind_at_meeting(void *const *contributions, int count, void *user,
                                    sheaf_error *err)
{
    (void)count;
    (void)user;
    return bind_gradients(contributions[0], err);
}

static sheaf_status bind_once(sheaf_replica *r, sheaf_optimizer *o,
                              const struct sheaf__gradient *all, size_t count, sheaf_error *err)
{
    struct binding mine = {o, all, count};
    const sheaf_strategy *s = sheaf_replica_strategy(r);
    for (size_t i = 0; i < count; i++) {
        const struct sheaf__copies *copies = sheaf__copies_of(all[i].variable);
        const sheaf_strategy *home = all[i].variable->strategy;
        if ((home && home != s) || (copies && copies->count != s->local))
            return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                                "a gradient is applied under %s to variable '%s', which another "
                                "strategy made; do it in a step that this strategy runs",
                                s->cls->name, sheaf_variable_name(all[i].variable));
    }
    const struct sheaf__meeting meeting = {.what = "the first minimize", .fn = bind_at_meeting};
    if (!sheaf__is_bound(o))
        SHEAF__TRY(sheaf__replica_meet(r, &meeting, &mine, err));
    return bind_gradients(&mine, err);
}

/* Clipping, of gradients that are summed already. */

static sheaf_tensor *values_of(sheaf_tensor *gradient)
{
    return gradient->layout == SHEAF__ROWS ? gradient->parts[SHEAF__VALUES] : gradient;
}

static sheaf_status clip_one(const sheaf_optimizer *o, double factor, sheaf_tensor **gradient,
                             sheaf_error *err)
{
    sheaf_tensor *from = values_of(*gradient);
    sheaf_tensor *to = sheaf__tensor_new(from->dtype, from->shape, NULL, err);
    const void *data = to ? sheaf__tensor_host(from, err) : NULL;
    sheaf__frame_own(to);
    if (!data)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    const size_t n = (size_t)sheaf_tensor_elements(from);
    if (o->clip == SHEAF__CLIP_VALUE)
        sheaf__clip_value(from->dtype, sheaf__tensor_out(to), data, n, o->clip_limit);
    else
        sheaf__clip_scale(from->dtype, sheaf__tensor_out(to), data, n, factor);
    if (from == *gradient) {
        *gradient = to;
        return SHEAF_OK;
    }
    sheaf_tensor *rows =
        sheaf__tensor_rows((*gradient)->parts[SHEAF__INDICES], to, (*gradient)->shape, err);
    *gradient = sheaf__frame_own(rows);
    return rows ? SHEAF_OK : SHEAF_ERR_RESOURCE_EXHAUSTED;
}

static double squares_of(sheaf_tensor *gradient)
{
    const sheaf_tensor *t = values_of(gradient);
    return sheaf__clip_sum_squares(t->dtype, sheaf_tensor_data(t),
                                   (size_t)sheaf_tensor_elements(t));
}

static sheaf_status clip(const sheaf_optimizer *o, struct sheaf__gradient *all, size_t count,
                         sheaf_error *err)
{
    double squares = 0;
    if (o->clip == SHEAF__CLIP_NONE)
        return SHEAF_OK;
    for (size_t i = 0; o->clip == SHEAF__CLIP_GLOBAL_NORM && i < count; i++)
        squares += squares_of(all[i].value);
    for (size_t i = 0; i < count; i++) {
        if (o->clip == SHEAF__CLIP_NORM)
            squares = squares_of(all[i].value);
        const double factor = sheaf__clip_factor(sqrt(squares), o->clip_limit);
        if (factor != 1 || o->clip == SHEAF__CLIP_VALUE)
            SHEAF__TRY(clip_one(o, factor, &all[i].value, err));
    }
    return SHEAF_OK;
}

/* The whole of it. */

static sheaf_status apply(const struct reducer *u, sheaf_optimizer *o, struct sheaf__gradient *all,
                          size_t count, sheaf_error *err)
{
    sheaf_replica *r = u->replica;
    SHEAF__TRY(clip(o, all, count, err));
    sheaf_strategy *s = sheaf_replica_strategy(r);
    return s->remote ? s->cls->update(r, o, all, count, err)
                     : sheaf__update_local(r, o, u->step, all, count, err);
}

static struct reducer make_reducer(sheaf_replica *r, const sheaf_optimizer *o)
{
    const sheaf_strategy *s = sheaf_replica_strategy(r);
    return (struct reducer){.replica = r,
                            .channel = s->sync ? s->sync->gradients : NULL,
                            .step = sheaf_optimizer_iterations(o) + 1};
}

static sheaf_status reduce_and_apply(struct reducer *u, sheaf_optimizer *o,
                                     struct sheaf__gradient *all, size_t count, sheaf_error *err)
{
    SHEAF__TRY(bind_once(u->replica, o, all, count, err));
    SHEAF__TRY(fill_unused(all, count, err));
    if (u->channel) {
        SHEAF__TRY(start_reducer(u, count, err));
        SHEAF__TRY(finish_reducer(u, all, err));
    }
    return apply(u, o, all, count, err);
}

static sheaf_status check_minimize(sheaf_optimizer *o, sheaf_replica *r, sheaf_error *err)
{
    SHEAF__TRY(sheaf__optimizer_check(o, err));
    if (!r)
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "gradients applied in cross-replica context; do it in a step given to sheaf_run");
    return SHEAF_OK;
}

/* Gradients that need no sum go into their updates as they are computed. */

static sheaf_status begin_direct(const struct sheaf__gradients *g, void *user, sheaf_error *err)
{
    struct sheaf__direct *d = user;
    SHEAF__TRY(bind_once(d->replica, d->optimizer, g->all, g->count, err));
    return sheaf__direct_begin(d, g, err);
}

static sheaf_status minimize_directly(struct reducer *u, sheaf_optimizer *o, sheaf_tape *tape,
                                      sheaf_tensor *loss, sheaf_error *err)
{
    struct sheaf__direct d = {
        .replica = u->replica, .optimizer = o, .hyper = sheaf__optimizer_hyper(o, u->step)};
    const struct sheaf__gradient_calls calls = {
        .begin = begin_direct, .take = sheaf__direct_take, .user = &d};
    struct sheaf__gradients g = {0};
    sheaf_status status = sheaf__tape_gradients(tape, loss, &calls, &g, err);
    if (status < 0) {
        sheaf__direct_abort(&d);
        return status;
    }
    sheaf__direct_commit(&d, g.all);
    return reduce_and_apply(u, o, g.all, g.count, err);
}

static sheaf_status minimize_reduced(struct reducer *u, sheaf_optimizer *o, sheaf_tape *tape,
                                     sheaf_tensor *loss, sheaf_error *err)
{
    const struct sheaf__gradient_calls calls = {.ready = u->channel ? start_one : NULL, .user = u};
    struct sheaf__gradients g = {0};
    sheaf_status status = sheaf__tape_gradients(tape, loss, &calls, &g, err);
    if (status >= 0)
        status = reduce_and_apply(u, o, g.all, g.count, err);
    if (status < 0)
        abandon_reducer(u);
    return status;
}

sheaf_status sheaf_optimizer_minimize(sheaf_optimizer *o, sheaf_tape *tape, sheaf_tensor *loss)
{
    sheaf_error err = {0};
    sheaf_replica *r = sheaf_replica_context();
    sheaf_status status = check_minimize(o, r, &err);
    if (status >= 0)
        status = sheaf_tensor_status(loss, &err);
    if (status >= 0) {
        struct reducer u = make_reducer(r, o);
        status = sheaf__direct_possible(r, o) ? minimize_directly(&u, o, tape, loss, &err)
                                              : minimize_reduced(&u, o, tape, loss, &err);
    }
    if (status < 0)
        sheaf__frame_latch(&err);
    return status;
}

sheaf_status sheaf_optimizer_apply(sheaf_optimizer *o, sheaf_variable *const *variables,
                                   sheaf_tensor *const *gradients, size_t count, sheaf_error *err)
{
    sheaf_replica *r = sheaf_replica_context();
    SHEAF__TRY(check_minimize(o, r, err));
    SHEAF_FRAME
    {
        struct sheaf__gradient *all = sheaf__frame_alloc((count + 1) * sizeof(*all));
        struct reducer u = make_reducer(r, o);
        if (!all)
            return sheaf__no_memory(err, "the gradients");
        sheaf_status status = SHEAF_OK;
        for (size_t i = 0; i < count; i++) {
            SHEAF__TRY(sheaf_variable_status(variables[i], err));
            SHEAF__TRY(sheaf_tensor_status(gradients[i], err));
            SHEAF__TRY(sheaf__update_check(variables[i], gradients[i], err));
            all[i] = (struct sheaf__gradient){.variable = variables[i], .value = gradients[i]};
        }
        for (size_t i = 0; i < count && status >= 0 && u.channel; i++)
            status = start_one(&(struct sheaf__gradients){all, count}, i, &u, err);
        if (status >= 0)
            status = reduce_and_apply(&u, o, all, count, err);
        if (status < 0) {
            abandon_reducer(&u);
            return status;
        }
    }
    return SHEAF_OK;
}
