/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "data/spec.h"
#include "data/stage.h"
#include "data/tuple.h"

/* Pairs (start + position, element): a zip with range(start, 2^63 - 1) (R9.18), which ends it. */

struct enumerate {
    struct sheaf__params params;
    int64_t start;
    sheaf_element_spec *index; /* type of the position; counted */
};

struct enumerate_iter {
    struct sheaf__iter base;
    struct sheaf__feed feed;
    struct sheaf__rows numbers;
    int64_t value;
};

static void params_free(void *params)
{
    sheaf_element_spec_free(((struct enumerate *)params)->index);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct enumerate *p = (const void *)d->params;
    if (!p->index)
        return sheaf__no_memory(err, "an element spec");
    sheaf_element_spec *spec = d->spec;
    sheaf_status status =
        sheaf__spec_tuple((const sheaf_element_spec *[]){p->index, spec}, 2, &d->spec, err);
    sheaf_element_spec_free(spec);
    return status;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct enumerate_iter *it = (struct enumerate_iter *)base;
    const struct enumerate *p = sheaf__iter_params(base);
    (void)err;
    it->feed.from = base->inputs[0];
    it->value = p->start;
    return SHEAF_OK;
}

/* How many numbers there are from here on. */
static uint64_t numbers_left(const struct enumerate_iter *it)
{
    return (uint64_t)INT64_MAX - (uint64_t)it->value;
}

/* The numbers of the next `count` elements, in one block. */
static sheaf_status number(struct enumerate_iter *it, size_t count, struct sheaf__block **block,
                           sheaf_error *err)
{
    const struct enumerate *p = sheaf__iter_params(&it->base);
    size_t room;
    sheaf__rows_clear(&it->numbers);
    it->numbers.reserve = count;
    SHEAF__TRY(sheaf__rows_room(&it->numbers, p->index, count, block, &room, err));
    int64_t *out = (*block)->columns->items[0].tensor->data;
    for (size_t i = 0; i < room; i++)
        out[i] = it->value + (int64_t)i;
    sheaf__rows_grow(&it->numbers, *block, room);
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct enumerate_iter *it = (struct enumerate_iter *)base;
    struct sheaf__block *numbers = NULL;
    if (numbers_left(it) == 0)
        return SHEAF_END;
    want = want < numbers_left(it) ? want : (size_t)numbers_left(it);
    sheaf_status status = sheaf__feed_fill(&it->feed, want, err);
    if (status < 0)
        it->value++; /* the failed element had a number, too */
    if (status != SHEAF_OK)
        return status;
    size_t count = sheaf__feed_left(&it->feed);
    count = count < want ? count : want;
    SHEAF__TRY(number(it, count, &numbers, err));
    count = numbers->count < count ? numbers->count : count;
    const struct sheaf__part parts[] = {{numbers, 0}, {it->feed.block, it->feed.at}};
    SHEAF__TRY(sheaf__rows_put_tuples(rows, parts, 2, count, err));
    it->feed.at += count;
    it->value += (int64_t)count;
    return SHEAF_OK;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct enumerate_iter *it = (struct enumerate_iter *)base;
    const uint64_t before = passed->count, left = numbers_left(it);
    sheaf_status status =
        left == 0 ? SHEAF_END
                  : sheaf__feed_pass(&it->feed, count < left ? count : left, passed, err);
    it->value += (int64_t)(passed->count - before) + (status < 0);
    return status == SHEAF_OK && left < count ? SHEAF_END : status;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct enumerate_iter *it = (const struct enumerate_iter *)base;
    const uint64_t left = numbers_left(it), sure = sheaf__feed_sure(&it->feed);
    return sure < left ? sure : left;
}

static void stop(struct sheaf__iter *base)
{
    struct enumerate_iter *it = (struct enumerate_iter *)base;
    sheaf__feed_free(&it->feed);
    sheaf__rows_free(&it->numbers);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct enumerate *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld)", (long long)p->start);
}

const struct sheaf__stage_ops sheaf__enumerate_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct enumerate_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .sure = sure,
    .stop = stop,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_enumerate(sheaf_dataset *d, int64_t start_value)
{
    sheaf_error ignored;
    struct enumerate *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_ENUMERATE);
    if (p) {
        p->start = start_value;
        p->index = sheaf__spec_of_tensor(SHEAF_INT64, SHEAF_SCALAR, &ignored);
    }
    return sheaf__dataset_new(SHEAF__STAGE_ENUMERATE, p, &d, 1);
}
