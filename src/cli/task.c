/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

const char *const sheaf__role_names[SHEAF__ROLES] = {"chief", "worker", "ps", "evaluator"};

/* ---- the environment ---- */

/* Whether "NAME=value" `a` and `b` set the same variable. */
static bool same_name(const char *a, const char *b)
{
    size_t size = strcspn(a, "=");
    return strncmp(a, b, size + 1) == 0;
}

/* The launcher's environment with the task's variables in place; pointers only. NULL: no memory. */
static const char **make_environment(const struct sheaf__launched *task,
                                     const struct sheaf__launch_common *common)
{
    const char *own[8] = {task->tf_config};
    size_t own_count = 1, count = 0, used = 0;
    while (common->variables[own_count - 1]) {
        own[own_count] = common->variables[own_count - 1];
        own_count++;
    }
    while (environ[count])
        count++;
    const char **all = calloc(count + own_count + 1, sizeof(*all));
    if (!all)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        bool replaced = false;
        for (size_t k = 0; k < own_count; k++)
            replaced = replaced || same_name(own[k], environ[i]);
        if (!replaced)
            all[used++] = environ[i];
    }
    memcpy(all + used, own, own_count * sizeof(*all));
    return all;
}

/* ---- starting ---- */

struct pipes {
    int out[2], err[2], failure[2];
};

static void close_pipes(struct pipes *p)
{
    int *all[] = {p->out, p->err, p->failure};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            if (all[i][k] >= 0)
                close(all[i][k]);
}

static int open_pipes(struct pipes *p)
{
    *p = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(p->out, O_CLOEXEC) < 0 || pipe2(p->err, O_CLOEXEC) < 0 ||
        pipe2(p->failure, O_CLOEXEC) < 0) {
        int code = errno;
        close_pipes(p);
        return code;
    }
    fcntl(p->out[0], F_SETFL, O_NONBLOCK);
    fcntl(p->err[0], F_SETFL, O_NONBLOCK);
    return 0;
}

/* In the child: never returns. Only system calls before exec. */
static void __attribute__((noreturn))
become(const struct sheaf__launch_common *common, const char **environment, const struct pipes *p,
       pid_t launcher)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), code;
    setpgid(0, 0);
    /* Here and not in the launcher: nothing of the program's may run unguarded. */
    sheaf__guard_add(common->guard, getpid());
    /* The launcher may have died before it was asked to take us along. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != launcher)
        _exit(127);
    if (null >= 0 && dup2(null, 0) == 0 && dup2(p->out[1], 1) == 1 && dup2(p->err[1], 2) == 2) {
        sigprocmask(SIG_SETMASK, common->mask, NULL);
        execvpe(common->program[0], common->program, (char *const *)(uintptr_t)environment);
    }
    code = errno;
    ssize_t done = write(p->failure[1], &code, sizeof(code));
    (void)done;
    _exit(127);
}

/* What exec said: its errno value, or 0 if the pipe ended because it succeeded. */
static int read_failure(int fd)
{
    int code = 0;
    ssize_t got;
    while ((got = read(fd, &code, sizeof(code))) < 0 && errno == EINTR)
        ;
    return got == (ssize_t)sizeof(code) ? code : 0;
}

int sheaf__task_start(struct sheaf__launched *task, const struct sheaf__launch_common *common)
{
    struct pipes p;
    pid_t launcher = getpid();
    const char **environment = make_environment(task, common);
    if (!environment)
        return ENOMEM;
    int code = open_pipes(&p);
    if (code) {
        free(environment);
        return code;
    }
    pid_t pid = fork();
    if (pid == 0)
        become(common, environment, &p, launcher);
    code = pid < 0 ? errno : 0;
    free(environment);
    if (code) {
        close_pipes(&p);
        return code;
    }
    setpgid(pid, pid); /* whoever is first */
    close(p.failure[1]);
    p.failure[1] = -1;
    code = read_failure(p.failure[0]);
    if (code) {
        sheaf__guard_remove(common->guard, pid);
        waitpid(pid, NULL, 0);
        close_pipes(&p);
        return code;
    }
    task->pid = pid;
    task->out.fd = p.out[0];
    task->err.fd = p.err[0];
    p.out[0] = p.err[0] = -1;
    close_pipes(&p);
    return 0;
}

/* ---- later ---- */

void sheaf__task_signal(const struct sheaf__launched *task, int signal)
{
    if (task->pid && !task->ended)
        kill(-task->pid, signal);
}

/* Stopped and continued by others, a debugger's stops not counted. */
static void note_halt(struct sheaf__launched *task)
{
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)task->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
           info.si_pid) {
        task->halted = info.si_code == CLD_STOPPED ? info.si_status : 0;
        if (!task->halted && !task->stopped)
            task->kill_at = 0;
        info.si_pid = 0;
    }
}

void sheaf__task_reap(struct sheaf__launched *task)
{
    siginfo_t info = {0};
    if (task->pid && !task->ended)
        note_halt(task);
    if (!task->pid || task->ended ||
        waitid(P_PID, (id_t)task->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
        return;
    /* While it is not reaped, its number cannot be another's. */
    kill(-task->pid, SIGKILL);
    while (waitpid(task->pid, &task->wait_status, 0) < 0 && errno == EINTR)
        ;
    task->ended = true;
}

int sheaf__task_code(const struct sheaf__launched *task)
{
    return WIFSIGNALED(task->wait_status) ? 128 + WTERMSIG(task->wait_status)
                                          : WEXITSTATUS(task->wait_status);
}
