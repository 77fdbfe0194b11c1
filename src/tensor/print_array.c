/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets, separators and line breaks of arrays (P4, P7). */
#include "tensor/print_array.h"

#include "tensor/shape.h"

#include <string.h>

#define LINE      75   /* columns */
#define THRESHOLD 1000 /* more elements are summarised */
#define EDGE      3    /* shown at each end of an axis then */

/* Elements of an axis: all, or the first and last `edge`, with dots between. */
struct axis {
    int64_t length, edge;
    bool dots;
};

static struct axis axis_of(int64_t length, int64_t edge)
{
    return (struct axis){length, edge, edge >= 0 && length > 2 * edge};
}

static int64_t axis_count(struct axis axis)
{
    return axis.dots ? 2 * axis.edge + 1 : axis.length;
}

/* Index of what is shown at position `i`; -1 stands for the dots. */
static int64_t axis_index(struct axis axis, int64_t i)
{
    if (!axis.dots || i < axis.edge)
        return i;
    return i == axis.edge ? -1 : axis.length - (2 * axis.edge + 1) + i;
}

/* ---- visiting ---- */

struct visit {
    const struct sheaf__array *array;
    int64_t strides[SHEAF_MAX_RANK];
    bool summary;
    void (*fn)(const void *element, void *user);
    void *user;
};

static void visit_axis(const struct visit *v, int axis, int64_t offset)
{
    if (axis == v->array->shape.rank) {
        v->fn(sheaf__array_at(v->array, offset), v->user);
        return;
    }
    struct axis a = axis_of(v->array->shape.dims[axis], v->summary ? EDGE : -1);
    for (int64_t i = 0; i < axis_count(a); i++) {
        int64_t index = axis_index(a, i);
        if (index >= 0)
            visit_axis(v, axis + 1, offset + index * v->strides[axis]);
    }
}

void sheaf__array_visit(const struct sheaf__array *a, bool summary,
                        void (*fn)(const void *element, void *user), void *user)
{
    struct visit v = {.array = a, .summary = summary, .fn = fn, .user = user};
    sheaf__shape_strides(a->shape, v.strides);
    visit_axis(&v, 0, 0);
}

/* ---- as NumPy prints ---- */

struct layout {
    struct sheaf__str *out;
    const struct sheaf__array *array;
    struct sheaf__array_format format;
    int64_t strides[SHEAF_MAX_RANK];
    bool summary;
    bool commas; /* repr */
};

static void add_blanks(struct sheaf__str *out, int n)
{
    for (int i = 0; i < n; i++)
        sheaf__str_char(out, ' ');
}

/* Drops blanks at the end, of a line that began at `start`. */
static void drop_blanks(struct sheaf__str *out, size_t start)
{
    while (out->text && out->size > start && out->text[out->size - 1] == ' ')
        out->text[--out->size] = '\0';
}

/* P4.3: elements go to a new line, indented by `indent`, where they would pass `width`. */
static void print_row(const struct layout *l, int64_t offset, int indent, int width)
{
    struct sheaf__str *out = l->out;
    struct axis a = axis_of(l->array->shape.dims[l->array->shape.rank - 1], l->summary ? EDGE : -1);
    struct sheaf__str word = {0};
    const char *separator = l->commas ? ", " : " ";
    int limit = width - 1;
    size_t column = (size_t)indent;
    size_t start = out->size;
    for (int64_t i = 0, n = axis_count(a); i < n; i++) {
        int64_t index = axis_index(a, i);
        sheaf__str_clear(&word);
        if (index < 0)
            sheaf__str_add(&word, "...");
        else
            sheaf__array_element(&word, &l->format, sheaf__array_at(l->array, offset + index));
        if (column + word.size > (size_t)limit && column > (size_t)indent) {
            drop_blanks(out, start);
            sheaf__str_char(out, '\n');
            add_blanks(out, indent);
            start = out->size;
            column = (size_t)indent;
        }
        sheaf__str_bytes(out, sheaf__str_text(&word), word.size);
        column += word.size;
        if (i < n - 1) {
            sheaf__str_add(out, separator);
            column += strlen(separator);
        }
    }
    out->failed |= word.failed;
    sheaf__str_free(&word);
}

