/* SPDX-License-Identifier: Apache-2.0 */
#include "data/interleave.h"

#include "base/config.h"
#include "base/error.h"
#include "data/function.h"
#include "tensor/called.h"

#include <sheaf/frame.h>

/* Elements of several datasets in turn (R9.13); flat_map is a cycle of one. */

struct interleave_iter {
    struct sheaf__iter base;
    struct sheaf__flow flow; /* of the cycle */
    struct sheaf__cycle cycle;
    struct sheaf__interleave_crew *crew; /* in its place */
};

static void params_free(void *params)
{
    sheaf_element_spec_free(((struct sheaf__interleave *)params)->spec);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct sheaf__interleave *p = (const void *)d->params;
    const sheaf_interleave_options *o = &p->options;
    SHEAF__TRY(sheaf__reserved_check(o->reserved, err));
    if (!p->open)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no function to call");
    if (o->cycle_length < 0 || o->block_length < 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "cycle_length is %d and block_length %d, they must be greater than 0",
                            o->cycle_length, o->block_length);
    SHEAF__TRY(sheaf__tuner_check(o->parallel, err));
    if (o->cycle_length > 0 && o->parallel > o->cycle_length)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "parallel is %d, it must be SHEAF_AUTOTUNE or at most cycle_length %d",
                            o->parallel, o->cycle_length);
    int64_t n = d->cardinality;
    d->cardinality = n == SHEAF_INFINITE && p->threads > 0 ? SHEAF_INFINITE : SHEAF_UNKNOWN;
    d->calls = d->calls || p->open != sheaf_open_tfrecord;
    sheaf_element_spec_free(d->spec);
    d->spec = sheaf_element_spec_keep(p->spec);
    if (p->open == sheaf_open_tfrecord && !d->spec) {
        d->spec = sheaf__spec_of_tensor(SHEAF_STRING, SHEAF_SCALAR, err);
        return d->spec ? SHEAF_OK : err->status;
    }
    return SHEAF_OK;
}

/* ---- opening ---- */

sheaf_status sheaf__interleave_call(const struct sheaf__interleave *p, const sheaf_element *e,
                                    sheaf_dataset **d, sheaf_error *err)
{
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf__error_listen();
    *d = p->open(e, p->user);
    sheaf_status status = sheaf_frame_status(err);
    if (status >= 0 && !*d)
        status = sheaf__called_mute(err, "the function");
    if (status >= 0 && !*d)
        status = sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the function gave no dataset");
    sheaf_frame_close(&frame);
    if (status < 0) {
        sheaf_dataset_free(*d);
        *d = NULL;
    }
    return status;
}

sheaf_status sheaf__interleave_open(struct sheaf__iter *stage, struct sheaf__block *block,
                                    const struct sheaf__flow *flow, struct sheaf__iter **it,
                                    sheaf_error *err)
{
    sheaf_dataset *d = NULL;
    sheaf_element *e = sheaf__block_element(block, 0, err);
    sheaf_status status =
        e ? sheaf__interleave_call(sheaf__iter_params(stage), e, &d, err) : err->status;
    if (status >= 0) {
        sheaf__trail_made(flow->trail, stage->dataset, d, flow->unordered);
        status = sheaf__iter_make(stage, d, flow, it, err);
    }
    sheaf_dataset_free(d);
    sheaf__unref(e);
    return status;
}

/* ---- elements ---- */

/* The next element, if it is of the type. */
static sheaf_status pull_checked(const sheaf_element_spec *spec, struct sheaf__iter *it,
                                 struct sheaf__rows *rows, sheaf_error *err)
{
    struct sheaf__rows one = {0};
    sheaf_status status = sheaf__iter_pull(it, 1, &one, err);
    if (status == SHEAF_OK && one.count > 0) {
        sheaf_element *e = sheaf__block_element(sheaf__rows_front(&one), 0, err);
        status = e ? sheaf_element_spec_check(spec, e, err) : err->status;
        sheaf__unref(e);
    }
    if (status == SHEAF_OK)
        status = sheaf__rows_move(&one, one.count, rows, err);
    sheaf__rows_free(&one);
    return status;
}

