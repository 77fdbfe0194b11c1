/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/options.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* sheaf data explain: runs a program whose library writes down what its input pipelines do, and
 * prints that. A pipeline is C, so only running it shows it. */

#define NAME "explain" /* of the files; a task of a cluster adds ".worker-0" */

static const char *output;

static const struct sheaf__option OPTIONS[] = {
    {"output", 'o', SHEAF__OPTION_TEXT, "FILE", &output, "print to FILE, not to standard output"},
};
static const struct sheaf__command_line LINE = {
    .command = "sheaf data explain",
    .usage = "[options] [--] PROGRAM [ARGUMENT...]",
    .summary =
        "Runs a program and prints its input pipelines when it has ended: for every pass over the\n"
        "data the stages as they ran, source first, with\n\n"
        "  work s     seconds in the stage's own code, on all threads\n"
        "  wait s     seconds in which the next stage waited for its threads\n"
        "  threads    of its own that worked for most of the pass\n"
        "  queue      how much was ready when the next stage came, on average, of how much may be\n"
        "  elements   that it gave\n"
        "  bytes      of these",
    .options = OPTIONS,
    .option_count = sizeof(OPTIONS) / sizeof(OPTIONS[0]),
    .notes = "The program may be sheaf run: its tasks are printed one after the other.\n\n"
             "exit codes: the program's; 1 nothing can be printed; 2 wrong usage; 126, 127 the "
             "program\ncannot be started; 128 + N signal N ended it",
    .leads = true,
};

static int failed(const char *what, const char *where)
{
    fprintf(stderr, "sheaf data explain: %s %s: %s\n", what, where, strerror(errno));
    return SHEAF__EXIT_FAILED;
}

/* What a shell says of it. */
static int code_of(int status)
{
    return WIFSIGNALED(status) ? SHEAF__EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The terminal's signals are the program's; what it did until then is printed. */
static int run(char **program)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    int status = 0;
    fflush(stdout);
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    pid_t child = fork();
    if (child == 0) {
        sigaction(SIGINT, &interrupt, NULL);
        sigaction(SIGQUIT, &quit, NULL);
        execvp(program[0], program);
        int code = errno == ENOENT ? SHEAF__EXIT_NOT_FOUND : SHEAF__EXIT_NOT_EXECUTABLE;
        failed("cannot start", program[0]);
        _exit(code);
    }
    if (child < 0)
        return failed("cannot start", program[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    return code_of(status);
}

/* ---- what they wrote ---- */

static int is_ours(const struct dirent *entry)
{
    return strncmp(entry->d_name, NAME, sizeof(NAME) - 1) == 0;
}

static void print_file(const char *path, const char *task, FILE *to)
{
    char buffer[4096];
    size_t size;
    FILE *file = fopen(path, "r");
    if (!file) {
        failed("cannot read", path);
        return;
    }
    if (*task)
        fprintf(to, "%s:\n", task);
    while ((size = fread(buffer, 1, sizeof(buffer), file)) > 0)
        fwrite(buffer, 1, size, to);
    fclose(file);
}

/* Prints all of them, sorted by task, and takes them away. Returns how many. */
static int print_all(const char *folder, FILE *to)
{
    struct dirent **names;
    int count = scandir(folder, &names, is_ours, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512];
        const char *task = names[i]->d_name + sizeof(NAME) - 1;
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        print_file(path, *task == '.' ? task + 1 : task, to);
        unlink(path);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return count;
}

static int print(const char *folder, FILE *to, int code)
{
    const int started = code != SHEAF__EXIT_NOT_FOUND && code != SHEAF__EXIT_NOT_EXECUTABLE;
    if (print_all(folder, to) <= 0 && started) {
        fprintf(stderr, "sheaf data explain: the program ended no pass over a dataset of sheaf\n");
        code = code == SHEAF__EXIT_OK ? SHEAF__EXIT_FAILED : code;
    }
    if (output && fclose(to) != 0)
        return failed("cannot write", output);
    return code;
}

static int explain_main(int argc, char **argv)
{
    char folder[256], file[300];
    const char *parent = getenv("TMPDIR");
    int rest, code;
    if (!sheaf__options_parse(&LINE, argc, argv, &rest, &code))
        return code;
    if (rest >= argc)
        return sheaf__options_misused(&LINE, "a program is missing");
    snprintf(folder, sizeof(folder), "%s/sheaf-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder))
        return failed("cannot make the folder", folder);
    /* Before the program, whose run would be for nothing. */
    FILE *to = output ? fopen(output, "we") : stdout;
    if (!to) {
        code = failed("cannot write", output);
        rmdir(folder);
        return code;
    }
    snprintf(file, sizeof(file), "%s/" NAME, folder);
    setenv("SHEAF_EXPLAIN", file, 1);
    code = run(argv + rest);
    code = print(folder, to, code);
    rmdir(folder);
    return code;
}

int sheaf__data_main(int argc, char **argv)
{
    static const struct sheaf__command COMMANDS[] = {
        {"explain", explain_main, "run a program and tell what its stages did"},
    };
    static const struct sheaf__command_set SET = {"sheaf data", "Looks into input pipelines.",
                                                  COMMANDS, 1, NULL};
    return sheaf__commands_dispatch(&SET, argc, argv);
}
