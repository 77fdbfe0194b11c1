/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wait.h"

#include "base/context.h"
#include "base/context_state.h"
#include "base/error.h"
#include "base/mem.h"

#include <limits.h>
#include <stdio.h>

/* The lock of a whole tree, and who runs callbacks of it at the moment. Under it only words are
 * woken, no other lock is taken and nothing of the user runs, so it may be taken with any lock
 * held. */
struct tree {
    struct sheaf__mutex lock;
    struct sheaf__cond callback_done;
    struct sheaf__list runners;
};

struct sheaf__token {
    _Atomic int64_t refs;
    _Atomic int status; /* written under the lock once, read without */
    struct sheaf__token *root;
    struct sheaf__token *parent; /* counted */
    struct sheaf__list_node sibling;
    struct sheaf__list children;
    struct sheaf__list waiters;
    struct sheaf__list callbacks;
    sheaf_error cause;
    struct tree tree; /* the root's is used */
};

/* A wait on a condition variable, on the stack of who waits. */
struct waiter {
    struct sheaf__list_node node;
    struct sheaf__cond *cond;
};

/* A thread that runs callbacks, on its stack. */
struct runner {
    struct sheaf__list_node node;
    struct sheaf__token_callback *callback; /* NULL: it was taken off from within */
    uint64_t thread;
};

static struct sheaf__token *resolve(struct sheaf__token *token)
{
    return token ? token : sheaf__context_token(sheaf__context());
}

/* ---- the tree ---- */

static struct sheaf__token *new_token(struct sheaf__token *parent)
{
    struct sheaf__token *t = sheaf__calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    atomic_init(&t->refs, 1);
    sheaf__list_init(&t->children);
    sheaf__list_init(&t->waiters);
    sheaf__list_init(&t->callbacks);
    sheaf__list_init(&t->tree.runners);
    t->parent = parent;
    t->root = parent ? parent->root : t;
    return t;
}

struct sheaf__token *sheaf__token_new_root(void)
{
    return new_token(NULL);
}

struct sheaf__token *sheaf__token_new(struct sheaf__token *parent)
{
    sheaf__stop_watch(); /* whoever only asks the token, and never waits, hears of a stop, too */
    parent = resolve(parent);
    struct sheaf__token *t = new_token(parent);
    if (!t)
        return NULL;
    sheaf__token_ref(parent);
    sheaf__mutex_lock(&t->root->tree.lock);
    sheaf__list_append(&parent->children, &t->sibling);
    int status = atomic_load(&parent->status);
    if (status < 0) {
        t->cause = parent->cause;
        atomic_store(&t->status, status);
    }
    sheaf__mutex_unlock(&t->root->tree.lock);
    return t;
}

struct sheaf__token *sheaf__token_ref(struct sheaf__token *token)
{
    if (token)
        atomic_fetch_add_explicit(&token->refs, 1, memory_order_relaxed);
    return token;
}

void sheaf__token_unref(struct sheaf__token *token)
{
    while (token && atomic_fetch_sub_explicit(&token->refs, 1, memory_order_acq_rel) == 1) {
        struct sheaf__token *parent = token->parent;
        if (parent) {
            /* The root outlives this: the parent's count keeps all above. */
            sheaf__mutex_lock(&token->root->tree.lock);
            sheaf__list_remove(&token->sibling);
            sheaf__mutex_unlock(&token->root->tree.lock);
        }
        sheaf__free(token);
        token = parent;
    }
}

/* ---- cancelling ---- */

/* Marks one token, wakes its waits and moves its callbacks to `due`. */
static void mark(struct sheaf__token *t, const sheaf_error *cause, struct sheaf__list *due)
{
    struct sheaf__list_node *node;
    t->cause = *cause;
    atomic_store(&t->status, cause->status);
    for (node = sheaf__list_first(&t->waiters); node; node = sheaf__list_next(&t->waiters, node))
        sheaf__cond_broadcast(SHEAF__CONTAINER(node, struct waiter, node)->cond);
    while ((node = sheaf__list_pop(&t->callbacks)))
        sheaf__list_append(due, node);
}

