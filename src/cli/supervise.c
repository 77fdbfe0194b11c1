/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The rules of a launched job. What a failure means is for the tasks' strategy to decide; the
 * launcher ends only those that have nothing left to do:
 *   - a ps when every chief, worker and evaluator has ended;
 *   - every other task when all chiefs and workers have ended and one of them failed, since no last
 *     checkpoint will come;
 *   - every other task when a ps has failed, without which nobody can go on: those that have not
 *     found out wait for it;
 *   - a task that somebody has stopped (SIGSTOP) when another has ended: its peers have given it up
 *     or soon will, and it cannot find out;
 *   - every task when the user has asked for it;
 * each after a grace in which it may end by itself, by SIGTERM and, after a second grace, SIGKILL;
 * the stopped, which hear nothing else, by SIGKILL. After a failure there is nothing to finish, and
 * the first grace is short. */

enum { GRACE_AFTER_FAILURE_MS = 1000, GRACE_WITHOUT_PS_MS = 3000, TOGETHER_MS = 1000 };

struct watch {
    struct sheaf__launch *launch;
    int64_t now, grace; /* ms */
    int64_t deadline;   /* of the whole job, 0: none */
    int interrupts;     /* how often a user asked to end */
    int64_t interrupted_at;
    int last_interrupt; /* by which signal */
    bool failed;        /* a task has */
    int64_t tell_at;    /* of those that have failed after it; 0: of none */
    struct pollfd *polls;
};

static int64_t monotonic_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool trains(const struct sheaf__launched *t)
{
    return t->role == SHEAF__ROLE_CHIEF || t->role == SHEAF__ROLE_WORKER;
}

/* Whether nothing is to be expected of it: it has ended, or is stopped while others leave. A job of
 * which nobody has ended may have been stopped as a whole, to go on later. */
static bool is_gone(const struct sheaf__launch *l, const struct sheaf__launched *t)
{
    bool left = false;
    for (int i = 0; i < l->count; i++)
        left = left || l->tasks[i].ended;
    return t->ended || (t->halted && left);
}

static int count_running(const struct sheaf__launch *l)
{
    int running = 0;
    for (int i = 0; i < l->count; i++)
        running += !l->tasks[i].ended;
    return running;
}

static void signal_all(const struct sheaf__launch *l, int signal)
{
    for (int i = 0; i < l->count; i++)
        sheaf__task_signal(&l->tasks[i], signal);
}

/* All at one moment: none shall see another end before it is asked itself, and take that for a failure. */
static void signal_at_once(const struct sheaf__launch *l, int signal)
{
    signal_all(l, SIGSTOP);
    signal_all(l, signal);
    signal_all(l, SIGCONT);
}

/* ---- a task has ended ---- */

/* How it ended: completes "it ". */
struct end {
    char text[80];
};

static struct end describe_end(const struct sheaf__launched *t)
{
    struct end end;
    const int s = WTERMSIG(t->wait_status);
    if (WIFSIGNALED(t->wait_status))
        snprintf(end.text, sizeof(end.text), "was killed by signal %d (%s)", s, strsignal(s));
    else
        snprintf(end.text, sizeof(end.text), "ended with exit code %d",
                 WEXITSTATUS(t->wait_status));
    return end;
}

static const char *what_next(const struct watch *w, bool ps)
{
    if (!count_running(w->launch))
        return "";
    return ps ? "; the others cannot go on"
              : "; the others go on or end, as their strategy decides";
}

/* One line for all that have failed like this one, and are not told of. */
static void tell_like(const struct watch *w, const struct sheaf__launched *one)
{
    enum { NAMED = 8 };
    const int code = WEXITSTATUS(one->wait_status);
    char names[NAMED * (sizeof(one->name) + 2)] = "";
    int count = 0;
    bool ps = false;
    for (int i = 0; i < w->launch->count; i++) {
        struct sheaf__launched *t = &w->launch->tasks[i];
        if (!t->untold || WEXITSTATUS(t->wait_status) != code)
            continue;
        t->untold = false;
        ps = ps || t->role == SHEAF__ROLE_PS;
        if (count++ < NAMED)
            snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
                     *names ? ", " : "", t->name);
    }
    sheaf__launch_say("%s%s ended with exit code %d%s", names, count > NAMED ? ", …" : "", code,
                      what_next(w, ps));
}

