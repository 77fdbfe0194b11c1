/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, experimental_distribute_values_from_function, example 4: values that are on the devices already (S68). */

#include "document.h"

enum { MOST = 64 };

static sheaf_status value_fn(const sheaf_value_context *context, sheaf_element *out, void *user)
{
    sheaf_tensor *const *multiple_values = user;
    return sheaf_element_put(out, "", multiple_values[context->replica_id_in_sync_group]);
}

int main(int argc, char **argv)
{
    sheaf_strategy *strategy = mirrored(argument(argc, argv, 1, 4));
    sheaf_tensor *multiple_values[MOST];
    sheaf_values *values;
    const int replicas = sheaf_strategy_num_replicas(strategy);
    for (int i = 0; i < replicas && i < MOST; i++)
        SHEAF_DEVICE(sheaf_strategy_worker_device(strategy, i))
    multiple_values[i] = sheaf_fill(SHEAF_FLOAT32, SHEAF_SCALAR, 1);
    must(sheaf_distribute_values_from_function(strategy, value_fn, multiple_values, &values, &err));
    for (int i = 0; i < replicas; i++) {
        const sheaf_tensor *component = sheaf_values_get(values, i, NULL);
        bool same = sheaf_tensor_data(component) == sheaf_tensor_data(multiple_values[i]);
        printf("%s %s %s\n", sheaf_array_str(component), sheaf_tensor_device(component),
               same ? "same" : "copy");
    }
    sheaf_strategy_free(strategy);
    return 0;
}
