/* SPDX-License-Identifier: Apache-2.0 */
#include "format/sidecar.h"

#include "base/array.h"
#include "base/base64.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "tensor/decimal.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define SIZE_LIMIT   (16 << 20)
#define CHECK_FORMAT ",\n  \"crc32c\": \"%08x\"\n}\n" /* the end of the file */
enum { CHECK_SIZE = sizeof(CHECK_FORMAT) - 1 + 8 - 4 };

char *sheaf__sidecar_path(const char *prefix)
{
    const char *name = sheaf__path_name(prefix);
    return sheaf__printf("%.*s.%s.sheaf", (int)(name - prefix), prefix, name);
}

void sheaf__sidecar_free(struct sheaf__sidecar *s)
{
    sheaf__free(s->description);
    sheaf__free(s->run_id);
    for (size_t i = 0; i < s->note_count; i++) {
        sheaf__free(s->notes[i].task);
        sheaf__free(s->notes[i].text);
    }
    for (size_t i = 0; i < s->blob_count; i++) {
        sheaf__free(s->blobs[i].name);
        sheaf__free(s->blobs[i].data);
    }
    sheaf__free(s->notes);
    sheaf__free(s->blobs);
    *s = (struct sheaf__sidecar){0};
}

bool sheaf__sidecar_add(struct sheaf__sidecar *s, const char *task, const char *text)
{
    struct sheaf__sidecar_note note = {sheaf__strdup(task), sheaf__strdup(text)};
    if (!note.task || !note.text ||
        !sheaf__array_reserve(&s->notes, &s->note_capacity, s->note_count + 1, sizeof(note))) {
        sheaf__free(note.task);
        sheaf__free(note.text);
        return false;
    }
    s->notes[s->note_count++] = note;
    return true;
}

const char *sheaf__sidecar_note(const struct sheaf__sidecar *s, const char *task)
{
    for (size_t i = 0; i < s->note_count; i++) {
        if (!strcmp(s->notes[i].task, task))
            return s->notes[i].text;
    }
    return NULL;
}

/* Takes the bytes. */
static bool take_blob(struct sheaf__sidecar *s, const char *name, uint8_t *data, size_t size)
{
    struct sheaf__sidecar_blob blob = {sheaf__strdup(name), data, size};
    if (!blob.name || !data ||
        !sheaf__array_reserve(&s->blobs, &s->blob_capacity, s->blob_count + 1, sizeof(blob))) {
        sheaf__free(blob.name);
        sheaf__free(data);
        return false;
    }
    s->blobs[s->blob_count++] = blob;
    return true;
}

bool sheaf__sidecar_add_blob(struct sheaf__sidecar *s, const char *name, const void *data,
                             size_t size)
{
    return take_blob(s, name, sheaf__memdup(data, size), size);
}

const struct sheaf__sidecar_blob *sheaf__sidecar_blob(const struct sheaf__sidecar *s,
                                                      const char *name)
{
    for (size_t i = 0; i < s->blob_count; i++) {
        if (!strcmp(s->blobs[i].name, name))
            return &s->blobs[i];
    }
    return NULL;
}

static void put_text(struct sheaf__str *out, const char *name, const char *text)
{
    sheaf__str_printf(out, ",\n  \"%s\": \"", name);
    sheaf__str_json(out, text, strlen(text));
    sheaf__str_char(out, '"');
}

/* A member that is an object; the items follow. */
static void open_object(struct sheaf__str *out, const char *name)
{
    sheaf__str_printf(out, ",\n  \"%s\": {", name);
}

static void put_name(struct sheaf__str *out, size_t i, const char *name)
{
    sheaf__str_add(out, i ? ",\n    \"" : "\n    \"");
    sheaf__str_json(out, name, strlen(name));
    sheaf__str_add(out, "\": \"");
}

static void put_notes(struct sheaf__str *out, const struct sheaf__sidecar *s)
{
    open_object(out, "notes");
    for (size_t i = 0; i < s->note_count; i++) {
        put_name(out, i, s->notes[i].task);
        sheaf__str_json(out, s->notes[i].text, strlen(s->notes[i].text));
        sheaf__str_char(out, '"');
    }
    sheaf__str_add(out, s->note_count ? "\n  }" : "}");
}

static void put_blobs(struct sheaf__str *out, const struct sheaf__sidecar *s)
{
    if (s->blob_count == 0)
        return;
    open_object(out, "objects");
    for (size_t i = 0; i < s->blob_count; i++) {
        put_name(out, i, s->blobs[i].name);
        sheaf__base64_put(out, s->blobs[i].data, s->blobs[i].size);
        sheaf__str_char(out, '"');
    }
    sheaf__str_add(out, "\n  }");
}

static void put_measure(struct sheaf__str *out, const struct sheaf__sidecar *s)
{
    char number[400];
    if (!s->has_measure)
        return;
    sheaf__decimal_format(number, sizeof(number), 'g', 17, s->measure);
    sheaf__str_printf(out, ",\n  \"measure\": %s", number);
}

