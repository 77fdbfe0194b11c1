/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/table.h"

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "optim/rule_class.h"
#include "tensor/device.h"
#include "tensor/kernel.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

static void variable_free(struct sheaf__ps_variable *v)
{
    if (!v)
        return;
    for (int i = 0; i < SHEAF__RULE_SLOTS; i++) {
        sheaf__free(v->slots[i].name);
        sheaf__unref(v->slots[i].buffer);
    }
    for (int i = 0; i <= SHEAF__RULE_SLOTS; i++)
        sheaf__unref(v->restored[i]);
    sheaf__unref(v->value);
    sheaf__free(v->name);
    sheaf__free(v);
}

void sheaf__ps_table_free(struct sheaf__ps_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        variable_free(t->variables[i]);
    sheaf__free(t->variables);
    memset(t, 0, sizeof(*t));
}

/* Defining. */

static sheaf_status compare(const struct sheaf__ps_variable *v,
                            const struct sheaf__ps_definition *d, sheaf_error *err)
{
    const bool same = strlen(v->name) == d->name_size &&
                      memcmp(v->name, d->name, d->name_size) == 0 && v->dtype == d->dtype &&
                      sheaf_shape_equal(v->full, d->full);
    if (same && sheaf_shape_equal(v->shape, d->shape) && v->first_row == d->first_row)
        return SHEAF_OK;
    const sheaf_shape here = same ? v->shape : v->full, there = same ? d->shape : d->full;
    return sheaf__error(
        err, SHEAF_ERR_INCOMPATIBLE,
        "variable %u is %s'%s' %s %s here, '%.*s' %s %s in the worker that attaches; every process "
        "must make the same variables in the same order",
        v->number, same ? "another part of " : "", v->name, sheaf_dtype_name(v->dtype),
        SHEAF__SHAPE_TEXT(here), (int)d->name_size, d->name, sheaf_dtype_name(d->dtype),
        SHEAF__SHAPE_TEXT(there));
}

static struct sheaf__ps_variable *make_variable(const struct sheaf__ps_definition *d)
{
    struct sheaf__ps_variable *v = sheaf__calloc(1, sizeof(*v));
    if (!v)
        return NULL;
    v->number = d->variable;
    v->name = sheaf__strndup(d->name, d->name_size);
    v->dtype = d->dtype;
    v->full = d->full;
    v->shape = d->shape;
    v->first_row = d->first_row;
    v->bytes = (size_t)sheaf_shape_elements(d->shape) * sheaf_dtype_size(d->dtype);
    if (v->name)
        return v;
    sheaf__free(v);
    return NULL;
}

static sheaf_status define(struct sheaf__ps_table *t, const struct sheaf__ps_definition *d,
                           struct sheaf__ps_variable **v, sheaf_error *err)
{
    const size_t n = (size_t)d->variable + 1;
    int64_t elements;
    size_t bytes;
    SHEAF__TRY(sheaf__shape_bytes(d->dtype, d->shape, &elements, &bytes, err));
    if (n > t->count) {
        if (!sheaf__array_reserve((void **)&t->variables, &t->capacity, n, sizeof(*t->variables)))
            return sheaf__no_memory(err, "a variable");
        memset(t->variables + t->count, 0, (n - t->count) * sizeof(*t->variables));
        t->count = n;
    }
    if (t->variables[d->variable])
        SHEAF__TRY(compare(t->variables[d->variable], d, err));
    else
        t->variables[d->variable] = make_variable(d);
    *v = t->variables[d->variable];
    return *v ? SHEAF_OK : sheaf__no_memory(err, "a variable");
}

sheaf_status sheaf__ps_define(struct sheaf__ps_table *t, const struct sheaf__ps_definition *d,
                              struct sheaf__ps_variable **v, sheaf_error *err)
{
    sheaf__mutex_lock(&t->lock);
    sheaf_status status = define(t, d, v, err);
    sheaf__mutex_unlock(&t->lock);
    return status;
}

static bool is_ready(struct sheaf__ps_variable *v)
{
    sheaf__mutex_lock(&v->lock);
    const bool ready = v->value != NULL;
    sheaf__mutex_unlock(&v->lock);
    return ready;
}

static struct sheaf__ps_variable *lookup(struct sheaf__ps_table *t, uint32_t number)
{
    sheaf__mutex_lock(&t->lock);
    struct sheaf__ps_variable *found = number < t->count ? t->variables[number] : NULL;
    sheaf__mutex_unlock(&t->lock);
    return found;
}

