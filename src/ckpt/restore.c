/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/save.h"

#include "base/array.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/trace.h"
#include "ckpt/shard.h"
#include "format/bundle.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <string.h>

/* A restore: the objects of the program are matched with those of the file by the names of the edges
 * alone, as TensorFlow does (formats.md 5.3); everything is read; only then is anything changed. */

/* The tensors that one task takes. */
struct task_items {
    const char *device; /* NULL: this process */
    struct sheaf__shard_item *items;
    const struct sheaf__ckpt_tensor **tensors;
    size_t count, item_capacity, tensor_capacity;
};

struct restoring {
    const char *path;
    const sheaf_trackable *optional;
    struct sheaf__ckpt_objects objects;
    sheaf_bundle *bundle;
    struct sheaf__object_graph graph; /* the file's; no node: it has none */
    int32_t *bound;                   /* node of the file for every node, -1: none */
    struct task_items *tasks;         /* the first is this process */
    size_t task_count, task_capacity;
    sheaf_tensor **values; /* of this process's items, counted */
    size_t value_count;
    bool asked; /* other tasks hold values back */
};

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "restoring a checkpoint");
}

/* Matching. */

static sheaf_status read_graph(struct restoring *r, sheaf_error *err)
{
    const struct sheaf__bundle_item *item = sheaf__bundle_find(r->bundle, SHEAF__OBJECT_GRAPH_KEY);
    if (!item)
        return SHEAF_OK;
    sheaf_error fault = {0};
    sheaf_tensor *t = sheaf__bundle_read_slice(r->bundle, item, NULL, &fault);
    if (!t)
        return sheaf__error_copy(err, &fault);
    sheaf_bytes text = sheaf_tensor_bytes(t, 0);
    sheaf_status status = sheaf__object_graph_read(&r->graph, text.data, text.size, err);
    sheaf__unref(t);
    if (status >= 0 && !r->graph.count)
        status = sheaf__error(err, SHEAF_ERR_DATA_LOSS, "the object graph has no object");
    return status;
}

static void bind_node(struct restoring *r, int32_t node)
{
    const struct sheaf__graph_node *ours = &r->objects.graph.nodes[node];
    const struct sheaf__graph_node *theirs = &r->graph.nodes[r->bound[node]];
    for (size_t i = 0; i < ours->child_count; i++) {
        int32_t child = ours->children[i].node;
        if (r->bound[child] < 0)
            r->bound[child] = sheaf__graph_child(theirs, ours->children[i].name, i);
    }
}

/* The node of a slot in the file, by the variable it belongs to. */
static int32_t find_slot(const struct sheaf__graph_node *optimizer, const char *name,
                         int32_t variable)
{
    for (size_t i = 0; i < optimizer->slot_count; i++) {
        if (optimizer->slots[i].variable == variable && !strcmp(optimizer->slots[i].name, name))
            return optimizer->slots[i].value;
    }
    return -1;
}

static void bind_slots(struct restoring *r, int32_t node)
{
    const struct sheaf__graph_node *ours = &r->objects.graph.nodes[node];
    for (size_t i = 0; i < ours->slot_count; i++) {
        const struct sheaf__graph_slot *slot = &ours->slots[i];
        if (r->bound[node] >= 0 && r->bound[slot->variable] >= 0 && r->bound[slot->value] < 0)
            r->bound[slot->value] =
                find_slot(&r->graph.nodes[r->bound[node]], slot->name, r->bound[slot->variable]);
    }
}

/* An object that we have has less than the file says: perhaps it is not built yet. The root is left
 * out: a program may restore only some of the objects. */
static void warn_of_rest(const struct restoring *r, int32_t node)
{
    const struct sheaf__graph_node *ours = &r->objects.graph.nodes[node];
    const struct sheaf__graph_node *theirs = &r->graph.nodes[r->bound[node]];
    if (ours->child_count || ours->attribute_count)
        return;
    for (size_t i = 0; i < theirs->child_count; i++) {
        if (r->graph.nodes[theirs->children[i].node].has_values) {
            sheaf__log(SHEAF_LOG_WARN,
                       "checkpoint %s has values for '%s' below object '%s', which has nothing to "
                       "take them",
                       r->path, theirs->children[i].name, r->objects.nodes[node].path);
            return;
        }
    }
}

