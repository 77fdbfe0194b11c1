/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, tensor inputs: values from a function, four times (S64, S197). */

#include "document.h"

static sheaf_status value_fn(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    (void)user;
    return sheaf_element_put(out, "", sheaf_int(context->replica_id_in_sync_group));
}

int main(int argc, char **argv)
{
    sheaf_strategy *s = mirrored(argument(argc, argv, 1, 4));
    sheaf_values *distributed_values, *result;
    must(sheaf_distribute_values_from_function(s, value_fn, NULL, &distributed_values, &err));
    for (int i = 0; i < 4; i++) {
        must(sheaf_run(s, identity, NULL, distributed_values, &result, &err));
        printf("%s\n", sheaf_values_str(result));
    }
    sheaf_strategy_free(s);
    return 0;
}
