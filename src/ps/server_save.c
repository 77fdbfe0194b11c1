/* SPDX-License-Identifier: Apache-2.0 */

/* A parameter server's part of saves. Its shards are cut at one moment and held until they are written,
 * while it goes on serving. A cut counts the buffers, which nobody changes then (table.h): only what is
 * updated before it is in its file takes memory twice. */

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "ckpt/shard.h"
#include "ps/server.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <string.h>

/* The tensor of an item as it is now, in the frame. */
static sheaf_tensor *snapshot(struct sheaf__ps_server *server, const struct sheaf__shard_item *item)
{
    struct sheaf__ps_variable *v;
    sheaf_error err = {0};
    if (sheaf__ps_find(&server->table, (uint32_t)(item->saveable.handle >> 8), &v, &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    struct sheaf__buffer *buffer = sheaf__ps_snapshot(v, item->saveable.handle & 0xff, NULL);
    if (!buffer)
        return sheaf__tensor_fail(SHEAF_ERR_NOT_FOUND, "variable '%s' has no slot %d", v->name,
                                  (int)(item->saveable.handle & 0xff));
    sheaf_tensor *whole = sheaf__tensor_over(v->dtype, v->shape, buffer, 0, &err);
    sheaf__unref(buffer);
    whole = sheaf__tensor_give(whole, &err);
    const int64_t offset[SHEAF_MAX_RANK] = {v->first_row};
    return sheaf__tensor_ok(whole) ? sheaf__shard_cut(whole, offset, &item->saveable) : whole;
}

/* What is held for a save of one worker. */
struct sheaf__ps_cut {
    struct sheaf__ps_cut *next;
    sheaf_task worker;
    uint64_t number; /* that the worker gave it */
    void *shards;    /* of the message */
    size_t size;
    sheaf_tensor **tensors; /* of the items, in order; counted */
    size_t count, written;
};

static void free_cut(struct sheaf__ps_cut *cut)
{
    for (size_t i = cut->written; i < cut->count; i++)
        sheaf__unref(cut->tensors[i]);
    sheaf__free(cut->tensors);
    sheaf__free(cut->shards);
    sheaf__free(cut);
}

/* Takes the first one of that worker (NULL: of any) and number (0: any) out of the list. */
static struct sheaf__ps_cut *take_cut(struct sheaf__ps_server *server, const sheaf_task *worker,
                                      uint64_t number)
{
    sheaf__mutex_lock(&server->lock);
    struct sheaf__ps_cut **place = &server->cuts;
    while (*place && ((worker && !sheaf__ps_same_task((*place)->worker, *worker)) ||
                      (number && (*place)->number != number)))
        place = &(*place)->next;
    struct sheaf__ps_cut *cut = *place;
    if (cut)
        *place = cut->next;
    sheaf__mutex_unlock(&server->lock);
    return cut;
}

void sheaf__ps_drop_cuts(struct sheaf__ps_server *server, const sheaf_task *worker)
{
    struct sheaf__ps_cut *cut;
    while ((cut = take_cut(server, worker, 0)))
        free_cut(cut);
}

static sheaf_status get_shards(struct sheaf__cursor *c, struct sheaf__shard **shards,
                               uint32_t *count, size_t *items, sheaf_error *err)
{
    const char *note;
    if (!sheaf__cursor_varint32(c, count) || *count > sheaf__cursor_left(c))
        return sheaf__ps_malformed("the shards of a save", err);
    *shards = sheaf__frame_alloc((*count + 1u) * sizeof(**shards));
    if (!*shards)
        return sheaf__no_memory(err, "a save");
    *items = 0;
    for (uint32_t i = 0; i < *count; i++) {
        SHEAF__TRY(sheaf__ps_get_shard(c, &(*shards)[i], &note, err));
        *items += (*shards)[i].count;
    }
    return SHEAF_OK;
}

/* Of the message whose rest is at `c`. */
static struct sheaf__ps_cut *new_cut(struct sheaf__cursor c, size_t items)
{
    struct sheaf__ps_cut *cut = sheaf__calloc(1, sizeof(*cut));
    const uint8_t *shards;
    if (!cut)
        return NULL;
    cut->size = sheaf__cursor_left(&c);
    sheaf__cursor_bytes(&c, cut->size, &shards);
    cut->shards = sheaf__memdup(shards, cut->size);
    cut->tensors = sheaf__calloc(items + 1, sizeof(sheaf_tensor *));
    if (cut->shards && cut->tensors)
        return cut;
    free_cut(cut);
    return NULL;
}

/* All at one moment: with server->applying. */
static sheaf_status cut_all(struct sheaf__ps_server *server, struct sheaf__ps_cut *cut,
                            const struct sheaf__shard *shards, uint32_t count, sheaf_error *err)
{
    for (uint32_t i = 0; i < count; i++)
        for (size_t k = 0; k < shards[i].count; k++) {
            sheaf_tensor *t = snapshot(server, &shards[i].items[k]);
            SHEAF__TRY(sheaf_tensor_status(t, err));
            cut->tensors[cut->count++] = sheaf_tensor_keep(t);
        }
    return SHEAF_OK;
}

/* Unless the worker is gone, as nobody would drop it then. */
static sheaf_status keep_cut(struct sheaf__ps_server *server, struct sheaf__call *call,
                             struct sheaf__ps_cut *cut, sheaf_error *err)
{
    const uint64_t incarnation = sheaf__peer_incarnation(sheaf__call_peer(call));
    sheaf__mutex_lock(&server->lock);
    const struct sheaf__ps_worker *w = sheaf__ps_worker_of(server, cut->worker);
    const bool here = w && w->connected && w->incarnation == incarnation;
    const bool keeps = here && !sheaf__call_abandoned(call);
    if (keeps) {
        cut->next = server->cuts;
        server->cuts = cut;
    }
    sheaf__mutex_unlock(&server->lock);
    return keeps ? SHEAF_OK : sheaf__error(err, SHEAF_ERR_CANCELLED, "the save was given up");
}

static sheaf_status cut_shards(struct sheaf__ps_server *server, struct sheaf__call *call,
                               sheaf_error *err)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    struct sheaf__shard *shards;
    uint64_t number;
    uint32_t count;
    size_t items;
    if (!sheaf__cursor_fixed64(&c, &number) || !number)
        return sheaf__ps_malformed("the number of a save", err);
    const struct sheaf__cursor rest = c;
    SHEAF__TRY(get_shards(&c, &shards, &count, &items, err));
    struct sheaf__ps_cut *cut = new_cut(rest, items);
    if (!cut)
        return sheaf__no_memory(err, "a save");
    cut->worker = sheaf__ps_caller(call);
    cut->number = number;
    sheaf__mutex_lock(&server->applying);
    sheaf_status status = cut_all(server, cut, shards, count, err);
    const char *note = sheaf__ps_note_workers(server);
    sheaf__mutex_unlock(&server->applying);
    if (status >= 0)
        status = keep_cut(server, call, cut, err);
    if (status < 0)
        free_cut(cut);
    else
        sheaf__call_reply(call, &(struct sheaf__reply){.meta = note, .meta_size = strlen(note)});
    return status;
}

/* The cut holds a tensor no longer than until it is in its file. */
static sheaf_tensor *next_value(void *user, const struct sheaf__shard_item *item)
{
    struct sheaf__ps_cut *cut = user;
    (void)item;
    return sheaf__tensor_give(cut->tensors[cut->written++], NULL);
}

static sheaf_status write_shards(struct sheaf__call *call, struct sheaf__ps_cut *cut,
                                 sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(cut->shards, cut->size);
    struct sheaf__shard *shards;
    uint32_t count;
    size_t items;
    SHEAF__TRY(get_shards(&c, &shards, &count, &items, err));
    for (uint32_t i = 0; i < count; i++) {
        if (sheaf__call_abandoned(call))
            return sheaf__error(err, SHEAF_ERR_CANCELLED, "the save was given up");
        if (shards[i].count > 0) /* else the note was all that was asked for */
            SHEAF__TRY(sheaf__shard_write(shards[i].path, shards[i].items, shards[i].count,
                                          next_value, cut, err));
    }
    return SHEAF_OK;
}

static sheaf_status read_number(const struct sheaf__call *call, uint64_t *number, sheaf_error *err)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    return sheaf__cursor_fixed64(&c, number) && *number
               ? SHEAF_OK
               : sheaf__ps_malformed("the number of a save", err);
}

