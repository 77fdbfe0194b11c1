/* SPDX-License-Identifier: Apache-2.0 */
#include "format/object_graph.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"

#include <string.h>

static void free_node(struct sheaf__graph_node *node)
{
    for (size_t i = 0; i < node->child_count; i++)
        sheaf__free(node->children[i].name);
    for (size_t i = 0; i < node->attribute_count; i++) {
        sheaf__free(node->attributes[i].name);
        sheaf__free(node->attributes[i].full_name);
        sheaf__free(node->attributes[i].key);
    }
    for (size_t i = 0; i < node->slot_count; i++)
        sheaf__free(node->slots[i].name);
    sheaf__free(node->children);
    sheaf__free(node->attributes);
    sheaf__free(node->slots);
    sheaf__free(node->saver);
    sheaf__free(node->saver_object);
}

void sheaf__object_graph_free(struct sheaf__object_graph *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        free_node(&graph->nodes[i]);
    sheaf__free(graph->nodes);
    *graph = (struct sheaf__object_graph){0};
}

bool sheaf__object_graph_add(struct sheaf__object_graph *graph)
{
    if (graph->count >= INT32_MAX || !sheaf__array_reserve(&graph->nodes, &graph->capacity,
                                                           graph->count + 1, sizeof(*graph->nodes)))
        return false;
    graph->nodes[graph->count++] = (struct sheaf__graph_node){0};
    return true;
}

bool sheaf__graph_add_child(struct sheaf__graph_node *node, const char *name, int32_t child)
{
    char *copy = sheaf__strdup(name);
    if (!copy || !sheaf__array_reserve(&node->children, &node->child_capacity,
                                       node->child_count + 1, sizeof(*node->children))) {
        sheaf__free(copy);
        return false;
    }
    node->children[node->child_count++] = (struct sheaf__graph_child){copy, child};
    return true;
}

bool sheaf__graph_add_attribute(struct sheaf__graph_node *node, const char *name,
                                const char *full_name, const char *key)
{
    struct sheaf__graph_attribute a = {sheaf__strdup(name), sheaf__strdup(full_name),
                                       sheaf__strdup(key)};
    if (!a.name || !a.full_name || !a.key ||
        !sheaf__array_reserve(&node->attributes, &node->attribute_capacity,
                              node->attribute_count + 1, sizeof(a))) {
        sheaf__free(a.name);
        sheaf__free(a.full_name);
        sheaf__free(a.key);
        return false;
    }
    node->attributes[node->attribute_count++] = a;
    return true;
}

bool sheaf__graph_add_slot(struct sheaf__graph_node *node, const char *name, int32_t variable,
                           int32_t value)
{
    char *copy = sheaf__strdup(name);
    if (!copy || !sheaf__array_reserve(&node->slots, &node->slot_capacity, node->slot_count + 1,
                                       sizeof(*node->slots))) {
        sheaf__free(copy);
        return false;
    }
    node->slots[node->slot_count++] = (struct sheaf__graph_slot){copy, variable, value};
    return true;
}

int32_t sheaf__graph_child(const struct sheaf__graph_node *node, const char *name, size_t near)
{
    if (near < node->child_count && !strcmp(node->children[near].name, name))
        return node->children[near].node;
    for (size_t i = 0; i < node->child_count; i++) {
        if (!strcmp(node->children[i].name, name))
            return node->children[i].node;
    }
    return -1;
}

const struct sheaf__graph_attribute *sheaf__graph_attribute(const struct sheaf__graph_node *node,
                                                            const char *name)
{
    for (size_t i = 0; i < node->attribute_count; i++) {
        if (!strcmp(node->attributes[i].name, name))
            return &node->attributes[i];
    }
    return NULL;
}