static void print_block(const struct layout *l, int axis, int64_t offset, int indent, int width)
{
    struct sheaf__str *out = l->out;
    int rank = l->array->shape.rank;
    sheaf__str_char(out, '[');
    if (axis == rank - 1) {
        print_row(l, offset, indent, width);
    } else {
        struct axis a = axis_of(l->array->shape.dims[axis], l->summary ? EDGE : -1);
        for (int64_t i = 0, n = axis_count(a); i < n; i++) {
            int64_t index = axis_index(a, i);
            if (i > 0) {
                sheaf__str_add(out, l->commas ? "," : "");
                for (int k = 0; k < rank - 1 - axis; k++)
                    sheaf__str_char(out, '\n');
                add_blanks(out, indent);
            }
            if (index < 0)
                sheaf__str_add(out, "...");
            else
                print_block(l, axis + 1, offset + index * l->strides[axis], indent + 1, width - 1);
        }
    }
    sheaf__str_char(out, ']');
}

/* `prefix` columns stand before the first bracket, `suffix` after the last. */
static void print_blocks(struct sheaf__str *out, const struct sheaf__array *a, bool commas,
                         int prefix, int suffix)
{
    int64_t elements = sheaf_shape_elements(a->shape);
    if (elements <= 0) {
        sheaf__str_add(out, "[]");
        return;
    }
    struct layout l = {
        .out = out,
        .array = a,
        .summary = elements > THRESHOLD,
        .commas = commas,
    };
    l.format = sheaf__array_format_of(a, l.summary);
    sheaf__shape_strides(a->shape, l.strides);
    print_block(&l, 0, 0, prefix + 1, LINE - suffix);
}

void sheaf__print_array_str(struct sheaf__str *out, const struct sheaf__array *a)
{
    if (a->shape.rank == 0)
        sheaf__print_number(out, a->dtype, a->data);
    else
        print_blocks(out, a, false, 0, 0);
}

/* P4.4 */
static bool is_named(const struct sheaf__array *a)
{
    return sheaf_shape_elements(a->shape) == 0 ||
           (a->dtype != SHEAF_INT64 && a->dtype != SHEAF_FLOAT64 && a->dtype != SHEAF_BOOL);
}

void sheaf__print_array_repr(struct sheaf__str *out, const struct sheaf__array *a)
{
    if (a->shape.rank == 0) {
        sheaf__print_number(out, a->dtype, a->data);
        return;
    }
    size_t start = out->size;
    const char *open = "array(";
    sheaf__str_add(out, open);
    print_blocks(out, a, true, (int)strlen(open), 1);
    if (sheaf_shape_elements(a->shape) == 0 && a->shape.rank != 1) {
        sheaf__str_add(out, ", shape=");
        sheaf__print_shape(out, a->shape);
    }
    if (is_named(a)) {
        const char *name = a->dtype == SHEAF_STRING ? "object" : sheaf_dtype_name(a->dtype);
        sheaf__str_char(out, ',');
        const char *text = sheaf__str_text(out);
        size_t line = out->size;
        while (line > start && text[line - 1] != '\n')
            line--;
        size_t columns = out->size - line + strlen(" dtype=)") + strlen(name);
        sheaf__str_printf(out, "%sdtype=%s", columns > LINE ? "\n      " : " ", name);
    }
    sheaf__str_char(out, ')');
}

/* ---- as tf.print does (P7) ---- */

static void print_tf_axis(struct sheaf__str *out, const struct sheaf__array *a, int edge, int axis,
                          int64_t offset)
{
    int rank = a->shape.rank;
    if (axis == rank) {
        sheaf__print_tf_element(out, a->dtype, sheaf__array_at(a, offset), false);
        return;
    }
    int64_t strides[SHEAF_MAX_RANK];
    sheaf__shape_strides(a->shape, strides);
    struct axis shown = axis_of(a->shape.dims[axis], edge);
    sheaf__str_char(out, '[');
    for (int64_t i = 0, n = axis_count(shown); i < n; i++) {
        int64_t index = axis_index(shown, i);
        if (i > 0 && axis == rank - 1)
            sheaf__str_char(out, ' ');
        if (i > 0 && axis < rank - 1) {
            for (int k = 0; k < rank - 1 - axis; k++)
                sheaf__str_char(out, '\n');
            add_blanks(out, axis + 1);
        }
        if (index < 0)
            sheaf__str_add(out, "...");
        else
            print_tf_axis(out, a, edge, axis + 1, offset + index * strides[axis]);
    }
    sheaf__str_char(out, ']');
}

void sheaf__print_array_tf(struct sheaf__str *out, const struct sheaf__array *a, int edge,
                           bool alone)
{
    if (a->shape.rank == 0)
        sheaf__print_tf_element(out, a->dtype, a->data, alone);
    else
        print_tf_axis(out, a, edge, 0, 0);
}