/* "variable", "variable_1": what Keras calls a variable that nobody gave a name. */
static bool is_made_up(const char *name)
{
    static const char stem[] = "variable";
    if (strncmp(name, stem, strlen(stem)) != 0)
        return false;
    name += strlen(stem);
    return !*name || (*name == '_' && name[1] && !name[1 + strspn(name + 1, "0123456789")]);
}

/* The variable's own name, if it says something: "momentum". A path has the program's names in it. */
static const char *plain_name(const struct sheaf__graph_node *node)
{
    const char *name = node->attribute_count ? node->attributes[0].full_name : NULL;
    return name && *name && !strchr(name, '/') && !is_made_up(name) ? name : NULL;
}

/* Children that are found by their numbers alone may be other things of the same shape. */
static sheaf_status check_names(const struct restoring *r, int32_t node, const char *whole,
                                sheaf_error *err)
{
    const struct sheaf__graph_node *ours = &r->objects.graph.nodes[node];
    for (size_t i = 0; i < ours->child_count; i++) {
        const int32_t child = ours->children[i].node;
        if (r->bound[child] < 0)
            continue;
        const char *mine = plain_name(&r->objects.graph.nodes[child]);
        const char *found = plain_name(&r->graph.nodes[r->bound[child]]);
        const struct sheaf__place place = {r->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        if (mine && found && strcmp(mine, found) != 0)
            return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &place,
                                   "saved with another %s: '%s' is its '%s', "
                                   "expected '%s'",
                                   whole, r->objects.nodes[child].path, found, mine);
    }
    return SHEAF_OK;
}

/* Says what the file has more of than ours, with some of the names. */
static void warn_of_others(const struct restoring *r, int32_t node, const char *whole)
{
    const struct sheaf__graph_node *ours = &r->objects.graph.nodes[node];
    const struct sheaf__graph_node *theirs = &r->graph.nodes[r->bound[node]];
    struct sheaf__str names = {0};
    const char *last = "";
    int count = 0, named = 0;
    if (r->objects.group && !r->objects.group->cls->restores(r->objects.group))
        return; /* one task speaks for all */
    for (size_t i = 0; i < theirs->child_count; i++) {
        const struct sheaf__graph_node *child = &r->graph.nodes[theirs->children[i].node];
        if (!child->has_values || sheaf__graph_child(ours, theirs->children[i].name, i) >= 0)
            continue;
        const char *plain = plain_name(child), *name = plain ? plain : theirs->children[i].name;
        count++;
        if (named == 3 || strcmp(name, last) == 0 || (named == 2 && strstr(names.text, name)))
            continue;
        sheaf__str_printf(&names, "%s'%s'", named++ ? ", " : "", name);
        last = name;
    }
    if (count)
        sheaf__log(SHEAF_LOG_WARN,
                   "checkpoint %s was saved with another %s: %d values of '%s' are left out (%s%s)",
                   r->path, whole, count, r->objects.nodes[node].path, sheaf__str_text(&names),
                   named == 3 ? ", …" : "");
    sheaf__str_free(&names);
}

static sheaf_status bind_all(struct restoring *r, sheaf_error *err)
{
    size_t count = r->objects.node_count;
    r->bound = sheaf__alloc_array(count, sizeof(*r->bound));
    if (!r->bound)
        return no_memory(err);
    for (size_t i = 0; i < count; i++)
        r->bound[i] = -1;
    if (!r->graph.count)
        return SHEAF_OK;
    r->bound[0] = 0;
    /* A node comes after the one that first reaches it; others may reach it later. */
    for (size_t i = 0; i < count; i++) {
        if (r->bound[i] >= 0)
            bind_node(r, (int32_t)i);
    }
    for (size_t i = 0; i < count; i++)
        bind_slots(r, (int32_t)i);
    for (size_t i = 1; i < count; i++) {
        const sheaf_trackable *t = r->objects.nodes[i].trackable;
        const char *whole = t ? t->cls->whole : NULL;
        if (r->bound[i] < 0)
            continue;
        warn_of_rest(r, (int32_t)i);
        if (whole)
            SHEAF__TRY(check_names(r, (int32_t)i, whole, err));
        if (whole)
            warn_of_others(r, (int32_t)i, whole);
    }
    return SHEAF_OK;
}

