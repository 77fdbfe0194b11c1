/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, distributed iterators: a loop over a distributed dataset (S144, S147). */

#include "loop.h"

int main(int argc, char **argv)
{
    sheaf_strategy *mirrored_strategy = mirrored(argument(argc, argv, 1, 4));
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(mirrored_strategy, hundred(), NULL);
    sheaf_step *step = sheaf_step_new(train_step, NULL, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    sheaf_values *x, *loss;
    SHEAF_EACH(x, it, &err)
    {
        must(sheaf_run_step(mirrored_strategy, step, x, &loss, &err));
        printf("Loss is  %s\n", sheaf_values_str(loss));
    }
    must(err.status);
    sheaf_dist_iterator_free(it);
    sheaf_step_free(step);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_strategy_free(mirrored_strategy);
    return 0;
}
