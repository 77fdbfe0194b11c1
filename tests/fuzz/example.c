/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tf.train.Example: parsing ends and stays in its columns; alone and in a batch it says the
 * same; what was parsed, built and parsed again is the same. */
#include "target.h"

#include "base/mem.h"
#include "format/example.h"
#include "tensor/tensor.h"

#include <sheaf/frame.h>

#include <stdlib.h>
#include <string.h>

static const int64_t defaults[2] = {7, 8};
static const sheaf_feature features[] = {
    {.key = "a", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_RAGGED},
    {.key = "b", .dtype = SHEAF_FLOAT32, .kind = SHEAF_FEATURE_RAGGED},
    {.key = "c", .dtype = SHEAF_STRING, .kind = SHEAF_FEATURE_RAGGED},
    {.key = "age", .dtype = SHEAF_INT64, .rank = 1, .dims = {2}, .default_value = defaults},
    {.key = "x", .dtype = SHEAF_FLOAT32, .rank = 2, .dims = {SHEAF_UNKNOWN_DIM, 2}},
    {.key = "name", .dtype = SHEAF_STRING, .kind = SHEAF_FEATURE_VAR},
};
enum { FEATURES = sizeof(features) / sizeof(features[0]) };

/* The values of feature `i`, all of them. */
static const sheaf_tensor *values_of(const sheaf_element *e, size_t i)
{
    const sheaf_tensor *t = sheaf_element_at(e, i);
    if (t->layout == SHEAF__RAGGED)
        return t->parts[SHEAF__RAGGED_VALUES];
    return t->layout == SHEAF__SPARSE ? t->parts[SHEAF__VALUES] : t;
}

/* `b` has the values of `a`, `times` times. */
static void same(const sheaf_element *a, const sheaf_element *b, int times, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const sheaf_tensor *x = values_of(a, i), *y = values_of(b, i);
        int64_t n = sheaf_tensor_elements(x);
        must(sheaf_tensor_elements(y) == times * n);
        for (int64_t k = 0; k < times * n; k++) {
            if (x->dtype == SHEAF_STRING) {
                sheaf_bytes one = sheaf_tensor_bytes(x, k % n), other = sheaf_tensor_bytes(y, k);
                must(one.size == other.size);
                must(one.size == 0 || memcmp(one.data, other.data, one.size) == 0);
            } else {
                size_t size = sheaf_dtype_size(x->dtype);
                must(memcmp((const char *)sheaf_tensor_data(x) + (size_t)(k % n) * size,
                            (const char *)sheaf_tensor_data(y) + (size_t)k * size, size) == 0);
            }
        }
    }
}

/* The first three features, written by our builder. */
static sheaf_example *build(const sheaf_element *e)
{
    sheaf_example *x = sheaf_example_new();
    must(x);
    const sheaf_tensor *a = values_of(e, 0), *b = values_of(e, 1), *c = values_of(e, 2);
    sheaf_example_int64(x, "a", sheaf_tensor_data(a), (size_t)sheaf_tensor_elements(a));
    sheaf_example_float(x, "b", sheaf_tensor_data(b), (size_t)sheaf_tensor_elements(b));
    sheaf_example_bytes(x, "c", sheaf_tensor_data(c), (size_t)sheaf_tensor_elements(c));
    return x;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sheaf_bytes twice[2] = {{(const char *)data, size}, {(const char *)data, size}};
    char text[64];
    const size_t length = sheaf_example_format(twice[0], 3, text, sizeof(text));
    must(length == 0 || sheaf_example_json(twice[0], 3, text, sizeof(text)) > 0);
    SHEAF_FRAME
    {
        sheaf_element *one, *two, *again;
        sheaf_error err = {0};
        sheaf_bytes message;
        sheaf_status status = sheaf_example_parse(twice, 1, features, FEATURES, &one, &err);
        must(status == SHEAF_OK || (status == err.status && err.message[0]));
        must(status == SHEAF_OK || status == SHEAF_ERR_DATA_LOSS ||
             status == SHEAF_ERR_INVALID_ARGUMENT);
        must(sheaf_example_parse(twice, 2, features, FEATURES, &two, NULL) == status);
        if (status < 0)
            break;
        same(one, two, 2, FEATURES);
        sheaf_example *x = build(one);
        must(sheaf_example_serialize(x, &message, NULL) == SHEAF_OK);
        must(sheaf_example_parse(&message, 1, features, 3, &again, NULL) == SHEAF_OK);
        same(one, again, 1, 3);
        sheaf_example_free(x);
    }
    return 0;
}
