/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/variable.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/mode.h"
#include "ps/partition.h"
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

static int ps_parts(const sheaf_variable *v)
{
    return (int)((const struct sheaf__ps_variable_ref *)v)->part_count;
}

static const char *ps_part_device(const sheaf_variable *v, int i)
{
    const struct sheaf__ps_variable_ref *r = (const struct sheaf__ps_variable_ref *)v;
    return i >= 0 && (size_t)i < r->part_count ? r->client->servers[r->parts[i].server].device
                                               : NULL;
}

static void ps_destroy(sheaf_variable *v)
{
    struct sheaf__ps_variable_ref *r = ref_of(v);
    sheaf__mutex_lock(&r->client->lock);
    r->client->variables[r->index] = NULL;
    sheaf__mutex_unlock(&r->client->lock);
    for (int i = 0; i < SHEAF__RULE_SLOTS && r->slots[i]; i++) {
        sheaf__free(r->slots[i]->name);
        sheaf__free(r->slots[i]);
    }
    sheaf__unref(r->value);
    sheaf__free(r->parts);
    sheaf__free(v->name);
    sheaf__free(v);
}

/* Checkpoints. */

/* Part `i` of the value or a slot: a slice of one tensor (R5.42). */
static bool fill_saveable(const struct sheaf__ps_variable_ref *r, size_t i, int slot,
                          struct sheaf__saveable *out)
{
    if (i >= r->part_count)
        return false;
    const struct sheaf__ps_part *p = &r->parts[i];
    *out = (struct sheaf__saveable){.attribute = "VARIABLE_VALUE",
                                    .full_name = r->base.name,
                                    .dtype = r->base.dtype,
                                    .shape = p->shape,
                                    .full = r->base.shape,
                                    .offset = {p->first},
                                    .device = r->client->servers[p->server].full_device,
                                    .group = &r->client->group,
                                    .handle = SHEAF__PS_HANDLE(p->number, slot)};
    return true;
}

static bool value_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    return fill_saveable(t->object, i, 0, out);
}

static bool slot_saveable(sheaf_trackable *t, size_t i, struct sheaf__saveable *out)
{
    const struct sheaf__ps_slot_ref *s = t->object;
    if (!fill_saveable(s->owner, i, s->slot, out))
        return false;
    out->full_name = s->name;
    return true;
}

/* Tensors of another task are read and written by that task: the group's calls. */
static const struct sheaf__trackable_class value_trackable = {.saveable = value_saveable,
                                                              .check = sheaf__variable_check};
static const struct sheaf__trackable_class slot_trackable = {.saveable = slot_saveable};

/* The slot beside every part, made there at first use. */
static sheaf_status make_slot(struct sheaf__ps_variable_ref *r, int slot, const char *name,
                              double fill, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    uint64_t bits;
    memcpy(&bits, &fill, sizeof(bits));
    sheaf__mutex_lock(&r->client->lock);
    for (size_t i = 0; i < r->part_count && status >= 0; i++) {
        const struct sheaf__ps_part *p = &r->parts[i];
        struct sheaf__ps_remote *server = sheaf__ps_prepare(r->client, p->server);
        sheaf__buf_varint(&server->meta, p->number);
        sheaf__buf_varint(&server->meta, (uint64_t)slot);
        sheaf__buf_fixed64(&server->meta, bits);
        sheaf__buf_sized(&server->meta, name, strlen(name));
        status = sheaf__ps_call(r->client, p->server, SHEAF__PS_SLOT, NULL, 0, err);
    }
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
    .lookup = sheaf__ps_lookup,
    .assign = ps_assign,
    .parts = ps_parts,
    .part_device = ps_part_device,
    .slot = ps_slot,
    .destroy = ps_destroy,
};

/* Making one. */

