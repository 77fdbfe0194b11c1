/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/variable.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/mode.h"
#include "ps/placement.h"
#include "tensor/frame.h"

#include <sheaf/ops.h>

#include <string.h>

/* Head of the struct that is really allocated: the hook is the same for all of a client's
 * variables. */
struct ref {
    struct sheaf__ps_variable_ref v;
    sheaf__ps_aggregate_fn aggregate;
};

struct sheaf__ps_slot_ref {
    sheaf_trackable trackable;
    struct sheaf__ps_variable_ref *owner;
    char *name;
    int slot;
};

static struct sheaf__ps_variable_ref *ref_of(sheaf_variable *v)
{
    return (struct sheaf__ps_variable_ref *)v;
}

/* Reading and writing. */

static sheaf_tensor *ps_read(sheaf_variable *v)
{
    return sheaf__ps_read(ref_of(v)->client, ref_of(v));
}

static sheaf_tensor *ps_lookup(sheaf_variable *v, sheaf_tensor *ids)
{
    struct sheaf__ps_variable_ref *r = ref_of(v);
    sheaf_error err = {0};
    sheaf_tensor *wide = sheaf_cast(ids, SHEAF_INT64);
    if (!sheaf__tensor_ok(wide))
        return wide;
    sheaf_shape shape = ids->shape;
    for (int k = 1; k < v->shape.rank && shape.rank < SHEAF_MAX_RANK; k++)
        shape.dims[shape.rank++] = v->shape.dims[k];
    sheaf_tensor *rows = sheaf__tensor_new(v->dtype, shape, NULL, &err);
    const void *data = rows ? sheaf__tensor_host(wide, &err) : NULL;
    sheaf_status status = data ? SHEAF_OK : SHEAF_ERR_RESOURCE_EXHAUSTED;
    if (status >= 0) {
        const struct sheaf__part into = {sheaf__tensor_out(rows), sheaf__tensor_size(rows)};
        sheaf__mutex_lock(&r->client->lock);
        struct sheaf__ps_remote *server = sheaf__ps_prepare(r->client, r->server);
        sheaf__buf_fixed32(&server->meta, r->number);
        status = sheaf__ps_add_part(server, data, sheaf__tensor_size(wide))
                     ? sheaf__ps_call(r->client, r->server, SHEAF__PS_LOOKUP, &into, 1, &err)
                     : sheaf__no_memory(&err, "a look-up");
        sheaf__mutex_unlock(&r->client->lock);
    }
    if (status < 0) {
        sheaf_tensor_free(rows);
        rows = NULL;
    }
    return sheaf__tensor_give(rows, &err);
}

static sheaf_status ps_assign(sheaf_variable *v, enum sheaf__assign_op op, sheaf_tensor *value,
                              sheaf_error *err)
{
    static const enum sheaf__ps_update_kind kinds[] = {[SHEAF__ASSIGN] = SHEAF__PS_ASSIGN,
                                                       [SHEAF__ASSIGN_ADD] = SHEAF__PS_ADD,
                                                       [SHEAF__ASSIGN_SUB] = SHEAF__PS_SUB};
    struct ref *r = (struct ref *)v;
    sheaf_status status = SHEAF_OK;
    if (sheaf__mode_current()->kind == SHEAF__MODE_REPLICA && r->aggregate)
        value = r->aggregate(v, value, &status, err);
    if (status < 0 || !value)
        return status;
    return sheaf__ps_assign(r->v.client, v, kinds[op], value, err);
}

static void ps_destroy(sheaf_variable *v)
{
    struct sheaf__ps_variable_ref *r = ref_of(v);
    sheaf__mutex_lock(&r->client->lock);
    r->client->variables[r->number] = NULL;
    sheaf__mutex_unlock(&r->client->lock);
    for (int i = 0; i < SHEAF__RULE_SLOTS && r->slots[i]; i++) {
        sheaf__free(r->slots[i]->name);
        sheaf__free(r->slots[i]);
    }
    sheaf__unref(r->value);
    sheaf__free(v->name);
    sheaf__free(v);
}

/* Checkpoints. */

static void fill_saveable(struct sheaf__ps_variable_ref *r, int slot, struct sheaf__saveable *out)
{
    *out = (struct sheaf__saveable){.attribute = "VARIABLE_VALUE",
                                    .full_name = r->base.name,
                                    .dtype = r->base.dtype,
                                    .shape = r->base.shape,
                                    .full = r->base.shape,
                                    .device = r->client->servers[r->server].full_device,
                                    .group = &r->client->group,
                                    .handle = SHEAF__PS_HANDLE(r->number, slot)};
}

static bool value_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    if (i > 0)
        return false;
    fill_saveable(t->object, 0, out);
    return true;
}

static bool slot_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    struct sheaf__ps_slot_ref *s = t->object;
    if (i > 0)
        return false;
    fill_saveable(s->owner, s->slot, out);
    out->full_name = s->name;
    return true;
}

/* Tensors of another task are read and written by that task: the group's calls. */
static const struct sheaf__trackable_class value_trackable = {.saveable = value_saveable};
static const struct sheaf__trackable_class slot_trackable = {.saveable = slot_saveable};

