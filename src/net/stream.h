/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_STREAM_H
#define SHEAF_NET_STREAM_H

/* Two-way streams of bytes that never wait: a socket, or two rings in memory (net/ring.h). What a
 * reader or writer must do to be woken is said by arm(). */

#include "net/net.h"

struct sheaf__stream;

struct sheaf__stream_ops {
    /* Takes bytes from the parts one after the other. Returns how many; 0: no room now; -1: the
     * other end is gone. One thread at a time. */
    ptrdiff_t (*write)(struct sheaf__stream *s, const struct sheaf__part *parts, size_t count);
    /* Returns how many bytes came; 0: none now; -1: ended. One thread at a time. */
    ptrdiff_t (*read)(struct sheaf__stream *s, void *data, size_t size);
    /* The same bytes without taking them: sets `*data`, aligned to 8 bytes and valid until skip() or
     * read(), and returns how many follow it there, at least `least` (1 to 8); 0: not so many yet. A
     * ring copies them only if what was taken before is no multiple of 8. */
    ptrdiff_t (*peek)(struct sheaf__stream *s, size_t least, const void **data);
    void (*skip)(struct sheaf__stream *s, size_t size);
    /* For rings; NULL for sockets, which the poller watches. arm(): rings the reader's bell when
     * `least` bytes are there (at least 1; a ring does not wait for more than half of what it holds);
     * true if they are already. disarm(): does not. want_room(): the next room that comes rings the
     * writer's bell; true if there is room already. */
    bool (*arm)(struct sheaf__stream *s, size_t least);
    void (*disarm)(struct sheaf__stream *s);
    bool (*want_room)(struct sheaf__stream *s);
    /* Instead of arm(), for a thread that will sleep on word() alone (net/segment.h): it is counted up
     * and wakes. word() is NULL where that cannot be. */
    bool (*arm_word)(struct sheaf__stream *s, size_t least);
    _Atomic uint32_t *(*word)(struct sheaf__stream *s);
    void (*free)(struct sheaf__stream *s);
};

struct sheaf__stream {
    const struct sheaf__stream_ops *ops;
    const char *name;
    int fd; /* -1: not a socket */
};

/* Over a connected socket, which it closes. NULL: no memory. */
struct sheaf__stream *sheaf__stream_of_socket(int fd);
/* No more will be written; sockets only. */
void sheaf__stream_finish(struct sheaf__stream *s);
void sheaf__stream_free(struct sheaf__stream *s); /* NULL is nothing */

/* Copies the bytes of `parts` after the first `skip` ones into `out`, at most `capacity` parts;
 * returns how many parts that makes. */
size_t sheaf__parts_after(const struct sheaf__part *parts, size_t count, size_t skip,
                          struct sheaf__part *out, size_t capacity);
size_t sheaf__parts_size(const struct sheaf__part *parts, size_t count);

#endif
