/* SPDX-License-Identifier: Apache-2.0 */
#include "base/env.h"
#include "cluster/resolver.h"

#include <string.h>

/* The two sources whose text is TF_CONFIG's: the program's argument and the variable. */

static bool argument_applies(const sheaf_cluster_options *options)
{
    return options->json != NULL;
}

static sheaf_status argument_resolve(const sheaf_cluster_options *options,
                                     struct sheaf__tf_config **config, sheaf_error *err)
{
    return sheaf__tf_config_parse(options->json, strlen(options->json), "argument", config, err);
}

const struct sheaf__resolver sheaf__resolver_argument = {"argument", argument_applies,
                                                         argument_resolve};

static bool tf_config_applies(const sheaf_cluster_options *options)
{
    (void)options;
    return sheaf__env_get("TF_CONFIG") != NULL;
}

static sheaf_status tf_config_resolve(const sheaf_cluster_options *options,
                                      struct sheaf__tf_config **config, sheaf_error *err)
{
    (void)options;
    const char *text = sheaf__env_get("TF_CONFIG");
    return sheaf__tf_config_parse(text, strlen(text), "TF_CONFIG", config, err);
}

const struct sheaf__resolver sheaf__resolver_tf_config = {"TF_CONFIG", tf_config_applies,
                                                          tf_config_resolve};
