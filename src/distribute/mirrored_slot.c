/* SPDX-License-Identifier: Apache-2.0 */

/* Optimizer slots of mirrored variables: each copy has its own beside it, a checkpoint sees one
 * tensor. */

#include "base/error.h"
#include "base/mem.h"
#include "distribute/mirrored.h"

#include <string.h>

struct sheaf__copies_slot {
    sheaf_trackable trackable;
    struct sheaf__copies_slot *next;
    struct sheaf__copies *owner;
    char *name;
    sheaf_trackable *of[]; /* the copies' */
};

static bool slot_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    const struct sheaf__copies_slot *s = t->object;
    const sheaf_variable *v = &s->owner->base;
    if (!s->of[0]->cls->saveable(s->of[0], i, out))
        return false;
    out->device = v->device;
    out->group = v->strategy->group;
    return true;
}

static sheaf_tensor *slot_read(sheaf_trackable *t, size_t i)
{
    const struct sheaf__copies_slot *s = t->object;
    return s->of[0]->cls->read(s->of[0], i);
}

static sheaf_status slot_write(sheaf_trackable *t, size_t i, sheaf_tensor *value, sheaf_error *err)
{
    const struct sheaf__copies_slot *s = t->object;
    for (int k = 0; k < s->owner->count; k++)
        SHEAF__TRY(s->of[k]->cls->write(s->of[k], i, value, err));
    return SHEAF_OK;
}

static const struct sheaf__trackable_class slot_class = {
    .saveable = slot_saveable, .read = slot_read, .write = slot_write};

static struct sheaf__copies_slot *make_slot(struct sheaf__copies *c, const char *name, double fill)
{
    struct sheaf__copies_slot *s =
        sheaf__calloc(1, sizeof(*s) + (size_t)c->count * sizeof(s->of[0]));
    if (!s)
        return NULL;
    s->trackable = (sheaf_trackable){&slot_class, s};
    s->owner = c;
    s->name = sheaf__strdup(name);
    bool made = s->name != NULL;
    for (int k = 0; k < c->count && made; k++) {
        s->of[k] = sheaf__variable_slot_track(c->of[k], name, fill);
        made = s->of[k] != NULL;
    }
    if (made)
        return s;
    sheaf__free(s->name);
    sheaf__free(s);
    return NULL;
}

sheaf_trackable *sheaf__copies_slot(sheaf_variable *v, const char *name, double fill)
{
    struct sheaf__copies *c = (struct sheaf__copies *)v;
    struct sheaf__copies_slot *s = c->slots;
    while (s && strcmp(s->name, name) != 0)
        s = s->next;
    if (!s) {
        s = make_slot(c, name, fill);
        if (!s)
            return NULL;
        s->next = c->slots;
        c->slots = s;
    }
    return &s->trackable;
}

void sheaf__copies_free_slots(struct sheaf__copies *c)
{
    while (c->slots) {
        struct sheaf__copies_slot *s = c->slots;
        c->slots = s->next;
        sheaf__free(s->name);
        sheaf__free(s);
    }
}
