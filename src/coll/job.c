/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces in the background. The k-th job of every local replica belong together; when the last replica has started its
 * own they are ready. A team of one member reduces them at once, on that replica's thread; else a thread of the channel
 * does so, one after the other. */
#include "base/error.h"
#include "base/mem.h"
#include "coll/core.h"

#include <string.h>

enum { WAITING, DONE };

/* The jobs of one round, one of each local replica. */
struct batch {
    struct sheaf__list_node node;
    int count;
    struct sheaf__reduce_job *jobs[]; /* of each local replica */
};

struct sheaf__jobs {
    struct sheaf__channel *channel;
    struct sheaf__mutex lock;
    struct sheaf__cond work, over;
    struct sheaf__list open;  /* batches that are not complete, in order */
    struct sheaf__list ready; /* complete ones */
    int running;              /* batches that are ready or at work */
    struct sheaf__token *token;
    struct sheaf__thread *thread;
    bool stop;
};

/* ---- running ---- */

static sheaf_status run(struct sheaf__jobs *j, struct batch *b, sheaf_error *err)
{
    struct sheaf__channel *c = j->channel;
    const struct sheaf__wait wait = {.deadline = sheaf__clock_default_deadline(),
                                     .token = j->token,
                                     .what = "a sum in the background"};
    size_t local = (size_t)c->local;
    struct sheaf__coll_args *args = sheaf__calloc(local, sizeof(*args));
    struct sheaf__coll_args **each = sheaf__alloc_array(local, sizeof(*each));
    sheaf_status status = args && each ? SHEAF_OK : sheaf__no_memory(err, "a sum");
    for (size_t i = 0; status == SHEAF_OK && i < local; i++) {
        sheaf__coll_reduction_args(SHEAF__COLL_ALL_REDUCE, &b->jobs[i]->reduction, &args[i]);
        args[i].background = true;
        each[i] = &args[i];
    }
    if (status == SHEAF_OK)
        status = sheaf__crew_act(c, each, &wait, err);
    sheaf__free(args);
    sheaf__free(each);
    return status;
}

/* Runs a batch, frees it and tells its owners. Without the lock. */
static void run_and_tell(struct sheaf__jobs *j, struct batch *b)
{
    sheaf_error error = {0};
    sheaf_status status = run(j, b, &error);
    sheaf__mutex_lock(&j->lock);
    for (int i = 0; i < j->channel->local; i++) {
        if (status < 0)
            b->jobs[i]->error = error;
        b->jobs[i]->state = DONE;
    }
    j->running--;
    sheaf__cond_broadcast(&j->over);
    sheaf__mutex_unlock(&j->lock);
    sheaf__free(b);
}

static void run_all(void *user)
{
    struct sheaf__jobs *j = user;
    sheaf__mutex_lock(&j->lock);
    for (;;) {
        struct sheaf__list_node *node = sheaf__list_pop(&j->ready);
        if (node) {
            sheaf__mutex_unlock(&j->lock);
            run_and_tell(j, SHEAF__CONTAINER(node, struct batch, node));
            sheaf__mutex_lock(&j->lock);
        } else if (j->stop) {
            break;
        } else {
            sheaf__cond_wait_until(&j->work, &j->lock, SHEAF__NO_DEADLINE, SHEAF__NO_TOKEN, NULL);
        }
    }
    sheaf__mutex_unlock(&j->lock);
}

/* ---- life ---- */

static sheaf_status make(struct sheaf__channel *c, sheaf_error *err)
{
    struct sheaf__jobs *j = sheaf__calloc(1, sizeof(*j));
    if (!j)
        return sheaf__no_memory(err, "background sums");
    j->channel = c;
    sheaf__list_init(&j->open);
    sheaf__list_init(&j->ready);
    j->token = sheaf__token_new(NULL);
    sheaf_status status = j->token ? SHEAF_OK : sheaf__no_memory(err, "background sums");
    if (status == SHEAF_OK && c->team->size > 1)
        status = sheaf__thread_start("sheaf-coll", run_all, j, NULL, &j->thread, err);
    if (status < 0) {
        sheaf__token_unref(j->token);
        sheaf__free(j);
        return status;
    }
    atomic_store(&c->jobs, j);
    return SHEAF_OK;
}

void sheaf__jobs_free(struct sheaf__channel *c)
{
    struct sheaf__jobs *j = atomic_load(&c->jobs);
    struct sheaf__list_node *node;
    if (!j)
        return;
    sheaf__token_cancel_with(j->token, SHEAF_ERR_CANCELLED, "the channel is closed");
    sheaf__mutex_lock(&j->lock);
    j->stop = true;
    sheaf__cond_signal(&j->work);
    sheaf__mutex_unlock(&j->lock);
    sheaf__thread_join(j->thread, SHEAF__NO_DEADLINE, NULL);
    while ((node = sheaf__list_pop(&j->open)))
        sheaf__free(SHEAF__CONTAINER(node, struct batch, node));
    sheaf__token_unref(j->token);
    sheaf__free(j);
    atomic_store(&c->jobs, NULL);
}

