/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, experimental_distribute_datasets_from_function (S55-S57, S61, S62). */

#include "document.h"

static sheaf_dataset *dataset_fn(const sheaf_input_context *context, void *user)
{
    static const float one = 1;
    int64_t batch_size = 0;
    (void)user;
    must(sheaf_per_replica_batch_size(context, 8, &batch_size, &err));
    printf("%s\nbatch_size %d\n", sheaf_input_context_str(context), (int)batch_size);
    sheaf_tensor *matrix = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1, 1), &one);
    sheaf_dataset *d = sheaf_dataset_from_tensors(sheaf_element_of(matrix));
    d = sheaf_dataset_batch(sheaf_dataset_repeat(d, -1), batch_size, NULL);
    return sheaf_dataset_shard(d, context->num_input_pipelines, context->input_pipeline_id);
}

static void print_shapes(const sheaf_values *v)
{
    for (int i = 0; i < sheaf_values_count(v); i++) {
        char shape[64];
        sheaf_shape_format(sheaf_tensor_shape(sheaf_values_get(v, i, NULL)), shape, sizeof(shape));
        printf("%s%s", i ? ", " : "[", shape);
    }
    printf("]\n");
}

int main(int argc, char **argv)
{
    sheaf_strategy *s = mirrored(argument(argc, argv, 1, 2));
    sheaf_dist_dataset *ds = sheaf_distribute_datasets_from_function(s, dataset_fn, NULL, NULL);
    printf("%s\n", sheaf_dist_dataset_element_spec_str(ds));

    sheaf_step *step_fn = sheaf_step_new(identity, NULL, sheaf_dist_dataset_element_spec(ds));
    sheaf_dist_iterator *it = sheaf_iterate(ds);
    sheaf_values *batch, *results;
    int steps = 0;
    SHEAF_EACH(batch, it, &err)
    {
        must(sheaf_run_step(s, step_fn, batch, &results, &err));
        print_shapes(results);
        if (++steps == 3) /* the dataset has no end */
            break;
    }
    must(err.status);

    const sheaf_input_context context = {.num_input_pipelines = 1, .num_replicas_in_sync = 2};
    int64_t size;
    if (sheaf_per_replica_batch_size(&context, 7, &size, NULL) < 0)
        printf("7 over 2 replicas: refused\n");
    sheaf_step_free(step_fn);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(ds);
    sheaf_strategy_free(s);
    return 0;
}
