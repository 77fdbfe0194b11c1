/* SPDX-License-Identifier: Apache-2.0 */

/* A parameter server's part of checkpoints: writes and reads its own tensors, on its pool. Its
 * shards are cut at one moment: snapshots of all tensors are taken before the first byte is
 * written. */

#include "base/array.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/shard.h"
#include "format/bundle_sums.h"
#include "ps/server.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <string.h>

struct save_job {
    struct sheaf__pool_job job;
    struct sheaf__ps_server *server;
    struct sheaf__call *call;
    sheaf_status (*run)(struct sheaf__ps_server *server, struct sheaf__call *call,
                        sheaf_error *err);
};

static void run_save_job(struct sheaf__pool_job *job)
{
    struct save_job *s = (struct save_job *)job;
    sheaf_error err = {0};
    SHEAF_FRAME
    {
        if (s->run(s->server, s->call, &err) < 0)
            sheaf__call_fail(s->call, &err);
    }
    sheaf__free(s);
}

void sheaf__ps_submit(struct sheaf__ps_server *server, struct sheaf__call *call,
                      sheaf_status (*run)(struct sheaf__ps_server *server, struct sheaf__call *call,
                                          sheaf_error *err))
{
    sheaf_error err = {0};
    struct save_job *s = sheaf__calloc(1, sizeof(*s));
    if (s) {
        *s = (struct save_job){{.fn = run_save_job}, server, call, run};
        if (sheaf__pool_submit(server->pool, &s->job, &err) >= 0)
            return;
        sheaf__free(s);
    } else {
        sheaf__no_memory(&err, "a save");
    }
    sheaf__call_fail(call, &err);
}

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

/* Snapshots of all items of a message, in order. */
struct cut {
    sheaf_tensor **tensors;
    size_t next;
};

static sheaf_tensor *next_value(void *user, const struct sheaf__shard_item *item)
{
    struct cut *cut = user;
    (void)item;
    return cut->tensors[cut->next++];
}

/* All shards of the message, and the tensors behind them, cut at once. */
static sheaf_status get_shards(struct sheaf__cursor *c, struct sheaf__shard **shards,
                               uint32_t *count, size_t *items, sheaf_error *err)
{
    const char *note;
    if (!sheaf__cursor_varint32(c, count) || *count > sheaf__cursor_left(c))
        return sheaf__ps_malformed("the shards of a save", err);
    *shards = sheaf__frame_alloc((*count + 1u) * sizeof(**shards));
    if (!*shards)
        return sheaf__no_memory(err, "a save");
    for (uint32_t i = 0; i < *count; i++) {
        SHEAF__TRY(sheaf__ps_get_shard(c, &(*shards)[i], &note, err));
        *items += (*shards)[i].count;
    }
    return SHEAF_OK;
}

static sheaf_status write_shards(struct sheaf__ps_server *server, struct sheaf__call *call,
                                 sheaf_error *err)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    struct sheaf__shard *shards;
    struct cut cut = {0};
    uint32_t count;
    size_t items = 0, at = 0;
    SHEAF__TRY(get_shards(&c, &shards, &count, &items, err));
    cut.tensors = sheaf__frame_alloc((items + 1) * sizeof(sheaf_tensor *));
    if (!cut.tensors)
        return sheaf__no_memory(err, "a save");
    sheaf__mutex_lock(&server->applying);
    for (uint32_t i = 0; i < count; i++)
        for (size_t k = 0; k < shards[i].count; k++)
            cut.tensors[at++] = snapshot(server, &shards[i].items[k]);
    const char *note = sheaf__ps_note_workers(server);
    sheaf__mutex_unlock(&server->applying);
    for (uint32_t i = 0; i < count; i++)
        SHEAF__TRY(sheaf__shard_write(shards[i].path, shards[i].items, shards[i].count, next_value,
                                      &cut, err));
    sheaf__call_reply(call, &(struct sheaf__reply){.meta = note, .meta_size = strlen(note)});
    return SHEAF_OK;
}

/* Reading: values are held back until every task has read its own. */

static sheaf_status hold(void *user, const struct sheaf__shard_item *item, sheaf_tensor *value,
                         sheaf_error *err)
{
    struct sheaf__ps_server *server = user;
    struct sheaf__ps_variable *v;
    SHEAF__TRY(sheaf__ps_find(&server->table, (uint32_t)(item->saveable.handle >> 8), &v, err));
    const uint32_t slot = item->saveable.handle & 0xff;
    if (slot > SHEAF__RULE_SLOTS || sheaf__tensor_size(value) != v->bytes ||
        value->dtype != v->dtype)
        return sheaf__ps_malformed("a tensor to restore", err);
    struct sheaf__buffer *buffer = sheaf__buffer_new(NULL, v->bytes, err);
    if (!buffer)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf_status status = sheaf__tensor_copy_out(value, buffer->data, err);
    if (status >= 0)
        sheaf__ps_hold(v, slot, buffer);
    sheaf__unref(buffer);
    return status;
}

/* Replies with the checksums of what was read. */
static sheaf_status reply_sums(struct sheaf__call *call, const struct sheaf__bundle_sums *sums,
                               sheaf_error *err)
{
    struct sheaf__buf meta = {0};
    sheaf__bundle_sums_put(&meta, sums);
    sheaf_status status = sheaf__buf_check(&meta, "checksums", err);
    if (status >= 0)
        sheaf__call_reply(call, &(struct sheaf__reply){.meta = meta.data, .meta_size = meta.size});
    sheaf__buf_free(&meta);
    return status;
}

static sheaf_status read_shard(struct sheaf__ps_server *server, struct sheaf__call *call,
                               sheaf_error *err)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    struct sheaf__shard shard;
    const char *note;
    SHEAF__TRY(sheaf__ps_get_shard(&c, &shard, &note, err));
    struct sheaf__bundle_sums sums = {0};
    const struct sheaf__shard_taker taker = {hold, server, &sums};
    sheaf_status status = sheaf__shard_read(shard.path, shard.items, shard.count, &taker, err);
    if (status >= 0)
        status = sheaf__ps_hold_note(server, note, err);
    if (status >= 0)
        status = reply_sums(call, &sums, err);
    sheaf__bundle_sums_free(&sums);
    return status;
}

static void serve_write(struct sheaf__call *call, void *user)
{
    sheaf__ps_submit(user, call, write_shards);
}

static void serve_read(struct sheaf__call *call, void *user)
{
    sheaf__ps_submit(user, call, read_shard);
}

static void serve_settle(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    const bool take = meta.size == 1 && *(const uint8_t *)meta.data == 1;
    sheaf__mutex_lock(&server->applying);
    sheaf__ps_settle(&server->table, take);
    sheaf__ps_settle_note(server, take);
    sheaf__mutex_unlock(&server->applying);
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
    sheaf__ps_submit(user, call, prove);
}

sheaf_status sheaf__ps_serve_saves(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service services[] = {
        {.kind = SHEAF__PS_WRITE, .serve = serve_write, .user = server},
        {.kind = SHEAF__PS_READ, .serve = serve_read, .user = server},
        {.kind = SHEAF__PS_SETTLE, .serve = serve_settle, .user = server},
        {.kind = SHEAF__PS_PROVE, .serve = serve_prove, .user = server},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        SHEAF__TRY(sheaf__net_serve(server->net, &services[i], err));
    return SHEAF_OK;
}
