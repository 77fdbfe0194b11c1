/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_PORTS_H
#define SHEAF_CLI_PORTS_H

#include <stdint.h>

/* Picks `count` free TCP ports of 127.0.0.1, all different, and leaves each in a state (TIME_WAIT)
 * in which the system gives it to nobody who asks for any port, while a server may bind it. Holds
 * for about a minute. Returns 0 or an errno value. */
int sheaf__ports_pick(uint16_t *ports, int count);

#endif