static sheaf_status write_cut(struct sheaf__ps_server *server, struct sheaf__call *call,
                              sheaf_error *err)
{
    const sheaf_task worker = sheaf__ps_caller(call);
    uint64_t number;
    SHEAF__TRY(read_number(call, &number, err));
    struct sheaf__ps_cut *cut = take_cut(server, &worker, number);
    if (!cut)
        return sheaf__error(err, SHEAF_ERR_NOT_FOUND,
                            "nothing is held here for save %llu of " SHEAF__TASK,
                            (unsigned long long)number, worker.job, worker.index);
    sheaf_status status = write_shards(call, cut, err);
    free_cut(cut);
    if (status >= 0)
        sheaf__call_reply(call, NULL);
    return status;
}

/* Updates that came before it are in it. */
static void serve_cut(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__ps_submit(server->pool, server, call, cut_shards);
}

static void serve_write(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__ps_submit(server->files, server, call, write_cut);
}

static void serve_drop(struct sheaf__call *call, void *user)
{
    const sheaf_task worker = sheaf__ps_caller(call);
    uint64_t number;
    struct sheaf__ps_cut *cut =
        read_number(call, &number, NULL) >= 0 ? take_cut(user, &worker, number) : NULL;
    if (cut)
        free_cut(cut);
    sheaf__call_reply(call, NULL);
}

