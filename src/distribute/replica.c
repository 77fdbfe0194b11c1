/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/replica.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "distribute/sync.h"
#include "distribute/values.h"
#include "tensor/called.h"
#include "tensor/device.h"
#include "tensor/frame.h"

#include <stdio.h>
#include <string.h>

/* How long an idle replica spins before it sleeps: the next step usually follows at once. */
enum { SPIN_NS = 20000 };

/* A replica and what its last step came to. */
struct replica_slot {
    sheaf_replica replica;
    struct sheaf__thread *thread; /* NULL for replica 0 */
    sheaf_status status;
    sheaf_error error;
    sheaf_element *out;
};

/* Running one replica's step, on its thread. */

static sheaf_status call_step(struct replica_slot *slot, const struct sheaf__job *job)
{
    sheaf_replica *r = &slot->replica;
    sheaf_element *in = job->in ? sheaf__values_component(job->in, r->local) : NULL;
    /* Counts of our own: the function may clear its frame. */
    sheaf_element *none = in ? NULL : sheaf_element_keep(sheaf_element_new());
    sheaf_element *out = sheaf_element_keep(sheaf_element_new());
    sheaf__error_listen();
    const sheaf_status status =
        sheaf__called(job->fn(r, in ? in : none, out, job->user), &slot->error,
                      "the step function of replica %d", r->id);
    sheaf_element_free(none);
    if (status >= 0)
        slot->out = out;
    else
        sheaf_element_free(out);
    return status < 0 ? status : SHEAF_OK;
}

/* The others stop where they wait; other workers hear the first cause. */
static void fail_step(const sheaf_replica *r, const sheaf_error *cause)
{
    struct sheaf__replicas *all = r->all;
    if (atomic_exchange(&all->failed, true))
        return;
    sheaf__sync_abort(r->strategy, cause);
    sheaf__token_cancel_with(all->token, SHEAF_ERR_CANCELLED, "replica %d failed: %s", r->id,
                             cause->message);
}

static void run_slot(struct sheaf__replicas *all, struct replica_slot *slot)
{
    const struct sheaf__job *job = all->job;
    sheaf_replica *r = &slot->replica;
    struct sheaf__mode mode = {.kind = SHEAF__MODE_REPLICA,
                               .strategy = r->strategy,
                               .replica = r,
                               .local_replica = r->local,
                               .plan = job->plan};
    memset(&slot->error, 0, sizeof(slot->error));
    slot->out = NULL;
    sheaf__mode_push(&mode);
    struct sheaf__device *own =
        sheaf__device_set_own(sheaf__device_at(r->strategy->device_index[r->local]));
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    slot->status = call_step(slot, job);
    sheaf_frame_close(&frame);
    sheaf__device_set_own(own);
    sheaf__mode_pop(&mode);
    if (slot->status >= 0)
        slot->status = sheaf__meet_leave(&all->meet, r->local, &slot->error);
    if (slot->status < 0)
        fail_step(r, &slot->error);
}

/* The replicas' threads. */

static void await_step(struct sheaf__replicas *all, uint32_t seen)
{
    struct sheaf__spin spin = sheaf__spin_for(SPIN_NS);
    while (atomic_load_explicit(&all->generation, memory_order_acquire) == seen &&
           sheaf__spin_again(&spin))
        ;
    if (atomic_load_explicit(&all->generation, memory_order_acquire) != seen)
        return;
    const struct sheaf__wait idle = {SHEAF__NO_DEADLINE, SHEAF__NO_TOKEN, "the next step"};
    sheaf__mutex_lock(&all->mutex);
    while (atomic_load_explicit(&all->generation, memory_order_relaxed) == seen)
        sheaf__cond_wait(&all->changed, &all->mutex, &idle, NULL);
    sheaf__mutex_unlock(&all->mutex);
}

static void finish(struct sheaf__replicas *all)
{
    if (atomic_fetch_sub_explicit(&all->working, 1, memory_order_acq_rel) == 1) {
        sheaf__mutex_lock(&all->mutex);
        sheaf__cond_broadcast(&all->changed);
        sheaf__mutex_unlock(&all->mutex);
    }
}

static void replica_thread(void *user)
{
    struct replica_slot *slot = user;
    struct sheaf__replicas *all = slot->replica.all;
    for (uint32_t seen = 0;; seen++) {
        await_step(all, seen);
        if (all->closing)
            return;
        run_slot(all, slot);
        finish(all);
    }
}

