/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a tape backward. Gradients of a slot are added in the order in which the walk meets its
 * users, which is the same every time. */
#include "ops/family.h"
#include "ops/gemm.h"
#include "ops/tape_internal.h"

#include "tensor/frame.h"

#include <string.h>

struct walk {
    struct sheaf_tape *tape;
    sheaf_tensor **gradients; /* by slot; one count each */
    bool *wanted;             /* by slot: leads to something asked for */
    bool *asked;              /* by slot: keep its gradient */
    bool *walked;             /* by slot: went through its maker */
    bool *masked;             /* by slot: the gradient is 0 where its maker, a relu, gave 0 */
    bool watched;
    sheaf_frame *outer; /* where results and what `ready` makes belong */
    sheaf_frame inner;  /* where everything between belongs */
    struct sheaf__gradients result;
    int32_t *number; /* of a slot's variable in `result`; -1: none */
    const struct sheaf__gradient_calls *calls;
    void *memory;
    size_t capacity;
};

/* ---- adding up ---- */

static sheaf_tensor *join(sheaf_tensor *a, sheaf_tensor *b, int axis)
{
    if (a->dtype != b->dtype) { /* ids of two widths */
        a = sheaf_cast(a, SHEAF_INT64);
        b = sheaf_cast(b, SHEAF_INT64);
    }
    return sheaf_concat((sheaf_tensor *[]){a, b}, 2, axis);
}

/* The sum of two gradients, of the frame. Rows stay rows, one after the other. */
static sheaf_tensor *sum(sheaf_tensor *a, sheaf_tensor *b)
{
    if (a->layout != SHEAF__ROWS || b->layout != SHEAF__ROWS)
        return sheaf_add(sheaf__tape_dense(a), sheaf__tape_dense(b));
    sheaf_tensor *ids = join(a->parts[SHEAF__INDICES], b->parts[SHEAF__INDICES], 0);
    sheaf_tensor *values = join(a->parts[SHEAF__VALUES], b->parts[SHEAF__VALUES], 0);
    sheaf_tensor *failed = sheaf__tensor_first_failed((sheaf_tensor *[]){ids, values}, 2);
    if (failed)
        return failed;
    sheaf_error err = {0};
    return sheaf__tensor_give(sheaf__tensor_rows(ids, values, a->shape, &err), &err);
}

static sheaf_status add_gradient(struct walk *w, int32_t slot, sheaf_tensor *dx, sheaf_error *err)
{
    sheaf_tensor **at = &w->gradients[slot];
    sheaf_tensor *total = *at ? sum(*at, dx) : dx;
    if (!sheaf__tensor_ok(total))
        return sheaf_tensor_status(total, err);
    sheaf_tensor *old = *at;
    *at = sheaf__ref(total);
    sheaf__unref(old);
    return SHEAF_OK;
}

/* ---- one node ---- */

enum { FEW = 8 };

static void lookup_gradient(const struct walk *w, const struct sheaf__tape_node *n,
                            sheaf_tensor *dy, sheaf_tensor **dx)
{
    const struct sheaf__tape_input *in = sheaf__tape_inputs(w->tape, n);
    sheaf_shape table = sheaf__tape_slot(w->tape, in[0].slot)->variable->shape;
    dx[0] = sheaf__gather_rows(dy, in[1].tensor, table, w->watched);
}

static bool is_product(const struct sheaf__tape_node *n)
{
    return n->op == sheaf__op(SHEAF__OP_MATMUL) || n->op == sheaf__op(SHEAF__OP_DENSE);
}

static bool is_relu(const struct sheaf__tape_node *n)
{
    return n->op == sheaf__op(SHEAF__OP_RELU) ||
           (n->op == sheaf__op(SHEAF__OP_DENSE) && n->attrs.axis == SHEAF_ACTIVATION_RELU);
}

/* Whether a relu made the product's first input and gets all of its gradient from here: then the
 * product does the relu's step while the elements are in the cache. */
static bool masks(const struct walk *w, const struct sheaf__tape_node *n)
{
    int32_t slot = is_product(n) ? sheaf__tape_inputs(w->tape, n)[0].slot : -1;
    if (slot < 0 || w->asked[slot])
        return false;
    const struct sheaf__tape_slot *s = sheaf__tape_slot(w->tape, slot);
    return s->uses == 1 && s->maker >= 0 && is_relu(sheaf__tape_node(w->tape, s->maker));
}

