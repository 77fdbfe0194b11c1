/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/plan.h"

#include "base/array.h"
#include "base/mem.h"

#include <string.h>

struct sheaf__plan {
    struct sheaf__plan_op *ops;
    size_t count, capacity;
    struct sheaf__plan_variable *variables;
    size_t variable_count, variable_capacity;
    size_t at;      /* operations of the present run so far */
    bool recording; /* the present run is beyond what is known */
    bool lost;      /* no memory: the plan is incomplete */
    uint64_t runs, strays;
};

static _Thread_local struct sheaf__plan *current;
static _Thread_local bool tracing;

struct sheaf__plan *sheaf__plan_new(sheaf_error *err)
{
    struct sheaf__plan *plan = sheaf__calloc(1, sizeof(*plan));
    if (!plan)
        sheaf__no_memory(err, "a plan");
    return plan;
}

void sheaf__plan_free(struct sheaf__plan *plan)
{
    if (!plan)
        return;
    sheaf__free(plan->ops);
    sheaf__free(plan->variables);
    sheaf__free(plan);
}

void sheaf__plan_begin(struct sheaf__plan *plan)
{
    current = plan;
    if (!plan)
        return;
    plan->at = 0;
    plan->recording = plan->count == 0;
}

void sheaf__plan_end(struct sheaf__plan *plan, sheaf_status status)
{
    current = NULL;
    if (!plan || status < 0)
        return;
    bool strayed = plan->recording || plan->at != plan->count;
    plan->count = plan->at;
    if (plan->runs++ > 0 && strayed)
        plan->strays++;
}

/* Whether a call is the known one; sizes that differ from run to run become unknown. */
static bool match(struct sheaf__plan_op *known, const struct sheaf__op_call *call)
{
    if (known->op != call->op || known->dtype != call->dtype || known->device != call->device ||
        known->shape.rank != call->shape.rank)
        return false;
    for (int i = 0; i < call->shape.rank; i++)
        if (known->shape.dims[i] != call->shape.dims[i])
            known->shape.dims[i] = SHEAF_UNKNOWN_DIM;
    return true;
}

void sheaf__plan_note(const struct sheaf__op_call *call)
{
    struct sheaf__plan *p = current;
    if (!p)
        return;
    if (!p->recording && p->at < p->count && match(&p->ops[p->at], call)) {
        p->at++;
        return;
    }
    p->recording = true;
    if (!sheaf__array_reserve((void **)&p->ops, &p->capacity, p->at + 1, sizeof(*p->ops))) {
        p->lost = true;
        return;
    }
    p->ops[p->at++] = (struct sheaf__plan_op){call->op, call->dtype, call->shape, call->device};
    p->count = p->at;
}

void sheaf__plan_read(sheaf_variable *v, bool rows)
{
    struct sheaf__plan *p = current;
    if (!p)
        return;
    size_t i = 0;
    while (i < p->variable_count && p->variables[i].variable != v)
        i++;
    if (i == p->variable_count) {
        if (!sheaf__array_reserve((void **)&p->variables, &p->variable_capacity, i + 1,
                                  sizeof(*p->variables))) {
            p->lost = true;
            return;
        }
        p->variables[p->variable_count++] = (struct sheaf__plan_variable){.variable = v};
    }
    p->variables[i].whole |= !rows;
    p->variables[i].rows |= rows;
}

uint64_t sheaf__plan_runs(const struct sheaf__plan *plan)
{
    return plan->runs;
}

uint64_t sheaf__plan_strays(const struct sheaf__plan *plan)
{
    return plan->strays;
}

const struct sheaf__plan_op *sheaf__plan_ops(const struct sheaf__plan *plan, size_t *count)
{
    *count = plan->lost ? 0 : plan->count;
    return plan->ops;
}

const struct sheaf__plan_variable *sheaf__plan_variables(const struct sheaf__plan *plan,
                                                         size_t *count)
{
    *count = plan->lost ? 0 : plan->variable_count;
    return plan->variables;
}

struct sheaf__plan *sheaf__plan_current(void)
{
    return current;
}

bool sheaf__plan_set_tracing(bool on)
{
    bool before = tracing;
    tracing = on;
    return before;
}

bool sheaf__plan_tracing(void)
{
    return tracing;
}

sheaf_status sheaf__plan_blank(sheaf_tensor *out, sheaf_error *err)
{
    (void)err;
    memset(sheaf__tensor_out(out), 0, sheaf__tensor_size(out));
    return SHEAF_OK;
}
