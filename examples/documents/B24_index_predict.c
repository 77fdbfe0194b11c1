/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, caveats: outputs put in order by an index that each element carries (S54, S63, S193-S195). */

#include "document.h"

enum { DATASET_SIZE = 24, BATCH_SIZE = 6 };

static sheaf_status predict(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    (void)r;
    (void)user;
    sheaf_element_put(out, "index", sheaf_element_get(in, "0"));
    return sheaf_element_put(out, "output", sheaf_scale(sheaf_element_get(in, "1"), 2, 0));
}

int main(int argc, char **argv)
{
    sheaf_strategy *mirrored_strategy = mirrored(argument(argc, argv, 1, 4));
    sheaf_dataset *dataset = sheaf_dataset_enumerate(sheaf_dataset_range(0, DATASET_SIZE, 1), 0);
    dataset = sheaf_dataset_batch(dataset, BATCH_SIZE, NULL);
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(mirrored_strategy, dataset, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    sheaf_values *x, *predicted;
    int64_t result[DATASET_SIZE] = {0};
    SHEAF_EACH(x, it, &err)
    {
        must(sheaf_run(mirrored_strategy, predict, NULL, x, &predicted, &err));
        for (int r = 0; r < sheaf_values_count(predicted); r++) {
            const sheaf_tensor *index = sheaf_values_get(predicted, r, "index");
            const sheaf_tensor *output = sheaf_values_get(predicted, r, "output");
            for (int64_t i = 0; i < sheaf_tensor_elements(index); i++)
                result[sheaf_tensor_integer(index, i)] = sheaf_tensor_integer(output, i);
        }
    }
    must(err.status);
    for (int i = 0; i < DATASET_SIZE; i++)
        printf("%s%d: %d", i ? ", " : "{", i, (int)result[i]);
    printf("}\n");
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_strategy_free(mirrored_strategy);
    return 0;
}
