/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to a task, or waiting until it connects. */
#include "base/error.h"
#include "base/log.h"
#include "net/ended.h"
#include "net/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIRST_PAUSE (5 * SHEAF__MS)
#define LAST_PAUSE  (200 * SHEAF__MS)

/* Whether another thread connects to the task. With net->lock. */
static bool is_dialed(struct sheaf__net *net, const sheaf_task *task)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&net->dials); node; node = sheaf__list_next(&net->dials, node))
        if (sheaf__task_equal(&SHEAF__CONTAINER(node, struct sheaf__dial, node)->task, task))
            return true;
    return false;
}

struct sheaf__peer *sheaf__peer_find_locked(struct sheaf__net *net, const sheaf_task *task)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&net->peers); node; node = sheaf__list_next(&net->peers, node)) {
        struct sheaf__peer *peer = SHEAF__CONTAINER(node, struct sheaf__peer, node);
        if (sheaf__task_equal(&peer->task, task))
            return peer;
    }
    return NULL;
}

struct sheaf__peer *sheaf__net_find(struct sheaf__net *net, const sheaf_task *task)
{
    sheaf__mutex_lock(&net->lock);
    struct sheaf__peer *peer = sheaf__peer_ref(sheaf__peer_find_locked(net, task));
    sheaf__mutex_unlock(&net->lock);
    return peer;
}

/* " within 30 s", if a wait of so many seconds is over; else nothing. */
struct allowance {
    char text[40];
};

static struct allowance allowance(const struct sheaf__wait *wait, int64_t ns)
{
    struct allowance a = {""};
    if (sheaf__clock_left(wait->deadline) == 0)
        snprintf(a.text, sizeof(a.text), " within %.3g s", sheaf__clock_given(ns));
    return a;
}

/* Whom we could not connect to, and why. */
static sheaf_status unconnected(const sheaf_task *task, const char *address,
                                const struct allowance *within, const sheaf_error *cause,
                                sheaf_error *err)
{
    const bool silent = cause->status == SHEAF_ERR_DEADLINE;
    const sheaf_status status = silent ? SHEAF_ERR_UNAVAILABLE : cause->status;
    sheaf__error(err, status, "cannot connect to " SHEAF__TASK " at %s%s: %s", task->job,
                 task->index, address, within->text,
                 silent ? "it does not answer" : cause->message);
    sheaf__error_set_peer(err, task->job, task->index);
    return status;
}

/* Who did not connect to us; or what has ended the wait for it. */
static sheaf_status unmet(const sheaf_task *task, const struct allowance *within,
                          const sheaf_error *cause, sheaf_error *err)
{
    const bool late = cause->status == SHEAF_ERR_DEADLINE;
    const sheaf_status status = late ? SHEAF_ERR_UNAVAILABLE : cause->status;
    if (late)
        sheaf__error(err, status, SHEAF__TASK " did not connect%s", task->job, task->index,
                     within->text);
    else
        sheaf__error(err, status, "waiting for " SHEAF__TASK ": %s", task->job, task->index,
                     cause->message);
    sheaf__error_set_peer(err, task->job, task->index);
    return status;
}

/* One attempt: until the conn has become a peer or has failed, or the peer is there in another way.
 */
static sheaf_status attempt(struct sheaf__net *net, struct sheaf__conn *conn,
                            const sheaf_task *task, const struct sheaf__wait *wait,
                            sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&net->lock);
    while (!conn->finished && !sheaf__peer_find_locked(net, task) && status == SHEAF_OK)
        status = sheaf__cond_wait(&net->changed, &net->lock, wait, err);
    sheaf__mutex_unlock(&net->lock);
    return status;
}

/* Waits for a while before the next attempt; ends at once when the peer is there. */
static sheaf_status pause_for(struct sheaf__net *net, const sheaf_task *task, int64_t pause,
                              const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__wait shorter = *wait;
    sheaf_status status = SHEAF_OK;
    shorter.deadline = sheaf__clock_after(pause);
    if (shorter.deadline >= wait->deadline)
        shorter.deadline = wait->deadline;
    sheaf__mutex_lock(&net->lock);
    while (!sheaf__peer_find_locked(net, task) && status == SHEAF_OK)
        status = sheaf__cond_wait(&net->changed, &net->lock, &shorter, err);
    sheaf__mutex_unlock(&net->lock);
    /* The pause is over, not the time. */
    return status == SHEAF_ERR_DEADLINE && sheaf__clock_left(wait->deadline) > 0 ? SHEAF_OK
                                                                                 : status;
}

