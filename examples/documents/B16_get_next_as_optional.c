/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, get_next_as_optional: a loop that ends when there is nothing more (S146, S152-S155). */

#include "document.h"

int main(int argc, char **argv)
{
    sheaf_strategy *s = mirrored(argument(argc, argv, 1, 4));
    sheaf_dataset *dataset = sheaf_dataset_batch(sheaf_dataset_range(0, 9, 1), 4, NULL);
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(s, dataset, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    for (int i = 0; i < 5; i++) {
        sheaf_optional *optional;
        sheaf_values *value, *result;
        must(sheaf_get_next_as_optional(it, &optional, &err));
        if (!sheaf_optional_has_value(optional))
            break;
        must(sheaf_optional_value(optional, &value, &err));
        must(sheaf_run(s, identity, NULL, value, &result, &err));
        printf("%s\n", sheaf_local_results_tf_print(result));
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_strategy_free(s);
    return 0;
}
