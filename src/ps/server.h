/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_SERVER_H
#define SHEAF_PS_SERVER_H

/* The parameter server of one task: its table, and who works with it. */

#include "base/pool.h"
#include "ps/table.h"

#include <sheaf/server.h>

enum sheaf__ps_worker_state {
    SHEAF__PS_NEVER,    /* has not attached yet */
    SHEAF__PS_WORKING,  /* attached */
    SHEAF__PS_FINISHED, /* said that it is done */
    SHEAF__PS_GONE      /* lost, or left before it was done */
};

/* A chief or worker task of the cluster. */
struct sheaf__ps_worker {
    sheaf_task task;
    const char *address; /* the cluster's text */
    enum sheaf__ps_worker_state state;
    bool connected;
    bool left;                      /* its last session ended with a goodbye */
    sheaf_error loss;               /* how it went before its work was done */
    bool reason;                    /* it is what the worker itself gave as its reason */
    uint64_t incarnation, sequence; /* of its last push that was applied */
    void *mark;                     /* what it said of itself with it (server_mark.c) */
    size_t mark_size;
};

/* A call that is answered later (server_wait.c). */
struct sheaf__ps_waiting {
    struct sheaf__call *call;
    enum sheaf__ps_kind kind;
    sheaf_task task; /* who waits */
    uint64_t number; /* AWAIT: of the restore, */
    uint64_t life;   /* as the chief counts in this one; 0: in any */
};

/* A directory for checkpoints "<prefix>-N" that the job has (server_writer.c). */
struct sheaf__ps_claim {
    char *prefix;
    struct sheaf__file *lock; /* NULL: the file system has none */
    int64_t last;             /* number that was given */
};

struct sheaf__ps_server {
    struct sheaf__net *net;
    struct sheaf__pool *pool;  /* for updates too long for the driving thread */
    struct sheaf__pool *files; /* for what is done with files, beside the updates */
    struct sheaf__ps_table table;
    struct sheaf__net_events events;
    struct sheaf__mutex
        applying; /* held by who gives variables that have a value another one, and by
                                     a save that cuts */

    struct sheaf__mutex lock;         /* of what follows */
    struct sheaf__ps_worker *workers; /* the chief first */
    int worker_count;
    int writer; /* number of the worker that saves, or would if it had not gone */
    struct sheaf__ps_claim *claims;
    size_t claim_count, claim_capacity;
    struct sheaf__ps_cut *cuts; /* for saves that have not begun to write (server_save.c) */
    char *note;                 /* of a checkpoint that is being restored */
    char *restored;             /* the checkpoint that the chief restored last, "" or NULL: none */
    uint64_t restores;          /* that the chief has said, in its life `restorer` */
    uint64_t restorer;
    struct sheaf__ps_waiting *waiting;
    size_t waiting_count, waiting_capacity;
    int64_t patience, silence;     /* until when workers that never came are waited for, since
                                      another one ended, and until when nothing is said of it */
    sheaf_error failure;           /* a worker gave up */
    struct sheaf__ps_worker *last; /* that went before its work was done */
    bool stopping;                 /* the job is asked to stop in order (server_stop.c) */
    uint64_t changes;              /* of all this */

    bool is_first;             /* of the cluster's: the one that speaks for all */
    bool told_late, told_over; /* what it has said of workers that never came */

    sheaf_context *context;
    struct sheaf__token_callback on_asked;
    bool orderly; /* ends in order */
};

/* Services of reads (server_values.c), of updates (server_push.c), of checkpoints (server_save.c,
 * server_restore.c) and of calls that wait for others (server_wait.c); before the net starts. */
sheaf_status sheaf__ps_serve_values(struct sheaf__ps_server *server, sheaf_error *err);
sheaf_status sheaf__ps_serve_pushes(struct sheaf__ps_server *server, sheaf_error *err);
sheaf_status sheaf__ps_serve_saves(struct sheaf__ps_server *server, sheaf_error *err);
sheaf_status sheaf__ps_serve_restores(struct sheaf__ps_server *server, sheaf_error *err);
sheaf_status sheaf__ps_serve_waits(struct sheaf__ps_server *server, sheaf_error *err);

/* Marks of workers (server_mark.c). */

/* With the lock held: replaces the worker's. */
void sheaf__ps_take_mark(struct sheaf__ps_worker *w, struct sheaf__bytes mark);
/* One line about all workers for a checkpoint, text of the frame: "worker:0 INCARNATION SEQUENCE MARK",
 * the mark in base64, joined by ";". */
const char *sheaf__ps_note_workers(struct sheaf__ps_server *server);
/* Keeps such a line, or NULL, until it is taken or dropped. */
sheaf_status sheaf__ps_hold_note(struct sheaf__ps_server *server, const char *note,
                                 sheaf_error *err);
void sheaf__ps_settle_note(struct sheaf__ps_server *server, bool take);
sheaf_status sheaf__ps_serve_marks(struct sheaf__ps_server *server, sheaf_error *err);

/* Who saves (server_writer.c). */

/* With the lock held, when a worker has come or gone. */
void sheaf__ps_elect(struct sheaf__ps_server *server);
/* With the lock held: whether it is this one. */
bool sheaf__ps_writes(const struct sheaf__ps_server *server, sheaf_task task);
/* With the lock held: whether it has ended as it should. */
bool sheaf__ps_writer_ended(const struct sheaf__ps_server *server);
/* Gives up the directories. */
void sheaf__ps_drop_claims(struct sheaf__ps_server *server);
sheaf_status sheaf__ps_serve_writer(struct sheaf__ps_server *server, sheaf_error *err);

/* A job that ends in order: whoever is asked to stop tells all servers, and each tells all workers (server_stop.c). */
sheaf_status sheaf__ps_serve_stops(struct sheaf__ps_server *server, sheaf_error *err);
/* sheaf_stop() does not end this server at once any more. */
void sheaf__ps_end_in_order(struct sheaf__ps_server *server);
/* Hears of no stop any more. */
void sheaf__ps_drop_stops(struct sheaf__ps_server *server);

/* Lets go of what is held for saves of a worker that is lost; NULL: of all. */
void sheaf__ps_drop_cuts(struct sheaf__ps_server *server, const sheaf_task *worker);

/* Has a pool of the server answer a call (server_job.c). */
void sheaf__ps_submit(struct sheaf__pool *pool, struct sheaf__ps_server *server,
                      struct sheaf__call *call,
                      sheaf_status (*run)(struct sheaf__ps_server *server, struct sheaf__call *call,
                                          sheaf_error *err));

/* With the lock held: the worker of that task, or NULL. */
struct sheaf__ps_worker *sheaf__ps_worker_of(struct sheaf__ps_server *server, sheaf_task task);
/* Whoever calls has done its part: a DONE or JOIN. */
void sheaf__ps_finished(struct sheaf__ps_server *server, const struct sheaf__call *call);
/* Something changed that waiting calls or the serving thread may wait for. */
void sheaf__ps_changed(struct sheaf__ps_server *server);
/* Gives up the calls that still wait, after the net is gone. */
void sheaf__ps_drop_waits(struct sheaf__ps_server *server);

bool sheaf__ps_same_task(sheaf_task a, sheaf_task b);
/* The peer's task. */
sheaf_task sheaf__ps_caller(const struct sheaf__call *call);

#endif
