/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/mirrored.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "distribute/aggregate.h"
#include "distribute/combine.h"
#include "distribute/made.h"
#include "distribute/replica.h"
#include "distribute/sync.h"
#include "tensor/frame.h"
#include "tensor/shape.h"

#include <sheaf/ops.h>

#include <string.h>

/* Reading and writing copies. */

static sheaf_tensor *read_copy(struct sheaf__copies *c, int i)
{
    return c->of[i]->cls->read(c->of[i]);
}

static sheaf_status assign_copy(struct sheaf__copies *c, int i, enum sheaf__assign_op op,
                                sheaf_tensor *value, sheaf_error *err)
{
    return c->of[i]->cls->assign(c->of[i], op, value, err);
}

static sheaf_status assign_all(struct sheaf__copies *c, enum sheaf__assign_op op,
                               sheaf_tensor *value, sheaf_error *err)
{
    for (int i = 0; i < c->count; i++)
        SHEAF__TRY(assign_copy(c, i, op, value, err));
    return SHEAF_OK;
}

/* Number of the copy that the calling thread's mode means, -1 for all of them. */
static int own_copy(const struct sheaf__copies *c)
{
    const struct sheaf__mode *mode = sheaf__mode_current();
    if (mode->strategy != c->base.strategy)
        return -1;
    return mode->kind == SHEAF__MODE_REPLICA || mode->updating ? mode->local_replica : -1;
}

static int copies_count(const sheaf_variable *v)
{
    return ((const struct sheaf__copies *)v)->count;
}

static sheaf_variable *copies_copy(sheaf_variable *v, int i)
{
    struct sheaf__copies *c = (struct sheaf__copies *)v;
    return i >= 0 && i < c->count ? c->of[i] : NULL;
}

static void copies_destroy(sheaf_variable *v)
{
    struct sheaf__copies *c = (struct sheaf__copies *)v;
    if (c->made)
        sheaf__made_remove(c->made, v);
    sheaf__unref(c->made);
    sheaf__copies_free_slots(c);
    for (int i = 0; i < c->count; i++)
        sheaf_variable_free(c->of[i]);
    sheaf__free(c->base.name);
    sheaf__free(c);
}

/* Mirrored: written together. */

static sheaf_tensor *mirrored_read(sheaf_variable *v)
{
    struct sheaf__copies *c = (struct sheaf__copies *)v;
    const int own = own_copy(c);
    return read_copy(c, own < 0 ? 0 : own);
}

static sheaf_tensor *mirrored_lookup(sheaf_variable *v, sheaf_tensor *ids)
{
    struct sheaf__copies *c = (struct sheaf__copies *)v;
    const int own = own_copy(c);
    sheaf_variable *copy = c->of[own < 0 ? 0 : own];
    return copy->cls->lookup(copy, ids);
}

/* What a replica brings to an aggregated write. */
struct written {
    sheaf_tensor *value;
};

struct aggregation {
    struct sheaf__copies *copies;
    enum sheaf__assign_op op;
};

static sheaf_status write_aggregated(void *const *contributions, int count, void *user,
                                     sheaf_error *err)
{
    const struct aggregation *a = user;
    sheaf_tensor *values[SHEAF__MOST_REPLICAS];
    for (int i = 0; i < count; i++)
        values[i] = ((const struct written *)contributions[i])->value;
    SHEAF_FRAME
    {
        sheaf_tensor *value = sheaf__aggregate(&a->copies->base, values, count);
        SHEAF__TRY(sheaf_tensor_status(value, err));
        SHEAF__TRY(assign_all(a->copies, a->op, value, err));
    }
    return SHEAF_OK;
}

static sheaf_status mirrored_assign(sheaf_variable *v, enum sheaf__assign_op op,
                                    sheaf_tensor *value, sheaf_error *err)
{
    struct sheaf__copies *c = (struct sheaf__copies *)v;
    const struct sheaf__mode *mode = sheaf__mode_current();
    const int own = own_copy(c);
    if (own < 0)
        return assign_all(c, op, value, err);
    if (v->aggregation == SHEAF_AGGREGATION_NONE || mode->updating)
        return assign_copy(c, own, op, value, err);
    struct written mine = {value};
    struct aggregation a = {c, op};
    const struct sheaf__meeting meeting = {"an assignment to variable", v->name, write_aggregated,
                                           &a};
    return sheaf__replica_meet(mode->replica, &meeting, &mine, err);
}

static const struct sheaf__variable_class mirrored_class = {
    .container = "MirroredVariable",
    .read = mirrored_read,
    .lookup = mirrored_lookup,
    .assign = mirrored_assign,
    .copies = copies_count,
    .copy = copies_copy,
    .slot = sheaf__copies_slot,
    .destroy = copies_destroy,
};

