/* SPDX-License-Identifier: Apache-2.0 */
#include "format/element_wire.h"

#include "base/error.h"
#include "base/mem.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <string.h>

/* Where `bytes` of numbers may begin: what is longer than a line of the cache begins at one. */
static size_t alignment_of(size_t bytes)
{
    return bytes >= SHEAF__ELEMENT_ALIGN ? SHEAF__ELEMENT_ALIGN : sizeof(uint64_t);
}

/* Bytes from `offset` to the next multiple. */
static size_t gap(size_t offset, size_t alignment)
{
    return (alignment - offset % alignment) % alignment;
}

/* ---- writing ---- */

struct put {
    struct sheaf__buf *buf;
    size_t origin; /* address of byte 0 of the buffer, modulo the alignment */
};

static void put_numbers(const struct put *p, const void *numbers, size_t bytes)
{
    static const uint8_t zeros[SHEAF__ELEMENT_ALIGN];
    size_t pad = gap(p->origin + p->buf->size, alignment_of(bytes));
    sheaf__buf_bytes(p->buf, zeros, pad);
    sheaf__buf_bytes(p->buf, numbers, bytes);
}

static void put_strings(const struct put *p, const sheaf_bytes *strings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sheaf__buf_varint(p->buf, strings[i].size);
    for (size_t i = 0; i < count; i++)
        sheaf__buf_bytes(p->buf, strings[i].data, strings[i].size);
}

static sheaf_status put_body(const struct put *p, const sheaf_tensor *t, sheaf_error *err)
{
    if (t->error)
        return sheaf__error_copy(err, t->error);
    sheaf__buf_varint(p->buf, (uint64_t)t->dtype);
    sheaf__buf_byte(p->buf, t->layout);
    sheaf__buf_byte(p->buf, t->plain);
    sheaf__buf_varint(p->buf, (uint64_t)t->shape.rank);
    for (int axis = 0; axis < t->shape.rank; axis++)
        sheaf__buf_varint(p->buf, (uint64_t)(t->shape.dims[axis] + 1));
    if (t->layout != SHEAF__DENSE) {
        SHEAF__TRY(put_body(p, t->parts[0], err));
        return put_body(p, t->parts[1], err);
    }
    const void *elements = sheaf__tensor_host(t, err);
    if (!elements)
        return err->status;
    if (t->dtype == SHEAF_STRING)
        put_strings(p, elements, (size_t)sheaf_shape_elements(t->shape));
    else
        put_numbers(p, elements, sheaf__tensor_size(t));
    return SHEAF_OK;
}

sheaf_status sheaf__element_wire_put(struct sheaf__buf *buf, size_t start, size_t phase,
                                     const sheaf_element *e, sheaf_error *err)
{
    sheaf_error own;
    const struct put p = {buf, phase + SHEAF__ELEMENT_ALIGN - start % SHEAF__ELEMENT_ALIGN};
    sheaf__buf_byte(buf, (uint8_t)e->pattern);
    sheaf__buf_varint(buf, e->count);
    for (size_t i = 0; i < e->count; i++) {
        sheaf__buf_sized(buf, e->items[i].name, strlen(e->items[i].name));
        SHEAF__TRY(put_body(&p, e->items[i].tensor, err ? err : &own));
    }
    return sheaf__buf_check(buf, "the bytes of an element", err);
}

/* ---- reading ---- */

struct get {
    struct sheaf__cursor *c;
    size_t phase;
    void *owner;
    struct sheaf__buffer *buffer; /* over all the bytes; counted, made when first needed */
    sheaf_error *err;
};

/* What a body says before its elements. */
struct head {
    sheaf_dtype dtype;
    uint8_t layout, plain;
    sheaf_shape shape;
};

static __attribute__((cold)) sheaf_status malformed(const struct get *g, const char *what)
{
    return sheaf__error(g->err, SHEAF_ERR_DATA_LOSS, "byte %zu of %zu: %s is malformed",
                        sheaf__cursor_offset(g->c), (size_t)(g->c->end - g->c->start), what);
}

