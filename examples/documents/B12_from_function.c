/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, distribute_datasets_from_function (S136-S138, S140, S141, S143). The example batches twice. */

#include "document.h"

static int calls;

static sheaf_dataset *dataset_fn(const sheaf_input_context *context, void *user)
{
    static const float one[] = {1};
    int64_t batch_size = 0;
    (void)user;
    calls++;
    printf("%d %d %d\n", context->num_input_pipelines, context->input_pipeline_id,
           context->num_replicas_in_sync);
    must(sheaf_per_replica_batch_size(context, 16, &batch_size, &err));
    sheaf_tensor *x = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1), one);
    sheaf_dataset *d = sheaf_dataset_from_tensors(sheaf_element_tuple(x, x, NULL));
    d = sheaf_dataset_batch(sheaf_dataset_repeat(d, 64), 16, NULL);
    d = sheaf_dataset_shard(d, context->num_input_pipelines, context->input_pipeline_id);
    d = sheaf_dataset_batch(d, batch_size, NULL);
    return sheaf_dataset_prefetch(d, 2);
}

int main(int argc, char **argv)
{
    sheaf_strategy *s = mirrored(argument(argc, argv, 1, 4));
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, dataset_fn, NULL, NULL);
    printf("%d\n%s\n", calls, sheaf_dist_dataset_element_spec_str(d));
    sheaf_dist_iterator *it = sheaf_iterate(d);
    sheaf_values *x;
    SHEAF_EACH(x, it, &err)
    {
        for (int i = 0; i < sheaf_values_count(x); i++) {
            const sheaf_shape shape = sheaf_tensor_shape(sheaf_values_get(x, i, "0"));
            printf("%s[%d, %d, %d]", i ? ", " : "[", (int)shape.dims[0], (int)shape.dims[1],
                   (int)shape.dims[2]);
        }
        printf("]\n");
    }
    must(err.status);
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_strategy_free(s);
    return 0;
}
