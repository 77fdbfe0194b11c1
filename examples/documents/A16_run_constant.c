/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, run, example 1: a constant times two (S81, S85). */

#include "document.h"

static sheaf_status replica_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                               void *user)
{
    (void)r;
    (void)user;
    return sheaf_element_put(out, "", sheaf_scale(sheaf_element_get(in, NULL), 2, 0));
}

int main(int argc, char **argv)
{
    sheaf_strategy *strategy = mirrored(argument(argc, argv, 1, 1));
    sheaf_values *result;
    must(sheaf_run(strategy, replica_fn, NULL, sheaf_values_tensor(sheaf_float(3)), &result, &err));
    printf("%s\n", sheaf_values_repr(result));
    sheaf_strategy_free(strategy);
    return 0;
}
