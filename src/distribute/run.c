/* SPDX-License-Identifier: Apache-2.0 */

/* sheaf_run: one step on every replica (R4.11–R4.18), and compiled steps (S30). */

#include "base/error.h"
#include "base/mem.h"
#include "base/trace.h"
#include "data/rewrite.h"
#include "distribute/replica.h"
#include "distribute/values.h"
#include "ops/tape.h"
#include "tensor/called.h"
#include "tensor/frame.h"
#include "tensor/spec.h"

static sheaf_status check_input(const sheaf_strategy *s, const sheaf_values *in, sheaf_error *err)
{
    if (in && in->per_replica && in->count != s->local)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "sheaf_run: the input has %d components, the strategy %d local replicas", in->count,
            s->local);
    return SHEAF_OK;
}

/* Under the default strategy the function runs as it is, in the calling thread's mode (R4.3). */
static sheaf_status run_plainly(const struct sheaf__job *job, sheaf_error *err)
{
    sheaf_frame frame __attribute__((cleanup(sheaf_frame_close))) = {0};
    sheaf_frame_open(&frame);
    sheaf_element *in = job->in ? sheaf__values_component(job->in, 0) : sheaf_element_new();
    sheaf_element *out = sheaf_element_new();
    sheaf__error_listen();
    SHEAF__TRY(sheaf__called(job->fn(sheaf__replica_default(), in, out, job->user), err,
                             "the step function"));
    job->outs[0] = sheaf_element_keep(out);
    return SHEAF_OK;
}

/* The step with what its strategy does before and after, in the strategy's cross-replica mode. */
static sheaf_status run_in_scope(sheaf_strategy *s, const struct sheaf__job *job, sheaf_error *err)
{
    if (s->cls == &sheaf__strategy_default_class)
        return run_plainly(job, err);
    struct sheaf__mode mode = {.kind = SHEAF__MODE_CROSS, .strategy = s};
    SHEAF__TRACE("step");
    sheaf__mode_push(&mode);
    sheaf_status status = s->cls->step_begin ? s->cls->step_begin(s, err) : SHEAF_OK;
    if (status >= 0) {
        status = sheaf__replicas_run(s, job, err);
        if (s->cls->step_end) {
            sheaf_status end = s->cls->step_end(s, status, status < 0 ? NULL : err);
            status = status < 0 ? status : end;
        }
    }
    sheaf__mode_pop(&mode);
    return status;
}

/* What leaves a compiled step is a tensor, also what was a plain number in it (S86). */
static sheaf_status make_tensors(sheaf_element *e, sheaf_error *err)
{
    for (size_t i = 0; i < e->count; i++) {
        sheaf_tensor *plain = e->items[i].tensor;
        if (!plain->plain)
            continue;
        sheaf_tensor *t = sheaf__tensor_alias(plain, err);
        if (!t)
            return SHEAF_ERR_RESOURCE_EXHAUSTED;
        t->plain = false;
        e->items[i].tensor = t;
        sheaf_tensor_free(plain);
    }
    return SHEAF_OK;
}

static sheaf_status give_result(sheaf_strategy *s, const struct sheaf__job *job, sheaf_values **out,
                                sheaf_error *err)
{
    if (!out)
        return SHEAF_OK;
    sheaf_values *v = sheaf__values_regroup(job->outs, s->local, err);
    if (!v)
        return err->status;
    v = sheaf__frame_own(v);
    if (!v)
        return sheaf__no_memory(err, "the values of a step");
    for (int i = 0; i < s->local && job->plan; i++)
        SHEAF__TRY(make_tensors(job->outs[i], err));
    v->examples = job->examples;
    *out = v;
    return SHEAF_OK;
}

static sheaf_status run(sheaf_strategy *s, struct sheaf__job *job, sheaf_values **out,
                        sheaf_error *err)
{
    sheaf_error mine = {0};
    if (!err)
        err = &mine;
    SHEAF__TRY(sheaf__strategy_check_cross(s, "sheaf_run", err));
    SHEAF__TRY(check_input(s, job->in, err));
    if (!job->fn)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "sheaf_run: the step function is NULL");
    /* The default strategy has nothing that two steps could share. */
    const bool locks = s->cls != &sheaf__strategy_default_class;
    if (locks && !sheaf__mutex_trylock(&s->running))
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "sheaf_run: another thread runs a step of this strategy; one at a time");
    sheaf_element *outs[SHEAF__MOST_REPLICAS] = {0};
    job->outs = outs;
    job->examples = job->in ? job->in->examples : -1;
    sheaf_status status = run_in_scope(s, job, err);
    if (locks) {
        s->well = status >= 0;
        sheaf__mutex_unlock(&s->running);
    }
    if (status >= 0)
        status = give_result(s, job, out, err);
    for (int i = 0; i < s->local; i++)
        sheaf_element_free(outs[i]);
    return status;
}