static void tell_together(struct watch *w)
{
    w->tell_at = 0;
    for (int i = 0; i < w->launch->count; i++)
        if (w->launch->tasks[i].untold)
            tell_like(w, &w->launch->tasks[i]);
}

/* Who is killed, and the first to fail, is told of at once; those that follow it, together. */
static void report_end(struct watch *w, struct sheaf__launched *t)
{
    if (t->stopped)
        return;
    const bool ps = t->role == SHEAF__ROLE_PS;
    if (WIFSIGNALED(t->wait_status)) {
        const struct end end = describe_end(t);
        if (!w->interrupts || WTERMSIG(t->wait_status) != w->last_interrupt)
            sheaf__launch_say("%s %s%s", t->name, end.text, what_next(w, ps));
        w->failed = true;
        return;
    }
    if (w->interrupts && WEXITSTATUS(t->wait_status) == SHEAF__EXIT_CALL_AGAIN)
        return;
    t->untold = WEXITSTATUS(t->wait_status) != 0;
    if (t->untold && !w->failed)
        tell_together(w);
    else if (t->untold && !w->tell_at)
        w->tell_at = w->now + TOGETHER_MS;
    w->failed = w->failed || WEXITSTATUS(t->wait_status);
}

static void grant(const struct watch *w, struct sheaf__launched *t, int64_t most)
{
    if (t->ended)
        return;
    if (t->halted && !t->kill_at)
        t->kill_at = w->now + w->grace;
    if (!t->halted && !t->term_at)
        t->term_at = w->now + (w->grace < most ? w->grace : most);
}

static void end_without_ps(const struct watch *w)
{
    const struct sheaf__launch *l = w->launch;
    bool lost = false;
    for (int i = 0; i < l->count; i++) {
        const struct sheaf__launched *t = &l->tasks[i];
        lost =
            lost || (t->role == SHEAF__ROLE_PS && t->ended && !t->stopped && sheaf__task_code(t));
    }
    for (int i = 0; lost && !w->interrupts && i < l->count; i++)
        grant(w, &l->tasks[i], GRACE_WITHOUT_PS_MS);
}

/* Gives those that have nothing left to do their grace. */
static void plan_ends(const struct watch *w)
{
    const struct sheaf__launch *l = w->launch;
    int trainers = 0, evaluators_running = 0;
    bool failed = false;
    for (int i = 0; i < l->count; i++) {
        const struct sheaf__launched *t = &l->tasks[i];
        if (trains(t) && !is_gone(l, t))
            return;
        trainers += trains(t);
        failed = failed || (trains(t) && (!t->ended || sheaf__task_code(t) != 0));
        evaluators_running += t->role == SHEAF__ROLE_EVALUATOR && !is_gone(l, t);
    }
    /* Who was asked to end has something to finish. */
    const int64_t most = failed && !w->interrupts ? GRACE_AFTER_FAILURE_MS : INT64_MAX;
    for (int i = 0; i < l->count && trainers; i++) {
        struct sheaf__launched *t = &l->tasks[i];
        if (failed || t->halted || (t->role == SHEAF__ROLE_PS && !evaluators_running))
            grant(w, t, most);
    }
}

/* Processes that left their task's group are the launcher's children once their parents end; it
 * must not leave them as zombies. A task that has ended just now is for the next round. */
static void reap_orphans(struct sheaf__launch *l)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
        for (int i = 0; i < l->count; i++)
            if (info.si_pid == l->tasks[i].pid && !l->tasks[i].ended)
                return;
        sheaf__orphans_reap(&l->orphans, info.si_pid);
        info.si_pid = 0;
    }
}

