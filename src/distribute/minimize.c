/* SPDX-License-Identifier: Apache-2.0 */

/* Gradients to updates: taken from the tape, summed over replicas, clipped, applied (design 5). */

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/trace.h"
#include "distribute/bind.h"
#include "distribute/direct.h"
#include "distribute/gradient_sum.h"
#include "distribute/mirrored.h"
#include "distribute/replica.h"
#include "distribute/update.h"
#include "ops/tape.h"
#include "optim/clip.h"
#include "tensor/frame.h"

#include <math.h>
#include <string.h>

/* A variable that this replica did not use counts as zeros. */
static sheaf_status fill_unused(struct sheaf__gradient *all, size_t count, sheaf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        all[i].unused = !all[i].value && !all[i].take;
        if (!all[i].unused)
            continue;
        all[i].value = sheaf_zeros(all[i].variable->dtype, all[i].variable->shape);
        SHEAF__TRY(sheaf_tensor_status(all[i].value, err));
    }
    return SHEAF_OK;
}

/* Variables without gradients, as Keras tells of them: some are a warning, all are an error. */

static bool is_used(const struct sheaf__gradients *g, const sheaf_variable *v)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->all[i].variable == v)
            return !g->all[i].unused;
    return false;
}

/* "'w', 'b', …": those of the optimizer's that are not used. */
static const char *unused_names(const sheaf_optimizer *o, const struct sheaf__gradients *g)
{
    enum { NAMED = 4 };
    struct sheaf__str names = {0};
    int count = 0;
    for (size_t i = 0; i < sheaf__bound_count(o) && count <= NAMED; i++) {
        const sheaf_variable *v = sheaf__bound_variable(o, i);
        if (is_used(g, v))
            continue;
        if (count++ < NAMED)
            sheaf__str_printf(&names, "%s'%.40s'", count > 1 ? ", " : "", v->name);
        else
            sheaf__str_add(&names, ", …");
    }
    return sheaf__frame_str(&names);
}

static sheaf_status check_used(sheaf_replica *r, sheaf_optimizer *o,
                               const struct sheaf__gradients *g, sheaf_error *err)
{
    const sheaf_strategy *s = sheaf_replica_strategy(r);
    size_t used = 0;
    for (size_t i = 0; i < g->count; i++)
        used += !g->all[i].unused;
    if (used == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "optimizer %s has no gradients: the loss depends on none of its "
                            "variables (%s)",
                            o->name, unused_names(o, g));
    if (used == sheaf__bound_count(o) || (s->workers > 1 && !s->remote && !s->is_chief) ||
        atomic_load_explicit(&o->told_unused, memory_order_relaxed) ||
        atomic_exchange(&o->told_unused, true))
        return SHEAF_OK;
    sheaf__log(SHEAF_LOG_WARN, "optimizer %s: the loss does not depend on %s: no gradients",
               o->name, unused_names(o, g));
    return SHEAF_OK;
}

/* Binding. */

static sheaf_status check_homes(const sheaf_strategy *s, const struct sheaf__gradient *all,
                                size_t count, sheaf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct sheaf__copies *copies = sheaf__copies_of(all[i].variable);
        const sheaf_strategy *home = all[i].variable->strategy;
        if ((home && home != s) || (copies && copies->count != s->local))
            return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                                "a gradient is applied under %s to variable '%s', which another "
                                "strategy made; do it in a step that this strategy runs",
                                s->cls->name, sheaf_variable_name(all[i].variable));
    }
    return SHEAF_OK;
}

