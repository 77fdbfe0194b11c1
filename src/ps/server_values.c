/* SPDX-License-Identifier: Apache-2.0 */

/* What workers read of variables: pull, look up, fetch; and the slots they make. */

#include "base/error.h"
#include "base/mem.h"
#include "ps/server.h"

#include <string.h>

static void fail(struct sheaf__call *call, const sheaf_error *err)
{
    sheaf__call_fail(call, err);
}

/* Slots. */

static void serve_slot(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    struct sheaf__ps_variable *v;
    uint32_t variable, slot;
    uint64_t fill_bits;
    const uint8_t *text;
    size_t size;
    sheaf_error err = {0};
    sheaf_status status = SHEAF_OK;
    char name[64] = "";
    if (!sheaf__cursor_varint32(&c, &variable) || !sheaf__cursor_varint32(&c, &slot) ||
        !sheaf__cursor_fixed64(&c, &fill_bits) || !sheaf__cursor_sized(&c, &text, &size) ||
        size >= sizeof(name))
        status = sheaf__ps_malformed("a slot", &err);
    if (status >= 0)
        status = sheaf__ps_find(&server->table, variable, &v, &err);
    if (status >= 0) {
        double fill;
        memcpy(name, text, size);
        memcpy(&fill, &fill_bits, sizeof(fill));
        status = sheaf__ps_make_slot(v, slot, name, fill, &err);
    }
    if (status < 0)
        fail(call, &err);
    else
        sheaf__call_reply(call, NULL);
}

/* Pulls: the buffers themselves are sent, counted until they have left. */

struct pulled {
    size_t count;
    struct sheaf__buffer *buffers[];
};

static void pulled_free(void *user)
{
    struct pulled *p = user;
    for (size_t i = 0; i < p->count; i++)
        sheaf__unref(p->buffers[i]);
    sheaf__free(p);
}

static sheaf_status gather_pull(struct sheaf__ps_server *server, struct sheaf__cursor *c,
                                struct pulled *p, struct sheaf__part *parts, uint64_t *versions,
                                sheaf_error *err)
{
    const size_t count = sheaf__cursor_left(c) / sizeof(uint32_t);
    for (size_t i = 0; i < count; i++) {
        uint32_t number = 0;
        struct sheaf__ps_variable *v;
        sheaf__cursor_fixed32(c, &number);
        SHEAF__TRY(sheaf__ps_find(&server->table, number, &v, err));
        p->buffers[p->count] = sheaf__ps_snapshot(v, 0, &versions[i]);
        parts[i] = (struct sheaf__part){p->buffers[p->count]->data, v->bytes};
        p->count++;
    }
    return SHEAF_OK;
}

static void serve_pull(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    const size_t count = meta.size / sizeof(uint32_t);
    sheaf_error err = {0};
    struct pulled *p = sheaf__calloc(1, sizeof(*p) + (count + 1) * sizeof(p->buffers[0]));
    struct sheaf__part *parts = sheaf__calloc(count + 1, sizeof(*parts));
    uint64_t *versions = sheaf__calloc(count + 1, sizeof(*versions));
    sheaf_status status = p && parts && versions ? gather_pull(server, &c, p, parts, versions, &err)
                                                 : sheaf__no_memory(&err, "a pull");
    const struct sheaf__reply reply = {.meta = versions,
                                       .meta_size = count * sizeof(*versions),
                                       .parts = parts,
                                       .count = count,
                                       .sent = pulled_free,
                                       .user = p};
    if (status >= 0) {
        sheaf__call_reply(call, &reply);
    } else {
        fail(call, &err);
        if (p)
            pulled_free(p);
    }
    sheaf__free(parts);
    sheaf__free(versions);
}

static void serve_fetch(struct sheaf__call *call, void *user)
{
    struct sheaf__ps_server *server = user;
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    struct sheaf__ps_variable *v;
    uint64_t handle = 0;
    sheaf_error err = {0};
    struct pulled *p = sheaf__calloc(1, sizeof(*p) + sizeof(p->buffers[0]));
    sheaf_status status = p ? SHEAF_OK : sheaf__no_memory(&err, "a fetch");
    if (status >= 0 && !sheaf__cursor_fixed64(&c, &handle))
        status = sheaf__ps_malformed("a fetch", &err);
    if (status >= 0)
        status = sheaf__ps_find(&server->table, (uint32_t)(handle >> 8), &v, &err);
    if (status >= 0) {
        p->buffers[0] = sheaf__ps_snapshot(v, handle & 0xff, NULL);
        p->count = p->buffers[0] != NULL;
        if (p->count == 0)
            status = sheaf__error(&err, SHEAF_ERR_NOT_FOUND, "variable '%s' has no slot %d here",
                                  v->name, (int)(handle & 0xff));
    }
    if (status < 0) {
        fail(call, &err);
        sheaf__free(p);
        return;
    }
    const struct sheaf__part part = {p->buffers[0]->data, v->bytes};
    sheaf__call_reply(
        call, &(struct sheaf__reply){.parts = &part, .count = 1, .sent = pulled_free, .user = p});
}

