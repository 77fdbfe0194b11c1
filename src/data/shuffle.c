/* SPDX-License-Identifier: Apache-2.0 */
#include "data/shuffle.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/draws.h"

#include <stdlib.h>

/* Shuffles through a buffer in TensorFlow's own order (R9.3-R9.11). */

struct shuffle {
    struct sheaf__params params;
    int64_t buffer_size;
    sheaf_shuffle_options options;
    struct sheaf__seeds seeds;
};

/* A row that waits in the buffer; or, after pass(), only its number in the input. */
struct slot {
    struct sheaf__block *block; /* NULL: only the number */
    uint64_t at;                /* in the block, or of the row */
};

struct shuffle_iter {
    struct sheaf__iter base;
    struct sheaf__philox generator;
    struct slot *ring;
    size_t capacity; /* slots there is memory for */
    size_t start, count;
    struct sheaf__feed feed;
    uint64_t taken; /* rows that went into the buffer, the numbers included */
    bool ended;
    struct sheaf__marks marks; /* of the generators when the input was started */
    uint64_t reached;          /* rows that the input has given; behind `taken`: it lags */
    bool lags;
    bool end_known; /* of the input, at row `end` */
    uint64_t end;
};

/* Rows are drawn from the input in small blocks: one row that stays long keeps its block. */
#define CHUNK 32

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct shuffle *p = (const void *)d->params;
    SHEAF__TRY(sheaf__reserved_check(p->options.reserved, err));
    if (p->buffer_size <= 0 && p->buffer_size != SHEAF_UNKNOWN)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "buffer_size is %lld, it must be greater than 0, or SHEAF_UNKNOWN for "
                            "all of the input",
                            (long long)p->buffer_size);
    return SHEAF_OK;
}

static void state_start(sheaf_dataset *d)
{
    const struct shuffle *p = (const void *)d->params;
    sheaf__draws_set(d->state, p->seeds, 0);
}

/* Starts the input, from its beginning. */
static sheaf_status start_input(struct shuffle_iter *it, sheaf_error *err)
{
    struct sheaf__iter *base = &it->base;
    SHEAF__TRY(sheaf__iter_make(base->dataset->inputs[0], base->flow, &base->inputs[0], err));
    it->feed = (struct sheaf__feed){.from = base->inputs[0]};
    return SHEAF_OK;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    const struct shuffle *p = sheaf__iter_params(base);
    struct sheaf__draws *draws = base->dataset->state;
    SHEAF__TRY(sheaf__marks_take(&it->marks, base->dataset->inputs[0], err));
    SHEAF__TRY(start_input(it, err));
    const struct sheaf__seeds seeds =
        p->options.no_reshuffle ? draws->seeds : sheaf__draws_take(base);
    sheaf__philox_init(&it->generator, seeds.seed, seeds.seed2);
    return SHEAF_OK;
}

/* ---- the buffer ---- */

/* Makes room for more slots and straightens the ring. */
static sheaf_status grow(struct shuffle_iter *it, size_t most, sheaf_error *err)
{
    size_t capacity = it->capacity < 64 ? 64 : it->capacity * 2;
    if (capacity > most)
        capacity = most;
    struct slot *ring = sheaf__alloc_array(capacity, sizeof(*ring));
    if (!ring)
        return sheaf__no_memory(err, "a shuffle buffer");
    for (size_t i = 0; i < it->count; i++)
        ring[i] = it->ring[(it->start + i) % it->capacity];
    sheaf__free(it->ring);
    it->ring = ring;
    it->capacity = capacity;
    it->start = 0;
    return SHEAF_OK;
}

/* Moves rows of the feed's block to the buffer's end. */
static sheaf_status take_in(struct shuffle_iter *it, size_t most, sheaf_error *err)
{
    struct sheaf__feed *feed = &it->feed;
    while (it->count < most && sheaf__feed_left(feed) > 0) {
        if (it->count == it->capacity)
            SHEAF__TRY(grow(it, most, err));
        size_t end = (it->start + it->count++) % it->capacity;
        it->ring[end] = (struct slot){sheaf__block_ref(feed->block), feed->at++};
        it->taken++;
    }
    return SHEAF_OK;
}

/* Fills the buffer up to `most` rows, or to the end of the input; `more` rows will be asked for
 * after that. */
static sheaf_status fill(struct shuffle_iter *it, size_t most, size_t more, sheaf_error *err)
{
    while (!it->ended && it->count < most) {
        size_t room = most - it->count + more;
        sheaf_status status = sheaf__feed_fill(&it->feed, room < CHUNK ? room : CHUNK, err);
        if (status < 0)
            return status;
        it->ended = status == SHEAF_END;
        SHEAF__TRY(take_in(it, most, err));
    }
    return SHEAF_OK;
}