/* Proves that this task sees the directory of a save: the file holds the token. */
static sheaf_status prove(struct sheaf__ps_server *server, struct sheaf__call *call,
                          sheaf_error *err)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    const uint8_t *path, *token;
    size_t path_size, token_size;
    (void)server;
    if (!sheaf__cursor_sized(&c, &path, &path_size) ||
        !sheaf__cursor_sized(&c, &token, &token_size) || memchr(path, 0, path_size))
        return sheaf__ps_malformed("a proof", err);
    const char *name = sheaf__frame_text((const char *)path, path_size);
    char *found = NULL;
    size_t found_size = 0;
    sheaf_status status = sheaf__file_read_all(name, 4096, &found, &found_size, err);
    if (status >= 0 && (found_size != token_size || memcmp(found, token, token_size) != 0))
        status = sheaf__error_at(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            &(struct sheaf__place){name, SHEAF__UNKNOWN, SHEAF__UNKNOWN},
            "the file here is another than the one that the chief wrote: the directory is "
            "not shared by all tasks");
    sheaf__free(found);
    SHEAF__TRY(status);
    sheaf__call_reply(call, NULL);
    return SHEAF_OK;
}

static void serve_prove(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__ps_submit(server->files, server, call, prove);
}

sheaf_status sheaf__ps_serve_saves(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service services[] = {
        {.kind = SHEAF__PS_CUT, .serve = serve_cut, .user = server},
        {.kind = SHEAF__PS_WRITE, .serve = serve_write, .user = server},
        {.kind = SHEAF__PS_DROP, .serve = serve_drop, .user = server},
        {.kind = SHEAF__PS_PROVE, .serve = serve_prove, .user = server},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        SHEAF__TRY(sheaf__net_serve(server->net, &services[i], err));
    return SHEAF_OK;
}
