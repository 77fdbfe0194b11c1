/* SPDX-License-Identifier: Apache-2.0 */

/* Stops of a job that ends in order: word of them goes round, and the server stays until its workers have ended. */

#include "base/context.h"
#include "base/error.h"
#include "ps/server.h"

static void stop(void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__mutex_lock(&server->lock);
    const bool tell = server->orderly && !server->stopping;
    server->stopping = server->stopping || tell;
    sheaf__mutex_unlock(&server->lock);
    if (tell)
        sheaf__ps_changed(server);
}

static void serve_stop(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__call_reply(call, NULL);
    sheaf__context_told_to_stop(server->context);
}

void sheaf__ps_end_in_order(struct sheaf__ps_server *server)
{
    sheaf__mutex_lock(&server->lock);
    const bool first = !server->orderly;
    server->orderly = true;
    sheaf__mutex_unlock(&server->lock);
    if (first)
        sheaf__context_end_in_order(server->context, true);
}

sheaf_status sheaf__ps_serve_stops(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service service = {
        .kind = SHEAF__PS_STOP, .serve = serve_stop, .user = server};
    server->context = sheaf__context();
    server->on_asked = (struct sheaf__token_callback){.fn = stop, .user = server};
    sheaf__token_on(sheaf__context_asked(server->context), &server->on_asked);
    return sheaf__net_serve(server->net, &service, err);
}

void sheaf__ps_drop_stops(struct sheaf__ps_server *server)
{
    if (!server->context)
        return;
    sheaf__token_off(sheaf__context_asked(server->context), &server->on_asked);
    if (server->orderly)
        sheaf__context_end_in_order(server->context, false);
}
