/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/bind.h"

#include "base/error.h"
#include "base/mem.h"
#include "distribute/bind_number.h"
#include "ops/variable.h"
#include "tensor/element.h"

#include <string.h>

struct bound {
    sheaf_trackable list; /* "_variables" */
    sheaf_optimizer *optimizer;
    struct sheaf__save_group *group; /* of its numbers */
    sheaf_variable *iterations;      /* counts the steps of all workers; or NULL */
    size_t count;
    sheaf_variable **variables; /* counted */
    size_t slot_count;
    sheaf_trackable **slots; /* of each variable in turn */
    bool agreed;             /* all workers have the same */
    int64_t steps;           /* applied before it was bound: those of a checkpoint */
    void *notes[SHEAF__MOST_REPLICAS];
};

/* The list and the optimizer itself. */

static bool list_child(sheaf_trackable *t, size_t i, const char **name, sheaf_trackable **child)
{
    struct bound *b = t->object;
    struct sheaf__number *numbers = b->optimizer->numbers;
    const bool momenta = b->optimizer->hyper.rule == SHEAF__RULE_NADAM;
    if (i >= 2 + b->slot_count + momenta)
        return false;
    *name = sheaf__name_of(i);
    if (i == 0)
        *child =
            b->iterations ? &b->iterations->trackable : &numbers[SHEAF__NUMBER_ITERATION].trackable;
    else if (i == 1)
        *child = &numbers[SHEAF__NUMBER_LEARNING_RATE].trackable;
    else
        *child =
            i < 2 + b->slot_count ? b->slots[i - 2] : &numbers[SHEAF__NUMBER_MOMENTA].trackable;
    return true;
}

static const struct sheaf__trackable_class list_class = {.whole = "optimizer", .child = list_child};

static bool optimizer_child(sheaf_trackable *t, size_t i, const char **name,
                            sheaf_trackable **child)
{
    const sheaf_optimizer *o = t->object;
    struct bound *b = o->bound;
    if (i > 0 || !b)
        return false;
    *name = "_variables";
    *child = &b->list;
    return true;
}

static bool optimizer_watch(sheaf_trackable *t, struct sheaf__trackable_watch *w)
{
    sheaf_optimizer *o = t->object;
    if (w && o->bound)
        return false;
    if (w && o->watch)
        o->watch->gone(o->watch);
    o->watch = w;
    return true;
}

static sheaf_status optimizer_check(const sheaf_trackable *t, sheaf_error *err)
{
    return sheaf__optimizer_check(t->object, err);
}

static const struct sheaf__trackable_class optimizer_class = {.child = optimizer_child,
                                                              .elsewhere = sheaf__bind_elsewhere,
                                                              .watch = optimizer_watch,
                                                              .check = optimizer_check};

sheaf_trackable *sheaf_optimizer_trackable(sheaf_optimizer *o)
{
    if (!o)
        return NULL;
    o->trackable = (sheaf_trackable){&optimizer_class, o};
    sheaf__bind_numbers(o);
    return &o->trackable;
}

/* Binding. */

static void release(void *bound)
{
    struct bound *b = bound;
    for (size_t i = 0; i < b->count; i++)
        sheaf_variable_free(b->variables[i]);
    for (int i = 0; i < SHEAF__MOST_REPLICAS; i++)
        sheaf__free(b->notes[i]);
    sheaf_variable_free(b->iterations);
    sheaf__free(b->variables);
    sheaf__free(b->slots);
    sheaf__free(b);
}

bool sheaf__is_bound(const sheaf_optimizer *o)
{
    return o->bound != NULL;
}

struct sheaf__save_group *sheaf__bound_group(const sheaf_optimizer *o)
{
    const struct bound *b = o->bound;
    return b ? b->group : NULL;
}

sheaf_trackable *sheaf__bound_slot(const sheaf_optimizer *o, size_t i)
{
    const struct bound *b = o->bound;
    return b && i < b->slot_count ? b->slots[i] : NULL;
}

sheaf_variable *sheaf__bound_iterations(const sheaf_optimizer *o)
{
    const struct bound *b = o->bound;
    return b ? b->iterations : NULL;
}

int64_t sheaf__bound_steps(const sheaf_optimizer *o)
{
    return ((const struct bound *)o->bound)->steps;
}

bool *sheaf__bound_agreed(const sheaf_optimizer *o)
{
    return &((struct bound *)o->bound)->agreed;
}

size_t sheaf__bound_count(const sheaf_optimizer *o)
{
    return ((const struct bound *)o->bound)->count;
}

sheaf_variable *sheaf__bound_variable(const sheaf_optimizer *o, size_t i)
{
    return ((const struct bound *)o->bound)->variables[i];
}

sheaf_status sheaf__bound_number(const sheaf_optimizer *o, const sheaf_variable *v, size_t *number,
                                 sheaf_error *err)
{
    const struct bound *b = o->bound;
    for (size_t k = 0; k < b->count; k++) {
        const size_t i = (*number + k) % b->count;
        if (b->variables[i] != v)
            continue;
        *number = i;
        return SHEAF_OK;
    }
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "optimizer %s is built for %zu variables, '%s' is not among them; an "
                        "optimizer serves one set of variables",
                        o->name, b->count, v->name);
}

