/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/interleave.h"

/* The order of interleave (R9.13), one source after the other. */

void sheaf__cycle_start(struct sheaf__cycle *c, struct sheaf__iter *stage,
                        const struct sheaf__flow *flow)
{
    c->stage = stage;
    c->p = sheaf__iter_params(stage);
    c->flow = flow;
}

void sheaf__cycle_free(struct sheaf__cycle *c)
{
    for (size_t i = 0; i < c->used; i++)
        sheaf__source_free(c->slots[i]);
    sheaf__free(c->slots);
    sheaf__rows_free(&c->name);
    *c = (struct sheaf__cycle){0};
}

/* Slots are used from the first on, so that what lies behind the last when the input ends stays empty. */
static void advance(struct sheaf__cycle *c)
{
    c->in_block = 0;
    c->at++;
    if (c->at >= (c->input_ended ? c->used : c->p->cycle))
        c->at = 0;
}

static bool is_empty(const struct sheaf__cycle *c)
{
    return c->at >= c->used || !c->slots[c->at];
}

/* Opens the next input in the slot at hand. */
static sheaf_status fill_slot(struct sheaf__cycle *c, sheaf_error *err)
{
    sheaf__rows_clear(&c->name);
    sheaf_status status = sheaf__iter_pull(c->input, 1, &c->name, err);
    c->input_ended = status == SHEAF_END;
    if (status != SHEAF_OK)
        return status < 0 ? status : SHEAF_OK;
    if (!sheaf__array_reserve((void **)&c->slots, &c->capacity, c->at + 1, sizeof(*c->slots)))
        return sheaf__no_memory(err, "an interleave");
    struct sheaf__source *s = sheaf__source_new(c->flow, c->crew);
    if (!s)
        return sheaf__no_memory(err, "an interleave");
    status = sheaf__interleave_open(c->stage, sheaf__rows_front(&c->name), &s->flow, &s->iter, err);
    if (status < 0) {
        sheaf__source_free(s);
        return status;
    }
    c->slots[c->at] = s;
    if (c->at == c->used)
        c->used++;
    c->open++;
    return SHEAF_OK;
}

/* Sees to it that the slot at hand is open. SHEAF_END: nothing is left at all. */
static sheaf_status find_slot(struct sheaf__cycle *c, sheaf_error *err)
{
    while (is_empty(c)) {
        if (!c->input_ended)
            SHEAF__TRY(fill_slot(c, err));
        else if (c->open == 0)
            return SHEAF_END;
        else
            advance(c);
    }
    return SHEAF_OK;
}

/* After `count` elements of the slot at hand came with `status`: goes on to the next slot if it is
 * its turn. */
static sheaf_status leave_slot(struct sheaf__cycle *c, size_t count, sheaf_status status,
                               sheaf_error *err)
{
    if (status < 0)
        sheaf__iter_unnamed(err);
    /* Where threads run, an error has the place of an element (interleave_crew.c). */
    c->in_block += count + (status < 0 && c->p->threads > 0);
    if (status == SHEAF_END) {
        sheaf__source_free(c->slots[c->at]);
        c->slots[c->at] = NULL;
        c->open--;
    }
    if (status == SHEAF_END || c->in_block == c->p->block)
        advance(c);
    return status < 0 ? status : SHEAF_OK;
}

sheaf_status sheaf__cycle_next(struct sheaf__cycle *c, size_t want, struct sheaf__rows *rows,
                               sheaf_error *err)
{
    while (want > 0) {
        const size_t before = rows->count;
        sheaf_status status = find_slot(c, err);
        if (status != SHEAF_OK)
            return status;
        const size_t left = c->p->block - c->in_block;
        status = sheaf__interleave_pull(c->p, c->slots[c->at]->iter, want < left ? want : left,
                                        rows, err);
        want -= rows->count - before;
        SHEAF__TRY(leave_slot(c, rows->count - before, status, err));
    }
    return SHEAF_OK;
}

/* ---- stepping over ---- */

/* Whole rounds through the cycle within `count` elements that no source ends in, for sure. */
static uint64_t sure_rounds(const struct sheaf__cycle *c, uint64_t count)
{
    if (c->at != 0 || c->in_block != 0 || (c->open < c->p->cycle && !c->input_ended))
        return 0;
    uint64_t rounds = count / c->p->block / c->open;
    for (size_t i = 0; i < c->used && rounds > 0; i++) {
        const uint64_t sure = c->slots[i] ? sheaf__iter_sure(c->slots[i]->iter) : UINT64_MAX;
        rounds = sure / c->p->block < rounds ? sure / c->p->block : rounds;
    }
    return rounds;
}

static sheaf_status pass_rounds(struct sheaf__cycle *c, uint64_t rounds,
                                struct sheaf__passed *passed, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < c->used && status >= 0; i++)
        if (c->slots[i])
            status = sheaf__iter_pass(c->slots[i]->iter, rounds * c->p->block, passed, err);
    return status < 0 ? sheaf__iter_break(c->stage, err) : SHEAF_OK;
}

sheaf_status sheaf__cycle_pass(struct sheaf__cycle *c, uint64_t count, struct sheaf__passed *passed,
                               sheaf_error *err)
{
    while (count > 0) {
        const uint64_t before = passed->count;
        sheaf_status status = find_slot(c, err);
        if (status != SHEAF_OK)
            return status;
        const uint64_t rounds = sure_rounds(c, count);
        if (rounds > 0) {
            SHEAF__TRY(pass_rounds(c, rounds, passed, err));
        } else {
            const uint64_t left = c->p->block - c->in_block;
            status =
                sheaf__iter_pass(c->slots[c->at]->iter, count < left ? count : left, passed, err);
            SHEAF__TRY(leave_slot(c, (size_t)(passed->count - before), status, err));
        }
        count -= passed->count - before;
    }
    return SHEAF_OK;
}
