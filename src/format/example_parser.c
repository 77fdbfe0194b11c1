/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "format/example_parse.h"
#include "tensor/element.h"
#include "tensor/strings.h"

#include <string.h>

static void destroy(void *object)
{
    struct sheaf__example_parser *parser = object;
    for (size_t i = 0; parser->plans && i < parser->count; i++) {
        struct sheaf__example_plan *plan = &parser->plans[i];
        sheaf__free((void *)(uintptr_t)plan->feature.key);
        sheaf__free(plan->defaults);
    }
    sheaf__free(parser->plans);
    sheaf__free(parser->table);
    sheaf__free(parser);
}

static const struct sheaf__class parser_class = {"example parser", destroy};

static sheaf_status check_dtype(struct sheaf__example_plan *plan, sheaf_error *err)
{
    switch (plan->feature.dtype) {
    case SHEAF_INT64:
        plan->kind = SHEAF__EXAMPLE_INT64;
        break;
    case SHEAF_FLOAT32:
        plan->kind = SHEAF__EXAMPLE_FLOAT;
        break;
    case SHEAF_STRING:
        plan->kind = SHEAF__EXAMPLE_BYTES;
        break;
    default:
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "feature \"%s\" has dtype %s, expected int64, float32 or string",
                            plan->feature.key, sheaf_dtype_name(plan->feature.dtype));
    }
    plan->item = sheaf_dtype_size(plan->feature.dtype);
    return SHEAF_OK;
}

static sheaf_status bad_shape(const sheaf_feature *f, int axis, sheaf_error *err)
{
    return sheaf__error(
        err, SHEAF_ERR_INVALID_ARGUMENT,
        "feature \"%s\" has size %lld along axis %d, expected 0 or more, or unknown "
        "along axis 0",
        f->key, (long long)f->dims[axis], axis);
}

/* Values of a row of a FIXED feature. */
static sheaf_status check_shape(struct sheaf__example_plan *plan, sheaf_error *err)
{
    const sheaf_feature *f = &plan->feature;
    if ((unsigned)f->kind > SHEAF_FEATURE_RAGGED)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "feature \"%s\" has kind %d, expected 0 to %d (sheaf_feature_kind)",
                            f->key, (int)f->kind, SHEAF_FEATURE_RAGGED);
    plan->row = 1;
    if (f->kind != SHEAF_FEATURE_FIXED)
        return SHEAF_OK;
    if (f->rank < 0 || f->rank > 4)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "feature \"%s\" has %d axes, expected 0 to 4", f->key, f->rank);
    plan->padded = f->rank > 0 && f->dims[0] == SHEAF_UNKNOWN_DIM;
    plan->fixed = !plan->padded;
    for (int axis = plan->padded; axis < f->rank; axis++) {
        if (f->dims[axis] < 0)
            return bad_shape(f, axis, err);
        if (sheaf__mul_overflows(plan->row, (size_t)f->dims[axis], &plan->row) ||
            plan->row > SIZE_MAX / 2 / plan->item)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "feature \"%s\" is too large",
                                f->key);
    }
    if (plan->padded && plan->row == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "feature \"%s\" has an unknown size and one of 0", f->key);
    return SHEAF_OK;
}

/* The default values and, behind them, the bytes of strings. */
static sheaf_status copy_defaults(struct sheaf__example_plan *plan, sheaf_error *err)
{
    const void *given = plan->feature.default_value;
    plan->feature.default_value = NULL;
    if (!given || plan->feature.kind != SHEAF_FEATURE_FIXED)
        return SHEAF_OK;
    size_t count = plan->padded ? 1 : plan->row, size = count * plan->item;
    const sheaf_bytes *strings = plan->kind == SHEAF__EXAMPLE_BYTES ? given : NULL;
    if (strings && sheaf__strings_check(strings, count, "default", err) < 0) {
        sheaf__error_prefix(err, "feature \"%s\"", plan->feature.key);
        return SHEAF_ERR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; strings && i < count; i++) {
        if (sheaf__add_overflows(size, strings[i].size, &size))
            return sheaf__no_memory(err, "a feature");
    }
    plan->defaults = sheaf__alloc(size);
    if (!plan->defaults)
        return sheaf__no_memory(err, "a feature");
    if (count)
        memcpy(plan->defaults, given, count * plan->item);
    char *bytes = (char *)plan->defaults + count * plan->item;
    for (size_t i = 0; strings && i < count; i++) {
        if (strings[i].size)
            memcpy(bytes, strings[i].data, strings[i].size);
        ((sheaf_bytes *)plan->defaults)[i].data = bytes;
        bytes += strings[i].size;
    }
    plan->feature.default_value = plan->defaults;
    return SHEAF_OK;
}

