/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of variables: hooks, innermost first, then a plain variable (S91). */
#include "ops/initializer.h"
#include "ops/variable.h"

#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/called.h"
#include "tensor/frame.h"
#include "tensor/shape.h"

#include <string.h>

static _Thread_local sheaf_creator_scope *innermost;

bool sheaf_creator_scope_enter(sheaf_creator_scope *scope, sheaf_variable_creator_fn fn, void *user)
{
    if (!fn) {
        sheaf_error err = {0};
        sheaf__error(&err, SHEAF_ERR_INVALID_ARGUMENT, "a hook on variables without a function");
        sheaf__frame_latch(&err);
    }
    if (!scope || scope->open || !fn)
        return false;
    *scope = (sheaf_creator_scope){.parent = innermost, .fn = fn, .user = user, .open = 1};
    innermost = scope;
    return true;
}

void sheaf_creator_scope_leave(sheaf_creator_scope *scope)
{
    if (!scope || !scope->open)
        return;
    innermost = scope->parent;
    scope->open = 0;
}

static const struct sheaf__variable_class lost_class = {0};
static const struct sheaf__class lost_object = {.name = "variable"};

/* What stands for a variable that could not even hold its error. Counted like any other, but its
 * first count is never given back. */
static sheaf_variable lost = {
    .object = {.refs = 1, .cls = &lost_object},
    .cls = &lost_class,
    .latched = {.status = SHEAF_ERR_RESOURCE_EXHAUSTED,
                .origin = {.index = -1},
                .peer = {.index = -1},
                .offset = SHEAF__UNKNOWN,
                .record = SHEAF__UNKNOWN,
                .message = "not enough memory for a variable"},
};

sheaf_variable *sheaf__variable_lost(void)
{
    return sheaf__ref(&lost);
}

/* A variable that holds why a hook of the program made none; NULL: no memory. */
static sheaf_variable *refused(sheaf_variable_request *request)
{
    sheaf_error err = {0};
    if (sheaf__called_mute(&err, "variable '%s': its creator", request->name) >= 0)
        sheaf__error(&err, SHEAF_ERR_INVALID_ARGUMENT, "variable '%s': its creator returned NULL",
                     request->name);
    request->initial = sheaf__tensor_give(NULL, &err);
    return sheaf__variable_plain(request, NULL);
}

sheaf_variable *sheaf_variable_create_next(sheaf_variable_request *request)
{
    sheaf_variable *v;
    if (!request)
        return NULL;
    sheaf_creator_scope *scope = request->next;
    /* One seed for all parts and copies, whoever makes them. */
    if (!request->initial && !request->initializer.seed)
        request->initializer.seed = sheaf__initializer_seed();
    if (scope) {
        request->next = scope->parent;
        sheaf__error_listen();
        v = scope->fn(request, scope->user);
        v = v ? v : refused(request);
    } else {
        v = sheaf__variable_plain(request, NULL);
    }
    return v ? v : sheaf__variable_lost();
}

static sheaf_variable *create(sheaf_variable_request *request, const char *name,
                              const sheaf_variable_options *options)
{
    request->name = name ? name : "Variable";
    if (options)
        request->options = *options;
    request->next = innermost;
    return sheaf_variable_create_next(request);
}

sheaf_variable *sheaf_variable_new(const char *name, sheaf_tensor *initial,
                                   const sheaf_variable_options *options)
{
    if (!initial)
        initial = sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT,
                                     "variable '%s': the initial value is NULL",
                                     name ? name : "Variable");
    sheaf_variable_request request = {.dtype = sheaf_tensor_dtype(initial),
                                      .shape = sheaf_tensor_shape(initial),
                                      .initial = initial};
    return create(&request, name, options);
}

sheaf_variable *sheaf_variable_init(const char *name, sheaf_dtype dtype, sheaf_shape shape,
                                    sheaf_initializer initializer,
                                    const sheaf_variable_options *options)
{
    sheaf_variable_request request = {.dtype = dtype, .shape = shape, .initializer = initializer};
    return create(&request, name, options);
}

/* ---- for implementations ---- */

static sheaf_status make_order(sheaf_context *context, void **value, sheaf_error *err)
{
    (void)context;
    *value = sheaf__calloc(1, sizeof(_Atomic uint32_t));
    return *value ? SHEAF_OK : sheaf__no_memory(err, "the order of variables");
}