static sheaf_status check_request(const struct sheaf__ps_client *client,
                                  const sheaf_variable_request *request, sheaf_error *err)
{
    const sheaf_variable *with = request->options.colocate_with;
    if (request->dtype == SHEAF_STRING || sheaf_dtype_size(request->dtype) == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "variable '%s' of dtype %s on a parameter server, expected numbers",
                            request->name, sheaf_dtype_name(request->dtype));
    if (!with)
        return SHEAF_OK;
    SHEAF__TRY(sheaf_variable_status(with, err));
    if (with->cls != &ps_class || ((const struct sheaf__ps_variable_ref *)with)->client != client)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "variable '%s' is to be placed with '%s', which is none of the same "
                            "strategy",
                            request->name, with->name);
    return SHEAF_OK;
}

/* Rows and bytes of part `i` of `count`. */
static void cut_part(const struct sheaf__ps_variable_ref *r, int64_t i, int64_t count,
                     struct sheaf__ps_part *p)
{
    const size_t all =
        (size_t)sheaf_shape_elements(r->base.shape) * sheaf_dtype_size(r->base.dtype);
    const int64_t rows = r->base.shape.rank ? r->base.shape.dims[0] : 0;
    p->shape = r->base.shape;
    p->rows = rows;
    p->bytes = all;
    if (count == 1)
        return;
    p->first = sheaf__ps_first_row(rows, count, i);
    p->rows = p->shape.dims[0] = sheaf__ps_first_row(rows, count, i + 1) - p->first;
    p->offset = (size_t)p->first * (all / (size_t)rows);
    p->bytes = (size_t)p->rows * (all / (size_t)rows);
}

/* Numbers for the parts, and their servers: in turn, or that of another variable (R5.44, R5.45). With the
 * lock held. */
static void place_parts(struct sheaf__ps_client *client, struct sheaf__ps_variable_ref *r,
                        const sheaf_variable *with)
{
    for (size_t i = 0; i < r->part_count; i++) {
        struct sheaf__ps_part *p = &r->parts[i];
        p->number = client->numbers++;
        p->server = with ? ((const struct sheaf__ps_variable_ref *)with)->parts->server
                         : sheaf__ps_round_robin(client->turns++, client->server_count);
    }
}

static sheaf_status register_variable(struct sheaf__ps_client *client,
                                      struct sheaf__ps_variable_ref *r, int64_t parts,
                                      const sheaf_variable *with, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    r->parts = sheaf__calloc((size_t)parts, sizeof(*r->parts));
    if (!r->parts)
        return sheaf__no_memory(err, "the parts of a variable");
    r->part_count = (size_t)parts;
    for (int64_t i = 0; i < parts; i++)
        cut_part(r, i, parts, &r->parts[i]);
    sheaf__mutex_lock(&client->lock);
    if (sheaf__array_reserve((void **)&client->variables, &client->capacity, client->count + 1,
                             sizeof(*client->variables))) {
        place_parts(client, r, with);
        r->index = client->count;
        client->variables[client->count++] = r;
    } else {
        status = sheaf__no_memory(err, "a variable");
    }
    sheaf__mutex_unlock(&client->lock);
    return status;
}

/* R5.35; text of the frame. */
static const char *part_name(const struct sheaf__ps_variable_ref *r, size_t i)
{
    struct sheaf__str name = {0};
    sheaf__str_printf(&name, "%s/part_%zu", r->base.name, i);
    return sheaf__frame_str(&name);
}

/* Who has not made one variable in all the time will not make the next: that is waited for no more. */
static void note_unmade(struct sheaf__ps_client *client, sheaf_status status, const char *name,
                        sheaf_error *err)
{
    if (status != SHEAF_ERR_DEADLINE && status != SHEAF_ERR_UNAVAILABLE)
        return;
    if (status == SHEAF_ERR_DEADLINE)
        sheaf__error_prefix(err, "the chief (or worker 0) has not made variable '%s'", name);
    sheaf__mutex_lock(&client->lock);
    sheaf__error_keep_first(&client->unmade, err);
    sheaf__mutex_unlock(&client->lock);
}

