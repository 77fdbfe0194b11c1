/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/client.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/trace.h"
#include "cluster/cluster.h"
#include "ps/variable.h"
#include "tensor/frame.h"

#include <string.h>

enum { GOODBYE_SECONDS = 2 };

/* Requests. */

struct sheaf__ps_remote *sheaf__ps_prepare(struct sheaf__ps_client *client, int i)
{
    struct sheaf__ps_remote *r = &client->servers[i];
    sheaf__buf_clear(&r->meta);
    r->part_count = 0;
    return r;
}

bool sheaf__ps_add_part(struct sheaf__ps_remote *r, const void *data, size_t size)
{
    if (size == 0)
        return true;
    if (!sheaf__array_reserve((void **)&r->parts, &r->part_capacity, r->part_count + 1,
                              sizeof(*r->parts)))
        return false;
    r->parts[r->part_count++] = (struct sheaf__part){(void *)(uintptr_t)data, size};
    return true;
}

void sheaf__ps_start(struct sheaf__ps_client *client, int i, uint32_t kind,
                     const struct sheaf__part *into, size_t into_count)
{
    struct sheaf__ps_remote *r = &client->servers[i];
    struct sheaf__request *q = &r->request;
    q->kind = kind;
    q->meta = r->meta.data;
    q->meta_size = r->meta.size;
    q->parts = r->parts;
    q->count = r->part_count;
    q->into = into;
    q->into_count = into_count;
    /* once started, the request is the network's until it is finished */
    r->start = sheaf__buf_check(&r->meta, "a message", &q->error);
    if (r->start >= 0)
        r->start = sheaf__request_start(r->peer, q, &q->error);
    r->started = true;
}

/* What could not be done, for errors of lost servers. */
static const char *operation(uint32_t kind)
{
    static const char *const names[] = {
        [SHEAF__PS_CREATE] = "making a variable",
        [SHEAF__PS_SLOT] = "making a slot",
        [SHEAF__PS_PULL] = "pull",
        [SHEAF__PS_PUSH] = "push",
        [SHEAF__PS_LOOKUP] = "look-up",
        [SHEAF__PS_FETCH] = "fetch",
        [SHEAF__PS_PROVE] = "save",
        [SHEAF__PS_CUT] = "save",
        [SHEAF__PS_WRITE] = "save",
        [SHEAF__PS_READ] = "restore",
        [SHEAF__PS_SETTLE] = "restore",
        [SHEAF__PS_RESTORED] = "restore",
        [SHEAF__PS_AWAIT] = "restore",
        [SHEAF__PS_MARK] = "restore",
        [SHEAF__PS_DONE] = "end of the work",
        [SHEAF__PS_JOIN] = "join",
        [SHEAF__PS_WRITER] = "save",
        [SHEAF__PS_CLAIM] = "save",
        [SHEAF__PS_NUMBER] = "save",
        [SHEAF__PS_LEAVE] = "save",
    };
    return names[kind];
}

sheaf_status sheaf__ps_finish_until(struct sheaf__ps_client *client, int64_t deadline,
                                    sheaf_error *err)
{
    const struct sheaf__wait wait = {deadline, NULL, "a parameter server"};
    sheaf_error first = {0};
    for (int i = 0; i < client->server_count; i++) {
        struct sheaf__ps_remote *r = &client->servers[i];
        sheaf_error mine = {0};
        if (!r->started)
            continue;
        r->started = false;
        if (r->start < 0)
            mine = r->request.error;
        else if (sheaf__request_finish(&r->request, &wait, &mine) >= 0)
            continue;
        if (mine.status == SHEAF_ERR_UNAVAILABLE)
            sheaf__error_prefix(&mine, "%s", operation(r->request.kind));
        sheaf__error_keep_first(&first, &mine);
    }
    return first.status < 0 ? sheaf__error_copy(err, &first) : SHEAF_OK;
}

sheaf_status sheaf__ps_finish_all(struct sheaf__ps_client *client, sheaf_error *err)
{
    return sheaf__ps_finish_until(client, sheaf__clock_after(client->deadline_ns), err);
}

sheaf_status sheaf__ps_call(struct sheaf__ps_client *client, int i, uint32_t kind,
                            const struct sheaf__part *into, size_t into_count, sheaf_error *err)
{
    sheaf__ps_start(client, i, kind, into, into_count);
    return sheaf__ps_finish_all(client, err);
}