/* Look-ups: of several variables, or parts of one, at once. */

struct sought {
    struct sheaf__ps_variable *variable;
    uint64_t count; /* of ids */
    size_t bytes;   /* of rows */
};

/* The next of a look-up that has `left` ids more. */
static sheaf_status next_sought(struct sheaf__ps_server *server, struct sheaf__cursor *c,
                                size_t left, struct sought *s, sheaf_error *err)
{
    uint32_t number;
    if (!sheaf__cursor_fixed32(c, &number) || !sheaf__cursor_fixed64(c, &s->count) ||
        s->count > left)
        return sheaf__ps_malformed("a look-up", err);
    SHEAF__TRY(sheaf__ps_find(&server->table, number, &s->variable, err));
    const struct sheaf__ps_variable *v = s->variable;
    const int64_t rows = v->shape.rank ? v->shape.dims[0] : 0;
    const size_t width = rows ? v->bytes / (size_t)rows : 0;
    return __builtin_mul_overflow(s->count, width, &s->bytes) ? sheaf__no_memory(err, "a look-up")
                                                              : SHEAF_OK;
}

/* Bytes of all rows. */
static sheaf_status measure_lookup(struct sheaf__ps_server *server, struct sheaf__cursor c,
                                   size_t ids, size_t *bytes, sheaf_error *err)
{
    struct sought s;
    *bytes = 0;
    while (sheaf__cursor_left(&c) > 0) {
        SHEAF__TRY(next_sought(server, &c, ids, &s, err));
        ids -= s.count;
        if (__builtin_add_overflow(*bytes, s.bytes, bytes))
            return sheaf__no_memory(err, "a look-up");
    }
    return ids == 0 ? SHEAF_OK : sheaf__ps_malformed("the size of a look-up", err);
}

static sheaf_status look_up(struct sheaf__ps_server *server, struct sheaf__call *call,
                            struct pulled *p, size_t *bytes, sheaf_error *err)
{
    const struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    const size_t count = sheaf__call_payload_size(call) / sizeof(int64_t);
    const int64_t *ids = sheaf__call_payload(call);
    struct sought s;
    SHEAF__TRY(measure_lookup(server, c, count, bytes, err));
    p->buffers[0] = sheaf__buffer_new(NULL, *bytes + 1, err);
    if (!p->buffers[0])
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    p->count = 1;
    char *out = p->buffers[0]->data;
    while (sheaf__cursor_left(&c) > 0) {
        SHEAF__TRY(next_sought(server, &c, count, &s, err));
        SHEAF__TRY(sheaf__ps_rows(s.variable, ids, s.count, out, err));
        ids += s.count;
        out += s.bytes;
    }
    return SHEAF_OK;
}

static void serve_lookup(struct sheaf__call *call, void *user)
{
    sheaf_error err = {0};
    size_t bytes = 0;
    struct pulled *p = sheaf__calloc(1, sizeof(*p) + sizeof(p->buffers[0]));
    sheaf_status status =
        p ? look_up(user, call, p, &bytes, &err) : sheaf__no_memory(&err, "a look-up");
    if (status < 0) {
        fail(call, &err);
        if (p)
            pulled_free(p);
        return;
    }
    const struct sheaf__part part = {p->buffers[0]->data, bytes};
    sheaf__call_reply(
        call, &(struct sheaf__reply){.parts = &part, .count = 1, .sent = pulled_free, .user = p});
}

sheaf_status sheaf__ps_serve_values(struct sheaf__ps_server *server, sheaf_error *err)
{
    const struct sheaf__service services[] = {
        {.kind = SHEAF__PS_SLOT, .serve = serve_slot, .user = server},
        {.kind = SHEAF__PS_PULL, .serve = serve_pull, .user = server},
        {.kind = SHEAF__PS_FETCH, .serve = serve_fetch, .user = server},
        {.kind = SHEAF__PS_LOOKUP, .serve = serve_lookup, .user = server},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        SHEAF__TRY(sheaf__net_serve(server->net, &services[i], err));
    return SHEAF_OK;
}
