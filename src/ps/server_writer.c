/* SPDX-License-Identifier: Apache-2.0 */

/* Who saves the job's checkpoints, as the first server knows it: the chief, and when it is lost the
 * first of the other workers that is at work, or that stands by with its work done. A worker that the server has given up is asked nothing
 * and gets no answer any more, so whoever has one had the turn when it was given.
 *
 * The directories are the job's: this task holds their locks, so that they outlive a worker that is
 * lost, and end with the job. */

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/lock.h"
#include "ps/server.h"
#include "tensor/frame.h"

#include <string.h>

/* ---- with server->lock ---- */

/* The first worker that is here in that state, -1: none. */
static int find_worker(const struct sheaf__ps_server *server, enum sheaf__ps_worker_state state)
{
    for (int i = 0; i < server->worker_count; i++)
        if (server->workers[i].connected && server->workers[i].state == state)
            return i;
    return -1;
}

bool sheaf__ps_writer_ended(const struct sheaf__ps_server *server)
{
    const struct sheaf__ps_worker *w = &server->workers[server->writer];
    return !w->connected && w->left && w->state == SHEAF__PS_FINISHED;
}

void sheaf__ps_elect(struct sheaf__ps_server *server)
{
    const struct sheaf__ps_worker *w = &server->workers[server->writer];
    if (w->connected || w->state == SHEAF__PS_NEVER)
        return;
    int next = find_worker(server, SHEAF__PS_WORKING);
    if (next < 0 && !sheaf__ps_writer_ended(server))
        next = find_worker(server, SHEAF__PS_FINISHED); /* it stands by */
    if (next < 0)
        return;
    w = &server->workers[server->writer = next];
    sheaf__log(SHEAF_LOG_INFO, SHEAF__TASK " at %s saves the checkpoints from now on", w->task.job,
               w->task.index, w->address);
}

bool sheaf__ps_writes(const struct sheaf__ps_server *server, sheaf_task task)
{
    const struct sheaf__ps_worker *w = &server->workers[server->writer];
    return sheaf__ps_same_task(w->task, task);
}

static sheaf_status check_turn(struct sheaf__ps_server *server, const struct sheaf__call *call,
                               sheaf_error *err)
{
    const sheaf_task task = sheaf__ps_caller(call);
    sheaf__mutex_lock(&server->lock);
    const bool writes = sheaf__ps_writes(server, task);
    const sheaf_task other = server->workers[server->writer].task;
    sheaf__mutex_unlock(&server->lock);
    return writes ? SHEAF_OK
                  : sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                                 SHEAF__TASK " does not save checkpoints, " SHEAF__TASK " does",
                                 task.job, task.index, other.job, other.index);
}

static struct sheaf__ps_claim *find_claim(struct sheaf__ps_server *server, const char *prefix)
{
    for (size_t i = 0; i < server->claim_count; i++)
        if (strcmp(server->claims[i].prefix, prefix) == 0)
            return &server->claims[i];
    return NULL;
}

/* ---- directories, on the thread for files ---- */

static sheaf_status add_claim(struct sheaf__ps_server *server, const char *prefix,
                              struct sheaf__file *lock, sheaf_error *err)
{
    char *copy = sheaf__strdup(prefix);
    sheaf__mutex_lock(&server->lock);
    const bool added =
        copy && sheaf__array_reserve((void **)&server->claims, &server->claim_capacity,
                                     server->claim_count + 1, sizeof(*server->claims));
    if (added)
        server->claims[server->claim_count++] = (struct sheaf__ps_claim){copy, lock, 0};
    sheaf__mutex_unlock(&server->lock);
    if (!added)
        sheaf__free(copy);
    return added ? SHEAF_OK : sheaf__no_memory(err, "the lock of a directory");
}

/* What is asked of a claim. */
static sheaf_status get_prefix(struct sheaf__cursor *c, const char **prefix, sheaf_error *err)
{
    const uint8_t *text;
    size_t size;
    if (!sheaf__cursor_sized(c, &text, &size) || size == 0 || memchr(text, 0, size))
        return sheaf__ps_malformed("the prefix of checkpoints", err);
    *prefix = sheaf__frame_text((const char *)text, size);
    return SHEAF_OK;
}