/* Pulling. With the lock held. */

/* Adds what server `s` has of a variable to its message; returns the number of parts that come. */
static size_t ask_for_parts(struct sheaf__ps_remote *r, int s,
                            const struct sheaf__ps_variable_ref *v, struct sheaf__part *into)
{
    char *out = sheaf__tensor_out(v->value);
    size_t used = 0;
    for (size_t k = 0; k < v->part_count; k++) {
        const struct sheaf__ps_part *p = &v->parts[k];
        if (p->server != s)
            continue;
        sheaf__buf_fixed32(&r->meta, p->number);
        into[used++] = (struct sheaf__part){out + p->offset, p->bytes};
    }
    return used;
}

/* New values of the variables in client->wanted, one message to each server. */
static sheaf_status pull(struct sheaf__ps_client *client, size_t count, sheaf_error *err)
{
    SHEAF__TRACE("ps.pull");
    sheaf_status status = SHEAF_OK;
    struct sheaf__ps_variable_ref *const *wanted = client->wanted;
    size_t parts = 0;
    for (size_t i = 0; i < count; i++)
        parts += wanted[i]->part_count;
    if (!sheaf__array_reserve((void **)&client->into, &client->into_capacity, parts,
                              sizeof(*client->into)))
        return sheaf__no_memory(err, "a pull");
    for (size_t i = 0; i < count && status >= 0; i++) {
        /* The old one goes first: its memory, which is in the caches, is the first to be taken. */
        sheaf__unref(wanted[i]->value);
        wanted[i]->value =
            sheaf__tensor_new(wanted[i]->base.dtype, wanted[i]->base.shape, NULL, err);
        status = wanted[i]->value ? SHEAF_OK : SHEAF_ERR_RESOURCE_EXHAUSTED;
    }
    size_t used = 0;
    for (int s = 0; s < client->server_count && status >= 0; s++) {
        struct sheaf__ps_remote *r = sheaf__ps_prepare(client, s);
        const size_t first = used;
        for (size_t i = 0; i < count; i++)
            used += ask_for_parts(r, s, wanted[i], client->into + used);
        if (used > first)
            sheaf__ps_start(client, s, SHEAF__PS_PULL, client->into + first, used - first);
    }
    sheaf_status over = sheaf__ps_finish_all(client, status < 0 ? NULL : err);
    return status < 0 ? status : over;
}

static bool want(struct sheaf__ps_client *client, size_t count, struct sheaf__ps_variable_ref *v)
{
    if (!sheaf__array_reserve((void **)&client->wanted, &client->wanted_capacity, count + 1,
                              sizeof(*client->wanted)))
        return false;
    client->wanted[count] = v;
    return true;
}

sheaf_tensor *sheaf__ps_read(struct sheaf__ps_client *client, struct sheaf__ps_variable_ref *v)
{
    sheaf_error err = {0};
    sheaf_tensor *t = NULL;
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&client->lock);
    if (!client->in_step || v->step != client->step) {
        status = want(client, 0, v) ? pull(client, 1, &err) : sheaf__no_memory(&err, "a pull");
        if (status >= 0)
            v->step = client->step;
    }
    if (status >= 0) {
        v->read = client->step;
        t = sheaf__tensor_alias(v->value, &err);
    }
    sheaf__mutex_unlock(&client->lock);
    return sheaf__tensor_give(t, &err);
}

sheaf_status sheaf__ps_step_begin(struct sheaf__ps_client *client, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    size_t count = 0;
    sheaf__mutex_lock(&client->lock);
    for (size_t i = 0; i < client->count && status >= 0; i++) {
        struct sheaf__ps_variable_ref *v = client->variables[i];
        if (v && client->step > 0 && v->read == client->step)
            status = want(client, count++, v) ? SHEAF_OK : sheaf__no_memory(err, "a step");
    }
    client->step++;
    if (count > 0 && status >= 0)
        status = pull(client, count, err);
    for (size_t i = 0; i < count && status >= 0; i++)
        client->wanted[i]->step = client->step;
    client->in_step = status >= 0;
    sheaf__mutex_unlock(&client->lock);
    return status;
}

/* Pushing. With the lock held. */

static size_t queued_bytes(const struct sheaf__ps_queued *q)
{
    return sheaf__tensor_size(q->data) + (q->ids ? sheaf__tensor_size(q->ids) : 0);
}

