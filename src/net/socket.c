/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include "base/descriptor.h"
#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 128, HOST_MAX = 256 };

struct endpoint {
    char host[HOST_MAX];
    char port[8];
};

/* Splits at the last colon outside of brackets. */
static sheaf_status split(const char *address, struct endpoint *e, sheaf_error *err)
{
    const char *colon = strrchr(address, ':');
    const char *host = address;
    int64_t port;
    if (!colon || !sheaf__str_to_int(colon + 1, &port) || port < 0 || port > 65535)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "address \"%s\": expected host:port with a port of 0 to 65535",
                            address);
    size_t size = (size_t)(colon - address);
    if (size >= 2 && address[0] == '[' && address[size - 1] == ']') {
        host = address + 1;
        size -= 2;
    } else if (memchr(address, ':', size)) {
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "address \"%s\": an IPv6 host must stand in brackets", address);
    }
    if (size == 0 || size >= HOST_MAX)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "address \"%s\": expected a host of 1 to %d bytes", address,
                            HOST_MAX - 1);
    memcpy(e->host, host, size);
    e->host[size] = '\0';
    snprintf(e->port, sizeof(e->port), "%d", (int)port);
    return SHEAF_OK;
}

bool sheaf__socket_is_loopback(const char *address)
{
    struct endpoint e;
    if (split(address, &e, NULL) < 0)
        return false;
    return strcasecmp(e.host, "localhost") == 0 || strncmp(e.host, "127.", 4) == 0 ||
           strcmp(e.host, "::1") == 0;
}

/* As getaddrinfo. "localhost" is this host also where no file says so (RFC 6761, 6.3). */
static int ask(const struct endpoint *e, int flags, struct addrinfo **list)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    int code = getaddrinfo(e->host, e->port, &hints, list);
    if (code != 0 && strcasecmp(e->host, "localhost") == 0)
        code = getaddrinfo("127.0.0.1", e->port, &hints, list);
    return code;
}

static sheaf_status look_up(const char *address, int flags, struct addrinfo **list,
                            sheaf_error *err)
{
    struct endpoint e;
    SHEAF__TRY(split(address, &e, err));
    int code = ask(&e, flags, list);
    if (code != 0)
        return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "address \"%s\": %s", address,
                            gai_strerror(code));
    return SHEAF_OK;
}

static void describe(const struct sockaddr *sa, socklen_t size, char text[SHEAF__ADDRESS_TEXT])
{
    char host[HOST_MAX], port[8];
    if (getnameinfo(sa, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(text, SHEAF__ADDRESS_TEXT, "unknown address");
    else
        snprintf(text, SHEAF__ADDRESS_TEXT, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int sheaf__socket_resolve(const char *address, char (*texts)[SHEAF__ADDRESS_TEXT], int most)
{
    struct endpoint e;
    struct addrinfo *list = NULL;
    if (split(address, &e, NULL) < 0)
        return 0;
    int code = ask(&e, 0, &list), count = 0;
    if (code != 0)
        return code == EAI_AGAIN ? -1 : 0;
    for (const struct addrinfo *a = list; a && count < most; a = a->ai_next) {
        bool known = false;
        describe(a->ai_addr, a->ai_addrlen, texts[count]);
        for (int i = 0; i < count; i++)
            known = known || strcmp(texts[i], texts[count]) == 0;
        count += !known;
    }
    freeaddrinfo(list);
    return count;
}

static int new_socket(const struct addrinfo *a)
{
    int one = 1;
    int fd = sheaf__descriptor(
        socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol));
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* Bound and listening on one address, or -1 with errno. */
static int listen_on(const struct addrinfo *a)
{
    int one = 1;
    int fd = new_socket(a);
    if (fd < 0)
        return -1;
    /* Connections of a task that ended lately must not keep its port. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

sheaf_status sheaf__socket_listen(const char *address, int *fd, char text[SHEAF__ADDRESS_TEXT],
                                  sheaf_error *err)
{
    struct addrinfo *list = NULL;
    struct sockaddr_storage name;
    socklen_t size = sizeof(name);
    int code = 0;
    SHEAF__TRY(look_up(address, AI_PASSIVE, &list, err));
    int found = -1;
    for (struct addrinfo *a = list; a && found < 0; a = a->ai_next) {
        found = listen_on(a);
        if (found < 0 && code != EADDRINUSE)
            code = errno;
    }
    freeaddrinfo(list);
    if (found < 0)
        return sheaf__error(
            err, code == EADDRINUSE ? SHEAF_ERR_ALREADY_EXISTS : sheaf__errno_status(code),
            "cannot listen on %s: %s", address,
            code == EADDRINUSE ? "the port is in use by another process" : strerror(code));
    if (getsockname(found, (struct sockaddr *)&name, &size) == 0)
        describe((struct sockaddr *)&name, size, text);
    else
        sheaf__str_copy(text, SHEAF__ADDRESS_TEXT, address);
    *fd = found;
    return SHEAF_OK;
}

int sheaf__socket_accept(int listener, char text[SHEAF__ADDRESS_TEXT])
{
    struct sockaddr_storage name;
    socklen_t size = sizeof(name);
    int one = 1;
    int fd = sheaf__descriptor(
        accept4(listener, (struct sockaddr *)&name, &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM ? -2 : -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    describe((struct sockaddr *)&name, size, text);
    return fd;
}

sheaf_status sheaf__socket_connect(const char *address, unsigned attempt, unsigned *count, int *fd,
                                   sheaf_error *err)
{
    struct addrinfo *list = NULL;
    SHEAF__TRY(look_up(address, AI_ADDRCONFIG, &list, err));
    *count = 0;
    for (struct addrinfo *a = list; a; a = a->ai_next)
        ++*count;
    struct addrinfo *chosen = list;
    for (unsigned i = attempt % *count; i > 0; i--)
        chosen = chosen->ai_next;
    int made = new_socket(chosen);
    int code = 0;
    if (made < 0 || (connect(made, chosen->ai_addr, chosen->ai_addrlen) != 0 &&
                     errno != EINPROGRESS && errno != EINTR))
        code = errno;
    freeaddrinfo(list);
    if (code == 0) {
        *fd = made;
        return SHEAF_OK;
    }
    if (made >= 0)
        close(made);
    return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "cannot connect to %s: %s", address,
                        strerror(code));
}

int sheaf__socket_connected(int fd)
{
    int code = 0;
    socklen_t size = sizeof(code);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0)
        return errno;
    return code;
}

void sheaf__socket_finish(int fd)
{
    shutdown(fd, SHUT_WR);
}

void sheaf__socket_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
