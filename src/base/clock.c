/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "base/config.h"
#include "base/context.h"
#include "base/context_state.h"
#include "base/error.h"
#include "base/thread.h"

#include <time.h>

/* Start of the wall clock in simulations: 2024-01-01 00:00 UTC. */
#define SIMULATED_EPOCH (INT64_C(1704067200) * SHEAF__S)

static int64_t system_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * SHEAF__S + t.tv_nsec;
}

int64_t sheaf__clock_now(void)
{
    struct sheaf__scheduler *s = sheaf__thread_scheduler();
    return s ? s->now(s) : system_clock(CLOCK_MONOTONIC);
}

int64_t sheaf__clock_wall(void)
{
    struct sheaf__scheduler *s = sheaf__thread_scheduler();
    sheaf_context *context = sheaf__context();
    if (context->wall)
        return context->wall(context->wall_user);
    return s ? SIMULATED_EPOCH + s->now(s) : system_clock(CLOCK_REALTIME);
}

void sheaf__clock_set_wall(sheaf_context *context, sheaf__clock_fn wall, void *user)
{
    context->wall = wall;
    context->wall_user = user;
}

int64_t sheaf__clock_after(int64_t ns)
{
    int64_t at;
    if (__builtin_add_overflow(sheaf__clock_now(), ns, &at))
        return ns > 0 ? SHEAF__NO_DEADLINE - 1 : 0;
    return at;
}

int64_t sheaf__clock_deadline(double seconds)
{
    /* Beyond a hundred years the product would not fit. */
    double limit = 3.2e9;
    if (!(seconds > 0))
        seconds = 0;
    return sheaf__clock_after((int64_t)((seconds < limit ? seconds : limit) * (double)SHEAF__S));
}

sheaf_status sheaf__clock_check(double seconds, const char *whose, sheaf_error *err)
{
    if (seconds >= 0 && seconds <= 1e9)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s: deadline is %g s, expected 0 to 1e9",
                        whose, seconds);
}

int64_t sheaf__clock_left(int64_t deadline)
{
    if (deadline == SHEAF__NO_DEADLINE)
        return deadline;
    int64_t now = sheaf__clock_now();
    return deadline > now ? deadline - now : 0;
}

double sheaf__clock_given(int64_t left)
{
    return (double)(left / SHEAF__MS + (left % SHEAF__MS > 0)) / 1e3;
}

int64_t sheaf__clock_default_deadline(void)
{
    return sheaf__clock_deadline(sheaf__config_seconds(SHEAF__CONFIG_DEADLINE_S));
}
