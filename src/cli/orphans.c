/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/orphans.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The kernel's list of this process's children, of its only thread; NULL where there is none. */
static FILE *open_children(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    return fopen(path, "re");
}

int sheaf__orphans_take(struct sheaf__orphans *o)
{
    FILE *list = open_children();
    int pid, code = 0;
    while (list && !code && fscanf(list, "%d", &pid) == 1) {
        pid_t *others = realloc(o->others, ((size_t)o->other_count + 1) * sizeof(*o->others));
        if (others) {
            o->others = others;
            o->others[o->other_count++] = pid;
        } else {
            code = ENOMEM;
        }
    }
    if (list)
        fclose(list);
    if (!code && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        code = errno;
    o->taken = !code;
    return code;
}

/* Where `pid` stands among the children from before; NULL: it is none. */
static pid_t *find_other(const struct sheaf__orphans *o, pid_t pid)
{
    for (int i = 0; i < o->other_count; i++)
        if (o->others[i] == pid)
            return &o->others[i];
    return NULL;
}

void sheaf__orphans_reap(struct sheaf__orphans *o, pid_t pid)
{
    pid_t *other = find_other(o, pid);
    if (other)
        *other = 0; /* its number may be an orphan's from now on */
    waitpid(pid, NULL, 0);
}

void sheaf__orphans_kill(struct sheaf__orphans *o)
{
    for (bool any = o->taken; any;) {
        any = false;
        FILE *list = open_children();
        int pid;
        while (list && fscanf(list, "%d", &pid) == 1)
            if (!find_other(o, pid)) {
                kill(pid, SIGKILL);
                any = waitpid(pid, NULL, 0) == pid || any;
            }
        if (list)
            fclose(list);
    }
    free(o->others);
    *o = (struct sheaf__orphans){0};
}
