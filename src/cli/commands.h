/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_COMMANDS_H
#define SHEAF_CLI_COMMANDS_H

/* The subcommands: one file each, one row each in the table of main.c. argv[0] is the command's own
 * name; the result is the exit code. */

int sheaf__run_main(int argc, char **argv);
int sheaf__records_main(int argc, char **argv);
int sheaf__ckpt_main(int argc, char **argv);
int sheaf__data_main(int argc, char **argv);
int sheaf__bench_main(int argc, char **argv);

struct sheaf__command {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *summary;
};
/* A command that is known by a second word. */
struct sheaf__command_set {
    const char *title; /* what stands before the word: "sheaf", "sheaf records" */
    const char *summary;
    const struct sheaf__command *commands;
    int count;
    void (*print_more)(void); /* at the end of --help, or NULL */
};
/* Runs the command that argv[1] names, or answers --help and --version. */
int sheaf__commands_dispatch(const struct sheaf__command_set *set, int argc, char **argv);

#endif