static const struct sheaf__slot order_slot = {"variable order", make_order, sheaf__free};

static void destroy(void *object)
{
    sheaf_variable *v = object;
    v->cls->destroy(v);
}

static const struct sheaf__class variable_class = {"variable", destroy};

static sheaf_status check(const sheaf_variable_request *r, sheaf_error *err)
{
    const sheaf_variable_options *o = &r->options;
    if (r->initial)
        SHEAF__TRY(sheaf_tensor_status(r->initial, err));
    for (size_t i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
        if (o->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "variable '%s': reserved option %zu is set", r->name, i);
    if ((int)o->synchronization < 0 || o->synchronization > SHEAF_SYNCHRONIZATION_ON_READ ||
        (int)o->aggregation < 0 || o->aggregation > SHEAF_AGGREGATION_ONLY_FIRST_REPLICA)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "variable '%s': synchronization %d, aggregation %d, expected 0 to 3",
                            r->name, (int)o->synchronization, (int)o->aggregation);
    if (!r->initial && !r->initializer.fill)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "variable '%s': no initial value",
                            r->name);
    if (!r->initial && sheaf__initializer_check(&r->initializer, r->dtype, err) < 0) {
        sheaf__error_prefix(err, "variable '%s'", r->name);
        return SHEAF_ERR_INVALID_ARGUMENT;
    }
    int64_t elements;
    size_t bytes;
    SHEAF__TRY(sheaf__shape_bytes(r->dtype, r->shape, &elements, &bytes, err));
    if (r->initial &&
        (r->initial->dtype != r->dtype || !sheaf_shape_equal(r->initial->shape, r->shape)))
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "variable '%s': %s of shape %s wanted, the initial value is %s of shape %s", r->name,
            sheaf_dtype_name(r->dtype), SHEAF__SHAPE_TEXT(r->shape),
            sheaf_dtype_name(r->initial->dtype), SHEAF__SHAPE_TEXT(r->initial->shape));
    return SHEAF_OK;
}

void sheaf__variable_init_head(sheaf_variable *v, const struct sheaf__variable_class *cls,
                               const sheaf_variable_request *request)
{
    void *order = NULL;
    sheaf__object_init(&v->object, &variable_class);
    v->cls = cls;
    v->name = sheaf__strdup(request->name ? request->name : "Variable");
    v->dtype = request->dtype;
    v->shape = request->shape;
    v->synchronization = request->options.synchronization;
    v->aggregation = request->options.aggregation;
    v->trainable =
        !request->options.not_trainable && v->synchronization != SHEAF_SYNCHRONIZATION_ON_READ;
    if (!v->name)
        sheaf__no_memory(&v->latched, "a variable's name");
    else if (check(request, &v->latched) >= 0 &&
             sheaf__context_slot(sheaf__context(), &order_slot, &order, &v->latched) >= 0)
        v->order = atomic_fetch_add_explicit((_Atomic uint32_t *)order, 1, memory_order_relaxed);
}

sheaf_tensor *sheaf__variable_initial(const sheaf_variable_request *request, int64_t first_row,
                                      int64_t rows)
{
    sheaf_shape shape = request->shape;
    if (rows >= 0 && shape.rank > 0)
        shape.dims[0] = rows;
    if (request->initial)
        return rows < 0 ? request->initial
                        : sheaf_tensor_rows(request->initial, first_row, first_row + rows);
    if (!request->initializer.fill)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "variable '%s': no initial value",
                                  request->name);
    sheaf_error err = {0};
    sheaf_tensor *t = sheaf__tensor_new(request->dtype, shape, NULL, &err);
    if (t && sheaf_tensor_elements(t) > 0) {
        int64_t row = sheaf_shape_elements(sheaf__shape_inner(shape));
        const sheaf_initial_part part = {request->dtype, request->shape,
                                         (uint64_t)(rows < 0 ? 0 : first_row * row),
                                         (uint64_t)sheaf_tensor_elements(t)};
        if (sheaf__initializer_run(&request->initializer, t->device, sheaf__tensor_out(t), &part,
                                   &err) < 0) {
            sheaf__error_prefix(&err, "variable '%s'", request->name);
            sheaf__unref(t);
            t = NULL;
        }
    }
    return sheaf__tensor_give(t, &err);
}