static void take(const struct sheaf__sink *sink, const void *elements, size_t first, size_t count)
{
    const struct sheaf__gradient_calls *calls = sink->user;
    calls->take(sink->number, elements, first, count, calls->user);
}

/* Where the gradient of a product's second input goes, if that is a taken one. */
static bool find_sink(const struct walk *w, const struct sheaf__tape_node *n,
                      struct sheaf__sink *sink)
{
    if (!is_product(n) || !w->result.all)
        return false;
    int32_t slot = sheaf__tape_inputs(w->tape, n)[1].slot;
    int32_t number = slot < 0 ? -1 : w->number[slot];
    if (number < 0 || !w->result.all[number].take)
        return false;
    *sink = (struct sheaf__sink){take, (void *)(uintptr_t)w->calls, (size_t)number};
    return true;
}

static sheaf_status step(struct walk *w, const struct sheaf__tape_node *n, sheaf_error *err)
{
    const struct sheaf__tape_input *in = sheaf__tape_inputs(w->tape, n);
    sheaf_tensor *few_in[FEW], *few_dx[FEW] = {0}, **ins = few_in, **dx = few_dx;
    bool few_wanted[FEW], *wanted = few_wanted;
    if (n->inputs > FEW) {
        ins = sheaf__frame_alloc(n->inputs * sizeof(*ins));
        dx = sheaf__frame_alloc(n->inputs * sizeof(*dx));
        wanted = sheaf__frame_alloc(n->inputs * sizeof(*wanted));
        if (!ins || !dx || !wanted)
            return sheaf__no_memory(err, "a gradient");
        memset(dx, 0, n->inputs * sizeof(*dx));
    }
    for (uint32_t i = 0; i < n->inputs; i++) {
        ins[i] = in[i].tensor;
        wanted[i] = in[i].slot >= 0 && w->wanted[in[i].slot];
    }
    sheaf_tensor *dy = sheaf__tape_dense(w->gradients[n->out_slot]);
    if (!sheaf__tensor_ok(dy))
        return sheaf_tensor_status(dy, err);
    if (n->op) {
        struct sheaf__sink sink;
        const struct sheaf__grad g = {.op = n->op,
                                      .in = ins,
                                      .count = n->inputs,
                                      .attrs = &n->attrs,
                                      .out = n->out,
                                      .aux = n->aux,
                                      .dy = dy,
                                      .wanted = wanted,
                                      .dx = dx,
                                      .watched = w->watched,
                                      .masked = w->masked[n->out_slot],
                                      .mask = wanted[0] && masks(w, n),
                                      .sink = find_sink(w, n, &sink) ? &sink : NULL};
        n->op->gradient(&g);
        if (g.mask)
            w->masked[in[0].slot] = true;
    } else {
        lookup_gradient(w, n, dy, dx);
    }
    for (uint32_t i = 0; i < n->inputs; i++) {
        if (!wanted[i] || !dx[i])
            continue;
        if (!sheaf__tensor_ok(dx[i]))
            return sheaf_tensor_status(dx[i], err);
        SHEAF__TRY(add_gradient(w, in[i].slot, dx[i], err));
    }
    return SHEAF_OK;
}

/* ---- the walk ---- */

/* The slots that lead to something asked for: from the first node on, so that makers come before
 * users. */
static void mark(struct walk *w)
{
    for (size_t i = 0; i < w->tape->nodes.count; i++) {
        const struct sheaf__tape_node *n = sheaf__tape_node(w->tape, (int32_t)i);
        const struct sheaf__tape_input *in = sheaf__tape_inputs(w->tape, n);
        for (uint32_t k = 0; k < n->inputs; k++)
            if (in[k].slot >= 0 && w->wanted[in[k].slot])
                w->wanted[n->out_slot] = true;
    }
}

