/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, run, example 2: a compiled step over values from a function (S82, S86). */

#include "document.h"

static sheaf_status value_fn(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_plain(sheaf_int(context->num_replicas_in_sync)));
}

static sheaf_status replica_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    (void)r;
    (void)user;
    return sheaf_element_put(out, "", sheaf_plain(sheaf_scale(sheaf_element_get(in, NULL), 2, 0)));
}

int main(int argc, char **argv)
{
    sheaf_strategy *strategy = mirrored(argument(argc, argv, 1, 1));
    sheaf_step *compiled = sheaf_step_new(replica_fn, NULL, NULL);
    sheaf_values *values, *result;
    must(sheaf_distribute_values_from_function(strategy, value_fn, NULL, &values, &err));
    must(sheaf_run_step(strategy, compiled, values, &result, &err));
    printf("%s\n", sheaf_values_repr(result));
    sheaf_step_free(compiled);
    sheaf_strategy_free(strategy);
    return 0;
}
