/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <sheaf/version.h>

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sheaf__options_misused(const struct sheaf__command_line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", line->command);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; see %s --help\n", line->command);
    va_end(args);
    return SHEAF__EXIT_USAGE;
}

static void print_option(const struct sheaf__option *o)
{
    char left[64];
    snprintf(left, sizeof(left), "%s%s--%s%s%s", o->letter ? (char[]){'-', o->letter, 0} : "  ",
             o->letter ? ", " : "  ", o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("  %-26s %s\n", left, o->help);
}

static void print_help(const struct sheaf__command_line *line)
{
    static const struct sheaf__option COMMON[] = {
        {"help", 'h', SHEAF__OPTION_FLAG, NULL, NULL, "print this and end"},
        {"version", 0, SHEAF__OPTION_FLAG, NULL, NULL, "print the version and end"},
    };
    printf("usage: %s %s\n\n%s\n\noptions:\n", line->command, line->usage, line->summary);
    for (size_t i = 0; i < line->option_count; i++)
        if (line->options[i].help)
            print_option(&line->options[i]);
    for (size_t i = 0; i < sizeof(COMMON) / sizeof(COMMON[0]); i++)
        print_option(&COMMON[i]);
    if (line->notes)
        printf("\n%s\n", line->notes);
}

/* "--name", "--name=value" or "-x": finds the option and where a value stands in the same
 * argument. */
static const struct sheaf__option *find(const struct sheaf__command_line *line, const char *arg,
                                        const char **inline_value)
{
    *inline_value = NULL;
    for (size_t i = 0; i < line->option_count; i++) {
        const struct sheaf__option *o = &line->options[i];
        size_t size = strlen(o->name);
        if (arg[1] == '-' && strncmp(arg + 2, o->name, size) == 0 &&
            (arg[2 + size] == '\0' || arg[2 + size] == '=')) {
            *inline_value = arg[2 + size] ? arg + 3 + size : NULL;
            return o;
        }
        if (arg[1] != '-' && o->letter && arg[1] == o->letter) {
            *inline_value = arg[2] ? arg + 2 : NULL;
            return o;
        }
    }
    return NULL;
}

static bool to_count(const char *text, int64_t least, int64_t most, int64_t *value)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < least || n > most)
        return false;
    *value = n;
    return true;
}

static bool to_seconds(const char *text, double *value)
{
    char *end;
    double d = strtod(text, &end);
    if (((*text < '0' || *text > '9') && *text != '.') || *end || !(d > 0) || d > 1e9)
        return false;
    *value = d;
    return true;
}

/* Stores a value; false after saying what was expected. */
static bool store(const struct sheaf__command_line *line, const struct sheaf__option *o,
                  const char *value)
{
    const char *expected = NULL;
    switch (o->kind) {
    case SHEAF__OPTION_FLAG:
        *(bool *)o->target = true;
        break;
    case SHEAF__OPTION_COUNT:
        if (!to_count(value, 0, INT64_MAX, o->target))
            expected = "a whole number from 0 on";
        break;
    case SHEAF__OPTION_BYTES:
        if (!to_count(value, 1, INT64_MAX, o->target))
            expected = "a whole number from 1 to 9223372036854775807";
        break;
    case SHEAF__OPTION_PARTS:
        if (!to_count(value, 1, INT_MAX, o->target))
            expected = "a whole number from 1 to 2147483647";
        break;
    case SHEAF__OPTION_SECONDS:
        if (!to_seconds(value, o->target))
            expected = "a number of seconds above 0";
        break;
    case SHEAF__OPTION_TEXT:
        *(const char **)o->target = value;
        break;
    }
    if (expected)
        sheaf__options_misused(line, "--%s: found \"%s\", expected %s", o->name, value, expected);
    return !expected;
}

/* One option at argv[*at]; false after saying what is wrong. */
static bool read_option(const struct sheaf__command_line *line, int argc, char **argv, int *at)
{
    const char *arg = argv[*at], *value;
    const struct sheaf__option *o = find(line, arg, &value);
    if (!o) {
        sheaf__options_misused(line, "unknown option %s", arg);
        return false;
    }
    if (o->kind == SHEAF__OPTION_FLAG && value) {
        sheaf__options_misused(line, "--%s takes no value, found \"%s\"", o->name, value);
        return false;
    }
    if (o->kind != SHEAF__OPTION_FLAG && !value) {
        if (*at + 1 >= argc) {
            sheaf__options_misused(line, "--%s needs a value %s", o->name, o->value);
            return false;
        }
        value = argv[++*at];
    }
    ++*at;
    return store(line, o, value);
}

static bool is_option(const char *arg)
{
    return arg[0] == '-' && arg[1];
}

/* Lets argv[from..to) change places with the options argv[to..end) behind them. */
static void move_behind(char **argv, int from, int to, int end)
{
    for (; to < end; from++, to++) {
        char *option = argv[to];
        memmove(&argv[from + 1], &argv[from], (size_t)(to - from) * sizeof(*argv));
        argv[from] = option;
    }
}

/* The option at argv[at], its value included; `*end` is behind it. */
static bool read_one(const struct sheaf__command_line *line, int argc, char **argv, int at,
                     int *end)
{
    *end = at;
    return read_option(line, argc, argv, end);
}

bool sheaf__options_parse(const struct sheaf__command_line *line, int argc, char **argv, int *rest,
                          int *code)
{
    int first = 1; /* argv[first..at) are arguments that are no options */
    for (int at = 1; at < argc && (is_option(argv[at]) || !line->leads);) {
        const char *arg = argv[at];
        int end = at + 1;
        if (!is_option(arg)) {
            at++;
            continue;
        }
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            print_help(line);
            *code = SHEAF__EXIT_OK;
            return false;
        }
        if (strcmp(arg, "--version") == 0) {
            printf("sheaf %s\n", sheaf_version());
            *code = SHEAF__EXIT_OK;
            return false;
        }
        if (strcmp(arg, "--") != 0 && !read_one(line, argc, argv, at, &end)) {
            *code = SHEAF__EXIT_USAGE;
            return false;
        }
        move_behind(argv, first, at, end);
        first += end - at;
        at = end;
        if (strcmp(arg, "--") == 0)
            break;
    }
    *rest = first;
    return true;
}
