/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, experimental_distribute_dataset: TFRecord files over the replicas (S40, S41, S43, S44, S60). */

#include "records.h"

int main(int argc, char **argv)
{
    const int replicas = argument(argc, argv, 1, 2);
    sheaf_strategy *s = mirrored(replicas);
    write_a_files();

    sheaf_dataset *records = sheaf_tfrecord_files(a_files, 4);
    sheaf_dataset *dataset = sheaf_dataset_batch(sheaf_dataset_ref(records), 4, NULL);
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(s, dataset, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    sheaf_values *x, *result;
    SHEAF_EACH(x, it, &err)
    {
        must(sheaf_run(s, identity, NULL, x, &result, &err));
        printf("%s\n", sheaf_values_str(result));
    }
    must(err.status);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dist_dataset);

    if (replicas > 1) {
        dist_dataset = sheaf_distribute_dataset(s, records, NULL);
        it = sheaf_iterate(dist_dataset);
        printf("unbatched: %s\n", sheaf_next(it, &x, &err) < 0 ? "refused" : "accepted");
        sheaf_dist_iterator_free(it);
        sheaf_dist_dataset_free(dist_dataset);
    } else {
        sheaf_dataset_free(records);
    }
    sheaf_strategy_free(s);
    return 0;
}
