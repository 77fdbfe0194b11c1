/* SPDX-License-Identifier: Apache-2.0 */
/* Plain variables: one value in this process.
 *
 * The value is a tensor that nobody may change while somebody else has a count of its memory: a
 * read only takes a count, and a write that finds readers writes into other memory, which then
 * becomes the value. Two locks: `writing` is held by a writer from the old value to the new one,
 * `lock` guards the pointers and, while memory is changed in place, keeps readers out. */
#include "ops/variable.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tensor/frame.h"
#include "tensor/kernel.h"
#include "tensor/strings.h"

#include <sheaf/ops.h>

#include <string.h>

struct slot {
    sheaf_trackable trackable;
    struct plain *owner;
    char *name;
    sheaf_tensor *value;
};

struct plain {
    struct sheaf_variable base;
    struct sheaf__mutex writing;
    struct sheaf__mutex lock;
    struct sheaf__device *place;
    sheaf_tensor *value;
    sheaf_tensor *next; /* of the update that is under way; NULL: in place */
    struct slot **slots;
    size_t slot_count, slot_capacity;
};

/* ---- values ---- */

/* A copy in memory of our own. */
static sheaf_tensor *copy_value(const struct plain *p, sheaf_tensor *from, sheaf_error *err)
{
    sheaf_tensor *t = sheaf__tensor_new(p->base.dtype, p->base.shape, p->place, err);
    if (!t || sheaf_tensor_elements(t) == 0)
        return t;
    sheaf_status status = sheaf__tensor_copy_out(from, sheaf__tensor_out(t), err);
    if (status >= 0 && t->dtype == SHEAF_STRING)
        status = sheaf__string_keep_like(t, from, err);
    if (status >= 0)
        return t;
    sheaf__unref(t);
    return NULL;
}

/* Whether nobody else could read the memory: of a variable's value under its lock. */
static bool only_ours(const sheaf_tensor *t)
{
    return sheaf__object_unique(t) && (!t->buffer || sheaf__buffer_unique(t->buffer));
}

/* Whether a given value's memory may become the variable's: it is what the variable would take, and
 * whoever gives it is alone with it, as a restore with what it has read. Who reads on is a reader
 * like any other. */
static bool may_take(const struct plain *p, const sheaf_tensor *from)
{
    return from->contiguous && from->device == p->place && only_ours(from) && from->buffer &&
           sheaf__buffer_pooled(from->buffer) && from->buffer->size == sheaf__tensor_size(from);
}

/* A value of our own: the given one's memory, or a copy. */
static sheaf_tensor *own_value(const struct plain *p, sheaf_tensor *from, sheaf_error *err)
{
    if (!may_take(p, from))
        return copy_value(p, from, err);
    sheaf_tensor *t = sheaf__tensor_alias(from, err);
    if (t)
        t->plain = false;
    return t;
}

/* The value under a header of the reader's own. */
static sheaf_tensor *snapshot(struct plain *p, sheaf_tensor *const *value)
{
    sheaf_error err = {0};
    sheaf__mutex_lock(&p->lock);
    sheaf_tensor *t = sheaf__tensor_alias(*value, &err);
    sheaf__mutex_unlock(&p->lock);
    return sheaf__tensor_give(t, &err);
}

static sheaf_tensor *plain_read(sheaf_variable *v)
{
    struct plain *p = (struct plain *)v;
    return snapshot(p, &p->value);
}

/* Rows only: the table is not left with a reader, who would make the next update copy all of it. */
static sheaf_tensor *plain_lookup(sheaf_variable *v, sheaf_tensor *ids)
{
    struct plain *p = (struct plain *)v;
    sheaf__mutex_lock(&p->lock);
    sheaf_tensor *table = sheaf__ref(p->value);
    sheaf__mutex_unlock(&p->lock);
    sheaf_tensor *rows = sheaf_gather(table, ids);
    sheaf__unref(table);
    return rows;
}

/* Puts `t` (a count of ours) in the place of *value. */
static void exchange(struct plain *p, sheaf_tensor **value, sheaf_tensor *t)
{
    sheaf__mutex_lock(&p->lock);
    sheaf_tensor *old = *value;
    *value = t;
    sheaf__mutex_unlock(&p->lock);
    sheaf__unref(old);
}

static sheaf_status set_value(struct plain *p, sheaf_tensor **value, sheaf_tensor *from,
                              sheaf_error *err)
{
    sheaf_tensor *t = own_value(p, from, err);
    if (!t)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf__mutex_lock(&p->writing);
    exchange(p, value, t);
    sheaf__mutex_unlock(&p->writing);
    return SHEAF_OK;
}

