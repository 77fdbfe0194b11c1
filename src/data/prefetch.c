/* SPDX-License-Identifier: Apache-2.0 */
#include "base/counter.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/stage.h"

/* A thread runs the input ahead of the consumer, up to a number of elements (R9.19): what is ready
 * and what is being made together are never more. */

#define AUTOTUNE_FIRST 2
#define AUTOTUNE_MAX   512
/* So many, or so many bytes of them, are enough for what is uneven in a program's own work: what a busy
 * machine does to it should not grow into all of the budget. */
#define AUTOTUNE_FEW   16
#define AUTOTUNE_BYTES (UINT64_C(16) << 20)
/* So much is asked of the input at a time, so that the consumer, or the end, need not wait for all that
 * may be made; at first, and of an input that gives little, fewer, since blocks are made for what is asked. */
#define PIECE_FIRST 64
#define PIECE_MAX   4096
#define PIECE_BYTES (UINT64_C(1) << 20)

struct prefetch {
    struct sheaf__params params;
    int64_t count; /* 0: nothing is done; SHEAF_AUTOTUNE */
};

/* An error in its place among the rows. */
struct stop_at {
    struct stop_at *next;
    uint64_t row; /* rows before it since the start */
    sheaf_error err;
};

struct prefetch_iter {
    struct sheaf__iter base;
    struct sheaf__flow flow; /* of the input */
    struct sheaf__gate gate;
    struct sheaf__thread *thread;
    bool counted; /* by the tuner */

    struct sheaf__mutex lock; /* guards what follows */
    struct sheaf__cond changed;
    struct sheaf__rows ready;
    struct stop_at *errors, **errors_end;
    uint64_t taken; /* rows by the consumer */
    uint64_t made;  /* rows by the thread */
    size_t limit;
    size_t piece;         /* rows to ask for */
    uint64_t rows, bytes; /* that were measured, errors among them */
    bool full;            /* it was, at this limit: the thread had to wait */
    bool awaited;         /* the consumer is there */
    bool ended;
    sheaf_error no_memory; /* ended for that */
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct prefetch *p = (const void *)d->params;
    if (p->count < SHEAF_AUTOTUNE)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the number of elements is %lld, it must not be negative, or "
                            "SHEAF_AUTOTUNE",
                            (long long)p->count);
    return SHEAF_OK;
}

static sheaf_status await_consumer(struct sheaf__gate *gate, sheaf_error *err)
{
    struct prefetch_iter *it = SHEAF__CONTAINER(gate, struct prefetch_iter, gate);
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, it->flow.token, NULL};
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&it->lock);
    while (status >= 0 && !(it->awaited && it->made == it->taken))
        status = sheaf__cond_wait(&it->changed, &it->lock, &wait, err);
    sheaf__mutex_unlock(&it->lock);
    return status;
}

/* The consumer comes, or goes. */
static void set_awaited(struct prefetch_iter *it, bool awaited)
{
    sheaf__mutex_lock(&it->lock);
    it->awaited = awaited;
    sheaf__mutex_unlock(&it->lock);
}

static sheaf_status start(struct sheaf__iter *base, sheaf_error *err)
{
    struct prefetch_iter *it = (struct prefetch_iter *)base;
    const struct prefetch *p = sheaf__iter_params(base);
    sheaf__tuner_run_ahead(base->flow->tuner, true);
    it->counted = true;
    SHEAF__TRY(sheaf__flow_start(&it->flow, base->flow, err));
    it->errors_end = &it->errors;
    it->limit = p->count < 0 ? AUTOTUNE_FIRST : (size_t)p->count;
    it->piece = PIECE_FIRST;
    if (it->flow.gate && it->limit > 0) {
        it->gate = (struct sheaf__gate){it->flow.gate, await_consumer};
        it->flow.gate = &it->gate;
    }
    return sheaf__iter_input(base, 0, &it->flow, err);
}

/* ---- the thread ---- */

