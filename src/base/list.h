/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_LIST_H
#define SHEAF_BASE_LIST_H

/* A doubly linked list whose nodes are members of what is listed. A zeroed node is in no list. No
 * locks. */

#include <stdbool.h>
#include <stddef.h>

struct sheaf__list_node {
    struct sheaf__list_node *next;
    struct sheaf__list_node *prev;
};

/* The list's own node: next is the first, prev the last; itself when empty. */
struct sheaf__list {
    struct sheaf__list_node head;
};

static inline void sheaf__list_init(struct sheaf__list *list)
{
    list->head.next = list->head.prev = &list->head;
}
static inline bool sheaf__list_empty(const struct sheaf__list *list)
{
    return list->head.next == &list->head;
}
static inline void sheaf__list_insert_before(struct sheaf__list_node *at,
                                             struct sheaf__list_node *node)
{
    node->next = at;
    node->prev = at->prev;
    at->prev->next = node;
    at->prev = node;
}
static inline void sheaf__list_append(struct sheaf__list *list, struct sheaf__list_node *node)
{
    sheaf__list_insert_before(&list->head, node);
}
static inline void sheaf__list_prepend(struct sheaf__list *list, struct sheaf__list_node *node)
{
    sheaf__list_insert_before(list->head.next, node);
}
static inline bool sheaf__list_linked(const struct sheaf__list_node *node)
{
    return node->next != NULL;
}
/* Takes the node out; nothing if it is in no list. */
static inline void sheaf__list_remove(struct sheaf__list_node *node)
{
    if (!node->next)
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}
/* First node or NULL. */
static inline struct sheaf__list_node *sheaf__list_first(const struct sheaf__list *list)
{
    return sheaf__list_empty(list) ? NULL : list->head.next;
}
/* The node after `node`, NULL after the last. */
static inline struct sheaf__list_node *sheaf__list_next(const struct sheaf__list *list,
                                                        const struct sheaf__list_node *node)
{
    return node->next == &list->head ? NULL : node->next;
}
static inline struct sheaf__list_node *sheaf__list_pop(struct sheaf__list *list)
{
    struct sheaf__list_node *node = sheaf__list_first(list);
    if (node)
        sheaf__list_remove(node);
    return node;
}

/* The struct of type `type` whose member `member` is the node `node`. */
#define SHEAF__CONTAINER(node, type, member) \
    ((type *)(void *)((char *)(node)-offsetof(type, member)))

#endif