/* Attempts until there is a peer. `last` is why the last one failed. */
static sheaf_status dial(struct sheaf__net *net, const sheaf_task *task, const char *address,
                         const struct sheaf__wait *wait, struct sheaf__peer **peer,
                         sheaf_error *last)
{
    unsigned tries = 0, name_count = 1;
    int64_t pause = FIRST_PAUSE;
    for (;;) {
        struct sheaf__conn *conn = NULL;
        sheaf_error error;
        bool retry = true;
        *peer = sheaf__net_find(net, task);
        if (*peer)
            return SHEAF_OK;
        sheaf_status status =
            sheaf__conn_dial(net, task, address, tries++, &name_count, &conn, last);
        if (status < 0)
            retry = status == SHEAF_ERR_UNAVAILABLE;
        else
            status = attempt(net, conn, task, wait, &error);
        if (conn) {
            sheaf__conn_drop(conn); /* its error and its flag stay */
            *peer = sheaf__net_find(net, task);
            if (*peer) {
                sheaf__conn_free(conn);
                return SHEAF_OK;
            }
            if (conn->error.status < 0) {
                *last = conn->error;
                retry = conn->retry;
            }
            sheaf__conn_free(conn);
        }
        if (!retry || sheaf__ended(task, NULL, last))
            return last->status;
        if (status == SHEAF_OK || status == SHEAF_ERR_UNAVAILABLE)
            status = tries % name_count == 0 ? pause_for(net, task, pause, wait, &error) : SHEAF_OK;
        pause = pause * 2 < LAST_PAUSE ? pause * 2 : LAST_PAUSE;
        if (status == SHEAF_ERR_DEADLINE)
            return last->status < 0 ? last->status : sheaf__error_copy(last, &error);
        if (status < 0)
            return sheaf__error_copy(last, &error);
    }
}

sheaf_status sheaf__net_connect(struct sheaf__net *net, const sheaf_task *task, const char *address,
                                const struct sheaf__wait *wait, struct sheaf__peer **peer,
                                sheaf_error *err)
{
    struct sheaf__dial self = {.task = *task};
    const int64_t allowed = sheaf__clock_left(wait->deadline);
    sheaf_error last = {0};
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&net->lock);
    while (is_dialed(net, task) && status == SHEAF_OK)
        status = sheaf__cond_wait(&net->changed, &net->lock, wait, &last);
    if (status == SHEAF_OK)
        sheaf__list_append(&net->dials, &self.node);
    sheaf__mutex_unlock(&net->lock);
    if (status == SHEAF_OK) {
        status = dial(net, task, address, wait, peer, &last);
        sheaf__mutex_lock(&net->lock);
        sheaf__list_remove(&self.node);
        sheaf__cond_broadcast(&net->changed);
        sheaf__mutex_unlock(&net->lock);
    }
    if (status == SHEAF_OK)
        return SHEAF_OK;
    const struct allowance within = allowance(wait, allowed);
    return unconnected(task, address, &within, &last, err);
}

sheaf_status sheaf__net_await(struct sheaf__net *net, const sheaf_task *task,
                              const struct sheaf__wait *wait, struct sheaf__peer **peer,
                              sheaf_error *err)
{
    const int64_t allowed = sheaf__clock_left(wait->deadline);
    const int64_t slice = sheaf__ended_is_known() ? SHEAF__ENDED_PAUSE_MS * SHEAF__MS : INT64_MAX;
    sheaf_error cause;
    sheaf_status status = SHEAF_OK;
    for (;;) {
        *peer = sheaf__net_find(net, task);
        if (*peer)
            return SHEAF_OK;
        if (status < 0)
            break;
        status = sheaf__ended(task, NULL, &cause) ? cause.status
                                                  : pause_for(net, task, slice, wait, &cause);
    }
    const struct allowance within = allowance(wait, allowed);
    return unmet(task, &within, &cause, err);
}