static sheaf_status get_head(const struct get *g, struct head *head)
{
    uint32_t dtype, rank;
    int64_t dims[SHEAF_MAX_RANK];
    if (!sheaf__cursor_varint32(g->c, &dtype) || dtype >= SHEAF__DTYPES ||
        sheaf_dtype_size((sheaf_dtype)dtype) == 0)
        return malformed(g, "the dtype of a tensor");
    if (!sheaf__cursor_byte(g->c, &head->layout) || head->layout > SHEAF__ROWS ||
        !sheaf__cursor_byte(g->c, &head->plain) || head->plain > 1)
        return malformed(g, "the layout of a tensor");
    if (!sheaf__cursor_varint32(g->c, &rank) || rank > SHEAF_MAX_RANK)
        return malformed(g, "the shape of a tensor");
    for (uint32_t axis = 0; axis < rank; axis++) {
        uint64_t dim;
        if (!sheaf__cursor_varint(g->c, &dim) || dim > INT64_MAX)
            return malformed(g, "the shape of a tensor");
        dims[axis] = (int64_t)dim - 1;
    }
    if (head->plain && (rank > 0 || head->layout != SHEAF__DENSE))
        return malformed(g, "a plain number");
    head->dtype = (sheaf_dtype)dtype;
    head->shape = sheaf_shape_of((int)rank, dims);
    return SHEAF_OK;
}

static sheaf_tensor *get_strings(struct get *g, const struct head *head, size_t count)
{
    size_t total = 0;
    if (count > sheaf__cursor_left(g->c)) {
        malformed(g, "a list of strings");
        return NULL;
    }
    sheaf_tensor *t = sheaf__tensor_new(SHEAF_STRING, head->shape, NULL, g->err);
    if (!t || count == 0)
        return t;
    if (sheaf__string_keep(t, g->owner, g->err) < 0)
        goto failed;
    sheaf_bytes *out = sheaf__tensor_out(t);
    for (size_t i = 0; i < count; i++) {
        uint64_t size;
        if (!sheaf__cursor_varint(g->c, &size) || size > sheaf__cursor_left(g->c) ||
            (total += (size_t)size) > sheaf__cursor_left(g->c)) {
            malformed(g, "the size of a string");
            goto failed;
        }
        out[i].size = (size_t)size;
    }
    const char *at = (const char *)g->c->at;
    for (size_t i = 0; i < count; i++) {
        out[i].data = at;
        at += out[i].size;
    }
    sheaf__cursor_skip(g->c, total);
    return t;
failed:
    sheaf__unref(t);
    return NULL;
}

/* The buffer that numbers are views in. */
static struct sheaf__buffer *buffer_of(struct get *g)
{
    if (g->buffer)
        return g->buffer;
    g->buffer = sheaf__buffer_wrap((void *)(uintptr_t)g->c->start,
                                   (size_t)(g->c->end - g->c->start), NULL, NULL, g->err);
    if (g->buffer && sheaf__buffer_keep(g->buffer, g->owner, g->err) < 0) {
        sheaf__unref(g->buffer);
        g->buffer = NULL;
    }
    return g->buffer;
}

static sheaf_tensor *get_numbers(struct get *g, const struct head *head, size_t bytes)
{
    const uint8_t *at;
    size_t pad = gap(g->phase + sheaf__cursor_offset(g->c), alignment_of(bytes));
    if (!sheaf__cursor_skip(g->c, pad) || !sheaf__cursor_bytes(g->c, bytes, &at)) {
        malformed(g, "the elements of a tensor");
        return NULL;
    }
    if ((uintptr_t)at % alignment_of(bytes) == 0 && bytes > 0) {
        struct sheaf__buffer *buffer = buffer_of(g);
        return buffer ? sheaf__tensor_over(head->dtype, head->shape, buffer,
                                           (size_t)(at - g->c->start), g->err)
                      : NULL;
    }
    sheaf_tensor *t = sheaf__tensor_new(head->dtype, head->shape, NULL, g->err);
    if (t && bytes > 0)
        memcpy(sheaf__tensor_out(t), at, bytes);
    return t;
}

static sheaf_tensor *get_dense(struct get *g, const struct head *head)
{
    int64_t elements;
    size_t bytes;
    sheaf_error ignored;
    if (sheaf__shape_bytes(head->dtype, head->shape, &elements, &bytes, &ignored) < 0) {
        malformed(g, "the shape of a tensor");
        return NULL;
    }
    return head->dtype == SHEAF_STRING ? get_strings(g, head, (size_t)elements)
                                       : get_numbers(g, head, bytes);
}

