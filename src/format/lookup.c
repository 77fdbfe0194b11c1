/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/str.h"
#include "format/vocabulary.h"
#include "tensor/frame.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <string.h>

/* Looking up words and indices (R10.26, R10.27, R10.30). */

static uint64_t hash_integer(int64_t word)
{
    uint64_t h = (uint64_t)word * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

static bool is_token(const struct sheaf_vocabulary *v, int64_t i, sheaf_bytes word)
{
    sheaf_bytes token = ((const sheaf_bytes *)v->tokens->data)[i];
    return token.size == word.size &&
           (word.size == 0 || memcmp(token.data, word.data, word.size) == 0);
}

static int64_t find_hashed(const struct sheaf_vocabulary *v, sheaf_bytes word, uint64_t hash,
                           uint64_t *slot)
{
    for (uint64_t at = hash & v->slot_mask;; at = (at + 1) & v->slot_mask) {
        *slot = at;
        if (v->slots[at] == 0 || is_token(v, v->slots[at] - 1, word))
            return (int64_t)v->slots[at] - 1;
    }
}

int64_t sheaf__vocabulary_find_bytes(const struct sheaf_vocabulary *v, sheaf_bytes word,
                                     uint64_t *slot)
{
    return find_hashed(v, word, sheaf__fingerprint64(word.data, word.size), slot);
}

int64_t sheaf__vocabulary_find_integer(const struct sheaf_vocabulary *v, int64_t word,
                                       uint64_t *slot)
{
    const int64_t *tokens = v->tokens->data;
    for (uint64_t at = hash_integer(word) & v->slot_mask;; at = (at + 1) & v->slot_mask) {
        *slot = at;
        if (v->slots[at] == 0 || tokens[v->slots[at] - 1] == word)
            return (int64_t)v->slots[at] - 1;
    }
}

/* ---- words to indices ---- */

/* Index of a string; -1: it has none. */
static int64_t index_of_bytes(const struct sheaf_vocabulary *v, sheaf_bytes word)
{
    uint64_t slot, hash = sheaf__fingerprint64(word.data, word.size);
    const sheaf_bytes *mask = v->mask ? v->mask->data : NULL;
    if (mask && mask->size == word.size &&
        (word.size == 0 || memcmp(mask->data, word.data, word.size) == 0))
        return 0;
    int64_t token = find_hashed(v, word, hash, &slot);
    if (token >= 0)
        return v->start + token;
    return v->buckets > 0 ? (v->mask != NULL) + (int64_t)(hash % (uint64_t)v->buckets) : -1;
}

static int64_t index_of_integer(const struct sheaf_vocabulary *v, int64_t word)
{
    uint64_t slot;
    if (v->mask && *(const int64_t *)v->mask->data == word)
        return 0;
    int64_t token = sheaf__vocabulary_find_integer(v, word, &slot);
    if (token >= 0)
        return v->start + token;
    if (v->buckets == 0)
        return -1;
    int64_t bucket = word % v->buckets;
    return (v->mask != NULL) + bucket + (bucket < 0 ? v->buckets : 0);
}

static int64_t index_at(const struct sheaf_vocabulary *v, const sheaf_tensor *t, const void *words,
                        int64_t i)
{
    if (!v->integers)
        return index_of_bytes(v, ((const sheaf_bytes *)words)[i]);
    return index_of_integer(v, t->dtype == SHEAF_INT32 ? ((const int32_t *)words)[i]
                                                       : ((const int64_t *)words)[i]);
}

/* Names the words that have no index, the first few of them. */
static __attribute__((cold)) void no_index(const struct sheaf_vocabulary *v, const sheaf_tensor *t,
                                           const void *words, sheaf_error *err)
{
    struct sheaf__str text = {0};
    int listed = 0;
    for (int64_t i = 0; i < sheaf_shape_elements(t->shape) && listed < 5; i++) {
        if (index_at(v, t, words, i) >= 0)
            continue;
        sheaf__str_add(&text, listed++ > 0 ? ", " : "");
        if (v->integers) {
            sheaf__str_printf(&text, "%lld", (long long)sheaf_tensor_integer(t, i));
        } else {
            sheaf_bytes word = sheaf_tensor_bytes(t, i);
            sheaf__str_char(&text, '"');
            sheaf__str_json(&text, word.data, word.size < 30 ? word.size : 30);
            sheaf__str_char(&text, '"');
        }
    }
    sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                 "the vocabulary does not have %s, and no index for unknown words",
                 sheaf__str_text(&text));
    sheaf__str_free(&text);
}

