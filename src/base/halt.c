/* SPDX-License-Identifier: Apache-2.0 */
#include "base/halt.h"

#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"

struct sheaf__halt {
    sheaf_context *context;
    struct sheaf__halt_peers peers;
    struct sheaf__token_callback on_asked;
    bool listens;

    struct sheaf__mutex lock; /* of what follows */
    struct sheaf__cond changed;
    uint64_t passed;
    bool asked;    /* the peers have been */
    bool promised; /* to pass none */
    bool decided;
    uint64_t place; /* then: where all stop */
    bool ahead;     /* reading for a later one */
    _Atomic bool over;
    struct sheaf__token *reading;
};

/* ---- being asked ---- */

static void on_asked(void *user)
{
    struct sheaf__halt *h = user;
    if (!sheaf__context_ends_in_order(h->context))
        return;
    sheaf__mutex_lock(&h->lock);
    const bool first = !h->asked;
    h->asked = true;
    sheaf__mutex_unlock(&h->lock);
    if (first && h->peers.ask)
        h->peers.ask(h->peers.user);
    else if (first)
        sheaf__halt_next(h);
}

sheaf_status sheaf__halt_new(const struct sheaf__halt_peers *peers, struct sheaf__halt **halt,
                             sheaf_error *err)
{
    struct sheaf__halt *h = sheaf__calloc(1, sizeof(*h));
    if (!h)
        return sheaf__no_memory(err, "a strategy");
    h->context = sheaf__context();
    h->peers = peers ? *peers : (struct sheaf__halt_peers){0};
    h->reading = sheaf__token_new(NULL);
    if (!h->reading) {
        sheaf__free(h);
        return sheaf__no_memory(err, "a strategy");
    }
    *halt = h;
    h->on_asked = (struct sheaf__token_callback){.fn = on_asked, .user = h};
    h->listens = true;
    sheaf__token_on(sheaf__context_asked(h->context), &h->on_asked);
    return SHEAF_OK;
}

void sheaf__halt_deafen(struct sheaf__halt *h)
{
    if (h && h->listens)
        sheaf__token_off(sheaf__context_asked(h->context), &h->on_asked);
    if (h)
        h->listens = false;
}

void sheaf__halt_free(struct sheaf__halt *h)
{
    if (!h)
        return;
    sheaf__halt_deafen(h);
    sheaf__token_unref(h->reading);
    sheaf__free(h);
}

/* ---- agreeing ---- */

/* Nothing is read any more that no step will use. With the lock, which no callback of the token takes. */
static void end_reading(const struct sheaf__halt *h)
{
    if (h->decided && (h->ahead || h->passed + 1 >= h->place))
        sheaf__token_cancel_with(h->reading, SHEAF_ERR_CANCELLED, "the program stops");
}

uint64_t sheaf__halt_promise(struct sheaf__halt *h)
{
    sheaf__mutex_lock(&h->lock);
    h->asked = h->promised = true;
    const uint64_t passed = h->passed;
    sheaf__mutex_unlock(&h->lock);
    return passed;
}

/* With the lock. */
static void decide(struct sheaf__halt *h, uint64_t place)
{
    if (h->decided)
        return;
    h->decided = true;
    h->place = place;
    end_reading(h);
    sheaf__cond_broadcast(&h->changed);
}

void sheaf__halt_decide(struct sheaf__halt *h, uint64_t place)
{
    sheaf__mutex_lock(&h->lock);
    decide(h, place);
    sheaf__mutex_unlock(&h->lock);
}

void sheaf__halt_next(struct sheaf__halt *h)
{
    sheaf__mutex_lock(&h->lock);
    decide(h, h->passed + 1);
    sheaf__mutex_unlock(&h->lock);
}

void sheaf__halt_give_up(struct sheaf__halt *h)
{
    sheaf__mutex_lock(&h->lock);
    h->promised = false;
    sheaf__cond_broadcast(&h->changed);
    sheaf__mutex_unlock(&h->lock);
}

/* ---- the program's thread ---- */

static sheaf_status make_own(sheaf_context *context, void **value, sheaf_error *err)
{
    struct sheaf__halt *h = NULL;
    (void)context;
    SHEAF__TRY(sheaf__halt_new(NULL, &h, err));
    *value = h;
    return SHEAF_OK;
}

static void free_own(void *value)
{
    sheaf__halt_free(value);
}

static const struct sheaf__slot own = {"halt", make_own, free_own};

static struct sheaf__halt *or_own(struct sheaf__halt *h)
{
    void *value = h;
    return h || sheaf__context_slot(sheaf__context(), &own, &value, NULL) >= 0 ? value : NULL;
}

void sheaf__halt_begin(struct sheaf__halt *h)
{
    if (h && h->peers.begin)
        h->peers.begin(h->peers.user);
}

sheaf_status sheaf__halt_pass(struct sheaf__halt *h, sheaf_error *err)
{
    const struct sheaf__wait wait = {sheaf__clock_default_deadline(), NULL,
                                     "the place where all workers stop"};
    sheaf_status status = SHEAF_OK;
    h = or_own(h);
    if (!h)
        return sheaf__no_memory(err, "the end in order");
    sheaf__mutex_lock(&h->lock);
    while (h->promised && !h->decided && status >= 0)
        status = sheaf__cond_wait(&h->changed, &h->lock, &wait, err);
    if (status >= 0 && h->decided && h->passed + 1 >= h->place) {
        atomic_store(&h->over, true);
        status = SHEAF_END;
    } else if (status >= 0) {
        h->passed++;
        end_reading(h);
    }
    sheaf__mutex_unlock(&h->lock);
    return status;
}

bool sheaf__halt_is_over(struct sheaf__halt *h)
{
    h = or_own(h);
    return h && atomic_load(&h->over);
}

struct sheaf__token *sheaf__halt_reading(struct sheaf__halt *h)
{
    h = or_own(h);
    return h ? h->reading : NULL;
}

void sheaf__halt_read_ahead(struct sheaf__halt *h, bool ahead)
{
    h = or_own(h);
    if (!h)
        return;
    sheaf__mutex_lock(&h->lock);
    h->ahead = ahead;
    end_reading(h);
    sheaf__mutex_unlock(&h->lock);
}
