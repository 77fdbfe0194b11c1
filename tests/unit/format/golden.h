/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_FORMAT_GOLDEN_H
#define SHEAF_TEST_FORMAT_GOLDEN_H

/* Reading the expected.json beside the golden checkpoints (tests/golden/README.md). */

#include "rig.h"

#include "base/digest.h"
#include "base/mem.h"

#include <sheaf/bundle.h>
#include <sheaf/frame.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "checkpoint/object" -> its expected.json. Freed with json_decref(). */
static inline json_t *golden_json(const char *folder)
{
    char name[256];
    json_error_t fault;
    snprintf(name, sizeof(name), "%s/expected.json", folder);
    json_t *root = json_load_file(rig_golden(name), JSON_ALLOW_NUL, &fault);
    if (!root)
        fail_msg("%s: %s", name, fault.text);
    return root;
}

/* The bytes of a text: a JSON string, or {"hex": …}. Returns how many. */
static inline size_t golden_bytes(const json_t *value, char *out)
{
    const json_t *hex = json_object_get(value, "hex");
    if (!hex) {
        memcpy(out, json_string_value(value), json_string_length(value) + 1);
        return json_string_length(value);
    }
    const char *digits = json_string_value(hex);
    size_t size = strlen(digits) / 2;
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {digits[2 * i], digits[2 * i + 1], 0};
        out[i] = (char)strtoul(pair, NULL, 16);
    }
    out[size] = 0;
    return size;
}

/* SHA-256 of the elements as expected.json states it: strings are joined. */
static inline void golden_sha256(const sheaf_tensor *t, char hex[65])
{
    int64_t count = sheaf_tensor_elements(t);
    bool strings = sheaf_tensor_dtype(t) == SHEAF_STRING;
    size_t parts = strings ? (size_t)count : 1;
    struct sheaf__bytes *list = calloc(parts + 1, sizeof(*list));
    for (int64_t i = 0; strings && i < count; i++) {
        sheaf_bytes b = sheaf_tensor_bytes(t, i);
        list[i] = (struct sheaf__bytes){b.data, b.size};
    }
    if (!strings)
        list[0] = (struct sheaf__bytes){sheaf_tensor_data(t),
                                        (size_t)count * sheaf_dtype_size(sheaf_tensor_dtype(t))};
    uint8_t digest[SHEAF__SHA256_SIZE];
    assert_int_equal(sheaf__sha256(list, parts, digest, NULL), SHEAF_OK);
    free(list);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* dtype, shape and elements are those that the JSON says. */
static inline void golden_compare(const sheaf_tensor *t, const json_t *expected, const char *name)
{
    char hex[65];
    const char *dtype = json_string_value(json_object_get(expected, "dtype"));
    if (strcmp(dtype, sheaf_dtype_name(sheaf_tensor_dtype(t))) != 0)
        fail_msg("%s is of dtype %s, expected %s", name, sheaf_dtype_name(sheaf_tensor_dtype(t)),
                 dtype);
    const json_t *shape = json_object_get(expected, "shape");
    sheaf_shape found = sheaf_tensor_shape(t);
    assert_int_equal(found.rank, json_array_size(shape));
    for (int i = 0; i < found.rank; i++)
        assert_int_equal(found.dims[i], json_integer_value(json_array_get(shape, (size_t)i)));
    golden_sha256(t, hex);
    if (strcmp(hex, json_string_value(json_object_get(expected, "sha256"))) != 0)
        fail_msg("%s has other values than expected", name);
}

#endif
