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
    bool chance; /* nobody gave any */
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
    uint64_t bytes; /* that it holds, if they are limited */
    uint64_t taken; /* rows that went into the buffer, or their numbers */
    bool ended;
    bool numbers;              /* there may be some in the buffer */
    struct sheaf__marks marks; /* when the input began */
    struct sheaf__flow flow;   /* of the input, which may begin again */
};

/* Rows are drawn from the input in small blocks: one row that stays long keeps its block. Blocks of
 * small rows have more of them, or what a block has beside its rows would fill the caches. */
#define CHUNK       32
#define CHUNK_BYTES 4096
#define CHUNK_MOST  256
/* Rows that are drawn before they are copied. */
#define DRAWN 16

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct shuffle *p = (const void *)d->params;
    const uint64_t *room = p->options.reserved, reserved[4] = {room[0], room[1], room[2]};
    SHEAF__TRY(sheaf__reserved_check(reserved, err));
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
    struct sheaf__draws *draws = d->state;
    draws->seeded = sheaf__shuffle_is_seeded(d);
    draws->chance = p->chance;
    draws->fixed = p->options.no_reshuffle;
    sheaf__draws_set(draws, p->seeds, 0);
}

static sheaf_status start_input(struct shuffle_iter *it, sheaf_error *err)
{
    struct sheaf__iter *base = &it->base;
    SHEAF__TRY(sheaf__iter_input(base, 0, &it->flow, err));
    it->feed = (struct sheaf__feed){.from = base->inputs[0]};
    return SHEAF_OK;
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    SHEAF__TRY(sheaf__marks_take(&it->marks, base->dataset->inputs[0], base->flow->redraw, err));
    it->flow = *base->flow;
    SHEAF__TRY(sheaf__account_below(base->flow->account, &it->flow.account, err));
    SHEAF__TRY(start_input(it, err));
    const struct sheaf__seeds seeds = sheaf__draws_take(base->dataset, base->flow);
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

static uint64_t limit_of(const struct shuffle_iter *it)
{
    return ((const struct shuffle *)sheaf__iter_params(&it->base))->options.byte_limit;
}

/* A row of the feed for a slot of the buffer. */
static sheaf_status take_row(struct shuffle_iter *it, struct slot *slot, sheaf_error *err)
{
    struct sheaf__feed *feed = &it->feed;
    const uint64_t limit = limit_of(it);
    if (limit > 0)
        it->bytes += sheaf__block_bytes(feed->block, feed->at, 1);
    if (limit > 0 && it->bytes > limit)
        return sheaf__error(err, SHEAF_ERR_RESOURCE_EXHAUSTED,
                            "%zu elements in the buffer have %llu bytes, the limit is %llu",
                            it->count, (unsigned long long)it->bytes, (unsigned long long)limit);
    *slot = (struct slot){sheaf__block_ref(feed->block), feed->at++};
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
        it->ring[end] = (struct slot){0};
        if (take_row(it, &it->ring[end], err) < 0)
            return sheaf__iter_break(&it->base, err);
        it->taken++;
    }
    return SHEAF_OK;
}

/* Rows to draw from the input if `most` are of use; as many as is right for the block before. */
static size_t chunk(const struct shuffle_iter *it, size_t most)
{
    const size_t bytes = it->feed.block ? sheaf__block_row_bytes(it->feed.block) : 0;
    size_t rows = bytes > 0 ? CHUNK_BYTES / bytes : CHUNK;
    rows = rows < CHUNK ? CHUNK : rows > CHUNK_MOST ? CHUNK_MOST : rows;
    return most < rows ? most : rows;
}

/* Fills the buffer up to `most` rows, or to the end of the input; `more` rows will be asked for
 * after that. */
static sheaf_status fill(struct shuffle_iter *it, size_t most, size_t more, sheaf_error *err)
{
    while (!it->ended && it->count < most) {
        size_t room = most - it->count + more;
        sheaf_status status = sheaf__feed_fill(&it->feed, chunk(it, room), err);
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
    if (slot.block && limit_of(it) > 0)
        it->bytes -= sheaf__block_bytes(slot.block, slot.at, 1);
    return slot;
}

static size_t most_rows(const struct shuffle_iter *it)
{
    const struct shuffle *p = sheaf__iter_params(&it->base);
    return p->buffer_size > 0 ? (size_t)p->buffer_size : SIZE_MAX / sizeof(struct slot);
}

/* Draws up to `want` rows, and asks the memory for them: they lie anywhere. */
static sheaf_status draw_some(struct shuffle_iter *it, size_t want, struct slot drawn[DRAWN],
                              size_t *count, sheaf_error *err)
{
    const size_t most = most_rows(it);
    for (; *count < DRAWN && *count < want; ++*count) {
        sheaf_status status = fill(it, most, want - *count - 1, err);
        if (status < 0)
            return status;
        if (it->count == 0)
            return SHEAF_END;
        drawn[*count] = draw(it);
        sheaf__block_fetch(drawn[*count].block, (size_t)drawn[*count].at);
    }
    return SHEAF_OK;
}

static sheaf_status catch_up(struct shuffle_iter *it, sheaf_error *err);

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    if (it->numbers)
        SHEAF__TRY(catch_up(it, err));
    sheaf__note_fill(base->note, it->count, most_rows(it), 0);
    while (want > 0) {
        struct slot drawn[DRAWN];
        size_t count = 0;
        sheaf_status status = draw_some(it, want, drawn, &count, err);
        want -= count;
        sheaf_error failed;
        for (size_t i = 0; i < count; i++) {
            if (sheaf__rows_put_from(rows, drawn[i].block, (size_t)drawn[i].at, 1, &failed) < 0)
                status = sheaf__error_copy(err, &failed);
            sheaf__block_unref(drawn[i].block);
        }
        if (status != SHEAF_OK)
            return status;
    }
    return SHEAF_OK;
}

