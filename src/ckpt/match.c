/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/match.h"

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "tensor/tensor.h"

#include <string.h>

#define ATTRIBUTES "/.ATTRIBUTES/"

static void bind_node(const struct sheaf__ckpt_match *m, int32_t node)
{
    const struct sheaf__graph_node *ours = &m->objects->graph.nodes[node];
    const struct sheaf__graph_node *theirs = &m->file->graph.nodes[m->nodes[node]];
    for (size_t i = 0; i < ours->child_count; i++) {
        int32_t child = ours->children[i].node;
        if (m->nodes[child] < 0)
            m->nodes[child] = sheaf__graph_child(theirs, ours->children[i].name, i);
    }
}

int32_t sheaf__match_slot(const struct sheaf__graph_node *optimizer, const char *name,
                          int32_t variable)
{
    for (size_t i = 0; i < optimizer->slot_count; i++) {
        if (optimizer->slots[i].variable == variable && !strcmp(optimizer->slots[i].name, name))
            return optimizer->slots[i].value;
    }
    return -1;
}

static void bind_slots(const struct sheaf__ckpt_match *m, int32_t node)
{
    const struct sheaf__graph_node *ours = &m->objects->graph.nodes[node];
    for (size_t i = 0; i < ours->slot_count; i++) {
        const struct sheaf__graph_slot *slot = &ours->slots[i];
        if (m->nodes[node] >= 0 && m->nodes[slot->variable] >= 0 && m->nodes[slot->value] < 0)
            m->nodes[slot->value] = sheaf__match_slot(&m->file->graph.nodes[m->nodes[node]],
                                                      slot->name, m->nodes[slot->variable]);
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
static sheaf_status check_names(const struct sheaf__ckpt_match *m, int32_t node, const char *whole,
                                sheaf_error *err)
{
    const struct sheaf__graph_node *ours = &m->objects->graph.nodes[node];
    for (size_t i = 0; i < ours->child_count; i++) {
        const int32_t child = ours->children[i].node;
        if (m->nodes[child] < 0)
            continue;
        const char *mine = plain_name(&m->objects->graph.nodes[child]);
        const char *found = plain_name(&m->file->graph.nodes[m->nodes[child]]);
        const struct sheaf__place place = {m->file->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        if (mine && found && strcmp(mine, found) != 0)
            return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &place,
                                   "saved with another %s: '%s' is its '%s', "
                                   "expected '%s'",
                                   whole, m->objects->nodes[child].path, found, mine);
    }
    return SHEAF_OK;
}

/* Says what the file has more of than ours, with some of the names. */
static void warn_of_others(const struct sheaf__ckpt_match *m, int32_t node, const char *whole)
{
    const struct sheaf__graph_node *ours = &m->objects->graph.nodes[node];
    const struct sheaf__graph_node *theirs = &m->file->graph.nodes[m->nodes[node]];
    struct sheaf__str names = {0};
    const char *last = "";
    int count = 0, named = 0;
    if (m->file->partial)
        return;
    if (m->objects->group && !m->objects->group->cls->restores(m->objects->group))
        return; /* one task speaks for all */
    for (size_t i = 0; i < theirs->child_count; i++) {
        const struct sheaf__graph_node *child = &m->file->graph.nodes[theirs->children[i].node];
        if (!child->has_values || sheaf__graph_child(ours, theirs->children[i].name, i) >= 0)
            continue;
        const char *plain = plain_name(child), *name = plain ? plain : theirs->children[i].name;
        m->file->fates[theirs->children[i].node] = SHEAF__RESTORED_TOLD;
        count++;
        if (named == 3 || strcmp(name, last) == 0 || (named == 2 && strstr(names.text, name)))
            continue;
        sheaf__str_printf(&names, "%s'%s'", named++ ? ", " : "", name);
        last = name;
    }
    if (count)
        sheaf__log(SHEAF_LOG_WARN,
                   "checkpoint %s was saved with another %s: %d value%s of '%s' %s left out (%s%s)",
                   m->file->path, whole, count, count == 1 ? "" : "s", m->objects->nodes[node].path,
                   count == 1 ? "is" : "are", sheaf__str_text(&names), named == 3 ? ", …" : "");
    sheaf__str_free(&names);
}

static void bind_all(const struct sheaf__ckpt_match *m, int32_t first)
{
    const size_t count = m->objects->node_count;
    for (size_t i = 0; i < count; i++)
        m->nodes[i] = i == 0 ? first : -1;
    /* A node comes after the one that first reaches it; others may reach it later. */
    for (size_t i = 0; i < count; i++) {
        if (m->nodes[i] >= 0)
            bind_node(m, (int32_t)i);
    }
    for (size_t i = 0; i < count; i++)
        bind_slots(m, (int32_t)i);
}

/* The parts of a whole are called alike in all of its kind: their names are no variables'. */
static void bind_names(const struct sheaf__ckpt_match *m)
{
    memset(m->nodes, 0, m->objects->node_count * sizeof(*m->nodes));
    for (size_t i = 0; i < m->objects->node_count; i++) {
        const struct sheaf__graph_node *node = &m->objects->graph.nodes[i];
        for (size_t k = 0; k < node->child_count && m->objects->nodes[i].trackable->cls->whole; k++)
            m->nodes[node->children[k].node] = -1;
    }
}

bool sheaf__match_reserve(struct sheaf__ckpt_match *m)
{
    const size_t count = m->objects->node_count + 1;
    return sheaf__array_reserve(&m->nodes, &m->capacity, count, sizeof(*m->nodes)) &&
           sheaf__array_reserve(&m->keys, &m->key_capacity, count, sizeof(*m->keys));
}

void sheaf__match_free(struct sheaf__ckpt_match *m)
{
    sheaf__free(m->nodes);
    sheaf__free(m->keys);
}

sheaf_status sheaf__match_all(struct sheaf__ckpt_match *m, int32_t first, sheaf_error *err)
{
    if (!sheaf__match_reserve(m))
        return sheaf__no_memory(err, "restoring a checkpoint");
    memset(m->keys, 0, m->objects->node_count * sizeof(*m->keys));
    if (!m->file->graph.count) {
        bind_names(m);
        return sheaf__match_elsewhere(m, err);
    }
    bind_all(m, first);
    SHEAF__TRY(sheaf__match_elsewhere(m, err));
    for (size_t i = 0; i < m->objects->node_count; i++) {
        const char *whole = m->objects->nodes[i].trackable->cls->whole;
        if (!whole || m->nodes[i] < 0)
            continue;
        SHEAF__TRY(check_names(m, (int32_t)i, whole, err));
        warn_of_others(m, (int32_t)i, whole);
    }
    return SHEAF_OK;
}

const char *sheaf__match_key(const struct sheaf__ckpt_match *m, const struct sheaf__ckpt_tensor *t)
{
    if (m->nodes[t->node] < 0)
        return NULL;
    if (!m->file->graph.count) {
        const char *name = m->keys[t->node] ? m->keys[t->node] : t->item.saveable.full_name;
        return name && sheaf__bundle_find(m->file->bundle, name) ? name : NULL;
    }
    const char *ours = strstr(t->item.key, ATTRIBUTES) + strlen(ATTRIBUTES);
    const struct sheaf__graph_node *node = &m->file->graph.nodes[m->nodes[t->node]];
    for (size_t i = 0; i < node->attribute_count; i++) {
        const char *tail = strstr(node->attributes[i].key, ATTRIBUTES);
        bool same_name = !strcmp(node->attributes[i].name, t->item.saveable.attribute);
        if (same_name || (tail && !strcmp(tail + strlen(ATTRIBUTES), ours)))
            return node->attributes[i].key;
    }
    return NULL;
}

static bool has_child(const struct sheaf__graph_node *node, int32_t child)
{
    size_t i = 0;
    while (i < node->child_count && node->children[i].node != child)
        i++;
    return i < node->child_count;
}

/* The whole that the file has, but with less in it. NULL: nothing is missing in one. */
static const char *whole_around(const struct sheaf__ckpt_match *m, int32_t node)
{
    for (size_t i = 0; i < m->objects->node_count && m->file->graph.count; i++) {
        const char *whole = m->objects->nodes[i].trackable->cls->whole;
        if (whole && m->nodes[i] >= 0 && has_child(&m->objects->graph.nodes[i], node))
            return whole;
    }
    return NULL;
}

sheaf_status sheaf__match_missing(const struct sheaf__ckpt_match *m,
                                  const struct sheaf__ckpt_tensor *t, sheaf_error *err)
{
    const struct sheaf__place place = {m->file->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    const char *path = m->objects->nodes[t->node].path;
    const char *name = plain_name(&m->objects->graph.nodes[t->node]);
    const char *whole = whole_around(m, t->node);
    if (whole)
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &place,
                               "saved with another %s: it has no '%s', expected '%s'", whole, path,
                               name ? name : t->item.saveable.attribute);
    return sheaf__error_at(err, SHEAF_ERR_NOT_FOUND, &place,
                           "the checkpoint has no value for object '%s' (%s)", path,
                           t->item.saveable.attribute);
}