static sheaf_status plain_assign(sheaf_variable *v, enum sheaf__assign_op op, sheaf_tensor *value,
                                 sheaf_error *err)
{
    struct plain *p = (struct plain *)v;
    if (op == SHEAF__ASSIGN)
        return set_value(p, &p->value, value, err);
    const struct sheaf__kernels *k = sheaf__kernels();
    sheaf__kernel_binary kernel = op == SHEAF__ASSIGN_ADD ? k->add[v->dtype] : k->sub[v->dtype];
    const void *delta = sheaf__tensor_host(value, err);
    const void *from = NULL;
    if (!kernel)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "variable '%s': no sums of dtype %s",
                            v->name, sheaf_dtype_name(v->dtype));
    void *to = delta ? sheaf__variable_update_begin(v, &from) : NULL;
    if (!to)
        return sheaf__no_memory(err, "a variable's value");
    kernel(to, from, delta, (size_t)sheaf_tensor_elements(value));
    sheaf__variable_update_commit(v);
    return SHEAF_OK;
}

/* An empty value has no memory: some address stands for it. */
static void *address_of(const sheaf_tensor *t)
{
    static char nothing;
    return t->data ? t->data : &nothing;
}

void *sheaf__variable_update_begin(sheaf_variable *v, const void **from)
{
    struct plain *p = (struct plain *)v;
    sheaf__mutex_lock(&p->writing);
    sheaf__mutex_lock(&p->lock);
    *from = address_of(p->value);
    p->next = NULL;
    if (only_ours(p->value))
        return address_of(p->value);
    sheaf__mutex_unlock(&p->lock);
    p->next = sheaf__tensor_new(v->dtype, v->shape, p->place, NULL);
    if (!p->next)
        sheaf__mutex_unlock(&p->writing);
    return p->next ? address_of(p->next) : NULL;
}

void sheaf__variable_update_abort(sheaf_variable *v)
{
    struct plain *p = (struct plain *)v;
    if (p->next)
        sheaf__unref(p->next);
    else
        sheaf__mutex_unlock(&p->lock);
    sheaf__mutex_unlock(&p->writing);
}

void sheaf__variable_update_commit(sheaf_variable *v)
{
    struct plain *p = (struct plain *)v;
    if (p->next)
        exchange(p, &p->value, p->next);
    else
        sheaf__mutex_unlock(&p->lock);
    sheaf__mutex_unlock(&p->writing);
}

/* ---- checkpoints ---- */

static void describe(const struct plain *p, const char *name, struct sheaf__saveable *out)
{
    *out = (struct sheaf__saveable){.attribute = "VARIABLE_VALUE",
                                    .full_name = name,
                                    .dtype = p->base.dtype,
                                    .shape = p->base.shape,
                                    .full = p->base.shape,
                                    .device = p->base.device};
}

static bool plain_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    const struct plain *p = t->object;
    if (i > 0)
        return false;
    describe(p, p->base.name, out);
    return true;
}

static sheaf_tensor *plain_save(sheaf_trackable *t, size_t i)
{
    struct plain *p = t->object;
    (void)i;
    return p->base.latched.status < 0 ? sheaf__tensor_give(NULL, &p->base.latched)
                                      : snapshot(p, &p->value);
}

static sheaf_status check_restored(const struct plain *p, const char *name,
                                   const sheaf_tensor *value, sheaf_error *err)
{
    SHEAF__TRY(sheaf_tensor_status(value, err));
    if (value->dtype == p->base.dtype && sheaf_shape_equal(value->shape, p->base.shape))
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "'%s' is %s of shape %s, the restored value %s of shape %s", name,
                        sheaf_dtype_name(p->base.dtype), SHEAF__SHAPE_TEXT(p->base.shape),
                        sheaf_dtype_name(value->dtype), SHEAF__SHAPE_TEXT(value->shape));
}

static sheaf_status plain_restore(sheaf_trackable *t, size_t i, sheaf_tensor *value,
                                  sheaf_error *err)
{
    struct plain *p = t->object;
    (void)i;
    SHEAF__TRY(sheaf_variable_status(&p->base, err));
    SHEAF__TRY(check_restored(p, p->base.name, value, err));
    return set_value(p, &p->value, value, err);
}

static const struct sheaf__trackable_class plain_trackable = {.saveable = plain_saveable,
                                                              .read = plain_save,
                                                              .write = plain_restore,
                                                              .check = sheaf__variable_check};

static bool slot_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    const struct slot *s = t->object;
    if (i > 0)
        return false;
    describe(s->owner, s->name, out);
    return true;
}

static sheaf_tensor *slot_save(sheaf_trackable *t, size_t i)
{
    struct slot *s = t->object;
    (void)i;
    return snapshot(s->owner, &s->value);
}

