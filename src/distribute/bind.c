/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/bind.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/variable.h"
#include "tensor/element.h"

#include <string.h>

/* A number of the optimizer that a checkpoint holds. */
struct number {
    sheaf_trackable trackable;
    sheaf_optimizer *optimizer;
    struct sheaf__save_group *group;
};

struct bound {
    sheaf_trackable list; /* "_variables" */
    struct number iteration, learning_rate;
    struct number momenta; /* Nadam's product of them, which Keras keeps as the last of the list */
    sheaf_variable *iterations; /* counts the steps of all workers; or NULL */
    size_t count;
    sheaf_variable **variables; /* counted */
    size_t slot_count;
    sheaf_trackable **slots; /* of each variable in turn */
    bool agreed;             /* all workers have the same */
    int64_t steps;           /* applied before it was bound: those of a checkpoint */
    void *notes[SHEAF__MOST_REPLICAS];
};

/* Numbers. */

static bool number_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    const struct number *n = t->object;
    const struct bound *b = n->optimizer->bound;
    if (i > 0)
        return false;
    const bool counts = n == &b->iteration;
    *out = (struct sheaf__saveable){.attribute = "VARIABLE_VALUE",
                                    .full_name = counts             ? "iteration"
                                                 : n == &b->momenta ? "variable"
                                                                    : "learning_rate",
                                    .dtype = counts ? SHEAF_INT64 : SHEAF_FLOAT32,
                                    .shape = SHEAF_SCALAR,
                                    .full = SHEAF_SCALAR,
                                    .group = n->group};
    return true;
}

/* Where a variable counts the steps of all workers, this one may have made none since it was restored. */
static int64_t steps_of(sheaf_optimizer *o)
{
    const struct bound *b = o->bound;
    sheaf_tensor *now = b->iterations ? sheaf_value(b->iterations) : NULL;
    if (now && sheaf_tensor_status(now, NULL) >= 0)
        atomic_store(&o->iterations, sheaf_tensor_integer(now, 0));
    return atomic_load(&o->iterations);
}

static sheaf_tensor *number_read(sheaf_trackable *t, size_t i)
{
    const struct number *n = t->object;
    sheaf_optimizer *o = n->optimizer;
    const struct bound *b = o->bound;
    const int64_t steps = steps_of(o);
    (void)i;
    if (n == &b->iteration)
        return sheaf_long(steps);
    if (n == &b->momenta)
        return sheaf_float(steps ? (float)sheaf__optimizer_hyper(o, steps).beta1_product : 1);
    return sheaf_float((float)sheaf_optimizer_learning_rate(o));
}

static sheaf_status number_write(sheaf_trackable *t, size_t i, sheaf_tensor *value,
                                 sheaf_error *err)
{
    struct number *n = t->object;
    const struct bound *b = n->optimizer->bound;
    (void)i;
    (void)err;
    if (n == &b->iteration)
        atomic_store(&n->optimizer->iterations, sheaf_tensor_integer(value, 0));
    else if (n == &b->learning_rate &&
             !n->optimizer->schedule) /* the momenta follow from the steps */
        n->optimizer->learning_rate = sheaf_tensor_number(value, 0);
    return SHEAF_OK;
}

static const struct sheaf__trackable_class number_class = {
    .saveable = number_saveable, .read = number_read, .write = number_write};

/* The list and the optimizer itself. */

static bool list_child(sheaf_trackable *t, size_t i, const char **name, sheaf_trackable **child)
{
    struct bound *b = t->object;
    const bool momenta = b->iteration.optimizer->hyper.rule == SHEAF__RULE_NADAM;
    if (i >= 2 + b->slot_count + momenta)
        return false;
    *name = sheaf__name_of(i);
    if (i == 0)
        *child = b->iterations ? &b->iterations->trackable : &b->iteration.trackable;
    else if (i == 1)
        *child = &b->learning_rate.trackable;
    else
        *child = i < 2 + b->slot_count ? b->slots[i - 2] : &b->momenta.trackable;
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

static const struct sheaf__trackable_class optimizer_class = {.child = optimizer_child,
                                                              .watch = optimizer_watch};

sheaf_trackable *sheaf_optimizer_trackable(sheaf_optimizer *o)
{
    if (!o)
        return NULL;
    o->trackable = (sheaf_trackable){&optimizer_class, o};
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
    b->iteration = (struct number){{&number_class, &b->iteration}, o, s->group};
    b->learning_rate = (struct number){{&number_class, &b->learning_rate}, o, s->group};
    b->momenta = (struct number){{&number_class, &b->momenta}, o, s->group};
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
