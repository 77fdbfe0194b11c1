/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of every layout, and variables. */
#include "tensor/decimal.h"
#include "tensor/frame.h"
#include "tensor/kernel.h"
#include "tensor/print_array.h"
#include "tensor/shape.h"

#include <string.h>

#define TF_EDGE 3 /* tf.print's summarize */

static bool array_of(struct sheaf__str *out, const sheaf_tensor *t, struct sheaf__array *array)
{
    *array = (struct sheaf__array){t->dtype, t->shape, sheaf__tensor_host(t, NULL)};
    if (!array->data)
        out->failed = true;
    return array->data != NULL;
}

/* ---- dense ---- */

/* P4.8: a text of several lines begins on a line of its own. */
static void add_own_line(struct sheaf__str *out, struct sheaf__str *text)
{
    if (memchr(sheaf__str_text(text), '\n', text->size))
        sheaf__str_char(out, '\n');
    sheaf__str_bytes(out, sheaf__str_text(text), text->size);
    out->failed |= text->failed;
    sheaf__str_free(text);
}

static void print_array_form(struct sheaf__str *out, const struct sheaf__array *a,
                             enum sheaf__form form)
{
    struct sheaf__str text = {0};
    if (form == SHEAF__REPR)
        sheaf__print_array_repr(&text, a);
    else
        sheaf__print_array_str(&text, a);
    add_own_line(out, &text);
}

static void print_array_tensor(struct sheaf__str *out, const struct sheaf__array *a,
                               enum sheaf__form form)
{
    if (form == SHEAF__TF_PRINT) {
        sheaf__print_array_tf(out, a, TF_EDGE, false);
        return;
    }
    struct sheaf__shape_text shape = sheaf__shape_text(a->shape);
    const char *dtype = sheaf_dtype_name(a->dtype);
    if (form == SHEAF__REPR) {
        sheaf__str_printf(out, "<tf.Tensor: shape=%s, dtype=%s, numpy=", shape.text, dtype);
        print_array_form(out, a, form);
        sheaf__str_char(out, '>');
    } else {
        sheaf__str_add(out, "tf.Tensor(");
        print_array_form(out, a, form);
        sheaf__str_printf(out, ", shape=%s, dtype=%s)", shape.text, dtype);
    }
}

/* P6.2 and P8.1: as the Python value it stands for. */
static void print_plain(struct sheaf__str *out, const struct sheaf__array *a, enum sheaf__form form)
{
    if (a->dtype != SHEAF_STRING) {
        sheaf__print_number(out, a->dtype, a->data);
        return;
    }
    const sheaf_bytes *bytes = a->data;
    struct sheaf__str text = {0};
    sheaf__str_bytes(&text, bytes->data, bytes->size);
    if (form == SHEAF__REPR)
        sheaf__print_quoted(out, sheaf__str_text(&text));
    else
        sheaf__str_bytes(out, sheaf__str_text(&text), text.size);
    sheaf__str_free(&text);
}

/* ---- lists: ragged tensors, and any tensor by sheaf_list_str() ---- */

struct list {
    struct sheaf__str *out;
    sheaf__print_element_fn element;
    int64_t edge; /* shown at each end of an axis; negative: all */
};

/* P8.5: floats by %f, strings in quotes. */
static void ragged_element(struct sheaf__str *out, sheaf_dtype dtype, const void *element)
{
    if (sheaf__dtype_is_float(dtype)) {
        char text[400];
        sheaf__decimal_format(text, sizeof(text), 'f', 6, sheaf__kernel_number(element, dtype, 0));
        sheaf__str_add(out, text);
        return;
    }
    if (dtype != SHEAF_STRING) {
        sheaf__print_number(out, dtype, element);
        return;
    }
    const sheaf_bytes *bytes = element;
    sheaf__str_char(out, '\'');
    for (size_t i = 0; i < bytes->size; i++) {
        if (bytes->data[i] == '\'' || bytes->data[i] == '\\')
            sheaf__str_char(out, '\\');
        sheaf__str_char(out, bytes->data[i]);
    }
    sheaf__str_char(out, '\'');
}

/* Separator before item `i` of `n`; true if `i` is where the dots stand for what is left out, up to
 * the index that comes back. */
static bool list_dots(const struct list *l, int64_t n, int64_t *i)
{
    if (*i > 0)
        sheaf__str_add(l->out, ", ");
    if (l->edge < 0 || n <= 2 * l->edge || *i != l->edge)
        return false;
    sheaf__str_add(l->out, "...");
    *i = n - l->edge - 1;
    return true;
}

