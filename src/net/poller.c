/* SPDX-License-Identifier: Apache-2.0 */
#include "net/poller.h"

#include "base/descriptor.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct sheaf__poller {
    int epoll;            /* -1: without descriptors */
    int pipe[2];          /* a byte in it wakes: written here, or by other processes */
    _Atomic bool pending; /* a kick that nobody has taken yet */
    struct sheaf__mutex mutex;
    struct sheaf__cond cond;
};

static sheaf_status open_descriptors(struct sheaf__poller *p, sheaf_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    p->epoll = sheaf__descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (p->epoll < 0 || pipe2(p->pipe, O_NONBLOCK | O_CLOEXEC) != 0)
        return sheaf__errno_error(err, errno, NULL, "watch descriptors");
    for (int i = 0; i < 2; i++)
        p->pipe[i] = sheaf__descriptor(p->pipe[i]);
    if (p->pipe[0] < 0 || p->pipe[1] < 0 ||
        epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->pipe[0], &event) != 0)
        return sheaf__errno_error(err, errno, NULL, "watch descriptors");
    return SHEAF_OK;
}

sheaf_status sheaf__poller_new(bool descriptors, struct sheaf__poller **poller, sheaf_error *err)
{
    struct sheaf__poller *p = sheaf__calloc(1, sizeof(*p));
    if (!p)
        return sheaf__no_memory(err, "a poller");
    p->epoll = p->pipe[0] = p->pipe[1] = -1;
    sheaf_status status = descriptors ? open_descriptors(p, err) : SHEAF_OK;
    if (status < 0)
        sheaf__poller_free(p);
    else
        *poller = p;
    return status;
}

void sheaf__poller_free(struct sheaf__poller *p)
{
    if (!p)
        return;
    for (int i = 0; i < 2; i++)
        if (p->pipe[i] >= 0)
            close(p->pipe[i]);
    if (p->epoll >= 0)
        close(p->epoll);
    sheaf__free(p);
}

sheaf_status sheaf__poller_add(struct sheaf__poller *p, struct sheaf__watch *watch,
                               sheaf_error *err)
{
    struct epoll_event event = {.events = watch->out ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.ptr = watch};
    if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, watch->fd, &event) != 0)
        return sheaf__errno_error(err, errno, NULL, "watch a connection");
    return SHEAF_OK;
}

void sheaf__poller_remove(struct sheaf__poller *p, struct sheaf__watch *watch)
{
    epoll_ctl(p->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
}

void sheaf__poller_want_out(struct sheaf__poller *p, struct sheaf__watch *watch, bool out)
{
    struct epoll_event event = {.events = out ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = watch};
    watch->out = out;
    epoll_ctl(p->epoll, EPOLL_CTL_MOD, watch->fd, &event);
}

static void take_kick(struct sheaf__poller *p)
{
    char bytes[64];
    /* The flag goes last: a kick before that writes nothing, but what it is about is seen by
     * whoever dispatched. */
    ssize_t got = read(p->pipe[0], bytes, sizeof(bytes));
    (void)got;
    atomic_exchange(&p->pending, false);
}

bool sheaf__poller_dispatch(struct sheaf__poller *p)
{
    enum { AT_ONCE = 64 };
    struct epoll_event events[AT_ONCE];
    bool any = false;
    if (p->epoll < 0)
        return false;
    int count = epoll_wait(p->epoll, events, AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        struct sheaf__watch *watch = events[i].data.ptr;
        uint32_t e = events[i].events;
        if (!watch) {
            take_kick(p);
            continue;
        }
        if (watch->quiet)
            continue;
        any = true;
        watch->fn(watch, e & (EPOLLIN | EPOLLHUP | EPOLLERR), e & (EPOLLOUT | EPOLLHUP | EPOLLERR));
    }
    return any;
}

static void sleep_in_base(struct sheaf__poller *p, int64_t deadline)
{
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&p->mutex);
    while (!atomic_load(&p->pending) && status == SHEAF_OK)
        status = sheaf__cond_wait_until(&p->cond, &p->mutex, deadline, SHEAF__NO_TOKEN, NULL);
    atomic_exchange(&p->pending, false);
    sheaf__mutex_unlock(&p->mutex);
}

void sheaf__poller_sleep(struct sheaf__poller *p, int64_t deadline)
{
    struct epoll_event event;
    int timeout = -1;
    if (p->epoll < 0) {
        sleep_in_base(p, deadline);
        return;
    }
    if (deadline != SHEAF__NO_DEADLINE) {
        int64_t ms = (sheaf__clock_left(deadline) + SHEAF__MS - 1) / SHEAF__MS;
        timeout = ms > INT_MAX ? INT_MAX : (int)ms;
    }
    epoll_wait(p->epoll, &event, 1, timeout);
}

void sheaf__poller_kick(struct sheaf__poller *p)
{
    if (atomic_exchange(&p->pending, true))
        return;
    if (p->epoll >= 0) {
        /* If it is full, there is enough in it to wake. */
        ssize_t done = write(p->pipe[1], "", 1);
        (void)done;
        return;
    }
    sheaf__mutex_lock(&p->mutex);
    sheaf__cond_signal(&p->cond);
    sheaf__mutex_unlock(&p->mutex);
}

int sheaf__poller_bell(const struct sheaf__poller *p)
{
    return p->pipe[1];
}
