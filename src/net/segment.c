/* SPDX-License-Identifier: Apache-2.0 */
#include "net/segment.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first page is ours: the token. */
enum { HEAD = 4096 };
#define SEALS          (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SIZE_MAX_BYTES ((uint64_t)1 << 40)

static sheaf_status map(int fd, size_t size, uint8_t **data, sheaf_error *err)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return sheaf__errno_error(err, errno, NULL, "map shared memory");
    *data = p;
    return SHEAF_OK;
}

sheaf_status sheaf__segment_make(size_t size, struct sheaf__segment *segment,
                                 struct sheaf__segment_ticket *ticket, sheaf_error *err)
{
    size_t whole = HEAD + (size + HEAD - 1) / HEAD * HEAD;
    uint8_t *data = NULL;
    SHEAF__TRY(sheaf__random_bytes(ticket->token, sizeof(ticket->token), err));
    int fd = sheaf__descriptor(memfd_create("sheaf", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return sheaf__errno_error(err, errno, NULL, "make shared memory");
    sheaf_status status = SHEAF_OK;
    if (ftruncate(fd, (off_t)whole) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        status = sheaf__errno_error(err, errno, NULL, "size shared memory");
    if (status == SHEAF_OK)
        status = map(fd, whole, &data, err);
    if (status < 0) {
        close(fd);
        return status;
    }
    memcpy(data, ticket->token, sizeof(ticket->token));
    ticket->pid = getpid();
    ticket->fd = fd;
    ticket->size = whole;
    *segment = (struct sheaf__segment){.data = data + HEAD, .size = whole - HEAD, .fd = fd};
    return SHEAF_OK;
}

/* The descriptor is really such a segment, and stays as large as it is. */
static sheaf_status check(int fd, const struct sheaf__segment_ticket *ticket, sheaf_error *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != ticket->size)
        return sheaf__error(err, SHEAF_ERR_INCOMPATIBLE,
                            "shared memory is not the one that was offered");
    if (seals < 0 || (seals & SEALS) != SEALS)
        return sheaf__error(err, SHEAF_ERR_INCOMPATIBLE, "shared memory is not sealed");
    return SHEAF_OK;
}

sheaf_status sheaf__segment_open(const struct sheaf__segment_ticket *ticket,
                                 struct sheaf__segment *segment, sheaf_error *err)
{
    char path[64];
    uint8_t *data = NULL;
    if (ticket->pid <= 0 || ticket->fd < 0 || ticket->size <= HEAD || ticket->size > SIZE_MAX_BYTES)
        return sheaf__error(err, SHEAF_ERR_INCOMPATIBLE, "no shared memory was offered");
    snprintf(path, sizeof(path), "/proc/%lld/fd/%d", (long long)ticket->pid, ticket->fd);
    int fd = sheaf__descriptor(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0)
        return sheaf__errno_error(err, errno, path, "open shared memory");
    sheaf_status status = check(fd, ticket, err);
    if (status == SHEAF_OK)
        status = map(fd, ticket->size, &data, err);
    close(fd);
    if (status < 0)
        return status;
    if (!sheaf__digest_equal(data, ticket->token, sizeof(ticket->token))) {
        munmap(data, ticket->size);
        return sheaf__error(err, SHEAF_ERR_INCOMPATIBLE,
                            "shared memory is not the one that was offered");
    }
    *segment = (struct sheaf__segment){.data = data + HEAD, .size = ticket->size - HEAD, .fd = -1};
    return SHEAF_OK;
}

/* Opened for reading, too, it always has a reader: writing to it when the other process is gone is no signal. */
int sheaf__segment_open_pipe(int64_t pid, int number)
{
    char path[64];
    struct stat st;
    if (pid <= 0 || number < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/%lld/fd/%d", (long long)pid, number);
    int fd = sheaf__descriptor(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

int64_t sheaf__segment_pid(void)
{
    return getpid();
}

void sheaf__segment_seal(struct sheaf__segment *segment)
{
    if (segment->data && segment->fd >= 0)
        close(segment->fd);
    segment->fd = -1;
}

void sheaf__segment_close(struct sheaf__segment *segment)
{
    if (!segment->data)
        return;
    sheaf__segment_seal(segment);
    munmap(segment->data - HEAD, segment->size + HEAD);
    *segment = (struct sheaf__segment){.fd = -1};
}

uint64_t sheaf__segment_host(void)
{
    struct {
        char boot[40];
        uint64_t processes;
        uint64_t user;
    } id = {.user = geteuid()};
    struct stat st;
    int fd = sheaf__descriptor(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    ssize_t got = fd < 0 ? -1 : read(fd, id.boot, sizeof(id.boot));
    if (fd >= 0)
        close(fd);
    if (got < 36 || stat("/proc/self/ns/pid", &st) != 0)
        return 0;
    id.processes = st.st_ino;
    uint64_t host = sheaf__hash(&id, sizeof(id));
    return host ? host : 1;
}

void sheaf__segment_park(_Atomic uint32_t *word, uint32_t expected, int64_t deadline)
{
    struct timespec at = {.tv_sec = deadline / SHEAF__S, .tv_nsec = deadline % SHEAF__S};
    /* Not PRIVATE: the other process wakes. The time is absolute on the monotonic clock. */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected,
            deadline == SHEAF__NO_DEADLINE ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
}

void sheaf__segment_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