/* Under the lock. How many rows there may be: the first one tells how many the memory lets. */
static size_t most(const struct prefetch_iter *it)
{
    if (it->rows == 0)
        return 1;
    const uint64_t each = it->bytes / it->rows;
    const uint64_t fit = each > 0 ? sheaf__tuner_share(it->base.flow->tuner) / each : it->limit;
    return fit >= it->limit ? it->limit : fit > 1 ? (size_t)fit : 1;
}

/* Under the lock. How many rows are next, of those there is room for. */
static size_t piece_of(const struct prefetch_iter *it, size_t room)
{
    const uint64_t each = it->rows > 0 ? it->bytes / it->rows : 0;
    const uint64_t fit = each > 0 ? PIECE_BYTES / each : it->piece;
    size_t piece = fit < it->piece ? (size_t)fit : it->piece;
    if (piece < 1 || it->base.dataset->calls)
        piece = 1;
    return sheaf__iter_ahead(it->base.inputs[0], piece < room ? piece : room);
}

/* Waits until there is room for rows; 0 when there is nothing more to do, else how many are next. */
static size_t wait_for_room(struct prefetch_iter *it)
{
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, it->flow.token, NULL};
    sheaf_error ignored;
    sheaf_status status = sheaf__token_status(it->flow.token);
    sheaf__mutex_lock(&it->lock);
    while (status >= 0 && !it->ended && it->made - it->taken >= most(it)) {
        it->full = true;
        status = sheaf__cond_wait(&it->changed, &it->lock, &wait, &ignored);
    }
    size_t room = status < 0 || it->ended ? 0 : most(it) - (size_t)(it->made - it->taken);
    size_t piece = piece_of(it, room);
    sheaf__mutex_unlock(&it->lock);
    return piece;
}

/* Under the lock. An error takes the place of an element. */
static void add_error(struct prefetch_iter *it, const sheaf_error *err)
{
    struct stop_at *stop = sheaf__calloc(1, sizeof(*stop));
    if (!stop) {
        it->ended = true;
        sheaf__no_memory(&it->no_memory, "a prefetch");
        return;
    }
    it->rows++;
    it->bytes += sizeof(*stop);
    stop->row = it->made++;
    stop->err = *err;
    *it->errors_end = stop;
    it->errors_end = &stop->next;
}

/* Under the lock. What came was measured: so many rows are asked for next. */
static void measure(struct prefetch_iter *it, size_t count, uint64_t bytes)
{
    it->rows += count;
    it->bytes += bytes;
    it->piece = 2 * count < PIECE_FIRST ? PIECE_FIRST : 2 * count;
    it->piece = it->piece < PIECE_MAX ? it->piece : PIECE_MAX;
}

static void prefetch_main(void *user)
{
    struct prefetch_iter *it = user;
    struct sheaf__rows rows = {0};
    sheaf_error err;
    size_t room;
    while ((room = wait_for_room(it)) > 0) {
        sheaf__rows_clear(&rows);
        sheaf_status status = sheaf__iter_pull(it->base.inputs[0], room, &rows, &err);
        const uint64_t bytes = sheaf__rows_bytes(&rows);
        if (it->base.dataset->number == 0) /* the distribution's: one element for each device */
            sheaf__count("input.device_prefetches", rows.count);
        sheaf__mutex_lock(&it->lock);
        measure(it, rows.count, bytes);
        size_t before = it->ready.count;
        if (status == SHEAF_OK)
            status = sheaf__rows_move(&rows, rows.count, &it->ready, &err);
        it->made += it->ready.count - before;
        if (status == SHEAF_END)
            it->ended = true;
        else if (status < 0)
            add_error(it, &err);
        sheaf__cond_broadcast(&it->changed);
        sheaf__mutex_unlock(&it->lock);
    }
    sheaf__rows_free(&rows);
}

/* ---- the consumer ---- */

/* Under the lock. Rows up to the next error, or the error. */
static sheaf_status take(struct prefetch_iter *it, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct stop_at *stop = it->errors;
    if (stop && stop->row == it->taken) {
        it->errors = stop->next;
        if (!it->errors)
            it->errors_end = &it->errors;
        *err = stop->err;
        it->taken++;
        sheaf__free(stop);
        return err->status;
    }
    if (stop && stop->row - it->taken < want)
        want = (size_t)(stop->row - it->taken);
    size_t before = it->ready.count;
    sheaf_status status = sheaf__rows_move(&it->ready, want, rows, err);
    it->taken += before - it->ready.count;
    return status;
}

