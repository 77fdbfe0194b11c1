/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_SOCKET_H
#define SHEAF_NET_SOCKET_H

/* The system's TCP sockets: non-blocking, closed on exec, on the named address only. */

#include "net/net.h"

/* Listens on "host:port" (port 0: any free one) and writes the address with the real port to
 * `text`. ALREADY_EXISTS: the port is taken. Errors name the address. */
sheaf_status sheaf__socket_listen(const char *address, int *fd, char text[SHEAF__ADDRESS_TEXT],
                                  sheaf_error *err);
/* Takes a connection. -1: none is waiting; -2: out of descriptors. */
int sheaf__socket_accept(int listener, char text[SHEAF__ADDRESS_TEXT]);
/* Starts to connect to the `attempt`-th address (modulo their number, which goes to `*count`) of
 * the name. Looking the name up may take as long as the system's resolver wants. INVALID_ARGUMENT:
 * not an address; UNAVAILABLE: unknown host or no way to it. */
sheaf_status sheaf__socket_connect(const char *address, unsigned attempt, unsigned *count, int *fd,
                                   sheaf_error *err);
/* After the socket became writable: 0, or why it could not connect (errno). */
int sheaf__socket_connected(int fd);
/* No more will be written; what was is delivered. */
void sheaf__socket_finish(int fd);
void sheaf__socket_close(int fd); /* -1 is nothing */

/* Where the address leads, in numbers: up to `most` texts "host:port", each once. Returns how many; 0:
 * the name is unknown here; -1: nobody answers who could know. May take as long as connecting. */
int sheaf__socket_resolve(const char *address, char (*texts)[SHEAF__ADDRESS_TEXT], int most);

/* True if the host of the address is this machine by its form: localhost, 127.x.y.z, [::1]. */
bool sheaf__socket_is_loopback(const char *address);

#endif
