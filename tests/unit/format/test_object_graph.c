/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include "format/bundle.h"
#include "format/object_graph.h"

/* The graph protos of the golden checkpoints: read, compared with expected.json, written again to the
 * same bytes (formats.md 5.1). */

static const char *const folders[] = {
    "checkpoint/object",   "checkpoint/shards",   "checkpoint/ps",      "checkpoint/keras3",
    "checkpoint/mirrored", "checkpoint/tf_keras", "checkpoint/manager",
};

static void check_children(const struct sheaf__graph_node *node, const json_t *expected)
{
    size_t i;
    json_t *edge;
    assert_int_equal(node->child_count, json_array_size(expected));
    json_array_foreach(expected, i, edge)
    {
        assert_string_equal(node->children[i].name, json_string_value(json_array_get(edge, 0)));
        assert_int_equal(node->children[i].node, json_integer_value(json_array_get(edge, 1)));
    }
}

static void check_node(const struct sheaf__graph_node *node, const json_t *expected)
{
    size_t i;
    json_t *part;
    check_children(node, json_object_get(expected, "children"));
    const json_t *attributes = json_object_get(expected, "attributes");
    assert_int_equal(node->attribute_count, json_array_size(attributes));
    json_array_foreach(attributes, i, part)
    {
        const struct sheaf__graph_attribute *a = &node->attributes[i];
        assert_string_equal(a->name, json_string_value(json_array_get(part, 0)));
        assert_string_equal(a->full_name, json_string_value(json_array_get(part, 1)));
        assert_string_equal(a->key, json_string_value(json_array_get(part, 2)));
    }
    const json_t *slots = json_object_get(expected, "slots");
    assert_int_equal(node->slot_count, json_array_size(slots));
    json_array_foreach(slots, i, part)
    {
        assert_string_equal(node->slots[i].name, json_string_value(json_array_get(part, 0)));
        assert_int_equal(node->slots[i].variable, json_integer_value(json_array_get(part, 1)));
        assert_int_equal(node->slots[i].value, json_integer_value(json_array_get(part, 2)));
    }
    assert_int_equal(node->has_values,
                     json_is_true(json_object_get(expected, "has_checkpoint_values")));
}

static sheaf_bytes stored_graph(const char *prefix, sheaf_bundle **b)
{
    sheaf_tensor *t = NULL;
    sheaf_error err;
    rig_ok(sheaf_bundle_open(rig_golden(prefix), b, &err), &err);
    rig_ok(sheaf_bundle_read(*b, SHEAF__OBJECT_GRAPH_KEY, &t, &err), &err);
    return sheaf_tensor_bytes(t, 0);
}

static void check_graph(const char *prefix, const json_t *expected)
{
    sheaf_bundle *b = NULL;
    sheaf_error err;
    sheaf_bytes stored = stored_graph(prefix, &b);
    struct sheaf__object_graph graph;
    rig_ok(sheaf__object_graph_read(&graph, stored.data, stored.size, &err), &err);
    const json_t *nodes = json_object_get(expected, "nodes");
    size_t i;
    json_t *node;
    assert_int_equal(graph.count, json_array_size(nodes));
    json_array_foreach(nodes, i, node)
    {
        check_node(&graph.nodes[i], node);
        graph.nodes[i].has_values = false; /* writing finds it out again */
    }
    struct sheaf__buf out = {0};
    rig_ok(sheaf__object_graph_write(&graph, &out, &err), &err);
    assert_int_equal(out.size, stored.size);
    assert_memory_equal(out.data, stored.data, out.size);
    sheaf__buf_free(&out);
    sheaf__object_graph_free(&graph);
    sheaf_bundle_free(b);
}

static void every_golden_graph(void **state)
{
    (void)state;
    size_t count = 0;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        json_t *root = golden_json(folders[i]), *checkpoint;
        size_t k;
        json_array_foreach(json_object_get(root, "checkpoints"), k, checkpoint)
        {
            char prefix[256];
            const json_t *graph = json_object_get(checkpoint, "object_graph");
            snprintf(prefix, sizeof(prefix), "%s/%s", folders[i],
                     json_string_value(json_object_get(checkpoint, "prefix")));
            if (graph)
                check_graph(prefix, graph);
            count += graph != NULL;
        }
        json_decref(root);
    }
    assert_true(count > 30);
    sheaf_frame_clear();
}

/* Cut anywhere, or with any byte changed: an error or some graph, never harm. */
static void damaged_graphs(void **state)
{
    (void)state;
    sheaf_bundle *b = NULL;
    sheaf_error err;
    sheaf_bytes stored = stored_graph("checkpoint/tf_keras/adam-1", &b);
    uint8_t *copy = malloc(stored.size);
    size_t refused = 0;
    for (size_t i = 0; i < stored.size; i++) {
        struct sheaf__object_graph graph = {0};
        sheaf_status status = sheaf__object_graph_read(&graph, stored.data, i, &err);
        refused += status == SHEAF_ERR_DATA_LOSS;
        sheaf__object_graph_free(&graph);
        memcpy(copy, stored.data, stored.size);
        copy[i] ^= 0xff;
        status = sheaf__object_graph_read(&graph, copy, stored.size, &err);
        assert_true(status == SHEAF_OK || status == SHEAF_ERR_DATA_LOSS);
        sheaf__object_graph_free(&graph);
    }
    assert_true(refused > stored.size / 2);
    free(copy);
    sheaf_bundle_free(b);
}

/* Edges to nodes that are not there. */
static void node_numbers_are_checked(void **state)
{
    (void)state;
    sheaf_error err;
    struct sheaf__object_graph graph;
    static const char child[] = "\x0a\x07\x0a\x05\x08\x01\x12\x01w";
    rig_fails(sheaf__object_graph_read(&graph, child, 9, &err), &err, SHEAF_ERR_DATA_LOSS,
              "object graph");
    static const char slot[] = "\x0a\x09\x1a\x07\x08\x05\x12\x01m\x18\x00";
    rig_fails(sheaf__object_graph_read(&graph, slot, 11, &err), &err, SHEAF_ERR_DATA_LOSS,
              "object graph");
    static const char self[] = "\x0a\x05\x0a\x03\x12\x01w";
    rig_ok(sheaf__object_graph_read(&graph, self, 7, &err), &err);
    assert_int_equal(sheaf__graph_child(&graph.nodes[0], "w", 5), 0);
    assert_int_equal(sheaf__graph_child(&graph.nodes[0], "v", 0), -1);
    sheaf__object_graph_free(&graph);
}

static sheaf_status read_and_write(void *user, sheaf_error *err)
{
    const sheaf_bytes *stored = user;
    struct sheaf__object_graph graph;
    struct sheaf__buf out = {0};
    sheaf_status status = sheaf__object_graph_read(&graph, stored->data, stored->size, err);
    if (status < 0)
        return status;
    status = sheaf__object_graph_write(&graph, &out, err);
    sheaf__buf_free(&out);
    sheaf__object_graph_free(&graph);
    return status;
}

static void without_memory(void **state)
{
    (void)state;
    sheaf_bundle *b = NULL;
    sheaf_bytes stored = stored_graph("checkpoint/tf_keras/sgd-1", &b);
    assert_true(rig_fail_allocations(read_and_write, &stored) > 10);
    sheaf_bundle_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(every_golden_graph),
        rig_test(damaged_graphs),
        rig_test(node_numbers_are_checked),
        rig_test(without_memory),
    };
    return rig_run(tests);
}