sheaf_status sheaf__sidecar_write(const char *prefix, uint32_t index_crc,
                                  const struct sheaf__sidecar *s, sheaf_error *err)
{
    struct sheaf__str out = {0};
    sheaf__str_printf(&out, "{\n  \"index_crc32c\": \"%08x\"", index_crc);
    if (s->description)
        put_text(&out, "description", s->description);
    if (s->run_id && *s->run_id)
        put_text(&out, "run_id", s->run_id);
    sheaf__str_printf(&out, ",\n  \"last\": %s", s->last ? "true" : "false");
    put_measure(&out, s);
    put_notes(&out, s);
    put_blobs(&out, s);
    sheaf__str_printf(&out, CHECK_FORMAT, sheaf__crc32c(sheaf__str_text(&out), out.size));
    char *path = sheaf__sidecar_path(prefix);
    sheaf_status status = out.failed || !path
                              ? sheaf__no_memory(err, "the description of a checkpoint")
                              : sheaf__file_replace(path, out.text, out.size, err);
    sheaf__free(path);
    sheaf__str_free(&out);
    return status;
}

/* Copies a text member if there is one; false: no memory. */
static bool take_text(const json_t *root, const char *name, char **text)
{
    const char *value = json_string_value(json_object_get(root, name));
    *text = value ? sheaf__strdup(value) : NULL;
    return !value || *text;
}

static bool take_notes(const json_t *root, struct sheaf__sidecar *s)
{
    const char *task;
    json_t *value, *notes = json_object_get(root, "notes");
    json_object_foreach(notes, task, value)
    {
        if (json_is_string(value) && !sheaf__sidecar_add(s, task, json_string_value(value)))
            return false;
    }
    return true;
}

/* What is no base64 is left out: its object finds that it has no bytes. */
static bool take_blobs(const json_t *root, struct sheaf__sidecar *s)
{
    const char *name;
    json_t *value, *blobs = json_object_get(root, "objects");
    json_object_foreach(blobs, name, value)
    {
        struct sheaf__buf buf = {0};
        size_t size = 0;
        const bool good = json_is_string(value) && sheaf__buf_reserve(&buf, 1) &&
                          sheaf__base64_get(&buf, json_string_value(value));
        const bool failed = buf.failed;
        uint8_t *data = good ? sheaf__buf_take(&buf, &size) : NULL;
        sheaf__buf_free(&buf);
        if (failed || (data && !take_blob(s, name, data, size)))
            return false;
    }
    return true;
}

static bool take_all(const json_t *root, uint32_t index_crc, struct sheaf__sidecar *s)
{
    char crc[9];
    snprintf(crc, sizeof(crc), "%08x", index_crc);
    const char *stored = json_string_value(json_object_get(root, "index_crc32c"));
    if (!stored || strcmp(stored, crc) != 0)
        return true;
    s->last = json_is_true(json_object_get(root, "last"));
    s->has_measure = json_is_number(json_object_get(root, "measure"));
    s->measure = json_number_value(json_object_get(root, "measure"));
    return take_text(root, "description", &s->description) &&
           take_text(root, "run_id", &s->run_id) && take_notes(root, s) && take_blobs(root, s);
}

/* Whether the end of the text has the checksum of all before it. */
static bool is_whole(const char *text, size_t size)
{
    char end[CHECK_SIZE + 1];
    if (size < CHECK_SIZE)
        return false;
    const size_t before = size - CHECK_SIZE;
    snprintf(end, sizeof(end), CHECK_FORMAT, sheaf__crc32c(text, before));
    return memcmp(text + before, end, CHECK_SIZE) == 0;
}

static sheaf_status parse(const char *path, const char *text, size_t size, uint32_t index_crc,
                          struct sheaf__sidecar *s, sheaf_error *err)
{
    const struct sheaf__place place = {path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    if (!is_whole(text, size))
        return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                               "the file beside the checkpoint is damaged: its checksum does not "
                               "fit its %zu bytes",
                               size);
    json_t *root = json_loadb(text, size, 0, NULL);
    const bool room = take_all(root, index_crc, s);
    json_decref(root);
    if (room)
        return SHEAF_OK;
    sheaf__sidecar_free(s);
    return sheaf__no_memory(err, "the description of a checkpoint");
}

sheaf_status sheaf__sidecar_read(const char *prefix, uint32_t index_crc, struct sheaf__sidecar *s,
                                 sheaf_error *err)
{
    *s = (struct sheaf__sidecar){0};
    char *path = sheaf__sidecar_path(prefix), *text = NULL;
    size_t size = 0;
    sheaf_error fault = {0};
    if (!path)
        return sheaf__no_memory(err, "the name of a file");
    sheaf_status status = sheaf__file_read_all(path, SIZE_LIMIT, &text, &size, &fault);
    if (status >= 0)
        status = parse(path, text, size, index_crc, s, err);
    else
        status = status == SHEAF_ERR_NOT_FOUND ? SHEAF_OK : sheaf__error_copy(err, &fault);
    sheaf__free(text);
    sheaf__free(path);
    return status;
}