void **sheaf__bound_note(const sheaf_optimizer *o, int local)
{
    return &((struct bound *)o->bound)->notes[local];
}

static sheaf_status check_bound(const sheaf_optimizer *o, sheaf_variable *const *variables,
                                size_t count, sheaf_error *err)
{
    for (size_t i = 0, number = 0; i < count; i++, number++)
        SHEAF__TRY(sheaf__bound_number(o, variables[i], &number, err));
    return SHEAF_OK;
}

static sheaf_status add_slots(struct bound *b, sheaf_optimizer *o, sheaf_variable *v,
                              sheaf_error *err)
{
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    const size_t count = sheaf__rule_slots(&o->hyper, slots);
    for (size_t k = 0; k < count; k++) {
        sheaf_trackable *slot = sheaf__variable_slot_track(v, slots[k].name, slots[k].fill);
        if (!slot)
            return sheaf__no_memory(err, "an optimizer's slots");
        b->slots[b->slot_count++] = slot;
    }
    return SHEAF_OK;
}

/* Under parameter servers the steps of all workers are counted in a variable there. */
static sheaf_status count_steps(struct bound *b, sheaf_optimizer *o, sheaf_strategy *s,
                                sheaf_error *err)
{
    b->group = s->group;
    sheaf__bind_numbers(o);
    if (!s->remote)
        return SHEAF_OK;
    sheaf_variable_request request = {
        .name = "iteration",
        .dtype = SHEAF_INT64,
        .shape = SHEAF_SCALAR,
        .initializer = sheaf_init_zeros(),
        .options = {.not_trainable = true, .aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA}};
    b->iterations = s->cls->create(s, &request);
    return b->iterations ? sheaf_variable_status(b->iterations, err)
                         : sheaf__no_memory(err, "an optimizer");
}

static sheaf_status fill_bound(struct bound *b, sheaf_optimizer *o,
                               sheaf_variable *const *variables, size_t count, sheaf_error *err)
{
    b->list = (sheaf_trackable){&list_class, b};
    b->optimizer = o;
    b->variables = sheaf__calloc(count + 1, sizeof(sheaf_variable *));
    b->slots = sheaf__calloc(count * SHEAF__RULE_SLOTS + 1, sizeof(sheaf_trackable *));
    if (!b->variables || !b->slots)
        return sheaf__no_memory(err, "an optimizer's slots");
    sheaf_strategy *s =
        count && variables[0]->strategy ? variables[0]->strategy : sheaf__strategy_default();
    SHEAF__TRY(count_steps(b, o, s, err));
    for (size_t i = 0; i < count; i++) {
        SHEAF__TRY(sheaf_variable_status(variables[i], err));
        b->variables[b->count++] = sheaf_variable_ref(variables[i]);
        SHEAF__TRY(add_slots(b, o, variables[i], err));
    }
    return SHEAF_OK;
}

/* A checkpoint that was restored before gives the slots their values first. */
static sheaf_status publish(sheaf_optimizer *o, struct bound *b, sheaf_error *err)
{
    struct sheaf__trackable_watch *w = o->watch;
    o->bound = b;
    sheaf_status status = w ? w->grown(w, err) : SHEAF_OK;
    if (status < 0) {
        o->bound = NULL;
        return status;
    }
    b->steps = sheaf_optimizer_iterations(o);
    o->release = release;
    o->count = b->iterations ? sheaf__bind_count : NULL;
    if (w)
        w->gone(w);
    o->watch = NULL;
    return SHEAF_OK;
}

sheaf_status sheaf__bind(sheaf_optimizer *o, sheaf_variable *const *variables, size_t count,
                         sheaf_error *err)
{
    SHEAF__TRY(sheaf__optimizer_check(o, err));
    if (o->bound)
        return check_bound(o, variables, count, err);
    struct bound *b = sheaf__calloc(1, sizeof(*b));
    if (!b)
        return sheaf__no_memory(err, "an optimizer");
    sheaf_status status = fill_bound(b, o, variables, count, err);
    if (status >= 0)
        status = publish(o, b, err);
    if (status < 0)
        release(b);
    return status;
}

sheaf_status sheaf_optimizer_build(sheaf_optimizer *o, sheaf_variable *const *variables,
                                   size_t count, sheaf_error *err)
{
    sheaf_variable **trainable = sheaf__calloc(count + 1, sizeof(*trainable));
    if (!trainable)
        return sheaf__no_memory(err, "an optimizer");
    size_t kept = 0;
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < count && status >= 0; i++) {
        sheaf_variable *v = variables ? variables[i] : NULL;
        status = sheaf_variable_status(v, err);
        if (sheaf_variable_trainable(v))
            trainable[kept++] = v;
    }
    if (status >= 0)
        status = sheaf__bind(o, trainable, kept, err);
    sheaf__free(trainable);
    return status;
}