/* Tells the server of part `i`, with its first value if this is the task that makes it; else waits until
 * there is one. */
static sheaf_status create_part(struct sheaf__ps_variable_ref *r, size_t i,
                                const sheaf_variable_request *request, sheaf_error *err)
{
    struct sheaf__ps_client *client = r->client;
    const struct sheaf__ps_part *p = &r->parts[i];
    const bool whole = r->part_count == 1;
    const char *name = whole ? r->base.name : part_name(r, i);
    const struct sheaf__ps_definition d = {.variable = p->number,
                                           .dtype = r->base.dtype,
                                           .full = r->base.shape,
                                           .shape = p->shape,
                                           .first_row = p->first,
                                           .initialises = client->initialises,
                                           .name = name,
                                           .name_size = strlen(name)};
    sheaf_tensor *initial = client->initialises
                                ? sheaf__variable_initial(request, p->first, whole ? -1 : p->rows)
                                : NULL;
    const void *data = initial ? sheaf__tensor_host(initial, err) : NULL;
    if (initial && !data)
        return sheaf_tensor_status(initial, err) < 0 ? initial->error->status
                                                     : SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf__mutex_lock(&client->lock);
    if (client->unmade.status < 0) {
        sheaf__error_copy(err, &client->unmade);
        sheaf__mutex_unlock(&client->lock);
        return client->unmade.status;
    }
    struct sheaf__ps_remote *server = sheaf__ps_prepare(client, p->server);
    sheaf__ps_put_definition(&server->meta, &d);
    sheaf_status status = SHEAF_OK;
    if (initial && !sheaf__ps_add_part(server, data, sheaf__tensor_size(initial)))
        status = sheaf__no_memory(err, "a variable");
    if (status >= 0)
        status = sheaf__ps_call(client, p->server, SHEAF__PS_CREATE, NULL, 0, err);
    sheaf__mutex_unlock(&client->lock);
    if (status < 0 && !initial)
        note_unmade(client, status, d.name, err);
    return status;
}

/* Part by part, so that no more than one of a large table's is in this task's memory. */
static void create_parts(struct sheaf__ps_variable_ref *r, const sheaf_variable_request *request,
                         sheaf_error *latched)
{
    for (size_t i = 0; i < r->part_count && latched->status >= 0; i++) {
        SHEAF_FRAME
        {
            create_part(r, i, request, latched);
        }
    }
}

/* Into how many parts the request is to be cut. */
static int64_t choose_parts(struct sheaf__ps_client *client, const sheaf_variable_request *request,
                            sheaf_error *err)
{
    int64_t parts = 1;
    if (request->options.colocate_with)
        return 1;
    sheaf__mutex_lock(&client->lock);
    const uint32_t before = client->numbers;
    sheaf__mutex_unlock(&client->lock);
    if (sheaf__ps_parts(&client->partitioner, request->dtype, request->shape, &parts, err) < 0)
        sheaf__error_prefix(err, "variable '%s'", request->name);
    else if (parts > SHEAF__PS_MOST_VARIABLES - (int64_t)before)
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                     "variable '%s' in %lld parts, and %u before them, expected at most %d",
                     request->name, (long long)parts, before, SHEAF__PS_MOST_VARIABLES);
    return err->status < 0 ? 1 : parts;
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
    int64_t parts = 1;
    if (latched->status >= 0 && check_request(client, request, latched) >= 0)
        parts = choose_parts(client, request, latched);
    const sheaf_variable *with = latched->status < 0 ? NULL : request->options.colocate_with;
    sheaf_error fault = {0};
    if (register_variable(client, r, parts, with, &fault) < 0) {
        sheaf__free(r->parts);
        sheaf__free(r->base.name);
        sheaf__free(ref);
        return NULL;
    }
    r->base.device = client->servers[r->parts->server].device;
    create_parts(r, request, latched);
    return &r->base;
}
