/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, experimental_distribute_dataset: element_spec as the signature of a step (S52, S53). */

#include "records.h"

int main(int argc, char **argv)
{
    sheaf_strategy *s = mirrored(argument(argc, argv, 1, 2));
    write_a_files();
    sheaf_dataset *dataset = sheaf_dataset_batch(sheaf_tfrecord_files(a_files, 4), 4, NULL);
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(s, dataset, NULL);
    printf("%s\n", sheaf_dist_dataset_element_spec_str(dist_dataset));

    sheaf_step *train_step =
        sheaf_step_new(identity, NULL, sheaf_dist_dataset_element_spec(dist_dataset));
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    sheaf_values *x, *result;
    int steps = 0;
    SHEAF_EACH(x, it, &err)
    {
        must(sheaf_run_step(s, train_step, x, &result, &err));
        steps++;
    }
    must(err.status);
    printf("steps %d traces %d\n", steps, sheaf_step_traces(train_step));
    sheaf_step_free(train_step);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_strategy_free(s);
    return 0;
}
