/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream.h"

#include "base/mem.h"
#include "net/socket.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { READ_AHEAD = 64 << 10, IOV_MOST = 64 };

struct socket_stream {
    struct sheaf__stream stream;
    size_t at, end; /* bytes in `buffer` that were not asked for yet */
    alignas(8) uint8_t buffer[READ_AHEAD];
};

_Static_assert(sizeof(struct sheaf__part) == sizeof(struct iovec) &&
                   offsetof(struct sheaf__part, size) == offsetof(struct iovec, iov_len),
               "parts are passed to the system as they are");

static ptrdiff_t write_socket(struct sheaf__stream *s, const struct sheaf__part *parts,
                              size_t count)
{
    struct iovec iov[IOV_MOST];
    struct msghdr message = {.msg_iov = iov};
    message.msg_iovlen = count < IOV_MOST ? count : IOV_MOST;
    memcpy(iov, parts, message.msg_iovlen * sizeof(*iov));
    ssize_t done;
    do
        done = sendmsg(s->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (done < 0 && errno == EINTR);
    if (done >= 0)
        return done;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : -1;
}

static ptrdiff_t receive(int fd, void *data, size_t size)
{
    ssize_t got;
    do
        got = recv(fd, data, size, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        return got;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

static ptrdiff_t read_socket(struct sheaf__stream *s, void *data, size_t size)
{
    struct socket_stream *ss = SHEAF__CONTAINER(s, struct socket_stream, stream);
    if (ss->at == ss->end) {
        if (size >= READ_AHEAD / 2)
            return receive(s->fd, data, size);
        ptrdiff_t got = receive(s->fd, ss->buffer, READ_AHEAD);
        if (got <= 0)
            return got;
        ss->at = 0;
        ss->end = (size_t)got;
    }
    size_t n = ss->end - ss->at < size ? ss->end - ss->at : size;
    memcpy(data, ss->buffer + ss->at, n);
    ss->at += n;
    return (ptrdiff_t)n;
}

static ptrdiff_t peek_socket(struct sheaf__stream *s, size_t least, const void **data)
{
    struct socket_stream *ss = SHEAF__CONTAINER(s, struct socket_stream, stream);
    size_t have = ss->end - ss->at;
    if (have < least || ss->at % 8 != 0) {
        memmove(ss->buffer, ss->buffer + ss->at, have);
        ss->at = 0;
        ss->end = have;
    }
    if (have < least) {
        ptrdiff_t got = receive(s->fd, ss->buffer + have, READ_AHEAD - have);
        if (got < 0)
            return -1;
        ss->end += (size_t)got;
    }
    *data = ss->buffer + ss->at;
    return ss->end - ss->at < least ? 0 : (ptrdiff_t)(ss->end - ss->at);
}

static void skip_socket(struct sheaf__stream *s, size_t size)
{
    SHEAF__CONTAINER(s, struct socket_stream, stream)->at += size;
}

static void free_socket(struct sheaf__stream *s)
{
    sheaf__socket_close(s->fd);
    sheaf__free(SHEAF__CONTAINER(s, struct socket_stream, stream));
}

static const struct sheaf__stream_ops socket_ops = {
    .write = write_socket,
    .read = read_socket,
    .peek = peek_socket,
    .skip = skip_socket,
    .free = free_socket,
};

struct sheaf__stream *sheaf__stream_of_socket(int fd)
{
    struct socket_stream *ss = sheaf__alloc(sizeof(*ss));
    if (!ss)
        return NULL;
    ss->stream = (struct sheaf__stream){.ops = &socket_ops, .name = "tcp", .fd = fd};
    ss->at = ss->end = 0;
    return &ss->stream;
}

void sheaf__stream_finish(struct sheaf__stream *s)
{
    if (s->fd >= 0)
        sheaf__socket_finish(s->fd);
}

void sheaf__stream_free(struct sheaf__stream *s)
{
    if (s)
        s->ops->free(s);
}

size_t sheaf__parts_size(const struct sheaf__part *parts, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += parts[i].size;
    return size;
}

size_t sheaf__parts_after(const struct sheaf__part *parts, size_t count, size_t skip,
                          struct sheaf__part *out, size_t capacity)
{
    size_t made = 0;
    for (size_t i = 0; i < count && made < capacity; i++) {
        if (skip >= parts[i].size) {
            skip -= parts[i].size;
            continue;
        }
        out[made].data = (uint8_t *)parts[i].data + skip;
        out[made++].size = parts[i].size - skip;
        skip = 0;
    }
    return made;
}
