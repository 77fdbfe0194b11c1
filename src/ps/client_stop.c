/* SPDX-License-Identifier: Apache-2.0 */

/* Stops of a job that ends in order, as a worker hears and tells of them. */

#include "base/context.h"
#include "ps/client.h"

static void told(struct sheaf__request *request, void *user)
{
    const struct sheaf__ps_client *client = user;
    if (request->status >= 0)
        sheaf__context_told_to_stop(client->context);
}

void sheaf__ps_watch_stops(struct sheaf__ps_client *client)
{
    if (client->watches)
        return;
    client->watches = true;
    for (int i = 0; i < client->server_count; i++) {
        struct sheaf__ps_remote *r = &client->servers[i];
        r->watch = (struct sheaf__request){.kind = SHEAF__PS_WATCH, .done = told, .user = client};
        (void)!sheaf__request_start(r->peer, &r->watch, NULL); /* one that is lost ends the job */
    }
}

void sheaf__ps_tell_of_stop(struct sheaf__ps_client *client)
{
    for (int i = 0; i < client->server_count; i++)
        (void)!sheaf__post(client->servers[i].peer, &(struct sheaf__post){.kind = SHEAF__PS_STOP},
                           NULL);
}
