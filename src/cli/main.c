/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/options.h"

#include <sheaf/context.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct sheaf__command COMMANDS[] = {
    {"run", sheaf__run_main, "start a program as a cluster on this machine"},
    {"records", sheaf__records_main, "look into TFRecord files"},
    {"data", sheaf__data_main, "look into input pipelines"},
    {"ckpt", sheaf__ckpt_main, "look into checkpoints"},
    {"bench", sheaf__bench_main, "measure this machine"},
};

/* The variables that every program with the library understands. */
static void print_environment(void)
{
    const sheaf_config_entry *e;
    puts("\nenvironment:");
    for (size_t i = 0; (e = sheaf_config_get(i)); i++) {
        printf("  %-20s %s", e->name, e->help);
        if (*e->default_text)
            printf(" (%s)", e->default_text);
        putchar('\n');
    }
}

/* Whether all that was printed has arrived; what was printed last may still be in memory. */
static int check_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "sheaf: cannot write to standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return code ? code : SHEAF__EXIT_FAILED;
}

/* What is closed must not become a file that is opened later: printing into it fails as before. */
static void hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    static const struct sheaf__command_set SET = {"sheaf", "Distributed training for C programs.",
                                                  COMMANDS, sizeof(COMMANDS) / sizeof(COMMANDS[0]),
                                                  print_environment};
    hold_standard_descriptors();
    return check_output(sheaf__commands_dispatch(&SET, argc, argv));
}
