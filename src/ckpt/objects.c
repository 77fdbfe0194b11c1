/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/objects.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/slice.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "the objects of a checkpoint");
}

void sheaf__objects_free(struct sheaf__ckpt_objects *o)
{
    for (size_t i = 0; i < o->tensor_count; i++)
        sheaf__unref(o->tensors[i].value);
    sheaf__free(o->nodes);
    sheaf__free(o->tensors);
    sheaf__free(o->blobs);
    sheaf__object_graph_free(&o->graph);
    sheaf__buf_free(&o->graph_text);
    sheaf__strmap_clear(&o->by_trackable, NULL);
    *o = (struct sheaf__ckpt_objects){0};
}

/* ---- texts, which end with the graph; NULL: no memory ---- */

static size_t escaped_size(const char *name)
{
    size_t size = 0;
    for (; *name; name++)
        size += *name == '.' || *name == '/' ? 2 : 1;
    return size;
}

static char *put_escaped(char *to, const char *name)
{
    for (; *name; name++) {
        *to++ = *name == '/' ? '.' : *name;
        if (*name == '/' || *name == '.')
            *to++ = *name == '/' ? 'S' : '.';
    }
    *to = 0;
    return to;
}

void sheaf__objects_escape(struct sheaf__str *out, const char *name)
{
    for (; *name; name++)
        sheaf__str_add(out, *name == '.' ? ".." : *name == '/' ? ".S" : (const char[]){*name, 0});
}

/* "<path><between><escaped name>". */
static char *extend_path(struct sheaf__ckpt_objects *o, const char *path, const char *between,
                         const char *name)
{
    const size_t head = strlen(path), middle = strlen(between);
    char *out = sheaf__arena_alloc(&o->graph.arena, head + middle + escaped_size(name) + 1);
    if (!out)
        return NULL;
    memcpy(out, path, head);
    memcpy(out + head, between, middle);
    put_escaped(out + head + middle, name);
    return out;
}

int32_t sheaf__objects_find(const struct sheaf__ckpt_objects *o, sheaf_trackable *t)
{
    void *number = sheaf__strmap_get_bytes(&o->by_trackable, &t, sizeof(t));
    return number ? (int32_t)(uintptr_t)number - 1 : -1;
}

/* Makes a node; the path may be NULL for no memory. */
static bool add_node(struct sheaf__ckpt_objects *o, sheaf_trackable *t, const char *path)
{
    void *number = (void *)(uintptr_t)(o->node_count + 1);
    if (!path ||
        !sheaf__array_reserve(&o->nodes, &o->node_capacity, o->node_count + 1, sizeof(*o->nodes)) ||
        !sheaf__object_graph_add(&o->graph))
        return false;
    o->nodes[o->node_count++] = (struct sheaf__ckpt_node){t, path};
    return sheaf__strmap_set_bytes(&o->by_trackable, &t, sizeof(t), number, NULL);
}

static const char *child_path(struct sheaf__ckpt_objects *o, const char *path, const char *name)
{
    return extend_path(o, path, *path ? "/" : "", name);
}

/* Takes note of who saves the object of this path. */
static sheaf_status join_group(struct sheaf__ckpt_objects *o, const char *path,
                               struct sheaf__save_group *group, sheaf_error *err)
{
    if (group && o->group && group != o->group)
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                            "object '%s' belongs to another strategy than the objects before it",
                            path);
    o->group = group ? group : o->group;
    return SHEAF_OK;
}

/* The path may be NULL for no memory. An object is saved under each of its names. */
static sheaf_status add_blob(struct sheaf__ckpt_objects *o, sheaf_trackable *t, const char *path,
                             sheaf_error *err)
{
    if (!path ||
        !sheaf__array_reserve(&o->blobs, &o->blob_capacity, o->blob_count + 1, sizeof(*o->blobs)))
        return no_memory(err);
    o->blobs[o->blob_count++] = (struct sheaf__ckpt_blob){t, path};
    return join_group(o, path, t->cls->group ? t->cls->group(t) : NULL, err);
}

