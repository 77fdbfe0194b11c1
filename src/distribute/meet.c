/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/meet.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

/* How long a replica spins before it sleeps: others are usually a few microseconds behind. */
enum { SPIN_NS = 20000 };

bool sheaf__meet_init(struct sheaf__meet *m, int size)
{
    memset(m, 0, sizeof(*m));
    m->size = size;
    m->tickets = sheaf__calloc((size_t)size, sizeof(*m->tickets));
    m->contributions = sheaf__calloc((size_t)size, sizeof(*m->contributions));
    return m->tickets != NULL && m->contributions != NULL;
}

void sheaf__meet_destroy(struct sheaf__meet *m)
{
    sheaf__free(m->tickets);
    sheaf__free(m->contributions);
    m->tickets = NULL;
    m->contributions = NULL;
}

void sheaf__meet_reset(struct sheaf__meet *m)
{
    m->arrived = m->finished = 0;
    memset(&m->result, 0, sizeof(m->result));
    memset(m->tickets, 0, (size_t)m->size * sizeof(*m->tickets));
}

/* Ends the meeting with m->result: everyone who waits goes on. */
static void hold(struct sheaf__meet *m)
{
    m->arrived = 0;
    for (int i = 0; i < m->size; i++)
        m->tickets[i].what = NULL;
    atomic_fetch_add_explicit(&m->round, 1, memory_order_release);
    sheaf__cond_broadcast(&m->changed);
}

/* All are here: they came to the same meeting, or all fail. */
static void act(struct sheaf__meet *m, sheaf__meet_fn fn, void *user)
{
    memset(&m->result, 0, sizeof(m->result));
    for (int i = 1; i < m->size; i++)
        if (strcmp(m->tickets[i].what, m->tickets[0].what) != 0) {
            sheaf__error(
                &m->result, SHEAF_ERR_FAILED_PRECONDITION,
                "replica %d is at %s while replica 0 is at %s; every replica must make the "
                "same calls in the same order",
                i, m->tickets[i].what, m->tickets[0].what);
            return;
        }
    for (int i = 0; i < m->size; i++)
        m->contributions[i] = m->tickets[i].contribution;
    sheaf_status status = fn(m->contributions, m->size, user, &m->result);
    if (status < 0)
        m->result.status = status;
}

static sheaf_status fail_alone(struct sheaf__meet *m, const char *what, sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                        "%d of %d replicas finished their step without %s; every replica must make "
                        "the same calls",
                        m->finished, m->size, what);
}

/* Waits with the mutex held until meeting `round` is over. */
static sheaf_status await_round(struct sheaf__meet *m, int who, uint32_t round,
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
            m->tickets[who].what = NULL;
            m->arrived--;
            return status;
        }
    }
    return sheaf__error_copy(err, &m->result);
}

sheaf_status sheaf__meet_at(struct sheaf__meet *m, int who, const struct sheaf__meet_ticket *ticket,
                            sheaf__meet_fn fn, void *user, const struct sheaf__wait *wait,
                            sheaf_error *err)
{
    if (m->size == 1) {
        void *alone = ticket->contribution;
        return fn(&alone, 1, user, err);
    }
    sheaf_status status;
    sheaf__mutex_lock(&m->mutex);
    m->tickets[who] = *ticket;
    m->arrived++;
    if (m->finished > 0) {
        status = fail_alone(m, ticket->what, &m->result);
        hold(m);
        sheaf__error_copy(err, &m->result);
    } else if (m->arrived == m->size) {
        act(m, fn, user);
        status = sheaf__error_copy(err, &m->result);
        hold(m);
    } else {
        status =
            await_round(m, who, atomic_load_explicit(&m->round, memory_order_relaxed), wait, err);
    }
    sheaf__mutex_unlock(&m->mutex);
    return status;
}

void sheaf__meet_leave(struct sheaf__meet *m, int who)
{
    sheaf__mutex_lock(&m->mutex);
    m->finished++;
    if (m->arrived > 0) {
        int waits = 0;
        while (waits < m->size && (waits == who || m->tickets[waits].what == NULL))
            waits++;
        if (waits < m->size) {
            fail_alone(m, m->tickets[waits].what, &m->result);
            hold(m);
        }
    }
    sheaf__mutex_unlock(&m->mutex);
}
