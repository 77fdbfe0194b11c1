/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at tensors. Every public function here takes NULL and failed tensors. */
#include "base/error.h"
#include "tensor/kernel.h"
#include "tensor/strings.h"

#include <string.h>

sheaf_dtype sheaf_tensor_dtype(const sheaf_tensor *t)
{
    return sheaf__tensor_ok(t) ? t->dtype : SHEAF_INVALID_DTYPE;
}

sheaf_shape sheaf_tensor_shape(const sheaf_tensor *t)
{
    /* A failed tensor has zero elements, so it is no scalar. */
    return sheaf__tensor_ok(t) ? t->shape : SHEAF_SHAPE(0);
}

int64_t sheaf_tensor_elements(const sheaf_tensor *t)
{
    if (!sheaf__tensor_ok(t))
        return 0;
    if (t->layout == SHEAF__RAGGED)
        return sheaf_tensor_elements(t->parts[SHEAF__RAGGED_VALUES]);
    return sheaf_shape_elements(t->shape);
}

bool sheaf_tensor_is_plain(const sheaf_tensor *t)
{
    return t && t->plain;
}

const char *sheaf_tensor_device(const sheaf_tensor *t)
{
    return t && t->device ? sheaf__device_full_name(t->device) : "";
}

sheaf_status sheaf_tensor_status(const sheaf_tensor *t, sheaf_error *err)
{
    if (!t)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "tensor is NULL");
    return t->error ? sheaf__error_copy(err, t->error) : SHEAF_OK;
}

size_t sheaf__tensor_size(const sheaf_tensor *t)
{
    if (!sheaf__tensor_ok(t) || t->layout != SHEAF__DENSE)
        return 0;
    return (size_t)sheaf_shape_elements(t->shape) * sheaf_dtype_size(t->dtype);
}

/* ---- bytes ---- */

/* Copies a tensor of another memory to `out` as it lies there; strides reach only over what `t`
 * spans, so a view with gaps is copied with them and gathered here. */
static sheaf_status copy_back(const sheaf_tensor *t, void *out, sheaf_error *err)
{
    struct sheaf__device *host = sheaf__device_host(err);
    if (!host)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    size_t size = sheaf__tensor_size(t);
    if (t->contiguous) {
        SHEAF__TRY(t->device->cls->copy(host, out, t->device, t->data, size, err));
        return t->device->cls->synchronise(t->device, err);
    }
    struct sheaf__buffer *whole = sheaf__buffer_new(host, t->buffer->size, err);
    if (!whole)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf_status status =
        t->device->cls->copy(host, whole->data, t->device, t->buffer->data, t->buffer->size, err);
    if (status == SHEAF_OK)
        status = t->device->cls->synchronise(t->device, err);
    if (status == SHEAF_OK) {
        const char *first =
            (const char *)whole->data + ((const char *)t->data - (const char *)t->buffer->data);
        sheaf__kernel_gather(out, first, sheaf_dtype_size(t->dtype), t->shape, t->strides);
    }
    sheaf__unref(whole);
    return status;
}

sheaf_status sheaf__tensor_copy_out(const sheaf_tensor *t, void *out, sheaf_error *err)
{
    if (!t || t->error)
        return sheaf_tensor_status(t, err);
    if (t->layout != SHEAF__DENSE)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a sparse or ragged tensor has no elements in row-major order");
    size_t size = sheaf__tensor_size(t);
    if (!size)
        return SHEAF_OK;
    if (!t->device->cls->host_memory)
        return copy_back(t, out, err);
    if (t->contiguous)
        memcpy(out, t->data, size);
    else
        sheaf__kernel_gather(out, t->data, sheaf_dtype_size(t->dtype), t->shape, t->strides);
    return SHEAF_OK;
}

/* Makes the contiguous host copy; two threads may both make one, the first is kept. */
static struct sheaf__buffer *gather(const sheaf_tensor *t, sheaf_error *err)
{
    struct sheaf__buffer *copy = sheaf__buffer_new(NULL, sheaf__tensor_size(t), err);
    if (!copy)
        return NULL;
    if (sheaf__tensor_copy_out(t, copy->data, err) < 0) {
        sheaf__unref(copy);
        return NULL;
    }
    struct sheaf__buffer *now = NULL;
    sheaf_tensor *mutable_t = (sheaf_tensor *)(uintptr_t)t;
    if (atomic_compare_exchange_strong_explicit(&mutable_t->gathered, &now, copy,
                                                memory_order_acq_rel, memory_order_acquire))
        return copy;
    sheaf__unref(copy);
    return now;
}

const void *sheaf__tensor_host(const sheaf_tensor *t, sheaf_error *err)
{
    static const max_align_t nothing;
    if (!t || t->error) {
        sheaf_tensor_status(t, err);
        return NULL;
    }
    if (t->layout == SHEAF__DENSE && sheaf_shape_elements(t->shape) == 0)
        return &nothing;
    if (t->layout == SHEAF__DENSE && t->contiguous && t->device->cls->host_memory)
        return t->data;
    struct sheaf__buffer *buffer =
        atomic_load_explicit(&((sheaf_tensor *)(uintptr_t)t)->gathered, memory_order_acquire);
    if (!buffer)
        buffer = gather(t, err);
    return buffer ? buffer->data : NULL;
}

const void *sheaf_tensor_data(const sheaf_tensor *t)
{
    if (!sheaf__tensor_ok(t) || t->layout != SHEAF__DENSE || sheaf_shape_elements(t->shape) == 0)
        return NULL;
    return sheaf__tensor_host(t, NULL);
}

/* ---- elements ---- */

/* Row-major elements, if there is one numbered `i`. */
static const void *data_with(const sheaf_tensor *t, int64_t i)
{
    if (i < 0 || !sheaf__tensor_ok(t) || t->layout != SHEAF__DENSE ||
        i >= sheaf_shape_elements(t->shape))
        return NULL;
    return sheaf__tensor_host(t, NULL);
}

double sheaf_tensor_number(const sheaf_tensor *t, int64_t i)
{
    const void *data = data_with(t, i);
    return data ? sheaf__kernel_number(data, t->dtype, i) : 0;
}

int64_t sheaf_tensor_integer(const sheaf_tensor *t, int64_t i)
{
    const void *data = data_with(t, i);
    return data ? sheaf__kernel_integer(data, t->dtype, i) : 0;
}

sheaf_bytes sheaf_tensor_bytes(const sheaf_tensor *t, int64_t i)
{
    const sheaf_bytes *strings = data_with(t, i);
    if (!strings || t->dtype != SHEAF_STRING)
        return (sheaf_bytes){"", 0};
    return strings[i].data ? strings[i] : (sheaf_bytes){"", 0};
}