/* Takes one row at random; the row at the front takes its place (R9.6). */
static struct slot draw(struct shuffle_iter *it)
{
    size_t offset = sheaf__philox_next(&it->generator) % it->count;
    struct slot *front = &it->ring[it->start];
    struct slot *chosen = &it->ring[(it->start + offset) % it->capacity];
    struct slot slot = *chosen;
    *chosen = *front;
    it->start = (it->start + 1) % it->capacity;
    it->count--;
    return slot;
}

static size_t most_rows(const struct shuffle_iter *it)
{
    const struct shuffle *p = sheaf__iter_params(&it->base);
    return p->buffer_size > 0 ? (size_t)p->buffer_size : SIZE_MAX / sizeof(struct slot);
}

static sheaf_status catch_up(struct shuffle_iter *it, sheaf_error *err);

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    const size_t most = most_rows(it);
    if (it->lags)
        SHEAF__TRY(catch_up(it, err));
    for (size_t i = 0; i < want; i++) {
        SHEAF__TRY(fill(it, most, want - i - 1, err));
        if (it->count == 0)
            return SHEAF_END;
        struct slot slot = draw(it);
        sheaf_status status = sheaf__rows_put_from(rows, slot.block, (size_t)slot.at, 1, err);
        sheaf__block_unref(slot.block);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

/* ---- stepping over ---- */

/* The draws of the rows that are passed are made over numbers of rows. When a row is wanted again,
 * the input passes what is not in the buffer and gives what is (catch_up()). */

/* Whether all stages can step over elements without making them. */
static bool passes(const sheaf_dataset *d)
{
    bool all = d->stage->ops->pass != NULL;
    for (size_t i = 0; i < d->input_count && all; i++)
        all = passes(d->inputs[i]);
    return all;
}

/* A slot that has only a number. */
struct missing {
    uint64_t row;
    struct slot *slot;
};

static int by_row(const void *a, const void *b)
{
    const uint64_t x = ((const struct missing *)a)->row, y = ((const struct missing *)b)->row;
    return (x > y) - (x < y);
}

static sheaf_status ends_early(const struct shuffle_iter *it, sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                        "the input ends after %llu elements, but it had at least %llu before: the "
                        "data have changed",
                        (unsigned long long)it->reached, (unsigned long long)it->taken);
}

/* Steps over rows of the input up to number `row`. */
static sheaf_status pass_to(struct shuffle_iter *it, uint64_t row, sheaf_error *err)
{
    struct sheaf__passed passed = {0};
    sheaf_status status = sheaf__feed_pass(&it->feed, row - it->reached, &passed, err);
    it->reached += passed.count;
    return status == SHEAF_END ? ends_early(it, err) : status;
}

/* Puts the rows into the slots that have only numbers. */
static sheaf_status load(struct shuffle_iter *it, const struct missing *list, size_t count,
                         sheaf_error *err)
{
    for (size_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && list[i + run].row == list[i].row + run;)
            run++;
        SHEAF__TRY(pass_to(it, list[i].row, err));
        for (size_t k = i; k < i + run; k++) {
            const size_t left = i + run - k;
            sheaf_status status = sheaf__feed_fill(&it->feed, left < CHUNK ? left : CHUNK, err);
            if (status != SHEAF_OK)
                return status == SHEAF_END ? ends_early(it, err) : status;
            *list[k].slot = (struct slot){sheaf__block_ref(it->feed.block), it->feed.at++};
            it->reached++;
        }
    }
    return pass_to(it, it->taken, err);
}

static sheaf_status catch_up(struct shuffle_iter *it, sheaf_error *err)
{
    struct missing *list = sheaf__alloc_array(it->count + 1, sizeof(*list));
    size_t count = 0;
    if (!list)
        return sheaf__no_memory(err, "a shuffle buffer");
    for (size_t i = 0; i < it->count; i++) {
        struct slot *slot = &it->ring[(it->start + i) % it->capacity];
        if (!slot->block)
            list[count++] = (struct missing){slot->at, slot};
    }
    qsort(list, count, sizeof(*list), by_row);
    sheaf_status status = load(it, list, count, err);
    sheaf__free(list);
    it->lags = false;
    return status < 0 ? sheaf__iter_break(&it->base, err) : SHEAF_OK;
}

/* Draws `count` rows, the buffer being filled with the numbers below `end`. */
static sheaf_status draw_numbers(struct shuffle_iter *it, uint64_t count, uint64_t end,
                                 sheaf_error *err)
{
    const size_t most = most_rows(it);
    while (count-- > 0) {
        while (it->count < most && it->taken < end) {
            if (it->count == it->capacity)
                SHEAF__TRY(grow(it, most, err));
            it->ring[(it->start + it->count++) % it->capacity] = (struct slot){NULL, it->taken++};
        }
        sheaf__block_unref(draw(it).block);
    }
    return SHEAF_OK;
}

/* How many rows the input has in all, or `wanted` if it has at least so many. What nobody knows is
 * found out by passing them: `*passed`. */