sheaf_status sheaf_run(sheaf_strategy *s, sheaf_step_fn fn, void *user, const sheaf_values *in,
                       sheaf_values **out, sheaf_error *err)
{
    struct sheaf__job job = {.fn = fn, .user = user, .in = in};
    return run(sheaf__strategy_or_current(s), &job, out, err);
}

sheaf_status sheaf_run_with(sheaf_strategy *s, sheaf_step_fn fn, void *user, const sheaf_values *in,
                            const sheaf_run_options *options, sheaf_values **out, sheaf_error *err)
{
    static const sheaf_run_options none = {0};
    const sheaf_run_options *o = options ? options : &none;
    for (size_t i = 0; i < sizeof(o->reserved) / sizeof(*o->reserved); i++)
        if (o->reserved[i] != 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "run options: reserved field %zu is %llu, expected 0", i,
                                (unsigned long long)o->reserved[i]);
    SHEAF__TRY(sheaf__clock_check(o->deadline, "run options", err));
    struct sheaf__job job = {
        .fn = fn, .user = user, .in = in, .deadline_ns = (int64_t)(o->deadline * 1e9)};
    return run(sheaf__strategy_or_current(s), &job, out, err);
}

/* Compiled steps. */

struct sheaf_step {
    sheaf_step_fn fn;
    void *user;
    sheaf_element_spec *signature;
    bool given; /* by the program, not learned */
    int traces;
    struct sheaf__step_plan plan;
};

sheaf_step *sheaf_step_new(sheaf_step_fn fn, void *user, const sheaf_element_spec *signature)
{
    sheaf_step *step = sheaf__calloc(1, sizeof(*step));
    if (!step)
        return NULL;
    step->fn = fn;
    step->user = user;
    step->signature = sheaf_element_spec_keep(signature);
    step->given = signature != NULL;
    return step;
}

void sheaf_step_free(sheaf_step *step)
{
    if (!step)
        return;
    sheaf_element_spec_free(step->signature);
    sheaf__free(step);
}

int sheaf_step_traces(const sheaf_step *step)
{
    return step ? step->traces : 0;
}

/* The signature that an input teaches: its own spec with the first axes unknown. */
static sheaf_status learn_signature(sheaf_step *step, const sheaf_element *e, sheaf_error *err)
{
    sheaf_element_spec *exact = sheaf__spec_of(e, err);
    sheaf_element_spec *any = exact ? sheaf__spec_any_batch(exact) : NULL;
    sheaf_element_spec_free(exact);
    if (!any)
        return sheaf__no_memory(err, "a step's signature");
    sheaf_element_spec_free(step->signature);
    step->signature = any;
    step->traces++;
    return SHEAF_OK;
}

/* The step's signature must take every component; a learned one is learned anew from another kind
 * of input. */
static sheaf_status check_signature(sheaf_step *step, const sheaf_values *in, sheaf_error *err)
{
    if (step->given && step->traces == 0)
        step->traces = 1;
    for (int i = 0; in && i < in->count; i++) {
        const sheaf_element *e = in->components[i];
        if (!step->signature)
            SHEAF__TRY(learn_signature(step, e, err));
        sheaf_error misfit;
        if (sheaf_element_spec_check(step->signature, e, &misfit) >= 0)
            continue;
        if (step->given)
            return sheaf__error_copy(err, &misfit);
        SHEAF__TRY(learn_signature(step, e, err));
    }
    if (!in && step->traces == 0)
        step->traces = 1;
    return SHEAF_OK;
}

sheaf_status sheaf_run_step(sheaf_strategy *s, sheaf_step *step, const sheaf_values *in,
                            sheaf_values **out, sheaf_error *err)
{
    s = sheaf__strategy_or_current(s);
    if (!step)
        return sheaf__no_memory(err, "a step");
    /* First of all: replicas that call this must not touch the step together. */
    SHEAF__TRY(sheaf__strategy_check_cross(s, "sheaf_run_step", err));
    SHEAF__TRY(check_signature(step, in, err));
    struct sheaf__job job = {.fn = step->fn, .user = step->user, .in = in, .plan = &step->plan};
    return run(s, &job, out, err);
}
