/* SPDX-License-Identifier: Apache-2.0 */
/* A sum of few numbers in two halves: said now, heard later, with no thread between. What a member says is a call like any
 * other; it is waited for when the sum is wanted. */
#include "base/error.h"
#include "base/mem.h"
#include "coll/core.h"

#include <string.h>

struct sheaf__ahead {
    bool said; /* and not heard */
    int64_t own[SHEAF__AHEAD_MOST];
    int count;
    struct sheaf__exchange exchange; /* where there is no shared memory */
};

static struct sheaf__coll_what what_of(const struct sheaf__channel *c, const struct sheaf__ahead *a,
                                       const char *name)
{
    struct sheaf__coll_args args = {0};
    const struct sheaf__reduction sum = {
        .op = SHEAF_REDUCE_SUM, .dtype = SHEAF_INT64, .count = (size_t)a->count, .name = name};
    sheaf__coll_reduction_args(SHEAF__COLL_ALL_REDUCE, &sum, &args);
    args.what.by_process = true;
    args.what.when = c->core->when;
    return args.what;
}

/* ---- saying ---- */

static sheaf_status say_by_messages(struct sheaf__channel *c, struct sheaf__ahead *a,
                                    const struct sheaf__coll_what *what,
                                    const struct sheaf__part *part, const struct sheaf__wait *wait,
                                    sheaf_error *err)
{
    struct sheaf__exchange *x = &a->exchange;
    *x = (struct sheaf__exchange){.core = c->core, .what = *what, .wait = wait};
    sheaf_status status = sheaf__exchange_begin(x, part, 1, err);
    return status < 0 ? sheaf__exchange_end(x, status, err) : SHEAF_OK;
}

static sheaf_status say(struct sheaf__channel *c, const char *name, const struct sheaf__wait *wait,
                        sheaf_error *err)
{
    struct sheaf__ahead *a = c->ahead;
    const struct sheaf__part part = {a->own, (size_t)a->count * sizeof(a->own[0])};
    const struct sheaf__coll_what what = what_of(c, a, name);
    SHEAF__TRY(sheaf__core_enter(c->core, err));
    sheaf_status status = c->team->shm ? sheaf__shm_say(c, &what, &part, 1, wait, err)
                                       : say_by_messages(c, a, &what, &part, wait, err);
    if (status < 0)
        sheaf__core_fail(c->core, err);
    /* The call is not over, but this member does not wait in it: what fails now is the next one. */
    atomic_store(&c->core->calling, false);
    sheaf__core_leave(c->core);
    return status;
}

sheaf_status sheaf__ahead_say(struct sheaf__channel *channel, const struct sheaf__ahead_sum *sum,
                              const struct sheaf__wait *wait, sheaf_error *err)
{
    if (!channel->ahead)
        channel->ahead = sheaf__calloc(1, sizeof(*channel->ahead));
    struct sheaf__ahead *a = channel->ahead;
    sheaf_error local = {0};
    if (!a)
        return sheaf__no_memory(err, "a sum");
    if (a->said || sum->count > SHEAF__AHEAD_MOST || !channel->by_process)
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "%d numbers are said%s", sum->count,
                            a->said ? " before the last were heard" : "");
    a->count = sum->count;
    memcpy(a->own, sum->numbers, (size_t)sum->count * sizeof(a->own[0]));
    if (channel->team->size > 1)
        SHEAF__TRY(say(channel, sum->name, wait, err ? err : &local));
    a->said = true;
    return SHEAF_OK;
}

/* ---- hearing ---- */

static sheaf_status add(const struct sheaf__ahead *a, int64_t *sums, const void *data, size_t size,
                        sheaf_error *err)
{
    int64_t numbers[SHEAF__AHEAD_MOST];
    if (size != (size_t)a->count * sizeof(numbers[0]))
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "a member said %zu bytes, expected %zu", size,
                            (size_t)a->count * sizeof(numbers[0]));
    memcpy(numbers, data, size);
    for (int i = 0; i < a->count; i++)
        sums[i] += numbers[i];
    return SHEAF_OK;
}

static sheaf_status hear_by_messages(struct sheaf__channel *c, int64_t *sums,
                                     const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__exchange *x = &c->ahead->exchange;
    x->wait = wait;
    sheaf_status status = sheaf__exchange_wait(x, sheaf__exchange_all_called, err);
    for (int m = 0; m < c->team->size && status == SHEAF_OK; m++)
        if (m != c->team->rank)
            status = add(c->ahead, sums, sheaf__exchange_inline(x, m),
                         sheaf__exchange_inline_size(x, m), err);
    return sheaf__exchange_end(x, status, err);
}

static sheaf_status hear_in_memory(struct sheaf__channel *c, int64_t *sums,
                                   const struct sheaf__wait *wait, sheaf_error *err)
{
    const size_t size = (size_t)c->ahead->count * sizeof(*sums);
    sheaf_status status = sheaf__shm_hear(c, wait, err);
    for (int m = 0; m < c->team->size && status == SHEAF_OK; m++)
        if (m != c->team->rank)
            status = add(c->ahead, sums, sheaf__shm_data(c, m), size, err);
    return status;
}

/* Adds what the others said. */
static sheaf_status hear(struct sheaf__channel *c, int64_t *sums, const struct sheaf__wait *wait,
                         sheaf_error *err)
{
    SHEAF__TRY(sheaf__core_enter(c->core, err));
    c->ahead->said = false;
    atomic_store(&c->core->calling, true);
    sheaf_status status =
        c->team->shm ? hear_in_memory(c, sums, wait, err) : hear_by_messages(c, sums, wait, err);
    if (status < 0)
        sheaf__core_fail(c->core, err);
    atomic_store(&c->core->calling, false);
    sheaf__core_leave(c->core);
    return status;
}

sheaf_status sheaf__ahead_hear(struct sheaf__channel *channel, int64_t *sums,
                               const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__ahead *a = channel->ahead;
    sheaf_error local = {0};
    int64_t all[SHEAF__AHEAD_MOST];
    if (!a || !a->said)
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "nothing was said that can be heard");
    memcpy(all, a->own, sizeof(all));
    if (channel->team->size > 1)
        SHEAF__TRY(hear(channel, all, wait, err ? err : &local));
    a->said = false;
    memcpy(sums, all, (size_t)a->count * sizeof(*sums));
    return SHEAF_OK;
}

void sheaf__ahead_drop(struct sheaf__channel *channel)
{
    struct sheaf__ahead *a = channel->ahead;
    if (!a || !a->said)
        return;
    a->said = false;
    if (channel->team->size > 1 && !channel->team->shm)
        sheaf__exchange_end(&a->exchange, SHEAF_OK, NULL);
}

void sheaf__ahead_free(struct sheaf__channel *channel)
{
    sheaf__ahead_drop(channel);
    sheaf__free(channel->ahead);
}
