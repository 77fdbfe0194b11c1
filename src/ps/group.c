/* SPDX-License-Identifier: Apache-2.0 */

/* The save group of parameter servers: orders from the task that saves to the tasks that hold the
 * tensors. What a save in the background asks goes beside the calls of the program's thread, so that neither
 * waits for the other. */

#include "base/error.h"
#include "base/mem.h"
#include "ckpt/shard.h"
#include "format/bundle_sums.h"
#include "ps/client.h"
#include "tensor/frame.h"

#include <string.h>

static struct sheaf__ps_client *client_of(struct sheaf__save_group *g)
{
    return (struct sheaf__ps_client *)g;
}

/* The server of a device, -1 for none. */
static int server_of(const struct sheaf__ps_client *client, const char *device)
{
    for (int i = 0; i < client->server_count; i++)
        if (device && sheaf__shard_same_task(client->servers[i].full_device, device))
            return i;
    return -1;
}

static sheaf_status find_server(const struct sheaf__ps_client *client, const char *device,
                                int *server, sheaf_error *err)
{
    *server = server_of(client, device);
    if (*server < 0)
        return sheaf__error(err, SHEAF_ERR_INTERNAL,
                            "a tensor on %s, which is no parameter server of the cluster",
                            device ? device : "no device");
    return SHEAF_OK;
}

/* Bytes of files that a server handles in a second at least: those of large tables take longer than an answer may. */
enum { SLOWEST_DISK = 8 << 20 };

static int64_t deadline_for(const struct sheaf__ps_client *client, uint64_t bytes)
{
    return sheaf__clock_after(client->deadline_ns +
                              (int64_t)((double)bytes / SLOWEST_DISK * (double)SHEAF__S));
}

static uint64_t bytes_of(const struct sheaf__shard *shard)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < shard->count; i++) {
        const struct sheaf__saveable *s = &shard->items[i].saveable;
        bytes += (uint64_t)sheaf_shape_elements(s->shape) * sheaf_dtype_size(s->dtype);
    }
    return bytes;
}

/* The same call to `count` servers from the `first` one on; waits for all of them. The first error. Any
 * thread, without the lock. */
static sheaf_status call_aside(const struct sheaf__ps_client *client, int first, int count,
                               const struct sheaf__request *what, int64_t deadline,
                               sheaf_error *err)
{
    const struct sheaf__wait wait = {deadline, NULL, "a parameter server"};
    struct sheaf__request *calls = sheaf__calloc((size_t)count, sizeof(*calls));
    sheaf_error fault = {0};
    int started = 0;
    if (!calls)
        return sheaf__no_memory(err, "a save");
    for (; started < count && fault.status >= 0; started++) {
        calls[started] = *what;
        if (sheaf__request_start(client->servers[first + started].peer, &calls[started], &fault) <
            0)
            break;
    }
    for (int i = 0; i < started; i++) {
        sheaf_error mine = {0};
        if (sheaf__request_finish(&calls[i], &wait, &mine) < 0)
            sheaf__error_keep_first(&fault, &mine);
        sheaf__request_clear(&calls[i]);
    }
    sheaf__free(calls);
    if (fault.status == SHEAF_ERR_UNAVAILABLE)
        sheaf__error_prefix(&fault, "save");
    return fault.status < 0 ? sheaf__error_copy(err, &fault) : SHEAF_OK;
}

static bool group_restores(struct sheaf__save_group *g)
{
    return client_of(g)->initialises;
}

/* Who saves is the first server's to say (server_writer.c). */

sheaf_status sheaf__ps_ask_saves(struct sheaf__ps_client *client, bool *now, sheaf_error *err)
{
    const struct sheaf__ps_remote *r = sheaf__ps_prepare(client, 0);
    const struct sheaf__buf *reply = &r->request.reply_meta;
    SHEAF__TRY(sheaf__ps_call(client, 0, SHEAF__PS_WRITER, NULL, 0, err));
    *now = reply->size == 1 && reply->data[0] == 1;
    return SHEAF_OK;
}

