/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, experimental_make_numpy_dataset (S71, S73). */

#include "document.h"

/* The document's text of a dataset, that of TensorFlow up to 2.6. */
static void print_shapes_and_types(const sheaf_dataset *d)
{
    const sheaf_tensor_spec spec = sheaf_element_spec_at(sheaf_dataset_element_spec(d), 0);
    char shape[64];
    sheaf_shape_format(spec.shape, shape, sizeof(shape));
    printf("<TensorSliceDataset shapes: %s, types: tf.%s>\n", shape, sheaf_dtype_name(spec.dtype));
}

int main(int argc, char **argv)
{
    sheaf_strategy *strategy = mirrored(argument(argc, argv, 1, 1));
    sheaf_element *numpy_input = sheaf_element_of(sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(10)));
    sheaf_dataset *dataset = sheaf_make_numpy_dataset(strategy, numpy_input);
    printf("%s\n", sheaf_dataset_str(dataset));
    print_shapes_and_types(dataset);

    dataset = sheaf_dataset_batch(dataset, 2, NULL);
    sheaf_dist_dataset *dist_dataset = sheaf_distribute_dataset(strategy, dataset, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(dist_dataset);
    sheaf_values *x;
    SHEAF_EACH(x, it, &err)
    {
        printf("%s\n", sheaf_local_results_str(x));
    }
    must(err.status);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(dist_dataset);
    sheaf_strategy_free(strategy);
    return 0;
}
