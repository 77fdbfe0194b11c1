/* SPDX-License-Identifier: Apache-2.0 */

/* Updates of variables, as one for each of their parts, queued until the step ends. */

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "ps/route.h"
#include "tensor/frame.h"

#include <sheaf/ops.h>

#include <string.h>

static struct sheaf__ps_variable_ref *ref_of(sheaf_variable *v)
{
    return (struct sheaf__ps_variable_ref *)v;
}

/* With the lock held. */
static sheaf_status enqueue(struct sheaf__ps_client *client, const struct sheaf__ps_part *part,
                            const struct sheaf__ps_queued *q, sheaf_error *err)
{
    if (!sheaf__array_reserve((void **)&client->queue, &client->queue_capacity,
                              client->queue_count + 1, sizeof(*client->queue)))
        return sheaf__no_memory(err, "an update");
    struct sheaf__ps_queued *kept = &client->queue[client->queue_count++];
    *kept = *q;
    kept->number = part->number;
    kept->server = part->server;
    sheaf__ref(kept->ids);
    sheaf__ref(kept->data);
    return SHEAF_OK;
}

/* Every part gets its rows of `q->data`, which is the size of the variable. */
static sheaf_status enqueue_dense(struct sheaf__ps_client *client, struct sheaf__ps_variable_ref *v,
                                  const struct sheaf__ps_queued *q, sheaf_error *err)
{
    struct sheaf__ps_queued mine = *q;
    if (v->part_count == 1)
        return enqueue(client, v->parts, q, err);
    for (size_t i = 0; i < v->part_count; i++) {
        const struct sheaf__ps_part *p = &v->parts[i];
        mine.data = sheaf__tensor_slice(q->data, p->first, p->first + p->rows, err);
        if (!mine.data)
            return SHEAF_ERR_RESOURCE_EXHAUSTED;
        sheaf_status status = enqueue(client, p, &mine, err);
        sheaf__unref(mine.data);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

/* The rows [begin, end) of a route as a gradient of their part. */
static sheaf_status gather_rows(const struct sheaf__ps_route *route, size_t begin, size_t end,
                                sheaf_tensor *values, struct sheaf__ps_queued *q, sheaf_error *err)
{
    const size_t count = end - begin;
    const int64_t all = values->shape.dims[0];
    const size_t width = all ? sheaf__tensor_size(values) / (size_t)all : 0;
    const char *from = sheaf__tensor_host(values, err);
    sheaf_shape shape = values->shape;
    shape.dims[0] = (int64_t)count;
    if (!from)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    q->ids = sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE((int64_t)count), NULL, err);
    q->data = q->ids ? sheaf__tensor_new(values->dtype, shape, NULL, err) : NULL;
    if (!q->data)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    char *to = sheaf__tensor_out(q->data);
    memcpy(sheaf__tensor_out(q->ids), route->ids + begin, count * sizeof(int64_t));
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * width, from + route->from[begin + i] * width, width);
    return SHEAF_OK;
}

/* Every part gets the rows that it has. One without any has an update, too, if the rule moves rows
 * that have no gradient. */
static sheaf_status enqueue_rows(struct sheaf__ps_client *client, struct sheaf__ps_variable_ref *v,
                                 const struct sheaf__ps_queued *q, sheaf_error *err)
{
    struct sheaf__ps_route route;
    const bool all = sheaf__rule_moves_all(&client->hypers[q->hyper]);
    const int64_t *ids = sheaf__tensor_host(q->ids, err);
    if (v->part_count == 1)
        return enqueue(client, v->parts, q, err);
    if (!ids)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    SHEAF__TRY(sheaf__ps_route(v, ids, (size_t)sheaf_tensor_elements(q->ids), "a gradient of",
                               &route, err));
    for (size_t i = 0; i < v->part_count; i++) {
        struct sheaf__ps_queued mine = {.kind = q->kind, .hyper = q->hyper};
        if (route.starts[i] == route.starts[i + 1] && !all)
            continue;
        sheaf_status status =
            gather_rows(&route, route.starts[i], route.starts[i + 1], q->data, &mine, err);
        if (status >= 0)
            status = enqueue(client, &v->parts[i], &mine, err);
        sheaf__unref(mine.ids);
        sheaf__unref(mine.data);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__ps_assign(struct sheaf__ps_client *client, sheaf_variable *v,
                              enum sheaf__ps_update_kind kind, sheaf_tensor *value,
                              sheaf_error *err)
{
    const struct sheaf__ps_queued q = {.kind = kind, .data = value};
    sheaf__mutex_lock(&client->lock);
    sheaf_status status = enqueue_dense(client, ref_of(v), &q, err);
    if (status >= 0 && !client->in_step)
        status = sheaf__ps_push(client, false, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}

static sheaf_status enqueue_gradient(struct sheaf__ps_client *client, sheaf_variable *v,
                                     sheaf_tensor *gradient, sheaf_error *err)
{
    const int hyper = (int)client->hyper_count - 1;
    const struct sheaf__ps_queued dense = {
        .kind = SHEAF__PS_GRADIENT, .hyper = hyper, .data = gradient};
    if (gradient->layout != SHEAF__ROWS)
        return enqueue_dense(client, ref_of(v), &dense, err);
    const struct sheaf__ps_queued rows = {.kind = SHEAF__PS_ROWS,
                                          .hyper = hyper,
                                          .ids = gradient->parts[SHEAF__INDICES],
                                          .data = gradient->parts[SHEAF__VALUES]};
    return enqueue_rows(client, ref_of(v), &rows, err);
}

static sheaf_status enqueue_gradients(struct sheaf__ps_client *client,
                                      const struct sheaf__hyper *hyper,
                                      sheaf_variable *const *variables,
                                      sheaf_tensor *const *gradients, size_t count,
                                      sheaf_error *err)
{
    if (!sheaf__array_reserve((void **)&client->hypers, &client->hyper_capacity,
                              client->hyper_count + 1, sizeof(*client->hypers)))
        return sheaf__no_memory(err, "an update");
    client->hypers[client->hyper_count++] = *hyper;
    for (size_t i = 0; i < count; i++)
        SHEAF__TRY(enqueue_gradient(client, variables[i], gradients[i], err));
    return SHEAF_OK;
}

sheaf_status sheaf__ps_update(struct sheaf__ps_client *client, const struct sheaf__hyper *hyper,
                              sheaf_variable *const *variables, sheaf_tensor *const *gradients,
                              size_t count, sheaf_error *err)
{
    sheaf__mutex_lock(&client->lock);
    sheaf_status status = enqueue_gradients(client, hyper, variables, gradients, count, err);
    if (status >= 0 && !client->in_step)
        status = sheaf__ps_push(client, false, err);
    sheaf__mutex_unlock(&client->lock);
    return status;
}
