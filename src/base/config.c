/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include "base/config_file.h"
#include "base/context_state.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum type { TYPE_TEXT, TYPE_PATH, TYPE_INT, TYPE_SECONDS, TYPE_BOOL, TYPE_CHOICE };

static const sheaf_config_entry entries[] = {
#define ENTRY(id, type, text, allowed, help) {"SHEAF_" #id, text, help},
    SHEAF__CONFIG_TABLE(ENTRY)
#undef ENTRY
};

static const struct {
    enum type type;
    const char *allowed;
} kinds[] = {
#define KIND(id, type, text, allowed, help) {TYPE_##type, allowed},
    SHEAF__CONFIG_TABLE(KIND)
#undef KIND
};

const sheaf_config_entry *sheaf_config_get(size_t i)
{
    return i < SHEAF__CONFIG_COUNT ? &entries[i] : NULL;
}

/* Position of `text` in "a|b|c", -1 if it is not one of them. */
static int64_t choice(const char *choices, const char *text)
{
    size_t size = strlen(text);
    int64_t position = 0;
    for (const char *c = choices;; position++) {
        size_t n = strcspn(c, "|");
        if (n == size && memcmp(c, text, n) == 0)
            return position;
        if (!c[n])
            return -1;
        c += n + 1;
    }
}

/* Whether `value` lies in "least..most". */
static bool in_range(const char *range, double value)
{
    char least[24];
    double from = 0, to = 0;
    const char *dots = strstr(range, "..");
    snprintf(least, sizeof(least), "%.*s", (int)(dots - range), range);
    return sheaf__str_to_double(least, &from) && sheaf__str_to_double(dots + 2, &to) &&
           value >= from && value <= to;
}

/* Reads `text` as a value of variable `id`. */
static bool parse(size_t id, const char *text, struct sheaf__config_number *value)
{
    switch (kinds[id].type) {
    case TYPE_TEXT:
    case TYPE_PATH:
        /* The seed is text because it may be absent, but a number if present. */
        return id != SHEAF__CONFIG_SEED || !*text || sheaf__str_to_int(text, &value->whole);
    case TYPE_INT:
        return sheaf__str_to_int(text, &value->whole) &&
               in_range(kinds[id].allowed, (double)value->whole);
    case TYPE_SECONDS:
        return sheaf__str_to_double(text, &value->seconds) &&
               in_range(kinds[id].allowed, value->seconds);
    case TYPE_BOOL:
        value->whole = choice("0|1", text);
        return value->whole >= 0;
    case TYPE_CHOICE:
        value->whole = choice(kinds[id].allowed, text);
        return value->whole >= 0;
    }
    return false;
}

enum { EXPECTED_SIZE = 80 };

/* What would be right for variable `id`: "a whole number from 1 to 65535". */
static void describe(size_t id, char expected[EXPECTED_SIZE])
{
    const char *allowed = kinds[id].allowed, *dots = allowed ? strstr(allowed, "..") : NULL;
    switch (kinds[id].type) {
    case TYPE_INT:
    case TYPE_SECONDS:
        snprintf(expected, EXPECTED_SIZE, "a %s from %.*s to %s",
                 kinds[id].type == TYPE_INT ? "whole number" : "number of seconds",
                 (int)(dots - allowed), allowed, dots + 2);
        return;
    case TYPE_BOOL:
        sheaf__str_copy(expected, EXPECTED_SIZE, "0 or 1");
        return;
    case TYPE_CHOICE:
        sheaf__str_copy(expected, EXPECTED_SIZE, allowed);
        return;
    case TYPE_TEXT:
    case TYPE_PATH:
        sheaf__str_copy(expected, EXPECTED_SIZE, "a whole number"); /* only the seed can be wrong */
    }
}

static bool is_known(const char *entry, size_t size)
{
    for (size_t i = 0; i < SHEAF__CONFIG_COUNT; i++)
        if (strlen(entries[i].name) == size && memcmp(entry, entries[i].name, size) == 0)
            return true;
    return false;
}

