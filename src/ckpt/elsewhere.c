/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/match.h"

#include "base/array.h"
#include "base/error.h"
#include "tensor/frame.h"

#include <string.h>

/* Values that a file of another layout has in other places (struct sheaf__elsewhere): the optimizers of TensorFlow that came
 * before Keras 3. */

static sheaf_status no_memory(sheaf_error *err)
{
    return sheaf__no_memory(err, "restoring a checkpoint");
}

static int32_t find_path(const struct sheaf__object_graph *graph, int32_t node, const char *path)
{
    while (node >= 0 && *path) {
        const size_t size = strcspn(path, "/");
        node = sheaf__graph_child(&graph->nodes[node], sheaf__frame_text(path, size), 0);
        path += size + (path[size] == '/');
    }
    return node;
}

/* Whether the file's object is of the layout that has it there. */
static bool is_of(const struct sheaf__graph_node *theirs, const struct sheaf__elsewhere *e)
{
    return (!e->with || sheaf__graph_child(theirs, e->with, 0) >= 0) &&
           (!e->without || sheaf__graph_child(theirs, e->without, 0) < 0);
}

/* The node of the file that an object of the program has taken, in this restore or an earlier one. */
static int32_t taken_by(const struct sheaf__ckpt_match *m, sheaf_trackable *t)
{
    const int32_t node = sheaf__objects_find(m->objects, t);
    return node >= 0 ? m->nodes[node] : sheaf__restored_node(m->file, t);
}

/* Node of the file that has it, without a graph 0; -1: none has. */
static int32_t find(const struct sheaf__ckpt_match *m, int32_t node,
                    const struct sheaf__elsewhere *e)
{
    const struct sheaf__object_graph *graph = &m->file->graph;
    if (!graph->count)
        return e->key && sheaf__bundle_find(m->file->bundle, e->key) ? 0 : -1;
    const struct sheaf__graph_node *theirs = &graph->nodes[m->nodes[node]];
    if (!e->name || !is_of(theirs, e))
        return -1;
    if (!e->variable)
        return find_path(graph, m->nodes[node], e->name);
    const int32_t variable = taken_by(m, e->variable);
    return variable < 0 ? -1 : sheaf__match_slot(theirs, e->name, variable);
}

/* Number of the object that takes the value; one that is nobody's child is added. -1: no memory. */
static int32_t node_of(struct sheaf__ckpt_match *m, int32_t node, const struct sheaf__elsewhere *e,
                       sheaf_error *err)
{
    struct sheaf__str path = {0};
    const int32_t known = sheaf__objects_find(m->objects, e->value);
    if (known >= 0)
        return known;
    sheaf__str_printf(&path, "%s/%s", m->objects->nodes[node].path, e->name ? e->name : e->key);
    if (sheaf__objects_add(m->objects, e->value, sheaf__frame_str(&path), err) < 0)
        return -1;
    const size_t added = m->objects->node_count - 1;
    if (!sheaf__match_reserve(m))
        return no_memory(err), -1;
    m->nodes[added] = -1;
    m->keys[added] = NULL;
    return (int32_t)added;
}

static sheaf_status bind_value(struct sheaf__ckpt_match *m, int32_t node,
                               const struct sheaf__elsewhere *e, sheaf_error *err)
{
    const int32_t found = e->value ? find(m, node, e) : -1;
    if (found < 0)
        return SHEAF_OK;
    const int32_t taker = node_of(m, node, e, err);
    if (taker < 0)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    if (m->nodes[taker] >= 0)
        return SHEAF_OK;
    m->nodes[taker] = found;
    m->keys[taker] = m->file->graph.count ? NULL : e->key;
    const int32_t other = e->instead ? sheaf__objects_find(m->objects, e->instead) : -1;
    if (other >= 0 && m->nodes[other] < 0)
        m->nodes[other] = SHEAF__MATCH_NOT_MISSED;
    return SHEAF_OK;
}

/* What the layout does not have is not missing. */
static void excuse(struct sheaf__ckpt_match *m, const struct sheaf__elsewhere *e)
{
    const int32_t taker = e->value ? sheaf__objects_find(m->objects, e->value) : -1;
    if (taker >= 0 && m->nodes[taker] == -1 && e->lack != SHEAF__LACK_FAILS)
        m->nodes[taker] =
            e->lack == SHEAF__LACK_TOLD ? SHEAF__MATCH_LACKS : SHEAF__MATCH_NOT_MISSED;
}

/* Whether the file has all that the object has, where the object has it. */
static bool is_whole(const struct sheaf__ckpt_match *m, int32_t node)
{
    const struct sheaf__graph_node *ours = &m->objects->graph.nodes[node];
    size_t found = 0;
    for (size_t i = 0; i < ours->child_count && m->file->graph.count; i++)
        found += m->nodes[ours->children[i].node] >= 0;
    return found && found == ours->child_count;
}

sheaf_status sheaf__match_elsewhere(struct sheaf__ckpt_match *m, sheaf_error *err)
{
    const size_t count = m->objects->node_count;
    for (size_t i = 0; i < count; i++) {
        sheaf_trackable *t = m->objects->nodes[i].trackable;
        struct sheaf__elsewhere e;
        if (!t->cls->elsewhere || m->nodes[i] < 0 || is_whole(m, (int32_t)i))
            continue;
        for (size_t k = 0; t->cls->elsewhere(t, k, &e); k++)
            SHEAF__TRY(bind_value(m, (int32_t)i, &e, err));
        for (size_t k = 0; t->cls->elsewhere(t, k, &e); k++)
            excuse(m, &e);
    }
    return SHEAF_OK;
}
