/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/forecast.h"

#include "base/counter.h"
#include "base/error.h"
#include "distribute/sync.h"

#include <inttypes.h>
#include <stdio.h>

static struct sheaf__wait wait_for_others(const sheaf_strategy *s)
{
    struct sheaf__wait wait = sheaf__sync_wait(s, "the other workers' next element");
    wait.token = sheaf__halt_reading(s->halt);
    return wait;
}

/* ---- the number of steps ---- */

/* As a number whose sum over all workers tells whether they are equal; 0: not known. */
static int64_t promise(const struct sheaf__forecast *f)
{
    const int64_t most = INT64_C(1) << 40;
    const int64_t steps = f->certain ? f->certain->steps : SHEAF_UNKNOWN;
    if (steps == SHEAF_INFINITE)
        return most + 1;
    return steps >= 0 && steps < most ? steps + 1 : 0;
}

/* With the first element each says its number of steps, and finds out whether the others' are the same on the whole; with
 * the second, whether it did. */
static int64_t own_word(const struct sheaf__forecast *f)
{
    return f->step == 0 ? promise(f) : f->step == 1 ? f->equal : 0;
}

static void compare_words(const sheaf_strategy *s, struct sheaf__forecast *f, int64_t sum)
{
    const int64_t mine = promise(f);
    if (f->step == 0)
        f->equal = mine > 0 && sum == mine * s->workers;
    if (f->step == 0 && f->equal)
        f->certain->full = f->sums;
    if (f->step == 1 && f->equal && sum == s->workers)
        f->certain->known = true;
}

bool sheaf__forecast_foresees(const struct sheaf__forecast *f)
{
    return f->certain && f->certain->known && !f->said && !f->heard;
}

struct sheaf__step_facts sheaf__forecast_foresee(struct sheaf__forecast *f)
{
    const struct sheaf__step_facts none = {0};
    const int64_t steps = f->certain->steps;
    const bool more = steps == SHEAF_INFINITE || f->step < (uint64_t)steps;
    f->step++;
    return more ? f->certain->full : none;
}

/* ---- what is said and heard ---- */

/* Of what was said and is not heard yet: the channel holds one at a time. */
static sheaf_status hear(sheaf_strategy *s, struct sheaf__forecast *f, sheaf_error *err)
{
    int64_t sums[4];
    const struct sheaf__wait wait = wait_for_others(s);
    f->said = false;
    s->sync->forecast = NULL;
    SHEAF__TRY(sheaf__ahead_hear(s->sync->input, sums, &wait, err));
    f->sums =
        (struct sheaf__step_facts){.examples = sums[0], .with_data = sums[1], .fills = sums[2]};
    f->heard = true;
    compare_words(s, f, sums[3]);
    sheaf__count("input.agreements", 1);
    return SHEAF_OK;
}

static void renew(struct sheaf__sync *sync)
{
    if (!sync->input_spoiled)
        return;
    sheaf__channel_reset(sync->input);
    sync->input_spoiled = false;
}

sheaf_status sheaf__forecast_say(sheaf_strategy *s, struct sheaf__forecast *f,
                                 const struct sheaf__step_facts *mine, sheaf_error *err)
{
    struct sheaf__sync *sync = s->sync;
    if (f->said || f->heard)
        return SHEAF_OK;
    renew(sync);
    if (sync->forecast) /* another iterator's */
        SHEAF__TRY(hear(s, sync->forecast, err));
    if (!f->iterator)
        f->iterator = ++sync->iterators;
    char name[64];
    snprintf(name, sizeof(name), "element %" PRIu64 " of iterator %" PRIu64, f->step, f->iterator);
    const int64_t numbers[] = {mine->examples, mine->with_data, mine->fills, own_word(f)};
    const struct sheaf__ahead_sum sum = {.numbers = numbers, .count = 4, .name = name};
    const struct sheaf__wait wait = wait_for_others(s);
    SHEAF__TRY(sheaf__ahead_say(sync->input, &sum, &wait, err));
    f->said = true;
    f->failed = false;
    sync->forecast = f;
    return SHEAF_OK;
}

sheaf_status sheaf__forecast_hear(sheaf_strategy *s, struct sheaf__forecast *f,
                                  struct sheaf__step_facts *sums, sheaf_error *err)
{
    if (!f->heard)
        SHEAF__TRY(hear(s, f, err));
    *sums = f->sums;
    f->heard = false;
    f->step++;
    return SHEAF_OK;
}

void sheaf__forecast_fail(sheaf_strategy *s, struct sheaf__forecast *f, const sheaf_error *own)
{
    struct sheaf__sync *sync = s->sync;
    renew(sync);
    if (own)
        sheaf__channel_abort(sync->input, own);
    if (sync->forecast)
        sync->forecast->said = false;
    sync->forecast = NULL;
    sync->input_spoiled = true;
    f->failed = true;
}

void sheaf__forecast_free(sheaf_strategy *s, struct sheaf__forecast *f, bool ended)
{
    struct sheaf__sync *sync = s->sync;
    if (!f->iterator)
        return;
    if (sync->forecast == f) {
        sheaf__ahead_drop(sync->input);
        sync->forecast = NULL;
    }
    if (ended || f->failed)
        return;
    /* What fails is the next call's affair. */
    if (sheaf__channel_begin_round(sync->input, NULL) >= 0)
        (void)!sheaf__channel_end_round(sync->input, NULL);
}
