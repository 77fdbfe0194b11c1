/* SPDX-License-Identifier: Apache-2.0 */
#include "format/vocabulary.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <string.h>

/* Making vocabularies (R10.23-R10.29). */

static void destroy(void *object)
{
    struct sheaf_vocabulary *v = object;
    sheaf__unref(v->mask);
    sheaf__unref(v->unknown);
    sheaf__unref(v->tokens);
    sheaf__free(v->slots);
    sheaf__free(v);
}

static const struct sheaf__class vocabulary_class = {"vocabulary", destroy};

sheaf_dtype sheaf__vocabulary_dtype(const struct sheaf_vocabulary *v)
{
    return v->integers ? SHEAF_INT64 : SHEAF_STRING;
}

static sheaf_bytes word_at(const sheaf_tensor *t, int64_t i)
{
    return ((const sheaf_bytes *)t->data)[i];
}
static int64_t number_at(const sheaf_tensor *t, int64_t i)
{
    return ((const int64_t *)t->data)[i];
}

/* Word `i` as text, for messages. */
static const char *show(const sheaf_tensor *t, int64_t i, char text[80])
{
    struct sheaf__str str = {0};
    if (t->dtype == SHEAF_STRING) {
        sheaf_bytes word = word_at(t, i);
        sheaf__str_char(&str, '"');
        sheaf__str_json(&str, word.data ? word.data : "", word.size < 60 ? word.size : 60);
        sheaf__str_char(&str, '"');
    } else {
        sheaf__str_printf(&str, "%lld", (long long)number_at(t, i));
    }
    sheaf__str_copy(text, 80, sheaf__str_text(&str));
    sheaf__str_free(&str);
    return text;
}

static bool same_word(const sheaf_tensor *a, int64_t i, const sheaf_tensor *b, int64_t k)
{
    if (a->dtype != SHEAF_STRING)
        return number_at(a, i) == number_at(b, k);
    sheaf_bytes x = word_at(a, i), y = word_at(b, k);
    return x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0);
}

/* ---- words as given ---- */

static bool is_integer(sheaf_dtype dtype)
{
    return dtype == SHEAF_INT32 || dtype == SHEAF_INT64;
}

/* A copy on the host, row-major, integers as int64; the caller's count. */
static sheaf_tensor *copy_words(const struct sheaf_vocabulary *v, const sheaf_tensor *t, int rank,
                                const char *what, sheaf_error *err)
{
    if (t->error) {
        sheaf__error_copy(err, t->error);
        return NULL;
    }
    bool fits = v->integers ? is_integer(t->dtype) : t->dtype == SHEAF_STRING;
    if (!fits || t->layout != SHEAF__DENSE || t->shape.rank != rank) {
        sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s: %s of shape %s, expected %s of %d axes",
                     what, sheaf_dtype_name(t->dtype), SHEAF__SHAPE_TEXT(t->shape),
                     v->integers ? "int32 or int64" : "strings", rank);
        return NULL;
    }
    const void *words = sheaf__tensor_host(t, err);
    if (!words)
        return NULL;
    if (!v->integers)
        return sheaf__string_copy(t->shape, words, err);
    sheaf_tensor *copy = sheaf__tensor_new(SHEAF_INT64, t->shape, NULL, err);
    for (int64_t i = 0; copy && i < sheaf_shape_elements(t->shape); i++)
        ((int64_t *)copy->data)[i] = sheaf_tensor_integer(t, i);
    return copy;
}

static sheaf_status check_options(const sheaf_vocabulary_options *o, sheaf_error *err)
{
    for (size_t i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
        if (o->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "reserved option %zu of a vocabulary is set, expected 0", i);
    if (!o->tokens == !o->file)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a vocabulary from %s, expected either tokens or a file",
                            o->file ? "tokens and a file" : "neither tokens nor a file");
    if (o->file && o->file_dtype != SHEAF_INVALID_DTYPE && o->file_dtype != SHEAF_STRING &&
        o->file_dtype != SHEAF_INT64)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "file_dtype is %s, expected string or int64",
                            sheaf_dtype_name(o->file_dtype));
    if (o->unknown_indices < 0 || (o->no_unknown && o->unknown_indices > 0))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "unknown_indices is %lld%s, expected 0 or more, and 0 with no_unknown",
                            (long long)o->unknown_indices, o->no_unknown ? " with no_unknown" : "");
    if (o->max_tokens < 0 || o->max_tokens == 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "max_tokens is %lld, expected more than 1, or 0 for any number",
                            (long long)o->max_tokens);
    return SHEAF_OK;
}

static sheaf_status take_specials(struct sheaf_vocabulary *v, const sheaf_vocabulary_options *o,
                                  sheaf_error *err)
{
    static const sheaf_bytes unknown = {"[UNK]", 5};
    if (o->mask && !(v->mask = copy_words(v, o->mask, 0, "the mask token", err)))
        return err->status;
    if (o->unknown) {
        v->unknown = copy_words(v, o->unknown, 0, "the token for unknown words", err);
    } else if (v->integers) {
        v->unknown = sheaf__tensor_new(SHEAF_INT64, SHEAF_SCALAR, NULL, err);
        if (v->unknown)
            *(int64_t *)v->unknown->data = -1;
    } else {
        v->unknown = sheaf__string_copy(SHEAF_SCALAR, &unknown, err);
    }
    v->buckets = o->no_unknown ? 0 : o->unknown_indices > 0 ? o->unknown_indices : 1;
    v->start = v->buckets + (v->mask != NULL);
    return v->unknown ? SHEAF_OK : err->status;
}