sheaf_status sheaf__ps_attach(struct sheaf__ps_table *t, const struct sheaf__ps_definition *d,
                              sheaf_error *err)
{
    struct sheaf__ps_variable *v = lookup(t, d->variable);
    return v && is_ready(v) ? compare(v, d, err) : SHEAF_PENDING;
}

sheaf_status sheaf__ps_find(struct sheaf__ps_table *t, uint32_t number,
                            struct sheaf__ps_variable **v, sheaf_error *err)
{
    struct sheaf__ps_variable *found = lookup(t, number);
    if (!found)
        return sheaf__error(err, SHEAF_ERR_NOT_FOUND, "variable %u is not on this parameter server",
                            number);
    if (!is_ready(found))
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "variable '%s' has no value yet: the chief (or worker 0) has not made it", found->name);
    *v = found;
    return SHEAF_OK;
}

bool sheaf__ps_initialise(struct sheaf__ps_variable *v, struct sheaf__buffer *value)
{
    sheaf__mutex_lock(&v->lock);
    const bool takes = v->value == NULL;
    if (takes)
        v->value = sheaf__ref(value);
    sheaf__mutex_unlock(&v->lock);
    return takes;
}

/* Slots. */

static sheaf_status make_slot(struct sheaf__ps_variable *v, struct sheaf__ps_slot *slot,
                              const char *name, double fill, sheaf_error *err)
{
    if (slot->name && (strcmp(slot->name, name) != 0 || slot->fill != fill))
        return sheaf__error(
            err, SHEAF_ERR_INCOMPATIBLE,
            "variable '%s' has slot '%s' (start %g) here, '%s' (start %g) in the worker that "
            "attaches; every process must use the same optimizer",
            v->name, slot->name, slot->fill, name, fill);
    if (slot->name)
        return SHEAF_OK;
    slot->buffer = sheaf__buffer_new(NULL, v->bytes, err);
    if (!slot->buffer)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    slot->name = sheaf__strdup(name);
    if (!slot->name)
        return sheaf__no_memory(err, "a slot");
    slot->fill = fill;
    sheaf__kernel_fill(slot->buffer->data, v->dtype, fill, v->bytes / sheaf_dtype_size(v->dtype));
    return SHEAF_OK;
}

sheaf_status sheaf__ps_make_slot(struct sheaf__ps_variable *v, uint32_t slot, const char *name,
                                 double fill, sheaf_error *err)
{
    if (slot < 1 || slot > SHEAF__RULE_SLOTS)
        return sheaf__ps_malformed("the number of a slot", err);
    sheaf__mutex_lock(&v->lock);
    sheaf_status status = make_slot(v, &v->slots[slot - 1], name, fill, err);
    sheaf__mutex_unlock(&v->lock);
    return status;
}

/* Reading. */

struct sheaf__buffer *sheaf__ps_snapshot(struct sheaf__ps_variable *v, uint32_t slot,
                                         uint64_t *version)
{
    sheaf__mutex_lock(&v->lock);
    struct sheaf__buffer *buffer =
        sheaf__ref(slot == 0                   ? v->value
                   : slot <= SHEAF__RULE_SLOTS ? v->slots[slot - 1].buffer
                                               : NULL);
    if (version)
        *version = v->version;
    sheaf__mutex_unlock(&v->lock);
    return buffer;
}

sheaf_status sheaf__ps_rows(struct sheaf__ps_variable *v, const int64_t *ids, size_t count,
                            void *out, sheaf_error *err)
{
    const int64_t rows = v->shape.rank ? v->shape.dims[0] : 0;
    const size_t width = rows ? v->bytes / (size_t)rows : 0;
    struct sheaf__buffer *value = sheaf__ps_snapshot(v, 0, NULL);
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < count && status >= 0; i++) {
        if (ids[i] < 0 || ids[i] >= rows)
            status = sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                  "id %lld (number %zu) of a look-up in '%s', expected 0..%lld",
                                  (long long)ids[i], i, v->name, (long long)rows - 1);
        else
            memcpy((char *)out + i * width, (const char *)value->data + (size_t)ids[i] * width,
                   width);
    }
    sheaf__unref(value);
    return status;
}

/* Updating. All with the variable's lock held. */

/* The value's next buffer: the same one if nobody reads it. */
static struct sheaf__buffer *next_value(struct sheaf__ps_variable *v, sheaf_error *err)
{
    return sheaf__buffer_unique(v->value) ? sheaf__ref(v->value)
                                          : sheaf__buffer_new(NULL, v->bytes, err);
}

