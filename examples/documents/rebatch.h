/* SPDX-License-Identifier: Apache-2.0 */

/** @file
 *  How B05, B06 and B07 show the parts of each global batch. */

#include "document.h"

/** Distributes `dataset` and prints, for each step, what each replica gets. */
static void show(sheaf_strategy *strategy, sheaf_dataset *dataset)
{
    sheaf_dist_dataset *distributed = sheaf_distribute_dataset(strategy, dataset, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(distributed);
    sheaf_values *batch;
    int number = 0;
    SHEAF_EACH(batch, it, &err)
    {
        printf("Batch %d\n", ++number);
        for (int r = 0; r < sheaf_values_count(batch); r++)
            printf("Replica %d: %s\n", r + 1, sheaf_list_str(sheaf_values_get(batch, r, NULL)));
    }
    must(err.status);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(distributed);
    sheaf_strategy_free(strategy);
}