static sheaf_status find_end(struct shuffle_iter *it, uint64_t wanted, uint64_t *end, bool *passed,
                             sheaf_error *err)
{
    const int64_t known = it->base.dataset->inputs[0]->cardinality;
    struct sheaf__passed rows = {0};
    sheaf_status status = SHEAF_OK;
    *passed = !it->ended && !it->end_known && known == SHEAF_UNKNOWN &&
              sheaf__feed_sure(&it->feed) < wanted - it->reached;
    if (*passed) {
        status = sheaf__feed_pass(&it->feed, wanted - it->reached, &rows, err);
        it->reached += rows.count;
        it->ended = it->end_known = status == SHEAF_END;
        it->end = it->reached;
    } else if (it->ended) {
        it->end = it->taken;
        it->end_known = true;
    } else if (known >= 0) {
        it->end = (uint64_t)known;
        it->end_known = true;
    }
    *end = it->end_known && it->end < wanted ? it->end : wanted;
    return status < 0 ? status : SHEAF_OK;
}

/* After the last row. Who asks for more than there is sees the input's end, as always. */
static sheaf_status pass_all(struct shuffle_iter *it, bool more, sheaf_error *err)
{
    struct sheaf__passed rows = {0};
    sheaf_status status = SHEAF_OK;
    for (; it->count > 0; it->count--, it->start = (it->start + 1) % it->capacity)
        sheaf__block_unref(it->ring[it->start].block);
    if (!it->ended)
        status = sheaf__feed_pass(&it->feed, it->taken - it->reached + more, &rows, err);
    it->ended = it->ended || status == SHEAF_END;
    it->lags = false;
    return status;
}

static sheaf_status start_again(struct shuffle_iter *it, sheaf_error *err)
{
    sheaf__iter_free(it->base.inputs[0]);
    it->base.inputs[0] = NULL;
    sheaf__feed_free(&it->feed);
    sheaf__marks_return(&it->marks);
    it->reached = 0;
    it->ended = false;
    return start_input(it, err);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t n;
    return __builtin_add_overflow(a, b, &n) ? UINT64_MAX : n;
}

static sheaf_status pass_rows(struct shuffle_iter *it, uint64_t count, struct sheaf__passed *passed,
                              sheaf_error *err)
{
    /* The buffer is filled up before each draw. */
    const uint64_t wanted = sum(it->taken + (most_rows(it) - it->count), count - 1);
    uint64_t end;
    bool tried;
    it->reached = it->lags ? it->reached : it->taken;
    it->lags = true;
    SHEAF__TRY(find_end(it, wanted, &end, &tried, err));
    const uint64_t left = it->count + (end - it->taken);
    if (left <= count && end < wanted) {
        it->taken = end;
        passed->count += left;
        sheaf_status status = pass_all(it, left < count, err);
        if (status < 0)
            return status;
        return left < count ? SHEAF_END : SHEAF_OK;
    }
    if (tried)
        SHEAF__TRY(start_again(it, err));
    passed->count += count;
    return draw_numbers(it, count, end, err);
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    if (!passes(base->dataset->inputs[0]))
        return sheaf__iter_drop(base, count, passed, err);
    sheaf_status status = pass_rows((struct shuffle_iter *)base, count, passed, err);
    return status < 0 ? sheaf__iter_break(base, err) : status;
}

static void stop(struct sheaf__iter *base)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    for (size_t i = 0; i < it->count; i++)
        sheaf__block_unref(it->ring[(it->start + i) % it->capacity].block);
    sheaf__free(it->ring);
    sheaf__marks_free(&it->marks);
    sheaf__feed_free(&it->feed);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct shuffle *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld)", (long long)p->buffer_size);
}

const struct sheaf__stage_ops sheaf__shuffle_ops = {
    .describe = describe,
    .state_size = sizeof(struct sheaf__draws),
    .state_start = state_start,
    .draws = true,
    .iter_size = sizeof(struct shuffle_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .stop = stop,
    .lazy = true, /* its input can begin again */
    .explain = explain,
};

bool sheaf__shuffle_is_seeded(const sheaf_dataset *d)
{
    const struct shuffle *p = (const void *)d->params;
    return p->options.seed != 0 || p->options.has_seed;
}

sheaf_dataset *sheaf_dataset_shuffle(sheaf_dataset *d, int64_t buffer_size,
                                     const sheaf_shuffle_options *options)
{
    struct shuffle *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_SHUFFLE);
    if (p) {
        p->buffer_size = buffer_size;
        p->options = options ? *options : (sheaf_shuffle_options){0};
        p->seeds =
            sheaf__random_seeds(p->options.seed != 0 || p->options.has_seed, p->options.seed);
    }
    return sheaf__dataset_new(SHEAF__STAGE_SHUFFLE, p, &d, 1);
}
