/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_SCRATCH_H
#define SHEAF_BASE_SCRATCH_H

/* Memory of the calling thread for results on their way: the same at every call, so that it stays
 * in the caches of the thread's core, where a pool that threads share would pass it to and fro. */

#include <stddef.h>

/* At least `size` bytes, not cleared, as aligned as sheaf__alloc_aligned(). The thread's until it
 * calls again; given back when it ends. NULL without memory. */
void *sheaf__scratch(size_t size);

#endif
