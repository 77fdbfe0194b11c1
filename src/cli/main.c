/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct sheaf__command COMMANDS[] = {
    {"run", sheaf__run_main, "start a program as a cluster on this machine"},
    {"records", sheaf__records_main, "look into TFRecord files"},
    {"ckpt", sheaf__ckpt_main, "look into checkpoints"},
    {"bench", sheaf__bench_main, "measure this machine"},
};

int main(int argc, char **argv)
{
    int code = sheaf__commands_dispatch("sheaf", "Distributed training for C programs.", COMMANDS,
                                        sizeof(COMMANDS) / sizeof(COMMANDS[0]), argc, argv);
    /* What was printed may still be in memory: a full disk must not look like success. */
    if (fflush(stdout) != 0 && code == 0) {
        fprintf(stderr, "sheaf: cannot write to standard output: %s\n", strerror(errno));
        code = 1;
    }
    return code;
}