static void start_step(struct sheaf__replicas *all, bool closing)
{
    sheaf__mutex_lock(&all->mutex);
    all->closing = closing;
    atomic_store_explicit(&all->working, (uint32_t)all->count - 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&all->generation, 1, memory_order_release);
    sheaf__cond_broadcast(&all->changed);
    sheaf__mutex_unlock(&all->mutex);
}

/* Waits for the replicas besides 0. Their own waits have deadlines and the step's token; only the
 * program's function cannot be cut short. */
static void await_replicas(struct sheaf__replicas *all)
{
    struct sheaf__spin spin = sheaf__spin_for(SPIN_NS);
    while (atomic_load_explicit(&all->working, memory_order_acquire) > 0 &&
           sheaf__spin_again(&spin))
        ;
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, SHEAF__NO_TOKEN, "the replicas' step"};
    sheaf__mutex_lock(&all->mutex);
    while (atomic_load_explicit(&all->working, memory_order_acquire) > 0)
        sheaf__cond_wait(&all->changed, &all->mutex, &wait, NULL);
    sheaf__mutex_unlock(&all->mutex);
}

/* Making and freeing them. */

void sheaf__replicas_free(struct sheaf__replicas *all)
{
    if (!all)
        return;
    start_step(all, true);
    for (int i = 0; i < all->count && all->slots; i++)
        sheaf__thread_join(all->slots[i].thread, SHEAF__NO_DEADLINE, NULL);
    sheaf__meet_destroy(&all->meet);
    sheaf__token_unref(all->token);
    sheaf__free(all->slots);
    sheaf__free(all);
}

static sheaf_status start_threads(sheaf_strategy *s, struct sheaf__replicas *all, sheaf_error *err)
{
    for (int i = 0; i < all->count; i++)
        all->slots[i].replica =
            (sheaf_replica){.strategy = s, .all = all, .local = i, .id = s->first + i};
    for (int i = 1; i < all->count; i++) {
        char name[24];
        snprintf(name, sizeof(name), "replica-%d", i);
        const struct sheaf__device *device = sheaf__device_at(s->device_index[i]);
        const struct sheaf__thread_options cores = {.cpus = device->cpus,
                                                    .cpu_count = device->cpu_count};
        SHEAF__TRY(sheaf__thread_start(name, replica_thread, &all->slots[i], &cores,
                                       &all->slots[i].thread, err));
    }
    return SHEAF_OK;
}

sheaf_status sheaf__replicas_of(sheaf_strategy *s, struct sheaf__replicas **replicas,
                                sheaf_error *err)
{
    if (!s->replicas) {
        struct sheaf__replicas *all = sheaf__calloc(1, sizeof(*all));
        if (!all)
            return sheaf__no_memory(err, "replicas");
        all->count = s->local;
        all->slots = sheaf__calloc((size_t)s->local, sizeof(*all->slots));
        if (!all->slots || !sheaf__meet_init(&all->meet, s->local, s->first)) {
            sheaf__replicas_free(all);
            return sheaf__no_memory(err, "replicas");
        }
        sheaf_status status = start_threads(s, all, err);
        if (status < 0) {
            sheaf__replicas_free(all);
            return status;
        }
        s->replicas = all;
    }
    *replicas = s->replicas;
    return SHEAF_OK;
}

/* One step on all of them. */

/* The lowest replica's error that another's failure did not cause. */
static sheaf_status choose_error(const struct sheaf__replicas *all, sheaf_error *err)
{
    const struct replica_slot *chosen = NULL;
    for (int i = all->count - 1; i >= 0; i--) {
        const struct replica_slot *slot = &all->slots[i];
        if (slot->status >= 0)
            continue;
        if (!chosen || slot->status != SHEAF_ERR_CANCELLED || chosen->status == SHEAF_ERR_CANCELLED)
            chosen = slot;
    }
    if (!chosen)
        return SHEAF_OK;
    sheaf__error_copy(err, &chosen->error);
    return chosen->status;
}

/* Nothing is given if the step failed. */
static void give_outs(struct sheaf__replicas *all, const struct sheaf__job *job,
                      sheaf_status status)
{
    for (int i = 0; i < all->count; i++) {
        if (status < 0)
            sheaf_element_free(all->slots[i].out);
        job->outs[i] = status < 0 ? NULL : all->slots[i].out;
        all->slots[i].out = NULL;
    }
}