/* Whether every index of entries or rows is one of the shape. */
static bool indices_fit(const sheaf_tensor *t, sheaf_error *err)
{
    const sheaf_tensor *all = t->parts[SHEAF__INDICES];
    const void *data = sheaf__tensor_host(all, err);
    int64_t n = sheaf_shape_elements(all->shape),
            rank = t->layout == SHEAF__SPARSE ? t->shape.rank : 1;
    bool fit = data != NULL;
    for (int64_t i = 0; fit && i < n; i++) {
        int64_t index = sheaf_tensor_integer(all, i);
        fit = index >= 0 && index < t->shape.dims[i % rank];
    }
    return fit;
}

static sheaf_tensor *get_body(struct get *g, int depth);

static sheaf_tensor *get_parts(struct get *g, const struct head *head, int depth)
{
    sheaf_tensor *first = NULL, *second = NULL, *t = NULL;
    if (depth == SHEAF_MAX_RANK)
        malformed(g, "the layout of a tensor");
    else if ((first = get_body(g, depth + 1)) != NULL)
        second = get_body(g, depth + 1);
    if (second && head->layout == SHEAF__SPARSE)
        t = sheaf__tensor_sparse(first, second, head->shape, g->err);
    else if (second && head->layout == SHEAF__RAGGED)
        t = sheaf__tensor_ragged(first, second, g->err);
    else if (second)
        t = sheaf__tensor_rows(first, second, head->shape, g->err);
    if (t && head->layout != SHEAF__RAGGED && !indices_fit(t, g->err)) {
        sheaf__unref(t);
        t = NULL;
        sheaf__error(g->err, SHEAF_ERR_INVALID_ARGUMENT, "an index is out of range");
    }
    if (second && !t && g->err->status == SHEAF_ERR_INVALID_ARGUMENT)
        malformed(g, "what a tensor is made of");
    sheaf__unref(first);
    sheaf__unref(second);
    return t;
}

static sheaf_tensor *get_body(struct get *g, int depth)
{
    struct head head;
    if (get_head(g, &head) < 0)
        return NULL;
    sheaf_tensor *t =
        head.layout == SHEAF__DENSE ? get_dense(g, &head) : get_parts(g, &head, depth);
    if (t)
        t->plain = head.plain;
    return t;
}

static sheaf_status get_tensor(struct get *g, sheaf_element *e)
{
    const uint8_t *text;
    size_t size;
    if (!sheaf__cursor_sized(g->c, &text, &size) || (size > 0 && memchr(text, '\0', size)))
        return malformed(g, "the name of a tensor");
    char *copy = sheaf__strndup((const char *)text, size);
    const char *name = copy ? sheaf__name(copy) : NULL;
    sheaf__free(copy);
    if (!name)
        return sheaf__no_memory(g->err, "the name of a tensor");
    sheaf_tensor *t = get_body(g, 0);
    sheaf_status status = t ? sheaf__element_add(e, name, t, g->err) : g->err->status;
    sheaf__unref(t);
    return status;
}

sheaf_status sheaf__element_wire_get(struct sheaf__cursor *c, size_t phase, void *owner,
                                     sheaf_element **out, sheaf_error *err)
{
    sheaf_error own;
    struct get g = {.c = c, .phase = phase, .owner = owner, .err = err ? err : &own};
    uint8_t pattern;
    uint64_t count;
    if (!sheaf__cursor_byte(c, &pattern) || (pattern != 0 && !strchr("{([", pattern)) ||
        !sheaf__cursor_varint(c, &count))
        return malformed(&g, "an element");
    sheaf_element *e = sheaf__element_new(g.err);
    sheaf_status status = e ? SHEAF_OK : g.err->status;
    for (uint64_t i = 0; status >= 0 && i < count; i++)
        status = get_tensor(&g, e);
    sheaf__unref(g.buffer);
    if (status < 0) {
        sheaf__unref(e);
        return status;
    }
    e->pattern = (char)pattern;
    *out = e;
    return SHEAF_OK;
}
