/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, tensor inputs: a dataset from a generator (S196, S198). */

#include "document.h"

static sheaf_status input_gen(void *state, sheaf_element *out, sheaf_error *error)
{
    (void)state;
    (void)error;
    return sheaf_element_put(out, "", sheaf_random_uniform(SHEAF_FLOAT32, SHEAF_SHAPE(4), 0, 1, 0));
}

int main(int argc, char **argv)
{
    sheaf_strategy *mirrored_strategy = mirrored(argument(argc, argv, 1, 4));
    const sheaf_generator generator = {.next = input_gen};
    const sheaf_tensor_spec four = {.dtype = SHEAF_FLOAT32, .shape = SHEAF_SHAPE(4)};
    sheaf_element_spec *spec = sheaf_element_spec_new(&four, 1);
    sheaf_dataset *dataset = sheaf_dataset_from_generator(&generator, spec);
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(mirrored_strategy, dataset, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    for (int i = 0; i < 4; i++) {
        sheaf_values *x, *result;
        must(sheaf_next(it, &x, &err));
        must(sheaf_run(mirrored_strategy, identity, NULL, x, &result, &err));
        printf("%s\n", sheaf_values_str(result));
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_element_spec_free(spec);
    sheaf_strategy_free(mirrored_strategy);
    return 0;
}
