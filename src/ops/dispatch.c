/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"
#include "ops/tape.h"

#include "base/flush.h"
#include "tensor/frame.h"

#include <stdarg.h>
#include <stdio.h>

sheaf_status sheaf__op_call_error(const struct sheaf__op_call *call, sheaf_error *err,
                                  const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sheaf_status status = sheaf__verror(err, SHEAF_ERR_INVALID_ARGUMENT, format, args);
    va_end(args);
    sheaf__error_prefix(err, "%s", call->op->name);
    return status;
}

/* "float32, float64 or int32" of a set of dtypes. */
static void list_dtypes(uint64_t set, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < SHEAF__DTYPES && used < size; i++) {
        if (!(set >> i & 1))
            continue;
        uint64_t later = set >> i >> 1;
        const char *separator = !used ? "" : later ? ", " : " or ";
        int n =
            snprintf(text + used, size - used, "%s%s", separator, sheaf_dtype_name((sheaf_dtype)i));
        used += n > 0 ? (size_t)n : 0;
    }
}

static sheaf_status check_inputs(const struct sheaf__op_call *call, sheaf_error *err)
{
    const struct sheaf__op *op = call->op;
    if (op->inputs < 0 && call->count == 0)
        return sheaf__op_call_error(call, err, "no tensors");
    size_t same = op->same < 0 ? call->count : (size_t)op->same;
    for (size_t i = 0; i < call->count; i++) {
        const sheaf_tensor *t = call->in[i];
        if (t->layout != SHEAF__DENSE)
            return sheaf__op_call_error(call, err, "input %zu is not dense", i);
        if (i >= same)
            continue;
        if (!(op->dtypes >> t->dtype & 1)) {
            char wanted[200];
            const uint64_t all = (UINT64_C(1) << SHEAF__DTYPES) - 1, others = ~op->dtypes & all;
            const bool most = __builtin_popcountll(op->dtypes) > __builtin_popcountll(others);
            list_dtypes(most ? others : op->dtypes, wanted, sizeof(wanted));
            return sheaf__op_call_error(call, err, "dtype %s of shape %s, wanted %s%s",
                                        sheaf_dtype_name(t->dtype), SHEAF__SHAPE_TEXT(t->shape),
                                        most ? "any but " : "", wanted);
        }
        if (t->dtype != call->in[0]->dtype)
            return sheaf__op_call_error(call, err, "%s of shape %s with %s of shape %s",
                                        sheaf_dtype_name(call->in[0]->dtype),
                                        SHEAF__SHAPE_TEXT(call->in[0]->shape),
                                        sheaf_dtype_name(t->dtype), SHEAF__SHAPE_TEXT(t->shape));
    }
    return SHEAF_OK;
}

/* Allocates the result and computes it; on success call->out has one count, the caller's. */
static sheaf_status compute(struct sheaf__op_call *call, sheaf_error *err)
{
    if (call->op->view)
        return call->op->kernel(call, err);
    call->out = sheaf__tensor_new(call->dtype, call->shape, call->device, err);
    if (!call->out)
        return err->status;
    if (sheaf_shape_elements(call->shape) == 0)
        return SHEAF_OK;
    struct sheaf__flush flush = sheaf__flush_begin();
    sheaf_status status = call->op->kernel(call, err);
    sheaf__flush_end(flush);
    if (status < 0) {
        sheaf__unref(call->out);
        sheaf__unref(call->aux);
        call->out = NULL;
        call->aux = NULL;
    }
    return status;
}

static sheaf_status run(struct sheaf__op_call *call, sheaf_error *err)
{
    SHEAF__TRY(check_inputs(call, err));
    call->device = sheaf__device_current(err);
    if (!call->device)
        return err->status;
    if (call->count > 0) {
        call->dtype = call->in[0]->dtype;
        call->shape = call->in[0]->shape;
    }
    if (call->op->infer)
        SHEAF__TRY(call->op->infer(call, err));
    call->recorded = call->op->gradient && sheaf__tape_follows(call->in, call->count);
    return compute(call, err);
}

sheaf_tensor *sheaf__op_run(enum sheaf__op_id id, sheaf_tensor *const *in, size_t count,
                            const struct sheaf__attrs *attrs)
{
    static const struct sheaf__attrs none;
    sheaf_tensor *failed = sheaf__tensor_first_failed(in, count);
    if (failed)
        return failed;
    struct sheaf__op_call call = {
        .op = sheaf__op(id), .in = in, .count = count, .attrs = attrs ? attrs : &none};
    sheaf_error err;
    if (run(&call, &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    sheaf_tensor *out = sheaf__tensor_give(call.out, &err);
    if (call.recorded && sheaf__tensor_ok(out))
        sheaf__tape_record(&call);
    else
        sheaf__unref(call.aux);
    return out;
}

sheaf_tensor *sheaf__op_run1(enum sheaf__op_id id, sheaf_tensor *a,
                             const struct sheaf__attrs *attrs)
{
    return sheaf__op_run(id, &a, 1, attrs);
}

sheaf_tensor *sheaf__op_run2(enum sheaf__op_id id, sheaf_tensor *a, sheaf_tensor *b,
                             const struct sheaf__attrs *attrs)
{
    return sheaf__op_run(id, (sheaf_tensor *[]){a, b}, 2, attrs);
}

struct split {
    size_t n, grain;
    void (*fn)(size_t begin, size_t end, void *user);
    void *user;
};

static void run_piece(size_t i, void *user)
{
    const struct split *s = user;
    size_t begin = i * s->grain;
    size_t end = s->n - begin < s->grain ? s->n : begin + s->grain;
    struct sheaf__flush flush = sheaf__flush_begin();
    s->fn(begin, end, s->user);
    sheaf__flush_end(flush);
}

void sheaf__split(struct sheaf__device *device, size_t n, size_t grain,
                  void (*fn)(size_t begin, size_t end, void *user), void *user)
{
    struct split s = {n, grain ? grain : 1, fn, user};
    size_t pieces = (n + s.grain - 1) / s.grain;
    if (pieces <= 1)
        run_piece(0, &s);
    else
        sheaf__device_run(device, pieces, run_piece, &s);
}

bool sheaf__axis(int axis, int rank, int32_t *out)
{
    if (axis < -rank || axis >= rank)
        return false;
    *out = axis < 0 ? axis + rank : axis;
    return true;
}