static void note_end(struct watch *w, struct sheaf__launched *t)
{
    struct sheaf__launch *l = w->launch;
    t->noted = true;
    const struct end end = describe_end(t);
    sheaf__run_note_end(&l->secret, t->name, end.text); /* for those that wait for it to come */
    sheaf__guard_remove(&l->guard, t->pid);
    sheaf__relay_end(&t->out, w->now);
    sheaf__relay_end(&t->err, w->now);
    if (!t->stopped && !l->code)
        l->code = sheaf__task_code(t);
    report_end(w, t);
    /* Who was asked to end may have waited for this one. */
    for (int i = 0; i < l->count && w->interrupts; i++)
        l->tasks[i].term_at = w->now + w->grace;
}

/* Which of several tasks was the first to end the system does not tell if all have ended when we
 * look. A task that was killed is then the likely cause of the others' failures. */
static void reap(struct watch *w)
{
    struct sheaf__launch *l = w->launch;
    for (int i = 0; i < l->count; i++)
        sheaf__task_reap(&l->tasks[i]);
    for (int killed = 1; killed >= 0; killed--)
        for (int i = 0; i < l->count; i++) {
            struct sheaf__launched *t = &l->tasks[i];
            if (t->ended && !t->noted && WIFSIGNALED(t->wait_status) >= killed)
                note_end(w, t);
        }
    reap_orphans(l);
    plan_ends(w);
    end_without_ps(w);
}

/* ---- time and signals ---- */

/* A signal to a process and to its group, as timeout(1) and service managers send, comes twice and is meant once. */
enum { SAME_SIGNAL_MS = 200 };

static void interrupt(struct watch *w, int signal)
{
    if (w->interrupts && signal == w->last_interrupt && w->now - w->interrupted_at < SAME_SIGNAL_MS)
        return;
    w->last_interrupt = signal;
    w->interrupted_at = w->now;
    if (w->interrupts++ == 0) {
        sheaf__launch_say("ending all tasks by signal %d (%s); a second one kills them", signal,
                          strsignal(signal));
        signal_at_once(w->launch, signal);
        for (int i = 0; i < w->launch->count; i++)
            w->launch->tasks[i].term_at = w->now + w->grace;
        return;
    }
    sheaf__launch_say("asked a second time: killing all tasks");
    w->last_interrupt = SIGKILL;
    signal_all(w->launch, SIGKILL);
}

static void read_signals(struct watch *w)
{
    struct signalfd_siginfo info;
    while (read(w->launch->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD)
            continue;
        if (signal == SIGUSR1 || signal == SIGUSR2)
            signal_all(w->launch, signal);
        else
            interrupt(w, signal);
    }
}

static void check_timeout(struct watch *w)
{
    struct sheaf__launch *l = w->launch;
    if (!w->deadline || w->now < w->deadline)
        return;
    w->deadline = 0;
    sheaf__launch_say("not done after %g s; ending all tasks", l->plan->timeout);
    if (!l->code)
        l->code = SHEAF__EXIT_TIMEOUT;
    for (int i = 0; i < l->count; i++) {
        struct sheaf__launched *t = &l->tasks[i];
        t->stopped = true;
        t->kill_at = w->now + w->grace;
    }
    signal_at_once(l, SIGTERM);
}

static void kill_late(const struct watch *w, struct sheaf__launched *t)
{
    struct sheaf__launch *l = w->launch;
    if (t->halted)
        sheaf__launch_say(
            "%s did not end within %g s: killed; it had been stopped by signal %d (%s)", t->name,
            l->plan->grace, t->halted, strsignal(t->halted));
    else
        sheaf__launch_say("%s did not end within %g s: killed", t->name, l->plan->grace);
    /* Who was not asked before has failed by this. */
    if (!t->stopped && !l->code)
        l->code = SHEAF__EXIT_SIGNAL + SIGKILL;
    t->stopped = true;
    t->kill_at = 0;
    sheaf__task_signal(t, SIGKILL);
}