sheaf_status sheaf__ps_saves(struct sheaf__ps_client *client, bool *now, sheaf_error *err)
{
    sheaf__mutex_lock(&client->lock);
    sheaf_status status = sheaf__ps_ask_saves(client, now, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

static sheaf_status group_writes(struct sheaf__save_group *g, bool *now, sheaf_error *err)
{
    return sheaf__ps_saves(client_of(g), now, err);
}

/* A call whose meta is ready, with a number for an answer. With the lock held. */
static sheaf_status ask_number(struct sheaf__ps_client *client, uint32_t kind, int64_t *number,
                               sheaf_error *err)
{
    const struct sheaf__buf *reply = &client->servers[0].request.reply_meta;
    SHEAF__TRY(sheaf__ps_call(client, 0, kind, NULL, 0, err));
    if (reply->size != sizeof(*number))
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                            "the answer of a parameter server has %zu bytes, expected %zu",
                            reply->size, sizeof(*number));
    memcpy(number, reply->data, sizeof(*number));
    return SHEAF_OK;
}

static sheaf_status group_take(struct sheaf__save_group *g, const char *prefix, int64_t *last,
                               sheaf_error *err)
{
    struct sheaf__ps_client *client = client_of(g);
    sheaf__mutex_lock(&client->lock);
    sheaf__buf_sized(&sheaf__ps_prepare(client, 0)->meta, prefix, strlen(prefix));
    sheaf_status status = ask_number(client, SHEAF__PS_CLAIM, last, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

static sheaf_status group_number(struct sheaf__save_group *g, const char *prefix, int64_t *number,
                                 sheaf_error *err)
{
    struct sheaf__ps_client *client = client_of(g);
    sheaf__mutex_lock(&client->lock);
    struct sheaf__ps_remote *r = sheaf__ps_prepare(client, 0);
    sheaf__buf_fixed64(&r->meta, (uint64_t)*number);
    sheaf__buf_sized(&r->meta, prefix, strlen(prefix));
    sheaf_status status = ask_number(client, SHEAF__PS_NUMBER, number, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

static sheaf_status group_leave(struct sheaf__save_group *g, sheaf_error *err)
{
    const struct sheaf__request what = {.kind = SHEAF__PS_LEAVE};
    return call_aside(client_of(g), 0, 1, &what, deadline_for(client_of(g), 0), err);
}

static const struct sheaf__save_turns turns = {
    .take = group_take, .number = group_number, .leave = group_leave};

/* The first server is told the places of the workers (server_mark.c). */
static const char *group_keeper(struct sheaf__save_group *g)
{
    return client_of(g)->servers[0].full_device;
}

static bool group_is_local(struct sheaf__save_group *g, const char *device)
{
    return server_of(client_of(g), device) < 0;
}

static sheaf_status group_prove(struct sheaf__save_group *g, const char *device, const char *path,
                                const char *token, sheaf_error *err)
{
    struct sheaf__ps_client *client = client_of(g);
    struct sheaf__buf meta = {0};
    int server;
    SHEAF__TRY(find_server(client, device, &server, err));
    sheaf__buf_sized(&meta, path, strlen(path));
    sheaf__buf_sized(&meta, token, strlen(token));
    sheaf_status status = sheaf__buf_check(&meta, "a message", err);
    const struct sheaf__request what = {
        .kind = SHEAF__PS_PROVE, .meta = meta.data, .meta_size = meta.size};
    if (status >= 0)
        status = call_aside(client, server, 1, &what, deadline_for(client, 0), err);
    sheaf__buf_free(&meta);
    return status;
}

/* Puts the shards of server `s`, which may be none, into its message; their bytes. */
static uint64_t put_shards(struct sheaf__ps_client *client, int s,
                           const struct sheaf__shard *shards, size_t count)
{
    uint64_t bytes = 0;
    struct sheaf__ps_remote *r = sheaf__ps_prepare(client, s);
    uint32_t mine = 0;
    sheaf__buf_fixed64(&r->meta, client->cuts);
    for (size_t i = 0; i < count; i++)
        mine += server_of(client, shards[i].device) == s;
    sheaf__buf_varint(&r->meta, mine);
    for (size_t i = 0; i < count; i++)
        if (server_of(client, shards[i].device) == s) {
            sheaf__ps_put_shard(&r->meta, &shards[i], NULL);
            bytes += bytes_of(&shards[i]);
        }
    return bytes;
}

static void take_notes(struct sheaf__ps_client *client, const struct sheaf__shard *shards,
                       size_t count, const char **notes)
{
    for (size_t i = 0; i < count; i++) {
        const int s = server_of(client, shards[i].device);
        const struct sheaf__buf *note = s < 0 ? NULL : &client->servers[s].request.reply_meta;
        if (note)
            notes[i] = sheaf__frame_text((const char *)note->data, note->size);
    }
}

static void group_drop(struct sheaf__save_group *g, const struct sheaf__save_cut *cut)
{
    const struct sheaf__ps_client *client = client_of(g);
    const struct sheaf__post post = {
        .kind = SHEAF__PS_DROP, .meta = &cut->number, .meta_size = sizeof(cut->number)};
    for (int s = 0; s < client->server_count; s++)
        (void)sheaf__post(client->servers[s].peer, &post,
                          NULL); /* one that is lost holds nothing */
}

static sheaf_status group_cut(struct sheaf__save_group *g, const struct sheaf__shard *shards,
                              size_t count, const char **notes, struct sheaf__save_cut *cut,
                              sheaf_error *err)
{
    struct sheaf__ps_client *client = client_of(g);
    int ignored;
    for (size_t i = 0; i < count; i++)
        SHEAF__TRY(find_server(client, shards[i].device, &ignored, err));
    sheaf__mutex_lock(&client->lock);
    sheaf_status status = sheaf__ps_send_mark(client, err);
    *cut = (struct sheaf__save_cut){.number = ++client->cuts};
    for (int s = 0; s < client->server_count && status >= 0; s++) {
        const uint64_t bytes = put_shards(client, s, shards, count);
        cut->bytes = bytes > cut->bytes ? bytes : cut->bytes;
        sheaf__ps_start(client, s, SHEAF__PS_CUT, NULL, 0);
    }
    if (status >= 0)
        status = sheaf__ps_finish_all(client, err);
    if (status >= 0)
        take_notes(client, shards, count, notes);
    sheaf__mutex_unlock(&client->lock);
    if (status < 0)
        group_drop(g, cut);
    return status;
}

static sheaf_status group_write(struct sheaf__save_group *g, const struct sheaf__save_cut *cut,
                                sheaf_error *err)
{
    const struct sheaf__ps_client *client = client_of(g);
    const struct sheaf__request what = {
        .kind = SHEAF__PS_WRITE, .meta = &cut->number, .meta_size = sizeof(cut->number)};
    return call_aside(client, 0, client->server_count, &what, deadline_for(client, cut->bytes),
                      err);
}

/* The checksums in a server's reply. */
static sheaf_status take_sums(const struct sheaf__ps_remote *r, struct sheaf__bundle_sums *sums,
                              sheaf_error *err)
{
    const struct sheaf__buf *reply = &r->request.reply_meta;
    struct sheaf__cursor c = sheaf__cursor_of(reply->data, reply->size);
    return sheaf__bundle_sums_get(&c, sums)
               ? SHEAF_OK
               : sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                              "a parameter server's checksums are no such");
}

static sheaf_status group_read(struct sheaf__save_group *g, const struct sheaf__shard *shards,
                               size_t count, const char *const *notes,
                               struct sheaf__bundle_sums *sums, sheaf_error *err)
{
    struct sheaf__ps_client *client = client_of(g);
    int server;
    for (size_t i = 0; i < count; i++)
        SHEAF__TRY(find_server(client, shards[i].device, &server, err));
    uint64_t bytes = 0;
    sheaf__mutex_lock(&client->lock);
    for (size_t i = 0; i < count; i++) {
        const uint64_t mine = bytes_of(&shards[i]);
        bytes = mine > bytes ? mine : bytes;
        server = server_of(client, shards[i].device);
        sheaf__ps_put_shard(&sheaf__ps_prepare(client, server)->meta, &shards[i], notes[i]);
        sheaf__ps_start(client, server, SHEAF__PS_READ, NULL, 0);
    }
    sheaf_status status = sheaf__ps_finish_until(client, deadline_for(client, bytes), err);
    for (size_t i = 0; i < count && status >= 0; i++)
        status = take_sums(&client->servers[server_of(client, shards[i].device)], sums, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

static sheaf_status group_settle(struct sheaf__save_group *g, bool take, sheaf_error *err)
{
    struct sheaf__ps_client *client = client_of(g);
    sheaf__mutex_lock(&client->lock);
    for (int s = 0; s < client->server_count; s++) {
        struct sheaf__ps_remote *r = sheaf__ps_prepare(client, s);
        sheaf__buf_byte(&r->meta, take);
        sheaf__ps_start(client, s, SHEAF__PS_SETTLE, NULL, 0);
    }
    sheaf_status status = sheaf__ps_finish_all(client, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

static sheaf_tensor *group_fetch(struct sheaf__save_group *g, const struct sheaf__saveable *s)
{
    struct sheaf__ps_client *client = client_of(g);
    sheaf_error err = {0};
    int server;
    if (find_server(client, s->device, &server, &err) < 0)
        return sheaf__tensor_give(NULL, &err);
    sheaf_tensor *t = sheaf__tensor_new(s->dtype, s->shape, NULL, &err);
    if (!t)
        return sheaf__tensor_give(NULL, &err);
    const struct sheaf__part into = {sheaf__tensor_out(t), sheaf__tensor_size(t)};
    sheaf__mutex_lock(&client->lock);
    struct sheaf__ps_remote *r = sheaf__ps_prepare(client, server);
    sheaf__buf_fixed64(&r->meta, s->handle);
    sheaf_status status = sheaf__ps_call(client, server, SHEAF__PS_FETCH, &into, 1, &err);
    sheaf__mutex_unlock(&client->lock);
    if (status < 0) {
        sheaf_tensor_free(t);
        t = NULL;
    }
    return sheaf__tensor_give(t, &err);
}

/* The first server keeps what the chief has restored, and how often it did. With the lock held. */

static sheaf_status say_restored(struct sheaf__ps_client *client, const char *path,
                                 sheaf_error *err)
{
    struct sheaf__ps_remote *r = sheaf__ps_prepare(client, 0);
    sheaf__buf_fixed64(&r->meta, ++client->restores);
    if (path)
        sheaf__buf_bytes(&r->meta, path, strlen(path));
    return sheaf__ps_call(client, 0, SHEAF__PS_RESTORED, NULL, 0, err);
}

static sheaf_status await_restored(struct sheaf__ps_client *client, const char **path,
                                   sheaf_error *err)
{
    struct sheaf__ps_remote *r = sheaf__ps_prepare(client, 0);
    sheaf__buf_fixed64(&r->meta, ++client->restores);
    sheaf__buf_fixed64(&r->meta, client->followed);
    SHEAF__TRY(sheaf__ps_call(client, 0, SHEAF__PS_AWAIT, NULL, 0, err));
    const struct sheaf__buf *reply = &r->request.reply_meta;
    struct sheaf__cursor c = sheaf__cursor_of(reply->data, reply->size);
    uint64_t life;
    if (!sheaf__cursor_fixed64(&c, &life))
        return sheaf__ps_malformed("what the chief has restored", err);
    if (!client->followed)
        client->followed = life;
    const size_t size = sheaf__cursor_left(&c);
    *path = size ? sheaf__frame_text((const char *)reply->data + sizeof(life), size) : NULL;
    return SHEAF_OK;
}

static sheaf_status group_follow(struct sheaf__save_group *g, const char **path, sheaf_error *err)
{
    struct sheaf__ps_client *client = client_of(g);
    sheaf__mutex_lock(&client->lock);
    sheaf_status status =
        client->initialises ? say_restored(client, *path, err) : await_restored(client, path, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

const struct sheaf__save_group_class sheaf__ps_group_class = {
    .restores = group_restores,
    .writes = group_writes,
    .turns = &turns,
    .keeper = group_keeper,
    .is_local = group_is_local,
    .prove = group_prove,
    .cut = group_cut,
    .write = group_write,
    .drop = group_drop,
    .read = group_read,
    .settle = group_settle,
    .fetch = group_fetch,
    .follow = group_follow,
};
