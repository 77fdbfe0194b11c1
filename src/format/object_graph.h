/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_OBJECT_GRAPH_H
#define SHEAF_FORMAT_OBJECT_GRAPH_H

/* TrackableObjectGraph: which object of a checkpoint has which children, tensors and slot variables
 * (formats.md 5.1). Stored as a string scalar under SHEAF__OBJECT_GRAPH_KEY. */

#include "base/arena.h"
#include "base/buf.h"

#define SHEAF__OBJECT_GRAPH_KEY "_CHECKPOINTABLE_OBJECT_GRAPH"

struct sheaf__graph_child {
    const char *name;
    int32_t node;
};

/* A tensor of a node: its name there, the variable's own name, its key in the bundle. */
struct sheaf__graph_attribute {
    const char *name;
    const char *full_name;
    const char *key;
};

/* Node `value` is slot `name` of the variable at node `variable`. */
struct sheaf__graph_slot {
    const char *name;
    int32_t variable;
    int32_t value;
};

struct sheaf__graph_node {
    struct sheaf__graph_child *children;
    struct sheaf__graph_attribute *attributes;
    struct sheaf__graph_slot *slots;
    size_t child_count, child_capacity;
    size_t attribute_count, attribute_capacity;
    size_t slot_count, slot_capacity;
    const char *saver; /* of a registered saver, else NULL */
    const char *saver_object;
    bool has_values; /* it or a node below it holds tensors */
};

/* Node 0 is the root. Zeroed is empty. */
struct sheaf__object_graph {
    struct sheaf__graph_node *nodes;
    size_t count, capacity;
    struct sheaf__arena arena; /* texts and lists of the nodes */
};

/* SHEAF_ERR_DATA_LOSS: not such a message, or it names a node that is not there. */
sheaf_status sheaf__object_graph_read(struct sheaf__object_graph *graph, const void *data,
                                      size_t size, sheaf_error *err);
/* Appends the message as TensorFlow would write it; sets has_values of every node first. */
sheaf_status sheaf__object_graph_write(struct sheaf__object_graph *graph, struct sheaf__buf *out,
                                       sheaf_error *err);
void sheaf__object_graph_free(struct sheaf__object_graph *graph);

/* Building one. Texts live as long as the graph: those that do not are copied first. False, NULL: no memory. */
bool sheaf__object_graph_add(struct sheaf__object_graph *graph); /* one more node */
char *sheaf__graph_text(struct sheaf__object_graph *graph, const void *text, size_t size);
bool sheaf__graph_add_child(struct sheaf__object_graph *graph, size_t node,
                            const struct sheaf__graph_child *child);
bool sheaf__graph_add_attribute(struct sheaf__object_graph *graph, size_t node,
                                const struct sheaf__graph_attribute *attribute);
bool sheaf__graph_add_slot(struct sheaf__object_graph *graph, size_t node,
                           const struct sheaf__graph_slot *slot);
/* Node number of the child of that name, -1 if there is none; looks at edge `near` first. */
int32_t sheaf__graph_child(const struct sheaf__graph_node *node, const char *name, size_t near);
/* The attribute of that name, or NULL. */
const struct sheaf__graph_attribute *sheaf__graph_attribute(const struct sheaf__graph_node *node,
                                                            const char *name);

#endif
