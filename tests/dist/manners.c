/* SPDX-License-Identifier: Apache-2.0 */

/* A task that looks at what the library does to its process while it trains and saves:
 *
 *     manners FOLDER STRATEGY
 *
 * No signal's action may change, no descriptor may reach a child, no thread may take the program's signals, and nothing
 * may be printed: the log goes to a function. Prints one line for each fault. */

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sheaf/sheaf.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNALS = 65, ELEMENTS = 300000 };

static int faults;
static atomic_int lines;
static struct sigaction before[SIGNALS];

static void count_line(sheaf_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
    atomic_fetch_add(&lines, 1);
}

static void compare_signals(const char *when)
{
    for (int s = 1; s < SIGNALS; s++) {
        struct sigaction now;
        if (sigaction(s, NULL, &now) == 0 && now.sa_handler != before[s].sa_handler) {
            printf("%s: the action of signal %d was changed\n", when, s);
            faults++;
        }
    }
}

/* In the child: only what a program without any library opened may be there. */
static void list_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        const int fd = atoi(e->d_name);
        if (e->d_name[0] == '.' || fd <= 2 || fd == dirfd(d))
            continue;
        char path[64], target[256] = "";
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) > 0)
            printf("descriptor %d (%s) reached a child\n", fd, target);
    }
    if (d)
        closedir(d);
}

static void start_child(char *self)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", self, "--list", (char *)NULL);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        printf("the child ended with %d\n", status);
        faults++;
    }
}

static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_tape *tape = sheaf_tape_start();
    void **model = user;
    (void)r;
    (void)in;
    sheaf_tensor *loss = sheaf_mean(sheaf_square(sheaf_value(model[0])));
    sheaf_element_put(out, "", loss);
    return sheaf_optimizer_minimize(model[1], tape, loss);
}

static void train(sheaf_strategy *s, const char *folder, char *self, sheaf_error *err)
{
    sheaf_variable *w = NULL;
    sheaf_optimizer *adam = sheaf_adam(NULL);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    SHEAF_SCOPE(s)
    {
        w = sheaf_variable_init("w", SHEAF_FLOAT32, SHEAF_SHAPE(ELEMENTS),
                                sheaf_init_uniform(-1, 1, 7), NULL);
    }
    sheaf_checkpoint_add_variable(c, "w", w);
    void *model[] = {w, adam};
    for (int i = 0; i < 20 && err->status >= 0; i++)
        SHEAF_FRAME
        {
            if (sheaf_run(s, step, model, NULL, NULL, err) < 0)
                break;
            if (i == 10)
                start_child(self);
        }
    char prefix[4096];
    snprintf(prefix, sizeof(prefix), "%s/ckpt", folder);
    if (err->status >= 0 && sheaf_strategy_join(s, 0, err) >= 0 &&
        sheaf_checkpoint_save(c, prefix, NULL, NULL, err) >= 0)
        compare_signals("after a save");
    sheaf_checkpoint_free(c);
    sheaf_optimizer_free(adam);
    sheaf_variable_free(w);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_descriptors();
        return 0;
    }
    const sheaf_context_options options = {.log = count_line, .log_level = SHEAF_LOG_DEBUG};
    sheaf_context *context = NULL;
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    sheaf_error err = {0};
    for (int i = 1; i < SIGNALS; i++)
        sigaction(i, NULL, &before[i]);
    if (argc < 3 || sheaf_context_new(&options, &context, &err) < 0)
        return 2;
    sheaf_context_enter(context);
    if (sheaf_cluster_resolve(NULL, &cluster, &err) >= 0) {
        if (sheaf_cluster_is(cluster, "ps"))
            (void)!sheaf_server_run(cluster, NULL, &err);
        else if (sheaf_strategy_new(argv[2], cluster, NULL, &s, &err) >= 0)
            train(s, argv[1], argv[0], &err);
    }
    compare_signals("at the end");
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    sheaf_frame_clear();
    sheaf_context_enter(NULL);
    sheaf_context_free(context);
    compare_signals("after all");
    if (atomic_load(&lines) == 0) {
        printf("the log's function was never called\n");
        faults++;
    }
    return err.status < 0 ? sheaf_error_exit(&err) : faults > 0;
}