/* ---- stepping over ---- */

/* The input passes over the rows that go into the buffer, and the draws are made over their numbers.
 * When a row is wanted again, the input begins once more: it passes what has left the buffer, and
 * gives what has not. */

/* Whether all stages can step over elements without making them. */
static bool passes(const sheaf_dataset *d)
{
    bool all = d->stage->ops->pass != NULL;
    for (size_t i = 0; i < d->input_count && all; i++)
        all = passes(d->inputs[i]);
    return all;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t n;
    return __builtin_add_overflow(a, b, &n) ? UINT64_MAX : n;
}

/* Draws up to `count` rows; `*drawn` is how many. */
static sheaf_status draw_numbers(struct shuffle_iter *it, uint64_t count, uint64_t *drawn,
                                 sheaf_error *err)
{
    const size_t most = most_rows(it);
    struct sheaf__passed in = {0};
    sheaf_status status = SHEAF_OK;
    /* The buffer is filled up before each draw. */
    if (!it->ended)
        status = sheaf__feed_pass(&it->feed, sum(most - it->count, count - 1), &in, err);
    SHEAF__TRY(status);
    it->ended = it->ended || status == SHEAF_END;
    it->numbers = true;
    for (*drawn = 0; *drawn < count; ++*drawn) {
        for (; it->count < most && in.count > 0; in.count--) {
            if (it->count == it->capacity)
                SHEAF__TRY(grow(it, most, err));
            it->ring[(it->start + it->count++) % it->capacity] = (struct slot){NULL, it->taken++};
        }
        if (it->count == 0)
            break;
        sheaf__block_unref(draw(it).block);
    }
    return SHEAF_OK;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    uint64_t drawn = 0;
    if (!passes(base->dataset->inputs[0]))
        return sheaf__iter_drop(base, count, passed, err);
    sheaf_status status = draw_numbers((struct shuffle_iter *)base, count, &drawn, err);
    passed->count += drawn;
    if (status < 0)
        return sheaf__iter_break(base, err);
    return drawn < count ? SHEAF_END : SHEAF_OK;
}

/* ---- beginning again ---- */

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

static sheaf_status ends_early(const struct shuffle_iter *it, uint64_t rows, sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                        "the input ends after %llu elements, but it had %llu before: the data have "
                        "changed",
                        (unsigned long long)rows, (unsigned long long)it->taken);
}

/* Steps over rows of the input from number `*at` to number `row`. */
static sheaf_status pass_to(struct shuffle_iter *it, uint64_t *at, uint64_t row, sheaf_error *err)
{
    struct sheaf__passed passed = {0};
    sheaf_status status = sheaf__feed_pass(&it->feed, row - *at, &passed, err);
    *at += passed.count;
    return status == SHEAF_END ? ends_early(it, *at, err) : status;
}

/* Puts the rows into their slots. */
static sheaf_status load(struct shuffle_iter *it, const struct missing *list, size_t count,
                         sheaf_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && list[i + run].row == list[i].row + run;)
            run++;
        SHEAF__TRY(pass_to(it, &at, list[i].row, err));
        for (size_t k = i; k < i + run; k++, at++) {
            sheaf_status status = sheaf__feed_fill(&it->feed, chunk(it, i + run - k), err);
            if (status != SHEAF_OK)
                return status == SHEAF_END ? ends_early(it, at, err) : status;
            SHEAF__TRY(take_row(it, list[k].slot, err));
        }
    }
    return pass_to(it, &at, it->taken, err);
}

static sheaf_status begin_again(struct shuffle_iter *it, sheaf_error *err)
{
    sheaf__iter_free(it->base.inputs[0]);
    it->base.inputs[0] = NULL;
    sheaf__feed_free(&it->feed);
    sheaf__marks_redraw(&it->marks);
    sheaf__account_again(it->flow.account);
    it->flow.redraw = &it->marks;
    return start_input(it, err);
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
    sheaf_status status = count > 0 ? begin_again(it, err) : SHEAF_OK;
    if (count > 0 && status >= 0)
        status = load(it, list, count, err);
    sheaf__free(list);
    it->numbers = false;
    return status < 0 ? sheaf__iter_break(&it->base, err) : SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    sheaf__iter_free(base->inputs[0]); /* before what its threads use */
    base->inputs[0] = NULL;
    for (size_t i = 0; i < it->count; i++)
        sheaf__block_unref(it->ring[(it->start + i) % it->capacity].block);
    sheaf__free(it->ring);
    sheaf__marks_free(&it->marks);
    sheaf__feed_free(&it->feed);
    if (it->flow.account != base->flow->account)
        sheaf__account_free(it->flow.account);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct shuffle *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld", (long long)p->buffer_size);
    if (sheaf__shuffle_is_seeded(d))
        sheaf__str_printf(text, ", seed %lld", (long long)p->options.seed);
    sheaf__str_add(text, p->options.no_reshuffle ? ", fixed)" : ")");
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
        const bool given = p->options.seed != 0 || p->options.has_seed;
        p->seeds = sheaf__random_seeds(given, p->options.seed);
        p->chance = sheaf__random_is_chance(given);
    }
    return sheaf__dataset_new(SHEAF__STAGE_SHUFFLE, p, &d, 1);
}
