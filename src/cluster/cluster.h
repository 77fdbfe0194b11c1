/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLUSTER_CLUSTER_H
#define SHEAF_CLUSTER_CLUSTER_H

/* Inside of a resolved cluster. It was checked as a whole when it was made and never changes. */

#include "base/object.h"
#include "format/tf_config.h"
#include "net/net.h"
#include <sheaf/cluster.h>

struct sheaf_cluster {
    struct sheaf__object object;
    const char *source;
    struct sheaf__tf_config *config; /* NULL: a machine alone */
    sheaf_task task;                 /* job "" and index -1 alone */
};

/* The end of the network of this task, which has an address: who it is, where it listens, whether
 * every address of the cluster is loopback. Borrows from `c`. */
struct sheaf__net_options sheaf__cluster_net(const sheaf_cluster *c);

#endif
