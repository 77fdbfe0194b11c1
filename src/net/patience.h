/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_PATIENCE_H
#define SHEAF_NET_PATIENCE_H

/* How long it pays to spin before sleeping. Spinning helps when the other side runs on another core
 * at the same time; when both share a core it only keeps the other side from running, and what comes
 * "while spinning" comes because this thread was preempted. So a spin counts as good only if the
 * thread really ran all the time. After a few spins in vain they become rare, ever more so. Those
 * few, and some after one that was good, are longer: the other side may be asleep as well, and both
 * must be awake at once to find that they can stay so. */

#include "base/clock.h"

#include <stdatomic.h>

struct sheaf__patience {
    _Atomic uint32_t failures; /* in a row */
    _Atomic uint32_t waits;    /* since the last spin */
    _Atomic uint32_t grace;    /* long spins that are left */
};

enum {
    SHEAF__PATIENCE_VAIN = 4,     /* spins in vain before they become rare */
    SHEAF__PATIENCE_RARE = 16,    /* then one of so many waits spins, … */
    SHEAF__PATIENCE_RAREST = 256, /* … in the end */
    SHEAF__PATIENCE_LONG = 5
};

/* Nanoseconds to spin this time, where `usual` are usual; 0: not at all. */
static inline int64_t sheaf__patience_spin(struct sheaf__patience *p, int64_t usual)
{
    uint32_t failures = atomic_load_explicit(&p->failures, memory_order_relaxed);
    if (atomic_load_explicit(&p->grace, memory_order_relaxed) > 0)
        return SHEAF__PATIENCE_LONG * usual;
    if (failures < SHEAF__PATIENCE_VAIN)
        return usual;
    uint32_t doubled = failures - SHEAF__PATIENCE_VAIN;
    uint32_t every = (uint32_t)SHEAF__PATIENCE_RARE << (doubled < 4 ? doubled : 4);
    every = every < SHEAF__PATIENCE_RAREST ? every : SHEAF__PATIENCE_RAREST;
    if (atomic_fetch_add_explicit(&p->waits, 1, memory_order_relaxed) + 1 < every)
        return 0;
    atomic_store_explicit(&p->waits, 0, memory_order_relaxed);
    return SHEAF__PATIENCE_LONG * usual;
}

/* After a spin: whether what was waited for came in it, and this thread ran all the time. */
static inline void sheaf__patience_learn(struct sheaf__patience *p, bool good)
{
    uint32_t failures = atomic_load_explicit(&p->failures, memory_order_relaxed);
    uint32_t grace = atomic_load_explicit(&p->grace, memory_order_relaxed);
    if (grace > 0)
        atomic_store_explicit(&p->grace, grace - 1, memory_order_relaxed);
    if (good && failures == 0)
        return;
    if (good && failures >= SHEAF__PATIENCE_VAIN)
        atomic_store_explicit(&p->grace, 2 * SHEAF__PATIENCE_VAIN, memory_order_relaxed);
    if (good)
        atomic_store_explicit(&p->failures, 0, memory_order_relaxed);
    else if (failures < 2 * SHEAF__PATIENCE_VAIN)
        atomic_store_explicit(&p->failures, failures + 1, memory_order_relaxed);
}

/* Notices in a loop that spins whether the thread was taken off its core. */
struct sheaf__runs {
    int64_t last;
    bool broken;
};
#define SHEAF__RUNS_GAP (8 * SHEAF__US)

static inline struct sheaf__runs sheaf__runs_from_now(void)
{
    return (struct sheaf__runs){.last = sheaf__clock_now()};
}
/* Once a round; `worked`: the round did something that may have taken long. */
static inline void sheaf__runs_look(struct sheaf__runs *r, bool worked)
{
    int64_t now = sheaf__clock_now();
    if (!worked && now - r->last > SHEAF__RUNS_GAP)
        r->broken = true;
    r->last = now;
}

#endif
