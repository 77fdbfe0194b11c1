/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch.h"

#include "cli/options.h"
#include "cli/ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int failed(int code, const char *what, const char *name)
{
    sheaf__launch_say("cannot %s%s%s: %s", what, name ? " " : "", name ? name : "", strerror(code));
    return SHEAF__EXIT_FAILED;
}

/* ---- the cluster ---- */

static int make_tasks(struct sheaf__launch *l)
{
    int count = 0;
    for (int role = 0; role < SHEAF__ROLES; role++)
        count += (int)l->plan->counts[role];
    l->tasks = calloc((size_t)count, sizeof(*l->tasks));
    if (!l->tasks)
        return failed(ENOMEM, "start", "the tasks");
    l->count = count;
    struct sheaf__launched *t = l->tasks;
    for (int role = 0; role < SHEAF__ROLES; role++)
        for (int i = 0; i < l->plan->counts[role]; i++, t++) {
            t->role = (enum sheaf__role)role;
            t->index = i;
            t->out.fd = t->err.fd = -1;
            snprintf(t->name, sizeof(t->name), "%s:%d", sheaf__role_names[role], i);
        }
    return 0;
}

/* An evaluator is called by nobody: it has no port and stands outside the cluster. */
static int give_ports(struct sheaf__launch *l)
{
    uint16_t *ports = calloc((size_t)l->count, sizeof(*ports));
    int code = ports ? sheaf__ports_pick(ports, l->count) : ENOMEM;
    for (int i = 0; i < l->count && code == 0; i++)
        l->tasks[i].port = l->tasks[i].role == SHEAF__ROLE_EVALUATOR ? 0 : ports[i];
    free(ports);
    return code ? failed(code, "find", "free ports") : 0;
}

/* {"worker":["127.0.0.1:40001"],"ps":["127.0.0.1:40002"]} */
static void write_cluster(FILE *to, const struct sheaf__launch *l)
{
    bool open = false;
    fputc('{', to);
    for (int i = 0; i < l->count; i++) {
        const struct sheaf__launched *t = &l->tasks[i];
        if (!t->port)
            continue;
        if (t->index == 0)
            fprintf(to, "%s\"%s\":[", open ? "]," : "", sheaf__role_names[t->role]);
        fprintf(to, "%s\"127.0.0.1:%u\"", t->index ? "," : "", t->port);
        open = true;
    }
    fputs(open ? "]}" : "}", to);
}

static int make_configs(struct sheaf__launch *l)
{
    for (int i = 0; i < l->count; i++) {
        struct sheaf__launched *t = &l->tasks[i];
        size_t size;
        FILE *to = open_memstream(&t->tf_config, &size);
        if (!to)
            return failed(errno, "describe", "the cluster");
        fputs("TF_CONFIG={\"cluster\":", to);
        write_cluster(to, l);
        fprintf(to, ",\"task\":{\"type\":\"%s\",\"index\":%d}}", sheaf__role_names[t->role],
                t->index);
        if (fclose(to) != 0)
            return failed(errno, "describe", "the cluster");
    }
    return 0;
}

/* ---- their output ---- */

/* What an earlier run wrote stays; a line tells where this one begins. */
static void mark_log(FILE *log)
{
    char when[40];
    const time_t now = time(NULL);
    struct tm local;
    struct stat st;
    if (fstat(fileno(log), &st) != 0 || st.st_size == 0)
        return;
    if (!localtime_r(&now, &local) || !strftime(when, sizeof(when), "%F %T %z", &local))
        when[0] = '\0';
    fprintf(log, "--- sheaf run %s\n", when);
    fflush(log);
}

static int open_log(const char *directory, struct sheaf__launched *t)
{
    char path[4096];
    int size = snprintf(path, sizeof(path), "%s/%s-%d.log", directory, sheaf__role_names[t->role],
                        t->index);
    if (size >= (int)sizeof(path))
        return failed(ENAMETOOLONG, "write", directory);
    t->log = fopen(path, "ae");
    if (!t->log)
        return failed(errno, "write", path);
    mark_log(t->log);
    return 0;
}

static void set_prefix(struct sheaf__launched *t, int number, bool colours)
{
    static const int COLOURS[] = {36, 33, 32, 35, 34, 31};
    if (colours)
        snprintf(t->prefix, sizeof(t->prefix), "\033[%dm%s|\033[0m ", COLOURS[number % 6], t->name);
    else
        snprintf(t->prefix, sizeof(t->prefix), "%s| ", t->name);
}

