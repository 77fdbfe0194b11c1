/* SPDX-License-Identifier: Apache-2.0 */
#include "base/farewell.h"

#include "base/context_state.h"

void sheaf__farewell_add(sheaf_context *context, struct sheaf__farewell *farewell)
{
    sheaf__mutex_lock(&context->farewell_lock);
    if (!sheaf__list_linked(&context->farewells.head))
        sheaf__list_init(&context->farewells);
    sheaf__list_append(&context->farewells, &farewell->node);
    sheaf__mutex_unlock(&context->farewell_lock);
}

void sheaf__farewell_remove(sheaf_context *context, struct sheaf__farewell *farewell)
{
    sheaf__mutex_lock(&context->farewell_lock);
    sheaf__list_remove(&farewell->node);
    sheaf__mutex_unlock(&context->farewell_lock);
}

void sheaf__farewell_say(sheaf_context *context, const sheaf_error *cause)
{
    struct sheaf__list_node *node;
    sheaf__mutex_lock(&context->farewell_lock);
    while (sheaf__list_linked(&context->farewells.head) &&
           (node = sheaf__list_pop(&context->farewells))) {
        const struct sheaf__farewell *f = SHEAF__CONTAINER(node, struct sheaf__farewell, node);
        f->say(f->user, cause);
    }
    sheaf__mutex_unlock(&context->farewell_lock);
}