/* A token for the step: the last step's, unless that was cancelled. */
static sheaf_status ready_token(struct sheaf__replicas *all, sheaf_error *err)
{
    if (all->token && sheaf__token_status(all->token) >= 0)
        return SHEAF_OK;
    sheaf__token_unref(all->token);
    all->token = sheaf__token_new(NULL);
    return all->token ? SHEAF_OK : sheaf__no_memory(err, "a step");
}

sheaf_status sheaf__replicas_run(sheaf_strategy *s, const struct sheaf__job *job, sheaf_error *err)
{
    struct sheaf__replicas *all;
    SHEAF__TRY(sheaf__replicas_of(s, &all, err));
    SHEAF__TRY(ready_token(all, err));
    SHEAF__TRY(sheaf__sync_begin(s, err));
    all->job = job;
    atomic_store(&all->failed, false);
    sheaf__meet_reset(&all->meet);
    if (all->count > 1)
        start_step(all, false);
    run_slot(all, &all->slots[0]);
    if (all->count > 1)
        await_replicas(all);
    all->job = NULL;
    sheaf_status status = sheaf__sync_end(s, choose_error(all, err), err);
    give_outs(all, job, status);
    return status;
}

/* What a replica sees. */

static sheaf_replica default_replica;
sheaf_replica *sheaf__replica_default(void)
{
    static struct sheaf__once once;
    sheaf__once(&once, (void (*)(void))sheaf__strategy_default);
    return &default_replica;
}

static const sheaf_replica *or_default(const sheaf_replica *r)
{
    return r ? r : &default_replica;
}

int sheaf_replica_id(const sheaf_replica *r)
{
    return or_default(r)->id;
}

sheaf_strategy *sheaf_replica_strategy(const sheaf_replica *r)
{
    sheaf_strategy *s = or_default(r)->strategy;
    return s ? s : sheaf__strategy_default();
}

int sheaf_replica_count(const sheaf_replica *r)
{
    return sheaf_replica_strategy(r)->total;
}

const char *sheaf_replica_device(const sheaf_replica *r)
{
    const char *device =
        sheaf_strategy_worker_device(sheaf_replica_strategy(r), or_default(r)->local);
    struct sheaf__device *current = device ? NULL : sheaf__device_current(NULL);
    return current ? sheaf__device_full_name(current) : device;
}

const char *sheaf_replica_str(const sheaf_replica *r)
{
    struct sheaf__str out = {0};
    sheaf__str_printf(&out, "ReplicaContext(replica id %d, total replicas in sync: %d)",
                      sheaf_replica_id(r), sheaf_replica_count(r));
    return sheaf__frame_str(&out);
}

sheaf_status sheaf__replica_check(sheaf_replica *r, const char *what, sheaf_error *err)
{
    const struct sheaf__mode *mode = sheaf__mode_current();
    if (r == &default_replica && mode->kind == SHEAF__MODE_DEFAULT)
        return SHEAF_OK;
    if (mode->kind != SHEAF__MODE_REPLICA)
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "%s outside a replica step; call it inside the function given to sheaf_run", what);
    if (mode->replica != r)
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "%s with the context of another replica or strategy; use the one given to this step",
            what);
    return SHEAF_OK;
}

sheaf_status sheaf__replica_come(sheaf_replica *r, const char *what, const char *of,
                                 sheaf_error *err)
{
    struct sheaf__meet_call call = {.what = what};
    sheaf_error error;
    if (!r->all || r->all->count == 1)
        return SHEAF_OK;
    SHEAF__TRY(sheaf__token_check(r->all->token, err));
    if (of)
        sheaf__str_copy(call.of, sizeof(call.of), of);
    if (sheaf__meet_come(&r->all->meet, r->local, &call, &error) == SHEAF_OK)
        return SHEAF_OK;
    fail_step(r, &error);
    sheaf__frame_latch(&error); /* whatever the program makes of it: the step has failed */
    return sheaf__error_copy(err, &error);
}

sheaf_status sheaf__replica_meet(sheaf_replica *r, const struct sheaf__meeting *meeting,
                                 void *contribution, sheaf_error *err)
{
    SHEAF__TRY(sheaf__replica_check(r, meeting->what, err));
    if (!r->all)
        return meeting->fn(&contribution, 1, meeting->user, err);
    SHEAF__TRY(sheaf__replica_come(r, meeting->what, meeting->of, err));
    const struct sheaf__wait wait = sheaf__sync_wait(r->strategy, meeting->what);
    return sheaf__meet_hold(&r->all->meet, r->local, contribution, meeting->fn, meeting->user,
                            &wait, err);
}
