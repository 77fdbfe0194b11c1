/* SPDX-License-Identifier: Apache-2.0 */
/* Tuples, lists and dicts: by print on one line (P6.1), by tf.print laid out as Python's pprint
 * does (P8.2). */
#include "tensor/print.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH       80
#define PLACEHOLDER 4 /* columns of '{}', which stands for a tensor while lines are laid out */

static void print_key(struct sheaf__str *out, const char *key)
{
    if (key[0] && strspn(key, "0123456789") == strlen(key))
        sheaf__str_add(out, key);
    else
        sheaf__print_quoted(out, key);
}

/* Characters, not bytes. */
static size_t length_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static size_t key_length(const char *key)
{
    struct sheaf__str text = {0};
    print_key(&text, key);
    size_t n = length_of(sheaf__str_text(&text));
    sheaf__str_free(&text);
    return n;
}

static bool is_container(const struct sheaf__node *node)
{
    return node->kind == '(' || node->kind == '[' || node->kind == '{';
}

static const char *closing(const struct sheaf__node *node)
{
    if (node->kind == '(')
        return node->count == 1 ? ",)" : ")";
    return node->kind == '[' ? "]" : "}";
}

/* A dict's children by key, as tf.print has them: the child that comes after `before` (NULL: the
 * first). Few children, so no table. */
static const struct sheaf__node *next_sorted(const struct sheaf__node *dict,
                                             const struct sheaf__node *before)
{
    const struct sheaf__node *best = NULL;
    for (size_t i = 0; i < dict->count; i++) {
        const struct sheaf__node *child = &dict->children[i];
        if (before && strcmp(child->key, before->key) <= 0)
            continue;
        if (!best || strcmp(child->key, best->key) < 0)
            best = child;
    }
    return best;
}

static const struct sheaf__node *child_at(const struct sheaf__node *node, size_t i,
                                          const struct sheaf__node *before, bool sorted)
{
    return sorted && node->kind == '{' ? next_sorted(node, before) : &node->children[i];
}

/* ---- on one line ---- */

/* What stands for the leaf: a number itself, for a tensor the placeholder. */
static size_t leaf_length(const sheaf_tensor *t)
{
    if (t && !t->plain)
        return PLACEHOLDER;
    struct sheaf__str text = {0};
    sheaf__print_leaf(&text, t, SHEAF__TF_PRINT);
    size_t n = length_of(sheaf__str_text(&text));
    sheaf__str_free(&text);
    return n;
}

static size_t line_length(const struct sheaf__node *node)
{
    if (node->kind == 't')
        return leaf_length(node->tensor);
    if (!is_container(node))
        return length_of(node->text);
    size_t n = 1 + strlen(closing(node));
    for (size_t i = 0; i < node->count; i++) {
        const struct sheaf__node *child = &node->children[i];
        n += (i ? 2 : 0) + line_length(child);
        if (node->kind == '{')
            n += key_length(child->key) + 2;
    }
    return n;
}

static void print_line(struct sheaf__str *out, const struct sheaf__node *node,
                       enum sheaf__form form)
{
    if (!is_container(node)) {
        if (node->kind == 't')
            sheaf__print_leaf(out, node->tensor, form);
        else
            sheaf__str_add(out, node->text);
        return;
    }
    const struct sheaf__node *child = NULL;
    sheaf__str_char(out, node->kind);
    for (size_t i = 0; i < node->count; i++) {
        child = child_at(node, i, child, form == SHEAF__TF_PRINT);
        sheaf__str_add(out, i ? ", " : "");
        if (node->kind == '{') {
            print_key(out, child->key);
            sheaf__str_add(out, ": ");
        }
        print_line(out, child, form);
    }
    sheaf__str_add(out, closing(node));
}

/* ---- laid out: `column` is where the node starts, `after` what must follow it on its last line
 * ---- */

static void layout(struct sheaf__str *out, const struct sheaf__node *node, size_t column,
                   size_t after)
{
    if (!is_container(node) || line_length(node) + column + after <= WIDTH) {
        print_line(out, node, SHEAF__TF_PRINT);
        return;
    }
    const struct sheaf__node *child = NULL;
    sheaf__str_char(out, node->kind);
    column++;
    for (size_t i = 0; i < node->count; i++) {
        size_t at = column;
        bool last = i + 1 == node->count;
        child = child_at(node, i, child, true);
        if (i > 0) {
            sheaf__str_add(out, ",\n");
            for (size_t k = 0; k < column; k++)
                sheaf__str_char(out, ' ');
        }
        if (node->kind == '{') {
            print_key(out, child->key);
            sheaf__str_add(out, ": ");
            at += key_length(child->key) + 2;
        }
        layout(out, child, at, last ? after + strlen(closing(node)) : 1);
    }
    sheaf__str_add(out, closing(node));
}

void sheaf__print_node(struct sheaf__str *out, const struct sheaf__node *node,
                       enum sheaf__form form)
{
    if (node->kind == 't')
        sheaf__print_tensor(out, node->tensor, form);
    else if (form == SHEAF__TF_PRINT)
        layout(out, node, 0, 0);
    else
        print_line(out, node, form);
}