static sheaf_status slot_restore(sheaf_trackable *t, size_t i, sheaf_tensor *value,
                                 sheaf_error *err)
{
    struct slot *s = t->object;
    (void)i;
    SHEAF__TRY(check_restored(s->owner, s->name, value, err));
    return set_value(s->owner, &s->value, value, err);
}

static const struct sheaf__trackable_class slot_trackable = {
    .saveable = slot_saveable, .read = slot_save, .write = slot_restore};

/* ---- slots ---- */

static void free_slot(struct slot *s)
{
    if (!s)
        return;
    sheaf__unref(s->value);
    sheaf__free(s->name);
    sheaf__free(s);
}

static struct slot *new_slot(struct plain *p, const char *name, double fill)
{
    struct slot *s = sheaf__calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->trackable = (sheaf_trackable){&slot_trackable, s};
    s->owner = p;
    s->name = sheaf__strdup(name);
    s->value = sheaf__tensor_new(p->base.dtype, p->base.shape, p->place, NULL);
    if (s->name && s->value) {
        sheaf__kernel_fill(address_of(s->value), p->base.dtype, fill,
                           (size_t)sheaf_tensor_elements(s->value));
        return s;
    }
    free_slot(s);
    return NULL;
}

/* Under the lock. */
static struct slot *find_slot(struct plain *p, const char *name, double fill)
{
    for (size_t k = 0; k < p->slot_count; k++)
        if (strcmp(p->slots[k]->name, name) == 0)
            return p->slots[k];
    struct slot *s = new_slot(p, name, fill);
    if (!s || !sheaf__array_reserve((void **)&p->slots, &p->slot_capacity, p->slot_count + 1,
                                    sizeof(*p->slots))) {
        free_slot(s);
        return NULL;
    }
    p->slots[p->slot_count++] = s;
    return s;
}

/* Slots are changed where they are; what a checkpoint still reads is left to it. */
void *sheaf__variable_slot(sheaf_variable *v, const char *slot, double fill)
{
    struct plain *p = (struct plain *)v;
    void *data = NULL;
    sheaf__mutex_lock(&p->lock);
    struct slot *s = find_slot(p, slot, fill);
    if (s && !only_ours(s->value)) {
        sheaf_tensor *own = copy_value(p, s->value, NULL);
        if (own) {
            sheaf__unref(s->value);
            s->value = own;
        } else {
            s = NULL;
        }
    }
    if (s)
        data = address_of(s->value);
    sheaf__mutex_unlock(&p->lock);
    return data;
}

size_t sheaf__variable_slots(const sheaf_variable *v)
{
    return ((const struct plain *)v)->slot_count;
}

const char *sheaf__variable_slot_name(const sheaf_variable *v, size_t k)
{
    return ((const struct plain *)v)->slots[k]->name;
}

sheaf_trackable *sheaf__variable_slot_trackable(sheaf_variable *v, size_t k)
{
    return &((struct plain *)v)->slots[k]->trackable;
}

sheaf_trackable *sheaf__variable_slot_track(sheaf_variable *v, const char *slot, double fill)
{
    if (v->latched.status < 0)
        return NULL;
    if (v->cls->slot)
        return v->cls->slot(v, slot, fill);
    struct plain *p = (struct plain *)v;
    sheaf__mutex_lock(&p->lock);
    struct slot *s = find_slot(p, slot, fill);
    sheaf__mutex_unlock(&p->lock);
    return s ? &s->trackable : NULL;
}

/* ---- life ---- */

static void plain_destroy(sheaf_variable *v)
{
    struct plain *p = (struct plain *)v;
    for (size_t k = 0; k < p->slot_count; k++)
        free_slot(p->slots[k]);
    sheaf__free(p->slots);
    sheaf__unref(p->value);
    sheaf__free(v->name);
    sheaf__free(p);
}

static const struct sheaf__variable_class plain_class = {
    .read = plain_read, .lookup = plain_lookup, .assign = plain_assign, .destroy = plain_destroy};

static void set_up(struct plain *p, const sheaf_variable_request *request, const char *device)
{
    sheaf_error *err = &p->base.latched;
    p->place = device ? sheaf__device_find(device, err) : sheaf__device_current(err);
    if (!p->place)
        return;
    p->base.device = sheaf__device_full_name(p->place);
    SHEAF_FRAME
    {
        sheaf_tensor *value = sheaf__variable_initial(request, 0, -1);
        if (sheaf_tensor_status(value, err) >= 0)
            p->value = copy_value(p, value, err);
    }
}

sheaf_variable *sheaf__variable_plain(const sheaf_variable_request *request, const char *device)
{
    struct plain *p = sheaf__calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    sheaf__variable_init_head(&p->base, &plain_class, request);
    p->base.trackable = (sheaf_trackable){&plain_trackable, p};
    if (p->base.latched.status >= 0)
        set_up(p, request, device);
    return &p->base;
}