/* The key under which the file has a tensor, NULL if it has none. */
static const char *find_key(const struct restoring *r, const struct sheaf__ckpt_tensor *t)
{
    if (!r->graph.count) {
        /* Saved by name, without objects (formats.md 5.3). */
        const char *name = t->item.saveable.full_name;
        return name && sheaf__bundle_find(r->bundle, name) ? name : NULL;
    }
    if (r->bound[t->node] < 0)
        return NULL;
    const char *ours = strstr(t->item.key, "/.ATTRIBUTES/") + strlen("/.ATTRIBUTES/");
    const struct sheaf__graph_node *node = &r->graph.nodes[r->bound[t->node]];
    for (size_t i = 0; i < node->attribute_count; i++) {
        const char *tail = strstr(node->attributes[i].key, "/.ATTRIBUTES/");
        bool same_name = !strcmp(node->attributes[i].name, t->item.saveable.attribute);
        if (same_name || (tail && !strcmp(tail + strlen("/.ATTRIBUTES/"), ours)))
            return node->attributes[i].key;
    }
    return NULL;
}

/* Who takes what. */

static struct task_items *find_task(struct restoring *r, const char *device)
{
    for (size_t i = 0; i < r->task_count; i++) {
        const char *known = r->tasks[i].device;
        if (device ? known && sheaf__shard_same_task(known, device) : !known)
            return &r->tasks[i];
    }
    if (!sheaf__array_reserve(&r->tasks, &r->task_capacity, r->task_count + 1, sizeof(*r->tasks)))
        return NULL;
    r->tasks[r->task_count] = (struct task_items){.device = device};
    return &r->tasks[r->task_count++];
}

static bool add_item(struct task_items *task, const struct sheaf__ckpt_tensor *t, const char *key)
{
    if (!sheaf__array_reserve(&task->items, &task->item_capacity, task->count + 1,
                              sizeof(*task->items)) ||
        !sheaf__array_reserve(&task->tensors, &task->tensor_capacity, task->count + 1,
                              sizeof(*task->tensors)))
        return false;
    task->items[task->count] = (struct sheaf__shard_item){key, t->item.saveable};
    task->tensors[task->count++] = t;
    return true;
}

