/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/options.h"

#include <sheaf/version.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void print_help(const struct sheaf__command_set *set)
{
    printf("usage: %s COMMAND [options]\n\n%s\n\ncommands:\n", set->title, set->summary);
    for (int i = 0; i < set->count; i++)
        printf("  %-10s %s\n", set->commands[i].name, set->commands[i].summary);
    printf("\n%s COMMAND --help tells more; %s --version prints the version\n", set->title,
           set->title);
    if (set->print_more)
        set->print_more();
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* `help COMMAND` is `COMMAND --help`. */
static void turn_around(int argc, char **argv)
{
    static char help[] = "--help";
    for (int i = 1; i + 1 < argc; i++)
        argv[i] = argv[i + 1];
    argv[argc - 1] = help;
}

int sheaf__commands_dispatch(const struct sheaf__command_set *set, int argc, char **argv)
{
    const char *title = set->title;
    if (argc > 2 && strcmp(argv[1], "help") == 0)
        turn_around(argc, argv);
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        fprintf(stderr, "%s: a command is missing; see %s --help\n", title, title);
        return SHEAF__EXIT_USAGE;
    }
    if (is_help(word)) {
        print_help(set);
        return SHEAF__EXIT_OK;
    }
    if (strcmp(word, "--version") == 0) {
        printf("sheaf %s\n", sheaf_version());
        return SHEAF__EXIT_OK;
    }
    for (int i = 0; i < set->count; i++)
        if (strcmp(word, set->commands[i].name) == 0)
            return set->commands[i].main(argc - 1, argv + 1);
    fprintf(stderr, "%s: unknown command %s; see %s --help\n", title, word, title);
    return SHEAF__EXIT_USAGE;
}