/* ---- tokens of a list ---- */

static bool starts_with_specials(const struct sheaf_vocabulary *v, const sheaf_tensor *all)
{
    bool starts = all->shape.dims[0] >= v->start;
    for (int64_t i = 0; starts && i < v->start; i++)
        starts = same_word(all, i, v->mask && i == 0 ? v->mask : v->unknown, 0);
    return starts;
}

/* R10.28. */
static sheaf_status check_list(const struct sheaf_vocabulary *v, sheaf_error *err)
{
    for (int64_t i = 0; i < v->count; i++) {
        bool mask = v->mask && same_word(v->tokens, i, v->mask, 0);
        char text[80];
        if (mask || (v->invert && same_word(v->tokens, i, v->unknown, 0)))
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "token %lld is %s, %s: special tokens stand first, mask and then "
                                "%lld for unknown words, or nowhere",
                                (long long)i, show(v->tokens, i, text),
                                mask ? "the mask" : "the token for unknown words",
                                (long long)v->buckets);
    }
    return SHEAF_OK;
}

static sheaf_status take_list(struct sheaf_vocabulary *v, const sheaf_vocabulary_options *o,
                              sheaf_error *err)
{
    sheaf_tensor *all = copy_words(v, o->tokens, 1, "the tokens", err);
    if (!all)
        return err->status;
    int64_t skip = starts_with_specials(v, all) ? v->start : 0;
    v->tokens = sheaf__tensor_slice(all, skip, all->shape.dims[0], err);
    sheaf__unref(all);
    if (!v->tokens)
        return err->status;
    v->count = v->tokens->shape.dims[0];
    SHEAF__TRY(check_list(v, err));
    if (o->max_tokens > 0 && v->count + v->start > o->max_tokens)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "%lld tokens with the special ones, max_tokens is %lld",
                            (long long)(v->count + v->start), (long long)o->max_tokens);
    return SHEAF_OK;
}

/* ---- tokens of a file ---- */

struct lines {
    const char *path;
    const char *at, *end;
    int64_t number; /* of the line */
};

/* The next line without its end, LF or CR LF. */
static bool next_line(struct lines *l, sheaf_bytes *line)
{
    if (l->at == l->end)
        return false;
    const char *lf = memchr(l->at, '\n', (size_t)(l->end - l->at));
    const char *stop = lf ? lf : l->end;
    *line = (sheaf_bytes){l->at, (size_t)(stop - l->at)};
    if (line->size > 0 && line->data[line->size - 1] == '\r')
        line->size--;
    l->at = lf ? lf + 1 : stop;
    l->number++;
    return true;
}

static sheaf_status bad_line(const struct lines *l, const char *what, sheaf_error *err)
{
    const struct sheaf__place place = {l->path, (uint64_t)(l->number - 1), SHEAF__UNKNOWN};
    return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &place, "line %lld is %s",
                           (long long)l->number, what);
}

/* A number with blanks around it, as TensorFlow takes it. */
static bool parse_integer(sheaf_bytes line, int64_t *value)
{
    static const char blanks[] = " \t\v\f\r";
    char text[32];
    while (line.size > 0 && strchr(blanks, line.data[0])) {
        line.data++;
        line.size--;
    }
    while (line.size > 0 && strchr(blanks, line.data[line.size - 1]))
        line.size--;
    if (line.size > 1 && line.data[0] == '+' && line.data[1] != '-') {
        line.data++;
        line.size--;
    }
    if (line.size >= sizeof(text) || memchr(line.data, '\0', line.size))
        return false;
    memcpy(text, line.data, line.size);
    text[line.size] = '\0';
    return sheaf__str_to_int(text, value);
}

/* Reads the lines into an array of words. */
static sheaf_status read_lines(const struct sheaf_vocabulary *v, struct lines *l,
                               struct sheaf__buf *words, sheaf_error *err)
{
    sheaf_bytes line;
    while (next_line(l, &line)) {
        int64_t number;
        if (line.size == 0)
            return bad_line(l, "empty, expected a token", err);
        if (!v->integers)
            sheaf__buf_bytes(words, &line, sizeof(line));
        else if (parse_integer(line, &number))
            sheaf__buf_bytes(words, &number, sizeof(number));
        else
            return bad_line(l, "no int64", err);
    }
    return sheaf__buf_check(words, "the tokens of a vocabulary", err);
}

