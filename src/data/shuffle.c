/* SPDX-License-Identifier: Apache-2.0 */
#include "data/shuffle.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"

/* Shuffles through a buffer in TensorFlow's own order (R9.3-R9.11). */

struct shuffle {
    struct sheaf__params params;
    int64_t buffer_size;
    sheaf_shuffle_options options;
    struct sheaf__seeds seeds;
};

/* Where iterators that reshuffle take their seeds from. */
struct shuffle_state {
    struct sheaf__mutex mutex;
    struct sheaf__philox generator;
};

/* A row that waits in the buffer. */
struct slot {
    struct sheaf__block *block;
    size_t at;
};

struct shuffle_iter {
    struct sheaf__iter base;
    struct sheaf__philox generator;
    struct slot *ring;
    size_t capacity; /* slots there is memory for */
    size_t start, count;
    struct sheaf__feed feed;
    bool ended;
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
    struct shuffle_state *state = d->state;
    sheaf__philox_init(&state->generator, p->seeds.seed, p->seeds.seed2);
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    const struct shuffle *p = sheaf__iter_params(base);
    struct shuffle_state *state = base->dataset->state;
    struct sheaf__seeds seeds = p->seeds;
    (void)err;
    it->feed.from = base->inputs[0];
    if (!p->options.no_reshuffle) {
        sheaf__mutex_lock(&state->mutex);
        seeds.seed = sheaf__philox_next(&state->generator);
        seeds.seed2 = sheaf__philox_next(&state->generator);
        sheaf__mutex_unlock(&state->mutex);
    }
    sheaf__philox_init(&it->generator, seeds.seed, seeds.seed2);
    return SHEAF_OK;
}

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

/* One row at random; the row at the front takes its place (R9.6). */
static sheaf_status draw(struct shuffle_iter *it, struct sheaf__rows *rows, sheaf_error *err)
{
    size_t offset = sheaf__philox_next(&it->generator) % it->count;
    struct slot *front = &it->ring[it->start];
    struct slot *chosen = &it->ring[(it->start + offset) % it->capacity];
    struct slot slot = *chosen;
    *chosen = *front;
    it->start = (it->start + 1) % it->capacity;
    it->count--;
    sheaf_status status = sheaf__rows_put_from(rows, slot.block, slot.at, 1, err);
    sheaf__block_unref(slot.block);
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    const struct shuffle *p = sheaf__iter_params(base);
    size_t most = p->buffer_size > 0 ? (size_t)p->buffer_size : SIZE_MAX / sizeof(struct slot);
    for (size_t i = 0; i < want; i++) {
        SHEAF__TRY(fill(it, most, want - i - 1, err));
        if (it->count == 0)
            return SHEAF_END;
        SHEAF__TRY(draw(it, rows, err));
    }
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    struct shuffle_iter *it = (struct shuffle_iter *)base;
    for (size_t i = 0; i < it->count; i++)
        sheaf__block_unref(it->ring[(it->start + i) % it->capacity].block);
    sheaf__free(it->ring);
    sheaf__feed_free(&it->feed);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct shuffle *p = (const void *)d->params;
    sheaf__str_printf(text, "(%lld)", (long long)p->buffer_size);
}

const struct sheaf__stage_ops sheaf__shuffle_ops = {
    .describe = describe,
    .state_size = sizeof(struct shuffle_state),
    .state_start = state_start,
    .iter_size = sizeof(struct shuffle_iter),
    .start = start,
    .next = next,
    .stop = stop,
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
