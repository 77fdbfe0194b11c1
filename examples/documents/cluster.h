/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCUMENTS_CLUSTER_H
#define DOCUMENTS_CLUSTER_H

/** @file
 *  A small cluster of this program on this machine, for the documents' programs of several tasks: each task is the program
 *  again with a TF_CONFIG of its own. What chief and workers print is shown task after task. */

#include "document.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_TASKS = 8 };

/** Tasks of each job. */
struct jobs {
    int worker, ps;
};

/** A port of the loopback address that nobody uses now. Until `*held` is closed the system gives it to nobody who asks for
 *  any port, while the task that names it may listen there. */
static int free_port(int *held)
{
    const int yes = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    *held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*held < 0 || setsockopt(*held, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        bind(*held, (struct sockaddr *)&a, size) < 0 ||
        getsockname(*held, (struct sockaddr *)&a, &size) < 0) {
        perror("no free port");
        exit(1);
    }
    return ntohs(a.sin_port);
}

static size_t add_job(char *text, size_t size, const char *job, const int *ports, int count)
{
    size_t n = (size_t)snprintf(text, size, "\"%s\": [", job);
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, size - n, "%s\"127.0.0.1:%d\"", i ? ", " : "", ports[i]);
    return n + (size_t)snprintf(text + n, size - n, "]");
}

/** The program again as task `index` of `job`; its output goes to `output`. */
static pid_t start_task(char **argv, const char *cluster, const char *job, int index, FILE *output)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    char config[2048];
    snprintf(config, sizeof(config),
             "{\"cluster\": {%s}, \"task\": {\"type\": \"%s\", \"index\": %d}}", cluster, job,
             index);
    setenv("TF_CONFIG", config, 1);
    dup2(fileno(output), STDOUT_FILENO);
    execv("/proc/self/exe", argv);
    perror("cannot start a task");
    _exit(127);
}

static void show(FILE *output)
{
    char line[4096];
    rewind(output);
    while (fgets(line, sizeof(line), output))
        fputs(line, stdout);
    fclose(output);
}

/** In a task of the cluster: runs `task`. Else starts the cluster, waits for all tasks and shows what the workers printed.
 *  Returns the exit code of main. */
static int in_cluster(char **argv, struct jobs jobs, int (*task)(int argc, char **argv), int argc)
{
    if (getenv("TF_CONFIG"))
        return task(argc, argv);
    int ports[MOST_TASKS] = {0}, held[MOST_TASKS];
    pid_t pids[MOST_TASKS];
    FILE *outputs[MOST_TASKS];
    char cluster[1024];
    const int count = jobs.worker + jobs.ps;
    for (int i = 0; i < count; i++)
        ports[i] = free_port(&held[i]);
    size_t n = add_job(cluster, sizeof(cluster), "worker", ports, jobs.worker);
    if (jobs.ps > 0) {
        n += (size_t)snprintf(cluster + n, sizeof(cluster) - n, ", ");
        add_job(cluster + n, sizeof(cluster) - n, "ps", ports + jobs.worker, jobs.ps);
    }
    for (int i = 0; i < count; i++) {
        const bool works = i < jobs.worker;
        outputs[i] = tmpfile();
        if (!outputs[i]) {
            perror("no temporary file");
            return 1;
        }
        pids[i] = start_task(argv, cluster, works ? "worker" : "ps", works ? i : i - jobs.worker,
                             outputs[i]);
    }
    int code = 0;
    for (int i = 0; i < count; i++) {
        int status = 0;
        waitpid(pids[i], &status, 0);
        close(held[i]);
        if (code == 0 && status != 0)
            code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    for (int i = 0; i < count; i++) {
        if (i < jobs.worker)
            show(outputs[i]);
        else
            fclose(outputs[i]);
    }
    return code;
}

#endif
