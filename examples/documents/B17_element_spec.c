/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, using the element_spec property (S52, S53, S156-S158). */

#include "loop.h"

/* `2 * inputs` of the document: a Python tuple repeated, not multiplied. */
static sheaf_status twice(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    static const char *const names[] = {"0", "1", "2", "3"};
    (void)r;
    (void)user;
    for (size_t i = 0; i < 4; i++)
        sheaf_element_put(out, names[i], sheaf_element_at(in, i % 2));
    return SHEAF_OK;
}

int main(int argc, char **argv)
{
    sheaf_strategy *mirrored_strategy = mirrored(argument(argc, argv, 1, 4));
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(mirrored_strategy, hundred(), NULL);
    sheaf_step *step = sheaf_step_new(twice, NULL, sheaf_dist_dataset_element_spec(dist_dataset));
    for (int epoch = 0; epoch < 5; epoch++) {
        sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
        for (int i = 0; i < 5; i++)
            SHEAF_FRAME
            {
                sheaf_values *x, *output;
                must(sheaf_next(it, &x, &err));
                must(sheaf_run_step(mirrored_strategy, step, x, &output, &err));
                printf("%s\n", sheaf_values_tf_print(output));
            }
        sheaf_dist_iterator_free(it);
    }
    sheaf_step_free(step);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_strategy_free(mirrored_strategy);
    return 0;
}