static sheaf_status missing(const struct restoring *r, const struct sheaf__ckpt_tensor *t,
                            sheaf_error *err)
{
    struct sheaf__place place = {r->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    return sheaf__error_at(err, SHEAF_ERR_NOT_FOUND, &place,
                           "the checkpoint has no value for object '%s' (%s)",
                           r->objects.nodes[t->node].path, t->item.saveable.attribute);
}

static sheaf_status deal(struct restoring *r, sheaf_error *err)
{
    struct sheaf__save_group *g = r->objects.group;
    const bool restores = !g || g->cls->restores(g);
    if (!find_task(r, NULL))
        return no_memory(err);
    for (size_t i = 0; i < r->objects.tensor_count; i++) {
        const struct sheaf__ckpt_tensor *t = &r->objects.tensors[i];
        bool local = sheaf__objects_is_local(&r->objects, t);
        const char *key = find_key(r, t);
        if (!local && !restores)
            continue; /* the chief has it restored */
        if (!key && t->owner == r->optional)
            continue;
        if (!key)
            return missing(r, t, err);
        struct task_items *task = find_task(r, local ? NULL : t->item.saveable.device);
        if (!task || !add_item(task, t, key))
            return no_memory(err);
    }
    return SHEAF_OK;
}

/* Reading. */

static sheaf_status keep_value(void *user, const struct sheaf__shard_item *item,
                               sheaf_tensor *value, sheaf_error *err)
{
    struct restoring *r = user;
    (void)item;
    (void)err;
    r->values[r->value_count++] = sheaf_tensor_keep(value);
    return SHEAF_OK;
}

static sheaf_status read_local(struct restoring *r, sheaf_error *err)
{
    const struct task_items *task = &r->tasks[0];
    r->values = sheaf__calloc(task->count + 1, sizeof(sheaf_tensor *));
    if (!r->values)
        return no_memory(err);
    return sheaf__shard_read(r->path, task->items, task->count, keep_value, r, err);
}

static sheaf_status read_remote(struct restoring *r, sheaf_error *err)
{
    struct sheaf__save_group *g = r->objects.group;
    for (size_t i = 1; i < r->task_count; i++) {
        const struct task_items *task = &r->tasks[i];
        const char *end = strstr(task->device, "/device:");
        size_t size = end ? (size_t)(end - task->device) : strlen(task->device);
        const char *name = sheaf__frame_text(task->device, size);
        struct sheaf__shard shard = {task->device, r->path, task->items, task->count};
        r->asked = true;
        SHEAF__TRY(g->cls->read(g, &shard, sheaf__sidecar_note(&r->bundle->sidecar, name), err));
    }
    return SHEAF_OK;
}

static void warn_of_missing(const struct restoring *r, const struct sheaf__ckpt_blob *b)
{
    const bool has_file = r->bundle->sidecar.description != NULL;
    sheaf__log(SHEAF_LOG_WARN, "checkpoint %s has nothing for object '%s', which begins anew%s%s%s",
               r->path, b->path, has_file ? "" : ": its file '.",
               has_file ? "" : sheaf__path_name(r->path),
               has_file ? "" : ".sheaf' is not beside it");
}

/* The objects beside TensorFlow's. */
static sheaf_status accept_blobs(const struct restoring *r, sheaf_error *err)
{
    for (size_t i = 0; i < r->objects.blob_count; i++) {
        const struct sheaf__ckpt_blob *b = &r->objects.blobs[i];
        const struct sheaf__sidecar_blob *found = sheaf__sidecar_blob(&r->bundle->sidecar, b->path);
        const sheaf_bytes bytes = {found ? (const char *)found->data : NULL,
                                   found ? found->size : 0};
        if (!found)
            warn_of_missing(r, b);
        sheaf_status status = b->trackable->cls->accept(b->trackable, found ? &bytes : NULL, err);
        if (status >= 0)
            continue;
        sheaf__error_prefix(err, "object '%s' of checkpoint '%s'", b->path, r->path);
        return status;
    }
    return SHEAF_OK;
}

static void settle_blobs(const struct restoring *r, bool take)
{
    for (size_t i = 0; i < r->objects.blob_count; i++)
        r->objects.blobs[i].trackable->cls->settle(r->objects.blobs[i].trackable, take);
}

static sheaf_status write_local(const struct restoring *r, sheaf_error *err)
{
    for (size_t i = 0; i < r->value_count; i++) {
        const struct sheaf__ckpt_tensor *t = r->tasks[0].tensors[i];
        SHEAF__TRY(t->owner->cls->write(t->owner, t->number, r->values[i], err));
    }
    return SHEAF_OK;
}

static void end_restore(struct restoring *r)
{
    for (size_t i = 0; i < r->value_count; i++)
        sheaf_tensor_free(r->values[i]);
    for (size_t i = 0; i < r->task_count; i++) {
        sheaf__free(r->tasks[i].items);
        sheaf__free(r->tasks[i].tensors);
    }
    sheaf__free(r->values);
    sheaf__free(r->tasks);
    sheaf__free(r->bound);
    sheaf__object_graph_free(&r->graph);
    sheaf_bundle_free(r->bundle);
}

static sheaf_status restore_all(struct restoring *r, sheaf_error *err)
{
    SHEAF__TRY(sheaf_bundle_open(r->path, &r->bundle, err));
    if (r->bundle->sidecar_fault.status < 0)
        return sheaf__error_copy(err, &r->bundle->sidecar_fault);
    SHEAF__TRY(read_graph(r, err));
    SHEAF__TRY(bind_all(r, err));
    SHEAF__TRY(deal(r, err));
    SHEAF__TRY(read_local(r, err));
    SHEAF__TRY(read_remote(r, err));
    SHEAF__TRY(accept_blobs(r, err));
    return write_local(r, err);
}

sheaf_status sheaf__ckpt_restore(sheaf_trackable *root, const sheaf_trackable *optional,
                                 const char *path, sheaf_error *err)
{
    SHEAF__TRACE("checkpoint.restore");
    struct restoring r = {.path = path, .optional = optional};
    SHEAF__TRY(sheaf__objects_walk(&r.objects, root, err));
    struct sheaf__save_group *g = r.objects.group;
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        status = restore_all(&r, err);
        if (r.asked && status >= 0)
            status = g->cls->settle(g, true, err);
        else if (r.asked)
            (void)g->cls->settle(g, false, NULL);
        settle_blobs(&r, status >= 0);
        const char *description = r.bundle ? r.bundle->sidecar.description : NULL;
        if (status < 0 && description)
            sheaf__error_suffix(err, "(saved with sharding '%s')", description);
    }
    end_restore(&r);
    if (g && g->cls->finish)
        status = g->cls->finish(g, status, err);
    sheaf__objects_free(&r.objects);
    return status;
}
