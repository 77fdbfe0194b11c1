/* SPDX-License-Identifier: Apache-2.0 */
#include "data/tuple.h"

#include "base/error.h"
#include "data/spec.h"
#include "tensor/shape.h"

/* Adds the components of one part: `count` rows of stacked columns, or, boxed, one row. */
static sheaf_status add_part(sheaf_element *e, size_t number, const struct sheaf__part *part,
                             size_t count, bool boxed, sheaf_error *err)
{
    const sheaf_element *columns = part->block->columns;
    int64_t first = (int64_t)(part->block->first + part->at);
    for (size_t i = 0; i < columns->count; i++) {
        sheaf_tensor *column = columns->items[i].tensor;
        const char *name = sheaf__spec_tuple_name(number, columns->items[i].name);
        sheaf_tensor *t;
        if (!name)
            return sheaf__no_memory(err, "a tuple");
        if (part->block->boxed)
            t = sheaf__ref(column);
        else if (boxed)
            t = sheaf__tensor_view(column, sheaf__shape_inner(column->shape), column->strides + 1,
                                   first * column->strides[0], err);
        else
            t = sheaf__rows_of(column, first, first + (int64_t)count, err);
        sheaf_status status = t ? sheaf__element_add(e, name, t, err) : err->status;
        sheaf__unref(t);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__rows_put_tuples(struct sheaf__rows *rows, const struct sheaf__part *parts,
                                    size_t part_count, size_t count, sheaf_error *err)
{
    bool boxed = false;
    for (size_t i = 0; i < part_count; i++)
        boxed = boxed || parts[i].block->boxed;
    sheaf_element *e = sheaf__element_new(err);
    if (!e)
        return err->status;
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < part_count && status >= 0; i++)
        status = add_part(e, i, &parts[i], count, boxed, err);
    if (status >= 0)
        status =
            boxed ? sheaf__rows_put(rows, e, err) : sheaf__rows_put_slices(rows, e, 0, count, err);
    sheaf__unref(e);
    return status;
}
