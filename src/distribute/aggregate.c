/* SPDX-License-Identifier: Apache-2.0 */

#include "distribute/aggregate.h"

#include "distribute/combine.h"

#include <sheaf/ops.h>

/* Whether the replicas wrote one Python number, which is no PerReplica (R5.10). */
static bool same_number(sheaf_tensor *const *values, int count)
{
    for (int i = 0; i < count; i++)
        if (!values[i]->plain ||
            sheaf_tensor_number(values[i], 0) != sheaf_tensor_number(values[0], 0))
            return false;
    return count > 1;
}

sheaf_tensor *sheaf__aggregate(const sheaf_variable *v, sheaf_tensor *const *values, int count)
{
    sheaf_strategy *s = v->strategy;
    if (v->aggregation == SHEAF_AGGREGATION_ONLY_FIRST_REPLICA)
        return values[0];
    const bool mean = v->aggregation == SHEAF_AGGREGATION_MEAN;
    if (same_number(values, count)) {
        if (mean || sheaf_tensor_number(values[0], 0) == 0)
            return values[0];
        return sheaf__tensor_fail(
            SHEAF_ERR_INVALID_ARGUMENT,
            "variable '%s': %d replicas wrote the same number with aggregation SUM; write "
            "a tensor, or use MEAN",
            v->name, count);
    }
    sheaf_tensor *combined =
        sheaf__combine(s, mean ? SHEAF_REDUCE_MEAN : SHEAF_REDUCE_SUM, values, count);
    return mean && sheaf__tensor_ok(combined) ? sheaf_cast(combined, v->dtype) : combined;
}
