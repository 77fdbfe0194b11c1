/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_WAIT_H
#define SHEAF_BASE_WAIT_H

/* Waits and cancellation. Every wait of the library has a deadline and a token and ends when the
 * condition may hold, the deadline passes or the token is cancelled, whichever is first.
 *
 * Tokens form trees. The root of a context's tree is its own token, which sheaf_stop() cancels; a
 * server, an iterator, a step, a closure have their own below it. Cancelling a token cancels all
 * below it, keeps the first cause and wakes every wait. */

#include "base/clock.h"
#include "base/list.h"
#include "base/thread.h"

struct sheaf__token;

/* Makes a token below `parent` (NULL: the current context's root; cancelled at once if the parent
 * is). NULL: no memory. */
struct sheaf__token *sheaf__token_new(struct sheaf__token *parent);
/* A root of its own that no sheaf_stop() reaches: for the goodbyes of a teardown. NULL: no memory.
 */
struct sheaf__token *sheaf__token_new_root(void);
struct sheaf__token *sheaf__token_ref(struct sheaf__token *token);
void sheaf__token_unref(struct sheaf__token *token);

/* Cancels with a cause (status < 0). The first cause is kept, later ones are nothing. Returns true
 * if it was the first. Any thread, any locks held except none that a callback takes. */
bool sheaf__token_cancel(struct sheaf__token *token, const sheaf_error *cause);
bool sheaf__token_cancel_with(struct sheaf__token *token, sheaf_status status, const char *format,
                              ...) SHEAF_PRINTF(3, 4);
/* SHEAF_OK, or the status of the cause. One load; NULL: the current context's root. */
sheaf_status sheaf__token_status(struct sheaf__token *token);
/* The same with the cause copied to err. */
sheaf_status sheaf__token_check(struct sheaf__token *token, sheaf_error *err);

/* Called once when the token is cancelled, on the thread that cancels, without any lock of ours; at
 * once if it already is. Must not block. The struct is the caller's and lives until
 * sheaf__token_off(). */
struct sheaf__token_callback {
    void (*fn)(void *user);
    void *user;
    struct sheaf__list_node node;
};
void sheaf__token_on(struct sheaf__token *token, struct sheaf__token_callback *callback);
/* Afterwards the callback does not run and will not (it may be called from within the callback). */
void sheaf__token_off(struct sheaf__token *token, struct sheaf__token_callback *callback);

/* How long and for what to wait. `what` completes "waited too long for <what>"; it may be NULL. */
struct sheaf__wait {
    int64_t deadline;
    struct sheaf__token *token; /* NULL: the current context's root; SHEAF__NO_TOKEN */
    const char *what;
};
/* The error of a wait whose deadline has passed; `otherwise` is for what, if the wait does not say. */
sheaf_status sheaf__wait_over(const struct sheaf__wait *wait, const char *otherwise,
                              sheaf_error *err);

/* For threads of the library that idle until close or free wakes them, and for teardown. The calls above take it, too:
 * never cancelled. */
#define SHEAF__NO_TOKEN ((struct sheaf__token *)-1)

/* Sleeps on `cond` with `mutex` held, which is released meanwhile. SHEAF_OK: woken, perhaps without
 * cause, so call it in a loop over the condition; SHEAF_ERR_DEADLINE; or the status of the token's
 * cause. With the mutex held again always. */
sheaf_status sheaf__cond_wait(struct sheaf__cond *cond, struct sheaf__mutex *mutex,
                              const struct sheaf__wait *wait, sheaf_error *err);
/* The same spelled out. */
sheaf_status sheaf__cond_wait_until(struct sheaf__cond *cond, struct sheaf__mutex *mutex,
                                    int64_t deadline, struct sheaf__token *token, sheaf_error *err);
/* Sleeps until the time `until` (SHEAF_OK), or the status of the token's cause. */
sheaf_status sheaf__wait_sleep(int64_t until, struct sheaf__token *token, sheaf_error *err);

#endif
