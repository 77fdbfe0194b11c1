/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/options.h"

#include <sheaf/version.h>

#include <stdio.h>
#include <string.h>

static void print_help(const char *title, const char *summary,
                       const struct sheaf__command *commands, int count)
{
    printf("usage: %s COMMAND [options]\n\n%s\n\ncommands:\n", title, summary);
    for (int i = 0; i < count; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    printf("\n%s COMMAND --help tells more; %s --version prints the version\n", title, title);
}

int sheaf__commands_dispatch(const char *title, const char *summary,
                             const struct sheaf__command *commands, int count, int argc,
                             char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        fprintf(stderr, "%s: a command is missing; see %s --help\n", title, title);
        return SHEAF__EXIT_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(title, summary, commands, count);
        return SHEAF__EXIT_OK;
    }
    if (strcmp(word, "--version") == 0) {
        printf("sheaf %s\n", sheaf_version());
        return SHEAF__EXIT_OK;
    }
    for (int i = 0; i < count; i++)
        if (strcmp(word, commands[i].name) == 0)
            return commands[i].main(argc - 1, argv + 1);
    fprintf(stderr, "%s: unknown command %s; see %s --help\n", title, word, title);
    return SHEAF__EXIT_USAGE;
}
