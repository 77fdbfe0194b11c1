/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_SEGMENT_H
#define SHEAF_NET_SEGMENT_H

/* Memory shared by processes of one user on one machine. A segment has no name and needs no room in
 * /dev/shm: who is told its ticket over an authenticated connection opens it through /proc, proves
 * by the token that it is the one, and by its seals that it cannot shrink under the feet. */

#include "base/thread.h"
#include <sheaf/status.h>

struct sheaf__segment {
    uint8_t *data; /* zeroed at first, page aligned */
    size_t size;
    int fd; /* -1 once it is not needed any more */
};

#define SHEAF__SEGMENT_TOKEN 16
struct sheaf__segment_ticket {
    int64_t pid;
    int32_t fd;
    uint64_t size;
    uint8_t token[SHEAF__SEGMENT_TOKEN];
};

/* Makes a segment of at least `size` usable bytes and its ticket. UNIMPLEMENTED or IO where the
 * system refuses. */
sheaf_status sheaf__segment_make(size_t size, struct sheaf__segment *segment,
                                 struct sheaf__segment_ticket *ticket, sheaf_error *err);
/* Maps another process's. Any failure means that there is no way: INCOMPATIBLE or PERMISSION. */
sheaf_status sheaf__segment_open(const struct sheaf__segment_ticket *ticket,
                                 struct sheaf__segment *segment, sheaf_error *err);
/* Nobody can open it any more; those who have keep it. */
void sheaf__segment_seal(struct sheaf__segment *segment);
void sheaf__segment_close(struct sheaf__segment *segment); /* zeroed is nothing */

/* A number that is the same in processes that can share segments: machine, process numbers, user.
 * 0: cannot. */
uint64_t sheaf__segment_host(void);

/* Opens a pipe of another process for writing; it never raises a signal. -1: there is no way. This
 * process's number for its tickets. */
int sheaf__segment_open_pipe(int64_t pid, int fd);
int64_t sheaf__segment_pid(void);

/* Sleeps while `*word`, which lies in a segment, is `expected`, at most until `deadline`; may
 * return early. Wakes all who do. */
void sheaf__segment_park(_Atomic uint32_t *word, uint32_t expected, int64_t deadline);
void sheaf__segment_wake(_Atomic uint32_t *word);

#endif
