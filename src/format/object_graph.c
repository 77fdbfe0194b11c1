/* SPDX-License-Identifier: Apache-2.0 */
#include "format/object_graph.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"

#include <string.h>

void sheaf__object_graph_free(struct sheaf__object_graph *graph)
{
    sheaf__arena_clear(&graph->arena);
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

char *sheaf__graph_text(struct sheaf__object_graph *graph, const void *text, size_t size)
{
    return sheaf__arena_text(&graph->arena, text, size);
}

bool sheaf__graph_add_child(struct sheaf__object_graph *graph, size_t node,
                            const struct sheaf__graph_child *child)
{
    struct sheaf__graph_node *n = &graph->nodes[node];
    if (!sheaf__arena_reserve(&graph->arena, &n->children, &n->child_capacity, n->child_count + 1,
                              sizeof(*child)))
        return false;
    n->children[n->child_count++] = *child;
    return true;
}

bool sheaf__graph_add_attribute(struct sheaf__object_graph *graph, size_t node,
                                const struct sheaf__graph_attribute *attribute)
{
    struct sheaf__graph_node *n = &graph->nodes[node];
    if (!sheaf__arena_reserve(&graph->arena, &n->attributes, &n->attribute_capacity,
                              n->attribute_count + 1, sizeof(*attribute)))
        return false;
    n->attributes[n->attribute_count++] = *attribute;
    return true;
}

bool sheaf__graph_add_slot(struct sheaf__object_graph *graph, size_t node,
                           const struct sheaf__graph_slot *slot)
{
    struct sheaf__graph_node *n = &graph->nodes[node];
    if (!sheaf__arena_reserve(&graph->arena, &n->slots, &n->slot_capacity, n->slot_count + 1,
                              sizeof(*slot)))
        return false;
    n->slots[n->slot_count++] = *slot;
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