static void reply_number(struct sheaf__call *call, int64_t number)
{
    sheaf__call_reply(call, &(struct sheaf__reply){.meta = &number, .meta_size = sizeof(number)});
}

static sheaf_status claim(struct sheaf__ps_server *server, struct sheaf__call *call,
                          sheaf_error *err)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    const char *prefix;
    SHEAF__TRY(get_prefix(&c, &prefix, err));
    SHEAF__TRY(check_turn(server, call, err));
    sheaf__mutex_lock(&server->lock);
    const struct sheaf__ps_claim *there = find_claim(server, prefix);
    const int64_t last = there ? there->last : 0;
    sheaf__mutex_unlock(&server->lock);
    if (!there) {
        struct sheaf__file *lock = NULL;
        SHEAF__TRY(sheaf__ckpt_lock(prefix, &lock, err));
        sheaf_status status = add_claim(server, prefix, lock, err);
        if (status < 0) {
            sheaf__ckpt_unlock(lock);
            return status;
        }
    }
    reply_number(call, last);
    return SHEAF_OK;
}

static void serve_claim(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__ps_submit(server->files, server, call, claim);
}

void sheaf__ps_drop_claims(struct sheaf__ps_server *server)
{
    for (size_t i = 0; i < server->claim_count; i++) {
        sheaf__ckpt_unlock(server->claims[i].lock);
        sheaf__free(server->claims[i].prefix);
    }
    sheaf__free(server->claims);
}

/* ---- numbers, leave, and who it is ---- */

/* The lock of the directory of that name, which may be another one by now. */
static sheaf_status renew_lock(struct sheaf__ps_claim *there, const char *prefix, sheaf_error *err)
{
    struct sheaf__file *lock = NULL;
    if (sheaf__ckpt_lock_holds(there->lock))
        return SHEAF_OK;
    SHEAF__TRY(sheaf__ckpt_lock(prefix, &lock, err));
    sheaf__ckpt_unlock(there->lock);
    there->lock = lock;
    return SHEAF_OK;
}

static sheaf_status give_number(struct sheaf__ps_server *server, struct sheaf__call *call,
                                sheaf_error *err)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    const char *prefix;
    uint64_t least;
    if (!sheaf__cursor_fixed64(&c, &least) || least > INT64_MAX / 2)
        return sheaf__ps_malformed("the number of a checkpoint", err);
    SHEAF__TRY(get_prefix(&c, &prefix, err));
    SHEAF__TRY(check_turn(server, call, err));
    struct sheaf__ps_claim *there = find_claim(server, prefix); /* only this thread adds any */
    if (!there)
        return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION, "nobody has the lock of '%s-N'",
                            prefix);
    SHEAF__TRY(renew_lock(there, prefix, err));
    sheaf__mutex_lock(&server->lock);
    there->last = (int64_t)least > there->last ? (int64_t)least : there->last + 1;
    const int64_t number = there->last;
    sheaf__mutex_unlock(&server->lock);
    reply_number(call, number);
    return SHEAF_OK;
}

static void serve_number(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__ps_submit(server->files, server, call, give_number);
}

/* An answer, and nothing else: the caller has not been given up. */
static void serve_leave(struct sheaf__call *call, void *user)
{
    sheaf_error err = {0};
    if (check_turn(user, call, &err) < 0)
        sheaf__call_fail(call, &err);
    else
        sheaf__call_reply(call, NULL);
}

static void serve_writer(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__mutex_lock(&server->lock);
    const uint8_t now = sheaf__ps_writes(server, sheaf__ps_caller(call));
    sheaf__mutex_unlock(&server->lock);
    sheaf__call_reply(call, &(struct sheaf__reply){.meta = &now, .meta_size = sizeof(now)});
}

sheaf_status sheaf__ps_serve_writer(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service services[] = {
        {.kind = SHEAF__PS_WRITER, .serve = serve_writer, .user = server},
        {.kind = SHEAF__PS_CLAIM, .serve = serve_claim, .user = server},
        {.kind = SHEAF__PS_NUMBER, .serve = serve_number, .user = server},
        {.kind = SHEAF__PS_LEAVE, .serve = serve_leave, .user = server},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        SHEAF__TRY(sheaf__net_serve(server->net, &services[i], err));
    return SHEAF_OK;
}