static void list_array(const struct list *l, const struct sheaf__array *a, int axis, int64_t offset)
{
    if (axis == a->shape.rank) {
        l->element(l->out, a->dtype, sheaf__array_at(a, offset));
        return;
    }
    int64_t strides[SHEAF_MAX_RANK];
    int64_t n = a->shape.dims[axis];
    sheaf__shape_strides(a->shape, strides);
    sheaf__str_char(l->out, '[');
    for (int64_t i = 0; i < n; i++)
        if (!list_dots(l, n, &i))
            list_array(l, a, axis + 1, offset + i * strides[axis]);
    sheaf__str_char(l->out, ']');
}

/* Rows [begin, end) of a ragged tensor or of the values of one, in brackets. */
static void list_rows(const struct list *l, const sheaf_tensor *t, int64_t begin, int64_t end)
{
    int64_t n = end - begin;
    if (t->layout == SHEAF__DENSE) {
        struct sheaf__array a;
        if (!array_of(l->out, t, &a))
            return;
        int64_t strides[SHEAF_MAX_RANK];
        sheaf__shape_strides(a.shape, strides);
        sheaf__str_char(l->out, '[');
        for (int64_t i = 0; i < n; i++)
            if (!list_dots(l, n, &i))
                list_array(l, &a, 1, (begin + i) * strides[0]);
        sheaf__str_char(l->out, ']');
        return;
    }
    const int64_t *splits = sheaf__tensor_host(t->parts[SHEAF__ROW_SPLITS], NULL);
    if (!splits) {
        l->out->failed = true;
        return;
    }
    sheaf__str_char(l->out, '[');
    for (int64_t i = 0; i < n; i++)
        if (!list_dots(l, n, &i))
            list_rows(l, t->parts[SHEAF__RAGGED_VALUES], splits[begin + i], splits[begin + i + 1]);
    sheaf__str_char(l->out, ']');
}

static void print_ragged(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form,
                         int edge)
{
    bool tf = form == SHEAF__TF_PRINT;
    struct list l = {out, tf ? ragged_element : sheaf__print_number, tf ? edge : -1};
    sheaf__str_add(out, tf ? "" : "<tf.RaggedTensor ");
    list_rows(&l, t, 0, t->shape.dims[0]);
    sheaf__str_add(out, tf ? "" : ">");
}

/* ---- sparse tensors, and gradients of look-ups as TensorFlow's IndexedSlices ---- */

static void print_pair(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form,
                       int edge)
{
    bool tf = form == SHEAF__TF_PRINT;
    struct sheaf__array indices, values;
    struct sheaf__array shape = {SHEAF_INT64, SHEAF_SHAPE(t->shape.rank), t->shape.dims};
    if (!array_of(out, t->parts[SHEAF__INDICES], &indices) ||
        !array_of(out, t->parts[SHEAF__VALUES], &values))
        return;
    sheaf__str_printf(out, "%s%s(indices=", tf ? "'" : "",
                      t->layout == SHEAF__SPARSE ? "SparseTensor" : "IndexedSlices");
    const struct sheaf__array *parts[] = {&indices, &values, &shape};
    const char *between[] = {", values=", tf ? ", shape=" : ", dense_shape=", ")"};
    for (int i = 0; i < 3; i++) {
        if (tf)
            sheaf__print_array_tf(out, parts[i], edge, false);
        else
            print_array_tensor(out, parts[i], SHEAF__STR);
        sheaf__str_add(out, between[i]);
    }
    sheaf__str_add(out, tf ? "'" : "");
}

/* ---- any tensor ---- */

static void print(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form, int edge)
{
    struct sheaf__array a;
    if (!t) {
        sheaf__str_add(out, "None");
    } else if (t->error) {
        sheaf__str_printf(out, "<failed tensor: %s>", t->error->message);
    } else if (t->layout == SHEAF__RAGGED) {
        print_ragged(out, t, form, edge);
    } else if (t->layout != SHEAF__DENSE) {
        print_pair(out, t, form, edge);
    } else if (array_of(out, t, &a)) {
        if (t->plain)
            print_plain(out, &a, form);
        else if (form == SHEAF__TF_PRINT)
            sheaf__print_array_tf(out, &a, edge, true);
        else
            print_array_tensor(out, &a, form);
    }
}

void sheaf__print_tensor(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form)
{
    print(out, t, form, TF_EDGE);
}

