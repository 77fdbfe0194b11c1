/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, experimental_distribute_dataset: one global batch, split (S111, S112, S114-S116). */

#include "loop.h"

int main(int argc, char **argv)
{
    sheaf_strategy *mirrored_strategy = mirrored(argument(argc, argv, 1, 4));
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(mirrored_strategy, hundred(), NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    sheaf_values *x;
    must(sheaf_next(it, &x, &err));
    printf("%s\n", sheaf_values_str(x));
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_strategy_free(mirrored_strategy);
    return 0;
}
