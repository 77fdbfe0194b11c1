/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "data/draws.h"
#include "data/spec.h"
#include "data/tuple.h"

/* Tuples of an element of each input; ends with the shortest (R9.21). An error of one input uses up
 * an element of every other, so that they stay in step. */

struct zip_iter {
    struct sheaf__iter base;
    struct sheaf__flow flow; /* of the inputs */
    struct sheaf__feed *feeds;
    struct sheaf__part *parts;
    bool careful; /* functions or seeds are used up by elements that are too many */
};

static int64_t shortest(int64_t a, int64_t b)
{
    if (a == SHEAF_UNKNOWN || b == SHEAF_UNKNOWN)
        return SHEAF_UNKNOWN;
    if (a == SHEAF_INFINITE || b == SHEAF_INFINITE)
        return a == SHEAF_INFINITE ? b : a;
    return a < b ? a : b;
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    if (d->input_count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is nothing to zip");
    const sheaf_element_spec **specs = sheaf__alloc_array(d->input_count, sizeof(*specs));
    if (!specs)
        return sheaf__no_memory(err, "an element spec");
    d->cardinality = SHEAF_INFINITE;
    for (size_t i = 0; i < d->input_count; i++) {
        specs[i] = d->inputs[i]->spec;
        d->cardinality = shortest(d->cardinality, d->inputs[i]->cardinality);
    }
    sheaf_element_spec_free(d->spec);
    sheaf_status status = sheaf__spec_tuple(specs, d->input_count, &d->spec, err);
    sheaf__free(specs);
    return status;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct zip_iter *it = (struct zip_iter *)base;
    it->feeds = sheaf__calloc(base->input_count, sizeof(*it->feeds));
    it->parts = sheaf__calloc(base->input_count, sizeof(*it->parts));
    if (!it->feeds || !it->parts)
        return sheaf__no_memory(err, "an iterator");
    it->flow = *base->flow;
    sheaf__flow_branch(&it->flow);
    for (size_t i = 0; i < base->input_count; i++) {
        SHEAF__TRY(sheaf__iter_input(base, i, &it->flow, err));
        it->feeds[i].from = base->inputs[i];
    }
    it->careful = base->dataset->calls || sheaf__draws_in(base->dataset);
    return SHEAF_OK;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct zip_iter *it = (const struct zip_iter *)base;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < base->input_count; i++) {
        const uint64_t one = sheaf__feed_sure(&it->feeds[i]);
        least = one < least ? one : least;
    }
    return least;
}

/* How many elements every input is asked for together: the one that ends first must not show, nor in
 * which order they are asked. */
static uint64_t together(const struct zip_iter *it, uint64_t want)
{
    const uint64_t all = it->flow.gate ? 1 : it->careful ? sure(&it->base) : want;
    return all < 1 ? 1 : all < want ? all : want;
}

/* Lets every feed have a row; `*count` is how many rows all of them have in their block. All are
 * asked even after an error. */
static sheaf_status fill(struct zip_iter *it, size_t want, size_t *count, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf_error later;
    *count = want;
    for (size_t i = 0; i < it->base.input_count; i++) {
        struct sheaf__feed *feed = &it->feeds[i];
        sheaf_status filled =
            sheaf__feed_fill(feed, status < 0 ? 1 : *count, status < 0 ? &later : err);
        if (filled == SHEAF_END && status >= 0)
            return SHEAF_END;
        if (filled < 0 && status >= 0) {
            status = filled;
            *count = 1;
        } else if (filled == SHEAF_OK && sheaf__feed_left(feed) < *count) {
            *count = sheaf__feed_left(feed);
        }
    }
    return status;
}

static void use_up(struct zip_iter *it, size_t count)
{
    for (size_t i = 0; i < it->base.input_count; i++)
        if (sheaf__feed_left(&it->feeds[i]) >= count)
            it->feeds[i].at += count;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct zip_iter *it = (struct zip_iter *)base;
    size_t count;
    sheaf_status status = fill(it, (size_t)together(it, want), &count, err);
    if (status == SHEAF_END)
        return status;
    if (status == SHEAF_OK) {
        for (size_t i = 0; i < base->input_count; i++)
            it->parts[i] = (struct sheaf__part){it->feeds[i].block, it->feeds[i].at};
        status = sheaf__rows_put_tuples(rows, it->parts, base->input_count, count, err);
    }
    use_up(it, count);
    return status;
}

/* `count` elements of every input; as fill(). After an error between many they are out of step. */
static sheaf_status pass_all(struct zip_iter *it, uint64_t count, struct sheaf__passed *passed,
                             sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf_error later;
    uint64_t least = count;
    for (size_t i = 0; i < it->base.input_count; i++) {
        struct sheaf__passed one = {0};
        sheaf_status mine = sheaf__feed_pass(&it->feeds[i], count, &one, status < 0 ? &later : err);
        if (mine == SHEAF_END && status >= 0 && count == 1)
            return SHEAF_END;
        least = one.count < least ? one.count : least;
        if (status == SHEAF_OK || (mine < 0 && status > 0))
            status = mine;
    }
    if (status < 0)
        return count > 1 ? sheaf__iter_break(&it->base, err) : status;
    passed->count += least;
    return status;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct zip_iter *it = (struct zip_iter *)base;
    while (count > 0) {
        const uint64_t n = together(it, count);
        sheaf_status status = pass_all(it, n, passed, err);
        if (status != SHEAF_OK)
            return status;
        count -= n;
    }
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    struct zip_iter *it = (struct zip_iter *)base;
    for (size_t i = 0; it->feeds && i < base->input_count; i++)
        sheaf__feed_free(&it->feeds[i]);
    sheaf__free(it->feeds);
    sheaf__free(it->parts);
}

const struct sheaf__stage_ops sheaf__zip_ops = {
    .describe = describe,
    .iter_size = sizeof(struct zip_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .sure = sure,
    .stop = stop,
    .lazy = true, /* the inputs have a flow of their own */
};

sheaf_dataset *sheaf_dataset_zip(sheaf_dataset *const *inputs, size_t count)
{
    void *p = sheaf__params_new(sizeof(struct sheaf__params), SHEAF__STAGE_ZIP);
    return sheaf__dataset_new(SHEAF__STAGE_ZIP, p, inputs, inputs ? count : 0);
}