/* The token after `t` in the tree below `top`, children first; `skip`: not into the children of
 * `t`. */
static struct sheaf__token *next_below(struct sheaf__token *top, struct sheaf__token *t, bool skip)
{
    struct sheaf__list_node *node = skip ? NULL : sheaf__list_first(&t->children);
    while (!node) {
        if (t == top)
            return NULL;
        node = sheaf__list_next(&t->parent->children, &t->sibling);
        t = t->parent;
    }
    return SHEAF__CONTAINER(node, struct sheaf__token, sibling);
}

/* Runs what is due, each without the lock. Who takes a callback off meanwhile waits for its end. */
static void run_callbacks(struct tree *tree, struct sheaf__list *due)
{
    struct runner runner = {.thread = sheaf__thread_id()};
    struct sheaf__list_node *node;
    sheaf__list_append(&tree->runners, &runner.node);
    while ((node = sheaf__list_pop(due))) {
        struct sheaf__token_callback *callback =
            SHEAF__CONTAINER(node, struct sheaf__token_callback, node);
        runner.callback = callback;
        sheaf__mutex_unlock(&tree->lock);
        callback->fn(callback->user);
        sheaf__mutex_lock(&tree->lock);
        runner.callback = NULL;
        sheaf__cond_broadcast(&tree->callback_done);
    }
    sheaf__list_remove(&runner.node);
}

bool sheaf__token_cancel(struct sheaf__token *token, const sheaf_error *cause)
{
    token = resolve(token);
    struct tree *tree = &token->root->tree;
    struct sheaf__list due;
    sheaf__list_init(&due);
    sheaf__mutex_lock(&tree->lock);
    bool first = atomic_load(&token->status) == 0;
    if (first) {
        /* The callbacks may drop every other count of this token, and the lock is the root's. */
        struct sheaf__token *root = sheaf__token_ref(token->root);
        for (struct sheaf__token *t = token; t;) {
            bool marked = atomic_load(&t->status) != 0;
            if (!marked)
                mark(t, cause, &due);
            t = next_below(token, t, marked);
        }
        if (!sheaf__list_empty(&due))
            run_callbacks(tree, &due);
        sheaf__mutex_unlock(&tree->lock);
        sheaf__token_unref(root);
        return true;
    }
    sheaf__mutex_unlock(&tree->lock);
    return false;
}

bool sheaf__token_cancel_with(struct sheaf__token *token, sheaf_status status, const char *format,
                              ...)
{
    sheaf_error cause;
    va_list args;
    va_start(args, format);
    sheaf__verror(&cause, status, format, args);
    va_end(args);
    return sheaf__token_cancel(token, &cause);
}

sheaf_status sheaf__token_status(struct sheaf__token *token)
{
    if (token == SHEAF__NO_TOKEN)
        return SHEAF_OK;
    return (sheaf_status)atomic_load(&resolve(token)->status);
}

sheaf_status sheaf__token_check(struct sheaf__token *token, sheaf_error *err)
{
    if (token == SHEAF__NO_TOKEN)
        return SHEAF_OK;
    token = resolve(token);
    sheaf_status status = (sheaf_status)atomic_load(&token->status);
    if (status < 0 && err)
        *err = token->cause; /* written before the status, never again */
    return status;
}

/* ---- callbacks ---- */

void sheaf__token_on(struct sheaf__token *token, struct sheaf__token_callback *callback)
{
    callback->node = (struct sheaf__list_node){0};
    if (token == SHEAF__NO_TOKEN)
        return;
    token = resolve(token);
    struct tree *tree = &token->root->tree;
    struct sheaf__list due;
    sheaf__stop_watch();
    sheaf__list_init(&due);
    sheaf__mutex_lock(&tree->lock);
    if (atomic_load(&token->status) == 0) {
        sheaf__list_append(&token->callbacks, &callback->node);
    } else {
        sheaf__list_append(&due, &callback->node);
        run_callbacks(tree, &due);
    }
    sheaf__mutex_unlock(&tree->lock);
}

/* The thread other than the caller that runs the callback now; forgets a run of the caller's own.
 */
