/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include "base/error.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>
#include <sys/random.h>

static sheaf_status broken(sheaf_error *err, const char *what)
{
    return sheaf__error(err, SHEAF_ERR_INTERNAL, "%s failed in libcrypto", what);
}

sheaf_status sheaf__sha256(const struct sheaf__bytes *parts, size_t count,
                           uint8_t digest[SHEAF__SHA256_SIZE], sheaf_error *err)
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool fine = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL);
    for (size_t i = 0; i < count && fine; i++)
        fine = EVP_DigestUpdate(md, parts[i].data, parts[i].size);
    fine = fine && EVP_DigestFinal_ex(md, digest, NULL);
    EVP_MD_CTX_free(md);
    return fine ? SHEAF_OK : broken(err, "sha-256");
}

sheaf_status sheaf__hmac_sha256(const void *key, size_t key_size, const struct sheaf__bytes *parts,
                                size_t count, uint8_t digest[SHEAF__SHA256_SIZE], sheaf_error *err)
{
    char name[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                           OSSL_PARAM_construct_end()};
    size_t size = 0;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
    bool fine = ctx && EVP_MAC_init(ctx, key, key_size, params);
    for (size_t i = 0; i < count && fine; i++)
        fine = EVP_MAC_update(ctx, parts[i].data, parts[i].size);
    fine =
        fine && EVP_MAC_final(ctx, digest, &size, SHEAF__SHA256_SIZE) && size == SHEAF__SHA256_SIZE;
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
    return fine ? SHEAF_OK : broken(err, "hmac-sha-256");
}

bool sheaf__digest_equal(const void *a, const void *b, size_t size)
{
    return CRYPTO_memcmp(a, b, size) == 0;
}

sheaf_status sheaf__random_bytes(void *data, size_t size, sheaf_error *err)
{
    uint8_t *at = data;
    while (size > 0) {
        ssize_t n = getrandom(at, size, 0);
        if (n < 0 && errno != EINTR)
            return sheaf__errno_error(err, errno, NULL, "get random bytes");
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
    }
    return SHEAF_OK;
}

void sheaf__digest_wipe(void *data, size_t size)
{
    OPENSSL_cleanse(data, size);
}
