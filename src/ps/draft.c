/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/draft.h"

#include <string.h>

bool sheaf__ps_draft_suits(const struct sheaf__ps_variable *v, const struct sheaf__ps_update *u,
                           const struct sheaf__hyper *h)
{
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    if (u->bytes != v->bytes)
        return false;
    if (u->kind == SHEAF__PS_GRADIENT)
        return sheaf__rule_takes(v->dtype) && sheaf__rule_slots(h, slots) == 0;
    return u->kind == SHEAF__PS_ASSIGN || sheaf__ps_assign_kernel(v, u->kind);
}

sheaf_status sheaf__ps_draft_begin(struct sheaf__ps_draft *d, const struct sheaf__ps_update *u,
                                   const struct sheaf__hyper *h, sheaf_error *err)
{
    d->to = sheaf__buffer_new(NULL, d->variable->bytes, err);
    if (!d->to)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    /* With its count nobody writes to the value. */
    d->from = sheaf__ps_snapshot(d->variable, 0, NULL);
    d->kind = u->kind;
    d->hyper = *h;
    return SHEAF_OK;
}

void sheaf__ps_draft_take(struct sheaf__ps_draft *d, const void *data, size_t size)
{
    const struct sheaf__ps_variable *v = d->variable;
    const size_t count = size / sheaf_dtype_size(v->dtype);
    const struct sheaf__update update = {.dtype = v->dtype,
                                         .from = (const char *)d->from->data + d->done,
                                         .to = (char *)d->to->data + d->done};
    if (d->kind == SHEAF__PS_GRADIENT)
        sheaf__rule_apply(&d->hyper, &update, data, 0, count);
    else if (d->kind == SHEAF__PS_ASSIGN)
        memcpy(update.to, data, size);
    else
        sheaf__ps_assign_kernel(v, d->kind)(update.to, update.from, data, count);
    d->done += size;
}

bool sheaf__ps_draft_holds(const struct sheaf__ps_draft *d)
{
    struct sheaf__ps_variable *v = d->variable;
    sheaf__mutex_lock(&v->lock);
    const bool holds = v->value == d->from;
    sheaf__mutex_unlock(&v->lock);
    return holds;
}

void sheaf__ps_draft_publish(struct sheaf__ps_draft *d)
{
    struct sheaf__ps_variable *v = d->variable;
    sheaf__mutex_lock(&v->lock);
    sheaf__unref(v->value);
    v->value = sheaf__ref(d->to);
    v->version++;
    sheaf__mutex_unlock(&v->lock);
}

void sheaf__ps_draft_clear(struct sheaf__ps_draft *d)
{
    sheaf__unref(d->from);
    sheaf__unref(d->to);
    *d = (struct sheaf__ps_draft){0};
}