sheaf_status sheaf__interleave_pull(const struct sheaf__interleave *p, struct sheaf__iter *it,
                                    size_t want, struct sheaf__rows *rows, sheaf_error *err)
{
    if (!p->spec || sheaf__spec_covers(p->spec, it->dataset->spec))
        return sheaf__iter_pull(it, want, rows, err);
    return pull_checked(p->spec, it, rows, err);
}

/* ---- the stage ---- */

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct interleave_iter *it = (struct interleave_iter *)base;
    const struct sheaf__interleave *p = sheaf__iter_params(base);
    if (p->threads > 0)
        return sheaf__interleave_crew_new(base, &it->crew, err);
    it->flow = *base->flow;
    sheaf__flow_branch(&it->flow);
    sheaf__cycle_start(&it->cycle, base, &it->flow);
    SHEAF__TRY(sheaf__iter_input(base, 0, &it->flow, err));
    it->cycle.input = base->inputs[0];
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct interleave_iter *it = (struct interleave_iter *)base;
    return it->crew ? sheaf__interleave_crew_next(it->crew, want, rows, err)
                    : sheaf__cycle_next(&it->cycle, want, rows, err);
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct interleave_iter *it = (struct interleave_iter *)base;
    return it->crew ? sheaf__interleave_crew_pass(it->crew, count, passed, err)
                    : sheaf__cycle_pass(&it->cycle, count, passed, err);
}

static void stop(struct sheaf__iter *base)
{
    struct interleave_iter *it = (struct interleave_iter *)base;
    sheaf__interleave_crew_free(it->crew);
    sheaf__cycle_free(&it->cycle);
}

static const char *unstable(const sheaf_dataset *d, bool unordered)
{
    const struct sheaf__interleave *p = (const void *)d->params;
    return p->threads > 0 && (unordered || p->options.unordered)
               ? "elements come as they are ready (unordered)"
               : NULL;
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct sheaf__interleave *p = (const void *)d->params;
    if (sheaf__dataset_is(d, SHEAF__STAGE_INTERLEAVE))
        sheaf__str_printf(text, "(cycle %zu, block %zu)", p->cycle, p->block);
    if (p->open == sheaf_open_tfrecord)
        sheaf__str_add(text, " of tfrecord");
}

const struct sheaf__stage_ops sheaf__interleave_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct interleave_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .stop = stop,
    .unstable = unstable,
    .lazy = true,
    .explain = explain,
};

/* The numbers that zeros stand for (R9.12). */
static void set_defaults(struct sheaf__interleave *p)
{
    int cores = sheaf__config_threads(), cycle = p->options.cycle_length;
    int parallel = p->options.parallel;
    if (cycle <= 0 && parallel == SHEAF_AUTOTUNE)
        cycle = (cores + 2) / 3;
    else if (cycle <= 0)
        cycle = parallel > 0 && parallel < cores ? parallel : cores;
    p->cycle = (size_t)cycle;
    p->block = p->options.block_length > 0 ? (size_t)p->options.block_length : 1;
    p->threads = parallel;
    if (parallel == SHEAF_AUTOTUNE)
        p->threads = cycle < cores ? cycle : cores;
}

sheaf_dataset *sheaf_dataset_interleave(sheaf_dataset *d, sheaf_open_fn open, void *user,
                                        const sheaf_interleave_options *options)
{
    struct sheaf__interleave *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_INTERLEAVE);
    if (p) {
        p->open = open;
        p->user = user;
        p->options = options ? *options : (sheaf_interleave_options){0};
        p->spec = sheaf_element_spec_keep(p->options.spec);
        set_defaults(p);
    }
    return sheaf__dataset_new(SHEAF__STAGE_INTERLEAVE, p, &d, 1);
}

sheaf_dataset *sheaf_dataset_flat_map(sheaf_dataset *d, sheaf_open_fn open, void *user)
{
    struct sheaf__interleave *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_FLAT_MAP);
    if (p) {
        p->open = open;
        p->user = user;
        p->cycle = 1;
        p->block = SIZE_MAX;
    }
    return sheaf__dataset_new(SHEAF__STAGE_FLAT_MAP, p, &d, 1);
}