/* The slot on the server, made there at first use. */
static sheaf_status make_slot(struct sheaf__ps_variable_ref *r, int slot, const char *name,
                              double fill, sheaf_error *err)
{
    uint64_t bits;
    memcpy(&bits, &fill, sizeof(bits));
    sheaf__mutex_lock(&r->client->lock);
    struct sheaf__ps_remote *server = sheaf__ps_prepare(r->client, r->server);
    sheaf__buf_varint(&server->meta, r->number);
    sheaf__buf_varint(&server->meta, (uint64_t)slot);
    sheaf__buf_fixed64(&server->meta, bits);
    sheaf__buf_sized(&server->meta, name, strlen(name));
    sheaf_status status = sheaf__ps_call(r->client, r->server, SHEAF__PS_SLOT, NULL, 0, err);
    sheaf__mutex_unlock(&r->client->lock);
    return status;
}

static sheaf_trackable *ps_slot(sheaf_variable *v, const char *name, double fill)
{
    struct sheaf__ps_variable_ref *r = ref_of(v);
    int i = 0;
    while (i < SHEAF__RULE_SLOTS && r->slots[i] && strcmp(r->slots[i]->name, name) != 0)
        i++;
    if (i == SHEAF__RULE_SLOTS)
        return NULL;
    if (r->slots[i])
        return &r->slots[i]->trackable;
    struct sheaf__ps_slot_ref *s = sheaf__calloc(1, sizeof(*s));
    char *copy = sheaf__strdup(name);
    if (!s || !copy || make_slot(r, i + 1, name, fill, &r->base.latched) < 0) {
        sheaf__free(copy);
        sheaf__free(s);
        return NULL;
    }
    *s = (struct sheaf__ps_slot_ref){{&slot_trackable, s}, r, copy, i + 1};
    r->slots[i] = s;
    return &s->trackable;
}

static const struct sheaf__variable_class ps_class = {
    .read = ps_read,
    .lookup = ps_lookup,
    .assign = ps_assign,
    .slot = ps_slot,
    .destroy = ps_destroy,
};

/* Making one. */

static sheaf_status register_variable(struct sheaf__ps_client *client,
                                      struct sheaf__ps_variable_ref *r, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&client->lock);
    if (sheaf__array_reserve((void **)&client->variables, &client->capacity, client->count + 1,
                             sizeof(*client->variables))) {
        r->number = (uint32_t)client->count;
        r->server = sheaf__ps_round_robin(r->number, client->server_count);
        client->variables[client->count++] = r;
    } else {
        status = sheaf__no_memory(err, "a variable");
    }
    sheaf__mutex_unlock(&client->lock);
    return status;
}

/* Tells the server, with the first value if this is the task that makes it; else waits until there
 * is one. */
static sheaf_status create_there(struct sheaf__ps_variable_ref *r,
                                 const sheaf_variable_request *request, sheaf_error *err)
{
    struct sheaf__ps_client *client = r->client;
    const struct sheaf__ps_definition d = {.variable = r->number,
                                           .dtype = r->base.dtype,
                                           .full = r->base.shape,
                                           .shape = r->base.shape,
                                           .initialises = client->initialises,
                                           .name = r->base.name,
                                           .name_size = strlen(r->base.name)};
    sheaf_tensor *initial = client->initialises ? sheaf__variable_initial(request, 0, -1) : NULL;
    const void *data = initial ? sheaf__tensor_host(initial, err) : NULL;
    if (initial && !data)
        return sheaf_tensor_status(initial, err) < 0 ? initial->error->status
                                                     : SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf__mutex_lock(&client->lock);
    struct sheaf__ps_remote *server = sheaf__ps_prepare(client, r->server);
    sheaf__ps_put_definition(&server->meta, &d);
    sheaf_status status = SHEAF_OK;
    if (initial && !sheaf__ps_add_part(server, data, sheaf__tensor_size(initial)))
        status = sheaf__no_memory(err, "a variable");
    if (status >= 0)
        status = sheaf__ps_call(client, r->server, SHEAF__PS_CREATE, NULL, 0, err);
    sheaf__mutex_unlock(&client->lock);
    if (status == SHEAF_ERR_DEADLINE && !initial)
        sheaf__error_prefix(err, "the chief (or worker 0) has not made variable '%s'", d.name);
    return status;
}

static sheaf_status check_request(const sheaf_variable_request *request, sheaf_error *err)
{
    if (request->dtype == SHEAF_STRING || sheaf_dtype_size(request->dtype) == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "variable '%s' of dtype %s on a parameter server, expected numbers",
                            request->name, sheaf_dtype_name(request->dtype));
    return SHEAF_OK;
}

sheaf_variable *sheaf__ps_variable_new(struct sheaf__ps_client *client,
                                       const sheaf_variable_request *request,
                                       sheaf__ps_aggregate_fn aggregate)
{
    struct ref *ref = sheaf__calloc(1, sizeof(*ref));
    if (!ref)
        return NULL;
    struct sheaf__ps_variable_ref *r = &ref->v;
    sheaf_error *latched = &r->base.latched;
    sheaf__variable_init_head(&r->base, &ps_class, request);
    ref->aggregate = aggregate;
    r->client = client;
    r->base.trackable = (sheaf_trackable){&value_trackable, r};
    r->base.trainable = !request->options.not_trainable;
    if (register_variable(client, r, latched) < 0) {
        sheaf__free(r->base.name);
        sheaf__free(ref);
        return NULL;
    }
    r->base.device = client->servers[r->server].device;
    SHEAF_FRAME
    {
        if (check_request(request, latched) >= 0)
            create_there(r, request, latched);
    }
    return &r->base;
}
