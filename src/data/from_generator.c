/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/function.h"
#include "data/stage.h"
#include "tensor/frame.h"

/* Elements of a C function (R9.25). */

struct from_generator {
    struct sheaf__params params;
    sheaf_generator generator;
    sheaf_element_spec *spec; /* counted */
};

struct from_generator_iter {
    struct sheaf__iter base;
    void *state;
    bool started, ended;
};

static void params_free(void *params)
{
    sheaf_element_spec_free(((struct from_generator *)params)->spec);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct from_generator *p = (const void *)d->params;
    d->calls = true;
    if (!p->generator.next)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no function to call");
    if (!p->spec)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no element spec");
    d->spec = sheaf_element_spec_keep(p->spec);
    d->cardinality = SHEAF_UNKNOWN;
    return SHEAF_OK;
}

static sheaf_status begin(struct from_generator_iter *it, const struct from_generator *p,
                          sheaf_error *err)
{
    if (it->started)
        return SHEAF_OK;
    it->state = p->generator.user;
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_status status = SHEAF_OK;
    sheaf__error_listen();
    if (p->generator.start)
        status = p->generator.start(p->generator.user, &it->state, err);
    it->started = status >= 0;
    status = sheaf__function_status(status, "the start of the generator", err);
    sheaf_frame_close(&frame);
    return status;
}

/* Calls the generator once, in a frame of its own. */
static sheaf_status generate(struct from_generator_iter *it, const struct from_generator *p,
                             struct sheaf__rows *rows, sheaf_error *err)
{
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_element *e = sheaf__element_new(err);
    sheaf__error_listen();
    sheaf_status status = e ? p->generator.next(it->state, e, err) : err->status;
    status = e ? sheaf__function_status(status, "the generator", err) : status;
    if (status == SHEAF_OK)
        status = sheaf_frame_status(err);
    if (status == SHEAF_OK)
        status = sheaf_element_spec_check(p->spec, e, err);
    if (status == SHEAF_OK)
        status = sheaf__rows_put(rows, e, err);
    sheaf__unref(e);
    sheaf_frame_close(&frame);
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct from_generator_iter *it = (struct from_generator_iter *)base;
    const struct from_generator *p = sheaf__iter_params(base);
    SHEAF__TRY(begin(it, p, err));
    for (size_t i = 0; i < want; i++) {
        SHEAF__TRY(sheaf__token_check(base->flow->token, err));
        sheaf_status status = it->ended ? SHEAF_END : generate(it, p, rows, err);
        it->ended = it->ended || status == SHEAF_END;
        if (status != SHEAF_OK)
            return status;
    }
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    struct from_generator_iter *it = (struct from_generator_iter *)base;
    const struct from_generator *p = sheaf__iter_params(base);
    if (it->started && p->generator.stop)
        p->generator.stop(it->state);
}

const struct sheaf__stage_ops sheaf__from_generator_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct from_generator_iter),
    .next = next,
    .stop = stop,
};

sheaf_dataset *sheaf_dataset_from_generator(const sheaf_generator *generator,
                                            const sheaf_element_spec *spec)
{
    struct from_generator *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_FROM_GENERATOR);
    if (p) {
        if (generator)
            p->generator = *generator;
        p->spec = sheaf_element_spec_keep(spec);
    }
    return sheaf__dataset_new(SHEAF__STAGE_FROM_GENERATOR, p, NULL, 0);
}
