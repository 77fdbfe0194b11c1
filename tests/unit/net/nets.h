/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_NETS_H
#define SHEAF_TEST_NETS_H

/* Some nets in this process, over each way in which bytes can travel. */

#include "rig.h"

#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "net/call.h"

#include <stdio.h>
#include <string.h>

enum way { INPROC, TCP, SHM, UCX, WAYS };
enum { NETS_MOST = 4 };

struct nets {
    enum way way;
    int count;
    sheaf_context *context, *before;
    const char *environment[4];
    struct sheaf__hub *hub;
    struct sheaf__secret secret;
    struct sheaf__net *net[NETS_MOST];
};

static const char *const way_names[WAYS] = {"inproc", "tcp", "shm", "ucx"};

static inline struct sheaf__wait nets_wait(double seconds)
{
    return (struct sheaf__wait){.deadline = sheaf__clock_deadline(seconds), .what = "test"};
}

static inline sheaf_task nets_task(int index)
{
    return (sheaf_task){.job = "worker", .index = index};
}

static inline void nets_context(struct nets *n, enum way way)
{
    static const char *const variables[WAYS] = {"SHEAF_TRANSPORT=auto", "SHEAF_TRANSPORT=tcp",
                                                "SHEAF_TRANSPORT=shm", "SHEAF_TRANSPORT=ucx"};
    sheaf_error err = {0};
    memset(n, 0, sizeof(*n));
    n->way = way;
    n->environment[0] = variables[way];
    n->environment[1] = "SHEAF_RUN_ID=test";
    n->secret.size = 32;
    memset(n->secret.bytes, 's', 32);
    sheaf_context_options options = {.environment = n->environment};
    rig_ok(sheaf_context_new(&options, &n->context, &err), &err);
    n->before = sheaf_context_enter(n->context);
    if (way != INPROC)
        return;
    rig_ok(sheaf__hub_new(&n->hub, &err), &err);
    rig_ok(sheaf__net_set_hub(n->context, n->hub, &err), &err);
}

/* Makes net i, not started. */
static inline struct sheaf__net *nets_make(struct nets *n, int i, int64_t heartbeat)
{
    sheaf_error err = {0};
    const struct sheaf__net_options options = {.task = nets_task(i),
                                               .address = "127.0.0.1:0",
                                               .secret = &n->secret,
                                               .heartbeat = heartbeat};
    rig_ok(sheaf__net_new(&options, &n->net[i], &err), &err);
    if (i >= n->count)
        n->count = i + 1;
    return n->net[i];
}

static inline void nets_start(struct nets *n, int i)
{
    sheaf_error err = {0};
    rig_ok(sheaf__net_start(n->net[i], &err), &err);
}

static inline struct sheaf__peer *nets_connect(struct nets *n, int from, int to)
{
    sheaf_error err = {0};
    struct sheaf__peer *peer = NULL;
    struct sheaf__wait wait = nets_wait(10);
    sheaf_task task = nets_task(to);
    rig_ok(
        sheaf__net_connect(n->net[from], &task, sheaf__net_address(n->net[to]), &wait, &peer, &err),
        &err);
    assert_string_equal(sheaf__peer_transport(peer), way_names[n->way]);
    return peer;
}

static inline void nets_stop(struct nets *n, int i)
{
    sheaf__net_free(n->net[i], sheaf__clock_deadline(10));
    n->net[i] = NULL;
}

static inline void nets_end(struct nets *n)
{
    for (int i = 0; i < n->count; i++)
        if (n->net[i])
            nets_stop(n, i);
    sheaf__hub_free(n->hub);
    sheaf_context_enter(n->before);
    sheaf_context_free(n->context);
}

#endif
