/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_CLIENT_H
#define SHEAF_PS_CLIENT_H

/* A worker's side of parameter servers: connections to all of them, the variables there, and the
 * messages of a step: one that brings all values it reads, one that takes all updates, to each
 * server.
 *
 * What a step pulls is what the step before it read; what else it reads it pulls as it goes. All
 * replicas of the process see one version. Updates wait in a queue until the step ends. */

#include "base/thread.h"
#include "ckpt/group.h"
#include "ps/proto.h"
#include "tensor/tensor.h"

#include <sheaf/cluster.h>
#include <sheaf/partitioner.h>

struct sheaf__ps_variable_ref;

/* An update of one part of a variable that waits for the end of the step. Tensors are counted. */
struct sheaf__ps_queued {
    uint32_t number; /* of the part */
    int server;
    enum sheaf__ps_update_kind kind;
    int hyper;
    sheaf_tensor *ids, *data; /* ids of ROWS only, of rows of the part */
};

/* A server, and the request that is under way to it. */
struct sheaf__ps_remote {
    struct sheaf__peer *peer;
    char *device;      /* "/job:ps/task:0": where variables say they are */
    char *full_device; /* "/job:ps/replica:0/task:0/device:CPU:0" */
    uint64_t sequence; /* of the last push */
    struct sheaf__request request;
    struct sheaf__request watch; /* for stops (client_stop.c) */
    struct sheaf__buf meta;
    struct sheaf__part *parts;
    size_t part_count, part_capacity;
    bool pushed; /* it is part of the push that is under way */
    bool started;
    sheaf_status start; /* whether that worked; else request.error */
};

struct sheaf__ps_client {
    struct sheaf__save_group group; /* first: the group is the client */
    sheaf_context *context;
    sheaf_cluster *cluster;
    struct sheaf__net *net;
    struct sheaf__ps_remote *servers;
    int server_count;
    bool initialises;    /* this task makes first values and restores checkpoints: the chief */
    int64_t deadline_ns; /* does not change: saves in the background have it, too */
    struct sheaf__net_events events;
    struct sheaf__token *connecting; /* cancelled when a server is lost */
    sheaf_partitioner partitioner;   /* how variables are cut */
    bool watches;                    /* hears of stops */

    struct sheaf__mutex lock;                  /* of what follows, and of requests */
    struct sheaf__ps_variable_ref **variables; /* in order; not counted: they leave when they go */
    size_t count, capacity;
    sheaf_error
        unmade; /* status < 0: why the first variable that was waited for in vain is not there */
    uint32_t numbers; /* of parts that were made */
    uint32_t turns;   /* of those whose server was the next in turn */
    uint64_t
        restores; /* that were said to the others, or waited for: of the chief's life `followed` */
    uint64_t followed; /* 0: none yet */
    uint64_t cuts;     /* that were made for saves (group.c) */
    uint64_t step;     /* number of the step that runs */
    bool in_step;
    struct sheaf__hyper *hypers;
    size_t hyper_count, hyper_capacity;
    struct sheaf__ps_variable_ref **wanted; /* of the pull that is under way */
    struct sheaf__part *into;               /* where its values go */
    size_t wanted_capacity, into_capacity;
    struct sheaf__ps_queued *queue;
    size_t queue_count, queue_capacity;
    struct sheaf__buf mark; /* what the first server is told with each step's push */
    bool mark_waits;        /* it has not been */
    bool done;              /* the servers were told that this task has done its part */
};

/* Connects to every ps of the cluster. */
sheaf_status sheaf__ps_client_new(sheaf_cluster *cluster, int64_t deadline_ns,
                                  struct sheaf__ps_client **client, sheaf_error *err);
/* After its variables. Says goodbye; if a server was lost, the others learn which. NULL is nothing. */
void sheaf__ps_client_free(struct sheaf__ps_client *client);

/* Around a step. Without a step, updates go at once. */
sheaf_status sheaf__ps_step_begin(struct sheaf__ps_client *client, sheaf_error *err);
/* Sends what waits, unless the step failed (`step`), and waits until it is applied. */
sheaf_status sheaf__ps_step_end(struct sheaf__ps_client *client, sheaf_status step,
                                sheaf_error *err);