/* Sync-on-read: brought together when read. */

static sheaf_tensor *combined_value(struct sheaf__copies *c)
{
    sheaf_tensor *values[SHEAF__MOST_REPLICAS];
    for (int i = 0; i < c->count; i++)
        values[i] = read_copy(c, i);
    switch (c->base.aggregation) {
    case SHEAF_AGGREGATION_ONLY_FIRST_REPLICA:
        return values[0];
    case SHEAF_AGGREGATION_SUM:
        return sheaf__combine(c->base.strategy, SHEAF_REDUCE_SUM, values, c->count);
    case SHEAF_AGGREGATION_MEAN:
        return sheaf__combine(c->base.strategy, SHEAF_REDUCE_MEAN, values, c->count);
    case SHEAF_AGGREGATION_NONE:
        break;
    }
    return sheaf__tensor_fail(
        SHEAF_ERR_INVALID_ARGUMENT,
        "variable '%s' is synchronised on read and has aggregation NONE: it cannot be "
        "read across replicas",
        c->base.name);
}

static sheaf_tensor *on_read_read(sheaf_variable *v)
{
    struct sheaf__copies *c = (struct sheaf__copies *)v;
    const int own = own_copy(c);
    return own < 0 ? combined_value(c) : read_copy(c, own);
}

/* What each copy gets when the whole is set to `value`: its share of a SUM, cast toward zero
 * (R5.19). */
static sheaf_tensor *share_of(const struct sheaf__copies *c, sheaf_tensor *value)
{
    const int total = c->base.strategy->total;
    if (c->base.aggregation != SHEAF_AGGREGATION_SUM || total == 1)
        return value;
    sheaf_tensor *n = sheaf_fill(value->dtype, SHEAF_SCALAR, total);
    return sheaf_cast(sheaf_div(value, n), c->base.dtype);
}

static sheaf_status on_read_assign(sheaf_variable *v, enum sheaf__assign_op op, sheaf_tensor *value,
                                   sheaf_error *err)
{
    struct sheaf__copies *c = (struct sheaf__copies *)v;
    const int own = own_copy(c);
    if (own >= 0)
        return assign_copy(c, own, op, value, err);
    if (op != SHEAF__ASSIGN && v->aggregation == SHEAF_AGGREGATION_SUM)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "variable '%s' is synchronised on read with aggregation SUM: assign_add and "
            "assign_sub across replicas have no meaning",
            v->name);
    SHEAF_FRAME
    {
        sheaf_tensor *share = op == SHEAF__ASSIGN ? share_of(c, value) : value;
        SHEAF__TRY(sheaf_tensor_status(share, err));
        SHEAF__TRY(assign_all(c, op, share, err));
    }
    return SHEAF_OK;
}

static const struct sheaf__variable_class on_read_class = {
    .container = "SyncOnReadVariable",
    .read = on_read_read,
    .assign = on_read_assign,
    .copies = copies_count,
    .copy = copies_copy,
    .slot = sheaf__copies_slot,
    .destroy = copies_destroy,
};

/* Checkpoints: one tensor (R5.16, R5.22). */

/* Whether other workers have a share of the value. */
static bool is_shared(const struct sheaf__copies *c)
{
    return c->base.cls == &on_read_class && c->base.strategy->workers > 1 &&
           (c->base.aggregation == SHEAF_AGGREGATION_SUM ||
            c->base.aggregation == SHEAF_AGGREGATION_MEAN);
}

static bool copies_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    struct sheaf__copies *c = t->object;
    if (i > 0)
        return false;
    *out = (struct sheaf__saveable){.attribute = "VARIABLE_VALUE",
                                    .full_name = c->base.name,
                                    .dtype = c->base.dtype,
                                    .shape = c->base.shape,
                                    .full = c->base.shape,
                                    .device = c->base.device,
                                    .group = c->base.strategy->group,
                                    .together = is_shared(c)};
    return true;
}

static sheaf_tensor *copies_read(sheaf_trackable *t, size_t i)
{
    struct sheaf__copies *c = t->object;
    (void)i;
    return c->base.cls == &on_read_class ? combined_value(c) : read_copy(c, 0);
}

static sheaf_status copies_write(sheaf_trackable *t, size_t i, sheaf_tensor *value,
                                 sheaf_error *err)
{
    struct sheaf__copies *c = t->object;
    (void)i;
    SHEAF_FRAME
    {
        sheaf_tensor *share = c->base.cls == &on_read_class ? share_of(c, value) : value;
        SHEAF__TRY(sheaf_tensor_status(share, err));
        SHEAF__TRY(assign_all(c, SHEAF__ASSIGN, share, err));
    }
    return SHEAF_OK;
}

