/* SPDX-License-Identifier: Apache-2.0 */
/* The public makers. */
#include "base/error.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <string.h>

sheaf_tensor *sheaf_tensor_new(sheaf_dtype dtype, sheaf_shape shape, const void *data)
{
    sheaf_error err;
    if (dtype == SHEAF_STRING)
        return sheaf__tensor_give(sheaf__string_copy(shape, data, &err), &err);
    sheaf_tensor *t = sheaf__tensor_new(dtype, shape, NULL, &err);
    size_t size = t ? sheaf__tensor_size(t) : 0;
    if (size && data)
        memcpy(t->data, data, size);
    else if (size)
        memset(t->data, 0, size);
    return sheaf__tensor_give(t, &err);
}

sheaf_tensor *sheaf__tensor_wrap(sheaf_dtype dtype, sheaf_shape shape, const void *data,
                                 void (*release)(void *data, void *user), void *user,
                                 sheaf_error *err)
{
    int64_t elements;
    size_t bytes;
    sheaf_status status = sheaf__shape_bytes(dtype, shape, &elements, &bytes, err);
    if (status == SHEAF_OK && elements > 0 && !data)
        status = sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s of shape %s over no memory",
                              sheaf_dtype_name(dtype), SHEAF__SHAPE_TEXT(shape));
    void *memory = (void *)(uintptr_t)data;
    if (status < 0) {
        if (release)
            release(memory, user);
        return NULL;
    }
    struct sheaf__buffer *buffer = sheaf__buffer_wrap(memory, bytes, release, user, err);
    if (!buffer)
        return NULL;
    sheaf_tensor *t = sheaf__tensor_over(dtype, shape, buffer, 0, err);
    sheaf__unref(buffer);
    return t;
}

sheaf_tensor *sheaf_tensor_wrap(sheaf_dtype dtype, sheaf_shape shape, const void *data,
                                void (*release)(void *data, void *user), void *user)
{
    sheaf_error err;
    return sheaf__tensor_give(sheaf__tensor_wrap(dtype, shape, data, release, user, &err), &err);
}

sheaf_tensor *sheaf_float(float value)
{
    return sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SCALAR, &value);
}

sheaf_tensor *sheaf_double(double value)
{
    return sheaf_tensor_new(SHEAF_FLOAT64, SHEAF_SCALAR, &value);
}

sheaf_tensor *sheaf_int(int32_t value)
{
    return sheaf_tensor_new(SHEAF_INT32, SHEAF_SCALAR, &value);
}

sheaf_tensor *sheaf_long(int64_t value)
{
    return sheaf_tensor_new(SHEAF_INT64, SHEAF_SCALAR, &value);
}

sheaf_tensor *sheaf_bool(bool value)
{
    return sheaf_tensor_new(SHEAF_BOOL, SHEAF_SCALAR, &value);
}

sheaf_tensor *sheaf_string(const char *text)
{
    sheaf_bytes bytes = {text, text ? strlen(text) : 0};
    return sheaf_tensor_new(SHEAF_STRING, SHEAF_SCALAR, &bytes);
}

sheaf_tensor *sheaf_plain(sheaf_tensor *t)
{
    sheaf_tensor *bad = sheaf__tensor_first_failed(&t, 1);
    if (bad)
        return bad;
    if (t->layout != SHEAF__DENSE || t->shape.rank != 0)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                  "a plain number is a scalar, found shape %s",
                                  SHEAF__SHAPE_TEXT(t->shape));
    sheaf_error err;
    sheaf_tensor *alias = sheaf__tensor_alias(t, &err);
    if (alias)
        alias->plain = true;
    return sheaf__tensor_derived(t, sheaf__tensor_give(alias, &err), -1);
}
