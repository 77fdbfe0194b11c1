/* SPDX-License-Identifier: Apache-2.0 */
/* sheaf_stop() may run in a signal handler, where no lock may be taken: it sets a flag of the
 * context and writes to an event descriptor. A small thread reads that and cancels the tokens,
 * which wakes the waits. It starts with the first token or wait of the process and stays. */
#include "base/context_state.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct sheaf__once once = SHEAF__ONCE_INIT;
static _Atomic int event = -1;

static void *watch(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "sheaf-stop");
    for (;;) {
        /* Before the read: a stop that came before the descriptor stood wrote nowhere. */
        sheaf__context_stop_asked();
        uint64_t count;
        if (read(atomic_load(&event), &count, sizeof(count)) < 0 && errno != EINTR)
            return NULL;
    }
}

static void start(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t before;
    int fd = sheaf__descriptor(eventfd(0, EFD_CLOEXEC));
    if (fd < 0 || pthread_attr_init(&attr) != 0)
        return; /* waits still end with their deadlines */
    atomic_store(&event, fd);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, (size_t)1 << 20);
    sheaf__signals_hold(&before);
    pthread_create(&thread, &attr, watch, NULL);
    sheaf__signals_release(&before);
    pthread_attr_destroy(&attr);
}

void sheaf__stop_watch(void)
{
    /* A simulation has no signals; its stops are direct. */
    if (!sheaf__thread_scheduler())
        sheaf__once(&once, start);
}

void sheaf__stop_notify(void)
{
    int saved = errno;
    int fd = atomic_load(&event);
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0) {
        /* Full: the thread has not read yet, so it will. */
    }
    errno = saved;
}