static const struct sheaf__trackable_class copies_trackable = {.saveable = copies_saveable,
                                                               .read = copies_read,
                                                               .write = copies_write,
                                                               .check = sheaf__variable_check};

struct sheaf__copies *sheaf__copies_of(sheaf_variable *v)
{
    const bool is = v->cls == &mirrored_class || v->cls == &on_read_class;
    return is ? (struct sheaf__copies *)v : NULL;
}

/* Making them. */

static sheaf_status check_request(const sheaf_variable_request *r, sheaf_error *err)
{
    const sheaf_variable_options *o = &r->options;
    const bool floats = r->dtype == SHEAF_FLOAT32 || r->dtype == SHEAF_FLOAT64 ||
                        r->dtype == SHEAF_BFLOAT16 || r->dtype == SHEAF_FLOAT16;
    if (o->synchronization == SHEAF_SYNCHRONIZATION_NONE)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "variable '%s': synchronization NONE is not possible under a strategy with "
            "replicas; use AUTO, ON_WRITE or ON_READ",
            r->name);
    if ((unsigned)o->synchronization > SHEAF_SYNCHRONIZATION_ON_READ ||
        (unsigned)o->aggregation > SHEAF_AGGREGATION_ONLY_FIRST_REPLICA)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "variable '%s': synchronization %d, aggregation %d, expected 0..3 each",
                            r->name, (int)o->synchronization, (int)o->aggregation);
    if (o->aggregation == SHEAF_AGGREGATION_MEAN && !floats)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "variable '%s': aggregation MEAN of dtype %s, expected a float",
                            r->name, sheaf_dtype_name(r->dtype));
    return SHEAF_OK;
}

/* Worker 0's. Workers tell each other which variable they make, so that another one is named. */
static sheaf_tensor *first_value(sheaf_strategy *s, const sheaf_variable_request *request)
{
    enum { COMPARED = 64 }; /* bytes of a call's name */
    char *what = sheaf__printf("variable '%s' %s %s", request->name,
                               sheaf_dtype_name(request->dtype), SHEAF__SHAPE_TEXT(request->shape));
    if (!what)
        return sheaf__tensor_fail(SHEAF_ERR_RESOURCE_EXHAUSTED, "not enough memory for a variable");
    sheaf__str_shorten(what, COMPARED);
    sheaf_tensor *value = sheaf__sync_first(s, sheaf__variable_initial(request, 0, -1), what);
    sheaf__free(what);
    return value;
}

/* Copy `i`, its value that of copy 0, whose own comes from worker 0 (R5.4, R4.57). */
static void make_copy(struct sheaf__copies *c, int i, const sheaf_variable_request *request)
{
    sheaf_strategy *s = c->base.strategy;
    SHEAF_FRAME
    {
        sheaf_variable_request mine = *request;
        char *name = i == 0 ? sheaf__strdup(request->name)
                            : sheaf__printf("%s/replica_%d", request->name, i);
        mine.name = name;
        if (i > 0)
            mine.initial = read_copy(c, 0);
        else if (s->workers > 1)
            mine.initial = first_value(s, request);
        c->of[i] = sheaf__variable_plain(&mine, s->devices[i]);
        sheaf__free(name);
        if (c->of[i])
            sheaf__error_keep_first(&c->base.latched, &c->of[i]->latched);
        else
            sheaf__no_memory(&c->base.latched, "a variable");
    }
}

static sheaf_status enter(struct sheaf__copies *c, sheaf_strategy *s, sheaf_error *err)
{
    if (!s->made)
        s->made = sheaf__made_new();
    if (!s->made || !sheaf__made_add(s->made, &c->base))
        return sheaf__no_memory(err, "a variable");
    c->made = sheaf__ref(s->made);
    return SHEAF_OK;
}

sheaf_variable *sheaf__mirrored_create(sheaf_strategy *s, sheaf_variable_request *request)
{
    struct sheaf__copies *c = sheaf__calloc(1, sizeof(*c) + (size_t)s->local * sizeof(c->of[0]));
    if (!c)
        return NULL;
    const bool on_read = request->options.synchronization == SHEAF_SYNCHRONIZATION_ON_READ;
    sheaf__variable_init_head(&c->base, on_read ? &on_read_class : &mirrored_class, request);
    c->base.trackable = (sheaf_trackable){&copies_trackable, c};
    c->base.strategy = s;
    c->base.device = s->devices[0];
    c->base.trainable = !request->options.not_trainable && !on_read;
    if (enter(c, s, &c->base.latched) >= 0)
        check_request(request, &c->base.latched);
    for (int i = 0; i < s->local && c->base.latched.status >= 0; i++) {
        make_copy(c, i, request);
        c->count = i + (c->of[i] != NULL);
    }
    return &c->base;
}