static void clear_queue(struct sheaf__ps_client *client)
{
    for (size_t i = 0; i < client->queue_count; i++) {
        sheaf__unref(client->queue[i].ids);
        sheaf__unref(client->queue[i].data);
    }
    client->queue_count = client->hyper_count = 0;
}

/* The message to server `s`: head, hyperparameters, updates; the data are sent from where they are.
 */
static sheaf_status build_push(struct sheaf__ps_client *client, int s, uint32_t updates,
                               const struct sheaf__buf *mark, sheaf_error *err)
{
    static const char nothing[8];
    struct sheaf__ps_remote *r = sheaf__ps_prepare(client, s);
    const struct sheaf__ps_push head = {.sequence = ++r->sequence,
                                        .hypers = (uint32_t)client->hyper_count,
                                        .updates = updates,
                                        .mark = mark ? (uint32_t)mark->size : 0};
    sheaf__buf_bytes(&r->meta, &head, sizeof(head));
    sheaf__buf_bytes(&r->meta, client->hypers, client->hyper_count * sizeof(*client->hypers));
    for (size_t i = 0; i < client->queue_count; i++) {
        const struct sheaf__ps_queued *q = &client->queue[i];
        if (q->server != s)
            continue;
        const struct sheaf__ps_update u = {.variable = q->number,
                                           .kind = (uint16_t)q->kind,
                                           .hyper = (uint16_t)q->hyper,
                                           .count =
                                               q->ids ? (uint64_t)sheaf_tensor_elements(q->ids) : 0,
                                           .bytes = queued_bytes(q)};
        sheaf__buf_bytes(&r->meta, &u, sizeof(u));
        const void *ids = q->ids ? sheaf__tensor_host(q->ids, err) : NULL;
        const void *data = sheaf__tensor_host(q->data, err);
        if (!data || (q->ids && !ids))
            return SHEAF_ERR_RESOURCE_EXHAUSTED;
        if ((ids && !sheaf__ps_add_part(r, ids, sheaf__tensor_size(q->ids))) ||
            !sheaf__ps_add_part(r, data, sheaf__tensor_size(q->data)) ||
            !sheaf__ps_add_part(r, nothing, sheaf__ps_room(u.bytes) - u.bytes))
            return sheaf__no_memory(err, "a push");
    }
    if (mark)
        sheaf__buf_bytes(&r->meta, mark->data, mark->size);
    return SHEAF_OK;
}

/* Servers that have asked for their push again get it once more, and it counts. */
static sheaf_status push_again(struct sheaf__ps_client *client, sheaf_error *err)
{
    struct sheaf__ps_push head;
    for (int s = 0; s < client->server_count; s++) {
        struct sheaf__ps_remote *r = &client->servers[s];
        const struct sheaf__buf *reply = &r->request.reply_meta;
        if (!r->pushed || reply->size == 0 || reply->data[0] != SHEAF__PS_AGAIN)
            continue;
        memcpy(&head, r->meta.data, sizeof(head));
        head.again = 1;
        memcpy(r->meta.data, &head, sizeof(head));
        sheaf__ps_start(client, s, SHEAF__PS_PUSH, NULL, 0);
    }
    return sheaf__ps_finish_all(client, err);
}

sheaf_status sheaf__ps_push(struct sheaf__ps_client *client, bool marked, sheaf_error *err)
{
    SHEAF__TRACE("ps.push");
    const struct sheaf__buf *mark = marked && client->mark.size > 0 ? &client->mark : NULL;
    sheaf_status status = SHEAF_OK;
    for (int s = 0; s < client->server_count && status >= 0; s++) {
        uint32_t updates = 0;
        for (size_t i = 0; i < client->queue_count; i++)
            updates += client->queue[i].server == s;
        const struct sheaf__buf *mine = s == 0 ? mark : NULL;
        client->servers[s].pushed = updates > 0 || mine;
        if (!client->servers[s].pushed)
            continue;
        status = build_push(client, s, updates, mine, err);
        if (status >= 0)
            sheaf__ps_start(client, s, SHEAF__PS_PUSH, NULL, 0);
    }
    sheaf_status over = sheaf__ps_finish_all(client, status < 0 ? NULL : err);
    if (status >= 0 && over >= 0)
        over = push_again(client, err);
    clear_queue(client);
    client->mark_waits &= !mark;
    return status < 0 ? status : over;
}

