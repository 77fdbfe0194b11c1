/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_OBJECTS_H
#define SHEAF_CKPT_OBJECTS_H

/* The objects of a checkpoint, found by walking its trackables as tf.train.Checkpoint does
 * (formats.md 5.1, 5.2): nodes breadth first, then the slot variables of optimizers. */

#include "base/map.h"
#include "base/str.h"
#include "ckpt/group.h"
#include "format/object_graph.h"

struct sheaf__ckpt_node {
    sheaf_trackable *trackable;
    const char *path; /* escaped names of the edges that reach it first, joined by "/" */
};

/* One tensor, or one slice of a tensor, of a node. */
struct sheaf__ckpt_tensor {
    struct sheaf__shard_item item; /* item.key lives as long as the graph */
    sheaf_trackable *owner;        /* NULL: `text` is its value */
    size_t number;                 /* of the owner's saveable */
    int32_t node;
    sheaf_bytes text;
    sheaf_tensor *value; /* that the tasks have made together, counted; NULL: not one of these */
};

/* An object whose bytes are kept beside the checkpoint. */
struct sheaf__ckpt_blob {
    sheaf_trackable *trackable;
    const char *path; /* as of a node */
};

struct sheaf__ckpt_objects {
    struct sheaf__ckpt_node *nodes;
    size_t node_count, node_capacity;
    struct sheaf__ckpt_tensor *tensors; /* in the order of nodes */
    size_t tensor_count, tensor_capacity;
    struct sheaf__ckpt_blob *blobs;
    size_t blob_count, blob_capacity;
    struct sheaf__object_graph graph; /* node i of it is nodes[i]; it holds all texts */
    struct sheaf__buf graph_text;     /* its message, once sheaf__objects_add_graph() made it */
    sheaf_tensor **copies; /* by tensor: what is saved of the local ones; NULL: what they are */
    struct sheaf__save_group *group; /* that any object names; NULL: this process alone */
    struct sheaf__strmap by_trackable;
};

/* Walks everything below `root`, whose path is `path` ("": it is the checkpoint's).
 * SHEAF_ERR_INVALID_ARGUMENT: a saveable that makes no sense; SHEAF_ERR_FAILED_PRECONDITION: objects
 * of two strategies. */
sheaf_status sheaf__objects_walk(struct sheaf__ckpt_objects *o, sheaf_trackable *root,
                                 const char *path, sheaf_error *err);
/* Adds one that is no child of any. */
sheaf_status sheaf__objects_add(struct sheaf__ckpt_objects *o, sheaf_trackable *t, const char *path,
                                sheaf_error *err);
/* Appends a name as it stands in keys: "." as "..", "/" as ".S". */
void sheaf__objects_escape(struct sheaf__str *out, const char *name);
/* Number of a trackable's node, -1 if it has none. */
int32_t sheaf__objects_find(const struct sheaf__ckpt_objects *o, sheaf_trackable *t);
/* Appends the object graph as the last tensor, held by this task. */
sheaf_status sheaf__objects_add_graph(struct sheaf__ckpt_objects *o, sheaf_error *err);
void sheaf__objects_free(struct sheaf__ckpt_objects *o);

/* Whether this process holds the tensor. */
bool sheaf__objects_is_local(const struct sheaf__ckpt_objects *o,
                             const struct sheaf__ckpt_tensor *t);
/* Where tasks save in step, by each of them: makes the values that they have shares of. */
sheaf_status sheaf__objects_join(struct sheaf__ckpt_objects *o, sheaf_error *err);
/* Its value, in the frame; fetched from its task if that is another one. */
sheaf_tensor *sheaf__objects_value(const struct sheaf__ckpt_objects *o,
                                   const struct sheaf__ckpt_tensor *t);

#endif