/* Whether anything reached the variable: for a taken one, its only user was walked through. */
static bool is_unused(const struct walk *w, int32_t slot, const struct sheaf__gradient *g)
{
    if (!g->take)
        return !g->value;
    const struct sheaf__tape_slot *s = sheaf__tape_slot(w->tape, slot);
    return !w->walked[sheaf__tape_node(w->tape, s->first_user)->out_slot];
}

/* Tells about a slot that no node before the present one uses. */
static sheaf_status finish_slot(struct walk *w, int32_t slot, sheaf_error *err)
{
    if (!w->result.all || w->number[slot] < 0)
        return SHEAF_OK;
    size_t i = (size_t)w->number[slot];
    struct sheaf__gradient *g = &w->result.all[i];
    sheaf_frame *inner = sheaf__frame_swap(w->outer);
    sheaf_status status = SHEAF_OK;
    g->value = w->gradients[slot];
    g->unused = is_unused(w, slot, g);
    if (g->value && !sheaf__frame_own(sheaf__ref(g->value)))
        status = sheaf__no_memory(err, "a gradient");
    else if (w->calls && w->calls->ready)
        status = w->calls->ready(&w->result, i, w->calls->user, err);
    sheaf__frame_swap(inner);
    return status;
}

static sheaf_status walk_nodes(struct walk *w, sheaf_error *err)
{
    const struct sheaf_tape *t = w->tape;
    for (size_t i = 0; i < t->slots.count; i++)
        if (sheaf__tape_slot(t, (int32_t)i)->first_user < 0)
            SHEAF__TRY(finish_slot(w, (int32_t)i, err));
    for (size_t i = t->nodes.count; i > 0; i--) {
        const struct sheaf__tape_node *n = sheaf__tape_node(t, (int32_t)i - 1);
        int32_t out = n->out_slot;
        w->walked[out] = w->gradients[out] && w->wanted[out];
        if (w->walked[out])
            SHEAF__TRY(step(w, n, err));
        if (w->gradients[out] && !w->asked[out]) {
            sheaf__unref(w->gradients[out]);
            w->gradients[out] = NULL;
        }
        sheaf_frame_clear();
        for (int32_t s = n->finals; s >= 0; s = sheaf__tape_slot(t, s)->next_final)
            SHEAF__TRY(finish_slot(w, s, err));
    }
    return SHEAF_OK;
}

static sheaf_status seed(struct walk *w, sheaf_tensor *target, sheaf_error *err)
{
    int32_t slot = sheaf__tape_find(w->tape, target);
    if (slot < 0)
        return SHEAF_OK;
    sheaf_tensor *one = sheaf_ones(target->dtype, target->shape);
    return sheaf__tensor_ok(one) ? add_gradient(w, slot, one, err) : sheaf_tensor_status(one, err);
}

/* Arrays by slot, in one block. */
static sheaf_status begin(struct walk *w, struct sheaf_tape *t, sheaf_tensor *target,
                          sheaf_error *err)
{
    if (!sheaf__tensor_ok(target))
        return sheaf_tensor_status(target, err);
    if (!t)
        return sheaf__no_memory(err, "a gradient tape");
    if (t->error.status < 0)
        return sheaf__error_copy(err, &t->error);
    if (t->used)
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "a gradient was taken from this tape already, and it is not persistent");
    size_t slots = t->slots.count, each = sizeof(sheaf_tensor *) + sizeof(int32_t) + 4;
    w->tape = t;
    w->capacity = slots * each + 1;
    w->memory = sheaf__heap_alloc(t->heap, w->capacity);
    if (!w->memory)
        return sheaf__no_memory(err, "gradients");
    memset(w->memory, 0, slots * each);
    w->gradients = w->memory;
    w->number = (int32_t *)(w->gradients + slots);
    w->wanted = (bool *)(w->number + slots);
    w->asked = w->wanted + slots;
    w->walked = w->asked + slots;
    w->masked = w->walked + slots;
    for (size_t i = 0; i < slots; i++)
        w->number[i] = -1;
    if (t->persistent) {
        t->paused = true;
    } else {
        t->used = true;
        sheaf__tape_stop(t);
    }
    w->watched = sheaf__tape_any();
    return SHEAF_OK;
}

static void end(struct walk *w)
{
    struct sheaf_tape *t = w->tape;
    if (!w->memory)
        return;
    for (size_t i = 0; i < t->slots.count; i++)
        sheaf__unref(w->gradients[i]);
    sheaf__heap_free(t->heap, w->memory, w->capacity);
    t->paused = false;
}

