/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, distributed datasets: B03_plain_loop.c, distributed. Two lines are others (S110). */

#include "loop.h"

int main(void)
{
    sheaf_strategy *strategy = mirrored(4);
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
    sheaf_strategy_free(strategy);
    return 0;
}