static sheaf_tensor *to_indices(const struct sheaf_vocabulary *v, const sheaf_tensor *t,
                                const void *words, sheaf_error *err)
{
    sheaf_tensor *out = sheaf__tensor_new(SHEAF_INT64, t->shape, NULL, err);
    int64_t *indices = out ? out->data : NULL, n = out ? sheaf_shape_elements(t->shape) : 0;
    for (int64_t i = 0; i < n; i++) {
        indices[i] = index_at(v, t, words, i);
        if (indices[i] < 0) {
            no_index(v, t, words, err);
            sheaf__unref(out);
            return NULL;
        }
    }
    return out;
}

/* ---- indices to words ---- */

/* Where the word of an index stands. */
static const void *word_of(const struct sheaf_vocabulary *v, int64_t index)
{
    if (index == 0 && v->mask)
        return v->mask->data;
    if (index < v->start || index - v->start >= v->count)
        return v->unknown->data;
    return (const char *)v->tokens->data +
           (size_t)(index - v->start) * sheaf_dtype_size(v->tokens->dtype);
}

/* Lets the bytes of all words live as long as the strings of `t`. */
static sheaf_status keep_words(const struct sheaf_vocabulary *v, sheaf_tensor *t, sheaf_error *err)
{
    if (v->integers || !t->buffer)
        return SHEAF_OK;
    return sheaf__string_keep(t, (void *)(uintptr_t)v, err);
}

static void put_word(const struct sheaf_vocabulary *v, sheaf_tensor *t, int64_t i, int64_t index)
{
    size_t size = sheaf_dtype_size(t->dtype);
    memcpy((char *)t->data + (size_t)i * size, word_of(v, index), size);
}

static sheaf_tensor *to_words(const struct sheaf_vocabulary *v, const sheaf_tensor *t,
                              sheaf_error *err)
{
    sheaf_tensor *out = sheaf__tensor_new(sheaf__vocabulary_dtype(v), t->shape, NULL, err);
    if (out && keep_words(v, out, err) < 0) {
        sheaf__unref(out);
        return NULL;
    }
    for (int64_t i = 0; out && i < sheaf_shape_elements(t->shape); i++)
        put_word(v, out, i, sheaf_tensor_integer(t, i));
    return out;
}

sheaf_tensor *sheaf_vocabulary_tokens(const sheaf_vocabulary *v)
{
    sheaf_error err;
    if (!v)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "the vocabulary is NULL");
    sheaf_tensor *t = sheaf__tensor_new(sheaf__vocabulary_dtype(v),
                                        SHEAF_SHAPE(sheaf_vocabulary_size(v)), NULL, &err);
    if (t && keep_words(v, t, &err) < 0) {
        sheaf__unref(t);
        t = NULL;
    }
    for (int64_t i = 0; t && i < sheaf_vocabulary_size(v); i++)
        put_word(v, t, i, i);
    return sheaf__tensor_give(t, &err);
}

/* ---- both ---- */

/* Part `which` looked up, the other as it is. */
static sheaf_tensor *lookup_part(const struct sheaf_vocabulary *v, const sheaf_tensor *t, int which,
                                 sheaf_error *err)
{
    sheaf_tensor *parts[2] = {t->parts[0], t->parts[1]};
    parts[which] = sheaf__lookup(v, t->parts[which], err);
    sheaf_tensor *out = NULL;
    if (parts[which])
        out = sheaf__tensor_compose(t->layout, parts[0], parts[1], parts[which]->dtype, t->shape,
                                    err);
    sheaf__unref(parts[which]);
    return out;
}

sheaf_tensor *sheaf__lookup(const struct sheaf_vocabulary *v, const sheaf_tensor *t,
                            sheaf_error *err)
{
    if (t->layout == SHEAF__SPARSE)
        return lookup_part(v, t, SHEAF__VALUES, err);
    if (t->layout == SHEAF__RAGGED)
        return lookup_part(v, t, SHEAF__RAGGED_VALUES, err);
    bool strings = !v->integers && !v->invert;
    bool integers = t->dtype == SHEAF_INT32 || t->dtype == SHEAF_INT64;
    if (t->layout != SHEAF__DENSE || (strings ? t->dtype != SHEAF_STRING : !integers)) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "look-up of %s, expected %s",
                     sheaf_dtype_name(t->dtype),
                     strings     ? "strings"
                     : v->invert ? "indices, int32 or int64"
                                 : "int32 or int64");
        return NULL;
    }
    const void *words = sheaf__tensor_host(t, err);
    if (!words)
        return NULL;
    return v->invert ? to_words(v, t, err) : to_indices(v, t, words, err);
}

sheaf_tensor *sheaf_lookup(const sheaf_vocabulary *vocabulary, sheaf_tensor *t)
{
    sheaf_tensor *bad = sheaf__tensor_first_failed(&t, 1);
    sheaf_error err;
    if (bad)
        return bad;
    if (!vocabulary)
        return sheaf__tensor_fail(SHEAF_ERR_INVALID_ARGUMENT, "the vocabulary is NULL");
    return sheaf__tensor_give(sheaf__lookup(vocabulary, t, &err), &err);
}
