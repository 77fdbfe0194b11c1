/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_BUNDLE_SUMS_H
#define SHEAF_FORMAT_BUNDLE_SUMS_H

/* Checksums of parts of stored tensors that were read by themselves, perhaps by several tasks. What a
 * tensor's entry has is the checksum of all its bytes: so that nobody has to read more than he takes, those
 * of the parts are collected, and prove the tensor together. */

#include "base/buf.h"

#include <sheaf/bundle.h>

/* Bytes [at, at + size) of the tensor that lies at `offset` of a data file. */
struct sheaf__bundle_sum {
    int32_t shard;
    uint32_t crc;
    uint64_t offset, at, size;
};

/* Zeroed is empty. */
struct sheaf__bundle_sums {
    struct sheaf__bundle_sum *list;
    size_t count, capacity;
};

bool sheaf__bundle_sums_add(struct sheaf__bundle_sums *sums, const struct sheaf__bundle_sum *sum);
void sheaf__bundle_sums_free(struct sheaf__bundle_sums *sums);

/* Verifies every tensor that parts of were read; one whose parts are not all there by reading it.
 * SHEAF_ERR_DATA_LOSS. Sorts them. */
sheaf_status sheaf__bundle_sums_check(struct sheaf__bundle_sums *sums, sheaf_bundle *b,
                                      sheaf_error *err);

/* To and from another task. False: no memory, or they make no sense. */
void sheaf__bundle_sums_put(struct sheaf__buf *buf, const struct sheaf__bundle_sums *sums);
bool sheaf__bundle_sums_get(struct sheaf__cursor *c, struct sheaf__bundle_sums *sums);

#endif
