/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of connections that were refused: a wrong secret is a mistake that somebody looks for on this side, too; a
 * scanner of ports must not fill the log. The driver's. */
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "net/state.h"

#include <stdio.h>
#include <string.h>

enum { TOLD_MOST = 5 };
#define PERIOD (60 * SHEAF__S)

/* Whether to tell it: something else than the last time, and not too much lately. */
static bool is_news(struct sheaf__refusals *r, const char *text)
{
    const int64_t now = sheaf__clock_now();
    if (r->told == 0 || now - r->since >= PERIOD) {
        *r = (struct sheaf__refusals){.since = now};
    } else if (r->told >= TOLD_MOST || strcmp(r->last, text) == 0) {
        return false;
    }
    r->told++;
    sheaf__str_copy(r->last, sizeof(r->last), text);
    return true;
}

void sheaf__refuse_tell(struct sheaf__conn *conn, const sheaf_error *error)
{
    struct sheaf__net *net = conn->net;
    const sheaf_task *who = &conn->handshake.peer.task;
    const bool task = who->job[0] != '\0'; /* said before anything is proved */
    char text[sizeof(error->message) + 80];
    if (error->status == SHEAF_ERR_UNAVAILABLE) {
        /* Closing a connection is what a task that is being started or ended does. */
        sheaf__log_limited(SHEAF_LOG_INFO, 100, "net.refused", "refused a connection from %s: %s",
                           conn->address, error->message);
        return;
    }
    if (task)
        snprintf(text, sizeof(text), ", which says that it is " SHEAF__TASK ": %s", who->job,
                 who->index, error->message);
    else
        snprintf(text, sizeof(text), ": %s", error->message);
    if (is_news(&net->refused[task], text))
        sheaf__log(SHEAF_LOG_WARN, "refused a connection from %s%s%s", conn->address, text,
                   net->refused[task].told == TOLD_MOST ? "; no more of them are told for a while"
                                                        : "");
    if (!task)
        return;
    sheaf__mutex_lock(&net->lock);
    snprintf(net->refusal, sizeof(net->refusal), "%.60s%s", conn->address, text);
    sheaf__mutex_unlock(&net->lock);
}

bool sheaf__net_refusal(struct sheaf__net *net, char *text, size_t size)
{
    sheaf__mutex_lock(&net->lock);
    sheaf__str_copy(text, size, net->refusal);
    sheaf__mutex_unlock(&net->lock);
    return *text;
}