/* The grace is over, by itself it does not end. */
static void ask_to_end(const struct watch *w, struct sheaf__launched *t)
{
    struct sheaf__launch *l = w->launch;
    if (!w->interrupts) {
        sheaf__launch_say(
            t->role == SHEAF__ROLE_PS
                ? "%s has no worker left to serve and did not end by itself; ending it"
                : "%s has nothing left to do and did not end by itself; ending it",
            t->name);
    } else if (!l->code) {
        l->code = SHEAF__EXIT_SIGNAL + w->last_interrupt;
    }
    t->stopped = true;
    if (w->last_interrupt == SIGTERM) {
        kill_late(w, t);
        return;
    }
    if (w->interrupts)
        sheaf__launch_say("%s did not end within %g s of signal %d (%s); sending it signal %d (%s)",
                          t->name, l->plan->grace, w->last_interrupt, strsignal(w->last_interrupt),
                          SIGTERM, strsignal(SIGTERM));
    t->kill_at = w->now + w->grace;
    sheaf__task_signal(t, SIGTERM);
}

static void end_late(const struct watch *w)
{
    for (int i = 0; i < w->launch->count; i++) {
        struct sheaf__launched *t = &w->launch->tasks[i];
        if (t->ended)
            continue;
        if (t->term_at && w->now >= t->term_at && !t->stopped)
            ask_to_end(w, t);
        if (t->kill_at && w->now >= t->kill_at)
            kill_late(w, t);
    }
}

/* ---- the loop ---- */

static void sooner(int64_t *wait, int64_t now, int64_t at)
{
    if (at && (*wait < 0 || at - now < *wait))
        *wait = at > now ? at - now : 0;
}

/* How long nothing will happen by itself; -1: for ever. Shows what was held back long enough. */
static int64_t quiet_time(const struct watch *w)
{
    int64_t wait = -1;
    sooner(&wait, w->now, w->deadline);
    sooner(&wait, w->now, w->tell_at);
    for (int i = 0; i < w->launch->count; i++) {
        struct sheaf__launched *t = &w->launch->tasks[i];
        int64_t held = sheaf__relay_tick(&t->out, w->now);
        if (held >= 0)
            sooner(&wait, w->now, w->now + held);
        if (t->ended)
            continue;
        if (!t->stopped)
            sooner(&wait, w->now, t->term_at);
        sooner(&wait, w->now, t->kill_at);
    }
    return wait;
}

static void read_outputs(struct watch *w)
{
    for (int i = 0; i < w->launch->count; i++) {
        struct sheaf__launched *t = &w->launch->tasks[i];
        struct sheaf__relay *relays[] = {&t->out, &t->err};
        for (int k = 0; k < 2; k++)
            if (w->polls[1 + 2 * i + k].revents && !sheaf__relay_read(relays[k], w->now))
                sheaf__relay_end(relays[k], w->now);
    }
}

static void poll_once(struct watch *w)
{
    const struct sheaf__launch *l = w->launch;
    w->polls[0] = (struct pollfd){l->signals, POLLIN, 0};
    for (int i = 0; i < l->count; i++) {
        w->polls[1 + 2 * i] = (struct pollfd){l->tasks[i].out.fd, POLLIN, 0};
        w->polls[2 + 2 * i] = (struct pollfd){l->tasks[i].err.fd, POLLIN, 0};
    }
    int64_t wait = quiet_time(w);
    if (wait > INT32_MAX)
        wait = INT32_MAX;
    int ready = poll(w->polls, 1 + 2 * (nfds_t)l->count, (int)wait);
    w->now = monotonic_ms();
    if (ready > 0) {
        read_outputs(w);
        if (w->polls[0].revents)
            read_signals(w);
    }
}

void sheaf__supervise(struct sheaf__launch *launch)
{
    struct watch w = {.launch = launch, .now = monotonic_ms()};
    w.grace = (int64_t)(launch->plan->grace * 1000);
    if (launch->plan->timeout > 0)
        w.deadline = w.now + (int64_t)(launch->plan->timeout * 1000);
    w.polls = calloc(1 + 2 * (size_t)launch->count, sizeof(*w.polls));
    if (!w.polls) {
        sheaf__launch_say("not enough memory");
        launch->code = 1;
        return;
    }
    for (reap(&w); count_running(launch) > 0; reap(&w)) {
        poll_once(&w);
        check_timeout(&w);
        end_late(&w);
        if (w.tell_at && w.now >= w.tell_at)
            tell_together(&w);
    }
    tell_together(&w);
    free(w.polls);
}
