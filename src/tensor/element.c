/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/element.h"

#include "base/error.h"
#include "base/str.h"
#include "tensor/frame.h"
#include "tensor/heap.h"

#include <stdarg.h>
#include <string.h>

static bool is_inside(const sheaf_element *e)
{
    return e->items == e->inside;
}

static void destroy(void *object)
{
    sheaf_element *e = object;
    for (size_t i = 0; i < e->count; i++)
        sheaf__unref(e->items[i].tensor);
    if (!is_inside(e))
        sheaf__heap_free(e->heap, e->items, e->capacity * sizeof(*e->items));
    sheaf__heap_free(e->heap, e, sizeof(*e));
}

static const struct sheaf__class element_class = {"element", destroy};

sheaf_element *sheaf__element_new(sheaf_error *err)
{
    struct sheaf__heap *heap = sheaf__heap_current(err);
    sheaf_element *e = heap ? sheaf__heap_alloc(heap, sizeof(*e)) : NULL;
    if (!e) {
        sheaf__no_memory(err, "an element");
        return NULL;
    }
    sheaf__object_init(&e->object, &element_class);
    e->heap = heap;
    e->count = 0;
    e->capacity = sizeof(e->inside) / sizeof(e->inside[0]);
    e->pattern = 0;
    e->items = e->inside;
    return e;
}

static sheaf_status grow(sheaf_element *e, sheaf_error *err)
{
    size_t bytes = sheaf__heap_room(2 * e->capacity * sizeof(*e->items));
    struct sheaf__element_item *items = sheaf__heap_alloc(e->heap, bytes);
    if (!items)
        return sheaf__no_memory(err, "an element");
    memcpy(items, e->items, e->count * sizeof(*items));
    if (!is_inside(e))
        sheaf__heap_free(e->heap, e->items, e->capacity * sizeof(*items));
    e->items = items;
    e->capacity = bytes / sizeof(*items);
    return SHEAF_OK;
}

sheaf_status sheaf__element_add(sheaf_element *e, const char *name, sheaf_tensor *t,
                                sheaf_error *err)
{
    if (!name)
        return sheaf__no_memory(err, "a name");
    if (e->count == e->capacity)
        SHEAF__TRY(grow(e, err));
    e->items[e->count++] = (struct sheaf__element_item){name, sheaf__ref(t)};
    return SHEAF_OK;
}

sheaf_element *sheaf__element_copy(const sheaf_element *e, sheaf_error *err)
{
    sheaf_element *copy = sheaf__element_new(err);
    for (size_t i = 0; copy && i < e->count; i++)
        if (sheaf__element_add(copy, e->items[i].name, e->items[i].tensor, err) < 0) {
            sheaf__unref(copy);
            return NULL;
        }
    if (copy)
        copy->pattern = e->pattern;
    return copy;
}

sheaf_status sheaf__element_status(const sheaf_element *e, sheaf_error *err)
{
    for (size_t i = 0; i < e->count; i++) {
        const sheaf_tensor *t = e->items[i].tensor;
        if (!t->error)
            continue;
        sheaf__error_copy(err, t->error);
        if (e->items[i].name[0])
            sheaf__error_prefix(err, "'%s'", e->items[i].name);
        return t->error->status;
    }
    return SHEAF_OK;
}

char sheaf__element_pattern(const sheaf_element *e)
{
    return e->pattern ? e->pattern
                      : sheaf__name_pattern(&e->items[0].name, sizeof(e->items[0]), e->count);
}

/* ---- public ---- */

sheaf_element *sheaf_element_new(void)
{
    sheaf_error err;
    sheaf_element *e = sheaf__element_new(&err);
    if (!e)
        sheaf__frame_latch(&err);
    return sheaf__frame_own(e);
}

sheaf_element *sheaf_element_of(sheaf_tensor *t)
{
    sheaf_element *e = sheaf_element_new();
    if (e)
        sheaf_element_put(e, "", t);
    return e;
}

sheaf_element *sheaf_element_tuple(sheaf_tensor *first, ...)
{
    sheaf_element *e = sheaf_element_new();
    va_list args;
    va_start(args, first);
    size_t i = 0;
    for (sheaf_tensor *t = first; t && e; t = va_arg(args, sheaf_tensor *))
        sheaf_element_put(e, sheaf__name_of(i++), t);
    va_end(args);
    return e;
}

static struct sheaf__element_item *find(const sheaf_element *e, const char *name)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->items[i].name == name || !strcmp(e->items[i].name, name))
            return &e->items[i];
    return NULL;
}

static sheaf_status put(sheaf_element *e, const char *name, sheaf_tensor *t, sheaf_error *err)
{
    if (!e)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "element is NULL");
    if (!t)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "tensor '%s' of an element is NULL",
                            name);
    struct sheaf__element_item *item = find(e, name);
    if (!item)
        return sheaf__element_add(e, sheaf__name(name), t, err);
    sheaf_tensor *before = item->tensor;
    item->tensor = sheaf__ref(t);
    sheaf__unref(before);
    return SHEAF_OK;
}

sheaf_status sheaf_element_put(sheaf_element *e, const char *name, sheaf_tensor *t)
{
    sheaf_error err;
    sheaf_status status = put(e, name ? name : "", t, &err);
    if (status < 0) {
        sheaf__frame_latch(&err);
        return status;
    }
    if (!t->error)
        return SHEAF_OK;
    /* It may have failed in another frame, whose first error nobody asked for. */
    sheaf__frame_latch(t->error);
    return t->error->status;
}

/* "'a', 'b'", as much as a message holds. */
static void list_names(const sheaf_element *e, struct sheaf__str *out)
{
    for (size_t i = 0; i < e->count && out->size < 120; i++)
        sheaf__str_printf(out, "%s'%s'", i ? ", " : "", e->items[i].name);
    if (!e->count)
        sheaf__str_add(out, "none");
}

static sheaf_tensor *missing(const sheaf_element *e, const char *name)
{
    struct sheaf__str names = {0};
    list_names(e, &names);
    sheaf_tensor *t = name
                          ? sheaf__tensor_fail(SHEAF_ERR_NOT_FOUND,
                                               "element has no tensor '%s', its names are %s", name,
                                               sheaf__str_text(&names))
                          : sheaf__tensor_fail(
                                SHEAF_ERR_INVALID_ARGUMENT,
                                "element has %zu tensors where one is expected, their names are %s",
                                e->count, sheaf__str_text(&names));
    sheaf__str_free(&names);
    return t;
}

sheaf_tensor *sheaf_element_get(const sheaf_element *e, const char *name)
{
    if (!e)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "element is NULL");
    if (!name)
        return e->count == 1 ? e->items[0].tensor : missing(e, name);
    const struct sheaf__element_item *item = find(e, name);
    return item ? item->tensor : missing(e, name);
}

size_t sheaf_element_size(const sheaf_element *e)
{
    return e ? e->count : 0;
}

const char *sheaf_element_name(const sheaf_element *e, size_t i)
{
    return e && i < e->count ? e->items[i].name : NULL;
}

sheaf_tensor *sheaf_element_at(const sheaf_element *e, size_t i)
{
    return e && i < e->count ? e->items[i].tensor : NULL;
}

void sheaf_element_nest(sheaf_element *e, char pattern)
{
    if (e && (pattern == '{' || pattern == '(' || pattern == '['))
        e->pattern = pattern;
}

sheaf_element *sheaf_element_keep(sheaf_element *e)
{
    return sheaf__ref(e);
}

void sheaf_element_free(sheaf_element *e)
{
    sheaf__unref(e);
}