/* Slots change in place: one that is being saved is copied first. */
static sheaf_status own_slot(struct sheaf__ps_variable *v, struct sheaf__ps_slot *slot,
                             sheaf_error *err)
{
    if (sheaf__buffer_unique(slot->buffer))
        return SHEAF_OK;
    struct sheaf__buffer *mine = sheaf__buffer_new(NULL, v->bytes, err);
    if (!mine)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    memcpy(mine->data, slot->buffer->data, v->bytes);
    sheaf__unref(slot->buffer);
    slot->buffer = mine;
    return SHEAF_OK;
}

/* Elements and rows a thread takes at a time. */
enum { CHUNK = 65536, ROW_CHUNK = 8192 };

struct apply {
    const struct sheaf__hyper *hyper;
    struct sheaf__update update;
    const void *gradient;
    const struct sheaf__rule_rows *rows;
    size_t size;
};

static void apply_chunk(size_t i, void *user)
{
    const struct apply *a = user;
    const size_t chunk = a->rows ? ROW_CHUNK : CHUNK;
    const size_t begin = i * chunk, end = begin + chunk < a->size ? begin + chunk : a->size;
    if (a->rows)
        sheaf__rule_apply_rows(a->hyper, &a->update, a->rows, (int64_t)begin, (int64_t)end);
    else
        sheaf__rule_apply(a->hyper, &a->update, a->gradient, begin, end);
}

static void run_apply(struct apply *a)
{
    const size_t chunk = a->rows ? ROW_CHUNK : CHUNK;
    const size_t chunks = (a->size + chunk - 1) / chunk;
    struct sheaf__device *device = chunks > 4 ? sheaf__device_host(NULL) : NULL;
    if (device)
        sheaf__device_run(device, chunks, apply_chunk, a);
    else
        for (size_t i = 0; i < chunks; i++)
            apply_chunk(i, a);
}

static sheaf_status apply_rule(struct sheaf__ps_variable *v, struct apply *a, sheaf_error *err)
{
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    const size_t count = sheaf__rule_slots(a->hyper, slots);
    if (!sheaf__rule_takes(v->dtype))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a gradient for variable '%s' of dtype %s", v->name,
                            sheaf_dtype_name(v->dtype));
    a->update.dtype = v->dtype;
    for (size_t k = 0; k < count; k++) {
        SHEAF__TRY(make_slot(v, &v->slots[k], slots[k].name, slots[k].fill, err));
        SHEAF__TRY(own_slot(v, &v->slots[k], err));
        a->update.slots[k] = v->slots[k].buffer->data;
    }
    struct sheaf__buffer *next = next_value(v, err);
    if (!next)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    a->update.from = v->value->data;
    a->update.to = next->data;
    run_apply(a);
    sheaf__unref(v->value);
    v->value = next;
    return SHEAF_OK;
}

static sheaf_status apply_dense(struct sheaf__ps_variable *v, const struct sheaf__hyper *h,
                                const void *data, sheaf_error *err)
{
    struct apply a = {.hyper = h, .gradient = data, .size = v->bytes / sheaf_dtype_size(v->dtype)};
    return apply_rule(v, &a, err);
}

static sheaf_status apply_rows(struct sheaf__ps_variable *v, const struct sheaf__ps_update *u,
                               const struct sheaf__hyper *h, const void *data, sheaf_error *err)
{
    const int64_t rows = v->shape.rank ? v->shape.dims[0] : 0;
    const size_t width = rows ? v->bytes / (size_t)rows : 0;
    if (u->count > u->bytes / sizeof(int64_t) || u->bytes != u->count * (sizeof(int64_t) + width))
        return sheaf__ps_malformed("the size of rows", err);
    const struct sheaf__rule_rows all = {.ids = data,
                                         .values = (const char *)data + u->count * sizeof(int64_t),
                                         .count = u->count,
                                         .width = (int64_t)(width / sheaf_dtype_size(v->dtype)),
                                         .rows = rows};
    struct sheaf__rule_merged merged = {0};
    SHEAF__TRY(sheaf__rule_merge(h, v->dtype, &all, &merged, err));
    struct apply a = {.hyper = h, .rows = &merged.rows, .size = (size_t)rows};
    sheaf_status status = apply_rule(v, &a, err);
    sheaf__rule_merged_free(&merged);
    return status;
}

sheaf__kernel_binary sheaf__ps_assign_kernel(const struct sheaf__ps_variable *v, int kind)
{
    const struct sheaf__kernels *k = sheaf__kernels();
    return kind == SHEAF__PS_ADD   ? k->add[v->dtype]
           : kind == SHEAF__PS_SUB ? k->sub[v->dtype]
                                   : NULL;
}

