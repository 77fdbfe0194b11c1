/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/update.h"

#include "base/error.h"
#include "distribute/bind.h"
#include "distribute/mirrored.h"
#include "distribute/replica.h"
#include "ops/variable.h"
#include "optim/optimizer.h"

#include <sheaf/ops.h>

/* Elements and rows a thread takes at a time; the result does not depend on the cut. */
enum { CHUNK = 32768, ROW_CHUNK = 4096 };

/* One variable's update, shared by the device's threads. */
struct job {
    const struct sheaf__hyper *hyper;
    struct sheaf__update update;
    const void *gradient;                /* dense */
    const struct sheaf__rule_rows *rows; /* or rows */
    size_t size;                         /* elements, or rows of the variable */
};

static void update_chunk(size_t i, void *user)
{
    const struct job *j = user;
    const size_t chunk = j->rows ? ROW_CHUNK : CHUNK;
    const size_t begin = i * chunk, end = begin + chunk < j->size ? begin + chunk : j->size;
    if (j->rows)
        sheaf__rule_apply_rows(j->hyper, &j->update, j->rows, (int64_t)begin, (int64_t)end);
    else
        sheaf__rule_apply(j->hyper, &j->update, j->gradient, begin, end);
}

static void run_job(struct job *j)
{
    struct sheaf__device *device = sheaf__device_current(NULL);
    const size_t chunk = j->rows ? ROW_CHUNK : CHUNK;
    const size_t chunks = (j->size + chunk - 1) / chunk;
    if (device)
        sheaf__device_run(device, chunks, update_chunk, j);
    else
        for (size_t i = 0; i < chunks; i++)
            update_chunk(i, j);
}

sheaf_status sheaf__update_check(const sheaf_variable *v, const sheaf_tensor *gradient,
                                 sheaf_error *err)
{
    char x[96], y[96];
    if (!sheaf__rule_takes(v->dtype) || gradient->dtype != v->dtype)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "variable '%s' has dtype %s, its gradient %s; expected the same of float32, "
            "float64, bfloat16",
            v->name, sheaf_dtype_name(v->dtype), sheaf_dtype_name(gradient->dtype));
    if (sheaf_shape_equal(v->shape, gradient->shape))
        return SHEAF_OK;
    sheaf_shape_format(v->shape, x, sizeof(x));
    sheaf_shape_format(gradient->shape, y, sizeof(y));
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "variable '%s' has shape %s, its gradient %s", v->name, x, y);
}

/* The rows of a gradient as the rules take them, repeated ones summed. */
static sheaf_status merge_rows(const sheaf_variable *v, const struct sheaf__hyper *h,
                               sheaf_tensor *gradient, struct sheaf__rule_merged *merged,
                               sheaf_error *err)
{
    sheaf_tensor *ids = sheaf_cast(gradient->parts[SHEAF__INDICES], SHEAF_INT64);
    sheaf_tensor *values = gradient->parts[SHEAF__VALUES];
    SHEAF__TRY(sheaf_tensor_status(ids, err));
    const int64_t rows = v->shape.dims[0];
    const struct sheaf__rule_rows all = {.ids = sheaf_tensor_data(ids),
                                         .values = sheaf_tensor_data(values),
                                         .count = (size_t)sheaf_tensor_elements(ids),
                                         .width = rows ? sheaf_shape_elements(v->shape) / rows : 0,
                                         .rows = rows};
    return sheaf__rule_merge(h, v->dtype, &all, merged, err);
}

static sheaf_status update_one(sheaf_variable *v, const struct sheaf__hyper *h,
                               sheaf_tensor *gradient, sheaf_error *err)
{
    struct sheaf__rule_merged merged = {0};
    struct sheaf__rule_slot slots[SHEAF__RULE_SLOTS];
    struct job j = {.hyper = h, .update = {.dtype = v->dtype}};
    SHEAF__TRY(sheaf__update_check(v, gradient, err));
    if (gradient->layout == SHEAF__ROWS) {
        SHEAF__TRY(merge_rows(v, h, gradient, &merged, err));
        j.rows = &merged.rows;
        j.size = (size_t)v->shape.dims[0];
    } else {
        j.gradient = sheaf__tensor_host(gradient, err);
        j.size = (size_t)sheaf_tensor_elements(gradient);
        if (!j.gradient)
            return SHEAF_ERR_RESOURCE_EXHAUSTED;
    }
    const size_t count = sheaf__rule_slots(h, slots);
    bool ready = true;
    for (size_t k = 0; k < count; k++) {
        j.update.slots[k] = sheaf__variable_slot(v, slots[k].name, slots[k].fill);
        ready = ready && j.update.slots[k];
    }
    j.update.to = ready ? sheaf__variable_update_begin(v, &j.update.from) : NULL;
    if (j.update.to) {
        run_job(&j);
        sheaf__variable_update_commit(v);
    }
    sheaf__rule_merged_free(&merged);
    return j.update.to ? SHEAF_OK : sheaf__no_memory(err, "an update");
}

sheaf_variable *sheaf__update_copy(const sheaf_replica *r, sheaf_variable *v)
{
    struct sheaf__copies *copies = sheaf__copies_of(v);
    if (copies)
        return r->local < copies->count ? copies->of[r->local] : NULL;
    return r->local == 0 ? v : NULL;
}

sheaf_status sheaf__update_local(sheaf_replica *r, sheaf_optimizer *o, int64_t step,
                                 const struct sheaf__gradient *all, size_t count, sheaf_error *err)
{
    const struct sheaf__hyper h = sheaf__optimizer_hyper(o, step);
    for (size_t i = 0; i < count; i++) {
        sheaf_variable *copy = sheaf__update_copy(r, all[i].variable);
        if (copy && !all[i].take)
            SHEAF__TRY(update_one(copy, &h, all[i].value, err));
    }
    /* By every replica: each must see it before its own next update. */
    atomic_store(&o->iterations, step);
    return SHEAF_OK;
}
