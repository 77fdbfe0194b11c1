/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "format/wire.h"
#include "tensor/strings.h"

#include <sheaf/example.h>

#include <string.h>

/* Room before the features for their tag and size, so that the message is never moved. */
#define HEAD 16

struct sheaf_example {
    struct sheaf__buf buf;     /* HEAD bytes, then the entries of the map */
    struct sheaf__strmap keys; /* those it has */
    sheaf_error failed;        /* the first failure */
};

enum { LIST_BYTES = 1, LIST_FLOAT = 2, LIST_INT64 = 3 };

sheaf_example *sheaf_example_new(void)
{
    sheaf_example *x = sheaf__calloc(1, sizeof(*x));
    if (x)
        sheaf_example_clear(x);
    return x;
}

void sheaf_example_clear(sheaf_example *x)
{
    if (!x)
        return;
    sheaf__buf_clear(&x->buf);
    sheaf__strmap_clear(&x->keys, NULL);
    x->failed = (sheaf_error){0};
    uint8_t *head = sheaf__buf_extend(&x->buf, HEAD);
    if (head)
        memset(head, 0, HEAD);
}

void sheaf_example_free(sheaf_example *x)
{
    if (!x)
        return;
    sheaf__strmap_clear(&x->keys, NULL);
    sheaf__buf_free(&x->buf);
    sheaf__free(x);
}

/* Size of a field of bytes whose number is below 16. */
static size_t field_size(size_t size)
{
    return 1 + sheaf__varint_size(size) + size;
}

/* Writes an entry up to where its list's contents of `size` bytes go. */
static bool start_entry(sheaf_example *x, const char *key, uint32_t list, size_t size)
{
    sheaf_error err;
    if (!x || x->failed.status < 0)
        return false;
    if (!key || sheaf__strmap_has(&x->keys, key)) {
        if (key)
            sheaf__error(&x->failed, SHEAF_ERR_INVALID_ARGUMENT,
                         "the example has two features \"%s\"", key);
        else
            sheaf__error(&x->failed, SHEAF_ERR_INVALID_ARGUMENT, "a feature has no key");
        return false;
    }
    if (!sheaf__strmap_set(&x->keys, key, x, NULL)) {
        sheaf__no_memory(&err, "an example");
        x->failed = err;
        return false;
    }
    size_t key_size = strlen(key);
    size_t feature = field_size(size);
    sheaf__wire_put_tag(&x->buf, 1, SHEAF__WIRE_BYTES);
    sheaf__buf_varint(&x->buf, field_size(key_size) + field_size(feature));
    sheaf__wire_put_bytes(&x->buf, 1, key, key_size);
    sheaf__wire_put_tag(&x->buf, 2, SHEAF__WIRE_BYTES);
    sheaf__buf_varint(&x->buf, feature);
    sheaf__wire_put_tag(&x->buf, list, SHEAF__WIRE_BYTES);
    sheaf__buf_varint(&x->buf, size);
    return true;
}

static bool has_values(sheaf_example *x, const char *key, const void *values, size_t n)
{
    if (!values && n && x && x->failed.status >= 0)
        sheaf__error(&x->failed, SHEAF_ERR_INVALID_ARGUMENT, "feature \"%s\": the values are NULL",
                     key ? key : "");
    return values || !n;
}

static bool has_bytes(sheaf_example *x, const char *key, const sheaf_bytes *values, size_t n)
{
    sheaf_error fault = {0};
    if (!x || sheaf__strings_check(values, n, "value", &fault) >= 0)
        return x != NULL;
    if (x->failed.status >= 0)
        sheaf__error(&x->failed, SHEAF_ERR_INVALID_ARGUMENT, "feature \"%s\": %s", key ? key : "",
                     fault.message);
    return false;
}

void sheaf_example_int64(sheaf_example *x, const char *key, const int64_t *values, size_t n)
{
    size_t packed = 0;
    for (size_t i = 0; has_values(x, key, values, n) && i < n; i++)
        packed += sheaf__varint_size((uint64_t)values[i]);
    if (!start_entry(x, key, LIST_INT64, n ? field_size(packed) : 0) || n == 0)
        return;
    sheaf__wire_put_tag(&x->buf, 1, SHEAF__WIRE_BYTES);
    sheaf__buf_varint(&x->buf, packed);
    for (size_t i = 0; i < n; i++)
        sheaf__buf_varint(&x->buf, (uint64_t)values[i]);
}

void sheaf_example_float(sheaf_example *x, const char *key, const float *values, size_t n)
{
    if (!has_values(x, key, values, n) ||
        !start_entry(x, key, LIST_FLOAT, n ? field_size(4 * n) : 0) || n == 0)
        return;
    sheaf__wire_put_bytes(&x->buf, 1, values, 4 * n); /* little endian */
}

void sheaf_example_bytes(sheaf_example *x, const char *key, const sheaf_bytes *values, size_t n)
{
    size_t size = 0;
    if (!has_values(x, key, values, n) || !has_bytes(x, key, values, n))
        return;
    for (size_t i = 0; i < n; i++)
        size += field_size(values[i].size);
    if (!start_entry(x, key, LIST_BYTES, size))
        return;
    for (size_t i = 0; i < n; i++)
        sheaf__wire_put_bytes(&x->buf, 1, values[i].data, values[i].size);
}

sheaf_status sheaf_example_serialize(sheaf_example *x, sheaf_bytes *message, sheaf_error *err)
{
    if (!x)
        return sheaf__no_memory(err, "an example");
    if (x->failed.status < 0)
        return sheaf__error_copy(err, &x->failed);
    SHEAF__TRY(sheaf__buf_check(&x->buf, "an example", err));
    size_t size = x->buf.size - HEAD;
    if (size > INT32_MAX)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the example has %zu bytes, a message may have 2147483647", size);
    uint8_t *start = x->buf.data + HEAD - 1 - sheaf__varint_size(size);
    start[0] = 1 << 3 | SHEAF__WIRE_BYTES;
    sheaf__varint_put(start + 1, size);
    *message = (sheaf_bytes){(const char *)start, (size_t)(x->buf.data + x->buf.size - start)};
    return SHEAF_OK;
}
