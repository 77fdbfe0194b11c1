/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_OPTIONS_H
#define SHEAF_CLI_OPTIONS_H

/* Command lines from tables: one table gives the parsing, the messages and the text of --help. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes of the command; `sheaf run` has those of the program, too (launch.h). */
enum { SHEAF__EXIT_OK = 0, SHEAF__EXIT_FAILED = 1, SHEAF__EXIT_USAGE = 2 };

enum sheaf__option_kind {
    SHEAF__OPTION_FLAG,    /* bool *: given or not */
    SHEAF__OPTION_COUNT,   /* int64_t *: a whole number >= 0 */
    SHEAF__OPTION_BYTES,   /* the same from 1 to INT64_MAX */
    SHEAF__OPTION_PARTS,   /* the same from 1 to INT_MAX */
    SHEAF__OPTION_SECONDS, /* double *: > 0 */
    SHEAF__OPTION_TEXT,    /* const char ** */
};

struct sheaf__option {
    const char *name; /* without dashes */
    char letter;      /* 0: none */
    enum sheaf__option_kind kind;
    const char *value; /* its name in the help, "N"; NULL for a flag */
    void *target;
    const char *help; /* one line; NULL: not told of */
};

struct sheaf__command_line {
    const char *command; /* "sheaf run" */
    const char *usage;   /* what follows it */
    const char *summary; /* one or more lines */
    const struct sheaf__option *options;
    size_t option_count;
    const char *notes; /* at the end of the help, or NULL */
    bool leads; /* what follows the options is a command or program with options of its own */
};

/* Reads the options, wherever they stand before "--"; of a line that leads, up to the first argument
 * that is none. Every command line has --help and --version besides. True: go on with argv[*rest],
 * where the arguments are that are no options, in their order. False: the command ends with `*code`; what there
 * was to say has been said. */
bool sheaf__options_parse(const struct sheaf__command_line *line, int argc, char **argv, int *rest,
                          int *code);

/* "sheaf run: <text>; see sheaf run --help" on standard error; returns SHEAF__EXIT_USAGE. */
int sheaf__options_misused(const struct sheaf__command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
