/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "data/locate.h"
#include "data/spec.h"
#include "format/example.h"

/* Serialized Examples into tensors: one scalar, or a batch, an element. Scalars that come in a
 * block are parsed as a batch, too, where that gives the same rows. */

struct parse_example {
    struct sheaf__params params;
    struct sheaf__example_parser *parser;
    bool as_batch; /* all features have known shapes: rows of a batch are what single ones are */
    sheaf_error error;
};

struct parse_example_iter {
    struct sheaf__iter base;
    struct sheaf__feed feed;
    const struct sheaf__block *single; /* a block of which some record is bad */
};

static void params_free(void *params)
{
    sheaf__example_parser_free(((struct parse_example *)params)->parser);
}

/* Type of one feature: of a batch of unknown size, or of one example. */
static sheaf_shape shape_of(const sheaf_feature *f)
{
    if (f->kind != SHEAF_FEATURE_FIXED)
        return SHEAF_SHAPE(SHEAF_UNKNOWN_DIM);
    return sheaf_shape_of(f->rank, f->dims);
}

static sheaf_element_spec *single_spec(const struct parse_example *p, sheaf_error *err)
{
    size_t count = sheaf__example_parser_size(p->parser);
    sheaf_tensor_spec *specs = sheaf__alloc_array(count, sizeof(*specs));
    if (!specs) {
        sheaf__no_memory(err, "an element spec");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const sheaf_feature *f = sheaf__example_parser_feature(p->parser, i);
        specs[i] = (sheaf_tensor_spec){f->name ? f->name : f->key, f->dtype, shape_of(f)};
    }
    sheaf_element_spec *spec = sheaf__spec_new(specs, count, '{', err);
    sheaf__free(specs);
    return spec;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct parse_example *p = (const void *)d->params;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    sheaf_element_spec *in = d->spec;
    d->spec = NULL;
    if (!in)
        return SHEAF_OK;
    const sheaf_shape shape = in->count == 1 ? in->specs[0].shape : SHEAF_SCALAR;
    bool fits = in->count == 1 && in->specs[0].dtype == SHEAF_STRING && shape.rank <= 1;
    sheaf_element_spec_free(in);
    if (!fits)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the input is no dataset of serialized Examples: one string, or a "
                            "batch of strings, an element");
    if (shape.rank < 0)
        return SHEAF_OK;
    sheaf_element_spec *spec = single_spec(p, err);
    if (!spec || shape.rank == 0) {
        d->spec = spec;
        return spec ? SHEAF_OK : err->status;
    }
    sheaf_status status = sheaf__spec_batched(spec, shape.dims[0], &d->spec, err);
    sheaf_element_spec_free(spec);
    return status;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    (void)err;
    ((struct parse_example_iter *)base)->feed.from = base->inputs[0];
    return SHEAF_OK;
}

/* Parses `count` strings of a tensor into an element; the caller's count. */
static sheaf_status parse(const struct parse_example *p, const sheaf_tensor *t,
                          const sheaf_bytes *strings, size_t count, bool single,
                          sheaf_element **out, sheaf_error *err)
{
    void *owner = t->buffer;
    const struct sheaf__example_input input = {.serialized = strings,
                                               .count = count,
                                               .owners = &owner,
                                               .owner_count = owner != NULL,
                                               .single = single};
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_element *e = NULL;
    sheaf_status status = sheaf__example_parser_run(p->parser, &input, &e, err);
    if (status >= 0)
        *out = sheaf__ref(e);
    sheaf_frame_close(&frame);
    return status;
}

/* ---- where a bad record is ---- */

/* The first of the batch that cannot be parsed by itself, either, is what the error is about. */
static void locate_in_batch(const struct sheaf__iter *it, const sheaf_tensor *t,
                            const sheaf_bytes *strings, size_t count, sheaf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        sheaf_element *e = NULL;
        sheaf_error ignored;
        if (parse(sheaf__iter_params(it), t, &strings[i], 1, true, &e, &ignored) < 0) {
            sheaf__locate(it, t, strings[i], err);
            return;
        }
        sheaf__unref(e);
    }
}

/* ---- rows ---- */

