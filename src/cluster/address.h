/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLUSTER_ADDRESS_H
#define SHEAF_CLUSTER_ADDRESS_H

/* The text "host:port", "[v6]:port" of a task. Nothing is looked up: whatever the system's resolver
 * accepts as a name is a name. */

#include "base/str.h"
#include <sheaf/status.h>

struct sheaf__address {
    const char *host; /* into the text, without brackets */
    size_t host_size;
    int32_t port; /* 1..65535 */
};

/* Splits at the last colon outside of brackets. `whose` begins the message: "TF_CONFIG: worker:0".
 * A bare IPv6 address with a port is refused, because it can be read in two ways. */
sheaf_status sheaf__address_parse(const char *text, const char *whose,
                                  struct sheaf__address *address, sheaf_error *err);

/* Appends the form in which addresses are compared: the host in lower case, as DNS does. */
void sheaf__address_key(const struct sheaf__address *address, struct sheaf__str *key);

#endif