static int open_outputs(struct sheaf__launch *l)
{
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
    bool colours = isatty(1) && !(none && *none) && !(term && strcmp(term, "dumb") == 0);
    const char *directory = l->plan->log_dir;
    if (directory && mkdir(directory, 0777) != 0 && errno != EEXIST)
        return failed(errno, "make the directory", directory);
    for (int i = 0; i < l->count; i++) {
        struct sheaf__launched *t = &l->tasks[i];
        if (directory && open_log(directory, t))
            return SHEAF__EXIT_FAILED;
        if (!directory && !l->plan->bare)
            set_prefix(t, i, colours);
        t->out.to = directory ? t->log : stdout;
        t->err.to = directory ? t->log : stderr;
        t->out.prefix = t->err.prefix = t->prefix;
        t->err.said = directory || l->plan->bare ? NULL : &l->said;
    }
    /* The tasks stand in the order of their roles: the first trainer speaks for the job. */
    if (l->tasks[0].role == SHEAF__ROLE_CHIEF || l->tasks[0].role == SHEAF__ROLE_WORKER)
        l->tasks[0].out.holds = !l->plan->bare;
    return 0;
}

/* ---- starting and ending ---- */

/* From here on these signals are read, not delivered; the tasks start with the old mask. Hanging up
 * is no signal to end where it is ignored (nohup). */
static int catch_signals(struct sheaf__launch *l)
{
    sigset_t set;
    struct sigaction hangup;
    sigemptyset(&set);
    int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaddset(&set, signals[i]);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN)
        sigdelset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &l->mask);
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signals < 0 ? failed(errno, "watch", "signals") : 0;
}

/* SHEAF_GRACE_S: what saves when it is asked to stop must have ended before it is killed. */
static void name_grace(double grace, char *text, size_t size)
{
    static const char name[] = "SHEAF_GRACE_S";
    const char *set = getenv(name);
    if (set)
        snprintf(text, size, "%s=%.40s", name, set);
    else
        snprintf(text, size, "%s=%.3f", name, grace * 0.8 > 0.001 ? grace * 0.8 : 0.001);
}

static int start_tasks(struct sheaf__launch *l)
{
    char file[300], ended[300], run_id[64], grace[64], threads[40];
    snprintf(file, sizeof(file), "SHEAF_SECRET_FILE=%s", l->secret.path);
    snprintf(ended, sizeof(ended), "SHEAF_ENDED_FILE=%s", l->secret.ended);
    snprintf(run_id, sizeof(run_id), "SHEAF_RUN_ID=%s", l->secret.run_id);
    snprintf(threads, sizeof(threads), "SHEAF_THREADS=%lld", (long long)l->plan->threads);
    name_grace(l->plan->grace, grace, sizeof(grace));
    const struct sheaf__launch_common common = {
        .program = l->plan->program,
        .variables = {file, ended, run_id, grace, l->plan->threads ? threads : NULL},
        .guard = &l->guard,
        .mask = &l->mask,
    };
    for (int i = 0; i < l->count; i++) {
        int code = sheaf__task_start(&l->tasks[i], &common);
        if (code) {
            failed(code, "start", l->plan->program[0]);
            return code == ENOENT ? SHEAF__EXIT_NOT_FOUND : SHEAF__EXIT_NOT_EXECUTABLE;
        }
    }
    return 0;
}

/* A log that is not whole is a failure of the run. */
static void close_log(struct sheaf__launch *l, struct sheaf__launched *t)
{
    if (!t->log)
        return;
    const bool lost = ferror(t->log);
    if (fclose(t->log) == 0 && !lost)
        return;
    sheaf__launch_say("cannot write all of the log of %s", t->name);
    if (!l->code)
        l->code = SHEAF__EXIT_FAILED;
}

static void clean_up(struct sheaf__launch *l)
{
    for (int i = 0; i < l->count; i++)
        sheaf__task_signal(&l->tasks[i], SIGKILL);
    sheaf__orphans_kill(&l->orphans);
    sheaf__guard_finish(&l->guard);
    sheaf__run_secret_remove(&l->secret); /* had somebody killed the guard */
    for (int i = 0; i < l->count; i++) {
        struct sheaf__launched *t = &l->tasks[i];
        sheaf__relay_finish(&t->err, false);
        sheaf__relay_finish(&t->out, t->ended && sheaf__task_code(t) == 0);
        close_log(l, t);
        free(t->tf_config);
    }
    free(l->tasks);
    sheaf__said_free(&l->said);
    if (l->signals >= 0)
        close(l->signals);
}

static int prepare(struct sheaf__launch *l)
{
    int code;
    if ((code = make_tasks(l)) || (code = give_ports(l)) || (code = make_configs(l)) ||
        (code = open_outputs(l)) || (code = catch_signals(l)))
        return code;
    code = sheaf__run_secret_choose(&l->secret);
    if (code)
        return failed(code, "choose", "a secret");
    code = sheaf__guard_start(&l->guard, &l->secret);
    if (code)
        return failed(code, "start", "a process");
    code = sheaf__run_secret_write(&l->secret);
    if (code)
        return failed(code, "write", l->secret.path);
    code = sheaf__orphans_take(&l->orphans);
    if (code)
        return failed(code, "watch", "processes");
    return start_tasks(l);
}

int sheaf__launch_run(const struct sheaf__launch_plan *plan)
{
    struct sheaf__launch launch = {.plan = plan, .signals = -1, .guard = {.socket = -1}};
    int code = prepare(&launch);
    if (code == 0)
        sheaf__supervise(&launch);
    clean_up(&launch);
    return code ? code : launch.code;
}
