/* SPDX-License-Identifier: Apache-2.0 */

/* Calls that a pool of the server answers. */

#include "base/error.h"
#include "base/mem.h"
#include "ps/server.h"

#include <sheaf/frame.h>

struct job {
    struct sheaf__pool_job job;
    struct sheaf__ps_server *server;
    struct sheaf__call *call;
    sheaf_status (*run)(struct sheaf__ps_server *server, struct sheaf__call *call,
                        sheaf_error *err);
};

static void run_job(struct sheaf__pool_job *job)
{
    struct job *s = (struct job *)job;
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        if (s->run(s->server, s->call, &err) < 0)
            sheaf__call_fail(s->call, &err);
    }
    sheaf__free(s);
}

void sheaf__ps_submit(struct sheaf__pool *pool, struct sheaf__ps_server *server,
                      struct sheaf__call *call,
                      sheaf_status (*run)(struct sheaf__ps_server *server, struct sheaf__call *call,
                                          sheaf_error *err))
{
    sheaf_error err = {0};
    struct job *s = sheaf__calloc(1, sizeof(*s));
    if (s) {
        *s = (struct job){{.fn = run_job}, server, call, run};
        if (sheaf__pool_submit(pool, &s->job, &err) >= 0)
            return;
        sheaf__free(s);
    } else {
        sheaf__no_memory(&err, "a call");
    }
    sheaf__call_fail(call, &err);
}