static sheaf_status make_plan(struct sheaf__example_plan *plan, const sheaf_feature *feature,
                              size_t number, sheaf_error *err)
{
    if (!feature->key)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "feature %zu has no key", number);
    for (size_t i = 0; i < sizeof(feature->reserved) / sizeof(feature->reserved[0]); i++)
        if (feature->reserved[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "feature \"%s\": reserved field %zu is set, expected 0",
                                feature->key, i);
    plan->feature = *feature;
    plan->feature.key = sheaf__strdup(feature->key);
    plan->feature.name = sheaf__name(feature->name ? feature->name : feature->key);
    if (!plan->feature.key || !plan->feature.name)
        return sheaf__no_memory(err, "a feature");
    plan->key_size = strlen(feature->key);
    SHEAF__TRY(check_dtype(plan, err));
    SHEAF__TRY(check_shape(plan, err));
    return copy_defaults(plan, err);
}

int sheaf__example_find(const struct sheaf__example_parser *parser, const void *key, size_t size)
{
    for (size_t at = sheaf__hash(key, size);; at++) {
        uint32_t entry = parser->table[at & (parser->table_size - 1)];
        if (!entry)
            return -1;
        const struct sheaf__example_plan *plan = &parser->plans[entry - 1];
        if (plan->key_size == size && memcmp(plan->feature.key, key, size) == 0)
            return (int)entry - 1;
    }
}

static void insert(struct sheaf__example_parser *parser, size_t number)
{
    const struct sheaf__example_plan *plan = &parser->plans[number];
    size_t at = sheaf__hash(plan->feature.key, plan->key_size);
    while (parser->table[at & (parser->table_size - 1)])
        at++;
    parser->table[at & (parser->table_size - 1)] = (uint32_t)number + 1;
}

static sheaf_status make_plans(struct sheaf__example_parser *parser, const sheaf_feature *features,
                               sheaf_error *err)
{
    for (size_t i = 0; i < parser->count; i++) {
        struct sheaf__example_plan *plan = &parser->plans[i];
        SHEAF__TRY(make_plan(plan, &features[i], i, err));
        if (sheaf__example_find(parser, plan->feature.key, plan->key_size) >= 0)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "two features have key \"%s\"",
                                plan->feature.key);
        for (size_t k = 0; k < i; k++) {
            if (parser->plans[k].feature.name == plan->feature.name)
                return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                    "two features have name \"%s\"", plan->feature.name);
        }
        insert(parser, i);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__example_parser_new(const sheaf_feature *features, size_t count,
                                       struct sheaf__example_parser **parser, sheaf_error *err)
{
    if (count > INT32_MAX / 4)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%zu features are too many", count);
    if (!features && count > 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the %zu features are NULL", count);
    struct sheaf__example_parser *p = sheaf__calloc(1, sizeof(*p));
    if (!p)
        return sheaf__no_memory(err, "a parser of examples");
    sheaf__object_init(&p->object, &parser_class);
    p->table_size = 8;
    while (p->table_size < 2 * count)
        p->table_size *= 2;
    p->count = count;
    p->plans = sheaf__calloc(count, sizeof(*p->plans));
    p->table = sheaf__calloc(p->table_size, sizeof(*p->table));
    sheaf_status status;
    if (!p->plans || !p->table)
        status = sheaf__no_memory(err, "a parser of examples");
    else
        status = make_plans(p, features, err);
    if (status < 0) {
        sheaf__unref(p);
        return status;
    }
    *parser = p;
    return SHEAF_OK;
}

struct sheaf__example_parser *sheaf__example_parser_ref(struct sheaf__example_parser *parser)
{
    return sheaf__ref(parser);
}

void sheaf__example_parser_free(struct sheaf__example_parser *parser)
{
    sheaf__unref(parser);
}

size_t sheaf__example_parser_size(const struct sheaf__example_parser *parser)
{
    return parser->count;
}

const sheaf_feature *sheaf__example_parser_feature(const struct sheaf__example_parser *parser,
                                                   size_t i)
{
    return &parser->plans[i].feature;
}
