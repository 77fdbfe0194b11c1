/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, experimental_distribute_values_from_function, example 2: an array's element by replica id (S64, S66, S69). */

#include "document.h"

static sheaf_status value_fn(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    static const double array_value[] = {3, 2, 1};
    (void)user;
    return sheaf_element_put(
        out, "", sheaf_plain(sheaf_double(array_value[context->replica_id_in_sync_group])));
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
