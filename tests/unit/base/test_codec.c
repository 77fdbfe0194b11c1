/* SPDX-License-Identifier: Apache-2.0 */
/* base/base64.h, base/crc32c.h, base/digest.h, base/inflate.h */
#include "rig.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/digest.h"
#include "base/inflate.h"
#include "base/mem.h"
#include "base/random.h"

#include <string.h>

/* RFC 3720, B.4. */
static void crc32c_vectors(void **state)
{
    (void)state;
    uint8_t data[32];
    memset(data, 0, sizeof(data));
    assert_int_equal(sheaf__crc32c(data, 32), 0x8a9136aa);
    memset(data, 0xff, sizeof(data));
    assert_int_equal(sheaf__crc32c(data, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        data[i] = (uint8_t)i;
    assert_int_equal(sheaf__crc32c(data, 32), 0x46dd794e);
    assert_int_equal(sheaf__crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(sheaf__crc32c(NULL, 0), 0);
    for (size_t cut = 0; cut <= 32; cut++)
        assert_int_equal(sheaf__crc32c_extend(sheaf__crc32c(data, cut), data + cut, 32 - cut),
                         0x46dd794e);
    for (size_t cut = 0; cut <= 32; cut++)
        assert_int_equal(sheaf__crc32c_join(sheaf__crc32c(data, cut),
                                            sheaf__crc32c(data + cut, 32 - cut), 32 - cut),
                         0x46dd794e);
    uint32_t masked = sheaf__crc32c_mask(0xe3069283);
    assert_int_not_equal(masked, 0xe3069283);
    assert_int_equal(sheaf__crc32c_unmask(masked), 0xe3069283);
    /* An eight-byte length of 0, as in an empty TFRecord. */
    assert_int_equal(sheaf__crc32c_mask(sheaf__crc32c("\0\0\0\0\0\0\0", 8)), 0x07980329);
}

static void hex(const uint8_t *digest, char *text)
{
    for (int i = 0; i < SHEAF__SHA256_SIZE; i++) {
        static const char digits[] = "0123456789abcdef";
        *text++ = digits[digest[i] >> 4];
        *text++ = digits[digest[i] & 15];
    }
    *text = '\0';
}

/* FIPS 180-2 and RFC 4231. */
static void digest_vectors(void **state)
{
    (void)state;
    uint8_t digest[SHEAF__SHA256_SIZE];
    char text[65];
    sheaf_error err = {0};
    struct sheaf__bytes abc[] = {{"a", 1}, {"", 0}, {"bc", 2}};
    rig_ok(sheaf__sha256(abc, 3, digest, &err), &err);
    hex(digest, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    struct sheaf__bytes question[] = {{"what do ya want ", 16}, {"for nothing?", 12}};
    rig_ok(sheaf__hmac_sha256("Jefe", 4, question, 2, digest, &err), &err);
    hex(digest, text);
    assert_string_equal(text, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void secrets(void **state)
{
    (void)state;
    uint8_t a[32];
    uint8_t b[32];
    sheaf_error err = {0};
    rig_ok(sheaf__random_bytes(a, sizeof(a), &err), &err);
    rig_ok(sheaf__random_bytes(b, sizeof(b), &err), &err);
    assert_false(sheaf__digest_equal(a, b, sizeof(a)));
    memcpy(b, a, sizeof(b));
    assert_true(sheaf__digest_equal(a, b, sizeof(a)));
    sheaf__digest_wipe(a, sizeof(a));
    for (size_t i = 0; i < sizeof(a); i++)
        assert_int_equal(a[i], 0);
}

/* ---- zip ---- */

/* Text that compresses, then noise that does not. */
static uint8_t *make_data(size_t size)
{
    uint8_t *data = sheaf__alloc(size);
    struct sheaf__philox p;
    sheaf__philox_init(&p, 1, 1);
    for (size_t i = 0; i < size; i++)
        data[i] = i < size / 2 ? (uint8_t)("the quick brown fox "[i % 20])
                               : (uint8_t)sheaf__philox_next(&p);
    return data;
}

/* How many bytes a call gets at most. */
struct steps {
    size_t in;
    size_t out;
};

/* Compresses with windows of `steps.in` and `steps.out` bytes. */
static void squeeze(enum sheaf__zip kind, int level, const uint8_t *data, size_t size,
                    struct steps steps, struct sheaf__buf *out)
{
    struct sheaf__deflate *z = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf__deflate_new(kind, level, &z, &err), &err);
    size_t at = 0;
    sheaf_status status = SHEAF_OK;
    uint8_t window[4096];
    while (status == SHEAF_OK) {
        size_t n = size - at < steps.in ? size - at : steps.in;
        struct sheaf__zip_io io = {data + at, n, window, steps.out};
        status = sheaf__deflate_next(z, &io, at + n == size, &err);
        assert_true(status >= 0);
        sheaf__buf_bytes(out, window, steps.out - io.out_size);
        at += n - io.in_size;
    }
    assert_int_equal(status, SHEAF_END);
    assert_int_equal(at, size);
    sheaf__deflate_free(z);
}

/* Expands with windows; returns the status that ended it. */
static sheaf_status expand(struct sheaf__inflate *z, const uint8_t *data, size_t size,
                           struct steps steps, struct sheaf__buf *out, sheaf_error *err)
{
    size_t at = 0;
    sheaf_status status = SHEAF_OK;
    uint8_t window[4096];
    while (status >= 0) {
        size_t n = size - at < steps.in ? size - at : steps.in;
        struct sheaf__zip_io io = {data + at, n, window, steps.out};
        status = sheaf__inflate_next(z, &io, err);
        sheaf__buf_bytes(out, window, steps.out - io.out_size);
        at += n - io.in_size;
        if (at == size && steps.out == io.out_size)
            break;
    }
    return status;
}

static void round_trips(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 100, 70000};
    static const size_t steps[] = {1, 7, 4096};
    uint8_t *data = make_data(70000);
    for (size_t i = 0; i < 4 * 3 * 2; i++) {
        size_t size = sizes[i % 4];
        size_t step = steps[i / 4 % 3];
        enum sheaf__zip kind = i < 12 ? SHEAF__ZIP_GZIP : SHEAF__ZIP_ZLIB;
        struct sheaf__buf packed = {0};
        struct sheaf__buf back = {0};
        struct sheaf__inflate *z = NULL;
        sheaf_error err = {0};
        squeeze(kind, (int)(i % 4), data, size, (struct steps){step, 4096 - step + 1}, &packed);
        if (size == 70000)
            assert_true(packed.size < 45000);
        rig_ok(sheaf__inflate_new(kind, &z, &err), &err);
        assert_int_equal(
            expand(z, packed.data, packed.size, (struct steps){step, 4096 - step + 1}, &back, &err),
            SHEAF_END);
        assert_true(sheaf__inflate_at_end(z));
        assert_int_equal(back.size, size);
        if (size)
            assert_memory_equal(back.data, data, size);
        sheaf__inflate_free(z);
        sheaf__buf_free(&packed);
        sheaf__buf_free(&back);
    }
    sheaf__free(data);
}

static void members_follow_each_other(void **state)
{
    (void)state;
    static const size_t steps[] = {1, 3, 64, 4096};
    for (int kind = 0; kind < 2; kind++) {
        struct sheaf__buf packed = {0};
        squeeze((enum sheaf__zip)kind, 1, (const uint8_t *)"first ", 6, (struct steps){10, 4096},
                &packed);
        squeeze((enum sheaf__zip)kind, 2, (const uint8_t *)"second ", 7, (struct steps){10, 4096},
                &packed);
        squeeze((enum sheaf__zip)kind, 0, (const uint8_t *)"third", 5, (struct steps){10, 4096},
                &packed);
        for (size_t i = 0; i < 4; i++) {
            struct sheaf__buf back = {0};
            struct sheaf__inflate *z = NULL;
            sheaf_error err = {0};
            rig_ok(sheaf__inflate_new((enum sheaf__zip)kind, &z, &err), &err);
            assert_int_equal(
                expand(z, packed.data, packed.size, (struct steps){steps[i], 64}, &back, &err),
                SHEAF_END);
            assert_int_equal(back.size, 18);
            assert_memory_equal(back.data, "first second third", 18);
            sheaf__inflate_free(z);
            sheaf__buf_free(&back);
        }
        sheaf__buf_free(&packed);
    }
}

/* A gzip file of gzip(1) with name and time in its header, and a zlib stream of zlib's level 9:
 * "hello hello hello\n". */
static void reads_what_others_wrote(void **state)
{
    (void)state;
    static const uint8_t gz[] = {0x1f, 0x8b, 0x08, 0x08, 0x01, 0xca, 0x0c, 0x6b, 0x02, 0x03,
                                 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x2e, 0x74, 0x78, 0x74, 0x00,
                                 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x90, 0x5c,
                                 0x00, 0x3b, 0x7c, 0x8a, 0xdf, 0x12, 0x00, 0x00, 0x00};
    static const uint8_t zl[] = {0x78, 0xda, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8,
                                 0x40, 0x90, 0x5c, 0x00, 0x40, 0xb5, 0x06, 0x87};
    /* every optional part of the header: extra, name, comment, checksum */
    static const uint8_t full[] = {0x1f, 0x8b, 0x08, 0x1e, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x03,
                                   0x00, 0x61, 0x62, 0x63, 0x6e, 0x00, 0x63, 0x63, 0x00, 0xa3, 0x8b,
                                   0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x90, 0x5c, 0x00,
                                   0x3b, 0x7c, 0x8a, 0xdf, 0x12, 0x00, 0x00, 0x00};
    const uint8_t *data[] = {gz, zl, full, full};
    const size_t sizes[] = {sizeof(gz), sizeof(zl), sizeof(full), sizeof(full)};
    static const size_t steps[] = {1, 1, 1, 64};
    for (int i = 0; i < 4; i++) {
        struct sheaf__buf back = {0};
        struct sheaf__inflate *z = NULL;
        sheaf_error err = {0};
        const enum sheaf__zip kind = i == 1 ? SHEAF__ZIP_ZLIB : SHEAF__ZIP_GZIP;
        rig_ok(sheaf__inflate_new(kind, &z, &err), &err);
        assert_int_equal(expand(z, data[i], sizes[i], (struct steps){steps[i], 64}, &back, &err),
                         SHEAF_END);
        assert_int_equal(back.size, 18);
        assert_memory_equal(back.data, "hello hello hello\n", 18);
        sheaf__inflate_free(z);
        sheaf__buf_free(&back);
    }
}

static void damage_is_found(void **state)
{
    (void)state;
    uint8_t *data = make_data(2000);
    for (int kind = 0; kind < 2; kind++) {
        struct sheaf__buf packed = {0};
        struct sheaf__inflate *z = NULL;
        sheaf_error err = {0};
        size_t silent = 0;
        squeeze((enum sheaf__zip)kind, 1, data, 2000, (struct steps){2000, 4096}, &packed);
        rig_ok(sheaf__inflate_new((enum sheaf__zip)kind, &z, &err), &err);
        for (size_t i = 0; i < packed.size; i++) {
            struct sheaf__buf back = {0};
            packed.data[i] ^= 0x10;
            sheaf__inflate_reset(z);
            sheaf_status status =
                expand(z, packed.data, packed.size, (struct steps){4096, 4096}, &back, &err);
            bool whole =
                status == SHEAF_END && back.size == 2000 && memcmp(back.data, data, 2000) == 0;
            if (status < 0) {
                assert_int_equal(status, SHEAF_ERR_DATA_LOSS);
                assert_non_null(strstr(err.message, "bad "));
            } else if (sheaf__inflate_at_end(z)) {
                assert_true(whole); /* the header's time, the last byte's unused bits */
                silent++;
            }
            packed.data[i] ^= 0x10;
            sheaf__buf_free(&back);
        }
        assert_true(silent <= 10);
        /* Cut anywhere: never at an end, never an error of another kind. */
        for (size_t size = 1; size < packed.size; size += 13) {
            struct sheaf__buf back = {0};
            sheaf__inflate_reset(z);
            assert_int_equal(expand(z, packed.data, size, (struct steps){4096, 4096}, &back, &err),
                             SHEAF_OK);
            assert_false(sheaf__inflate_at_end(z));
            sheaf__buf_free(&back);
        }
        sheaf__inflate_free(z);
        sheaf__buf_free(&packed);
    }
    sheaf__free(data);
}

/* RFC 4648, 10; and what is no base64. */
/* The check value of CRC-32 as ZIP has it, and a checksum that goes on. */
static void crc32_vectors(void **state)
{
    (void)state;
    assert_int_equal(sheaf__crc32_extend(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(sheaf__crc32_extend(sheaf__crc32_extend(0, "1234", 4), "56789", 5),
                     0xcbf43926);
    assert_int_equal(sheaf__crc32_extend(0, "", 0), 0);
}

static void base64_vectors(void **state)
{
    (void)state;
    static const char *const texts[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                        "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    static const char *const none[] = {
        "Z", "Zg", "Zg=", "=g==", "Z===", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9vYg=", "Zm9-", "Zg=v"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sheaf__str str = {0};
        struct sheaf__buf buf = {0};
        sheaf__base64_put(&str, "foobar", i);
        assert_string_equal(sheaf__str_text(&str), texts[i]);
        assert_true(sheaf__base64_get(&buf, texts[i]) && buf.size == i);
        assert_memory_equal(i ? (const void *)buf.data : "", "foobar", i);
        sheaf__str_free(&str);
        sheaf__buf_free(&buf);
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        struct sheaf__buf buf = {0};
        assert_false(sheaf__base64_get(&buf, none[i]));
        sheaf__buf_free(&buf);
    }
    struct sheaf__str str = {0};
    struct sheaf__buf buf = {0};
    uint8_t all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    sheaf__base64_put(&str, all, sizeof(all));
    assert_true(sheaf__base64_get(&buf, str.text) && buf.size == sizeof(all));
    assert_memory_equal(buf.data, all, sizeof(all));
    sheaf__str_free(&str);
    sheaf__buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(crc32c_vectors),
        rig_test(crc32_vectors),
        rig_test(base64_vectors),
        rig_test(digest_vectors),
        rig_test(secrets),
        rig_test(round_trips),
        rig_test(members_follow_each_other),
        rig_test(reads_what_others_wrote),
        rig_test(damage_is_found),
    };
    return rig_run(tests);
}
