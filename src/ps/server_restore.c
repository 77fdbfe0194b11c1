/* SPDX-License-Identifier: Apache-2.0 */

/* A parameter server's part of restores: reads its own tensors. Values are held back until every task has
 * read its own. */

#include "base/error.h"
#include "ckpt/shard.h"
#include "format/bundle_sums.h"
#include "ps/server.h"
#include "tensor/tensor.h"

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
    sheaf_status status = SHEAF_OK;
    if (shard.count > 0)
        status = sheaf__shard_read(shard.path, shard.items, shard.count, &taker, err);
    if (status >= 0)
        status = sheaf__ps_hold_note(server, note, err);
    if (status >= 0)
        status = reply_sums(call, &sums, err);
    sheaf__bundle_sums_free(&sums);
    return status;
}

static void serve_read(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    sheaf__ps_submit(server->files, server, call, read_shard);
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

sheaf_status sheaf__ps_serve_restores(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service services[] = {
        {.kind = SHEAF__PS_READ, .serve = serve_read, .user = server},
        {.kind = SHEAF__PS_SETTLE, .serve = serve_settle, .user = server},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        SHEAF__TRY(sheaf__net_serve(server->net, &services[i], err));
    return SHEAF_OK;
}
