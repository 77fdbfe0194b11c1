/* SPDX-License-Identifier: Apache-2.0 */
#include "format/object_graph.h"

#include "base/error.h"
#include "base/mem.h"
#include "format/wire.h"

#include <string.h>

/* The message of an object graph. */

/* Result of reading a part: whether the bytes parse, and whether there was memory. */
enum outcome { GOOD, MALFORMED, NO_MEMORY };

static bool is_field(const struct sheaf__wire_field *f, uint32_t number, enum sheaf__wire_type type)
{
    return f->number == number && f->type == type;
}

static struct sheaf__cursor inside(const struct sheaf__wire_field *f)
{
    return sheaf__cursor_of(f->bytes.data, f->bytes.size);
}

/* Up to three texts (fields `first_text`…) and two numbers of a sub-message. */
struct parts {
    struct sheaf__wire_field texts[4]; /* by field number; size 0: not there */
    int64_t numbers[4];
};

static bool read_parts(struct sheaf__cursor c, struct parts *parts)
{
    struct sheaf__wire_field f;
    memset(parts, 0, sizeof(*parts));
    while (sheaf__wire_next(&c, &f)) {
        if (f.number > 3)
            continue;
        if (f.type == SHEAF__WIRE_BYTES)
            parts->texts[f.number] = f;
        else if (f.type == SHEAF__WIRE_VARINT)
            parts->numbers[f.number] = (int64_t)f.value;
    }
    return !c.failed;
}

static const char *copy_text(struct sheaf__object_graph *graph, const struct sheaf__wire_field *f)
{
    return sheaf__graph_text(graph, f->bytes.data, f->bytes.size);
}

/* Node numbers are checked when all nodes are known. */
static int32_t node_number(int64_t number)
{
    return number < 0 || number > INT32_MAX ? -1 : (int32_t)number;
}

static enum outcome read_child(struct sheaf__object_graph *graph, size_t node,
                               struct sheaf__cursor c)
{
    struct parts p;
    if (!read_parts(c, &p))
        return MALFORMED;
    const struct sheaf__graph_child child = {copy_text(graph, &p.texts[2]),
                                             node_number(p.numbers[1])};
    return child.name && sheaf__graph_add_child(graph, node, &child) ? GOOD : NO_MEMORY;
}

static enum outcome read_attribute(struct sheaf__object_graph *graph, size_t node,
                                   struct sheaf__cursor c)
{
    struct parts p;
    if (!read_parts(c, &p))
        return MALFORMED;
    const struct sheaf__graph_attribute a = {copy_text(graph, &p.texts[1]),
                                             copy_text(graph, &p.texts[2]),
                                             copy_text(graph, &p.texts[3])};
    return a.name && a.full_name && a.key && sheaf__graph_add_attribute(graph, node, &a)
               ? GOOD
               : NO_MEMORY;
}

static enum outcome read_slot(struct sheaf__object_graph *graph, size_t node,
                              struct sheaf__cursor c)
{
    struct parts p;
    if (!read_parts(c, &p))
        return MALFORMED;
    const struct sheaf__graph_slot slot = {copy_text(graph, &p.texts[2]), node_number(p.numbers[1]),
                                           node_number(p.numbers[3])};
    return slot.name && sheaf__graph_add_slot(graph, node, &slot) ? GOOD : NO_MEMORY;
}

static enum outcome read_saver(struct sheaf__object_graph *graph, size_t node,
                               struct sheaf__cursor c)
{
    struct sheaf__graph_node *n = &graph->nodes[node];
    struct parts p;
    if (!read_parts(c, &p))
        return MALFORMED;
    n->saver = copy_text(graph, &p.texts[1]);
    n->saver_object = copy_text(graph, &p.texts[2]);
    return n->saver && n->saver_object ? GOOD : NO_MEMORY;
}

static enum outcome read_node(struct sheaf__object_graph *graph, size_t node,
                              struct sheaf__cursor c)
{
    struct sheaf__wire_field f;
    struct parts p;
    enum outcome outcome = GOOD;
    while (outcome == GOOD && sheaf__wire_next(&c, &f)) {
        if (f.type != SHEAF__WIRE_BYTES)
            continue;
        if (f.number == 1)
            outcome = read_child(graph, node, inside(&f));
        else if (f.number == 2)
            outcome = read_attribute(graph, node, inside(&f));
        else if (f.number == 3)
            outcome = read_slot(graph, node, inside(&f));
        else if (f.number == 4)
            outcome = read_saver(graph, node, inside(&f));
        else if (f.number == 5 && read_parts(inside(&f), &p))
            graph->nodes[node].has_values = p.numbers[1] != 0;
    }
    return outcome == GOOD && c.failed ? MALFORMED : outcome;
}

