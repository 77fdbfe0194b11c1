/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the object graph of a checkpoint: an error or a graph comes out, whose edges lead to
 * nodes that are there; written, it reads the same and writes the same bytes again. */
#include "target.h"

#include "format/object_graph.h"

#include <stdlib.h>
#include <string.h>

static void check_edges(const struct sheaf__object_graph *graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        const struct sheaf__graph_node *n = &graph->nodes[i];
        for (size_t k = 0; k < n->child_count; k++)
            must((size_t)n->children[k].node < graph->count);
        for (size_t k = 0; k < n->slot_count; k++)
            must((size_t)n->slots[k].variable < graph->count &&
                 (size_t)n->slots[k].value < graph->count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sheaf__object_graph graph, again;
    struct sheaf__buf first = {0}, second = {0};
    sheaf_error err = {0};
    if (sheaf__object_graph_read(&graph, data, size, &err) < 0) {
        must(err.status == SHEAF_ERR_DATA_LOSS && err.message[0]);
        return 0;
    }
    check_edges(&graph);
    must(sheaf__object_graph_write(&graph, &first, &err) == SHEAF_OK);
    must(sheaf__object_graph_read(&again, first.data, first.size, &err) == SHEAF_OK);
    must(again.count == graph.count);
    must(sheaf__object_graph_write(&again, &second, &err) == SHEAF_OK);
    must(first.size == second.size &&
         (!first.size || !memcmp(first.data, second.data, first.size)));
    sheaf__buf_free(&first);
    sheaf__buf_free(&second);
    sheaf__object_graph_free(&graph);
    sheaf__object_graph_free(&again);
    return 0;
}
