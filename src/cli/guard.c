/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/guard.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_GROUPS = 4096 };

struct groups {
    pid_t items[MAX_GROUPS];
    int count;
};

/* A positive number is a group to add, a negative one a group to forget. */
static void note(struct groups *groups, pid_t message)
{
    if (message > 0 && groups->count < MAX_GROUPS) {
        groups->items[groups->count++] = message;
        return;
    }
    for (int i = 0; i < groups->count; i++)
        if (groups->items[i] == -message) {
            groups->items[i] = groups->items[--groups->count];
            return;
        }
}

/* The guard's whole life: keep the list until the socket ends, then clean up. Being asked to finish
 * and seeing the launcher die are the same. Only system calls: it is a copy of the launcher. */
static void __attribute__((noreturn)) serve(int socket, const struct sheaf__run_secret *secret)
{
    static struct groups groups;
    pid_t message;
    ssize_t got;
    setsid();
    for (int s = 1; s < 32; s++)
        signal(s, SIG_IGN);
    prctl(PR_SET_NAME, "sheaf-guard");
    if (socket != 0)
        dup2(socket, 0);
    close_range(1, ~0U, 0);
    while ((got = recv(0, &message, sizeof(message), 0)) != 0)
        if (got == (ssize_t)sizeof(message))
            note(&groups, message);
        else if (got < 0 && errno != EINTR)
            break;
    for (int i = 0; i < groups.count; i++)
        kill(-groups.items[i], SIGKILL);
    sheaf__run_secret_remove(secret);
    _exit(0);
}

int sheaf__guard_start(struct sheaf__guard *guard, const struct sheaf__run_secret *secret)
{
    int ends[2];
    guard->socket = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return errno;
    guard->pid = fork();
    if (guard->pid == 0) {
        close(ends[1]);
        serve(ends[0], secret);
    }
    int code = guard->pid < 0 ? errno : 0;
    close(ends[0]);
    if (code)
        close(ends[1]);
    else
        guard->socket = ends[1];
    return code;
}

static void tell(const struct sheaf__guard *guard, pid_t message)
{
    /* A guard that was killed is no reason to stop a job. */
    ssize_t done = send(guard->socket, &message, sizeof(message), MSG_NOSIGNAL);
    (void)done;
}

void sheaf__guard_add(const struct sheaf__guard *guard, pid_t group)
{
    tell(guard, group);
}

void sheaf__guard_remove(const struct sheaf__guard *guard, pid_t group)
{
    tell(guard, -group);
}

void sheaf__guard_finish(struct sheaf__guard *guard)
{
    if (guard->socket < 0)
        return;
    close(guard->socket);
    guard->socket = -1;
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
