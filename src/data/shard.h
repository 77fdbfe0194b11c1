/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_SHARD_H
#define SHEAF_DATA_SHARD_H

#include "data/stage.h"

/* What an auto-shard puts in: part `index` of `count`, of `what` ("file", "element"). If there are
 * some, but fewer than `count`, every worker gets an error that says so (S128). */
sheaf_dataset *sheaf__shard_for_worker(sheaf_dataset *d, int64_t count, int64_t index,
                                       const char *what);
/* Whether a shard stage waits for a worker's numbers: sheaf_dataset_shard(d, SHEAF_SHARD_HINT, …).
 */
bool sheaf__shard_is_hint(const sheaf_dataset *d);

/* Whether an auto-shard in the tree deals out elements that were batched before: then all workers make
 * the same batches. */
bool sheaf__shard_follows_batch(const sheaf_dataset *d);

#endif