/* All rows of the block at once, as rows. */
static sheaf_status parse_block(struct parse_example_iter *it, struct sheaf__rows *rows,
                                sheaf_error *err)
{
    struct sheaf__feed *feed = &it->feed;
    const sheaf_tensor *t = feed->block->columns->items[0].tensor;
    size_t count = sheaf__feed_left(feed);
    sheaf_element *e = NULL;
    const sheaf_bytes *strings = (const sheaf_bytes *)t->data + feed->block->first + feed->at;
    sheaf_status status = parse(sheaf__iter_params(&it->base), t, strings, count, false, &e, err);
    if (status < 0) {
        it->single = feed->block;
        return SHEAF_OK;
    }
    feed->at += count;
    status = sheaf__rows_put_slices(rows, e, 0, count, err);
    sheaf__unref(e);
    return status;
}

static sheaf_status parse_row(struct parse_example_iter *it, struct sheaf__rows *rows,
                              sheaf_error *err)
{
    sheaf_element *in = sheaf__block_element(it->feed.block, it->feed.at++, err);
    if (!in)
        return err->status;
    const sheaf_tensor *t = in->count == 1 ? in->items[0].tensor : NULL;
    sheaf_element *e = NULL;
    sheaf_status status;
    const sheaf_bytes *strings = NULL;
    if (!t || t->dtype != SHEAF_STRING || t->layout != SHEAF__DENSE || t->shape.rank > 1)
        status = sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                              "the element is no serialized Example: one string, or a batch");
    else
        status = (strings = sheaf__tensor_host(t, err)) ? SHEAF_OK : err->status;
    if (status >= 0)
        status = parse(sheaf__iter_params(&it->base), t, strings,
                       (size_t)sheaf_shape_elements(t->shape), t->shape.rank == 0, &e, err);
    if (status < 0 && strings)
        locate_in_batch(&it->base, t, strings, (size_t)sheaf_shape_elements(t->shape), err);
    if (status >= 0)
        status = sheaf__rows_put(rows, e, err);
    sheaf__unref(e);
    sheaf__unref(in);
    return status;
}

/* Whether the feed's rows are scalars in one column. */
static bool is_column(const struct parse_example_iter *it)
{
    const struct sheaf__block *block = it->feed.block;
    const sheaf_element *e = block->columns;
    return block != it->single && !block->boxed && e->count == 1 &&
           e->items[0].tensor->dtype == SHEAF_STRING && e->items[0].tensor->shape.rank == 1;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct parse_example_iter *it = (struct parse_example_iter *)base;
    const struct parse_example *p = sheaf__iter_params(base);
    size_t before = rows->count;
    while (rows->count - before < want) {
        size_t left = want - (rows->count - before);
        sheaf_status status = sheaf__feed_fill(&it->feed, left, err);
        if (status != SHEAF_OK)
            return status;
        if (p->as_batch && is_column(it) && sheaf__feed_left(&it->feed) <= left)
            SHEAF__TRY(parse_block(it, rows, err));
        else
            SHEAF__TRY(parse_row(it, rows, err));
    }
    return SHEAF_OK;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    return sheaf__feed_pass(&((struct parse_example_iter *)base)->feed, count, passed, err);
}

static uint64_t sure(const struct sheaf__iter *base)
{
    return sheaf__feed_sure(&((const struct parse_example_iter *)base)->feed);
}

static void stop(struct sheaf__iter *base)
{
    sheaf__feed_free(&((struct parse_example_iter *)base)->feed);
}

const struct sheaf__stage_ops sheaf__parse_example_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct parse_example_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .sure = sure,
    .stop = stop,
};

static bool all_fixed(const sheaf_feature *features, size_t count)
{
    bool fixed = true;
    for (size_t i = 0; i < count; i++)
        fixed = fixed && features[i].kind == SHEAF_FEATURE_FIXED &&
                (features[i].rank == 0 || features[i].dims[0] >= 0);
    return fixed;
}

sheaf_dataset *sheaf_dataset_parse_example(sheaf_dataset *d, const sheaf_feature *features,
                                           size_t count)
{
    struct parse_example *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_PARSE_EXAMPLE);
    if (p && sheaf__example_parser_new(features, count, &p->parser, &p->error) >= 0)
        p->as_batch = all_fixed(features, count);
    return sheaf__dataset_new(SHEAF__STAGE_PARSE_EXAMPLE, p, &d, 1);
}
