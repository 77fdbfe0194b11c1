/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_PROCESSES_H
#define SHEAF_TEST_PROCESSES_H

/* Real processes for a test: this program again, with arguments, and a pipe each way. Lines of text are the protocol. */

#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct child {
    pid_t pid;
    int in, out; /* its standard input and output, from here */
};

static inline void child_start(struct child *c, const char *role, const char *argument)
{
    int to[2], from[2];
    assert_int_equal(pipe(to) | pipe(from), 0);
    c->pid = fork();
    if (c->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        execl("/proc/self/exe", "child", role, argument, (char *)NULL);
        _exit(99);
    }
    close(to[0]);
    close(from[1]);
    c->in = to[1];
    c->out = from[0];
}

/* Reads a line, at most `seconds`; false: none came. */
static inline bool child_line(struct child *c, char *line, size_t size, double seconds)
{
    size_t used = 0;
    struct pollfd p = {.fd = c->out, .events = POLLIN};
    while (used + 1 < size) {
        int ready = poll(&p, 1, (int)(seconds * 1000));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0 || read(c->out, line + used, 1) != 1)
            return false;
        if (line[used] == '\n')
            break;
        used++;
    }
    line[used] = '\0';
    return true;
}

static inline void child_tell(struct child *c, const char *line)
{
    size_t size = strlen(line);
    assert_int_equal(write(c->in, line, size), size);
    assert_int_equal(write(c->in, "\n", 1), 1);
}

/* Waits for the end; -1: it did not come in time; 128 + signal; else its exit code. */
static inline int child_end(struct child *c, double seconds)
{
    int status = 0;
    for (int i = 0; i < (int)(seconds * 100); i++) {
        pid_t pid = waitpid(c->pid, &status, WNOHANG);
        if (pid == c->pid) {
            close(c->in);
            close(c->out);
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(c->pid, SIGKILL);
    waitpid(c->pid, &status, 0);
    return -1;
}

/* In the child: a line from the test. */
static inline void child_ask(char *line, size_t size)
{
    if (!fgets(line, (int)size, stdin))
        _exit(98);
    line[strcspn(line, "\n")] = '\0';
}

static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