/* Every node that is named is there. */
static bool check_numbers(const struct sheaf__object_graph *graph)
{
    size_t count = graph->count;
    for (size_t i = 0; i < count; i++) {
        const struct sheaf__graph_node *node = &graph->nodes[i];
        for (size_t k = 0; k < node->child_count; k++) {
            if ((size_t)node->children[k].node >= count)
                return false;
        }
        for (size_t k = 0; k < node->slot_count; k++) {
            if ((size_t)node->slots[k].variable >= count || (size_t)node->slots[k].value >= count)
                return false;
        }
    }
    return true;
}

sheaf_status sheaf__object_graph_read(struct sheaf__object_graph *graph, const void *data,
                                      size_t size, sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(data, size);
    struct sheaf__wire_field f;
    enum outcome outcome = GOOD;
    *graph = (struct sheaf__object_graph){0};
    while (outcome == GOOD && sheaf__wire_next(&c, &f)) {
        if (!is_field(&f, 1, SHEAF__WIRE_BYTES))
            continue;
        outcome = sheaf__object_graph_add(graph) ? read_node(graph, graph->count - 1, inside(&f))
                                                 : NO_MEMORY;
    }
    if (outcome == GOOD && !c.failed && check_numbers(graph))
        return SHEAF_OK;
    sheaf__object_graph_free(graph);
    if (outcome == NO_MEMORY)
        return sheaf__no_memory(err, "the object graph of a checkpoint");
    return sheaf__error(err, SHEAF_ERR_DATA_LOSS, "the object graph does not parse");
}

/* Writing. */

static void put_number(struct sheaf__buf *buf, uint32_t field, int32_t value)
{
    if (value)
        sheaf__wire_put_varint(buf, field, (uint64_t)value);
}

static void put_text(struct sheaf__buf *buf, uint32_t field, const char *text)
{
    if (*text)
        sheaf__wire_put_text(buf, field, text);
}

/* A finished sub-message; clearing `part` for the next one forgets that memory ran out. */
static void put_part(struct sheaf__buf *out, uint32_t field, struct sheaf__buf *part)
{
    sheaf__wire_put_bytes(out, field, part->data, part->size);
    out->failed |= part->failed;
    sheaf__buf_clear(part);
}

static void put_node(const struct sheaf__graph_node *node, struct sheaf__buf *out,
                     struct sheaf__buf *part)
{
    for (size_t i = 0; i < node->child_count; i++) {
        put_number(part, 1, node->children[i].node);
        put_text(part, 2, node->children[i].name);
        put_part(out, 1, part);
    }
    for (size_t i = 0; i < node->attribute_count; i++) {
        put_text(part, 1, node->attributes[i].name);
        put_text(part, 2, node->attributes[i].full_name);
        put_text(part, 3, node->attributes[i].key);
        put_part(out, 2, part);
    }
    for (size_t i = 0; i < node->slot_count; i++) {
        put_number(part, 1, node->slots[i].variable);
        put_text(part, 2, node->slots[i].name);
        put_number(part, 3, node->slots[i].value);
        put_part(out, 3, part);
    }
    if (node->saver) {
        put_text(part, 1, node->saver);
        put_text(part, 2, node->saver_object);
        put_part(out, 4, part);
    }
    sheaf__wire_put_bytes(out, 5, "\x08\x01", node->has_values ? 2 : 0);
}

/* A node has values if it or a node below it holds tensors. Children may form circles, so this goes
 * on until nothing changes; nodes mostly come before their children, hence backwards. */
static void set_values(struct sheaf__object_graph *graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        struct sheaf__graph_node *node = &graph->nodes[i];
        node->has_values = node->attribute_count || node->slot_count || node->saver;
    }
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = graph->count; i-- > 0;) {
            struct sheaf__graph_node *node = &graph->nodes[i];
            for (size_t k = 0; k < node->child_count && !node->has_values; k++) {
                node->has_values = graph->nodes[node->children[k].node].has_values;
                changed |= node->has_values;
            }
        }
    }
}

sheaf_status sheaf__object_graph_write(struct sheaf__object_graph *graph, struct sheaf__buf *out,
                                       sheaf_error *err)
{
    struct sheaf__buf message = {0}, part = {0};
    set_values(graph);
    for (size_t i = 0; i < graph->count; i++) {
        put_node(&graph->nodes[i], &message, &part);
        put_part(out, 1, &message);
    }
    sheaf__buf_free(&message);
    sheaf__buf_free(&part);
    return sheaf__buf_check(out, "the object graph of a checkpoint", err);
}
