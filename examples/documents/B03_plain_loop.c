/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, distributed datasets: a loop over a plain dataset, under the strategy that is there when there is none (S109). */

#include "loop.h"

int main(void)
{
    sheaf_strategy *strategy = sheaf_strategy_current();
    sheaf_dist_dataset *dataset = sheaf_distribute_dataset(strategy, hundred(), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dataset);
    sheaf_values *inputs, *loss;
    SHEAF_EACH(inputs, it, &err)
    {
        must(sheaf_run(strategy, train_step, NULL, inputs, &loss, &err));
        printf("%s\n", sheaf_values_str(loss));
    }
    must(err.status);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dataset);
    return 0;
}
