/* SPDX-License-Identifier: Apache-2.0 */
/* Elements and specs: flat lists of names made into the containers that they stand for. */
#include "base/mem.h"
#include "tensor/frame.h"
#include "tensor/print.h"
#include "tensor/shape.h"

#include <string.h>

static const char *name_at(const struct sheaf__structure *s, size_t i)
{
    return *(const char *const *)(const void *)((const char *)s->names + i * s->stride);
}

struct sheaf__structure sheaf__structure_of(const sheaf_element *e)
{
    return (struct sheaf__structure){
        .count = e->count,
        .names = &e->items[0].name,
        .stride = sizeof(e->items[0]),
        .pattern = sheaf__element_pattern(e),
    };
}

struct sheaf__structure sheaf__structure_of_spec(const sheaf_element_spec *spec)
{
    return (struct sheaf__structure){
        .count = spec->count,
        .names = &spec->specs[0].name,
        .stride = sizeof(spec->specs[0]),
        .pattern = sheaf__spec_pattern(spec),
    };
}

/* ---- the tree ---- */

struct builder {
    char **rest;              /* what is left of each name below the container at hand */
    size_t *order;            /* leaves, those of one container side by side */
    struct sheaf__node *pool; /* nodes not used yet */
    void (*leaf)(size_t i, void *user, struct sheaf__node *node);
    void *user;
};

static size_t segment_of(const struct builder *b, size_t leaf)
{
    return strcspn(b->rest[leaf], ".");
}

/* Whether two leaves go into one container: their names have the same first segment and go on. */
static bool is_one_group(const struct builder *b, size_t x, size_t y)
{
    size_t n = segment_of(b, x);
    return n == segment_of(b, y) && b->rest[x][n] && b->rest[y][n] &&
           !memcmp(b->rest[x], b->rest[y], n);
}

/* End of the group that starts at `at`. */
static size_t group_end(const struct builder *b, size_t at, size_t to)
{
    size_t end = at + 1;
    while (end < to && is_one_group(b, b->order[at], b->order[end]))
        end++;
    return end;
}

/* Brings the leaves [from, to) of each group together, in order of their first; returns the number
 * of groups. */
static size_t regroup(struct builder *b, size_t from, size_t to)
{
    size_t groups = 0;
    for (size_t at = from; at < to; groups++) {
        size_t end = at + 1;
        for (size_t k = at + 1; k < to; k++) {
            size_t leaf = b->order[k];
            if (!is_one_group(b, b->order[at], leaf))
                continue;
            memmove(&b->order[end + 1], &b->order[end], (k - end) * sizeof(leaf));
            b->order[end++] = leaf;
        }
        at = end;
    }
    return groups;
}

static void build(struct builder *b, size_t from, size_t to, char pattern, struct sheaf__node *node)
{
    size_t count = regroup(b, from, to);
    struct sheaf__node *children = b->pool;
    b->pool += count;
    size_t i = 0;
    for (size_t at = from, end; at < to; at = end, i++) {
        size_t first = b->order[at];
        char *key = b->rest[first];
        size_t segment = segment_of(b, first);
        end = group_end(b, at, to);
        if (key[segment]) {
            for (size_t k = at; k < end; k++) {
                b->rest[b->order[k]][segment] = '\0';
                b->rest[b->order[k]] += segment + 1;
            }
            build(b, at, end, 0, &children[i]);
        } else {
            b->leaf(first, b->user, &children[i]);
        }
        children[i].key = key;
    }
    if (!pattern)
        pattern = sheaf__name_pattern(count ? &children[0].key : NULL, sizeof(*children), count);
    node->kind = pattern ? pattern : '(';
    node->children = children;
    node->count = count;
}