static bool add_child(struct sheaf__ckpt_objects *o, int32_t node, const char *name, int32_t child)
{
    const struct sheaf__graph_child edge = {sheaf__graph_text(&o->graph, name, strlen(name)),
                                            child};
    return edge.name && sheaf__graph_add_child(&o->graph, (size_t)node, &edge);
}

static sheaf_status walk_children(struct sheaf__ckpt_objects *o, int32_t node, sheaf_error *err)
{
    sheaf_trackable *t = o->nodes[node].trackable, *child = NULL;
    const char *name = NULL;
    for (size_t i = 0; t->cls->child && t->cls->child(t, i, &name, &child); i++) {
        if (child->cls->save) {
            SHEAF__TRY(add_blob(o, child, child_path(o, o->nodes[node].path, name), err));
            continue;
        }
        int32_t number = sheaf__objects_find(o, child);
        if (number < 0) {
            number = (int32_t)o->node_count;
            if (!add_node(o, child, child_path(o, o->nodes[node].path, name)))
                return no_memory(err);
        }
        if (!add_child(o, node, name, number))
            return no_memory(err);
    }
    return SHEAF_OK;
}

/* An object whose making failed says why. */
static sheaf_status check_object(const struct sheaf__ckpt_node *node, sheaf_error *err)
{
    const sheaf_trackable *t = node->trackable;
    const sheaf_status status = t->cls->check ? t->cls->check(t, err) : SHEAF_OK;
    if (status < 0)
        sheaf__error_prefix(err, "object '%s'", node->path);
    return status;
}

static sheaf_status check_saveable(const struct sheaf__ckpt_objects *o, int32_t node,
                                   const struct sheaf__saveable *s, sheaf_error *err)
{
    struct sheaf__slice slice = {.full = s->full, .shape = s->shape};
    memcpy(slice.offset, s->offset, sizeof(slice.offset));
    if (!sheaf_dtype_size(s->dtype) || !sheaf__slice_is_valid(&slice))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "object '%s' has a tensor without dtype or shape", o->nodes[node].path);
    return SHEAF_OK;
}

/* Adds the tensor, and names it in the graph unless it is a further slice of the one before. Its key is
 * "w/.ATTRIBUTES/VARIABLE_VALUE", in which the name is escaped once more than in the graph. */
static sheaf_status add_tensor(struct sheaf__ckpt_objects *o, int32_t node,
                               const struct sheaf__ckpt_tensor *tensor, sheaf_error *err)
{
    const struct sheaf__saveable *s = &tensor->item.saveable;
    const char *name = extend_path(o, "", "", s->attribute);
    const char *key = name ? extend_path(o, o->nodes[node].path, "/.ATTRIBUTES/", name) : NULL;
    const struct sheaf__graph_attribute attribute = {name, s->full_name ? s->full_name : "", key};
    bool room = key && sheaf__array_reserve(&o->tensors, &o->tensor_capacity, o->tensor_count + 1,
                                            sizeof(*o->tensors));
    if (room && !sheaf__graph_attribute(&o->graph.nodes[node], name))
        room = sheaf__graph_add_attribute(&o->graph, (size_t)node, &attribute);
    if (!room)
        return no_memory(err);
    o->tensors[o->tensor_count] = *tensor;
    o->tensors[o->tensor_count++].item.key = key;
    return SHEAF_OK;
}

static sheaf_status walk_tensors(struct sheaf__ckpt_objects *o, int32_t node, sheaf_error *err)
{
    sheaf_trackable *t = o->nodes[node].trackable;
    struct sheaf__ckpt_tensor tensor = {.owner = t, .node = node};
    struct sheaf__saveable *s = &tensor.item.saveable;
    SHEAF__TRY(check_object(&o->nodes[node], err));
    for (size_t i = 0; t->cls->saveable && t->cls->saveable(t, i, s); i++) {
        tensor.number = i;
        SHEAF__TRY(check_saveable(o, node, s, err));
        SHEAF__TRY(join_group(o, o->nodes[node].path, s->group, err));
        /* A part without rows of a partitioned tensor is no slice (formats.md 4.5); a tensor
         * without elements is stored once. */
        bool empty = sheaf_shape_elements(s->shape) == 0;
        bool again = o->tensor_count && o->tensors[o->tensor_count - 1].node == node &&
                     !strcmp(o->tensors[o->tensor_count - 1].item.saveable.attribute, s->attribute);
        if (!empty || (!again && sheaf_shape_elements(s->full) == 0))
            SHEAF__TRY(add_tensor(o, node, &tensor, err));
    }
    return SHEAF_OK;
}

