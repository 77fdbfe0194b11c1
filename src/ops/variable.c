/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls on variables of every kind. */
#include "ops/variable.h"

#include "base/counter.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/mode.h"
#include "ops/stateful.h"
#include "ops/tape.h"
#include "tensor/frame.h"
#include "tensor/print.h"

/* ---- reading ---- */

/* What cannot be used gives a failed tensor; else NULL. */
static sheaf_tensor *refuse(const sheaf_variable *v)
{
    if (!v)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "the variable is NULL");
    return v->latched.status < 0 ? sheaf__tensor_give(NULL, &v->latched) : NULL;
}

/* A variable made outside every scope is read by a replica: it works, but nothing keeps its copies
 * together (S97). */
static void count_unscoped(const sheaf_variable *v)
{
    const struct sheaf__mode *mode = sheaf__mode_current();
    if (mode->kind == SHEAF__MODE_REPLICA && mode->strategy && !v->strategy)
        sheaf__count("variable.read.unscoped", 1);
}

sheaf_tensor *sheaf__variable_read(sheaf_variable *v)
{
    sheaf_tensor *refused = refuse(v);
    if (refused)
        return refused;
    count_unscoped(v);
    sheaf_tensor *value = v->cls->read(v);
    if (!sheaf__tensor_ok(value))
        return value;
    sheaf__tape_read(v, value);
    return value;
}

sheaf_tensor *sheaf_value(sheaf_variable *v)
{
    return sheaf__variable_read(v);
}

sheaf_tensor *sheaf_embedding_lookup(sheaf_variable *table, sheaf_tensor *ids)
{
    sheaf_tensor *refused = refuse(table);
    if (refused)
        return refused;
    if (!table->cls->lookup || !sheaf__tensor_ok(ids))
        return sheaf_gather(sheaf__variable_read(table), ids);
    sheaf_error err = {0};
    count_unscoped(table);
    if (sheaf__gather_check(table->shape, ids, "embedding_lookup", &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    sheaf_tensor *rows = table->cls->lookup(table, ids);
    if (!sheaf__tensor_ok(rows))
        return rows;
    sheaf__tape_lookup(table, ids, rows);
    return rows;
}

/* ---- writing ---- */

static sheaf_status assign(sheaf_variable *v, enum sheaf__assign_op op, sheaf_tensor *value,
                           sheaf_error *err)
{
    SHEAF__TRY(sheaf_variable_status(v, err));
    if (!value)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "variable '%s': the value is NULL",
                            v->name);
    SHEAF__TRY(sheaf_tensor_status(value, err));
    if (value->layout != SHEAF__DENSE || value->dtype != v->dtype ||
        !sheaf_shape_equal(value->shape, v->shape))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "variable '%s' is %s of shape %s, the value %s of shape %s", v->name,
                            sheaf_dtype_name(v->dtype), SHEAF__SHAPE_TEXT(v->shape),
                            sheaf_dtype_name(value->dtype), SHEAF__SHAPE_TEXT(value->shape));
    sheaf__stateful_called("an assignment to a variable");
    return v->cls->assign(v, op, value, err);
}

sheaf_status sheaf_assign(sheaf_variable *v, sheaf_tensor *value, sheaf_error *err)
{
    return assign(v, SHEAF__ASSIGN, value, err);
}
sheaf_status sheaf_assign_add(sheaf_variable *v, sheaf_tensor *delta, sheaf_error *err)
{
    return assign(v, SHEAF__ASSIGN_ADD, delta, err);
}
sheaf_status sheaf_assign_sub(sheaf_variable *v, sheaf_tensor *delta, sheaf_error *err)
{
    return assign(v, SHEAF__ASSIGN_SUB, delta, err);
}

/* ---- looking at them ---- */

sheaf_variable *sheaf_variable_ref(sheaf_variable *v)
{
    return sheaf__ref(v);
}

void sheaf_variable_free(sheaf_variable *v)
{
    sheaf__unref(v);
}

sheaf_status sheaf_variable_status(const sheaf_variable *v, sheaf_error *err)
{
    if (!v)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the variable is NULL");
    return v->latched.status < 0 ? sheaf__error_copy(err, &v->latched) : SHEAF_OK;
}

sheaf_status sheaf__variable_check(const sheaf_trackable *t, sheaf_error *err)
{
    return sheaf_variable_status(t->object, err);
}

const char *sheaf_variable_name(const sheaf_variable *v)
{
    return v && v->name ? v->name : "";
}

sheaf_dtype sheaf_variable_dtype(const sheaf_variable *v)
{
    return v ? v->dtype : SHEAF_INVALID_DTYPE;
}

sheaf_shape sheaf_variable_shape(const sheaf_variable *v)
{
    return v ? v->shape : SHEAF_SHAPE(0);
}

bool sheaf_variable_trainable(const sheaf_variable *v)
{
    return v && v->trainable;
}

const char *sheaf_variable_device(const sheaf_variable *v)
{
    return v && v->device ? v->device : "";
}

int sheaf_variable_copies(const sheaf_variable *v)
{
    return v && v->cls->copies ? v->cls->copies(v) : 1;
}

int sheaf_variable_parts(const sheaf_variable *v)
{
    return v && v->cls->parts ? v->cls->parts(v) : 1;
}

const char *sheaf_variable_part_device(const sheaf_variable *v, int i)
{
    if (v && v->cls->part_device)
        return v->cls->part_device(v, i);
    return sheaf_variable_device(v);
}

sheaf_variable *sheaf_variable_copy(sheaf_variable *v, int replica)
{
    return v && v->cls->copy ? v->cls->copy(v, replica) : v;
}

sheaf_trackable *sheaf_variable_trackable(sheaf_variable *v)
{
    return v ? &v->trackable : NULL;
}

/* ---- text (P5.3, P5.4) ---- */

static void print_one(struct sheaf__str *out, const sheaf_variable *v, sheaf_tensor *value)
{
    if (sheaf__tensor_ok(value))
        sheaf__print_variable(out, v->name, value);
    else
        sheaf__print_tensor(out, value, SHEAF__REPR);
}

const char *sheaf_variable_str(sheaf_variable *v)
{
    struct sheaf__str out = {0};
    sheaf_tensor *refused = refuse(v);
    if (refused) {
        sheaf__print_tensor(&out, refused, SHEAF__REPR);
    } else if (!v->cls->container) {
        print_one(&out, v, v->cls->read(v));
    } else {
        int copies = sheaf_variable_copies(v);
        sheaf__print_replicas_begin(&out, v->cls->container);
        for (int i = 0; i < copies; i++) {
            sheaf_variable *copy = sheaf_variable_copy(v, i);
            sheaf__print_replicas_item(&out, (size_t)i);
            if (copy)
                print_one(&out, copy, copy->cls->read(copy));
        }
        sheaf__print_replicas_end(&out);
    }
    return sheaf__frame_str(&out);
}
