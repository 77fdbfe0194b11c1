/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/tensor.h"

#include "base/error.h"
#include "tensor/frame.h"
#include "tensor/heap.h"
#include "tensor/shape.h"

#include <string.h>

/* ---- headers ---- */

static void destroy(void *object)
{
    sheaf_tensor *t = object;
    sheaf__unref(t->buffer);
    sheaf__unref(atomic_load_explicit(&t->gathered, memory_order_relaxed));
    sheaf__unref(t->parts[0]);
    sheaf__unref(t->parts[1]);
    if (t->error)
        sheaf__heap_free(t->heap, t->error, sizeof(*t->error));
    sheaf__heap_free(t->heap, t, sizeof(*t));
}

static const struct sheaf__class tensor_class = {"tensor", destroy};

static sheaf_error no_memory_error = {
    .status = SHEAF_ERR_RESOURCE_EXHAUSTED,
    .origin = {.index = -1},
    .peer = {.index = -1},
    .offset = UINT64_MAX,
    .record = UINT64_MAX,
    .message = "not enough memory for a tensor",
};

/* What stands for a tensor when there is no memory even for a failed one. Counted like any other,
 * but its first count is never given back. */
static sheaf_tensor no_memory = {
    .object = {.refs = 1, .cls = &tensor_class},
    .error = &no_memory_error,
};

static sheaf_tensor *new_header(struct sheaf__heap *heap, sheaf_error *err)
{
    sheaf_tensor *t = sheaf__heap_alloc(heap, sizeof(*t));
    if (!t) {
        sheaf__no_memory(err, "a tensor");
        return NULL;
    }
    memset(t, 0, sizeof(*t));
    sheaf__object_init(&t->object, &tensor_class);
    t->heap = heap;
    return t;
}

/* ---- making ---- */

/* A dense header over `buffer`, whose count it takes over. */
static sheaf_tensor *over(sheaf_dtype dtype, sheaf_shape shape, struct sheaf__buffer *buffer,
                          size_t offset, sheaf_error *err)
{
    sheaf_tensor *t = new_header(buffer->device->heap, err);
    if (!t) {
        sheaf__unref(buffer);
        return NULL;
    }
    t->dtype = dtype;
    t->layout = SHEAF__DENSE;
    t->contiguous = true;
    t->shape = shape;
    sheaf__shape_strides(shape, t->strides);
    t->buffer = buffer;
    t->data = (char *)buffer->data + offset;
    t->device = buffer->device;
    return t;
}

sheaf_tensor *sheaf__tensor_new(sheaf_dtype dtype, sheaf_shape shape, struct sheaf__device *device,
                                sheaf_error *err)
{
    int64_t elements;
    size_t bytes;
    if (sheaf__shape_bytes(dtype, shape, &elements, &bytes, err) < 0)
        return NULL;
    if (!device)
        device = sheaf__device_current(err);
    struct sheaf__buffer *buffer = device ? sheaf__buffer_new(device, bytes, err) : NULL;
    if (!buffer)
        return NULL;
    if (dtype == SHEAF_STRING)
        memset(buffer->data, 0, bytes);
    return over(dtype, shape, buffer, 0, err);
}

sheaf_tensor *sheaf__tensor_over(sheaf_dtype dtype, sheaf_shape shape, struct sheaf__buffer *buffer,
                                 size_t offset, sheaf_error *err)
{
    int64_t elements;
    size_t bytes;
    if (sheaf__shape_bytes(dtype, shape, &elements, &bytes, err) < 0)
        return NULL;
    if (offset > buffer->size || bytes > buffer->size - offset) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                     "%s of shape %s at byte %zu does not fit into a buffer of %zu bytes",
                     sheaf_dtype_name(dtype), SHEAF__SHAPE_TEXT(shape), offset, buffer->size);
        return NULL;
    }
    return over(dtype, shape, sheaf__ref(buffer), offset, err);
}

static bool is_row_major(sheaf_shape shape, const int64_t *strides)
{
    int64_t expected = 1;
    if (sheaf_shape_elements(shape) == 0)
        return true; /* whose other sizes may be of any product */
    for (int i = shape.rank - 1; i >= 0; i--) {
        if (shape.dims[i] != 1 && strides[i] != expected)
            return false;
        expected *= shape.dims[i];
    }
    return true;
}

sheaf_tensor *sheaf__tensor_view(sheaf_tensor *t, sheaf_shape shape, const int64_t *strides,
                                 int64_t offset, sheaf_error *err)
{
    if (t->error || t->layout != SHEAF__DENSE || (!strides && !t->contiguous)) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                     "a view wants a dense tensor, contiguous if it has no strides");
        return NULL;
    }
    sheaf_tensor *view = over(t->dtype, shape, sheaf__ref(t->buffer), 0, err);
    if (!view)
        return NULL;
    view->device = t->device;
    view->data = (char *)t->data + offset * (int64_t)sheaf_dtype_size(t->dtype);
    if (strides) {
        memcpy(view->strides, strides, (size_t)shape.rank * sizeof(*strides));
        view->contiguous = is_row_major(shape, strides);
    }
    return view;
}

