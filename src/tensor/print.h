/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_PRINT_H
#define SHEAF_TENSOR_PRINT_H

/** @file
 *  Printers that append to a text; the public ones of <sheaf/print.h> give the text to the frame
 * (sheaf__frame_str()). Rules P* are those of TensorFlow 2.15 with NumPy 1.26. */

#include "base/str.h"
#include "tensor/spec.h"

#include <sheaf/print.h>

enum sheaf__form {
    SHEAF__REPR,    /**< P1.1 */
    SHEAF__STR,     /**< P1.2 */
    SHEAF__TF_PRINT /**< P1.3, 3 first and last */
};

/** A tensor of any layout, a plain number (P6.2), a failed tensor ("<failed tensor: …>"), NULL
 * ("None"). */
void sheaf__print_tensor(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form);
/** A tensor as a member of a container: in repr form, or as tf.print shows it there (a string in
 * double quotes). */
void sheaf__print_leaf(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form);
/** tf.print of a tensor with `edge` elements at each end of an axis, negative: all (P7.3). */
void sheaf__print_tf(struct sheaf__str *out, const sheaf_tensor *t, int edge);
/** The array alone: "[1. 2.]" in form STR, "array([1., 2.], dtype=float32)" in form REPR, a rank 0
 * as a number by itself. */
void sheaf__print_array(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form);
/** Nested Python lists (P6.8's form for any rank). */
void sheaf__print_list(struct sheaf__str *out, const sheaf_tensor *t);
/** The same with elements of another form. False, and nothing is written, if the tensor, which has
 * not failed, is neither dense nor ragged. */
typedef void (*sheaf__print_element_fn)(struct sheaf__str *out, sheaf_dtype dtype,
                                        const void *element);
bool sheaf__print_nested(struct sheaf__str *out, const sheaf_tensor *t,
                         sheaf__print_element_fn element);

/** One number as Python and NumPy write it alone (P2): shortest digits of its dtype. */
void sheaf__print_number(struct sheaf__str *out, sheaf_dtype dtype, const void *element);
/** Bytes as Python writes them: b'a' (P4.5); and a Python string: 'a'. */
void sheaf__print_bytes(struct sheaf__str *out, sheaf_bytes bytes);
void sheaf__print_quoted(struct sheaf__str *out, const char *text);

/** "(4, 1)"; "TensorSpec(shape=(None, 1), dtype=tf.float32, name=None)" (P6.3); the same for a
 * whole spec. */
void sheaf__print_shape(struct sheaf__str *out, sheaf_shape shape);
void sheaf__print_tensor_spec(struct sheaf__str *out, const sheaf_tensor_spec *spec);
void sheaf__print_spec(struct sheaf__str *out, const sheaf_element_spec *spec);

/** A variable (P5.3): "<tf.Variable 'w:0' shape=(2,) dtype=float32, numpy=array([1., 2.],
 * dtype=float32)>"; `name` without
 *  ":0", NULL: "Variable". tf.print shows the value alone (P8.4). */
void sheaf__print_variable(struct sheaf__str *out, const char *name, const sheaf_tensor *value);
const char *sheaf__print_variable_text(const char *name, const sheaf_tensor *value);

/** "PerReplica:{⏎  0: …,⏎  1: …⏎}" (P5.1, P5.4): begin with the container's name, then an item
 * before each component, then end. */
void sheaf__print_replicas_begin(struct sheaf__str *out, const char *container);
void sheaf__print_replicas_item(struct sheaf__str *out, size_t i);
void sheaf__print_replicas_end(struct sheaf__str *out);

/** What containers are printed from: a tensor, a finished text that is no tensor (a PerReplica in
 * repr form, None, a number), or a tuple, list or dict of such. */
struct sheaf__node {
    char kind;       /**< 't' tensor, 'x' text, '(' tuple, '[' list, '{' dict */
    const char *key; /**< in a dict */
    const sheaf_tensor *tensor;
    const char *text;
    const struct sheaf__node *children;
    size_t count;
};
/** A container as print shows it (P6.1: elements in repr form, in REPR and STR alike) or as
 * tf.print lays it out (P8.2, P8.3). A lone tensor is printed in the form itself. */
void sheaf__print_node(struct sheaf__str *out, const struct sheaf__node *node,
                       enum sheaf__form form);

/** The names of an element's tensors, and how they nest: dotted names become containers in
 * containers. */
struct sheaf__structure {
    size_t count;
    const char *const *names; /**< the first; the next is `stride` bytes further */
    size_t stride;
    char pattern; /**< of the outermost container; 0: a lone tensor */
};
struct sheaf__structure sheaf__structure_of(const sheaf_element *e);
struct sheaf__structure sheaf__structure_of_spec(const sheaf_element_spec *spec);

/** Prints as sheaf__print_node() what has that structure; `leaf(i, user, node)` gives leaf i its
 * kind, tensor or text (which lives until this returns). So a per-replica value prints a tuple of
 * PerReplica: structure of one replica's element, texts as leaves. A key of digits alone is a
 * number: {0: …}. */
void sheaf__print_structure(struct sheaf__str *out, const struct sheaf__structure *s,
                            enum sheaf__form form,
                            void (*leaf)(size_t i, void *user, struct sheaf__node *node),
                            void *user);
/** An element by itself. */
void sheaf__print_element(struct sheaf__str *out, const sheaf_element *e, enum sheaf__form form);

#endif