static sheaf_status apply_assign(struct sheaf__ps_variable *v, const struct sheaf__ps_update *u,
                                 const void *data, sheaf_error *err)
{
    const size_t n = v->bytes / sheaf_dtype_size(v->dtype);
    const sheaf__kernel_binary fn = sheaf__ps_assign_kernel(v, u->kind);
    if (u->kind != SHEAF__PS_ASSIGN && !fn)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "assign_add to variable '%s' of dtype %s", v->name,
                            sheaf_dtype_name(v->dtype));
    struct sheaf__buffer *next = next_value(v, err);
    if (!next)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    if (u->kind == SHEAF__PS_ASSIGN)
        memcpy(next->data, data, v->bytes);
    else
        fn(next->data, v->value->data, data, n);
    sheaf__unref(v->value);
    v->value = next;
    return SHEAF_OK;
}

sheaf_status sheaf__ps_apply(struct sheaf__ps_variable *v, const struct sheaf__ps_update *u,
                             const struct sheaf__hyper *h, const void *data, sheaf_error *err)
{
    sheaf_status status;
    if (u->kind != SHEAF__PS_ROWS && u->bytes != v->bytes)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "an update of %llu bytes for variable '%s' of %zu",
                            (unsigned long long)u->bytes, v->name, v->bytes);
    sheaf__mutex_lock(&v->lock);
    if (u->kind == SHEAF__PS_GRADIENT)
        status = apply_dense(v, h, data, err);
    else if (u->kind == SHEAF__PS_ROWS)
        status = apply_rows(v, u, h, data, err);
    else
        status = apply_assign(v, u, data, err);
    v->version += status >= 0;
    sheaf__mutex_unlock(&v->lock);
    return status;
}

void sheaf__ps_note_rule(struct sheaf__ps_table *t, struct sheaf__ps_variable *v,
                         const struct sheaf__hyper *h, sheaf_task worker)
{
    const struct sheaf__ps_used now = {h->rule, h->family, h->flags, worker};
    sheaf__mutex_lock(&v->lock);
    const struct sheaf__ps_used was = v->used;
    v->used = now;
    sheaf__mutex_unlock(&v->lock);
    if (!was.by.job[0] ||
        (was.rule == now.rule && was.family == now.family && was.flags == now.flags) ||
        (was.by.index == worker.index && strcmp(was.by.job, worker.job) == 0) ||
        atomic_exchange(&t->told, true))
        return;
    sheaf__log(SHEAF_LOG_WARN,
               "variable '%s' is updated by rule %s for " SHEAF__TASK
               " and by rule %s for " SHEAF__TASK "; all workers should have the same optimizer",
               v->name, sheaf__rule_class(was.rule)->name, was.by.job, was.by.index,
               sheaf__rule_class(now.rule)->name, worker.job, worker.index);
}

bool sheaf__ps_expect(struct sheaf__ps_variable *v)
{
    sheaf__mutex_lock(&v->lock);
    const bool alone = v->expected++ == 0;
    sheaf__mutex_unlock(&v->lock);
    return alone;
}

void sheaf__ps_expected(struct sheaf__ps_variable *v)
{
    sheaf__mutex_lock(&v->lock);
    v->expected--;
    sheaf__mutex_unlock(&v->lock);
}

/* Restoring. */

void sheaf__ps_hold(struct sheaf__ps_variable *v, uint32_t slot, struct sheaf__buffer *value)
{
    sheaf__mutex_lock(&v->lock);
    sheaf__unref(v->restored[slot]);
    v->restored[slot] = sheaf__ref(value);
    sheaf__mutex_unlock(&v->lock);
}

static void settle(struct sheaf__ps_variable *v, bool take)
{
    for (int slot = 0; slot <= SHEAF__RULE_SLOTS; slot++) {
        struct sheaf__buffer **place = slot == 0 ? &v->value : &v->slots[slot - 1].buffer;
        if (take && v->restored[slot]) {
            sheaf__unref(*place);
            *place = sheaf__ref(v->restored[slot]);
            v->version += slot == 0;
        }
        sheaf__unref(v->restored[slot]);
        v->restored[slot] = NULL;
    }
}

void sheaf__ps_settle(struct sheaf__ps_table *t, bool take)
{
    sheaf__mutex_lock(&t->lock);
    for (size_t i = 0; i < t->count; i++) {
        if (!t->variables[i])
            continue;
        sheaf__mutex_lock(&t->variables[i]->lock);
        settle(t->variables[i], take);
        sheaf__mutex_unlock(&t->variables[i]->lock);
    }
    sheaf__mutex_unlock(&t->lock);
}
