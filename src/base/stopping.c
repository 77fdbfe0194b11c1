/* SPDX-License-Identifier: Apache-2.0 */
/* What a stop does to a context. Either every wait ends at once; or, where the program has said that it ends in order, only
 * what waits for `asked` does, and a thread ends the rest when the time for that is over. */
#include "base/context_state.h"
#include "base/error.h"
#include "base/wait.h"

/* A signal to a process and to its group, as timeout(1) and service managers send it, comes twice and is meant once. */
#define SAME_REQUEST (500 * SHEAF__MS)

sheaf_status sheaf__stopping_init(sheaf_context *context, sheaf_error *err)
{
    context->token = sheaf__token_new_root();
    context->asked = sheaf__token_new_root();
    return context->token && context->asked ? SHEAF_OK : sheaf__no_memory(err, "a context");
}

struct sheaf__token *sheaf__context_token(sheaf_context *context)
{
    return context->token;
}

struct sheaf__token *sheaf__context_asked(sheaf_context *context)
{
    return context->asked;
}

/* The cause names the task that stops, whatever context the calling thread has. */
static sheaf_error stop_cause(sheaf_context *context)
{
    sheaf_error cause;
    sheaf__error(&cause, SHEAF_ERR_CANCELLED, "the program asked to stop");
    cause.origin = sheaf__context_task(context);
    return cause;
}

static void end_waits(sheaf_context *context)
{
    const sheaf_error cause = stop_cause(context);
    sheaf__token_cancel(context->token, &cause);
}

/* ---- in order ---- */

static void wait_out(void *user)
{
    sheaf_context *context = user;
    const int64_t end = sheaf__clock_deadline(sheaf__config_seconds(SHEAF__CONFIG_GRACE_S));
    if (sheaf__wait_sleep(end, context->token, NULL) >= 0)
        end_waits(context);
}

/* From now on there is so much time. */
static void begin_grace(sheaf_context *context)
{
    const sheaf_error cause = stop_cause(context);
    sheaf_status status = SHEAF_OK;
    sheaf__token_cancel(context->asked, &cause);
    sheaf_context *caller = sheaf_context_enter(context);
    sheaf__mutex_lock(&context->stop_lock);
    if (!context->timed)
        status = sheaf__thread_start("sheaf-grace", wait_out, context, NULL, &context->timer, NULL);
    context->timed = true;
    sheaf__mutex_unlock(&context->stop_lock);
    sheaf_context_enter(caller);
    if (status < 0)
        end_waits(context);
}

void sheaf__context_end_in_order(sheaf_context *context, bool wanted)
{
    sheaf__mutex_lock(&context->stop_lock);
    context->orderly += wanted ? 1 : -1;
    sheaf__mutex_unlock(&context->stop_lock);
}

bool sheaf__context_ends_in_order(sheaf_context *context)
{
    sheaf__mutex_lock(&context->stop_lock);
    const bool orderly = context->orderly > 0;
    sheaf__mutex_unlock(&context->stop_lock);
    return orderly;
}

void sheaf__context_stop(sheaf_context *context)
{
    const int64_t now = sheaf__clock_now();
    atomic_store(&context->stop_asked, true);
    sheaf__mutex_lock(&context->stop_lock);
    const bool again = context->asked_at && now - context->asked_at >= SAME_REQUEST;
    const bool orderly = context->orderly > 0 && !again;
    if (!context->asked_at)
        context->asked_at = now;
    sheaf__mutex_unlock(&context->stop_lock);
    if (orderly) {
        begin_grace(context);
        return;
    }
    const sheaf_error cause = stop_cause(context);
    sheaf__token_cancel(context->asked, &cause);
    end_waits(context);
}

void sheaf__context_told_to_stop(sheaf_context *context)
{
    atomic_store(&context->stop_asked, true);
    begin_grace(context);
}

/* ---- the end of a context ---- */

void sheaf__stopping_end(sheaf_context *context)
{
    if (!context->timer)
        return;
    sheaf__token_cancel_with(context->token, SHEAF_ERR_CANCELLED, "the context was freed");
    sheaf__thread_join(context->timer, SHEAF__NO_DEADLINE, NULL);
    context->timer = NULL;
}

void sheaf__stopping_free(sheaf_context *context)
{
    sheaf__token_unref(context->asked);
    sheaf__token_unref(context->token);
}