void sheaf__print_tf(struct sheaf__str *out, const sheaf_tensor *t, int edge)
{
    print(out, t, SHEAF__TF_PRINT, edge);
}

void sheaf__print_leaf(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form)
{
    struct sheaf__array a;
    if (form != SHEAF__TF_PRINT || !sheaf__tensor_ok(t) || t->layout != SHEAF__DENSE)
        print(out, t, form == SHEAF__TF_PRINT ? form : SHEAF__REPR, TF_EDGE);
    else if (array_of(out, t, &a)) {
        if (t->plain)
            print_plain(out, &a, SHEAF__REPR);
        else
            sheaf__print_array_tf(out, &a, TF_EDGE, false);
    }
}

void sheaf__print_array(struct sheaf__str *out, const sheaf_tensor *t, enum sheaf__form form)
{
    struct sheaf__array a;
    if (!sheaf__tensor_ok(t) || t->layout != SHEAF__DENSE)
        print(out, t, form, TF_EDGE);
    else if (array_of(out, t, &a) && form == SHEAF__REPR)
        sheaf__print_array_repr(out, &a);
    else if (a.data)
        sheaf__print_array_str(out, &a);
}

bool sheaf__print_nested(struct sheaf__str *out, const sheaf_tensor *t,
                         sheaf__print_element_fn element)
{
    struct list l = {out, element, -1};
    struct sheaf__array a;
    if (t->layout == SHEAF__RAGGED)
        list_rows(&l, t, 0, t->shape.dims[0]);
    else if (t->layout != SHEAF__DENSE)
        return false;
    else if (array_of(out, t, &a))
        list_array(&l, &a, 0, 0);
    return true;
}

void sheaf__print_list(struct sheaf__str *out, const sheaf_tensor *t)
{
    if (!sheaf__tensor_ok(t) || !sheaf__print_nested(out, t, sheaf__print_number))
        print(out, t, SHEAF__STR, TF_EDGE);
}

/* P5.3 */
void sheaf__print_variable(struct sheaf__str *out, const char *name, const sheaf_tensor *value)
{
    struct sheaf__array a;
    if (!sheaf__tensor_ok(value) || value->layout != SHEAF__DENSE) {
        print(out, value, SHEAF__REPR, TF_EDGE);
        return;
    }
    if (!array_of(out, value, &a))
        return;
    sheaf__str_printf(out,
                      "<tf.Variable '%s:0' shape=%s dtype=%s, numpy=", name ? name : "Variable",
                      SHEAF__SHAPE_TEXT(a.shape), sheaf_dtype_name(a.dtype));
    print_array_form(out, &a, SHEAF__REPR);
    sheaf__str_char(out, '>');
}

/* ---- containers of replicas (P5.1) ---- */

void sheaf__print_replicas_begin(struct sheaf__str *out, const char *container)
{
    sheaf__str_printf(out, "%s:{", container);
}

void sheaf__print_replicas_item(struct sheaf__str *out, size_t i)
{
    sheaf__str_printf(out, "%s\n  %zu: ", i ? "," : "", i);
}

void sheaf__print_replicas_end(struct sheaf__str *out)
{
    sheaf__str_add(out, "\n}");
}

/* ---- public ---- */

const char *sheaf__print_variable_text(const char *name, const sheaf_tensor *value)
{
    struct sheaf__str out = {0};
    sheaf__print_variable(&out, name, value);
    return sheaf__frame_str(&out);
}

const char *sheaf_str(const sheaf_tensor *t)
{
    struct sheaf__str out = {0};
    sheaf__print_tensor(&out, t, SHEAF__STR);
    return sheaf__frame_str(&out);
}

const char *sheaf_repr(const sheaf_tensor *t)
{
    struct sheaf__str out = {0};
    sheaf__print_tensor(&out, t, SHEAF__REPR);
    return sheaf__frame_str(&out);
}

const char *sheaf_tf_print(const sheaf_tensor *t, int summarize)
{
    struct sheaf__str out = {0};
    sheaf__print_tf(&out, t, summarize ? summarize : TF_EDGE);
    return sheaf__frame_str(&out);
}

const char *sheaf_array_str(const sheaf_tensor *t)
{
    struct sheaf__str out = {0};
    sheaf__print_array(&out, t, SHEAF__STR);
    return sheaf__frame_str(&out);
}

const char *sheaf_list_str(const sheaf_tensor *t)
{
    struct sheaf__str out = {0};
    sheaf__print_list(&out, t);
    return sheaf__frame_str(&out);
}