sheaf_tensor *sheaf__tensor_alias(sheaf_tensor *t, sheaf_error *err)
{
    if (t->error) {
        *err = *t->error;
        return NULL;
    }
    if (t->layout == SHEAF__DENSE) {
        sheaf_tensor *alias = sheaf__tensor_view(t, t->shape, t->strides, 0, err);
        if (alias)
            alias->plain = t->plain;
        return alias;
    }
    return sheaf__tensor_compose(t->layout, t->parts[0], t->parts[1], t->dtype, t->shape, err);
}

sheaf_tensor *sheaf__tensor_compose(enum sheaf__layout layout, sheaf_tensor *first,
                                    sheaf_tensor *second, sheaf_dtype dtype, sheaf_shape shape,
                                    sheaf_error *err)
{
    sheaf_tensor *t = new_header(first->heap, err);
    if (!t)
        return NULL;
    t->dtype = dtype;
    t->layout = (uint8_t)layout;
    t->shape = shape;
    t->device = first->device;
    t->parts[0] = sheaf__ref(first);
    t->parts[1] = sheaf__ref(second);
    return t;
}

/* ---- handing out ---- */

static sheaf_tensor *failed(const sheaf_error *err)
{
    static const sheaf_error unknown = {
        .status = SHEAF_ERR_INTERNAL,
        .origin = {.index = -1},
        .peer = {.index = -1},
        .offset = UINT64_MAX,
        .record = UINT64_MAX,
        .message = "a tensor failed without an error",
    };
    if (!err || err->status >= 0)
        err = &unknown;
    sheaf__frame_latch(err);
    struct sheaf__heap *heap = sheaf__heap_current(NULL);
    sheaf_tensor *t = heap ? new_header(heap, NULL) : NULL;
    if (!t)
        return &no_memory;
    t->error = sheaf__heap_alloc(heap, sizeof(*t->error));
    if (!t->error) {
        sheaf__unref(t);
        return &no_memory;
    }
    *t->error = *err;
    return t;
}

sheaf_tensor *sheaf__tensor_give(sheaf_tensor *t, const sheaf_error *err)
{
    if (!t)
        t = failed(err);
    if (t == &no_memory)
        return t;
    t = sheaf__frame_own(t);
    return t ? t : &no_memory;
}

sheaf_tensor *sheaf__tensor_fail(sheaf_status status, const char *format, ...)
{
    sheaf_error err;
    va_list args;
    va_start(args, format);
    sheaf__verror(&err, status, format, args);
    va_end(args);
    return sheaf__tensor_give(NULL, &err);
}

sheaf_tensor *sheaf__tensor_first_failed(sheaf_tensor *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!tensors[i])
            return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "argument %zu is NULL", i);
        if (tensors[i]->error) {
            /* It may come from another frame, which ended without anyone asking. */
            sheaf__frame_latch(tensors[i]->error);
            return tensors[i];
        }
    }
    return NULL;
}

sheaf_tensor *sheaf_failed(const sheaf_error *err)
{
    return sheaf__tensor_give(NULL, err);
}

sheaf_tensor *sheaf_tensor_keep(sheaf_tensor *t)
{
    return sheaf__ref(t);
}

void sheaf_tensor_free(sheaf_tensor *t)
{
    sheaf__unref(t);
}

uint64_t sheaf__tensor_id(const sheaf_tensor *t)
{
    static _Atomic uint64_t last;
    /* The number is no part of the value, so it is given to a const tensor, too. */
    _Atomic uint64_t *id = &((sheaf_tensor *)(uintptr_t)t)->id;
    uint64_t now = atomic_load_explicit(id, memory_order_relaxed);
    if (now)
        return now;
    uint64_t mine = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    if (atomic_compare_exchange_strong_explicit(id, &now, mine, memory_order_relaxed,
                                                memory_order_relaxed))
        return mine;
    return now;
}

/* ---- who follows what becomes of a tensor ---- */

static _Atomic(sheaf__derived_fn) derived;

void sheaf__tensor_on_derived(sheaf__derived_fn fn)
{
    atomic_store_explicit(&derived, fn, memory_order_release);
}

sheaf_tensor *sheaf__tensor_derived(sheaf_tensor *from, sheaf_tensor *to, int64_t first)
{
    sheaf__derived_fn fn = atomic_load_explicit(&derived, memory_order_acquire);
    if (fn && sheaf__tensor_ok(to))
        fn(from, to, first);
    return to;
}