static struct sheaf__jobs *get(struct sheaf__channel *c, sheaf_error *err)
{
    sheaf__mutex_lock(&c->lock);
    sheaf_status status = atomic_load(&c->jobs) ? SHEAF_OK : make(c, err);
    struct sheaf__jobs *j = status == SHEAF_OK ? atomic_load(&c->jobs) : NULL;
    sheaf__mutex_unlock(&c->lock);
    return j;
}

/* ---- starting and finishing ---- */

/* The first batch in which replica `local` has no job yet. With the lock; NULL: no memory. */
static struct batch *batch_for(struct sheaf__jobs *j, int local)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&j->open); node; node = sheaf__list_next(&j->open, node)) {
        struct batch *b = SHEAF__CONTAINER(node, struct batch, node);
        if (!b->jobs[local])
            return b;
    }
    size_t local_count = (size_t)j->channel->local;
    struct batch *b = sheaf__calloc(1, sizeof(*b) + local_count * sizeof(b->jobs[0]));
    if (b)
        sheaf__list_append(&j->open, &b->node);
    return b;
}

sheaf_status sheaf__reduce_start(struct sheaf__channel *channel, int local,
                                 struct sheaf__reduce_job *job, sheaf_error *err)
{
    struct batch *complete = NULL;
    SHEAF__TRY(sheaf__coll_check_reduction(&job->reduction, err));
    struct sheaf__jobs *j = get(channel, err);
    if (!j)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    job->local = local;
    job->state = WAITING;
    job->error.status = SHEAF_OK;
    sheaf__mutex_lock(&j->lock);
    struct batch *b = batch_for(j, local);
    if (b) {
        b->jobs[local] = job;
        if (++b->count == channel->local) {
            sheaf__list_remove(&b->node);
            j->running++;
            if (j->thread)
                sheaf__list_append(&j->ready, &b->node);
            else
                complete = b;
            sheaf__cond_signal(&j->work);
        }
    }
    sheaf__mutex_unlock(&j->lock);
    if (!b)
        return sheaf__no_memory(err, "a background sum");
    if (complete)
        run_and_tell(j, complete);
    return SHEAF_OK;
}

/* Takes the job out of its batch if that is not complete: nobody will touch it any more. With the lock. */
static bool withdraw(struct sheaf__jobs *j, const struct sheaf__reduce_job *job)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&j->open); node; node = sheaf__list_next(&j->open, node)) {
        struct batch *b = SHEAF__CONTAINER(node, struct batch, node);
        if (b->jobs[job->local] != job)
            continue;
        b->jobs[job->local] = NULL;
        if (--b->count == 0) {
            sheaf__list_remove(node);
            sheaf__free(b);
        }
        return true;
    }
    return false;
}

sheaf_status sheaf__reduce_finish(struct sheaf__channel *channel, struct sheaf__reduce_job *job,
                                  const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__jobs *j = atomic_load(&channel->jobs);
    struct sheaf__wait w = *wait;
    sheaf_error error;
    sheaf__mutex_lock(&j->lock);
    while (job->state != DONE) {
        sheaf_status status = sheaf__channel_stopped(channel, &error);
        if (status == SHEAF_OK)
            status = sheaf__cond_wait(&j->over, &j->lock, &w, &error);
        if (status == SHEAF_OK)
            continue;
        sheaf__mutex_unlock(&j->lock);
        sheaf__channel_abort(channel, &error);
        sheaf__mutex_lock(&j->lock);
        if (withdraw(j, job)) {
            sheaf__mutex_unlock(&j->lock);
            return sheaf__error_copy(err, &error);
        }
        /* It is being reduced: now that the channel has failed, it will soon be over. */
        w.deadline = SHEAF__NO_DEADLINE;
        w.token = SHEAF__NO_TOKEN;
        while (job->state != DONE)
            sheaf__cond_wait(&j->over, &j->lock, &w, NULL);
    }
    sheaf__mutex_unlock(&j->lock);
    return job->error.status < 0 ? sheaf__error_copy(err, &job->error) : SHEAF_OK;
}

void sheaf__jobs_wake(struct sheaf__channel *c)
{
    struct sheaf__jobs *j = atomic_load(&c->jobs);
    if (!j)
        return;
    sheaf__mutex_lock(&j->lock);
    sheaf__cond_broadcast(&j->over);
    sheaf__mutex_unlock(&j->lock);
}

sheaf_status sheaf__jobs_drain(struct sheaf__channel *c, const struct sheaf__wait *wait,
                               sheaf_error *err)
{
    struct sheaf__jobs *j = atomic_load(&c->jobs);
    sheaf_status status = SHEAF_OK;
    if (!j)
        return SHEAF_OK;
    sheaf__mutex_lock(&j->lock);
    while (j->running > 0 && status == SHEAF_OK)
        status = sheaf__cond_wait(&j->over, &j->lock, wait, err);
    sheaf__mutex_unlock(&j->lock);
    return status;
}
