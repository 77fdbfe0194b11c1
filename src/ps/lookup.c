/* SPDX-License-Identifier: Apache-2.0 */

/* Rows of variables: every part is asked for its own only, with one message to each server that has
 * any of them. */

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "ps/route.h"
#include "tensor/frame.h"

#include <sheaf/ops.h>

#include <string.h>

struct asked {
    const struct sheaf__ps_variable_ref *variable;
    struct sheaf__ps_route route;
    char *rows; /* in the route's order */
    size_t width;
    size_t used; /* of client->into */
};

/* Starts the call to server `s`, if it has any of the rows. */
static sheaf_status ask_server(struct asked *a, int s, sheaf_error *err)
{
    struct sheaf__ps_client *client = a->variable->client;
    struct sheaf__ps_remote *server = sheaf__ps_prepare(client, s);
    struct sheaf__part *into = client->into + a->used;
    size_t used = 0;
    for (size_t i = 0; i < a->variable->part_count; i++) {
        const struct sheaf__ps_part *p = &a->variable->parts[i];
        const size_t begin = a->route.starts[i], count = a->route.starts[i + 1] - begin;
        if (p->server != s || count == 0)
            continue;
        sheaf__buf_fixed32(&server->meta, p->number);
        sheaf__buf_fixed64(&server->meta, count);
        if (!sheaf__ps_add_part(server, a->route.ids + begin, count * sizeof(int64_t)))
            return sheaf__no_memory(err, "a look-up");
        into[used++] = (struct sheaf__part){a->rows + begin * a->width, count * a->width};
    }
    a->used += used;
    if (used > 0)
        sheaf__ps_start(client, s, SHEAF__PS_LOOKUP, into, used);
    return SHEAF_OK;
}

static sheaf_status ask_servers(struct asked *a, sheaf_error *err)
{
    struct sheaf__ps_client *client = a->variable->client;
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&client->lock);
    if (!sheaf__array_reserve((void **)&client->into, &client->into_capacity,
                              a->variable->part_count, sizeof(*client->into)))
        status = sheaf__no_memory(err, "a look-up");
    for (int s = 0; s < client->server_count && status >= 0; s++)
        status = ask_server(a, s, err);
    const sheaf_status over = sheaf__ps_finish_all(client, status < 0 ? NULL : err);
    sheaf__mutex_unlock(&client->lock);
    return status < 0 ? status : over;
}

/* Of a variable in one part the server checks the ids, and its rows come to their places. */
static sheaf_status look_up_whole(struct asked *a, int64_t *ids, size_t count, sheaf_error *err)
{
    size_t starts[] = {0, count};
    a->route = (struct sheaf__ps_route){.starts = starts, .ids = ids};
    return ask_servers(a, err);
}

static sheaf_status look_up_parts(struct asked *a, const int64_t *ids, size_t count, char *out,
                                  sheaf_error *err)
{
    SHEAF__TRY(sheaf__ps_route(a->variable, ids, count, "a look-up in", &a->route, err));
    a->rows = sheaf__frame_alloc(count * a->width + 1);
    if (!a->rows)
        return sheaf__no_memory(err, "a look-up");
    SHEAF__TRY(ask_servers(a, err));
    for (size_t i = 0; i < count; i++)
        memcpy(out + a->route.from[i] * a->width, a->rows + i * a->width, a->width);
    return SHEAF_OK;
}

static sheaf_status look_up(const struct sheaf__ps_variable_ref *v, sheaf_tensor *ids,
                            sheaf_tensor *rows, sheaf_error *err)
{
    const int64_t *data = sheaf__tensor_host(ids, err);
    const size_t count = (size_t)sheaf_tensor_elements(ids);
    struct asked asked = {.variable = v, .rows = sheaf__tensor_out(rows)};
    if (!data)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    if (count == 0)
        return SHEAF_OK;
    asked.width = sheaf__tensor_size(rows) / count;
    return v->part_count == 1 ? look_up_whole(&asked, (int64_t *)(uintptr_t)data, count, err)
                              : look_up_parts(&asked, data, count, sheaf__tensor_out(rows), err);
}

sheaf_tensor *sheaf__ps_lookup(sheaf_variable *v, sheaf_tensor *ids)
{
    sheaf_error err = {0};
    sheaf_tensor *wide = sheaf_cast(ids, SHEAF_INT64);
    if (!sheaf__tensor_ok(wide))
        return wide;
    sheaf_shape shape = ids->shape;
    for (int k = 1; k < v->shape.rank && shape.rank < SHEAF_MAX_RANK; k++)
        shape.dims[shape.rank++] = v->shape.dims[k];
    sheaf_tensor *rows = sheaf__tensor_new(v->dtype, shape, NULL, &err);
    sheaf_status status = rows ? SHEAF_OK : SHEAF_ERR_RESOURCE_EXHAUSTED;
    if (status >= 0)
        status = look_up((const struct sheaf__ps_variable_ref *)v, wide, rows, &err);
    if (status < 0) {
        sheaf_tensor_free(rows);
        rows = NULL;
    }
    return sheaf__tensor_give(rows, &err);
}
