/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_COUNTER_H
#define SHEAF_BASE_COUNTER_H

/* Named counters of a context, read by sheaf_counter(). Names are dotted, lower case:
 * "record.bytes". Any thread. */

#include <sheaf/context.h>

#include <stdatomic.h>

struct sheaf__counter {
    _Atomic uint64_t value;
};

/* The counter of that name, made at first use; valid as long as the context. Never NULL: without
 * memory it is one that nobody reads. Keep the pointer where counting is frequent. */
struct sheaf__counter *sheaf__counter_get(sheaf_context *context, const char *name);
static inline void sheaf__counter_add(struct sheaf__counter *counter, uint64_t n)
{
    atomic_fetch_add_explicit(&counter->value, n, memory_order_relaxed);
}
/* By name, in the current context: for rare events. */
void sheaf__count(const char *name, uint64_t n);

#endif
