/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, experimental_distribute_values_from_function, example 1: a constant on every replica (S64, S65, S69). */

#include "document.h"

static sheaf_status value_fn(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    (void)context;
    (void)user;
    return sheaf_element_put(out, "", sheaf_float(1));
}

int main(int argc, char **argv)
{
    sheaf_strategy *strategy = mirrored(argument(argc, argv, 1, 1));
    sheaf_values *values;
    must(sheaf_distribute_values_from_function(strategy, value_fn, NULL, &values, &err));
    printf("%s\n", sheaf_local_results_str(values));
    sheaf_strategy_free(strategy);
    return 0;
}