/* "<variable>/.OPTIMIZER_SLOT/<optimizer>/<slot>". */
static const char *slot_path(struct sheaf__ckpt_objects *o, int32_t optimizer, int32_t variable,
                             const char *slot)
{
    const char *whose = o->nodes[optimizer].path;
    const size_t size = strlen(whose);
    char *between = sheaf__arena_alloc(&o->graph.arena, size + sizeof("/.OPTIMIZER_SLOT//"));
    if (!between)
        return NULL;
    snprintf(between, size + sizeof("/.OPTIMIZER_SLOT//"), "/.OPTIMIZER_SLOT/%s/", whose);
    return extend_path(o, o->nodes[variable].path, between, slot);
}

static sheaf_status add_slot(struct sheaf__ckpt_objects *o, int32_t optimizer, int32_t variable,
                             const struct sheaf__slot_ref *ref, sheaf_error *err)
{
    int32_t number = sheaf__objects_find(o, ref->value);
    if (number < 0) {
        number = (int32_t)o->node_count;
        if (!add_node(o, ref->value, slot_path(o, optimizer, variable, ref->slot)))
            return no_memory(err);
    }
    const struct sheaf__graph_slot slot = {
        sheaf__graph_text(&o->graph, ref->slot, strlen(ref->slot)), variable, number};
    if (!slot.name || !sheaf__graph_add_slot(&o->graph, (size_t)optimizer, &slot))
        return no_memory(err);
    return SHEAF_OK;
}

/* True if no slot variable before number `i` has the same slot name. */
static bool is_new_slot(sheaf_trackable *t, size_t i, const char *slot)
{
    struct sheaf__slot_ref ref;
    for (size_t k = 0; k < i && t->cls->slot(t, k, &ref); k++) {
        if (!strcmp(ref.slot, slot))
            return false;
    }
    return true;
}

/* The slots of one name, in the order of the variables' nodes. Variables that the checkpoint does
 * not have are left out with their slots. */
static sheaf_status walk_slot(struct sheaf__ckpt_objects *o, int32_t optimizer, const char *slot,
                              int32_t variables, sheaf_error *err)
{
    sheaf_trackable *t = o->nodes[optimizer].trackable;
    struct sheaf__slot_ref ref;
    size_t count = 0;
    struct sheaf__slot_ref *by_node = sheaf__calloc((size_t)variables, sizeof(*by_node));
    if (!by_node)
        return no_memory(err);
    for (size_t i = 0; t->cls->slot(t, i, &ref); i++) {
        int32_t node = strcmp(ref.slot, slot) ? -1 : sheaf__objects_find(o, ref.variable);
        if (node >= 0 && node < variables) {
            by_node[node] = ref;
            count++;
        }
    }
    sheaf_status status = SHEAF_OK;
    for (int32_t i = 0; i < variables && count && status >= 0; i++) {
        if (by_node[i].value)
            status = add_slot(o, optimizer, i, &by_node[i], err);
    }
    sheaf__free(by_node);
    return status;
}

static sheaf_status walk_slots(struct sheaf__ckpt_objects *o, sheaf_error *err)
{
    int32_t variables = (int32_t)o->node_count;
    for (int32_t node = 0; node < variables; node++) {
        sheaf_trackable *t = o->nodes[node].trackable;
        struct sheaf__slot_ref ref;
        for (size_t i = 0; t->cls->slot && t->cls->slot(t, i, &ref); i++) {
            if (is_new_slot(t, i, ref.slot))
                SHEAF__TRY(walk_slot(o, node, ref.slot, variables, err));
        }
    }
    return SHEAF_OK;
}