/* The optimizer is bound afterwards, to all of these and perhaps more. */
static sheaf_status bind(sheaf_replica *r, sheaf_optimizer *o, const struct sheaf__gradient *all,
                         size_t count, sheaf_error *err)
{
    SHEAF__TRY(check_homes(sheaf_replica_strategy(r), all, count, err));
    SHEAF__TRY(sheaf__bind_together(r, o, all, count, err));
    for (size_t i = 0, number = 0; i < count; i++, number++)
        SHEAF__TRY(sheaf__bound_number(o, all[i].variable, &number, err));
    return SHEAF_OK;
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

/* One update of a replica. */
struct update {
    sheaf_replica *replica;
    sheaf_optimizer *optimizer;
    int64_t step; /* its number, read before any replica can have finished it */
    bool first;   /* the optimizer is not bound yet: a checkpoint may bring another number */
    bool given;   /* the gradients are the program's */
    struct sheaf__gradient_sum sum;
};

static struct update begin_update(sheaf_replica *r, sheaf_optimizer *o)
{
    return (struct update){.replica = r,
                           .optimizer = o,
                           .step = atomic_load(&o->iterations) + 1,
                           .first = !sheaf__is_bound(o),
                           .sum = {.replica = r, .optimizer = o}};
}

static bool is_summed(const struct update *u)
{
    return sheaf_replica_strategy(u->replica)->sync != NULL;
}

static sheaf_status bind_update(struct update *u, const struct sheaf__gradients *g,
                                sheaf_error *err)
{
    SHEAF__TRY(bind(u->replica, u->optimizer, g->all, g->count, err));
    if (u->first)
        u->step = sheaf__bound_steps(u->optimizer) + 1;
    return SHEAF_OK;
}

/* Applies gradients that are all final. */
static sheaf_status finish_update(struct update *u, struct sheaf__gradients g, sheaf_error *err)
{
    sheaf_strategy *s = sheaf_replica_strategy(u->replica);
    SHEAF__TRY(bind_update(u, &g, err));
    if (is_summed(u))
        SHEAF__TRY(sheaf__gradient_sum_finish(&u->sum, &g, err));
    else
        SHEAF__TRY(fill_unused(g.all, g.count, err));
    if (!u->given)
        SHEAF__TRY(check_used(u->replica, u->optimizer, &g, err));
    SHEAF__TRY(clip(u->optimizer, g.all, g.count, err));
    return s->remote ? s->cls->update(u->replica, u->optimizer, g.all, g.count, err)
                     : sheaf__update_local(u->replica, u->optimizer, u->step, g.all, g.count, err);
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

struct direct_update {
    struct sheaf__direct direct; /* first: it takes the gradients */
    struct update *update;
};

static sheaf_status begin_direct(const struct sheaf__gradients *g, void *user, sheaf_error *err)
{
    struct direct_update *d = user;
    SHEAF__TRY(bind_update(d->update, g, err));
    d->direct.hyper = sheaf__optimizer_hyper(d->update->optimizer, d->update->step);
    return sheaf__direct_begin(&d->direct, g, err);
}

static sheaf_status minimize_directly(struct update *u, sheaf_tape *tape, sheaf_tensor *loss,
                                      sheaf_error *err)
{
    struct direct_update d = {{.replica = u->replica, .optimizer = u->optimizer}, u};
    const struct sheaf__gradient_calls calls = {
        .begin = begin_direct, .take = sheaf__direct_take, .user = &d};
    struct sheaf__gradients g = {0};
    sheaf_status status = sheaf__tape_gradients(tape, loss, &calls, &g, err);
    if (status < 0) {
        sheaf__direct_abort(&d.direct);
        return status;
    }
    sheaf__direct_commit(&d.direct, g.all);
    return finish_update(u, g, err);
}

static sheaf_status minimize_summed(struct update *u, sheaf_tape *tape, sheaf_tensor *loss,
                                    sheaf_error *err)
{
    const struct sheaf__gradient_calls calls = {
        .begin = sheaf__gradient_sum_begin, .ready = sheaf__gradient_sum_ready, .user = &u->sum};
    struct sheaf__gradients g = {0};
    sheaf_status status = sheaf__tape_gradients(tape, loss, is_summed(u) ? &calls : NULL, &g, err);
    if (status >= 0)
        status = finish_update(u, g, err);
    if (status < 0 && is_summed(u))
        sheaf__gradient_sum_abandon(&u->sum);
    return status;
}

sheaf_status sheaf_optimizer_minimize(sheaf_optimizer *o, sheaf_tape *tape, sheaf_tensor *loss)
{
    SHEAF__TRACE("minimize");
    sheaf_error err = {0};
    sheaf_replica *r = sheaf_replica_context();
    sheaf_status status = check_minimize(o, r, &err);
    if (status >= 0)
        status = sheaf_tensor_status(loss, &err);
    if (status >= 0) {
        struct update u = begin_update(r, o);
        status = sheaf__direct_possible(r, o) ? minimize_directly(&u, tape, loss, &err)
                                              : minimize_summed(&u, tape, loss, &err);
    }
    if (status < 0)
        sheaf__frame_latch(&err);
    return status;
}

/* Gradients that the program gives. */

static sheaf_status list_given(struct sheaf__gradients *g, sheaf_variable *const *variables,
                               sheaf_tensor *const *gradients, size_t count, sheaf_error *err)
{
    g->count = count;
    if (!variables || !gradients || count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "no gradients to apply: %s",
                            count == 0   ? "0 variables"
                            : !variables ? "the variables are NULL"
                                         : "the gradients are NULL");
    g->all = sheaf__frame_alloc((count + 1) * sizeof(*g->all));
    if (!g->all)
        return sheaf__no_memory(err, "the gradients");
    for (size_t i = 0; i < count; i++) {
        SHEAF__TRY(sheaf_variable_status(variables[i], err));
        SHEAF__TRY(sheaf_tensor_status(gradients[i], err));
        SHEAF__TRY(sheaf__update_check(variables[i], gradients[i], err));
        g->all[i] = (struct sheaf__gradient){.variable = variables[i], .value = gradients[i]};
    }
    return SHEAF_OK;
}

static sheaf_status apply_given(struct update *u, struct sheaf__gradients g, sheaf_error *err)
{
    sheaf_status status = is_summed(u) ? sheaf__gradient_sum_begin(&g, &u->sum, err) : SHEAF_OK;
    for (size_t i = 0; i < g.count && status >= 0 && is_summed(u); i++)
        status = sheaf__gradient_sum_ready(&g, i, &u->sum, err);
    if (status >= 0)
        status = finish_update(u, g, err);
    if (status < 0 && is_summed(u))
        sheaf__gradient_sum_abandon(&u->sum);
    return status;
}

sheaf_status sheaf_optimizer_apply(sheaf_optimizer *o, sheaf_variable *const *variables,
                                   sheaf_tensor *const *gradients, size_t count, sheaf_error *err)
{
    sheaf_replica *r = sheaf_replica_context();
    sheaf_status status = SHEAF_OK;
    sheaf_error mine;
    err = err ? err : &mine;
    SHEAF__TRY(check_minimize(o, r, err));
    SHEAF_FRAME
    {
        struct update u = begin_update(r, o);
        struct sheaf__gradients g;
        u.given = true;
        status = list_given(&g, variables, gradients, count, err);
        if (status >= 0)
            status = apply_given(&u, g, err);
    }
    return status;
}