/* What the first server keeps for this worker from the next step's push on, at the moment of its
 * updates; and what it has, or holds back of a checkpoint that is being restored, in the frame: empty
 * if nothing (server_mark.c). */
sheaf_status sheaf__ps_mark(struct sheaf__ps_client *client, const void *data, size_t size,
                            sheaf_error *err);
sheaf_status sheaf__ps_marked(struct sheaf__ps_client *client, sheaf_bytes *bytes,
                              sheaf_error *err);

/* Queues an update of `v`; outside a step sends it. Takes counts of its own (queue.c). */
sheaf_status sheaf__ps_assign(struct sheaf__ps_client *client, sheaf_variable *v,
                              enum sheaf__ps_update_kind kind, sheaf_tensor *value,
                              sheaf_error *err);
/* Queues gradients of one update by `hyper`: dense tensors or rows. */
sheaf_status sheaf__ps_update(struct sheaf__ps_client *client, const struct sheaf__hyper *hyper,
                              sheaf_variable *const *variables, sheaf_tensor *const *gradients,
                              size_t count, sheaf_error *err);

/* This task has done its part. The one that saves waits for all others; they wait for it, as one of them
 * saves if it is lost, but no longer than until `deadline`, which is no error. */
sheaf_status sheaf__ps_join(struct sheaf__ps_client *client, int64_t deadline, sheaf_error *err);

/* The same without waiting for anybody, before it is freed; nothing if it has joined. */
void sheaf__ps_leave(struct sheaf__ps_client *client);

/* This task ends in order, and does so when any task of the job is asked to stop. */
void sheaf__ps_watch_stops(struct sheaf__ps_client *client);
/* This one was asked to. Never waits. */
void sheaf__ps_tell_of_stop(struct sheaf__ps_client *client);

/* Whether this task saves checkpoints now (group.c). */
sheaf_status sheaf__ps_saves(struct sheaf__ps_client *client, bool *now, sheaf_error *err);

/* ---- for the variables ---- */

/* sheaf__ps_saves() with the lock held. */
sheaf_status sheaf__ps_ask_saves(struct sheaf__ps_client *client, bool *now, sheaf_error *err);
/* Sends the updates that wait, one message to each server; the first one's has the mark, if that is
 * wanted. With the lock held. */
sheaf_status sheaf__ps_push(struct sheaf__ps_client *client, bool marked, sheaf_error *err);
/* Tells the first server of a mark for which no step has come: before a save, and at the end. With the
 * lock held. */
sheaf_status sheaf__ps_send_mark(struct sheaf__ps_client *client, sheaf_error *err);

/* The value as the step that runs sees it; outside a step as it is now. In the frame. */
sheaf_tensor *sheaf__ps_read(struct sheaf__ps_client *client, struct sheaf__ps_variable_ref *v);
/* A call to server `i` with what is in its meta and parts; the reply's payload into `into`. With
 * the lock held. */
sheaf_status sheaf__ps_call(struct sheaf__ps_client *client, int i, uint32_t kind,
                            const struct sheaf__part *into, size_t into_count, sheaf_error *err);
/* Empties meta and parts of server `i` for the next request. */
struct sheaf__ps_remote *sheaf__ps_prepare(struct sheaf__ps_client *client, int i);
bool sheaf__ps_add_part(struct sheaf__ps_remote *r, const void *data, size_t size);
/* Starts calls to the servers that `prepared` and waits for all; the first error. With the lock
 * held. */
void sheaf__ps_start(struct sheaf__ps_client *client, int i, uint32_t kind,
                     const struct sheaf__part *into, size_t into_count);
sheaf_status sheaf__ps_finish_all(struct sheaf__ps_client *client, sheaf_error *err);
/* The same with another deadline than the client's. */
sheaf_status sheaf__ps_finish_until(struct sheaf__ps_client *client, int64_t deadline,
                                    sheaf_error *err);

/* The save group's class (group.c). */
extern const struct sheaf__save_group_class sheaf__ps_group_class;

#endif
