/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, preprocessing with a custom training loop: words looked up in the pipeline (S177). */

#include "document.h"

static sheaf_dataset *dataset_fn(const sheaf_input_context *context, void *user)
{
    static const sheaf_bytes words[] = {{"a", 1}, {"c", 1}, {"e", 1}};
    sheaf_vocabulary *layer = user;
    int64_t batch_size = 0;
    must(sheaf_per_replica_batch_size(context, 4, &batch_size, &err));
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(3), words);
    sheaf_dataset *d = sheaf_dataset_repeat(sheaf_dataset_from_slices(sheaf_element_of(t)), -1);
    d = sheaf_dataset_batch(d, batch_size, NULL);
    d = sheaf_dataset_shard(d, context->num_input_pipelines, context->input_pipeline_id);
    return sheaf_dataset_lookup(d, NULL, layer);
}

int main(int argc, char **argv)
{
    static const sheaf_bytes vocab[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"f", 1}};
    sheaf_strategy *s = mirrored(argument(argc, argv, 1, 4));
    const sheaf_vocabulary_options options = {
        .tokens = sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(5), vocab)};
    sheaf_vocabulary *layer = NULL;
    must(sheaf_vocabulary_new(&options, &layer, &err));
    sheaf_dist_dataset *d = sheaf_distribute_datasets_from_function(s, dataset_fn, layer, NULL);
    sheaf_dist_iterator *it = sheaf_iterate(d);
    for (int i = 0; i < 3; i++) {
        sheaf_values *x = NULL;
        must(sheaf_next(it, &x, &err));
        printf("%s\n", sheaf_values_str(x));
    }
    sheaf_dist_iterator_free(it);
    sheaf_dist_dataset_free(d);
    sheaf_vocabulary_free(layer);
    sheaf_strategy_free(s);
    return 0;
}
