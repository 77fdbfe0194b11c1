/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"
#include "base/str.h"
#include "format/wire.h"

#include <sheaf/example.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One list of a feature while its values are counted and written. */
struct list {
    uint32_t kind; /* 1 bytes, 2 float, 3 int64; 0: none */
    size_t count;
    size_t most;
    bool json;
    struct sheaf__str *values;
};

/* Counts one more; false if it is not to be written. */
static bool begin_value(struct list *l)
{
    if (l->count++ >= l->most)
        return false;
    if (!l->json)
        sheaf__str_char(l->values, ' ');
    else if (l->count > 1)
        sheaf__str_char(l->values, ',');
    return true;
}

static void add_bytes(struct list *l, const uint8_t *data, size_t size)
{
    if (!begin_value(l))
        return;
    if (l->json) {
        sheaf__base64_json(l->values, data, size);
        return;
    }
    sheaf__str_char(l->values, '"');
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '"' || data[i] == '\\')
            sheaf__str_printf(l->values, "\\%c", data[i]);
        else if (data[i] < 0x20 || data[i] >= 0x7f)
            sheaf__str_printf(l->values, "\\x%02x", data[i]);
        else
            sheaf__str_char(l->values, (char)data[i]);
    }
    sheaf__str_char(l->values, '"');
}

static void add_float(struct list *l, uint32_t bits)
{
    if (!begin_value(l))
        return;
    float v;
    memcpy(&v, &bits, sizeof(v));
    if (l->json && !isfinite(v)) {
        sheaf__str_add(l->values, isnan(v) ? "\"NaN\"" : v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    char text[32];
    for (int digits = 6; digits <= 9; digits++) { /* as few as read back the same */
        snprintf(text, sizeof(text), "%.*g", digits, (double)v);
        char *comma = strchr(text, ','); /* of the program's locale */
        if (comma)
            *comma = '.';
        double back;
        if (sheaf__str_to_double(text, &back) && (float)back == v)
            break;
    }
    sheaf__str_add(l->values, text);
}

static void add_int(struct list *l, uint64_t v)
{
    if (begin_value(l))
        sheaf__str_printf(l->values, "%" PRId64, (int64_t)v);
}

/* A packed list. */
static bool add_packed(struct list *l, const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    if (l->kind == 2) {
        for (; end - at >= 4; at += 4)
            add_float(l, sheaf__load32(at));
        return at == end;
    }
    uint64_t v;
    while (at && at < end) {
        at = sheaf__wire_varint(at, end, &v);
        if (at)
            add_int(l, v);
    }
    return at != NULL;
}

static bool read_list(struct list *l, const uint8_t *data, size_t size)
{
    struct sheaf__cursor c = sheaf__cursor_of(data, size);
    struct sheaf__wire_field f;
    while (sheaf__wire_next(&c, &f)) {
        if (f.number != 1)
            continue;
        if (f.type == SHEAF__WIRE_BYTES && l->kind == 1)
            add_bytes(l, f.bytes.data, f.bytes.size);
        else if (f.type == SHEAF__WIRE_BYTES && !add_packed(l, f.bytes.data, f.bytes.size))
            return false;
        else if (f.type == SHEAF__WIRE_FIXED32 && l->kind == 2)
            add_float(l, (uint32_t)f.value);
        else if (f.type == SHEAF__WIRE_VARINT && l->kind == 3)
            add_int(l, f.value);
    }
    return !c.failed;
}

static bool read_feature(struct list *l, const uint8_t *data, size_t size)
{
    struct sheaf__cursor c = sheaf__cursor_of(data, size);
    struct sheaf__wire_field f;
    while (sheaf__wire_next(&c, &f)) {
        if (f.number > 3 || f.type != SHEAF__WIRE_BYTES)
            continue;
        if (l->kind != f.number) {
            l->kind = f.number;
            l->count = 0;
            sheaf__str_clear(l->values);
        }
        if (!read_list(l, f.bytes.data, f.bytes.size))
            return false;
    }
    return !c.failed;
}

static void write_list(struct sheaf__str *text, const char *key, size_t key_size,
                       const struct list *l)
{
    static const char *const kinds[] = {"none", "bytes", "float", "int64"};
    const char *values = sheaf__str_text(l->values);
    if (text->size > l->json)
        sheaf__str_char(text, l->json ? ',' : '\n');
    sheaf__str_add(text, l->json ? "\"" : "");
    sheaf__str_json(text, key, key_size);
    if (l->json)
        sheaf__str_printf(text, "\":[%s]", values);
    else
        sheaf__str_printf(text, ": %s[%zu]%s%s", kinds[l->kind], l->count, values,
                          l->count > l->most ? " …" : "");
    text->failed |= l->values->failed;
}

static bool write_entry(struct sheaf__str *text, const uint8_t *data, size_t size, size_t most,
                        bool json)
{
    struct sheaf__cursor c = sheaf__cursor_of(data, size);
    struct sheaf__wire_field f;
    struct sheaf__str values = {0};
    struct list l = {.most = most, .json = json, .values = &values};
    const char *key = "";
    size_t key_size = 0;
    bool right = true;
    while (right && sheaf__wire_next(&c, &f)) {
        if (f.type != SHEAF__WIRE_BYTES)
            continue;
        if (f.number == 1) {
            key = (const char *)f.bytes.data;
            key_size = f.bytes.size;
        } else if (f.number == 2) {
            right = read_feature(&l, f.bytes.data, f.bytes.size);
        }
    }
    write_list(text, key, key_size, &l);
    sheaf__str_free(&values);
    return right && !c.failed;
}

static size_t format(sheaf_bytes serialized, size_t most, bool json, char *text, size_t size)
{
    struct sheaf__cursor c = sheaf__cursor_of(serialized.data, serialized.size);
    struct sheaf__wire_field f, entry;
    struct sheaf__str out = {0};
    bool right = serialized.data || !serialized.size;
    sheaf__str_add(&out, json ? "{" : "");
    while (right && sheaf__wire_next(&c, &f)) {
        if (f.number != 1 || f.type != SHEAF__WIRE_BYTES)
            continue;
        struct sheaf__cursor map = sheaf__cursor_of(f.bytes.data, f.bytes.size);
        while (right && sheaf__wire_next(&map, &entry)) {
            if (entry.number == 1 && entry.type == SHEAF__WIRE_BYTES)
                right = write_entry(&out, entry.bytes.data, entry.bytes.size, most, json);
        }
        right = right && !map.failed;
    }
    sheaf__str_add(&out, json ? "}" : "");
    right = right && !c.failed && !out.failed;
    size_t length = right ? out.size : 0;
    if (size)
        sheaf__str_copy(text, size, right ? sheaf__str_text(&out) : "");
    sheaf__str_free(&out);
    return length;
}

size_t sheaf_example_format(sheaf_bytes serialized, size_t most, char *text, size_t size)
{
    return format(serialized, most, false, text, size);
}

size_t sheaf_example_json(sheaf_bytes serialized, size_t most, char *text, size_t size)
{
    return format(serialized, most, true, text, size);
}
