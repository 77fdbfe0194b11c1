/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLUSTER_RESOLVER_H
#define SHEAF_CLUSTER_RESOLVER_H

/* Where a cluster can come from: one file a source, one row a source in the table of cluster.c,
 * whose order is the precedence. */

#include "format/tf_config.h"
#include <sheaf/cluster.h>

struct sheaf__resolver {
    const char *name; /* as sheaf_cluster_source() says it, and at the start of messages */
    /* Whether this source says anything. */
    bool (*applies)(const sheaf_cluster_options *options);
    /* Reads it into `*config` (sheaf__tf_config_free), which is checked afterwards. */
    sheaf_status (*resolve)(const sheaf_cluster_options *options, struct sheaf__tf_config **config,
                            sheaf_error *err);
};

extern const struct sheaf__resolver sheaf__resolver_argument;  /* sheaf_cluster_options.json */
extern const struct sheaf__resolver sheaf__resolver_tf_config; /* variable TF_CONFIG */
extern const struct sheaf__resolver sheaf__resolver_slurm;     /* SLURM_STEP_…, SLURM_PROCID */
extern const struct sheaf__resolver sheaf__resolver_mpi;       /* what mpirun sets */

#endif