static bool runs_elsewhere(struct tree *tree, const struct sheaf__token_callback *callback)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&tree->runners); node;
         node = sheaf__list_next(&tree->runners, node)) {
        struct runner *runner = SHEAF__CONTAINER(node, struct runner, node);
        if (runner->callback == callback && runner->thread != sheaf__thread_id())
            return true;
    }
    return false;
}

void sheaf__token_off(struct sheaf__token *token, struct sheaf__token_callback *callback)
{
    if (token == SHEAF__NO_TOKEN)
        return;
    struct tree *tree = &resolve(token)->root->tree;
    sheaf__mutex_lock(&tree->lock);
    sheaf__list_remove(&callback->node);
    while (runs_elsewhere(tree, callback)) {
        uint32_t seen = atomic_load(&tree->callback_done.word);
        sheaf__mutex_unlock(&tree->lock);
        sheaf__park(&tree->callback_done.word, seen, SHEAF__NO_DEADLINE, "end of a callback");
        sheaf__mutex_lock(&tree->lock);
    }
    sheaf__mutex_unlock(&tree->lock);
}

/* ---- waiting ---- */

/* Enters the wait in the token's list, or says that the token is cancelled. */
static sheaf_status enlist(struct sheaf__token *token, struct waiter *waiter)
{
    struct tree *tree = &token->root->tree;
    sheaf__mutex_lock(&tree->lock);
    sheaf_status status = (sheaf_status)atomic_load(&token->status);
    if (status == 0)
        sheaf__list_append(&token->waiters, &waiter->node);
    sheaf__mutex_unlock(&tree->lock);
    return status;
}

static void delist(struct sheaf__token *token, struct waiter *waiter)
{
    struct tree *tree = &token->root->tree;
    sheaf__mutex_lock(&tree->lock);
    sheaf__list_remove(&waiter->node);
    sheaf__mutex_unlock(&tree->lock);
}

sheaf_status sheaf__wait_over(const struct sheaf__wait *wait, const char *otherwise,
                              sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_DEADLINE, "waited too long for %s",
                        wait->what ? wait->what : otherwise);
}

sheaf_status sheaf__cond_wait(struct sheaf__cond *cond, struct sheaf__mutex *mutex,
                              const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__token *token = wait->token == SHEAF__NO_TOKEN ? NULL : resolve(wait->token);
    struct waiter waiter = {.cond = cond};
    const char *what = wait->what ? wait->what : "wait";
    uint32_t seen = atomic_load(&cond->word);
    if (token) {
        sheaf__stop_watch();
        if (enlist(token, &waiter) < 0)
            return sheaf__token_check(token, err);
    }
    sheaf__mutex_unlock(mutex);
    sheaf_status status = sheaf__park(&cond->word, seen, wait->deadline, what);
    if (token)
        delist(token, &waiter);
    sheaf__mutex_lock(mutex);
    if (token && sheaf__token_status(token) < 0) {
        /* A signal for one waiter may have woken this one, which makes no use of it. */
        sheaf__cond_signal(cond);
        return sheaf__token_check(token, err);
    }
    return status == SHEAF_ERR_DEADLINE ? sheaf__wait_over(wait, "another thread", err) : SHEAF_OK;
}

sheaf_status sheaf__cond_wait_until(struct sheaf__cond *cond, struct sheaf__mutex *mutex,
                                    int64_t deadline, struct sheaf__token *token, sheaf_error *err)
{
    struct sheaf__wait wait = {.deadline = deadline, .token = token};
    return sheaf__cond_wait(cond, mutex, &wait, err);
}

sheaf_status sheaf__wait_sleep(int64_t until, struct sheaf__token *token, sheaf_error *err)
{
    struct sheaf__mutex mutex = SHEAF__MUTEX_INIT;
    struct sheaf__cond cond = SHEAF__COND_INIT;
    struct sheaf__wait wait = {.deadline = until, .token = token, .what = "sleep"};
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&mutex);
    while (status == SHEAF_OK)
        status = sheaf__cond_wait(&cond, &mutex, &wait, NULL);
    sheaf__mutex_unlock(&mutex);
    return sheaf__token_check(token, err);
}
