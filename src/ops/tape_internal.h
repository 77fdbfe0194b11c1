/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_TAPE_INTERNAL_H
#define SHEAF_OPS_TAPE_INTERNAL_H

/** @file
 *  What tape.c writes and backward.c reads.
 *
 *  Everything followed has a *slot*: a watched tensor, a variable (however often it was read), the
 * result of a recorded call. Nodes stand in the order of the calls, so walking them backward meets
 * every user of a slot before its maker. */

#include "ops/tape.h"

#include "tensor/heap.h"

/** An array in the context's heap, or at first in the room behind the tape. */
struct sheaf__tape_array {
    void *data;
    size_t capacity; /**< bytes */
    size_t count;    /**< items */
};

struct sheaf__tape_slot {
    sheaf_tensor *tensor;     /**< NULL: a variable that was only looked up in */
    sheaf_variable *variable; /**< NULL: a tensor's slot */
    int32_t maker;            /**< node; -1: none, a variable or watched */
    int32_t first_user;       /**< node; -1: none */
    int32_t uses;             /**< inputs of nodes */
    int32_t next_final;       /**< next slot with the same first user; -1: none */
};

struct sheaf__tape_input {
    sheaf_tensor *tensor;
    int32_t slot; /**< -1: not followed */
};

struct sheaf__tape_node {
    const struct sheaf__op *op; /**< NULL: a look-up: input 0 the variable (no tensor), 1 the ids */
    struct sheaf__attrs attrs;
    uint32_t first_input, inputs;
    sheaf_tensor *out, *aux;
    int32_t out_slot;
    int32_t finals; /**< first slot whose first user this is; -1: none */
};

struct sheaf__tape_entry {
    const void *key; /**< tensor or variable; NULL: free */
    int32_t slot;
};

struct sheaf_tape {
    struct sheaf__object object;
    struct sheaf__heap *heap;
    size_t bytes;              /**< with the room behind it */
    struct sheaf_tape *parent; /**< next older recording tape of the thread */
    bool linked, paused, persistent, used;
    struct sheaf__step_plan *plan; /**< of the step that started it; NULL: none */
    sheaf_error error;             /**< a record was lost (no memory): no gradient can be right */
    struct sheaf__tape_array kept; /**< counted objects (void *) */
    struct sheaf__tape_array slots, inputs, nodes;
    struct sheaf__tape_array map; /**< hash table; count: used entries */
};

static inline struct sheaf__tape_slot *sheaf__tape_slot(const struct sheaf_tape *t, int32_t i)
{
    return (struct sheaf__tape_slot *)t->slots.data + i;
}
static inline struct sheaf__tape_node *sheaf__tape_node(const struct sheaf_tape *t, int32_t i)
{
    return (struct sheaf__tape_node *)t->nodes.data + i;
}
static inline struct sheaf__tape_input *sheaf__tape_inputs(const struct sheaf_tape *t,
                                                           const struct sheaf__tape_node *n)
{
    return (struct sheaf__tape_input *)t->inputs.data + n->first_input;
}

/** Slot of a tensor or variable, -1 if the tape does not follow it. */
int32_t sheaf__tape_find(const struct sheaf_tape *t, const void *key);
/** Ends recording. */
void sheaf__tape_stop(struct sheaf_tape *t);
/** Whether any tape of the thread records now. */
bool sheaf__tape_any(void);

#endif
