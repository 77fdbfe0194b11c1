/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_FORMAT_FEATURES_H
#define SHEAF_TEST_FORMAT_FEATURES_H

/* Features to parse, and values, as the goldens of Examples write them. */

#include "format/golden.h"

#include <sheaf/example.h>

#include <math.h>

struct features {
    sheaf_feature list[8];
    size_t count;
    void *defaults[8];
    char *strings[32];
    size_t string_count;
};

static inline sheaf_dtype dtype_of(const json_t *spec)
{
    return sheaf_dtype_named(json_string_value(json_object_get(spec, "dtype")));
}

/* A number of JSON, or one that JSON has not. */
static inline double number_of(const json_t *v)
{
    if (!json_is_string(v))
        return json_number_value(v);
    const char *text = json_string_value(v);
    return strcmp(text, "nan") == 0 ? NAN : *text == '-' ? -INFINITY : INFINITY;
}

/* A string of either notation: {"hex": …} or "hex:…". */
static inline size_t golden_text(const json_t *v, char *out)
{
    const char *text = json_string_value(v);
    if (!text || strncmp(text, "hex:", 4) != 0)
        return golden_bytes(v, out);
    json_t *hex = json_pack("{s:s}", "hex", text + 4);
    size_t size = golden_bytes(hex, out);
    json_decref(hex);
    return size;
}

/* One value of a default, or several. */
static inline void set_default(struct features *f, size_t at, const json_t *given)
{
    sheaf_feature *feature = &f->list[at];
    size_t count = json_is_array(given) ? json_array_size(given) : 1;
    char *values = f->defaults[at] = calloc(count + 1, 16);
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_is_array(given) ? json_array_get(given, i) : given;
        if (feature->dtype == SHEAF_INT64) {
            ((int64_t *)values)[i] = json_integer_value(v);
        } else if (feature->dtype == SHEAF_FLOAT32) {
            ((float *)values)[i] = (float)number_of(v);
        } else {
            char *text = f->strings[f->string_count++] = malloc(256);
            ((sheaf_bytes *)values)[i].size = golden_text(v, text);
            ((sheaf_bytes *)values)[i].data = text;
        }
    }
    feature->default_value = values;
}

/* False if the spec asks for what is not offered: partitions of a ragged feature, SparseFeature, a
 * default that is to be broadcast. */
static inline bool set_features(struct features *f, const json_t *spec)
{
    const char *key;
    const json_t *s;
    memset(f, 0, sizeof(*f));
    json_object_foreach((json_t *)(uintptr_t)spec, key, s)
    {
        sheaf_feature *feature = &f->list[f->count];
        const char *kind = json_string_value(json_object_get(s, "kind"));
        const char *from = json_string_value(json_object_get(s, "value_key"));
        *feature = (sheaf_feature){.key = from ? from : key, .name = key, .dtype = dtype_of(s)};
        if (json_array_size(json_object_get(s, "partitions")) || strncmp(kind, "Sparse", 6) == 0)
            return false;
        if (strncmp(kind, "VarLen", 6) == 0)
            feature->kind = SHEAF_FEATURE_VAR;
        else if (strncmp(kind, "Ragged", 6) == 0)
            feature->kind = SHEAF_FEATURE_RAGGED;
        else if (strncmp(kind, "FixedLenSequence", 16) == 0)
            feature->dims[feature->rank++] = SHEAF_UNKNOWN_DIM;
        size_t elements = 1, i;
        const json_t *dim;
        json_array_foreach(json_object_get(s, "shape"), i, dim)
        {
            elements *= (size_t)json_integer_value(dim);
            feature->dims[feature->rank++] = json_integer_value(dim);
        }
        const json_t *given = json_object_get(s, "default");
        bool sequence = feature->rank && feature->dims[0] == SHEAF_UNKNOWN_DIM;
        if (given && !json_is_null(given)) {
            if (!sequence && !json_is_array(given) && elements != 1)
                return false;
            set_default(f, f->count, given);
        }
        f->count++;
    }
    return true;
}

static inline void free_features(struct features *f)
{
    for (size_t i = 0; i < 8; i++)
        free(f->defaults[i]);
    for (size_t i = 0; i < f->string_count; i++)
        free(f->strings[i]);
}

#endif
