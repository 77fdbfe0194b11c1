/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table, and the sum of rows into one. */
#include "ops/family.h"
#include "ops/tape.h"

#include "base/error.h"
#include "tensor/kernel.h"

#include <sheaf/ops.h>

#include <string.h>

struct gather {
    uint8_t *out;
    const uint8_t *table;
    const void *ids;
    bool wide;  /* ids are int64 */
    size_t row; /* bytes */
};

static int64_t id_at(const void *ids, bool wide, size_t i)
{
    return wide ? ((const int64_t *)ids)[i] : ((const int32_t *)ids)[i];
}

static void run_gather(size_t begin, size_t end, void *user)
{
    const struct gather *g = user;
    for (size_t i = begin; i < end; i++)
        memcpy(g->out + i * g->row, g->table + (size_t)id_at(g->ids, g->wide, i) * g->row, g->row);
}

static bool is_ids(const sheaf_tensor *t)
{
    return t->dtype == SHEAF_INT32 || t->dtype == SHEAF_INT64;
}

sheaf_status sheaf__gather_check(sheaf_shape table, const sheaf_tensor *ids, const char *who,
                                 sheaf_error *err)
{
    if (is_ids(ids) && table.rank >= 1 && ids->shape.rank + table.rank - 1 <= SHEAF_MAX_RANK)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "%s: table of shape %s and ids %s of shape %s, wanted a table of rows "
                        "and int32 or int64",
                        who, SHEAF__SHAPE_TEXT(table), sheaf_dtype_name(ids->dtype),
                        SHEAF__SHAPE_TEXT(ids->shape));
}

sheaf_status sheaf__infer_gather(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *table = call->in[0], *ids = call->in[1];
    sheaf_shape inner = sheaf__shape_inner(table->shape);
    SHEAF__TRY(sheaf__gather_check(table->shape, ids, call->op->name, err));
    call->shape = ids->shape;
    for (int i = 0; i < inner.rank; i++)
        call->shape.dims[call->shape.rank++] = inner.dims[i];
    return SHEAF_OK;
}

static sheaf_status check_ids(const struct sheaf__op_call *call, const void *ids, bool wide,
                              size_t count, int64_t rows, sheaf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int64_t id = id_at(ids, wide, i);
        if (id < 0 || id >= rows)
            return sheaf__op_call_error(call, err,
                                        "id %lld (element %zu) is not one of the %lld rows",
                                        (long long)id, i, (long long)rows);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__compute_gather(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *table = call->in[0], *ids = call->in[1];
    size_t count = (size_t)sheaf_tensor_elements(ids);
    sheaf_shape inner = sheaf__shape_inner(table->shape);
    struct gather g = {
        .out = sheaf__tensor_out(call->out),
        .ids = sheaf__op_call_data(call, 1, err),
        .wide = ids->dtype == SHEAF_INT64,
        .row = (size_t)sheaf_shape_elements(inner) * sheaf_dtype_size(table->dtype),
    };
    if (!g.ids)
        return err->status;
    SHEAF__TRY(check_ids(call, g.ids, g.wide, count, table->shape.dims[0], err));
    g.table = sheaf__op_call_data(call, 0, err);
    if (!g.table)
        return err->status;
    sheaf__split(call->device, count, 4 * SHEAF__GRAIN / (g.row + 1) + 1, run_gather, &g);
    return SHEAF_OK;
}

/* ids as a row, dy as (ids, …), over the shape of the table. */
static sheaf_tensor *rows_of(sheaf_tensor *ids, sheaf_tensor *values, sheaf_shape table)
{
    int64_t count = sheaf_tensor_elements(ids);
    ids = sheaf_reshape(ids, SHEAF_SHAPE(count));
    values = sheaf_reshape(values, sheaf__shape_prepend(sheaf__shape_inner(table), count));
    sheaf_tensor *failed = sheaf__tensor_first_failed((sheaf_tensor *[]){ids, values}, 2);
    if (failed)
        return failed;
    sheaf_error err = {0};
    return sheaf__tensor_give(sheaf__tensor_rows(ids, values, table, &err), &err);
}

static sheaf_tensor *scatter(sheaf_tensor *values, sheaf_tensor *ids, sheaf_shape table)
{
    const struct sheaf__attrs attrs = {.shape = table};
    return sheaf__op_run2(SHEAF__OP_SCATTER, values, ids, &attrs);
}

sheaf_tensor *sheaf__gather_rows(sheaf_tensor *dy, sheaf_tensor *ids, sheaf_shape table,
                                 bool watched)
{
    return watched ? scatter(dy, ids, table) : rows_of(ids, dy, table);
}

void sheaf__gradient_gather(const struct sheaf__grad *g)
{
    if (g->wanted[0])
        g->dx[0] = sheaf__gather_rows(g->dy, g->in[1], g->in[0]->shape, g->watched);
}

/* ---- scatter ---- */

sheaf_status sheaf__infer_scatter(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *values = call->in[0], *ids = call->in[1];
    sheaf_shape table = call->attrs->shape;
    int64_t row = sheaf_shape_elements(sheaf__shape_inner(table));
    if (!is_ids(ids) || table.rank < 1 ||
        sheaf_tensor_elements(values) != sheaf_tensor_elements(ids) * row)
        return sheaf__op_call_error(call, err, "values of shape %s and ids %s of shape %s into %s",
                                    SHEAF__SHAPE_TEXT(values->shape), sheaf_dtype_name(ids->dtype),
                                    SHEAF__SHAPE_TEXT(ids->shape), SHEAF__SHAPE_TEXT(table));
    call->shape = table;
    return SHEAF_OK;
}

/* Rows are added in the order of the ids, on one thread: the same sum every time. */
sheaf_status sheaf__compute_scatter(struct sheaf__op_call *call, sheaf_error *err)
{
    const sheaf_tensor *ids = call->in[1];
    size_t count = (size_t)sheaf_tensor_elements(ids), size = sheaf_dtype_size(call->dtype);
    size_t row = (size_t)sheaf_shape_elements(sheaf__shape_inner(call->shape));
    bool wide = ids->dtype == SHEAF_INT64;
    const void *numbers = sheaf__op_call_data(call, 1, err);
    const uint8_t *values = sheaf__op_call_data(call, 0, err);
    if (!numbers || !values)
        return err->status;
    SHEAF__TRY(check_ids(call, numbers, wide, count, call->shape.dims[0], err));
    uint8_t *out = sheaf__tensor_out(call->out);
    memset(out, 0, sheaf__tensor_size(call->out));
    sheaf__kernel_binary add = sheaf__kernels()->add[call->dtype];
    for (size_t i = 0; i < count; i++) {
        uint8_t *to = out + (size_t)id_at(numbers, wide, i) * row * size;
        add(to, to, values + i * row * size, row);
    }
    return SHEAF_OK;
}

void sheaf__gradient_scatter(const struct sheaf__grad *g)
{
    if (g->wanted[0])
        g->dx[0] = sheaf_reshape(sheaf_gather(g->dy, g->in[1]), g->in[0]->shape);
}

sheaf_tensor *sheaf__tape_dense(sheaf_tensor *t)
{
    if (!sheaf__tensor_ok(t) || t->layout != SHEAF__ROWS)
        return t;
    return scatter(t->parts[SHEAF__VALUES], t->parts[SHEAF__INDICES], t->shape);
}

sheaf_tensor *sheaf_gather(sheaf_tensor *table, sheaf_tensor *ids)
{
    return sheaf__op_run2(SHEAF__OP_GATHER, table, ids, NULL);
}
