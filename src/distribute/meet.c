/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/meet.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* How long a replica spins before it sleeps: others are usually a few microseconds behind. */
enum { SPIN_NS = 20000 };

bool sheaf__meet_init(struct sheaf__meet *m, int size, int first)
{
    memset(m, 0, sizeof(*m));
    m->size = size;
    m->first = first;
    m->places = sheaf__calloc((size_t)size, sizeof(*m->places));
    m->contributions = sheaf__calloc((size_t)size, sizeof(*m->contributions));
    return m->places != NULL && m->contributions != NULL;
}

void sheaf__meet_destroy(struct sheaf__meet *m)
{
    sheaf__free(m->places);
    sheaf__free(m->contributions);
    m->places = NULL;
    m->contributions = NULL;
}

void sheaf__meet_reset(struct sheaf__meet *m)
{
    m->arrived = 0;
    memset(&m->result, 0, sizeof(m->result));
    memset(m->places, 0, (size_t)m->size * sizeof(*m->places));
}

/* Calls. */

static const char *text_of(const struct sheaf__meet_call *call, char *text, size_t size)
{
    snprintf(text, size, call->of[0] ? "%s '%s'" : "%s", call->what, call->of);
    return text;
}

static bool same_call(const struct sheaf__meet_call *a, const struct sheaf__meet_call *b)
{
    return strcmp(a->what, b->what) == 0 && strcmp(a->of, b->of) == 0;
}

static sheaf_status fail_ended(const struct sheaf__meet *m, int ended, int other, sheaf_error *err)
{
    char text[128];
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "replica %d has ended its step without %s, which replica %d is in; every "
                        "replica must make the same calls in the same order",
                        m->first + ended, text_of(&m->places[other].call, text, sizeof(text)),
                        m->first + other);
}

static sheaf_status fail_other(const struct sheaf__meet *m, int a, int b, sheaf_error *err)
{
    char x[96], y[96];
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "replica %d is at %s, replica %d at %s; every replica must make the same "
                        "calls in the same order",
                        m->first + a, text_of(&m->places[a].call, x, sizeof(x)), m->first + b,
                        text_of(&m->places[b].call, y, sizeof(y)));
}

sheaf_status sheaf__meet_come(struct sheaf__meet *m, int who, const struct sheaf__meet_call *call,
                              sheaf_error *err)
{
    struct sheaf__meet_place *mine = &m->places[who];
    sheaf_status status = SHEAF_OK;
    if (m->size == 1)
        return SHEAF_OK;
    sheaf__mutex_lock(&m->mutex);
    mine->call = *call;
    mine->calls++;
    for (int i = 0; i < m->size && status == SHEAF_OK; i++) {
        const struct sheaf__meet_place *other = &m->places[i];
        if (other->ended && other->calls < mine->calls)
            status = fail_ended(m, i, who, err);
        else if (other->calls == mine->calls && !same_call(&other->call, call))
            status = fail_other(m, who, i, err);
    }
    sheaf__mutex_unlock(&m->mutex);
    return status;
}

sheaf_status sheaf__meet_leave(struct sheaf__meet *m, int who, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&m->mutex);
    m->places[who].ended = true;
    for (int i = 0; i < m->size && status == SHEAF_OK; i++)
        if (m->places[i].calls > m->places[who].calls)
            status = fail_ended(m, who, i, err);
    sheaf__mutex_unlock(&m->mutex);
    return status;
}

/* Meetings. */

/* Ends the meeting with m->result: everyone who waits goes on. */
static void end(struct sheaf__meet *m)
{
    m->arrived = 0;
    atomic_fetch_add_explicit(&m->round, 1, memory_order_release);
    sheaf__cond_broadcast(&m->changed);
}

static void act(struct sheaf__meet *m, sheaf__meet_fn fn, void *user)
{
    memset(&m->result, 0, sizeof(m->result));
    for (int i = 0; i < m->size; i++)
        m->contributions[i] = m->places[i].contribution;
    sheaf_status status = fn(m->contributions, m->size, user, &m->result);
    if (status < 0)
        m->result.status = status;
}

/* Waits with the mutex held until meeting `round` is over. */
static sheaf_status await_round(struct sheaf__meet *m, uint32_t round,
                                const struct sheaf__wait *wait, sheaf_error *err)
{
    sheaf__mutex_unlock(&m->mutex);
    struct sheaf__spin spin = sheaf__spin_for(SPIN_NS);
    while (atomic_load_explicit(&m->round, memory_order_acquire) == round &&
           sheaf__spin_again(&spin))
        ;
    sheaf__mutex_lock(&m->mutex);
    while (atomic_load_explicit(&m->round, memory_order_acquire) == round) {
        sheaf_status status = sheaf__cond_wait(&m->changed, &m->mutex, wait, err);
        if (status < 0 && atomic_load_explicit(&m->round, memory_order_acquire) == round) {
            m->arrived--;
            return status;
        }
    }
    return sheaf__error_copy(err, &m->result);
}

sheaf_status sheaf__meet_hold(struct sheaf__meet *m, int who, void *contribution, sheaf__meet_fn fn,
                              void *user, const struct sheaf__wait *wait, sheaf_error *err)
{
    if (m->size == 1)
        return fn(&contribution, 1, user, err);
    sheaf_status status;
    sheaf__mutex_lock(&m->mutex);
    m->places[who].contribution = contribution;
    if (++m->arrived == m->size) {
        act(m, fn, user);
        status = sheaf__error_copy(err, &m->result);
        end(m);
    } else {
        status = await_round(m, atomic_load_explicit(&m->round, memory_order_relaxed), wait, err);
    }
    sheaf__mutex_unlock(&m->mutex);
    return status;
}