sheaf_status sheaf__ps_send_mark(struct sheaf__ps_client *client, sheaf_error *err)
{
    return client->mark_waits ? sheaf__ps_push(client, true, err) : SHEAF_OK;
}

sheaf_status sheaf__ps_step_end(struct sheaf__ps_client *client, sheaf_status step,
                                sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&client->lock);
    client->in_step = false;
    if (step < 0)
        clear_queue(client);
    else if (client->queue_count > 0)
        status = sheaf__ps_push(client, true, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

sheaf_status sheaf__ps_mark(struct sheaf__ps_client *client, const void *data, size_t size,
                            sheaf_error *err)
{
    sheaf__mutex_lock(&client->lock);
    sheaf__buf_clear(&client->mark);
    sheaf__buf_bytes(&client->mark, data, size);
    sheaf_status status = sheaf__buf_check(&client->mark, "a push", err);
    if (status < 0)
        sheaf__buf_clear(&client->mark);
    client->mark_waits = client->mark.size > 0;
    sheaf__mutex_unlock(&client->lock);
    return status;
}

sheaf_status sheaf__ps_marked(struct sheaf__ps_client *client, sheaf_bytes *bytes, sheaf_error *err)
{
    sheaf__mutex_lock(&client->lock);
    struct sheaf__ps_remote *r = sheaf__ps_prepare(client, 0);
    sheaf_status status = sheaf__ps_call(client, 0, SHEAF__PS_MARK, NULL, 0, err);
    const struct sheaf__buf *reply = &r->request.reply_meta;
    char *copy = status >= 0 ? sheaf__frame_alloc(reply->size + 1) : NULL;
    if (copy && reply->size > 0)
        memcpy(copy, reply->data, reply->size);
    if (copy)
        *bytes = (sheaf_bytes){copy, reply->size};
    else if (status >= 0)
        status = sheaf__no_memory(err, "the place of a worker");
    sheaf__mutex_unlock(&client->lock);
    return status;
}

/* The end. */

/* Starts to say to server `s` that this task is done, and how long workers that never came are waited for;
 * with the lock held. */
static void say_done(struct sheaf__ps_client *client, int s, uint32_t kind)
{
    struct sheaf__ps_remote *r = sheaf__ps_prepare(client, s);
    sheaf__buf_fixed64(&r->meta, (uint64_t)client->deadline_ns);
    sheaf__ps_start(client, s, kind, NULL, 0);
}

/* To all servers from `first` on, as far as they are there. */
static void say_done_from(struct sheaf__ps_client *client, int first)
{
    client->done = true;
    for (int s = first; s < client->server_count; s++)
        if (sheaf__peer_status(client->servers[s].peer, NULL) >= 0)
            say_done(client, s, SHEAF__PS_DONE);
}

/* Says to the first server, who knows who saves, that this task is done, and waits until it may leave;
 * with the lock held. Who only stands by may do so at any time. */
static sheaf_status stand_by(struct sheaf__ps_client *client, int64_t deadline, sheaf_error *err)
{
    sheaf_error fault = {0};
    say_done(client, 0, SHEAF__PS_JOIN);
    sheaf_status status = sheaf__ps_finish_until(client, deadline, &fault);
    bool saves = true;
    if (status == SHEAF_ERR_DEADLINE)
        SHEAF__TRY(sheaf__ps_ask_saves(client, &saves, err));
    return status < 0 && saves ? sheaf__error_copy(err, &fault) : SHEAF_OK;
}

/* The other servers need not know who waits for whom. */
sheaf_status sheaf__ps_join(struct sheaf__ps_client *client, int64_t deadline, sheaf_error *err)
{
    sheaf__mutex_lock(&client->lock);
    sheaf_status status = sheaf__ps_send_mark(client, err);
    say_done_from(client, 1);
    const sheaf_status told = sheaf__ps_finish_all(client, status < 0 ? NULL : err);
    status = status < 0 ? status : told;
    if (status >= 0)
        status = stand_by(client, deadline, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

void sheaf__ps_leave(struct sheaf__ps_client *client)
{
    sheaf__mutex_lock(&client->lock);
    if (!client->done && sheaf__ps_send_mark(client, NULL) >= 0) {
        say_done_from(client, 0);
        (void)!sheaf__ps_finish_until(client, sheaf__clock_deadline(GOODBYE_SECONDS), NULL);
    }
    sheaf__mutex_unlock(&client->lock);
}

void sheaf__ps_client_free(struct sheaf__ps_client *client)
{
    if (!client)
        return;
    clear_queue(client);
    for (int i = 0; i < client->server_count; i++) {
        struct sheaf__ps_remote *r = &client->servers[i];
        sheaf__peer_unref(r->peer);
        sheaf__request_clear(&r->request);
        sheaf__buf_free(&r->meta);
        sheaf__free(r->parts);
        sheaf__free(r->device);
        sheaf__free(r->full_device);
    }
    sheaf__net_free(client->net, sheaf__clock_deadline(GOODBYE_SECONDS));
    for (int i = 0; i < client->server_count; i++)
        sheaf__request_clear(&client->servers[i].watch);
    sheaf__token_unref(client->connecting);
    sheaf__free(client->servers);
    sheaf__free(client->variables);
    sheaf__free(client->hypers);
    sheaf__free(client->queue);
    sheaf__buf_free(&client->mark);
    sheaf__free(client->wanted);
    sheaf__free(client->into);
    sheaf_cluster_free(client->cluster);
    sheaf__free(client);
}

/* Connecting. */

/* The job cannot go on without a server, whatever this task is at; the other servers hear why it leaves. */
static void server_down(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    struct sheaf__ps_client *client = user;
    (void)peer;
    sheaf__net_give_up(client->net, cause);
    sheaf__token_cancel(client->connecting, cause);
}

static sheaf_status start_net(struct sheaf__ps_client *client, sheaf_error *err)
{
    const struct sheaf__net_options options = sheaf__cluster_net(client->cluster);
    sheaf__context_set_task(sheaf__context(), options.task.job, options.task.index);
    SHEAF__TRY(sheaf__net_new(&options, &client->net, err));
    client->events = (struct sheaf__net_events){.down = server_down, .user = client};
    sheaf__net_listen(client->net, &client->events);
    return sheaf__net_start(client->net, err);
}

static sheaf_status connect_one(struct sheaf__ps_client *client, int32_t task, sheaf_error *err)
{
    struct sheaf__ps_remote *r = &client->servers[client->server_count];
    const sheaf_task who = {.job = "ps", .index = task};
    const struct sheaf__wait wait = {sheaf__clock_after(client->deadline_ns), client->connecting,
                                     "a parameter server"};
    r->device = sheaf__printf("/job:ps/task:%d", task);
    r->full_device = sheaf__printf("/job:ps/replica:0/task:%d/device:CPU:0", task);
    client->server_count++;
    if (!r->device || !r->full_device)
        return sheaf__no_memory(err, "a connection");
    sheaf_status status =
        sheaf__net_connect(client->net, &who, sheaf_cluster_address(client->cluster, "ps", task),
                           &wait, &r->peer, err);
    return status < 0 && sheaf__token_status(client->connecting) < 0
               ? sheaf__token_check(client->connecting, err)
               : status;
}

static sheaf_status connect_all(struct sheaf__ps_client *client, sheaf_error *err)
{
    const int32_t tasks = sheaf_cluster_tasks(client->cluster, "ps");
    client->servers = sheaf__calloc((size_t)tasks + 1, sizeof(*client->servers));
    if (!client->servers)
        return sheaf__no_memory(err, "connections");
    for (int32_t i = 0; client->server_count < tasks; i++)
        if (sheaf_cluster_address(client->cluster, "ps", i))
            SHEAF__TRY(connect_one(client, i, err));
    return SHEAF_OK;
}

sheaf_status sheaf__ps_client_new(sheaf_cluster *cluster, int64_t deadline_ns,
                                  struct sheaf__ps_client **client, sheaf_error *err)
{
    struct sheaf__ps_client *c = sheaf__calloc(1, sizeof(*c));
    if (!c)
        return sheaf__no_memory(err, "a client of parameter servers");
    c->group.cls = &sheaf__ps_group_class;
    c->context = sheaf__context();
    c->cluster = sheaf_cluster_ref(cluster);
    c->deadline_ns = deadline_ns;
    c->initialises = sheaf_cluster_is_chief(cluster);
    c->connecting = sheaf__token_new(NULL);
    sheaf_status status = c->connecting ? start_net(c, err) : sheaf__no_memory(err, "a client");
    if (status >= 0)
        status = connect_all(c, err);
    if (status < 0) {
        sheaf__ps_client_free(c);
        return status;
    }
    *client = c;
    return SHEAF_OK;
}
