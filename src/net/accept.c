/* SPDX-License-Identifier: Apache-2.0 */
/* Where connections come in: the listening socket, or the hub of an in-process net. The driver's.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/ring.h"
#include "net/state.h"

#include <string.h>

enum { STRANGERS_MOST = 64 };

/* ---- accepting ---- */

/* The oldest stranger makes room for a new one. */
static void limit_strangers(struct sheaf__net *net)
{
    struct sheaf__list_node *node = sheaf__list_first(&net->conns);
    if (net->strangers < STRANGERS_MOST)
        return;
    for (; node; node = sheaf__list_next(&net->conns, node)) {
        struct sheaf__conn *conn = SHEAF__CONTAINER(node, struct sheaf__conn, node);
        if (!conn->dialer && !conn->proved) {
            sheaf_error error;
            sheaf__error(&error, SHEAF_ERR_UNAUTHENTICATED, "too many connections wait for proof");
            sheaf__conn_fail(conn, false, &error);
            return;
        }
    }
}

static void accept_one(struct sheaf__net *net, int fd, const char *address)
{
    limit_strangers(net);
    struct sheaf__conn *conn = sheaf__conn_new(net);
    struct sheaf__stream *stream = conn ? sheaf__stream_of_socket(fd) : NULL;
    if (!stream) {
        sheaf__free(conn);
        sheaf__socket_close(fd);
        return;
    }
    conn->stream = stream;
    conn->watch.fd = fd;
    sheaf__str_copy(conn->address, sizeof(conn->address), address);
    sheaf__conn_admit(conn);
}

static void on_connection(struct sheaf__watch *watch, bool in, bool out)
{
    enum { AT_ONCE = 16 };
    struct sheaf__net *net = SHEAF__CONTAINER(watch, struct sheaf__net, listener_watch);
    char address[SHEAF__ADDRESS_TEXT];
    (void)in;
    (void)out;
    for (int i = 0; i < AT_ONCE; i++) {
        int fd = sheaf__socket_accept(net->listener, address);
        if (fd >= 0) {
            accept_one(net, fd, address);
            continue;
        }
        if (fd == -2) {
            /* Looking again at once would only burn time: the next timer turns it on. */
            sheaf__log_limited(SHEAF_LOG_WARN, 10, "net.descriptors",
                               "no descriptor left for a connection");
            sheaf__poller_remove(net->poller, &net->listener_watch);
            net->listener_off = true;
        }
        return;
    }
}

/* ---- in-process ---- */

static void ring_bell(void *user)
{
    sheaf__poller_kick(((struct sheaf__net *)user)->poller);
}

static struct sheaf__net *find_in_hub(struct sheaf__hub *hub, const char *address)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&hub->nets); node; node = sheaf__list_next(&hub->nets, node)) {
        struct sheaf__net *net = SHEAF__CONTAINER(node, struct sheaf__net, hub_node);
        if (strcmp(net->address, address) == 0)
            return net;
    }
    return NULL;
}

/* Gives `target` a conn with the other end of a new stream. With the hub's lock. */
static sheaf_status join(struct sheaf__net *net, struct sheaf__net *target,
                         struct sheaf__stream **stream, sheaf_error *err)
{
    const struct sheaf__bell bells[2] = {{ring_bell, net}, {ring_bell, target}};
    struct sheaf__stream *ends[2];
    struct sheaf__conn *other = sheaf__conn_new(target);
    if (!other)
        return sheaf__no_memory(err, "a connection");
    sheaf_status status = sheaf__stream_pair(bells, ends, err);
    if (status < 0) {
        sheaf__free(other);
        return status;
    }
    other->stream = ends[1];
    sheaf__str_copy(other->address, sizeof(other->address), "this process");
    sheaf__mutex_lock(&target->lock);
    sheaf__list_append(&target->incoming, &other->node);
    sheaf__mutex_unlock(&target->lock);
    sheaf__poller_kick(target->poller);
    *stream = ends[0];
    return SHEAF_OK;
}

sheaf_status sheaf__accept_connect(struct sheaf__net *net, const char *address,
                                   struct sheaf__stream **stream, sheaf_error *err)
{
    sheaf__mutex_lock(&net->hub->lock);
    struct sheaf__net *target = find_in_hub(net->hub, address);
    sheaf_status status = target ? join(net, target, stream, err)
                                 : sheaf__error(err, SHEAF_ERR_UNAVAILABLE,
                                                "nobody listens at %s in this process", address);
    sheaf__mutex_unlock(&net->hub->lock);
    return status;
}

void sheaf__accept_incoming(struct sheaf__net *net)
{
    struct sheaf__list_node *node;
    do {
        sheaf__mutex_lock(&net->lock);
        node = sheaf__list_pop(&net->incoming);
        sheaf__mutex_unlock(&net->lock);
        if (node)
            sheaf__conn_admit(SHEAF__CONTAINER(node, struct sheaf__conn, node));
    } while (node);
}

static sheaf_status listen_in_hub(struct sheaf__net *net, sheaf_error *err)
{
    struct sheaf__hub *hub = net->hub;
    sheaf_status status = SHEAF_OK;
    size_t size = strlen(net->listen_address);
    sheaf__mutex_lock(&hub->lock);
    sheaf__str_copy(net->address, sizeof(net->address), net->listen_address);
    if (size >= 2 && strcmp(net->listen_address + size - 2, ":0") == 0) {
        net->address[size - 1] = '\0';
        char *text = sheaf__printf("%s%u", net->address, hub->next_port++);
        if (text)
            sheaf__str_copy(net->address, sizeof(net->address), text);
        else
            status = sheaf__no_memory(err, "an address");
        sheaf__free(text);
    }
    if (status == SHEAF_OK && find_in_hub(hub, net->address))
        status =
            sheaf__error(err, SHEAF_ERR_ALREADY_EXISTS,
                         "cannot listen on %s: another task of this process does", net->address);
    if (status == SHEAF_OK)
        sheaf__list_append(&hub->nets, &net->hub_node);
    sheaf__mutex_unlock(&hub->lock);
    return status;
}

/* ---- opening and closing ---- */

sheaf_status sheaf__accept_open(struct sheaf__net *net, sheaf_error *err)
{
    if (net->hub)
        return listen_in_hub(net, err);
    SHEAF__TRY(sheaf__socket_listen(net->listen_address, &net->listener, net->address, err));
    net->listener_watch = (struct sheaf__watch){.fd = net->listener, .fn = on_connection};
    return sheaf__poller_add(net->poller, &net->listener_watch, err);
}

void sheaf__accept_close(struct sheaf__net *net)
{
    struct sheaf__list_node *node;
    if (net->hub) {
        sheaf__mutex_lock(&net->hub->lock);
        sheaf__list_remove(&net->hub_node);
        sheaf__mutex_unlock(&net->hub->lock);
        sheaf__mutex_lock(&net->lock);
        while ((node = sheaf__list_pop(&net->incoming)))
            sheaf__list_append(&net->dead_conns, node);
        sheaf__mutex_unlock(&net->lock);
    }
    if (net->listener < 0)
        return;
    sheaf__poller_remove(net->poller, &net->listener_watch);
    sheaf__socket_close(net->listener);
    net->listener = -1;
}

void sheaf__accept_timer(struct sheaf__net *net)
{
    if (net->listener_off)
        net->listener_off = sheaf__poller_add(net->poller, &net->listener_watch, NULL) < 0;
}
