/* SPDX-License-Identifier: Apache-2.0 */
#include "data/map.h"

#include "base/config.h"
#include "base/error.h"
#include "data/function.h"

#include <sheaf/frame.h>

/* One element for each (R9.20). */

struct map_iter {
    struct sheaf__iter base;
    struct sheaf__feed feed;
    struct sheaf__map_call call;
    struct sheaf__map_crew *crew; /* in the place of the other two */
};

static void params_free(void *params)
{
    sheaf_element_spec_free(((struct sheaf__map_params *)params)->spec);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct sheaf__map_params *p = (const void *)d->params;
    d->calls = true;
    SHEAF__TRY(sheaf__reserved_check(p->options.reserved, err));
    if (!p->fn)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no function to call");
    SHEAF__TRY(sheaf__tuner_check(p->options.parallel, err));
    sheaf_element_spec_free(d->spec);
    d->spec = sheaf_element_spec_keep(p->spec);
    return SHEAF_OK;
}

/* ---- one call ---- */

/* An element without tensors: the last one again if nobody kept it. */
static sheaf_status fresh_out(struct sheaf__map_call *call, sheaf_error *err)
{
    sheaf_element *e = call->out;
    if (e && !sheaf__object_unique(e)) {
        sheaf__unref(e);
        e = NULL;
    }
    if (!e) {
        call->out = sheaf__element_new(err);
        return call->out ? SHEAF_OK : err->status;
    }
    for (size_t i = 0; i < e->count; i++)
        sheaf__unref(e->items[i].tensor);
    e->count = 0;
    e->pattern = 0;
    return SHEAF_OK;
}

static sheaf_status call_function(const struct sheaf__map_params *map, const sheaf_element *in,
                                  sheaf_element *out, sheaf_error *err)
{
    sheaf__error_listen();
    sheaf_status status = sheaf__function_status(map->fn(in, out, map->user), "the function", err);
    if (status >= 0 && sheaf_frame_status(err) < 0)
        return err->status;
    if (status == SHEAF_END || status == SHEAF_ERR_OUT_OF_RANGE)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the function says that the data is at its end, which a map cannot do: "
                            "it gives one element for each");
    if (status >= 0 && out->count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the function put no tensor into its result");
    if (status >= 0)
        status = sheaf__element_status(out, err);
    if (status >= 0 && map->spec)
        status = sheaf_element_spec_check(map->spec, out, err);
    return status < 0 ? status : SHEAF_OK;
}

sheaf_status sheaf__map_apply(const struct sheaf__map_params *map, struct sheaf__map_call *call,
                              struct sheaf__block *block, size_t at, struct sheaf__rows *rows,
                              sheaf_error *err)
{
    SHEAF__TRY(sheaf__token_check(call->token, err));
    const sheaf_element *in = sheaf__row_at(&call->row, block, at, err);
    if (!in)
        return err->status;
    SHEAF__TRY(fresh_out(call, err));
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_status status = call_function(map, in, call->out, err);
    sheaf_frame_close(&frame);
    return status < 0 ? status : sheaf__rows_put(rows, call->out, err);
}

void sheaf__map_call_free(struct sheaf__map_call *call)
{
    sheaf__row_free(&call->row);
    sheaf__unref(call->out);
    call->out = NULL;
}

/* ---- the stage ---- */

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct map_iter *it = (struct map_iter *)base;
    const struct sheaf__map_params *p = sheaf__iter_params(base);
    if (p->threads > 0)
        return sheaf__map_crew_new(base, p->threads, &it->crew, err);
    if (base->flow->parallel_maps)
        return sheaf__map_crew_new(base, sheaf__config_threads(), &it->crew, err);
    SHEAF__TRY(sheaf__iter_input(base, 0, base->flow, err));
    it->feed.from = base->inputs[0];
    it->call.token = base->flow->token;
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct map_iter *it = (struct map_iter *)base;
    const struct sheaf__map_params *p = sheaf__iter_params(base);
    if (it->crew)
        return sheaf__map_crew_next(it->crew, want, rows, err);
    for (size_t i = 0; i < want;) {
        sheaf_status status = sheaf__feed_fill(&it->feed, want - i, err);
        if (status != SHEAF_OK)
            return status;
        for (size_t left = sheaf__feed_left(&it->feed); left > 0 && i < want; left--, i++)
            SHEAF__TRY(sheaf__map_apply(p, &it->call, it->feed.block, it->feed.at++, rows, err));
    }
    return SHEAF_OK;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct map_iter *it = (struct map_iter *)base;
    return it->crew ? sheaf__map_crew_pass(it->crew, count, passed, err)
                    : sheaf__feed_pass(&it->feed, count, passed, err);
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct map_iter *it = (const struct map_iter *)base;
    if (!it->crew)
        return sheaf__feed_sure(&it->feed);
    return sheaf__map_crew_works(it->crew) ? 0 : sheaf__iter_sure(base->inputs[0]);
}

static void stop(struct sheaf__iter *base)
{
    struct map_iter *it = (struct map_iter *)base;
    sheaf__map_crew_free(it->crew);
    sheaf__map_call_free(&it->call);
    sheaf__feed_free(&it->feed);
}

static const char *unstable(const sheaf_dataset *d, bool unordered)
{
    const struct sheaf__map_params *p = (const void *)d->params;
    return p->threads > 1 && (unordered || p->options.unordered)
               ? "elements come as they are ready (unordered)"
               : NULL;
}

const struct sheaf__stage_ops sheaf__map_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct map_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .sure = sure,
    .stop = stop,
    .unstable = unstable,
    .lazy = true,
};

sheaf_dataset *sheaf_dataset_map(sheaf_dataset *d, sheaf_map_fn fn, void *user,
                                 const sheaf_map_options *options)
{
    struct sheaf__map_params *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_MAP);
    if (p) {
        p->fn = fn;
        p->user = user;
        p->options = options ? *options : (sheaf_map_options){0};
        p->spec = sheaf_element_spec_keep(p->options.spec);
        p->threads =
            p->options.parallel == SHEAF_AUTOTUNE ? sheaf__config_threads() : p->options.parallel;
    }
    return sheaf__dataset_new(SHEAF__STAGE_MAP, p, &d, 1);
}
