/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_PATIENCE_H
#define SHEAF_NET_PATIENCE_H

/* How long it pays to spin before sleeping. Spinning helps when the other side runs on another core
 * at the same time; when several processes share a core it only keeps the other side from running.
 * So after a few spins in vain only one in sixteen is tried. That one, and some after it if it was
 * not in vain, are longer: the other side may be asleep as well, and both must be awake at once to
 * find that they can stay so. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sheaf__patience {
    _Atomic uint32_t failures; /* in a row */
    _Atomic uint32_t tries;
    _Atomic uint32_t grace; /* long spins that are left */
};

enum { SHEAF__PATIENCE_VAIN = 4, SHEAF__PATIENCE_EVERY = 16, SHEAF__PATIENCE_LONG = 5 };

/* Nanoseconds to spin this time, where `usual` are usual; 0: not at all. */
static inline int64_t sheaf__patience_spin(struct sheaf__patience *p, int64_t usual)
{
    if (atomic_load_explicit(&p->grace, memory_order_relaxed) > 0)
        return SHEAF__PATIENCE_LONG * usual;
    if (atomic_load_explicit(&p->failures, memory_order_relaxed) < SHEAF__PATIENCE_VAIN)
        return usual;
    uint32_t turn = atomic_fetch_add_explicit(&p->tries, 1, memory_order_relaxed);
    return turn % SHEAF__PATIENCE_EVERY == 0 ? SHEAF__PATIENCE_LONG * usual : 0;
}

/* After a spin: whether what was waited for came in it. */
static inline void sheaf__patience_learn(struct sheaf__patience *p, bool came)
{
    uint32_t failures = atomic_load_explicit(&p->failures, memory_order_relaxed);
    uint32_t grace = atomic_load_explicit(&p->grace, memory_order_relaxed);
    if (grace > 0)
        atomic_store_explicit(&p->grace, grace - 1, memory_order_relaxed);
    if (came && failures == 0)
        return;
    if (came && failures >= SHEAF__PATIENCE_VAIN)
        atomic_store_explicit(&p->grace, SHEAF__PATIENCE_EVERY / 2, memory_order_relaxed);
    if (came)
        atomic_store_explicit(&p->failures, 0, memory_order_relaxed);
    else if (failures < SHEAF__PATIENCE_VAIN)
        atomic_store_explicit(&p->failures, failures + 1, memory_order_relaxed);
}

#endif