static sheaf_status add_first(struct sheaf__ckpt_objects *o, sheaf_trackable *root,
                              const char *path, sheaf_error *err)
{
    const char *copy = sheaf__graph_text(&o->graph, path, strlen(path));
    if (root->cls->save)
        return add_blob(o, root, copy, err);
    return add_node(o, root, copy) ? SHEAF_OK : no_memory(err);
}

sheaf_status sheaf__objects_walk(struct sheaf__ckpt_objects *o, sheaf_trackable *root,
                                 const char *path, sheaf_error *err)
{
    *o = (struct sheaf__ckpt_objects){0};
    sheaf_status status = add_first(o, root, path, err);
    for (int32_t i = 0; status >= 0 && (size_t)i < o->node_count; i++)
        status = walk_children(o, i, err);
    if (status >= 0)
        status = walk_slots(o, err);
    /* One each, mostly. */
    if (status >= 0 && !sheaf__array_reserve(&o->tensors, &o->tensor_capacity, o->node_count + 1,
                                             sizeof(*o->tensors)))
        status = no_memory(err);
    for (int32_t i = 0; status >= 0 && (size_t)i < o->node_count; i++)
        status = walk_tensors(o, i, err);
    if (status < 0)
        sheaf__objects_free(o);
    return status;
}

sheaf_status sheaf__objects_add(struct sheaf__ckpt_objects *o, sheaf_trackable *t, const char *path,
                                sheaf_error *err)
{
    const int32_t number = (int32_t)o->node_count;
    if (!add_node(o, t, sheaf__graph_text(&o->graph, path, strlen(path))))
        return no_memory(err);
    return walk_tensors(o, number, err);
}

sheaf_status sheaf__objects_add_graph(struct sheaf__ckpt_objects *o, sheaf_error *err)
{
    SHEAF__TRY(sheaf__object_graph_write(&o->graph, &o->graph_text, err));
    if (!sheaf__array_reserve(&o->tensors, &o->tensor_capacity, o->tensor_count + 1,
                              sizeof(*o->tensors)))
        return no_memory(err);
    o->tensors[o->tensor_count++] = (struct sheaf__ckpt_tensor){
        .item = {.key = SHEAF__OBJECT_GRAPH_KEY,
                 .saveable = {.attribute = "", .dtype = SHEAF_STRING}},
        .node = -1,
        .text = {(const char *)o->graph_text.data, o->graph_text.size},
    };
    return SHEAF_OK;
}

bool sheaf__objects_is_local(const struct sheaf__ckpt_objects *o,
                             const struct sheaf__ckpt_tensor *t)
{
    const struct sheaf__saveable *s = &t->item.saveable;
    return !s->group || o->group->cls->is_local(o->group, s->device);
}

sheaf_status sheaf__objects_join(struct sheaf__ckpt_objects *o, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < o->tensor_count && status >= 0; i++) {
        struct sheaf__ckpt_tensor *t = &o->tensors[i];
        if (!t->item.saveable.together)
            continue;
        SHEAF_FRAME
        {
            sheaf_tensor *value = t->owner->cls->read(t->owner, t->number);
            status = sheaf_tensor_status(value, err);
            if (status >= 0)
                t->value = sheaf__ref(value);
        }
    }
    return status;
}

sheaf_tensor *sheaf__objects_value(const struct sheaf__ckpt_objects *o,
                                   const struct sheaf__ckpt_tensor *t)
{
    if (!t->owner)
        return sheaf_tensor_new(SHEAF_STRING, SHEAF_SCALAR, &t->text);
    if (!sheaf__objects_is_local(o, t))
        return o->group->cls->fetch(o->group, &t->item.saveable);
    if (t->value && !o->copies)
        return sheaf__tensor_give(sheaf__ref(t->value), NULL);
    if (o->copies)
        return sheaf__tensor_give(sheaf__ref(o->copies[t - o->tensors]), NULL);
    return t->owner->cls->read(t->owner, t->number);
}