/* Under the lock. A consumer that finds nothing, where there was as much as there may be before, is
 * uneven, and wants more to be made ahead. Where there never was, a larger number changes nothing. */
static void tune(struct prefetch_iter *it)
{
    const struct prefetch *p = sheaf__iter_params(&it->base);
    if (p->count >= 0 || !it->full || most(it) < it->limit || it->limit >= AUTOTUNE_MAX)
        return;
    if (it->limit >= AUTOTUNE_FEW && 2 * it->limit * (it->bytes / it->rows) > AUTOTUNE_BYTES)
        return;
    it->limit *= 2;
    it->full = false;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct prefetch_iter *it = (struct prefetch_iter *)base;
    const struct sheaf__wait wait = {SHEAF__NO_DEADLINE, it->flow.token, NULL};
    if (it->limit == 0)
        return sheaf__iter_pull(base->inputs[0], want, rows, err);
    if (!it->thread)
        SHEAF__TRY(
            sheaf__thread_start("sheaf-prefetch", prefetch_main, it, NULL, &it->thread, err));
    struct sheaf__stretch stretch;
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&it->lock);
    sheaf__note_fill(base->note, it->made - it->taken, most(it), 1);
    if (it->made == it->taken && !it->ended)
        tune(it);
    sheaf__stretch_begin(&stretch, sheaf__note_wait(base->note));
    it->awaited = true;
    if (it->flow.gate)
        sheaf__cond_broadcast(&it->changed);
    while (status >= 0 && it->made == it->taken && !it->ended)
        status = sheaf__cond_wait(&it->changed, &it->lock, &wait, err);
    it->awaited = false;
    sheaf__stretch_end(&stretch);
    if (it->made > it->taken)
        status = take(it, want, rows, err);
    else if (status >= 0)
        status = it->no_memory.status < 0 ? sheaf__error_copy(err, &it->no_memory) : SHEAF_END;
    sheaf__cond_broadcast(&it->changed);
    sheaf__mutex_unlock(&it->lock);
    return status;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    struct prefetch_iter *it = (struct prefetch_iter *)base;
    if (it->thread)
        return sheaf__iter_drop(base, count, passed, err);
    set_awaited(it, true);
    const sheaf_status status = sheaf__iter_pass(base->inputs[0], count, passed, err);
    set_awaited(it, false);
    return status;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct prefetch_iter *it = (const struct prefetch_iter *)base;
    return it->thread ? 0 : sheaf__iter_sure(base->inputs[0]);
}

static void stop(struct sheaf__iter *base)
{
    struct prefetch_iter *it = (struct prefetch_iter *)base;
    if (it->counted)
        sheaf__tuner_run_ahead(base->flow->tuner, false);
    sheaf__flow_cancel(&it->flow);
    sheaf__iter_join(base, it->thread);
    sheaf__iter_free(base->inputs[0]);
    base->inputs[0] = NULL;
    sheaf__rows_free(&it->ready);
    while (it->errors) {
        struct stop_at *next_stop = it->errors->next;
        sheaf__free(it->errors);
        it->errors = next_stop;
    }
    sheaf__flow_free(&it->flow);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct prefetch *p = (const void *)d->params;
    if (p->count >= 0)
        sheaf__str_printf(text, "(%lld)", (long long)p->count);
}

const struct sheaf__stage_ops sheaf__prefetch_ops = {
    .describe = describe,
    .iter_size = sizeof(struct prefetch_iter),
    .start = start,
    .next = next,
    .pass = pass,
    .sure = sure,
    .stop = stop,
    .lazy = true,
    .explain = explain,
};

sheaf_dataset *sheaf_dataset_prefetch(sheaf_dataset *d, int64_t count)
{
    struct prefetch *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_PREFETCH);
    if (p)
        p->count = count;
    return sheaf__dataset_new(SHEAF__STAGE_PREFETCH, p, &d, 1);
}
