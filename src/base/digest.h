/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_DIGEST_H
#define SHEAF_BASE_DIGEST_H

/* SHA-256, HMAC-SHA256 and secret random bytes. Any thread. */

#include <sheaf/status.h>

#define SHEAF__SHA256_SIZE 32

struct sheaf__bytes {
    const void *data;
    size_t size;
};

/* Digest of the parts one after the other. */
sheaf_status sheaf__sha256(const struct sheaf__bytes *parts, size_t count,
                           uint8_t digest[SHEAF__SHA256_SIZE], sheaf_error *err);
sheaf_status sheaf__hmac_sha256(const void *key, size_t key_size, const struct sheaf__bytes *parts,
                                size_t count, uint8_t digest[SHEAF__SHA256_SIZE], sheaf_error *err);
/* Compares in a time that does not depend on the contents. */
bool sheaf__digest_equal(const void *a, const void *b, size_t size);
/* Unpredictable bytes from the system; fit for keys. */
sheaf_status sheaf__random_bytes(void *data, size_t size, sheaf_error *err);
/* Overwrites a secret in a way the compiler keeps. */
void sheaf__digest_wipe(void *data, size_t size);

#endif