/* One line for all of them: mostly a name written wrong. */
static void warn_of_unknown(void)
{
    const char *entry;
    struct sheaf__str names = {0};
    for (size_t i = 0; (entry = sheaf__env_at(i)); i++) {
        size_t size = strcspn(entry, "=");
        if (sheaf__str_starts(entry, "SHEAF_") && !is_known(entry, size))
            sheaf__str_printf(&names, " %.*s", (int)size, entry);
    }
    if (names.size)
        sheaf__log(SHEAF_LOG_WARN, "ignored in the environment, no such variable:%s",
                   sheaf__str_text(&names));
    sheaf__str_free(&names);
}

/* The environment's text wins over the file's. */
static sheaf_status load_one(sheaf_context *context, size_t id, const char *path,
                             const struct sheaf__config_line *line, sheaf_error *err)
{
    struct sheaf__config_number *value = &context->config[id];
    char expected[EXPECTED_SIZE];
    const char *name = entries[id].name;
    const char *set = sheaf__env_get(name), *text = set ? set : line->text;
    parse(id, entries[id].default_text, value);
    if (!text)
        return SHEAF_OK;
    struct sheaf__config_number given = {0};
    if (!parse(id, text, &given)) {
        const struct sheaf__place where = {path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        describe(id, expected);
        if (set)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "variable %s: found \"%s\", expected %s", name, text, expected);
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &where,
                               "line %zu: variable %s: found \"%s\", expected %s", line->number,
                               name, text, expected);
    }
    given.text = sheaf__strdup(text);
    if (!given.text)
        return sheaf__no_memory(err, "configuration");
    *value = given;
    return SHEAF_OK;
}

sheaf_status sheaf__config_load(sheaf_context *context, sheaf_error *err)
{
    struct sheaf__config_line lines[SHEAF__CONFIG_COUNT] = {0};
    char *memory = NULL;
    sheaf_error first = {0};
    sheaf_context *before = sheaf_context_enter(context);
    const char *path = sheaf__env_get(entries[SHEAF__CONFIG_CONFIG].name);
    if (path && *path && sheaf__config_file_read(path, lines, &memory, &first) < 0)
        sheaf__error_prefix(&first, "SHEAF_CONFIG");
    for (size_t id = 0; id < SHEAF__CONFIG_COUNT; id++) {
        sheaf_error one = {0};
        if (load_one(context, id, path, &lines[id], &one) < 0)
            sheaf__error_keep_first(&first, &one);
    }
    sheaf__free(memory);
    if (!context->log_level)
        context->log_level = (int)context->config[SHEAF__CONFIG_LOG].whole;
    warn_of_unknown();
    sheaf_context_enter(before);
    return first.status < 0 ? sheaf__error_copy(err, &first) : SHEAF_OK;
}

void sheaf__config_free(sheaf_context *context)
{
    for (size_t id = 0; id < SHEAF__CONFIG_COUNT; id++)
        sheaf__free(context->config[id].text);
}

const char *sheaf__config_text(enum sheaf__config_id id)
{
    const char *text = sheaf__context()->config[id].text;
    return text ? text : entries[id].default_text;
}

int64_t sheaf__config_int(enum sheaf__config_id id)
{
    return sheaf__context()->config[id].whole;
}

double sheaf__config_seconds(enum sheaf__config_id id)
{
    return sheaf__context()->config[id].seconds;
}

bool sheaf__config_is_set(enum sheaf__config_id id)
{
    return sheaf__context()->config[id].text != NULL;
}

const char *sheaf_config_value(const char *name)
{
    for (size_t id = 0; name && id < SHEAF__CONFIG_COUNT; id++)
        if (strcmp(entries[id].name, name) == 0)
            return sheaf__config_text((enum sheaf__config_id)id);
    return NULL;
}

int sheaf__config_threads(void)
{
    int64_t threads = sheaf__config_int(SHEAF__CONFIG_THREADS);
    return threads > 0 ? (int)threads : sheaf__cpu_count();
}
