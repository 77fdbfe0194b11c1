/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/snapshot.h"

#include "base/error.h"
#include "base/mem.h"
#include "tensor/strings.h"

#include <sheaf/frame.h>

void sheaf__snapshot_free(struct sheaf__snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++)
        sheaf__unref(snapshot->copies[i]);
    sheaf__free(snapshot->copies);
    *snapshot = (struct sheaf__snapshot){0};
}

/* Room for `count` copies; those that there are, stay. */
static sheaf_status make_room(struct sheaf__snapshot *snapshot, size_t count, sheaf_error *err)
{
    for (size_t i = count; i < snapshot->count; i++)
        sheaf__unref(snapshot->copies[i]);
    snapshot->count = snapshot->count < count ? snapshot->count : count;
    sheaf_tensor **copies = sheaf__realloc_array(snapshot->copies, count + 1, sizeof(*copies));
    if (!copies)
        return sheaf__no_memory(err, "the copies of a checkpoint");
    for (size_t i = snapshot->count; i < count; i++)
        copies[i] = NULL;
    snapshot->copies = copies;
    snapshot->count = count;
    return SHEAF_OK;
}

/* Whether the memory of an older copy will do. */
static bool fits(const sheaf_tensor *copy, const sheaf_tensor *value)
{
    return copy && sheaf_tensor_dtype(copy) == sheaf_tensor_dtype(value) &&
           sheaf_shape_equal(sheaf_tensor_shape(copy), sheaf_tensor_shape(value));
}

static sheaf_status copy_strings(sheaf_tensor **copy, const sheaf_tensor *value, sheaf_error *err)
{
    const void *strings = sheaf__tensor_host(value, err);
    sheaf__unref(*copy);
    *copy = strings ? sheaf__string_copy(sheaf_tensor_shape(value), strings, err) : NULL;
    return *copy ? SHEAF_OK : err->status;
}

static sheaf_status copy_value(sheaf_tensor **copy, const sheaf_tensor *value, sheaf_error *err)
{
    SHEAF__TRY(sheaf_tensor_status(value, err));
    if (sheaf_tensor_dtype(value) == SHEAF_STRING)
        return copy_strings(copy, value, err);
    if (!fits(*copy, value)) {
        struct sheaf__device *host = sheaf__device_host(err);
        sheaf__unref(*copy);
        *copy = host ? sheaf__tensor_new(sheaf_tensor_dtype(value), sheaf_tensor_shape(value), host,
                                         err)
                     : NULL;
    }
    return *copy ? sheaf__tensor_copy_out(value, sheaf__tensor_out(*copy), err) : err->status;
}

sheaf_status sheaf__snapshot_take(struct sheaf__snapshot *snapshot, struct sheaf__ckpt_objects *o,
                                  sheaf_error *err)
{
    sheaf_error fault = {0};
    sheaf_status status = make_room(snapshot, o->tensor_count, err);
    for (size_t i = 0; i < o->tensor_count && status >= 0; i++)
        SHEAF_FRAME
        {
            const struct sheaf__ckpt_tensor *t = &o->tensors[i];
            if (t->owner && sheaf__objects_is_local(o, t) &&
                copy_value(&snapshot->copies[i], sheaf__objects_value(o, t), &fault) < 0)
                status = sheaf__error_copy(err, &fault);
        }
    if (status >= 0)
        o->copies = snapshot->copies;
    return status;
}
