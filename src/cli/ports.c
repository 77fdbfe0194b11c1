/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* A listener on a port of the system's choice; -1 with errno set. */
static int listen_anywhere(struct sockaddr_in *address)
{
    socklen_t size = sizeof(*address);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(fd, (struct sockaddr *)address, sizeof(*address)) == 0 && listen(fd, 1) == 0 &&
        getsockname(fd, (struct sockaddr *)address, &size) == 0)
        return fd;
    int code = errno;
    close_fd(fd);
    errno = code;
    return -1;
}

/* Makes one connection to the listener and ends it from the listener's side, which is the side that
 * keeps the port in TIME_WAIT. */
static int leave_waiting(int listener, const struct sockaddr_in *address)
{
    char byte;
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), server = -1, code = 0;
    if (client < 0 || connect(client, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
        (server = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0 ||
        shutdown(server, SHUT_WR) < 0 || read(client, &byte, 1) != 0)
        code = errno ? errno : EIO;
    close_fd(client);
    close_fd(server);
    return code;
}

int sheaf__ports_pick(uint16_t *ports, int count)
{
    int code = 0, made = 0;
    struct sockaddr_in *addresses = calloc((size_t)count + 1, sizeof(*addresses));
    int *listeners = calloc((size_t)count + 1, sizeof(*listeners));
    if (!addresses || !listeners)
        code = ENOMEM;
    /* All at once, so that they differ. */
    for (; code == 0 && made < count; made++) {
        listeners[made] = listen_anywhere(&addresses[made]);
        if (listeners[made] < 0) {
            code = errno;
            break;
        }
    }
    for (int i = 0; i < made; i++) {
        if (code == 0)
            code = leave_waiting(listeners[i], &addresses[i]);
        ports[i] = ntohs(addresses[i].sin_port);
        close_fd(listeners[i]);
    }
    free(addresses);
    free(listeners);
    return code;
}