void sheaf__print_structure(struct sheaf__str *out, const struct sheaf__structure *s,
                            enum sheaf__form form,
                            void (*leaf)(size_t i, void *user, struct sheaf__node *node),
                            void *user)
{
    struct sheaf__node root = {0};
    if (!s->pattern) {
        leaf(0, user, &root);
        sheaf__print_node(out, &root, form);
        return;
    }
    size_t nodes = s->count;
    for (size_t i = 0; i < s->count; i++)
        for (const char *dot = name_at(s, i); (dot = strchr(dot, '.')); dot++)
            nodes++;
    struct builder b = {.leaf = leaf, .user = user};
    struct sheaf__node *pool = sheaf__calloc(nodes + 1, sizeof(*pool));
    char **copies = sheaf__calloc(2 * s->count + 1, sizeof(*copies));
    b.order = sheaf__calloc(s->count + 1, sizeof(*b.order));
    bool ready = pool && copies && b.order;
    b.pool = pool;
    b.rest = copies ? copies + s->count : NULL;
    for (size_t i = 0; ready && i < s->count; i++) {
        b.order[i] = i;
        copies[i] = b.rest[i] = sheaf__strdup(name_at(s, i));
        ready = copies[i] != NULL;
    }
    if (ready) {
        build(&b, 0, s->count, s->pattern, &root);
        sheaf__print_node(out, &root, form);
    } else {
        out->failed = true;
    }
    for (size_t i = 0; copies && i < s->count; i++)
        sheaf__free(copies[i]);
    sheaf__free(copies);
    sheaf__free(b.order);
    sheaf__free(pool);
}

/* ---- elements ---- */

static void element_leaf(size_t i, void *user, struct sheaf__node *node)
{
    const sheaf_element *e = user;
    node->kind = 't';
    node->tensor = e->items[i].tensor;
}

void sheaf__print_element(struct sheaf__str *out, const sheaf_element *e, enum sheaf__form form)
{
    if (!e) {
        sheaf__str_add(out, "None");
        return;
    }
    struct sheaf__structure s = sheaf__structure_of(e);
    sheaf__print_structure(out, &s, form, element_leaf, (void *)(uintptr_t)e);
}

/* ---- specs (P6.3) ---- */

void sheaf__print_shape(struct sheaf__str *out, sheaf_shape shape)
{
    sheaf__str_add(out, SHEAF__SHAPE_TEXT(shape));
}

void sheaf__print_tensor_spec(struct sheaf__str *out, const sheaf_tensor_spec *spec)
{
    sheaf__str_printf(out, "TensorSpec(shape=%s, dtype=tf.%s, name=None)",
                      SHEAF__SHAPE_TEXT(spec->shape), sheaf_dtype_name(spec->dtype));
}

struct spec_texts {
    const sheaf_element_spec *spec;
    struct sheaf__str *texts;
};

static void spec_leaf(size_t i, void *user, struct sheaf__node *node)
{
    struct spec_texts *t = user;
    sheaf__print_tensor_spec(&t->texts[i], &t->spec->specs[i]);
    node->kind = 'x';
    node->text = sheaf__str_text(&t->texts[i]);
}

void sheaf__print_spec(struct sheaf__str *out, const sheaf_element_spec *spec)
{
    if (!spec) {
        sheaf__str_add(out, "None");
        return;
    }
    struct sheaf__structure s = sheaf__structure_of_spec(spec);
    struct spec_texts texts = {spec, sheaf__calloc(spec->count + 1, sizeof(struct sheaf__str))};
    if (!texts.texts) {
        out->failed = true;
        return;
    }
    sheaf__print_structure(out, &s, SHEAF__REPR, spec_leaf, &texts);
    for (size_t i = 0; i < spec->count; i++) {
        out->failed |= texts.texts[i].failed;
        sheaf__str_free(&texts.texts[i]);
    }
    sheaf__free(texts.texts);
}

/* ---- public ---- */

const char *sheaf_element_str(const sheaf_element *e)
{
    struct sheaf__str out = {0};
    sheaf__print_element(&out, e, SHEAF__STR);
    return sheaf__frame_str(&out);
}

const char *sheaf_element_tf_print(const sheaf_element *e)
{
    struct sheaf__str out = {0};
    sheaf__print_element(&out, e, SHEAF__TF_PRINT);
    return sheaf__frame_str(&out);
}

const char *sheaf_spec_str(const sheaf_element_spec *spec)
{
    struct sheaf__str out = {0};
    sheaf__print_spec(&out, spec);
    return sheaf__frame_str(&out);
}
