/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_PATIENCE_H
#define SHEAF_NET_PATIENCE_H

/* How long it pays to spin. Spinning helps when the other side runs on another core at the same
 * time. When several processes share a core it only keeps the other side from running; then most
 * spins end in sleep, and after a few of those only one in sixteen is tried. */

#include <stdatomic.h>
#include <stdint.h>

struct sheaf__patience {
    _Atomic uint32_t failures; /* in a row */
    _Atomic uint32_t tries;
};

/* Nanoseconds to spin this time, of at most `most`. */
static inline int64_t sheaf__patience_spin(struct sheaf__patience *p, int64_t most)
{
    if (atomic_load_explicit(&p->failures, memory_order_relaxed) < 4)
        return most;
    return atomic_fetch_add_explicit(&p->tries, 1, memory_order_relaxed) % 16 == 0 ? most : 0;
}

/* Whether what was waited for came while spinning. */
static inline void sheaf__patience_learn(struct sheaf__patience *p, int came)
{
    uint32_t failures = atomic_load_explicit(&p->failures, memory_order_relaxed);
    uint32_t next = came ? 0 : failures + 1;
    if (failures != next && next < 16)
        atomic_store_explicit(&p->failures, next, memory_order_relaxed);
}

#endif