/* Everything between lives in the inner frame; gradients have counts of their own. */
static sheaf_status run(struct walk *w, sheaf_tensor *target, sheaf_error *err)
{
    w->outer = sheaf__frame_current();
    sheaf_frame_open(&w->inner);
    mark(w);
    sheaf_status status = seed(w, target, err);
    if (status >= 0)
        status = walk_nodes(w, err);
    sheaf_frame_close(&w->inner);
    return status;
}

/* ---- gradients of variables ---- */

/* One dense product that nobody else differentiates is all of the gradient of slot `i`. */
static bool is_direct(const struct walk *w, int32_t i, const sheaf_tensor *target)
{
    const struct sheaf__tape_slot *s = sheaf__tape_slot(w->tape, i);
    if (s->uses != 1 || w->watched || sheaf__tape_find(w->tape, target) == i)
        return false;
    const struct sheaf__tape_node *n = sheaf__tape_node(w->tape, s->first_user);
    const struct sheaf__tape_input *in = sheaf__tape_inputs(w->tape, n);
    return is_product(n) && in[1].slot == i;
}

/* Trainable variables in the order of their creation. */
static sheaf_status list_variables(struct walk *w, const sheaf_tensor *target, sheaf_error *err)
{
    const struct sheaf_tape *t = w->tape;
    struct sheaf__gradient *all = sheaf__frame_alloc((t->slots.count + 1) * sizeof(*all));
    size_t count = 0;
    if (!all)
        return sheaf__no_memory(err, "gradients");
    for (size_t i = 0; i < t->slots.count; i++) {
        const struct sheaf__tape_slot *s = sheaf__tape_slot(t, (int32_t)i);
        if (!s->variable)
            continue;
        size_t at = count++;
        for (; at > 0 && all[at - 1].variable->order > s->variable->order; at--)
            all[at] = all[at - 1];
        all[at] = (struct sheaf__gradient){.variable = s->variable,
                                           .direct = is_direct(w, (int32_t)i, target)};
        w->wanted[i] = w->asked[i] = true;
    }
    for (size_t i = 0; i < count; i++)
        w->number[sheaf__tape_find(t, all[i].variable)] = (int32_t)i;
    w->result = (struct sheaf__gradients){all, count};
    return SHEAF_OK;
}

sheaf_status sheaf__tape_gradients(sheaf_tape *tape, sheaf_tensor *target,
                                   const struct sheaf__gradient_calls *calls,
                                   struct sheaf__gradients *gradients, sheaf_error *err)
{
    sheaf_error local = {0};
    err = err ? err : &local;
    struct walk w = {.calls = calls};
    sheaf_status status = begin(&w, tape, target, err);
    if (status >= 0)
        status = list_variables(&w, target, err);
    if (status >= 0 && calls && calls->begin)
        status = calls->begin(&w.result, calls->user, err);
    if (status >= 0)
        status = run(&w, target, err);
    end(&w);
    if (status >= 0)
        *gradients = w.result;
    return status;
}

/* ---- gradient of one tensor ---- */

sheaf_tensor *sheaf_tape_gradient(sheaf_tape *tape, sheaf_tensor *target, sheaf_tensor *source)
{
    sheaf_tensor *failed = sheaf__tensor_first_failed((sheaf_tensor *[]){target, source}, 2);
    if (failed)
        return failed;
    struct walk w = {0};
    sheaf_error err = {0};
    sheaf_tensor *result = NULL;
    sheaf_status status = begin(&w, tape, target, &err);
    int32_t slot = status < 0 ? -1 : sheaf__tape_find(tape, source);
    if (slot >= 0) {
        w.wanted[slot] = w.asked[slot] = true;
        status = run(&w, target, &err);
        if (status >= 0 && w.gradients[slot])
            result = sheaf__frame_own(sheaf__ref(w.gradients[slot]));
    }
    end(&w);
    if (status < 0)
        return sheaf__tensor_give(NULL, &err);
    return result ? sheaf__tape_dense(result) : sheaf_zeros(source->dtype, source->shape);
}