/* R10.29. */
static sheaf_status check_file(const struct sheaf_vocabulary *v, struct lines *l, sheaf_error *err)
{
    for (int64_t i = 0; i < v->count; i++) {
        bool mask = v->mask && same_word(v->tokens, i, v->mask, 0);
        l->number = i + 1;
        if (mask || same_word(v->tokens, i, v->unknown, 0))
            return bad_line(
                l,
                mask ? "the mask token, expected a file without special tokens"
                     : "the token for unknown words, expected a file without special tokens",
                err);
    }
    return SHEAF_OK;
}

static sheaf_status take_words(struct sheaf_vocabulary *v, struct lines *l, sheaf_error *err)
{
    struct sheaf__buf words = {0};
    sheaf_status status = read_lines(v, l, &words, err);
    v->count = l->number;
    if (status >= 0 && v->integers) {
        v->tokens = sheaf__tensor_new(SHEAF_INT64, SHEAF_SHAPE(v->count), NULL, err);
        if (v->tokens && words.size > 0)
            memcpy(v->tokens->data, words.data, words.size);
    } else if (status >= 0) {
        v->tokens = sheaf__string_copy(SHEAF_SHAPE(v->count), (void *)words.data, err);
    }
    if (status >= 0)
        status = v->tokens ? check_file(v, l, err) : err->status;
    sheaf__buf_free(&words);
    return status;
}

static sheaf_status take_file(struct sheaf_vocabulary *v, const char *path, sheaf_error *err)
{
    struct sheaf__map *map = NULL;
    sheaf_status status = sheaf__file_load(path, &map, err);
    if (status == SHEAF_ERR_NOT_FOUND) /* a bad argument to TensorFlow, too */
        status = err->status = SHEAF_ERR_INVALID_ARGUMENT;
    if (status < 0)
        return status;
    const char *data = (const char *)map->data;
    struct lines l = {.path = path, .at = data, .end = data + map->size};
    status = take_words(v, &l, err);
    sheaf__unref(map);
    return status;
}

/* ---- the hash table ---- */

static sheaf_status repeated(const struct sheaf_vocabulary *v, int64_t first, int64_t again,
                             bool file, sheaf_error *err)
{
    char text[80];
    return sheaf__error(err, file ? SHEAF_ERR_FAILED_PRECONDITION : SHEAF_ERR_INVALID_ARGUMENT,
                        "%s is in the vocabulary twice: %s %lld and %lld",
                        show(v->tokens, again, text), file ? "lines" : "tokens",
                        (long long)first + file, (long long)again + file);
}

static sheaf_status index_tokens(struct sheaf_vocabulary *v, bool file, sheaf_error *err)
{
    uint64_t slots = 16, slot;
    if (v->count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the vocabulary has no tokens");
    if (v->count > INT32_MAX)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%lld tokens are too many",
                            (long long)v->count);
    while (slots < 2 * (uint64_t)v->count)
        slots *= 2;
    v->slot_mask = slots - 1;
    v->slots = sheaf__calloc(slots, sizeof(*v->slots));
    if (!v->slots)
        return sheaf__no_memory(err, "a vocabulary");
    for (int64_t i = 0; i < v->count; i++) {
        int64_t there = v->integers
                            ? sheaf__vocabulary_find_integer(v, number_at(v->tokens, i), &slot)
                            : sheaf__vocabulary_find_bytes(v, word_at(v->tokens, i), &slot);
        if (there >= 0 && file && v->invert)
            continue; /* two indices of one word */
        if (there >= 0)
            return repeated(v, there, i, file, err);
        v->slots[slot] = (uint32_t)i + 1;
    }
    return SHEAF_OK;
}

/* ---- public ---- */

static sheaf_status fill(struct sheaf_vocabulary *v, const sheaf_vocabulary_options *o,
                         sheaf_error *err)
{
    v->integers =
        o->file ? o->file_dtype == SHEAF_INT64 : is_integer(sheaf_tensor_dtype(o->tokens));
    v->invert = o->invert;
    SHEAF__TRY(take_specials(v, o, err));
    SHEAF__TRY(o->file ? take_file(v, o->file, err) : take_list(v, o, err));
    return index_tokens(v, o->file != NULL, err);
}

sheaf_status sheaf_vocabulary_new(const sheaf_vocabulary_options *options,
                                  sheaf_vocabulary **vocabulary, sheaf_error *err)
{
    sheaf_error own;
    err = err ? err : &own;
    if (!options)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a vocabulary without options");
    SHEAF__TRY(check_options(options, err));
    struct sheaf_vocabulary *v = sheaf__calloc(1, sizeof(*v));
    if (!v)
        return sheaf__no_memory(err, "a vocabulary");
    sheaf__object_init(&v->object, &vocabulary_class);
    sheaf_status status = fill(v, options, err);
    if (status >= 0)
        *vocabulary = v;
    else
        sheaf__unref(v);
    return status < 0 ? status : SHEAF_OK;
}

sheaf_vocabulary *sheaf_vocabulary_ref(sheaf_vocabulary *vocabulary)
{
    return sheaf__ref(vocabulary);
}

void sheaf_vocabulary_free(sheaf_vocabulary *vocabulary)
{
    sheaf__unref(vocabulary);
}

int64_t sheaf_vocabulary_size(const sheaf_vocabulary *v)
{
    return v ? v->start + v->count : 0;
}
