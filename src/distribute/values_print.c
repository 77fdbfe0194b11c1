/* SPDX-License-Identifier: Apache-2.0 */

/* The texts of distributed values (P5, P6, P8): every field of the structure is a PerReplica or one
 * value. */

#include "base/mem.h"
#include "distribute/values.h"
#include "tensor/frame.h"
#include "tensor/print.h"

/* One print: the text of each field that is a PerReplica lives until the whole is laid out. */
struct layout {
    const sheaf_values *values;
    enum sheaf__form form; /* of the components */
};

/* "PerReplica:{…}" of field `i`, text of the frame. */
static const char *field_text(const sheaf_values *v, size_t i, enum sheaf__form form)
{
    struct sheaf__str out = {0};
    sheaf__print_replicas_begin(&out, "PerReplica");
    for (int r = 0; r < v->count; r++) {
        sheaf__print_replicas_item(&out, (size_t)r);
        sheaf__print_tensor(&out, v->components[r]->items[i].tensor, form);
    }
    sheaf__print_replicas_end(&out);
    return sheaf__frame_str(&out);
}

static void make_leaf(size_t i, void *user, struct sheaf__node *node)
{
    const struct layout *l = user;
    if (sheaf__values_shared(l->values, i)) {
        node->kind = 't';
        node->tensor = l->values->components[0]->items[i].tensor;
    } else {
        node->kind = 'x';
        node->text = field_text(l->values, i, l->form);
    }
}

static const char *print_values(const sheaf_values *v, enum sheaf__form form)
{
    if (!v)
        return "None";
    const sheaf_element *e = v->components[0];
    struct sheaf__str out = {0};
    if (e->count == 1 && sheaf__element_pattern(e) == 0 && !sheaf__values_shared(v, 0)) {
        /* tf.print writes a PerReplica in repr form (P8.3) */
        return field_text(v, 0, form == SHEAF__TF_PRINT ? SHEAF__REPR : form);
    }
    const struct sheaf__structure structure = sheaf__structure_of(e);
    struct layout l = {v, SHEAF__REPR};
    sheaf__print_structure(&out, &structure, form, make_leaf, &l);
    return sheaf__frame_str(&out);
}

const char *sheaf_values_str(const sheaf_values *v)
{
    return print_values(v, SHEAF__STR);
}

const char *sheaf_values_repr(const sheaf_values *v)
{
    return print_values(v, SHEAF__REPR);
}

const char *sheaf_values_tf_print(const sheaf_values *v)
{
    return print_values(v, SHEAF__TF_PRINT);
}

/* The tuple of local results (R4.31): a structure for each replica. */
static const char *print_local(const sheaf_values *v, enum sheaf__form form)
{
    if (!v)
        return "()";
    struct sheaf__node tuple = {.kind = '(', .count = (size_t)v->count};
    struct sheaf__node *items = sheaf__frame_alloc((size_t)v->count * sizeof(*items));
    if (!items)
        return "";
    for (int r = 0; r < v->count; r++) {
        const sheaf_element *e = v->components[r];
        items[r] =
            (struct sheaf__node){.kind = 't', .tensor = e->count ? e->items[0].tensor : NULL};
        if (e->count != 1 || sheaf__element_pattern(e) != 0) {
            struct sheaf__str inner = {0};
            sheaf__print_element(&inner, e, form == SHEAF__STR ? SHEAF__REPR : form);
            items[r] = (struct sheaf__node){.kind = 'x', .text = sheaf__frame_str(&inner)};
        }
    }
    tuple.children = items;
    struct sheaf__str out = {0};
    sheaf__print_node(&out, &tuple, form);
    return sheaf__frame_str(&out);
}

const char *sheaf_local_results_str(const sheaf_values *v)
{
    return print_local(v, SHEAF__STR);
}

const char *sheaf_local_results_tf_print(const sheaf_values *v)
{
    return print_local(v, SHEAF__TF_PRINT);
}
